"""Messages in memory: the same contract as the file store, nothing survives the process.

Records are encoded as in a file, into slabs of about a mebibyte; the same index points into them. A slab is given back
when no message in it lives, and rewritten by upkeep when less than half of it does.

What this is not: durable. A commit succeeds at once (`Job.ended`), and nothing ever fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from slipstream.errors import StorageFault
from slipstream.jetstream.store.base import Committed, Job, Lost, StoreUnavailable
from slipstream.jetstream.store.indexed import IndexedReads
from slipstream.jetstream.store.limits import (
    STORE_COMPACT_LIVE_PERCENT,
    STORE_MEMORY_SLAB_BYTES,
    STORE_SCAN_STEP_RECORDS,
)
from slipstream.jetstream.store.notes import check_notes
from slipstream.jetstream.store.pieces import last_packed, purge_piece
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.segload import replace_in
from slipstream.kernels.log.segscan import SegmentScan

__all__ = ["MemoryStore"]

_UNBOUNDED = 1 << 31
_SALT = 0


class _Done:
    """A commit or piece of upkeep that needs no waiting."""

    ended = True

    def __init__(self, last_seq: int, last_ts_ns: int) -> None:
        self.last_seq = last_seq
        self.last_ts_ns = last_ts_ns

    def run(self) -> None:
        """Nothing to wait for."""


class MemoryStore(IndexedReads):
    """A `Store` without files."""

    def __init__(self, config: bytes, *, random64: Callable[[], int], first_seq: int = 1) -> None:
        """Start empty.

        Args:
            config: the stream's configuration.
            random64: source of random 64-bit numbers.
            first_seq: sequence of the first message to come.
        """
        super().__init__(MessageIndex(random64(), file_sizes=False))
        self._config = config
        self._writer = LogWriter(self._index)
        self._slabs: dict[int, bytes] = {}  # number -> records; the open one is in the writer
        self._slab_no = 1  # highest number given to a slab
        self._writer.open_segment(self._slab_no, _SALT, 0, _UNBOUNDED, 0)
        self._entries: dict[bytes, list[bytes]] = {}
        self._notes: dict[bytes, bytes] = {}
        self._random64 = random64
        # Where the open unit began, None without one: slab, offset in it, time of the last message before.
        self._unit: tuple[int, int, int] | None = None
        self._staged: MessageIndex | None = None  # the messages of the open unit
        self.committed_seq = first_seq - 1
        self._dirty = False
        self._job: _Done | None = None
        self._index.skip_to(first_seq - 1)

    def keep_removed(self, since_ns: Callable[[], int]) -> None:
        """See `Store.keep_removed`: memory is given back at once, since nothing is read anew after a start."""

    def _slice(self, segment: int, offset: int, least: int, most: int) -> tuple[bytes, int, int]:
        slab = self._slabs.get(segment)
        if slab is not None:
            return slab, 0, _SALT
        writer = self._writer
        length = min(most, writer.position - offset)
        return writer.peek(offset, length) or b"", offset, _SALT

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def last_ts_ns(self) -> int:
        """See `Store.last_ts_ns`."""
        return self._writer.last_ts

    def direct_writer(self) -> LogWriter | None:
        """See `Store.direct_writer`."""
        return self._writer if self._unit is None else None

    @property
    def fault(self) -> StorageFault | None:
        """Never one."""
        return None

    @property
    def config(self) -> bytes:
        """See `Store.config`."""
        return self._config

    def set_config(self, config: bytes) -> None:
        """See `Store.set_config`."""
        self._config = config
        self._dirty = True

    def message_bytes(self, subject: int, headers: int, payload: int) -> int:
        """See `Store.message_bytes`."""
        return subject + headers + payload + 16

    def lost(self) -> Lost:
        """See `Store.lost`: memory loses nothing while it lasts."""
        return Lost([], 0)

    def expiries(self) -> Iterable[tuple[int, int]]:
        """See `Store.expiries`: nothing is there when a memory store begins."""
        return ()

    # --- changing ---------------------------------------------------------------------------------------------------

    def append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0) -> None:
        """See `Store.append`."""
        if self._unit is not None:
            raise StoreUnavailable("an atomic unit is being written")
        self._append(seq, ts_ns, subject, headers, payload, expires_ns)

    def _append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int) -> None:
        writer = self._writer
        if writer.pending_bytes >= STORE_MEMORY_SLAB_BYTES:
            self._close_slab()
        if not writer.append(seq, ts_ns, subject, headers, payload, expires_ns):
            (self._staged or self._index).skip_to(seq - 1)
            writer.append(seq, ts_ns, subject, headers, payload, expires_ns)
        self._dirty = True

    def begin_atomic(self) -> None:
        """See `Store.begin_atomic`."""
        writer = self._writer
        last_ts_ns = writer.last_ts
        self.assigned.removals.log()
        self._staged = MessageIndex(self._random64(), file_sizes=False)
        writer.begin_unit(self._staged)
        self._unit = (writer.segment, writer.position, last_ts_ns)

    def append_atomic(
        self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0
    ) -> None:
        """See `Store.append_atomic`."""
        if self._unit is None:
            raise ValueError("no unit is open")
        self._append(seq, ts_ns, subject, headers, payload, expires_ns)

    def end_atomic(self, notes: Mapping[bytes, bytes] | None = None) -> None:
        """See `Store.end_atomic`."""
        if self._unit is None:
            raise ValueError("no unit is open")
        check_notes(self._notes, notes or {})
        self._writer.end_unit()
        self._unit = self._staged = None
        for key, value in (notes or {}).items():
            self.put_note(key, value)
        self._dirty = True

    def abort_atomic(self) -> None:
        """See `Store.abort_atomic`."""
        if self._unit is not None:
            slab, offset, last_ts_ns = self._unit
            self._writer.abandon_unit(offset if slab == self._writer.segment else 0, last_ts_ns)
            self._unit = self._staged = None

    @property
    def atomic_open(self) -> bool:
        """See `Store.atomic_open`."""
        return self._unit is not None

    def notes(self) -> dict[bytes, bytes]:
        """See `Store.notes`."""
        return dict(self._notes)

    def put_note(self, key: bytes, value: bytes) -> None:
        """See `Store.put_note`."""
        check_notes(self._notes, {key: value})
        if value:
            self._notes[key] = value
        else:
            self._notes.pop(key, None)
        self._dirty = True

    def skip_to(self, last_seq: int) -> None:
        """See `Store.skip_to`."""
        if self._unit is not None:
            raise StoreUnavailable("an atomic unit is being written")
        self._index.skip_to(last_seq)
        self._dirty = True

    def delete(self, seq: int) -> bool:
        """See `Store.delete`."""
        self._dirty = True
        return seq > 0 and self.assigned.removals.remove(seq)

    def erase(self, seq: int) -> bool:
        """See `Store.erase`: the bytes go when the slab is rewritten, and never to a disk."""
        return self.delete(seq)

    @property
    def erasing(self) -> int:
        """See `Store.erasing`."""
        return 0

    @property
    def erased(self) -> tuple[int, int]:
        """See `Store.erased`: nothing has to wait."""
        return 0, 0

    def trim_to(self, first_seq: int) -> int:
        """See `Store.trim_to`."""
        self._dirty = True
        if self._unit is not None:
            first_seq = min(first_seq, self._index.last_seq + 1)  # the open unit stays what it is
        return self.assigned.removals.remove_below(first_seq)

    def purge(self, subject: bytes = b"", *, up_to_seq: int = 0, keep: int = 0) -> int:
        """See `Store.purge`."""
        self._dirty = True
        removals, last_seq = self.assigned.removals, self._index.last_seq
        if not subject and not keep:
            return self.trim_to(up_to_seq or last_seq + 1)
        last = min(up_to_seq - 1 if up_to_seq else last_seq, last_seq)
        return len(removals.remove_many(removals.matching_seqs((subject,) if subject else (), last, keep))) // 8

    def purge_some(self, subject: bytes, *, from_seq: int, up_to_seq: int, limit: int) -> tuple[int, int]:
        """See `Store.purge_some`."""
        gone, following = purge_piece(self.assigned, subject, from_seq=from_seq, up_to_seq=up_to_seq, limit=limit)
        self._dirty = True
        if subject:
            self.assigned.removals.remove_many(gone)
        elif gone:
            self.trim_to(last_packed(gone) + 1)
        return len(gone) // 8, following

    # --- consumer state ---------------------------------------------------------------------------------------------

    def journal_put(self, key: bytes, state: bytes) -> None:
        """See `Store.journal_put`."""
        self._entries[key] = [state]
        self._dirty = True

    def journal_add(self, key: bytes, delta: bytes) -> None:
        """See `Store.journal_add`."""
        self._entries[key].append(delta)
        self._dirty = True

    def journal_remove(self, key: bytes) -> None:
        """See `Store.journal_remove`."""
        self._entries.pop(key, None)
        self._dirty = True

    def journal_entries(self) -> dict[bytes, list[bytes]]:
        """See `Store.journal_entries`."""
        return {key: list(parts) for key, parts in self._entries.items()}

    # --- commit and upkeep ------------------------------------------------------------------------------------------

    @property
    def uncommitted_bytes(self) -> int:
        """Nothing waits."""
        return 0

    def begin_commit(self, *, sync: bool = True, inline: bool = False) -> Job | None:
        """See `Store.begin_commit`."""
        if self._job is not None or not (self._dirty or self.committed_seq < self._index.last_seq):
            return None
        self._dirty = False
        if self._writer.pending_bytes >= STORE_MEMORY_SLAB_BYTES and self._unit is None:
            self._close_slab()
        self._job = _Done(self._index.last_seq, self._writer.last_ts)
        if self._unit is None:
            self.assigned.removals.log()
        else:
            self._dirty = bool(self.assigned.removals)  # what was removed beside the unit comes behind it
        self.assigned.removals.take()
        return self._job

    def finish_commit(self, job: Job) -> Committed:
        """See `Store.finish_commit`."""
        assert job is self._job and self._job is not None
        self.committed_seq, self.committed_ts_ns = self._job.last_seq, self._job.last_ts_ns
        self._job = None
        self.assigned.removals.settle()
        return Committed(self.committed_seq)

    def give_up(self, fault: StorageFault) -> None:
        """See `Store.give_up`. What is in memory stays: there is nothing it could differ from."""
        if self._job is not None:
            self.finish_commit(self._job)

    @property
    def upkeep_due(self) -> bool:
        """See `Store.upkeep_due`."""
        return bool(self._slabs)

    def begin_upkeep(self) -> Job | None:
        """Give back slabs without messages and rewrite one that is mostly dead; done inline."""
        untouchable = self._unit[0] if self._unit is not None else self._slab_no + 1  # slabs of an open unit
        for slab in [number for number in self._slabs if not self._index.segment_has_live(number)]:
            if slab < untouchable:
                del self._slabs[slab]
                self._index.drop_segment(slab)
        for slab, data in self._slabs.items():
            if slab >= untouchable:
                continue
            _count, alive = self._index.segment_live(slab)
            if alive * 100 < len(data) * STORE_COMPACT_LIVE_PERCENT:
                self._rewrite(slab, data)
                break
        return None

    def finish_upkeep(self, job: Job) -> None:
        """Never called: `begin_upkeep` leaves nothing to finish."""
        raise AssertionError("memory upkeep has no jobs")

    def scrub_next(self) -> bool:
        """See `Store.scrub_next`: memory is not read back."""
        return False

    def close(self) -> None:
        """See `Store.close`."""

    def destroy(self) -> None:
        """See `Store.destroy`."""
        self._index.clear(self._index.last_seq)
        self._slabs.clear()

    def _close_slab(self) -> None:
        self._slabs[self._writer.segment] = self._writer.take()
        self._slab_no += 1
        self._writer.open_segment(self._slab_no, _SALT, 0, _UNBOUNDED, self._writer.frame_no)

    def _rewrite(self, slab: int, data: bytes) -> None:
        live = memoryview(self._index.live_seqs(slab)).cast("Q")
        writer = LogWriter(None)
        writer.open_segment(0, _SALT, 0, _UNBOUNDED, 0)
        for seq in live:
            place = self._index.locate(seq)
            assert place is not None
            writer.copy(data, place[1], _SALT)
        fresh = writer.take()
        scan = SegmentScan(fresh, 0, _SALT, live[0], 0)
        while scan.step(STORE_SCAN_STEP_RECORDS):
            pass
        self._slab_no += 1
        replace_in(scan, self._index, {slab}, self._slab_no)
        del self._slabs[slab]
        self._slabs[self._slab_no] = fresh
