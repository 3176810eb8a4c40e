"""Group commit of one stream: when commits begin, and how they end.

States::

    idle ──wake──► scheduled ──end of turn──► in flight ──synced──► idle, or in flight again if more arrived
      ▲                             │
      └──── ended inline ◄──────────┘  (a short one, and nobody else is busy)

While very many commits of other streams are in flight, one stays scheduled behind them, and what arrives joins it. What
waits for a commit, and leaves after it, is the commit point's (`point`); background work is `upkeep`.

Invariants: the intake is open only while a commit is scheduled, or on stand-by from the beginning of a commit on and
until a fault or upkeep, which may put another writer in the place of the one it knows. No exception of a callback, a
listener or the store leaves the committer in between: a callback's is reported and the rest goes on, the store's is a
fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slipstream.errors import StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.guard import call, each, guarded
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Committed, Job
from slipstream.jetstream.stream.commit.delayed_sync import DelayedSync
from slipstream.jetstream.stream.commit.erasures import Erasures
from slipstream.jetstream.stream.commit.faults import fault_of, store_error
from slipstream.jetstream.stream.commit.point import AfterCommit, CommitListener, CommitPoint, Removed
from slipstream.jetstream.stream.commit.pubacks import PubAcks
from slipstream.jetstream.stream.commit.upkeep import Upkeep
from slipstream.kernels.fastpath.intake import Intake

__all__ = ["Committer", "Replication"]


class Replication(Protocol):
    """Who replicates the commits of a stream. It says when they are committed: `Committer.committed`."""

    def begun(self, job: Job, *, awaited: bool) -> bool:
        """A commit begins, nothing of it is written yet. False: this server leads no more, and it must not be.

        If it is `awaited`, and nothing else is, it may be carried out before this returns (ADR 33).
        """
        ...

    def synced(self, fault: StorageFault | None) -> None:
        """The commit is on this disk, or failed; also after the stream was stopped."""
        ...

    def confirm(self, read: Callable[[bool], None]) -> None:
        """Tell when it is certain that this server led when it was asked, and has all that was committed then.

        False: it leads no more. Whoever reads must not be told what was true once.
        """
        ...

    def makes_sure(self, then: Callable[[], None]) -> bool:
        """Whether it is certain that nobody else leads at this moment. Else that is asked, and then this is called."""
        ...


class Committer:
    """Drives a store's commits."""

    __slots__ = (
        "_at_end",
        "_delayed_sync",
        "_erasures",
        "_intake",
        "_more",
        "_point",
        "_ports",
        "_replication",
        "_runs",
        "_start",
        "_stopped",
        "_store",
        "_sync_always",
        "_when_quiet",
        "idle",
        "upkeep",
    )

    def __init__(
        self,
        store: Store,
        ports: Ports,
        listener: CommitListener,
        acks: PubAcks,
        intake: Intake,
        *,
        sync_always: bool,
        sync_interval_ns: int,
        replication: Replication | None = None,
    ) -> None:
        """Commit `store` for `listener`; with `sync_always` an ack waits for the device, else for the write.

        With `replication` it waits for the devices of a majority.
        """
        self._store = store
        self._ports = ports
        self._intake = intake
        self._sync_always = sync_always
        self._replication = replication
        self._point = CommitPoint(store, ports, listener, acks, intake)
        self._erasures = Erasures(store, ports, self._overwrite)
        self.upkeep = Upkeep(store, ports, listener, intake, self._erasures, self.wake)
        self._delayed_sync = DelayedSync(ports, sync_interval_ns, self._sync)
        self._runs = False  # a commit does, in its thread
        self._when_quiet: Callable[[], None] | None = None
        self._stopped = False
        self._more = False  # something changed after the commit in flight began
        self._at_end = guarded(self._commit, self._broke)
        self._start = guarded(self._begin, self._broke)
        self.idle = True  # no commit is scheduled or in flight: the next change must call `wake`

    @property
    def waiting(self) -> int:
        """Answers held back, and so publishes in the making."""
        return self._point.waiting

    @property
    def waiting_bytes(self) -> int:
        """Payload bytes that are not committed yet."""
        return self._point.waiting_bytes

    @property
    def removed(self) -> Removed:
        """What the next commit will take out: whoever removes says so here, and wakes."""
        return self._point.removed

    def wake(self) -> None:
        """Something changed: commit at the end of this turn, or behind the commit in flight."""
        if not self.idle:
            self._more = True
        elif not self._stopped:
            self._ports.call_soon(self._at_end)
            self.idle = False

    def hold_back(self) -> None:
        """A unit was opened in the store: what is decided from here on leaves only after its end."""
        self._point.hold_back()

    def abort_unit(self) -> None:
        """Give up the store's open unit, whatever state an exception left it in."""
        try:
            self._store.abort_atomic()
        except Exception as error:
            self._broke(error)

    def answer(self, reply: bytes, payload: bytes) -> None:
        """Send `payload` to `reply` once everything decided before it is committed."""
        self._point.answer(reply, payload)
        self.wake()

    def after(self, effect: AfterCommit) -> None:
        """Call once everything decided before is committed, or cannot be."""
        self._point.after(effect)
        self.wake()

    def after_received(self, effect: AfterCommit, *, behind_unit: bool) -> None:
        """Call once every change of messages up to now is committed, or cannot be; at once if none waits.

        An open unit is not a change before its end, so the effect passes it, unless it has to come `behind_unit`.
        """
        if behind_unit:
            self.after(effect)
        elif not self._point.after_received(effect, has_more=self._more):
            self.wake()

    def committed(self, done: Committed) -> None:
        """In a replicated stream: so many more commits are, by a majority."""
        self._point.committed(done)
        if self._erasures.waiting:
            self._erasures.look()

    def after_erasure(self, effect: AfterCommit) -> None:
        """Call once everything decided before is committed and nothing is left of what was erased before."""
        self.after(lambda error: self._erasures.committed(effect, error))

    def stop(self, *, deleted: bool, elsewhere: bool = False) -> None:
        """No more timers, no more acks. If the stream was deleted, whoever else waits is told so.

        If another server may lead it now, or it goes on in another way (`elsewhere`), those are told that: what they
        asked for may still come to be, or not.
        """
        self._stopped = True
        self._intake.close()
        self._delayed_sync.stop()
        self.upkeep.stop()
        waiting = self._point.stop() + self._erasures.stop()
        if deleted:
            each(self._ports, "An answer of a deleted stream", waiting, TableError(table.STREAM_NOT_FOUND))
        elif elsewhere or self._replication is not None:
            each(self._ports, "An answer of a stream led elsewhere", waiting, TableError(table.CLUSTER_NOT_AVAIL))

    def _commit(self) -> None:
        """The end of the turn."""
        if self._ports.alone:
            self._begin()
        elif not self._stopped:
            self._ports.when_commits_run(self._start)

    def _begin(self, *, sync: bool = False) -> None:
        if self._stopped:
            return
        point, ports = self._point, self._ports
        self._intake.stand_by()
        self._more = False
        unit_open = self._store.atomic_open
        sync = sync or (self._sync_always and (not unit_open or point.is_told))
        # The loop may wait a moment for the device for somebody who waits, if there is nobody else.
        alone = ports.alone
        if (replication := self._replication) is None:
            job = self._store.begin_commit(sync=sync, inline=not sync or (alone and point.is_awaited))
        else:
            awaited = alone and point.is_awaited
            job = self._store.begin_commit(sync=True)  # others learn of it before it is written here
        ended = False
        try:
            point.begin(unit_open=unit_open)  # while the device is at work
        finally:
            if job is not None:
                ended = job.attend()
        if job is None:
            self.idle = True
            point.unchanged()
            return
        self.idle = False
        if replication is not None:
            if not replication.begun(job, awaited=awaited):
                return
            ended = job.attend()
        if ended:
            self._finish(job, flushes=alone)
        else:
            # Last of all: the thread would only wait for the interpreter if there were more to do here.
            self._runs = True
            ports.run_commit(job, guarded(lambda: self._finish(job), self._broke))

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """Call when no commit runs in its thread any more; only after `stop`, of a stream that was alone."""
        assert self._stopped
        if self._runs:
            self._when_quiet = callback
        else:
            callback()

    def _finish(self, job: Job, *, flushes: bool = False) -> None:
        self._runs = False
        fault = self._point.synced(job, flushes=flushes)
        if self._replication is not None:
            self._replication.synced(fault)
            if fault is not None:
                return  # nobody is told that it did not happen: others may have it
        if self._stopped:
            if self._when_quiet is not None:
                self._when_quiet()
            return
        if fault is not None:
            self._failed(fault)
            self.upkeep.at_once()
        else:
            if self._erasures.waiting:
                self._erasures.look()
            self.upkeep.committed()
            if not self._sync_always:
                self._delayed_sync.written()
        # What arrived meanwhile is the next batch: it begins at once, not at the end of the turn.
        if self._more:
            self._ports.when_commits_run(self._start)
        else:
            self.idle = True

    def _failed(self, fault: StorageFault) -> None:
        self.upkeep.failed()
        self._point.fail(fault, store_error(fault))

    def _broke(self, error: Exception) -> None:
        """A commit ended with an exception that nobody expected: as if the disk had failed, for what is known of it."""
        self._runs = False
        self._ports.report("A commit", error)
        fault = fault_of(error)
        if self._replication is not None:
            self._replication.synced(fault)
            return
        if self._stopped:
            if self._when_quiet is not None:
                self._when_quiet()
            return
        call(self._ports, "What follows from a failed commit", self._store.give_up, fault)
        self._failed(fault)
        self.idle = True
        self.upkeep.start()  # not at once: what raises may do so again

    def _sync(self) -> bool:
        """It is time to sync what was only written; False: not now."""
        if not self.idle:
            return False
        guarded(lambda: self._begin(sync=True), self._broke)()
        return True

    def _overwrite(self) -> None:
        """Somebody waits for an erasure: the next commit overwrites, and upkeep removes copies."""
        self.wake()
        self.upkeep.at_once()
