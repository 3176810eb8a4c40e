"""The writing half of a file store: its state, changes to it, and commits.

`store.FileStore` adds making, upkeep and closing.

Invariants: `committed_seq` moves only in `finish_commit` and only forward; after a fault nothing above it is readable
by a caller that respects it, and nothing above it comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from slipstream.errors import StorageFault
from slipstream.jetstream.store.base import Committed, Job, Lost, Read, StoreUnavailable
from slipstream.jetstream.store.file.compaction import CompactionJob
from slipstream.jetstream.store.file.disk import Disk
from slipstream.jetstream.store.file.jobs import CommitJob, Overwrite, SegmentWrite, as_fault
from slipstream.jetstream.store.file.journal import Journal, JournalWrite
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.ranges import cover, each
from slipstream.jetstream.store.file.recovery import RecoveryReport, index_path
from slipstream.jetstream.store.file.reserve import Reserve
from slipstream.jetstream.store.file.segment import EraseIntent, pack_erase, pack_seq
from slipstream.jetstream.store.file.upkeep import UpkeepJob
from slipstream.jetstream.store.indexed import IndexedReads
from slipstream.jetstream.store.notes import check_notes
from slipstream.jetstream.store.pieces import last_packed, purge_piece
from slipstream.kernels.record import (
    CONFIG,
    ERASE,
    NOTE,
    RECORD_HEAD,
    SKIP,
    TOMBS,
    TRIM,
    LogWriter,
    StoredMessage,
    erased_record,
)
from slipstream.kernels.subjectindex import MessageIndex
from slipstream.limits import (
    STORE_INLINE_BYTES_MAX,
    STORE_LOST_LISTED_MAX,
    STORE_SEGMENT_BYTES,
    STORE_SEGMENT_BYTES_MIN,
)

__all__ = ["FileStoreOptions", "FileStoreWrites"]

_TOMBS_PER_RECORD = 8192
_LENGTH_MASK = 0x3FFFFFFF
_LENGTH_EXPIRES = 0x40000000


@dataclass(frozen=True, slots=True)
class FileStoreOptions:
    """What a store needs from outside."""

    random64: Callable[[], int]
    """Random 64-bit numbers: salts and hash keys."""
    noise: Callable[[int], bytes]
    """That many random bytes, to overwrite erased messages."""
    now_ns: Callable[[], int]
    """Wall clock, only noted in segment headers."""
    segment_bytes: int = STORE_SEGMENT_BYTES
    reserve: Reserve | None = None


class FileStoreWrites(IndexedReads):
    """State, changes and commits."""

    def __init__(self, disk: Disk, directory: str, uid: bytes, config: bytes, options: FileStoreOptions) -> None:
        """Fields without a log in them; `FileStore` fills it."""
        self._disk = disk
        self._directory = directory
        self._options = options
        self._config = config
        self._log = SegmentedLog(disk, directory, uid, segment_bytes=options.segment_bytes, random64=options.random64)
        super().__init__(self._log.index)
        self._writer = self._log.writer
        self._journal = Journal(directory, uid, options.random64)
        self._committed_seq = 0
        self._committed_end = (0, 0)  # segment number and offset behind the last commit
        self._durable_first = 0  # every sequence below is known to be gone even if its segment is removed
        self._fault: StorageFault | None = None
        self._refusal: StorageFault | None = None  # why messages are refused: a fault, or a full disk
        self._closed = False
        self._expiries: list[tuple[int, int]] = []
        # What joins the next commit beside the frames in the writer:
        self._tombs = bytearray()
        self._trim = 0
        self._config_due = False  # set while a unit was open: logged behind it
        self._notes_due: dict[bytes, bytes] = {}  # the same for notes
        self._erasures: list[tuple[int, int]] = []  # sequence, time
        self._overwrites: list[tuple[int, int, EraseIntent]] = []  # erasures logged before and not yet carried out
        # Work in flight and left over:
        self._job: CommitJob | None = None
        self._upkeep: UpkeepJob | CompactionJob | None = None
        self._erased_beside_leftovers = 0
        self._upkeep_failed = False  # the last piece of upkeep did not succeed
        self._unsynced: set[str] = set()
        self._in_flight_first = 0  # trim that the commit in flight logs
        self._trimmed_first = 0  # highest trim in the log, synced or not
        self._marked = True  # a frame on disk vouches for the last commit
        self._manifest_version = 0
        self._manifest_due = False
        self._leftovers: list[str] = []
        self._dropped: set[str] = set()  # files of an abandoned unit: not worth a sync
        self._erased_meanwhile: list[tuple[int, int]] = []  # erasures since a compaction began
        self.report = RecoveryReport()
        """What the last opening or repair found."""

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def last_seq(self) -> int:
        """See `Store.last_seq`; while faulted, what was assigned above the last commit did not happen."""
        return self._index.last_seq if self._fault is None else self._committed_seq

    @property
    def committed_seq(self) -> int:
        """See `Store.committed_seq`."""
        return self._committed_seq

    @property
    def last_ts_ns(self) -> int:
        """See `Store.last_ts_ns`."""
        return self._writer.last_ts

    def direct_writer(self) -> LogWriter | None:
        """See `Store.direct_writer`."""
        return self._writer if self._refusal is None and self._log.unit is None else None

    @property
    def fault(self) -> StorageFault | None:
        """See `Store.fault`; a full disk counts, though removals are still taken then."""
        return self._refusal

    @property
    def config(self) -> bytes:
        """See `Store.config`."""
        return self._config

    def message_bytes(self, subject: int, headers: int, payload: int) -> int:
        """See `Store.message_bytes`."""
        return 30 + subject + payload + (4 + headers if headers else 0)

    def lost(self) -> Lost:
        """See `Store.lost`."""
        found = {seq: size for seq, size in self._damaged.items() if self._index.locate(seq) is not None}
        ranges = cover(self._lost_ranges + [(seq, seq) for seq in found])
        return Lost(list(each(ranges, STORE_LOST_LISTED_MAX)), sum(found.values()))

    def expiries(self) -> Iterable[tuple[int, int]]:
        """See `Store.expiries`."""
        return self._expiries

    def get(self, seq: int) -> Read | None:
        """See `Store.get`."""
        if self._fault is not None and seq > self._committed_seq:
            return None
        return super().get(seq)

    def _slice(self, segment: int, offset: int, least: int, most: int) -> tuple[bytes, int, int]:
        try:
            return self._log.slice(segment, offset, least, most)
        except OSError:
            return b"", offset, 0  # unreadable now: the caller looks again, then calls the message damaged

    def _slice_afresh(self, segment: int, offset: int, least: int) -> tuple[bytes, int, int]:
        try:
            return self._log.slice_afresh(segment, offset, least)
        except OSError:
            return b"", offset, 0

    # --- changing ---------------------------------------------------------------------------------------------------

    def append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0) -> None:
        """See `Store.append`."""
        if self._refusal is not None:
            raise self._refusal
        if self._log.unit is not None:
            raise StoreUnavailable("an atomic unit is being written", path=self._directory)
        self._append(seq, ts_ns, subject, headers, payload, expires_ns)

    def _append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int) -> None:
        if not self._writer.append(seq, ts_ns, subject, headers, payload, expires_ns):
            length = RECORD_HEAD + len(subject) + len(headers) + len(payload)
            self._prepare(seq, length)
            if not self._writer.append(seq, ts_ns, subject, headers, payload, expires_ns):
                raise AssertionError("the writer has room and expects this sequence")

    def _prepare(self, seq: int, length: int) -> None:
        """Log the gap before a sequence, and go on in a new segment if this one has no room for the message."""
        if seq > self._writer.last_seq + 1:
            self._log_gap(seq - 1)
        if not self._writer.has_room(length):
            self._log.make_room(length, self._config, self._writer.last_ts, self._options.now_ns())
            self._manifest_due = True

    def begin_atomic(self) -> None:
        """See `Store.begin_atomic`."""
        if self._refusal is not None:
            raise self._refusal
        self._log.begin_unit(MessageIndex(self._options.random64()))

    def append_atomic(
        self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0
    ) -> None:
        """See `Store.append_atomic`."""
        if self._refusal is not None:
            raise self._refusal
        if self._log.unit is None:
            raise ValueError("no unit is open")
        self._append(seq, ts_ns, subject, headers, payload, expires_ns)

    def end_atomic(self, notes: Mapping[bytes, bytes] | None = None) -> None:
        """See `Store.end_atomic`."""
        if self._refusal is not None:
            raise self._refusal
        if self._log.unit is None:
            raise ValueError("no unit is open")
        self._log_notes(notes or {})
        self._log.end_unit()

    def abort_atomic(self) -> None:
        """See `Store.abort_atomic`."""
        if self._log.unit is None or self._fault is not None:
            return  # after a fault the log is read anew, without the unit
        dropped = self._log.abandon_unit(self._config, self._options.now_ns())
        self._dropped |= {segment.path for segment in dropped}
        self._unsynced -= self._dropped
        self._leftovers += [segment.path for segment in dropped]
        self._manifest_due = True

    @property
    def atomic_open(self) -> bool:
        """See `Store.atomic_open`."""
        return self._log.unit is not None and self._fault is None

    def notes(self) -> dict[bytes, bytes]:
        """See `Store.notes`."""
        return {key: value for key, value in {**self._log.notes, **self._notes_due}.items() if value}

    def put_note(self, key: bytes, value: bytes) -> None:
        """See `Store.put_note`."""
        self._writable()
        if self._log.unit is not None:
            check_notes(self.notes(), {key: value})
            self._notes_due[key] = value
        else:
            self._log_notes({key: value})

    def _log_notes(self, notes: Mapping[bytes, bytes]) -> None:
        check_notes(self.notes(), notes)
        for key, value in notes.items():
            self._writer.control(NOTE, self._writer.last_seq, self._writer.last_ts, key, value)
            if value:
                self._log.notes[key] = value
            else:
                self._log.notes.pop(key, None)

    def skip_to(self, last_seq: int) -> None:
        """See `Store.skip_to`."""
        self._writable()
        if self._log.unit is not None:
            raise StoreUnavailable("an atomic unit is being written", path=self._directory)
        if last_seq > self._index.last_seq:
            self._log_gap(last_seq)

    def delete(self, seq: int) -> bool:
        """See `Store.delete`."""
        self._writable()
        if seq <= 0 or not self._index.delete(seq):
            return False
        self._tombs += pack_seq(seq)
        return True

    def erase(self, seq: int) -> bool:
        """See `Store.erase`."""
        self._writable()
        if seq <= 0 or self._index.locate(seq) is None:
            return False
        message = self.get(seq)
        self._index.delete(seq)
        self._erasures.append((seq, message.ts_ns if isinstance(message, StoredMessage) else 0))
        return True

    @property
    def erasing(self) -> int:
        """See `Store.erasing`."""
        in_flight = len(self._job.overwrites) if self._job is not None else 0
        waiting = len(self._erasures) + len(self._overwrites) + len(self._erased_meanwhile) + in_flight
        return waiting + (self._erased_beside_leftovers if self._leftovers else 0)

    def trim_to(self, first_seq: int) -> int:
        """See `Store.trim_to`."""
        self._writable()
        if self._log.unit is not None:
            first_seq = min(first_seq, self._index.last_seq + 1)  # the open unit stays what it is
        removed = self._index.trim_to(first_seq)
        self._trim = max(self._trim, first_seq)
        self._set_lost([(max(lo, first_seq), hi) for lo, hi in self._lost_ranges if hi >= first_seq])
        return removed

    def purge(self, subject: bytes = b"", *, up_to_seq: int = 0, keep: int = 0) -> int:
        """See `Store.purge`."""
        self._writable()
        index = self._index
        if not subject and not keep:
            removed = self.trim_to(up_to_seq or index.last_seq + 1)
            if not index.messages and self._writer.position > STORE_SEGMENT_BYTES_MIN and self._log.unit is None:
                # Nothing alive: go on in a fresh segment, so that all the old ones can be removed.
                self._log.roll(self._config, self._writer.last_ts, self._options.now_ns())
                self._manifest_due = True
            return removed
        last = min(up_to_seq - 1 if up_to_seq else index.last_seq, index.last_seq)
        gone = index.matching_seqs((subject,) if subject else (), last, keep)
        index.delete_many(gone)
        self._tombs += gone
        return len(gone) // 8

    def purge_some(self, subject: bytes, *, from_seq: int, up_to_seq: int, limit: int) -> tuple[int, int]:
        """See `Store.purge_some`."""
        self._writable()
        gone, following = purge_piece(self._index, subject, from_seq=from_seq, up_to_seq=up_to_seq, limit=limit)
        if subject:
            self._index.delete_many(gone)
            self._tombs += gone
        elif gone:
            self.trim_to(last_packed(gone) + 1)
        return len(gone) // 8, following

    def set_config(self, config: bytes) -> None:
        """See `Store.set_config`."""
        self._writable()
        self._config = config
        self._config_due = True
        if self._log.unit is None:
            self._log_config()
        self._manifest_due = True

    def _log_config(self) -> None:
        self._writer.control(CONFIG, self._index.last_seq, self._writer.last_ts, b"", self._config)
        self._config_due = False

    def journal_put(self, key: bytes, state: bytes) -> None:
        """See `Store.journal_put`."""
        self._journal.put(key, state)

    def journal_add(self, key: bytes, delta: bytes) -> None:
        """See `Store.journal_add`."""
        self._journal.add(key, delta)

    def journal_remove(self, key: bytes) -> None:
        """See `Store.journal_remove`."""
        self._journal.remove(key)

    def journal_entries(self) -> dict[bytes, list[bytes]]:
        """See `Store.journal_entries`."""
        return self._journal.entries()

    def _writable(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _set_lost(self, ranges: list[tuple[int, int]]) -> None:
        self._lost_ranges = ranges
        self._log.first_lost = ranges[0][0] if ranges else 0

    def _log_gap(self, last_seq: int) -> None:
        self._writer.control(SKIP, self._writer.last_seq + 1, self._writer.last_ts, b"", pack_seq(last_seq))
        (self._log.staged or self._index).skip_to(last_seq)

    # --- commit -----------------------------------------------------------------------------------------------------

    @property
    def uncommitted_bytes(self) -> int:
        """See `Store.uncommitted_bytes`."""
        in_flight = sum(len(write.data) for write in self._job.writes) if self._job is not None else 0
        return self._log.pending_bytes + self._journal.pending_bytes + in_flight

    def begin_commit(self, *, sync: bool = True) -> Job | None:
        """See `Store.begin_commit`."""
        if self._job is not None or self._fault is not None or self._closed:
            return None
        # While a unit is open nothing else may get into the log: it would be lost with the unit.
        unit = self._log.unit
        first_seq = 0 if unit is not None else self._trim
        overwrites = self._log_removals() if unit is None else []
        writes = self._log.take_writes()
        journal = self._journal.take()
        if not writes and journal is None and not overwrites and not (sync and self._unsynced):
            return None
        self._job = CommitJob(
            disk=self._disk,
            directory=self._directory,
            writes=writes,
            journal=journal,
            overwrites=overwrites,
            sync=sync,
            also_sync=set(self._unsynced),
            last_seq=self._index.last_seq,
            frame_no=self._writer.frame_no,
            end=self._end_of(writes),
            units=len(self._log.unit_segments) - (1 if unit is not None else 0),
            inline=not sync and not overwrites and _is_quick(writes, journal),
        )
        self._in_flight_first = first_seq
        return self._job

    def finish_commit(self, job: Job) -> Committed:
        """See `Store.finish_commit`."""
        assert job is self._job and self._job is not None
        done, self._job = self._job, None
        if done.fault is not None:
            self._fail(done.fault)
            return Committed(self._committed_seq, done.fault)
        self._committed_seq = done.last_seq
        if done.end is not None:
            self._committed_end = done.end
            self._marked = False
        if done.sync:
            self._unsynced = set()
            self._writer.synced_upto = done.frame_no
            del self._log.unit_segments[: done.units]
            if done.journal is not None:
                self._journal.synced(done.journal)
        else:
            self._unsynced -= {write.segment.path for write in done.writes}
            self._unsynced |= done.unsynced - self._dropped
        self._trimmed_first = max(self._trimmed_first, self._in_flight_first)
        if done.sync:
            self._durable_first = self._trimmed_first
        if done.nearly_full and self._refusal is None:
            self._refusal = StoreUnavailable("no space left on device", path=self._directory, full=True)
        self._log.finish_writes()
        if done.overwrites:
            self._log.drop_caches()
        return Committed(self._committed_seq)

    def commit_at_once(self, *, sync: bool) -> int:
        """See `Store.commit_at_once`."""
        log = self._log
        if (
            sync
            or self._job is not None
            or self._refusal is not None
            or self._closed
            or self._trim
            or self._tombs
            or self._erasures
            or self._overwrites
            or self._config_due
            or self._notes_due
            or log.unit is not None
            or self._journal.is_changed
        ):
            return -1
        try:
            if not log.write_at_once():
                return -1
        except OSError as error:
            fault = as_fault(error, self._directory)
            self._fail(fault)
            raise fault from error
        segment = log.segments[-1]
        self._committed_seq = segment.last_seq
        self._committed_end = (segment.header.no, segment.end)
        self._marked = False
        self._unsynced.add(segment.path)
        return segment.last_seq

    def _end_of(self, writes: list[SegmentWrite]) -> tuple[int, int] | None:
        """Where the log ends with these writes; before a unit that is still open."""
        if not writes:
            return None
        if self._log.unit is not None:
            segment, offset, _ = self._log.unit
            return segment.header.no, offset
        last = writes[-1]
        return last.segment.header.no, last.offset + len(last.data)

    def _log_removals(self) -> list[Overwrite]:
        """Put tombs, trims and intents to erase into the open frame; what is to be overwritten after it is synced."""
        if self._config_due:
            self._log_config()
        if self._notes_due:
            self._log_notes(self._notes_due)
            self._notes_due = {}
        if not (self._trim or self._tombs or self._erasures or self._overwrites):
            return []
        writer, last_seq, ts = self._writer, self._index.last_seq, self._writer.last_ts
        if self._trim:
            writer.control(TRIM, self._trim, ts, b"", b"")
            self._trim = 0
        if self._tombs:
            gone = bytes(self._tombs)
            self._tombs.clear()
            for at in range(0, len(gone), _TOMBS_PER_RECORD * 8):
                writer.control(TOMBS, last_seq, ts, b"", gone[at : at + _TOMBS_PER_RECORD * 8])
        overwrites: list[Overwrite] = []
        for seq, message_ts in self._erasures:
            intent = self._intent(seq)
            if intent is not None:
                writer.control(ERASE, seq, ts, b"", pack_erase(intent))
                overwrites += self._overwrite(seq, message_ts, intent)
        for seq, message_ts, where in self._overwrites:
            overwrites += self._overwrite(seq, message_ts, where)
        if isinstance(self._upkeep, CompactionJob):
            self._erased_meanwhile += self._erasures
        self._erasures = []
        self._overwrites = []
        return overwrites

    def _intent(self, seq: int) -> EraseIntent | None:
        """Where the record of a removed message lies."""
        place = self._index.record_place(seq)
        if place is None:
            return None
        header = self._log.segment(place[0]).header
        return EraseIntent(header.no, header.generation, place[1], place[2])

    def _overwrite(self, seq: int, ts: int, intent: EraseIntent) -> list[Overwrite]:
        segment = self._log.find(intent.no, intent.generation)
        if segment is None:
            return []
        length = (intent.length & _LENGTH_MASK) + (8 if intent.length & _LENGTH_EXPIRES else 0)
        noise = self._options.noise(length - RECORD_HEAD)
        record = erased_record(seq, ts, intent.length, segment.header.salt, noise)
        segment.erasures += 1
        # A superseded file that is not removed yet may hold another copy.
        self._erased_beside_leftovers = self._erased_beside_leftovers + 1 if self._leftovers else 0
        out = [Overwrite(segment.path, intent.offset, record)]
        if segment.indexed:
            # The index file names subjects as well. It is wiped here and made anew by upkeep.
            segment.indexed = False
            path = index_path(segment.path)
            out.append(Overwrite(path, 0, bytes(self._disk.size(path))))
        return out

    def _fail(self, fault: StorageFault) -> None:
        self._fault = self._refusal = fault
        self._journal.abandon()


def _is_quick(writes: list[SegmentWrite], journal: JournalWrite | None) -> bool:
    """Whether these are few bytes for files that exist: written in less time than it takes to wake a thread."""
    size = 0
    if journal is not None:
        if journal.replaces:
            return False
        size = len(journal.data)
    for write in writes:
        if write.creates or write.closes:
            return False
        size += len(write.data)
    return size <= STORE_INLINE_BYTES_MAX
