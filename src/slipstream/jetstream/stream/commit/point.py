"""The point "committed" of one stream: what was decided on one side, what leaves the server on the other.

    append ──► begin ──► synced ──► committed ──► readers see it ──► removals told ──► answers ──► deliveries

Everything that must not be seen before its commit waits here, in the order it was decided: acks (which the intake
kernel notes as pairs of reply and sequence), and effects, which are called: other answers to publishers, answers of
the API with their advisories, republished copies, whatever a feature does when something is safe. `begin` says that a
commit covers all of it; what is decided meanwhile is the next commit's. Readers and consumers are behind the same
point: the store's committed state changes in `finish_commit`, which nobody else calls while the stream runs, and
consumers are told of new messages last of all.

Alone, a commit is committed when it is synced here. In a replicated stream it is when a majority has synced it: what it
covers waits in a queue from `synced` to `committed`, and more commits begin behind it.

Invariants: an effect or ack leaves exactly once. Nothing leaves before its commit is committed, nor out of order; after
a fault nothing that depended on lost data says success. What one effect raises is reported, and the rest leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream.guard import call
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Committed, Job
from slipstream.jetstream.stream.commit.pubacks import PubAcks
from slipstream.kernels.fastpath.intake import Intake

__all__ = ["AfterCommit", "CommitListener", "CommitPoint", "Removed"]

AWAITED_MAX: Final = 2
"""Answers, and messages, that one client waits for before it goes on: a publish, or one and what it causes."""

AfterCommit = Callable[[ApiError | None], None]
"""An effect: called with None when the commit succeeded, else with why not."""


class Removed:
    """What one commit takes out of the stream, for those who count or hold messages."""

    __slots__ = ("others", "purged", "seqs")

    def __init__(self) -> None:
        """Nothing yet."""
        self.seqs: list[int] = []  # removed one by one
        self.purged: list[bytes] = []  # many were removed that match this subject (`b""`: any)
        self.others = False  # some were removed that nobody holds any more: only counts have changed

    def add(self, more: Removed) -> None:
        """The same commit takes these out as well."""
        self.seqs += more.seqs
        self.purged += more.purged
        self.others = self.others or more.others


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


class _Withheld:
    """What one commit covers: acks, the effects between them, and what it removes."""

    __slots__ = ("acks", "effects", "payload_bytes", "removed")

    def __init__(
        self,
        acks: list[tuple[bytes, int]],
        effects: list[tuple[int, AfterCommit]],
        removed: Removed | None,
        payload_bytes: int,
    ) -> None:
        self.acks = acks  # reply and sequence
        self.effects = effects  # each behind so many acks
        self.removed = removed  # None: nothing
        self.payload_bytes = payload_bytes

    def __len__(self) -> int:
        return len(self.acks) + len(self.effects)

    def append(self, effect: AfterCommit) -> None:
        """Add an effect at the end."""
        self.effects.append((len(self.acks), effect))

    def add(self, more: _Withheld) -> None:
        """Add what was decided afterwards."""
        before = len(self.acks)
        self.acks += more.acks
        self.effects += [(before + position, effect) for position, effect in more.effects]
        if self.removed is None:
            self.removed = more.removed
        elif more.removed is not None:
            self.removed.add(more.removed)
        self.payload_bytes += more.payload_bytes


def _nothing() -> _Withheld:
    return _Withheld([], [], None, 0)


class CommitPoint:
    """What waits for its commit, and the one way out."""

    __slots__ = (
        "_acks",
        "_committed_seq",
        "_effects",
        "_in_flight",
        "_intake",
        "_listener",
        "_ports",
        "_ready",
        "_stopped",
        "_store",
        "_synced",
        "removed",
    )

    def __init__(self, store: Store, ports: Ports, listener: CommitListener, acks: PubAcks, intake: Intake) -> None:
        """Nothing waits; `intake` notes the acks of messages that it appends."""
        self._store = store
        self._ports = ports
        self._listener = listener
        self._acks = acks
        self._intake = intake
        self._committed_seq = store.last_seq
        self._effects: list[tuple[int, AfterCommit]] = []  # of the next commit, each behind so many acks of the intake
        self.removed = Removed()  # what the next commit will take out: whoever removes says so here, and wakes
        self._ready: _Withheld | None = None  # decided before a unit of the store was opened that still is
        self._in_flight: _Withheld | None = None
        self._synced: list[_Withheld] = []  # of commits on this disk that are not committed yet; none alone
        self._stopped = False

    @property
    def waiting(self) -> int:
        """Answers and effects held back, and so publishes in the making."""
        in_flight = len(self._in_flight) if self._in_flight is not None else 0
        if self._synced:
            in_flight += sum(map(len, self._synced))
        return len(self._intake.acks) + len(self._effects) + in_flight

    @property
    def waiting_bytes(self) -> int:
        """Payload bytes that are not committed yet."""
        in_flight = self._in_flight.payload_bytes if self._in_flight is not None else 0
        if self._synced:
            in_flight += sum(covered.payload_bytes for covered in self._synced)
        return self._intake.buffered_bytes + in_flight

    # --- decided ----------------------------------------------------------------------------------------------------

    def after(self, effect: AfterCommit) -> None:
        """Call once everything decided before is committed, or cannot be."""
        self._effects.append((len(self._intake.acks), effect))

    def answer(self, reply: bytes, payload: bytes) -> None:
        """Send `payload` to `reply` once everything decided before it is committed; after a fault, the error."""

        def send(error: ApiError | None) -> None:
            if not self._stopped:
                self._ports.answer(reply, payload if error is None else self._acks.refused(error))

        self._effects.append((len(self._intake.acks), send))

    def after_received(self, effect: AfterCommit, *, has_more: bool) -> bool:
        """Call once every change of messages up to now is committed; at once if none waits. False: a commit is needed.

        An open unit is not a change before its end, so the effect passes it. `has_more`: something changed after the
        commit in flight began.
        """
        store = self._store
        if store.is_settled or (store.atomic_open and not self._ready and not self._in_flight and not self._synced):
            effect(None)
        elif self._in_flight is not None and not has_more:
            self._in_flight.append(effect)
        else:
            if store.atomic_open:
                self._ready = self._ready or _nothing()
                self._ready.append(effect)
            else:
                self.after(effect)
            return False
        return True

    def hold_back(self) -> None:
        """A unit was opened in the store: what is decided from here on leaves only after its end.

        Commits meanwhile cover parts of the unit and what was decided before it, nothing else.
        """
        self._ready = self._with_ready(self._take())

    # --- on its way -------------------------------------------------------------------------------------------------

    @property
    def is_told(self) -> bool:
        """While a unit is open: whether somebody will be told of the next commit, which is more than a part of it."""
        return bool(self._ready) or self._store.last_seq > self._committed_seq

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for just the next commit, for an answer or a message; who sends many sends on."""
        answers = len(self._intake.acks) + len(self._effects)
        messages = self._store.last_seq - self._committed_seq
        return answers + messages > 0 and answers <= AWAITED_MAX and messages <= AWAITED_MAX

    def begin(self, *, unit_open: bool) -> None:
        """A commit begins: it covers what was decided so far, but nothing behind the beginning of an open unit."""
        if unit_open:
            self._in_flight, self._ready = self._ready or _nothing(), None
        else:
            taken = self._take()
            self._in_flight = taken if self._ready is None else self._with_ready(taken)

    def unchanged(self) -> None:
        """There was nothing to commit, so nothing waits for the disk; but perhaps for commits that began before."""
        covered, self._in_flight = self._in_flight, None
        if covered is not None and self._synced:
            self._synced[-1].add(covered)
        elif covered is not None:
            self._tell_removed(covered.removed)
            self._release(covered, None)

    def synced(self, job: Job, *, flushes: bool = False) -> StorageFault | None:
        """The commit is on this disk, or failed. Alone, that is all: it is committed; why not, if not.

        In a replicated stream it waits for `committed`, unless it has nothing that others need.

        Without `sync_always` it is only written, and the sync follows.

        `flushes`: what it answers is sent before consumers are told.
        """
        done = self._store.finish_commit(job)
        if done.fault is not None:
            self._committed_seq = min(self._committed_seq, done.last_seq)
            return done.fault
        covered, self._in_flight = self._in_flight, None
        if covered is None:
            return None  # stopped meanwhile
        if self._synced or done.commits != 1:
            self._synced.append(covered)
            self.committed(done)
            return None
        if covered.removed is not None:
            self._tell_removed(covered.removed)
        if covered.acks or covered.effects:
            self._release(covered, None)
            if flushes:
                self._ports.flush()  # who waits for an ack need not wait for what others make of the message
        if not self._stopped:  # somebody may have waited for the commit to delete the stream
            self._tell(done.last_seq)
        return None

    def committed(self, done: Committed) -> None:
        """So many more commits are committed, the oldest first."""
        for _ in range(done.commits):
            if self._stopped or not self._synced:
                return  # an answer may have had the stream deleted
            covered = self._synced.pop(0)
            self._tell_removed(covered.removed)
            self._release(covered, None)
        if done.commits and not self._stopped:
            self._tell(done.last_seq)

    def fail(self, fault: StorageFault, error: ApiError) -> None:
        """Nothing that is not committed happened: also what joined meanwhile has sequences that do not exist."""
        self._intake.close()
        lost = self._everything()
        call(self._ports, "What follows from a fault", self._listener.on_fault, fault)
        self._release(lost, error)

    def stop(self) -> list[AfterCommit]:
        """Nothing leaves any more; the effects that waited. Nobody who published is answered."""
        self._stopped = True
        return [effect for _, effect in self._everything().effects]

    # --- out --------------------------------------------------------------------------------------------------------

    def _take(self) -> _Withheld:
        intake = self._intake
        payload_bytes = intake.buffered_bytes
        effects, self._effects = self._effects, []
        removed = self.removed
        if removed.seqs or removed.purged or removed.others:
            self.removed = Removed()
            return _Withheld(intake.take_acks(), effects, removed, payload_bytes)
        return _Withheld(intake.take_acks(), effects, None, payload_bytes)

    def _with_ready(self, taken: _Withheld) -> _Withheld:
        """What was decided before the unit that was open, and then this."""
        ready, self._ready = self._ready, None
        if ready is None:
            return taken
        ready.add(taken)
        return ready

    def _everything(self) -> _Withheld:
        """All that waits, in order; nothing does any more."""
        all_ = _nothing()
        for covered in (*self._synced, self._in_flight, self._with_ready(self._take())):
            if covered is not None:
                all_.add(covered)
        self._synced.clear()
        self._in_flight = None
        return all_

    def _tell_removed(self, removed: Removed | None) -> None:
        if removed is not None:
            call(self._ports, "What follows from a removal", self._listener.on_removed, removed)

    def _tell(self, last_seq: int) -> None:
        """Everything up to `last_seq` is committed and was answered: consumers have their turn."""
        first_seq, self._committed_seq = self._committed_seq + 1, last_seq
        listener = self._listener
        if last_seq >= first_seq:
            try:
                listener.on_committed(first_seq, last_seq)
            except Exception as error:
                self._ports.report("What follows from a commit", error)
        try:
            listener.on_settled()
        except Exception as error:
            self._ports.report("What follows from a commit", error)

    def _release(self, covered: _Withheld, error: ApiError | None) -> None:
        """Let go, in order; after an error every answer to a publish is that error.

        Also those that were no success: what they were judged by may not have happened.
        """
        at = 0
        for position, effect in covered.effects:
            if at < position:
                self._send_acks(covered.acks, at, position, error)
                at = position
            try:
                effect(error)
            except Exception as raised:
                self._ports.report("What waited for a commit", raised)
        acks = covered.acks
        if error is None and not self._acks.is_preview:
            self._ports.publish_acks(acks, at, len(acks), self._acks.prefix)
        else:
            self._send_acks(acks, at, len(acks), error)

    def _send_acks(self, acks: list[tuple[bytes, int]], start: int, end: int, error: ApiError | None) -> None:
        if error is None and not self._acks.is_preview:
            self._ports.publish_acks(acks, start, end, self._acks.prefix)
        elif error is None or not self._stopped:
            answer = self._acks.stored(0) if error is None else self._acks.refused(error)
            for reply, _ in acks[start:end]:
                self._ports.answer(reply, answer)
