"""Group commit of one stream: what was decided leaves the server only when it is on disk.

States::

    idle ──wake──► scheduled ──end of turn──► in flight ──done──► idle, or in flight again if more arrived
      ▲                             │
      └─────── done inline ◄─────────┘  (few messages, nobody waits for the device)

While very many commits of other streams are in flight, one stays scheduled behind them, and what arrives joins it.

Everything that must not be seen before its commit (acks, refusals that depend on assigned sequences, API answers,
republished messages) waits in the intake's `pending`, in the order it was decided. A commit takes all of it; when it is
done, consumers are told of what it removed, then the batch is let go in order, then consumers are told of the new
messages. What arrives meanwhile is the next commit's batch. An erasure is overwritten by the commit behind its own, or
later (a compaction was copying the message): what waits for it is looked at again after every commit and every piece of
upkeep.

Invariants: the intake is open only while a commit is scheduled, or on stand-by from the beginning of a commit on and
until a fault or upkeep, which may put another writer in the place of the one it knows. An item leaves `pending` exactly
once, and after a fault no item that depended on lost data says success. No exception of a callback, a listener or the
store leaves the committer in between: a callback's is reported and the rest goes on, the store's is a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.guard import call, each, guarded
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Job, StoreUnavailable
from slipstream.jetstream.stream.commit.pubacks import PubAcks
from slipstream.jetstream.stream.limits import STREAM_UPKEEP_IDLE_NS, STREAM_UPKEEP_INTERVAL_NS
from slipstream.kernels.fastpath.intake import Intake
from slipstream.units import SECOND_NS

__all__ = ["AfterCommit", "CommitListener", "Committer", "Removed", "fault_of", "store_error"]

AfterCommit = Callable[[ApiError | None], None]
"""Called with None when the commit succeeded, else with why not."""

# (reply, sequence): an ack to be built. (reply, bytes): a finished answer. A callable: anything else.
Pending = tuple[bytes, int] | tuple[bytes, bytes] | AfterCommit


class Removed:
    """What one commit takes out of the stream, for those who count or hold messages."""

    __slots__ = ("others", "purged", "seqs")

    def __init__(self) -> None:
        """Nothing yet."""
        self.seqs: list[int] = []  # removed one by one
        self.purged: list[bytes] = []  # many were removed that match this subject (`b""`: any)
        self.others = False  # some were removed that nobody holds any more: only counts have changed

    def __bool__(self) -> bool:
        return bool(self.seqs or self.purged or self.others)

    def add(self, more: Removed) -> None:
        """The same commit takes these out as well."""
        self.seqs += more.seqs
        self.purged += more.purged
        self.others = self.others or more.others


_NOTHING = Removed()  # never added to


class CommitListener(Protocol):
    """Who owns the store and has to know how commits end."""

    def on_removed(self, removed: Removed) -> None:
        """Readers no longer see these; called before anything of the same commit is answered."""
        ...

    def on_committed(self, first_seq: int, last_seq: int) -> None:
        """New messages are safe; called after their acks were sent."""
        ...

    def on_settled(self) -> None:
        """A commit of anything has succeeded; called last."""
        ...

    def on_fault(self, fault: StorageFault) -> None:
        """Every sequence above the store's `last_seq` did not happen."""
        ...

    def on_repaired(self) -> None:
        """The store has repaired itself after a fault."""
        ...

    def on_upkeep(self) -> None:
        """A piece of background work is done; it may have found damage."""
        ...


class Committer:
    """Drives a store's commits and holds back what depends on them."""

    __slots__ = (
        "_acks",
        "_at_end",
        "_busy",
        "_committed_seq",
        "_faulted",
        "_in_flight",
        "_in_flight_bytes",
        "_in_flight_removed",
        "_listener",
        "_more",
        "_ports",
        "_reads",
        "_ready",
        "_ready_removed",
        "_start",
        "_stopped",
        "_store",
        "_sync_always",
        "_sync_interval_ns",
        "_sync_timer",
        "_unerased",
        "_upkeep",
        "_upkeep_runs",
        "_upkeep_timer",
        "_upkeep_wanted",
        "_when_quiet",
        "idle",
        "intake",
        "removed",
    )

    intake: Intake
    """Where publishes are collected; the ingest puts it here."""

    def __init__(
        self,
        store: Store,
        ports: Ports,
        listener: CommitListener,
        acks: PubAcks,
        *,
        sync_always: bool,
        sync_interval_ns: int,
    ) -> None:
        """Commit `store` for `listener`; with `sync_always` an ack waits for the device, else for the write."""
        self._store = store
        self._ports = ports
        self._listener = listener
        self._acks = acks
        self._sync_always = sync_always
        self._sync_interval_ns = sync_interval_ns
        self._sync_timer: Cancel | None = None
        self._upkeep_timer: Cancel | None = None
        self._committed_seq = store.last_seq
        self._in_flight: list[Pending] | None = None
        self._in_flight_bytes = 0
        self._in_flight_removed = _NOTHING
        self.removed = Removed()  # what the next commit will take out: whoever removes says so here, and wakes
        self._ready: list[Pending] = []  # decided before a unit of the store was opened that still is
        self._ready_removed = Removed()  # the same for what was removed
        self._stopped = False
        self._more = False  # something changed after the commit in flight began
        self._faulted = False  # a commit failed and the store has not repaired itself yet
        self._upkeep_runs = False  # a piece of upkeep is in its thread
        self._busy = False  # there was a commit since upkeep last had its turn
        self._upkeep_wanted = True  # something happened since upkeep last found nothing to do
        self._when_quiet: Callable[[], None] | None = None
        self._at_end = guarded(self._commit, self._broke)
        self._start = guarded(self._begin, self._broke)
        self._reads = 0
        self._upkeep = guarded(self._begin_upkeep, self._upkeep_broke)
        # Committed, and waiting to be overwritten: how many erasures of the store have to be complete for whom.
        self._unerased: list[tuple[int, AfterCommit]] = []
        self.idle = True  # no commit is scheduled or in flight: the next change must call `wake`

    @property
    def waiting(self) -> int:
        """Answers held back, and so publishes in the making."""
        return len(self.intake.pending) + (len(self._in_flight) if self._in_flight is not None else 0)

    @property
    def waiting_bytes(self) -> int:
        """Payload bytes that are not committed yet."""
        return self.intake.buffered_bytes + self._in_flight_bytes

    def wake(self) -> None:
        """Something changed: commit at the end of this turn, or behind the commit in flight."""
        if not self.idle:
            self._more = True
        elif not self._stopped:
            self._ports.call_soon(self._at_end)
            self.idle = False

    def hold_back(self) -> None:
        """A unit was opened in the store: what is decided from here on leaves only after its end.

        Commits meanwhile cover parts of the unit and what was decided before it, nothing else.
        """
        self._ready += self.intake.take_pending()
        self._ready_removed.add(self.removed)
        self.removed = Removed()

    def abort_unit(self) -> None:
        """Give up the store's open unit, whatever state an exception left it in."""
        try:
            self._store.abort_atomic()
        except Exception as error:
            self._broke(error)

    def answer(self, reply: bytes, payload: bytes) -> None:
        """Send `payload` to `reply` once everything decided before it is committed."""
        self.intake.pending.append((reply, payload))
        self.wake()

    def after(self, callback: AfterCommit) -> None:
        """Call once everything decided before is committed, or cannot be."""
        self.intake.pending.append(callback)
        self.wake()

    def after_received(self, callback: AfterCommit, *, behind_unit: bool) -> None:
        """Call once every change of messages up to now is committed, or cannot be; at once if none waits.

        An open unit is not a change before its end, so the callback passes it, unless it has to come `behind_unit`.
        """
        if behind_unit:
            self.after(callback)
        elif self._store.is_settled or (self._store.atomic_open and not self._ready and not self._in_flight):
            callback(None)
        elif self._in_flight is not None and not self._more:
            self._in_flight.append(callback)  # nothing came since this commit began
        elif self._store.atomic_open:
            self._ready.append(callback)
            self.wake()
        else:
            self.after(callback)

    def after_erasure(self, callback: AfterCommit) -> None:
        """Call once everything decided before is committed and nothing is left of what was erased before."""
        self.after(lambda error: self._settle_erasure(callback, error))

    def start_upkeep(self) -> None:
        """Let the store do background work now and then: often while it has some, rarely when nothing happens."""
        self._arm_upkeep()

    def upkeep_soon(self) -> None:
        """The store has got background work that it did not have."""
        if not self._upkeep_wanted:
            self._upkeep_wanted = True
            self._arm_upkeep()

    def stop(self, *, deleted: bool) -> None:
        """No more timers, no more acks. If the stream was deleted, whoever else waits is told so."""
        self._stopped = True
        self.intake.close()
        for timer in (self._sync_timer, self._upkeep_timer):
            if timer is not None:
                timer()
        self._sync_timer = self._upkeep_timer = None
        waiting = [*(self._in_flight or ()), *self._ready, *self.intake.take_pending()]
        waiting += [callback for _, callback in self._unerased]
        self._in_flight, self._ready, self._unerased = None, [], []
        self._in_flight_bytes = 0
        if deleted:
            callbacks = [item for item in waiting if not isinstance(item, tuple)]
            each(self._ports, "An answer of a deleted stream", callbacks, TableError(table.STREAM_NOT_FOUND))

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """Call when no thread works on the store any more; only after `stop`."""
        assert self._stopped
        if self._upkeep_runs:
            self._when_quiet = callback
        else:
            callback()

    def _commit(self) -> None:
        """The end of the turn."""
        if not self._stopped:
            self._ports.when_commits_run(self._start)

    def _begin(self, *, sync: bool = False) -> None:
        if self._stopped:
            return
        self.intake.stand_by()
        self._more = False
        # Of a unit that is not whole nobody is told; the commit of its end syncs all of it.
        told = not self._store.atomic_open or bool(self._ready) or self._store.last_seq > self._committed_seq
        sync = sync or (self._sync_always and told)
        reads = self._ports.reads
        inline = not sync or reads - self._reads <= 1
        self._reads = reads
        job = self._store.begin_commit(sync=sync, inline=inline)
        batch_bytes = self.intake.buffered_bytes
        batch, self._ready = self._ready, []
        if not self._store.atomic_open:
            batch += self.intake.take_pending()
        removed = self._take_removed()
        if job is None:
            # Nothing changed since the last commit, so nothing waits for the disk. What is let go may cause more.
            self.idle = True
            self._tell_removed(removed)
            self._release(batch, None)
            return
        self.idle = False
        self._in_flight = batch
        self._in_flight_removed = removed
        self._in_flight_bytes = batch_bytes
        if job.ended:
            self._finish(job)
        else:
            # Last of all: the thread would only wait for the interpreter if there were more to do here.
            self._ports.run_commit(job, guarded(lambda: self._finish(job), self._broke))

    def _finish(self, job: Job) -> None:
        done = self._store.finish_commit(job)
        batch, self._in_flight = self._in_flight or [], None
        removed, self._in_flight_removed = self._in_flight_removed, _NOTHING
        self._in_flight_bytes = 0
        if self._stopped:
            return
        if done.fault is not None:
            self._committed_seq = min(self._committed_seq, done.last_seq)
            self._failed(batch, done.fault)
            self._ports.call_soon(self._upkeep)
        else:
            self._tell_removed(removed)
            self._release(batch, None)
            self._settle(done.last_seq)
        self._go_on()

    def _failed(self, batch: list[Pending], fault: StorageFault) -> None:
        """Nothing that is not committed happened."""
        # What joined during the failed commit has sequences that did not happen either.
        self.intake.close()
        batch += self._ready + self.intake.take_pending()
        self._ready = []
        self.removed, self._ready_removed = Removed(), Removed()
        self._faulted = True
        self._upkeep_wanted = True
        call(self._ports, "What follows from a fault", self._listener.on_fault, fault)
        self._release(batch, store_error(fault))

    def _broke(self, error: Exception) -> None:
        """A commit ended with an exception that nobody expected: as if the disk had failed, for what is known of it."""
        self._ports.report("A commit", error)
        if self._stopped:
            return
        fault = fault_of(error)
        batch, self._in_flight = self._in_flight or [], None
        self._in_flight_removed = _NOTHING
        self._in_flight_bytes = 0
        call(self._ports, "What follows from a failed commit", self._store.give_up, fault)
        self._failed(batch, fault)
        self.idle = True
        self._arm_upkeep()  # not at once: what raises may do so again

    def _settle(self, last_seq: int) -> None:
        """Everything up to `last_seq` is safe and was answered: tell everybody else."""
        if self._stopped:
            return  # somebody waited for the commit to delete the stream
        first_seq, self._committed_seq = self._committed_seq + 1, last_seq
        self._busy = True
        if last_seq >= first_seq:
            call(self._ports, "What follows from a commit", self._listener.on_committed, first_seq, last_seq)
        call(self._ports, "What follows from a commit", self._listener.on_settled)
        if self._unerased:
            self._release_erased()
        if not self._upkeep_wanted:
            self.upkeep_soon()
        if not self._sync_always and self._sync_timer is None:
            self._sync_timer = self._ports.call_later(self._sync_interval_ns, guarded(self._sync_due, self._broke))

    def _go_on(self) -> None:
        """A commit has ended. What arrived meanwhile is the next batch: begin at once, not at the end of the turn."""
        if self._stopped:
            return
        if self._more:
            self._ports.when_commits_run(self._start)
        else:
            self.idle = True

    def _release(self, batch: list[Pending], error: ApiError | None) -> None:
        """Let go, in order; after an error every answer to a publish is that error.

        Also those that were no success: what they were judged by may not have happened.
        """
        if error is not None:
            refused = self._acks.refused(error)
            batch = [(item[0], refused) if isinstance(item, tuple) else item for item in batch]
        at, end = 0, len(batch)
        while at < end:
            at = self._ports.publish_answers(batch, at, self._acks.prefix)
            if at < end:
                callback = batch[at]
                assert not isinstance(callback, tuple)
                at += 1
                try:
                    callback(error)
                except Exception as raised:
                    self._ports.report("What waited for a commit", raised)

    def _take_removed(self) -> Removed:
        """What the commit that begins takes out; while a unit is open, only what was removed before it."""
        if not self.removed and not self._ready_removed:
            return _NOTHING
        taken, self._ready_removed = self._ready_removed, Removed()
        if not self._store.atomic_open:
            taken.add(self.removed)
            self.removed = Removed()
        return taken

    def _tell_removed(self, removed: Removed) -> None:
        if removed:
            call(self._ports, "What follows from a removal", self._listener.on_removed, removed)

    def _settle_erasure(self, callback: AfterCommit, error: ApiError | None) -> None:
        committed, complete = self._store.erased
        if error is not None or complete >= committed:
            callback(error)
            return
        self._unerased.append((committed, callback))
        self.wake()  # the next commit overwrites
        self._ports.call_soon(self._upkeep)

    def _release_erased(self) -> None:
        complete = self._store.erased[1]
        released = [callback for mark, callback in self._unerased if mark <= complete]
        self._unerased = [(mark, callback) for mark, callback in self._unerased if mark > complete]
        each(self._ports, "What waited for an erasure", released, None)

    def _sync_due(self) -> None:
        self._sync_timer = None
        if self.idle:
            self._begin(sync=True)
        else:
            # A commit is in flight; the device sync rides on the next one.
            self._sync_timer = self._ports.call_later(SECOND_NS, guarded(self._sync_due, self._broke))

    def _begin_upkeep(self) -> None:
        if self._stopped or self._upkeep_runs:
            return
        busy, self._busy = self._busy, False
        if busy and not self._store.upkeep_due and not self._unerased:
            self._arm_upkeep()  # most streams of many are like that; once it is quiet there is another turn
            return
        self.intake.close()  # upkeep may commit on its own, and fail
        job = self._store.begin_upkeep()
        if job is None:
            # A piece that failed is tried again at the next turn, which must come soon while anything depends on it.
            self._upkeep_wanted = self._store.fault is not None or bool(self._unerased)
            self._arm_upkeep()
            self.wake()  # upkeep may have left something to log
        elif job.ended:
            self._finish_upkeep(job)
        else:
            self._upkeep_runs = True
            self._ports.run_blocking(job.run, guarded(lambda: self._finish_upkeep(job), self._upkeep_broke))

    def _finish_upkeep(self, job: Job) -> None:
        self._upkeep_runs = False
        self._upkeep_wanted = True
        self.intake.close()  # a repair puts another writer in the place of the one it knows
        self._store.finish_upkeep(job)
        call(self._ports, "What follows from upkeep", self._listener.on_upkeep)
        if self._stopped:
            self._tell_quiet()
            return
        if self._faulted and self._store.fault is None:
            self._faulted = False
            # The store counts anew, from the erasures that it found unfinished in its log.
            committed = self._store.erased[0]
            self._unerased = [(committed, callback) for _, callback in self._unerased]
            call(self._ports, "What follows from a repair", self._listener.on_repaired)
        self._release_erased()
        if self._unerased:
            # Somebody waits for a copy to be overwritten by the next commit, or removed by the next piece.
            self.wake()
            self._ports.call_soon(self._upkeep)
        else:
            self._arm_upkeep()

    def _upkeep_broke(self, error: Exception) -> None:
        """A piece of upkeep ended with an exception that nobody expected: it is tried again later."""
        self._ports.report("Upkeep", error)
        self._upkeep_runs = False
        self._upkeep_wanted = True
        self._tell_quiet()
        self._arm_upkeep()

    def _tell_quiet(self) -> None:
        callback, self._when_quiet = self._when_quiet, None
        if callback is not None:
            callback()

    def _arm_upkeep(self) -> None:
        if self._stopped:
            return
        if self._upkeep_timer is not None:
            self._upkeep_timer()
        delay_ns = STREAM_UPKEEP_INTERVAL_NS if self._upkeep_wanted else STREAM_UPKEEP_IDLE_NS
        self._upkeep_timer = self._ports.call_later(delay_ns, self._upkeep)


def fault_of(error: Exception) -> StorageFault:
    """Anything that file work ended with, as a fault: a bug there must not leave a client without an answer."""
    return error if isinstance(error, StorageFault) else StorageFault(f"{type(error).__name__}: {error}")


def store_error(fault: StorageFault) -> ApiError:
    """How a store's trouble is told to a client: no space is 10047, anything else 10077 with its text."""
    if isinstance(fault, StoreUnavailable) and fault.full:
        return TableError(table.STORAGE_RESOURCES_EXCEEDED)
    return TableError(table.STREAM_STORE_FAILED, err=fault.text)
