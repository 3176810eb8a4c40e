"""Messages in memory: the same contract as the file store, nothing survives the process.

Records are encoded as in a file and kept in `slabs`; the same index points into them.

What this is not: durable. A commit succeeds at once (`Job.ended`), and nothing ever fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from slipstream.errors import StorageFault
from slipstream.jetstream.store.chains import NO_HEAD, ChainHead, ChainReport
from slipstream.jetstream.store.damage import Damage
from slipstream.jetstream.store.indexed import IndexedReads
from slipstream.jetstream.store.memory.bulk import MemoryBulkAccess
from slipstream.jetstream.store.memory.journal import MemoryJournal
from slipstream.jetstream.store.memory.slabs import Slabs
from slipstream.jetstream.store.notes import check_notes
from slipstream.jetstream.store.packed.codecs import Codec
from slipstream.jetstream.store.pieces import last_packed, purge_piece
from slipstream.jetstream.store.state import StoreState
from slipstream.jetstream.store.values import Committed, CommitWork, Job, StoreUnavailable
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.logwriter import LogWriter

__all__ = ["MemoryStore"]


class _Done:
    """A commit or piece of upkeep that needs no waiting."""

    ended = True

    def __init__(self, last_seq: int, last_ts_ns: int) -> None:
        self.last_seq = last_seq
        self.last_ts_ns = last_ts_ns

    def run(self) -> None:
        """Nothing to wait for."""

    def attend(self) -> bool:
        """See `CommitWork.attend`."""
        return True


class MemoryStore(IndexedReads):
    """A `Store` without files."""

    def __init__(self, config: bytes, *, random64: Callable[[], int], first_seq: int = 1) -> None:
        """Start empty.

        Args:
            config: the stream's configuration.
            random64: source of random 64-bit numbers.
            first_seq: sequence of the first message to come.
        """
        index = MessageIndex(random64(), file_sizes=False)
        index.skip_to(first_seq - 1)
        self.slabs = Slabs(index)
        """The records; for bulk reads, and for tests."""
        super().__init__(StoreState(index, config, committed_seq=first_seq - 1), self.slabs, Damage())
        self.journal = MemoryJournal()
        """See `Store.journal`."""
        self.bulk = MemoryBulkAccess(self.state, self.slabs)
        """See `Store.bulk`."""
        self._notes: dict[bytes, bytes] = {}
        self._random64 = random64
        self._dirty = False
        self._job: _Done | None = None

    @property
    def chain_head(self) -> ChainHead | None:
        """See `Store.chain_head`: nothing lies where somebody could change it."""
        return None

    def check_chain(self, wanted: ChainHead | None, done: Callable[[ChainReport | StorageFault], None]) -> None:
        """See `Store.check_chain`."""
        done(ChainReport(b"", self.config, False, None, NO_HEAD, NO_HEAD, None))

    def keep_removed(self, since_ns: Callable[[], int]) -> None:
        """See `Store.keep_removed`: memory is given back at once, since nothing is read anew after a start."""

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def last_ts_ns(self) -> int:
        """See `Store.last_ts_ns`."""
        return self.slabs.writer.last_ts

    def direct_writer(self) -> LogWriter | None:
        """See `Store.direct_writer`."""
        return self.slabs.writer if not self.slabs.is_unit_open else None

    def compress(self, codec: Codec) -> None:
        """See `Store.compress`: what is in memory is not."""

    def set_config(self, config: bytes) -> None:
        """See `Store.set_config`."""
        self.state.config = config
        self._dirty = True

    def message_bytes(self, subject: int, headers: int, payload: int) -> int:
        """See `Store.message_bytes`."""
        return subject + headers + payload + 16

    def count_as_memory(self) -> None:
        """See `Store.count_as_memory`: it never counted otherwise."""

    def expiries(self) -> Iterable[tuple[int, int]]:
        """See `Store.expiries`: nothing is there when a memory store begins."""
        return ()

    # --- changing ---------------------------------------------------------------------------------------------------

    def append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0) -> None:
        """See `Store.append`."""
        if self.slabs.is_unit_open:
            raise StoreUnavailable("an atomic unit is being written")
        self.slabs.append(seq, ts_ns, subject, headers, payload, expires_ns)
        self._dirty = True

    def begin_atomic(self) -> None:
        """See `Store.begin_atomic`."""
        self.state.assigned.removals.log()
        self.slabs.begin_unit(MessageIndex(self._random64(), file_sizes=False))

    def append_atomic(
        self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int = 0
    ) -> None:
        """See `Store.append_atomic`."""
        if not self.slabs.is_unit_open:
            raise ValueError("no unit is open")
        self.slabs.append(seq, ts_ns, subject, headers, payload, expires_ns)
        self._dirty = True

    def end_atomic(self, notes: Mapping[bytes, bytes] | None = None) -> None:
        """See `Store.end_atomic`."""
        if not self.slabs.is_unit_open:
            raise ValueError("no unit is open")
        check_notes(self._notes, notes or {})
        self.slabs.end_unit()
        for key, value in (notes or {}).items():
            self.put_note(key, value)
        self._dirty = True

    def abort_atomic(self) -> None:
        """See `Store.abort_atomic`."""
        self.slabs.abandon_unit()

    @property
    def atomic_open(self) -> bool:
        """See `Store.atomic_open`."""
        return self.slabs.is_unit_open

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
        if self.slabs.is_unit_open:
            raise StoreUnavailable("an atomic unit is being written")
        self.state.index.skip_to(last_seq)
        self._dirty = True

    def delete(self, seq: int) -> bool:
        """See `Store.delete`."""
        self._dirty = True
        return seq > 0 and self.state.assigned.removals.remove(seq)

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
        if self.slabs.is_unit_open:
            first_seq = min(first_seq, self.state.index.last_seq + 1)  # the open unit stays what it is
        return self.state.assigned.removals.remove_below(first_seq)

    def purge(self, subject: bytes = b"", *, up_to_seq: int = 0, keep: int = 0) -> int:
        """See `Store.purge`."""
        self._dirty = True
        removals, last_seq = self.state.assigned.removals, self.state.index.last_seq
        if not subject and not keep:
            return self.trim_to(up_to_seq or last_seq + 1)
        last = min(up_to_seq - 1 if up_to_seq else last_seq, last_seq)
        return len(removals.remove_many(removals.matching_seqs((subject,) if subject else (), last, keep))) // 8

    def purge_some(self, subject: bytes, *, from_seq: int, up_to_seq: int, limit: int) -> tuple[int, int]:
        """See `Store.purge_some`."""
        gone, following = purge_piece(self.state.assigned, subject, from_seq=from_seq, up_to_seq=up_to_seq, limit=limit)
        self._dirty = True
        if subject:
            self.state.assigned.removals.remove_many(gone)
        elif gone:
            self.trim_to(last_packed(gone) + 1)
        return len(gone) // 8, following

    def begin_afresh(self) -> None:
        """See `Store.begin_afresh`: nothing is left of what is removed."""

    # --- commit and upkeep ------------------------------------------------------------------------------------------

    @property
    def uncommitted_bytes(self) -> int:
        """Nothing waits."""
        return 0

    @property
    def _is_changed(self) -> bool:
        return self._dirty or self.journal.is_changed or self.state.committed_seq < self.state.index.last_seq

    def begin_commit(self, *, sync: bool = True, inline: bool = False) -> CommitWork | None:
        """See `Store.begin_commit`."""
        state, slabs = self.state, self.slabs
        if self._job is not None or not (state.committed_seq < state.index.last_seq or self._is_changed):
            return None
        removals = state.assigned.removals
        self.journal.is_changed = False
        if slabs.is_unit_open:
            self._dirty = bool(removals)  # what was removed beside the unit comes behind it
        else:
            self._dirty = False
            slabs.close_full()
            removals.log()
        removals.take()
        self._job = job = _Done(state.index.last_seq, slabs.writer.last_ts)
        return job

    def finish_commit(self, job: Job) -> Committed:
        """See `Store.finish_commit`."""
        assert job is self._job and self._job is not None
        state, last_seq = self.state, self._job.last_seq
        state.committed_seq, state.committed_ts_ns = last_seq, self._job.last_ts_ns
        self._job = None
        state.assigned.removals.settle()
        return Committed(last_seq)

    def give_up(self, fault: StorageFault) -> None:
        """See `Store.give_up`. What is in memory stays: there is nothing it could differ from."""
        if self._job is not None:
            self.finish_commit(self._job)

    @property
    def upkeep_due(self) -> bool:
        """See `Store.upkeep_due`."""
        return self.slabs.is_closed_any

    def begin_upkeep(self) -> Job | None:
        """See `Store.begin_upkeep`: done inline."""
        self.slabs.give_back()
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
        self.state.index.clear(self.state.index.last_seq)
        self.slabs.clear()
