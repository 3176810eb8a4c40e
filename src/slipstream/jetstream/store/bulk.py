"""Stretches of a stream's log for bulk readers: chosen on the loop, read in a thread, never message by message.

    begin_read ──► ReadJob ──run, in a thread──► records keyed by 0, as `kernels.bulkscan.Chunk` makes them, in bytes
                                                 of their own or in memory that the reader gave

Records are read to where they belong. Only where they have many narrow gaps between them, they are read together with
what is in the gaps, and copied.

Only committed messages are given, so their bytes are in files (or slabs) that nobody writes any more, except to erase
them. What cannot be copied that way is looked at again by `read_slowly`: a file that a compaction replaced meanwhile,
an erased message, damage.

What this is not: policy. Who reads how much and when is decided in `slipstream.jetstream.bulk`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from slipstream.dataclass import dataclass
from slipstream.jetstream.store.contract import BulkAccess, StoreMessages
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.limits import (
    BULK_EXTENTS_MAX,
    BULK_GAP_BYTES_MAX,
    BULK_NARROW_GAPS_MAX,
    BULK_PLACE_BYTES_MAX,
    BULK_PLACE_BYTES_MIN,
    BULK_PLACES_FILES_MAX,
    BULK_PLACES_MAX,
    BULK_PLACES_MSGS_MAX,
    BULK_READ_BYTES_MAX,
    BULK_SCAN_ENTRIES,
    BULK_SLOW_MSGS,
    BULK_STRETCH_BYTES,
    BULK_STRETCHES_AT_ONCE,
)
from slipstream.jetstream.store.values import Damaged, Filters
from slipstream.kernels.bulk.bulkchoose import measure, name_places, pick
from slipstream.kernels.bulk.bulkscan import Chunk, encode_message
from slipstream.kernels.bulk.stagedrows import written_under
from slipstream.kernels.index.subjectindex import Selection
from slipstream.kernels.log.record import crc32c

__all__ = [
    "Mark",
    "ReadJob",
    "RecordSpan",
    "SlowChunk",
    "begin_read",
    "find_places",
    "measure_step",
    "read_slowly",
    "unit_subject_state",
]

_PLACE_BYTES = 16  # of a stretch: offset and length

Mark = tuple[int, int, int]
"""Last sequence of a stretch, its messages, the bytes of their records."""


@dataclass(slots=True)
class _Extent:
    """One read, with gaps."""

    first: int  # entries of the selection it holds
    stop: int
    read: Callable[[], bytes]
    base: int
    salt: int


@dataclass(slots=True)
class _Stretches:
    """Reads of one segment, each without gaps."""

    first: int
    stop: int
    path: str
    places: bytes  # as `Disk.read_stretches` takes them
    length: int
    salt: int


@dataclass(frozen=True, slots=True)
class RecordSpan:
    """Whole records of a file, back to back."""

    path: str
    offset: int
    length: int
    salt: int
    """Key of their checksums."""
    rows: int
    first: int
    """Sequence of the first message."""


@dataclass(slots=True)
class ReadJob:
    """One chunk in the making. After `run`: `chunk`, or `stale` when files changed and it should be begun again."""

    chunk: Chunk
    next_seq: int
    """Where the next chunk begins; above the end of the range when this is the last."""
    picked: int
    """Messages it should hold."""
    disk: Disk | None
    """Where the files are; None if everything is in memory."""
    extents: list[_Extent] = field(default_factory=list)
    stretches: list[_Stretches] = field(default_factory=list)
    """Either these or extents."""
    stale: bool = False

    def run_at_once(self) -> bool:
        """Read without waiting, if that is possible; else nothing was done."""
        if self.disk is None or not self.picked:
            self.run()
            return True
        if self.extents or sum(len(one.places) for one in self.stretches) > _PLACE_BYTES * BULK_STRETCHES_AT_ONCE:
            return False
        return self._read_stretches(self.disk, wait=False)

    def run(self) -> None:
        """Read and copy. A read that fails makes the job stale; nothing is raised."""
        try:
            for extent in self.extents:
                self.chunk.fill(extent.first, extent.stop, extent.read(), extent.base, extent.salt)
            if self.stretches:
                assert self.disk is not None
                self._read_stretches(self.disk, wait=True)
        except OSError:
            self.stale = True

    def _read_stretches(self, disk: Disk, *, wait: bool) -> bool:
        """Read everything, then look at it; without `wait` only if all of it is there."""
        space, at = self.chunk.space(), 0
        read: list[tuple[_Stretches, int, int]] = []
        for one in self.stretches:
            done = disk.read_stretches(one.path, one.places, space[at : at + one.length], wait=wait)
            if done < one.length and not wait:
                return False
            read.append((one, at, done))
            at += one.length
        for one, at, done in read:
            self.chunk.settle(one.first, one.stop, at, done, one.salt)
        return True


def begin_read(
    access: BulkAccess,
    filters: Filters,
    from_seq: int,
    up_to_seq: int,
    *,
    max_bytes: int,
    selection: Selection,
    crc: int,
    room: memoryview | None = None,
) -> ReadJob:
    """Prepare the next chunk of a range.

    `selection`, and `room` if the records fit there, must not be used for anything else until the job is done.
    """
    job = _picked(access, filters, from_seq, up_to_seq, max(max_bytes // 64, 1), max_bytes, selection, crc, room)
    narrow, wide = job.chunk.breaks(BULK_GAP_BYTES_MAX)
    sealed = access.disk is not None and not access.disk.seal.direct  # what is between stretches is opened in vain
    if access.disk is not None and (sealed or narrow <= max(wide, BULK_NARROW_GAPS_MAX)):
        at = _add_stretches(job, access, max(max_bytes // BULK_STRETCH_BYTES, 1))
    else:
        at = _add_extents(job, access)
    if at < job.picked:
        # The rest is far apart: it is for the next chunk.
        job.next_seq, job.picked = selection.place(at)[0], at
    return job


def find_places(
    access: BulkAccess, filters: Filters, from_seq: int, up_to_seq: int, *, max_bytes: int
) -> tuple[int, int, list[RecordSpan]] | None:
    """Where the next records of a range lie, if that is a few stretches of files and nothing between them.

    Returns where to go on from, how many messages that are, and the places.
    """
    if access.disk is None or not access.disk.seal.direct:
        return None
    found: list[tuple[int, int, int, int, int]] = []
    next_seq, rows = name_places(
        access.index,
        filters,
        from_seq,
        min(up_to_seq, access.committed_seq),
        BULK_PLACES_MSGS_MAX,
        max_bytes,
        BULK_SCAN_ENTRIES,
        BULK_PLACE_BYTES_MAX,
        BULK_PLACES_MAX,
        found,
    )
    scattered = sum(length for _, _, length, _, _ in found) < BULK_PLACE_BYTES_MIN * (len(found) - 1)
    segments = {one[0] for one in found}
    if not all(map(access.is_direct, segments)):
        return None
    files = {segment: access.segment_file(segment) for segment in segments}
    if not rows or scattered or len(files) > BULK_PLACES_FILES_MAX:
        return None
    places = [
        RecordSpan(files[segment][0], offset, length, files[segment][1], messages, first)
        for segment, offset, length, messages, first in found
    ]
    return next_seq, rows, places


def _picked(
    access: BulkAccess,
    filters: Filters,
    from_seq: int,
    up_to_seq: int,
    max_msgs: int,
    max_bytes: int,
    selection: Selection,
    crc: int,
    room: memoryview | None,
) -> ReadJob:
    up_to_seq = min(up_to_seq, access.committed_seq)
    next_seq = pick(access.index, filters, from_seq, up_to_seq, max_msgs, max_bytes, BULK_SCAN_ENTRIES, selection)
    return ReadJob(Chunk(selection, 0, crc, room), next_seq, len(selection), access.disk)


def _add_extents(job: ReadJob, access: BulkAccess) -> int:
    """Find the reads with gaps that a job needs; how many messages they hold."""
    at = 0
    while len(job.extents) < BULK_EXTENTS_MAX:
        found = job.chunk.extent(at, BULK_GAP_BYTES_MAX, BULK_READ_BYTES_MAX)
        if found is None:
            break
        segment, offset, length, stop = found
        read, base, salt = access.read_later(segment, offset, length)
        job.extents.append(_Extent(at, stop, read, base, salt))
        at = stop
    return at


def _add_stretches(job: ReadJob, access: BulkAccess, most: int) -> int:
    """The same for reads without gaps, as many as `most`."""
    at = 0
    while most > 0 and (found := job.chunk.stretches(at, most)) is not None:
        segment, places, length, stop = found
        path, salt = access.segment_file(segment)
        job.stretches.append(_Stretches(at, stop, path, places, length, salt))
        most -= len(places) // _PLACE_BYTES
        at = stop
    return at


@dataclass(frozen=True, slots=True)
class SlowChunk:
    """A chunk that was put together message by message."""

    data: bytes
    rows: int
    crc: int
    damaged: list[int]
    """Sequences that are stored and cannot be read."""


def read_slowly(store: StoreMessages, filters: Filters, from_seq: int, up_to_seq: int, crc: int) -> SlowChunk:
    """The stretch that a `ReadJob` could not copy: as it is now, with all the store knows about damage."""
    records: list[bytes] = []
    damaged: list[int] = []
    seq = from_seq
    while seq <= up_to_seq:
        batch = store.read_batch(
            filters, seq, max_msgs=BULK_SLOW_MSGS, max_bytes=BULK_READ_BYTES_MAX, up_to_seq=up_to_seq
        )
        if not batch:
            break
        for message in batch:
            if isinstance(message, Damaged):
                damaged.append(message.seq)
            else:
                records.append(encode_message(message))
                crc = crc32c(records[-1][:4], crc)
        seq = batch[-1].seq + 1
    return SlowChunk(b"".join(records), len(records), crc, damaged)


def measure_step(
    access: BulkAccess,
    filters: Filters,
    from_seq: int,
    up_to_seq: int,
    *,
    every: int,
    max_msgs: int,
    max_bytes: int,
    marks: list[Mark],
    marks_max: int,
) -> tuple[int, bool]:
    """Measure a part of a range, as much as takes a millisecond: see `kernels.bulkchoose.measure`."""
    return measure(
        access.index, filters, from_seq, up_to_seq, every, max_msgs, max_bytes, BULK_SCAN_ENTRIES, marks, marks_max
    )


def unit_subject_state(access: BulkAccess, subject: bytes) -> tuple[int, int, int]:
    """First, last and count of what the open unit holds under a literal subject."""
    writer = access.unit_writer()
    return written_under(writer, subject) if writer is not None else (0, 0, 0)
