"""Messages handed out and not yet acknowledged: deadlines, redelivery order and counts, the ack floor.

One delivered message is in exactly one of these states::

    pending ──ack / term──────────► gone
       │ ▲
       │ └──redelivered── queued ◄── deadline passed, or nak
       │
       └──max_deliver reached─────► exhausted (kept until the message leaves the stream or is acknowledged late)

`queued` messages are pending too: they count against `max_ack_pending` until they are acknowledged.

Deadlines. All first deliveries wait equally long, so `_due` is a dict whose order is that of the deadlines; whatever
waits for another time (backoff after the first, a nak with delay) is in `_odd` with a heap beside it. Nothing is
searched on an ack.

The floor is kept as nats-server does: it moves when something is acknowledged, never by a delivery. It has two of
them: one it works with, that passes messages that were given up, and one it shows and stores, that stays below such a
message until everything else is acknowledged.

The kernel of `bind` works on `pending`, `_due` and `redeliveries`, so these stay the same objects for life.

Invariants: floor < every pending sequence; `_due` and `_odd` together are exactly the pending ones that are not queued;
`delivered_seq` is at or above all of them.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from slipstream.kernels.fastpath.ackintake import AckIntake

__all__ = ["AckEngine"]

_OUTDATED_MAX = 1_024  # entries of the heap that may be outdated beside as many as are valid


class AckEngine:
    """The bookkeeping of one consumer's deliveries."""

    __slots__ = (
        "_due",
        "_floor_dseq",
        "_floor_seq",
        "_heap",
        "_odd",
        "_queue",
        "_queued",
        "_shown",
        "ahead",
        "delayed",
        "delivered_seq",
        "dseq",
        "exhausted",
        "pending",
        "redeliveries",
    )

    def __init__(self, start_seq: int, *, is_straight: bool = True) -> None:
        """Begin before the first delivery, which will be of `start_seq` or later.

        `is_straight`: messages are delivered in the order of the stream.
        """
        self.pending: dict[int, int] = {}  # stream sequence → consumer sequence of its first delivery, in that order
        self.redeliveries: dict[int, int] = {}  # pending ones delivered again → how often again
        self.exhausted: dict[int, int] = {}  # given up at max_deliver → deliveries
        self.ahead: dict[int, None] | None = None if is_straight else {}  # passed over, to be delivered later
        self.delayed: set[int] = set()  # pending ones that a client sent back and wants later; not after a restart
        self.dseq = 0  # consumer sequence of the last delivery
        self.delivered_seq = start_seq - 1  # highest stream sequence ever delivered
        self._due: dict[int, int] = {}  # pending → deadline, in the order of the deadlines
        self._odd: dict[int, int] = {}  # pending with another waiting time → deadline
        self._heap: list[tuple[int, int]] = []  # (deadline, sequence) of `_odd`, and outdated ones
        self._queue: deque[int] = deque()  # to be delivered again, and outdated ones
        self._queued: set[int] = set()
        self._floor_dseq = 0
        self._floor_seq = start_seq - 1
        self._shown: tuple[int, int] | None = None  # the floor shown, if it waits below a message that was given up

    # --- deliveries ---

    def delivered(self, seqs: Sequence[int], deadline_ns: int) -> None:
        """These are out for the first time, ascending unless others go ahead; all with the same deadline."""
        first = self.dseq + 1
        self.dseq += len(seqs)
        last_seq = seqs[-1] if self.ahead is None else max(seqs)
        self.delivered_seq = max(self.delivered_seq, last_seq)
        self.pending.update(zip(seqs, range(first, self.dseq + 1), strict=True))
        self._due.update(dict.fromkeys(seqs, deadline_ns))

    def delivered_unacked(self, count: int, last_seq: int) -> None:
        """These are out and need no ack."""
        self.dseq += count
        self.delivered_seq = max(self.delivered_seq, last_seq)
        self._floor_dseq, self._floor_seq = self.dseq, last_seq

    def next_redelivery(self) -> int:
        """The first message waiting to be delivered again; 0 if none does."""
        queue, queued = self._queue, self._queued
        while queue:
            if queue[0] in queued:
                return queue[0]
            queue.popleft()
        return 0

    def redelivered(self, seq: int, deadline_ns: int) -> int:
        """The first of the queue is out again; how often it has been delivered now."""
        assert seq in self._queued and seq in self.pending
        self._queued.discard(seq)
        self.dseq += 1
        count = self.redeliveries[seq] = self.redeliveries.get(seq, 0) + 1
        self._wait(seq, deadline_ns)
        return count + 1

    def deliveries(self, seq: int) -> int:
        """How often a pending or exhausted message has been delivered."""
        return self.exhausted.get(seq) or self.redeliveries.get(seq, 0) + 1

    @property
    def queued_count(self) -> int:
        """Messages waiting to be delivered again."""
        return len(self._queued)

    @property
    def redelivered_count(self) -> int:
        """Messages that were delivered more than once and are not acknowledged."""
        return len(self.redeliveries) + len(self.exhausted)

    # --- answers ---

    def ack(self, seq: int) -> bool:
        """Acknowledged, terminated or removed: forget it. False: it was neither pending nor exhausted."""
        if self.pending.pop(seq, None) is None:
            return self.exhausted.pop(seq, None) is not None
        if self._due.pop(seq, None) is None:
            self._odd.pop(seq, None)
            self._queued.discard(seq)
            self.delayed.discard(seq)
        if self.redeliveries:
            self.redeliveries.pop(seq, None)
        if not self.pending:
            self.emptied()
        return True

    def emptied(self) -> None:
        """Nothing is out any more: everything delivered so far is acknowledged."""
        self._floor_dseq, self._floor_seq = self.dseq, self.delivered_seq
        self._shown = None

    def bind(self, intake: AckIntake) -> None:
        """Let the kernel take plain acks of what was delivered once, with the same outcome as `ack`."""
        intake.bind(self.pending, self._due, self.redeliveries, self.emptied)

    def ack_up_to(self, seq: int, dseq: int) -> list[int] | None:
        """Acknowledge everything up to `seq`; which ones that were, None if the floor is there already."""
        if seq <= self._floor_seq or dseq <= self._floor_dseq:
            return None
        done = []
        for pending in self.pending:
            if pending > seq:
                break
            done.append(pending)
        for pending in done:
            self.ack(pending)
        late = [old for old in self.exhausted if old <= seq]
        for old in late:
            del self.exhausted[old]
        self._floor_dseq, self._floor_seq = min(dseq, self.dseq), seq
        self._shown = None
        return done + late

    def queue(self, seq: int) -> None:
        """Deliver it again as soon as possible (nak)."""
        if seq in self.pending and seq not in self._queued:
            if self._due.pop(seq, None) is None:
                self._odd.pop(seq, None)
                self.delayed.discard(seq)
            self._queue.append(seq)
            self._queued.add(seq)

    def postpone(self, seq: int, deadline_ns: int, *, sent_back: bool = False) -> None:
        """Set another deadline (in progress, nak with delay). What is queued stays queued unless asked to wait."""
        if seq in self.pending:
            self._queued.discard(seq)
            self._due.pop(seq, None)
            (self.delayed.add if sent_back else self.delayed.discard)(seq)
            self._wait(seq, deadline_ns)

    def give_up(self, seq: int) -> int:
        """`max_deliver` is reached: no longer pending, but remembered. How often it was delivered."""
        count = self.deliveries(seq)
        # The lowest one holds the floor where it is; any other is passed when what is below it is acknowledged.
        shown = self.shown_floor if self._shown or next(iter(self.pending), 0) == seq else None
        if self.ahead is not None:
            shown = None
        self.ack(seq)
        self._shown = shown
        self.exhausted[seq] = count
        return count

    def is_queued(self, seq: int) -> bool:
        """Whether it waits to be delivered again."""
        return seq in self._queued

    # --- time ---

    def take_due(self, now_ns: int, limit: int) -> list[int]:
        """Pending messages whose deadline has passed, ascending; the caller queues or gives up each of them."""
        due: list[int] = []
        for seq, deadline_ns in self._due.items():
            if deadline_ns > now_ns or len(due) >= limit:
                break
            due.append(seq)
        while self._heap and self._heap[0][0] <= now_ns and len(due) < limit:
            deadline_ns, seq = heapq.heappop(self._heap)
            if self._odd.get(seq) == deadline_ns:
                del self._odd[seq]
                self.delayed.discard(seq)
                self._due[seq] = deadline_ns  # so that it is in one place whatever the caller does next
                due.append(seq)
        due.sort()
        return due

    def next_deadline_ns(self) -> int | None:
        """When `take_due` may have something next."""
        while self._heap and self._odd.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        first = next(iter(self._due.values()), None)
        if not self._heap:
            return first
        return self._heap[0][0] if first is None else min(first, self._heap[0][0])

    def last_deadline_ns(self) -> int:
        """The latest deadline of all; 0 if nothing is pending."""
        return max((*self._odd.values(), *self._due.values()), default=0)

    def deadline_ns(self, seq: int) -> int:
        """Deadline of one pending message; 0 if it is queued."""
        return self._due.get(seq) or self._odd.get(seq, 0)

    # --- floor ---

    @property
    def floor(self) -> tuple[int, int]:
        """`(consumer sequence, stream sequence)` up to which everything is acknowledged."""
        if self.ahead is not None:
            return self._lowest()
        for seq, dseq in self.pending.items():
            if dseq - 1 > self._floor_dseq:
                self._floor_dseq, self._floor_seq = dseq - 1, max(seq - 1, self._floor_seq)
            break
        return self._floor_dseq, self._floor_seq

    def _lowest(self) -> tuple[int, int]:
        """The floor where messages go ahead of others."""
        assert self.ahead is not None
        dseq = next(iter(self.pending.values()), self.dseq + 1)
        lowest = min(min(self.pending, default=self.delivered_seq + 1), min(self.ahead, default=self.delivered_seq + 1))
        return dseq - 1, min(lowest - 1, self.delivered_seq)

    @property
    def shown_floor(self) -> tuple[int, int]:
        """`floor` as it is shown and stored."""
        return self._shown or self.floor

    # --- changes from outside ---

    def remove(self, seqs: Iterable[int]) -> list[tuple[int, int, int]]:
        """These messages no longer exist: `(sequence, consumer sequence, deliveries)` of those that were pending."""
        gone = []
        for seq in seqs:
            dseq = self.pending.get(seq)
            if dseq is not None:
                gone.append((seq, dseq, self.deliveries(seq)))
                self.ack(seq)
            else:
                self.exhausted.pop(seq, None)
        return gone

    def skip_to(self, next_seq: int) -> None:
        """Everything below was removed from the stream, and nothing of it is pending: the floor is not below that."""
        self.delivered_seq = max(self.delivered_seq, next_seq - 1)
        self._floor_seq = max(self._floor_seq, next_seq - 1)
        if not self.pending:
            self.emptied()
        elif self._shown is not None and self._shown[1] < next_seq - 1:
            self._shown = None

    def shift_deadlines(self, delta_ns: int) -> None:
        """The waiting time has changed for what is already out, too."""
        for seq in self._due:
            self._due[seq] += delta_ns
        self._odd = {seq: deadline_ns + delta_ns for seq, deadline_ns in self._odd.items()}
        self._heap = [(deadline_ns, seq) for seq, deadline_ns in self._odd.items()]
        heapq.heapify(self._heap)

    def expire_all(self, now_ns: int) -> None:
        """Every deadline has passed (the deliver subject changed)."""
        for seq in [seq for seq in self.pending if seq not in self._queued]:
            self.postpone(seq, now_ns)

    # --- persistence ---

    def dump(self) -> list[object]:
        """Everything, as plain lists of numbers."""
        floor_dseq, floor_seq = self.shown_floor
        pending: list[int] = []
        for seq, dseq in self.pending.items():
            pending += (seq, dseq, self.deadline_ns(seq))
        again = [number for pair in self.redeliveries.items() for number in pair]
        given_up = [number for pair in self.exhausted.items() for number in pair]
        state: list[object] = [self.dseq, self.delivered_seq, floor_dseq, floor_seq, pending, again, given_up]
        return state if self.ahead is None else [*state, list(self.ahead)]

    @classmethod
    def load(cls, state: Any) -> AckEngine:
        """The inverse of `dump`; what was queued is due at once.

        Raises:
            ValueError: the state was not written by `dump`.
        """
        try:
            engine = cls(1, is_straight=len(state) < 8)
            engine.dseq, engine.delivered_seq, engine._floor_dseq, engine._floor_seq = map(int, state[:4])
            pending, again, given_up = (list(map(int, part)) for part in state[4:7])
            engine.pending.update(zip(pending[0::3], pending[1::3], strict=True))
            engine.redeliveries.update(zip(again[0::2], again[1::2], strict=True))
            engine.exhausted = dict(zip(given_up[0::2], given_up[1::2], strict=True))
            if engine.ahead is not None:
                engine.ahead.update(dict.fromkeys(map(int, state[7])))
            for seq, deadline_ns in sorted(zip(pending[0::3], pending[2::3], strict=True), key=lambda pair: pair[1]):
                engine._due[seq] = deadline_ns
            lowest = min(engine.pending, default=engine.delivered_seq + 1)
            if any(engine._floor_seq < seq < lowest for seq in engine.exhausted):
                engine._shown = engine._floor_dseq, engine._floor_seq
        except (TypeError, IndexError) as error:
            raise ValueError(f"consumer state: {error}") from None
        return engine

    def clamp(self, last_seq: int) -> None:
        """The stream ends earlier than it did when this was written: what is beyond did not happen."""
        if self.delivered_seq <= last_seq:
            return
        for seq in [seq for seq in self.pending if seq > last_seq]:
            self.ack(seq)
        for seq in [seq for seq in self.exhausted if seq > last_seq]:
            del self.exhausted[seq]
        if self.ahead is not None:
            self.ahead = {seq: None for seq in self.ahead if seq <= last_seq}
        self.delivered_seq = last_seq
        self._floor_seq = min(self._floor_seq, last_seq)
        if self._shown is not None and self._shown[1] > last_seq:
            self._shown = None

    def check_invariants(self) -> None:
        """What must hold between calls."""
        waiting = self._due.keys() | self._odd.keys()
        assert not self._due.keys() & self._odd.keys()
        assert waiting | self._queued == self.pending.keys() and not waiting & self._queued
        assert self.redeliveries.keys() <= self.pending.keys()
        assert self.delayed <= self._odd.keys()
        assert not self.exhausted.keys() & self.pending.keys()
        assert not self.ahead or not self.ahead.keys() & (self.pending.keys() | self.exhausted.keys())
        floor_dseq, floor_seq = self.floor
        assert floor_dseq <= self.dseq and floor_seq <= self.delivered_seq
        assert all(floor_seq < seq <= self.delivered_seq for seq in self.pending)
        assert self.shown_floor[0] <= floor_dseq and self.shown_floor[1] <= floor_seq

    def _wait(self, seq: int, deadline_ns: int) -> None:
        self._odd[seq] = deadline_ns
        heapq.heappush(self._heap, (deadline_ns, seq))
        if len(self._heap) > 2 * len(self._odd) + _OUTDATED_MAX:
            self._heap = [(deadline_ns, seq) for seq, deadline_ns in self._odd.items()]
            heapq.heapify(self._heap)
