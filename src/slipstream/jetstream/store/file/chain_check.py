"""Whether the files of a tamper-evident stream are what was written: its hash chain, recomputed from its records.

    segments ──scan──► what was removed, erased, configured ──► every link again ──► intact, or the first that is not

A chain that holds proves that every record is there in its order, or its leaf is. Beyond that, a leaf may stand only
for a message that a record of the chain removes, the log may begin later than the stream only where such a record says
so, and what a start believes beside the segments (manifest, index files) must not say otherwise.

Whoever makes a chain of his own, or goes back to an older copy of the files, is found by a checkpoint: a place in the
chain that was written down elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from slipstream.dataclass import dataclass
from slipstream.errors import StorageFault
from slipstream.jetstream.store.chains import NO_HEAD, ChainBreak, ChainHead, ChainReport
from slipstream.jetstream.store.file.chain import first_link, new_links, with_erasures
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.manifest import Manifest
from slipstream.jetstream.store.file.recovery import recover_log
from slipstream.jetstream.store.file.segments.open_segment import encode_controls, index_path, scan_segment
from slipstream.jetstream.store.file.segments.segment import (
    HEADER_BYTES,
    EraseIntent,
    SegmentHeader,
    unpack_erase,
    unpack_state,
)
from slipstream.jetstream.store.ranges import Range, cover, subtract
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.record import CHAIN, CONFIG, ERASE, STATE, TOMBS, TRIM
from slipstream.kernels.log.segindex import decode_index, encode_index
from slipstream.kernels.log.segload import load_into
from slipstream.kernels.log.segscan import SegmentScan

__all__ = ["CheckedSegment", "check_chain", "check_directory"]


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """A segment, and where the log in it ends."""

    path: str
    header: SegmentHeader
    end: int


class _Broken(Exception):
    """The check ends here."""

    def __init__(self, problem: str, first_seq: int = 0, last_seq: int = 0) -> None:
        super().__init__(problem)
        self.found = ChainBreak(first_seq, last_seq or first_seq, problem)


@dataclass(slots=True)
class _Said:
    """What the records say about messages that are not there."""

    index: MessageIndex = field(default_factory=lambda: MessageIndex(0))
    first_seq: int = 1
    configs: list[bytes] = field(default_factory=list)
    tombs: list[bytes] = field(default_factory=list)
    intents: dict[int, EraseIntent] = field(default_factory=dict)
    leaves: dict[int, bytes] = field(default_factory=dict)
    begins: int = 0
    """First sequence of the first segment, as its STATE record has it."""
    chained: bool = False

    def learn(self, scan: SegmentScan) -> None:
        for kind, seq, _ts, key, payload in scan.controls:
            if kind == TOMBS:
                self.tombs.append(payload)
            elif kind == TRIM:
                self.first_seq = max(self.first_seq, seq)
            elif kind == STATE:
                first_seq, last_seq, _ = unpack_state(payload)
                self.first_seq = max(self.first_seq, first_seq)
                self.begins = self.begins or last_seq + 1
            elif kind == CONFIG:
                self.configs.append(payload)
            elif kind == ERASE:
                self.intents[seq] = unpack_erase(payload)
                if key:
                    self.leaves[seq] = key
            elif kind == CHAIN:
                self.chained = True

    def settle(self) -> None:
        for payload in self.tombs:
            self.index.delete_many(payload)
        for seq in self.intents:
            self.index.delete(seq)
        if self.first_seq > self.index.first_seq:
            self.index.trim_to(self.first_seq)

    def unexplained(self, missing: list[Range]) -> list[Range]:
        """Of messages that are not there, those that nothing removes."""
        removed: list[Range] = [(0, self.first_seq - 1)]
        left = subtract(cover(missing), removed)
        if not left:
            return []
        removed = [(seq, seq) for seq in self.intents]
        removed += [(seq, seq) for payload in self.tombs for seq in memoryview(payload).cast("Q")]
        return subtract(left, cover(removed))


def check_directory(disk: Disk, directory: str, *, wanted: ChainHead | None = None) -> ChainReport:
    """Check the files of a stream that no server has open; only reads.

    Raises:
        StorageFault: nothing in the directory can be used.
    """
    found = recover_log(disk, directory, seed=0, first_id=1)
    segments = [CheckedSegment(segment.path, segment.header, segment.end) for segment in found.segments]
    report = check_chain(disk, segments, found.uid, found.config, manifest=found.manifest, wanted=wanted)
    # A stretch or a file that cannot be read, and that the chain does without, holds nothing.
    if report.intact and found.lost:
        first, last = found.lost[0][0], found.lost[-1][1]
        return replace(report, broken=ChainBreak(first, last, "messages are lost"))
    return report


def check_chain(
    disk: Disk,
    segments: Sequence[CheckedSegment],
    uid: bytes,
    config: bytes | None,
    *,
    manifest: Manifest | None = None,
    wanted: ChainHead | None = None,
) -> ChainReport:
    """Check the segments of a log, in order.

    Args:
        disk: where they lie.
        segments: all of them.
        uid: identity of the stream.
        config: its configuration, as a start would take it; None: it may not be logged yet.
        manifest: what a start would believe beside them.
        wanted: a place that the chain must have been at.

    Raises:
        StorageFault: a file cannot be read.
    """
    said = _Said()
    links = new_links(uid)
    broken: ChainBreak | None = None
    try:
        scans = [scan_segment(disk.read(segment.path, 0, segment.end), segment.header) for segment in segments]
        for scan in scans:
            said.learn(scan)
        for number, (segment, scan) in enumerate(zip(segments, scans, strict=True), 1):
            if scan.regions:  # perhaps of an overwriting that was cut off
                data = with_erasures(disk.read(segment.path, 0, segment.end), segment.header, said.intents)
                scan = scan_segment(data, segment.header)
            if not len(scan) or scan.base_seq > said.index.last_seq:
                load_into(scan, said.index, number)
        said.settle()
        if not said.chained:
            return ChainReport(uid, config or b"", False, None, NO_HEAD, NO_HEAD, None)
        for segment in segments:
            data = with_erasures(disk.read(segment.path, 0, segment.end), segment.header, said.intents)
            if len(data) < segment.end:
                raise _Broken("a segment is shorter than the log in it")
            whole = links.check(
                data, HEADER_BYTES, segment.end, segment.header.salt, said.leaves, wanted.records if wanted else 0
            )
            if not whole:
                assert links.broken is not None
                raise _Broken(links.broken[2], links.broken[0], links.broken[1])
            if segment.header.uid != uid:
                raise _Broken("a segment of another stream")
            _check_index_file(disk, segment, data, said)
        _check_beginning(links.start, uid, said)
        _check_gone(links.gone, said)
        _check_beside(config, manifest, said)
        _check_wanted(links.found, wanted, links.start, links.count)
    except _Broken as error:
        broken = error.found
    except OSError as error:
        raise StorageFault(str(error), path=segments[0].path if segments else "") from error
    start = ChainHead(*links.start, max(said.begins - 1, 0)) if links.start is not None else NO_HEAD
    unlinked = links.unlinked_seqs if links.unlinked and broken is None else None
    last_seq = said.index.last_seq if broken is None else max(broken.first_seq - 1, 0)
    logged = said.configs[-1] if said.configs else b""
    return ChainReport(uid, logged, True, broken, start, ChainHead(links.count, links.head, last_seq), unlinked)


def _check_beginning(start: tuple[int, bytes] | None, uid: bytes, said: _Said) -> None:
    if start is None:
        raise _Broken("the log has no first link")
    count, link = start
    if count == 0:
        if link != first_link(uid):
            raise _Broken("the first link is not that of this stream")
    elif said.begins > said.first_seq:
        raise _Broken("the beginning is missing and nothing says that it was removed", 1, said.begins - 1)


def _check_gone(gone: list[Range], said: _Said) -> None:
    erased = [(seq, seq) for seq in said.leaves]
    unexplained = said.unexplained(gone + erased)
    if unexplained:
        raise _Broken("a message is missing and nothing says that it was removed", unexplained[0][0])


def _check_beside(config: bytes | None, manifest: Manifest | None, said: _Said) -> None:
    """What a start takes from outside the segments must not contradict them."""
    if not said.configs or (config is not None and config != said.configs[-1]):
        raise _Broken("the configuration is not the one that was logged last")
    if manifest is None:
        return
    if manifest.config not in said.configs:
        raise _Broken("the manifest has a configuration that was never logged")
    first_alive = said.index.first_seq if said.index.messages else said.index.last_seq + 1
    if manifest.first_seq > first_alive:
        raise _Broken("the manifest hides messages", first_alive, manifest.first_seq - 1)
    if manifest.last_seq > said.index.last_seq:
        raise _Broken("the end of the log is missing", said.index.last_seq + 1, manifest.last_seq)


def _check_index_file(disk: Disk, segment: CheckedSegment, data: bytes, said: _Said) -> None:
    """An index file that a start would believe says what the segment does."""
    path = index_path(segment.path)
    directory, name = path.rsplit("/", 1)
    if name not in disk.list_dir(directory):
        return
    file = disk.read(path, 0, disk.size(path))
    found = decode_index(file, segment.header.salt)
    if found is None or found[0].good_end != segment.end:
        return
    scan = scan_segment(data, segment.header, ends=True)
    if file == encode_index(scan, encode_controls(scan)):
        return
    # An erasure that was cut off may have left the index file as it was before.
    believed, real = MessageIndex(0), MessageIndex(0)
    load_into(found[0], believed, 1)
    load_into(scan, real, 1)
    for seq in said.intents:
        believed.delete(seq)
        real.delete(seq)
    if believed.live_seqs(1) != real.live_seqs(1) or not said.intents:
        raise _Broken("an index file does not say what its segment does", segment.header.first_seq)


def _check_wanted(found: bytes | None, wanted: ChainHead | None, start: tuple[int, bytes] | None, count: int) -> None:
    if wanted is None or (start is not None and wanted.records < start[0]):
        return
    if wanted.records > count:
        raise _Broken("the log ends before the checkpoint", 0, wanted.last_seq)
    if wanted.records == 0:
        found = start[1] if start is not None else None
    if found != wanted.link:
        raise _Broken("the log is not the one of the checkpoint", 0, wanted.last_seq)
