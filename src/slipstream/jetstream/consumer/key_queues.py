"""Messages that wait for their turn, by key: which of them is next.

A key with waiting messages is in exactly one place: with the chooser, which says whose turn it is; busy, because one of
its messages is in flight and no second may be (`one_in_flight`); or late, because its rate lets it on at a later time.
Within a key, messages go in the order they were added.

What is chosen is told again: it `took` place, or is `put_back`. What was removed while it waited is skipped when its
turn comes, so that removing costs the same wherever it stands.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable, Set
from typing import Final, Protocol

from slipstream.jetstream.consumer.limits import RATED_KEYS_MAX

__all__ = ["Chooser", "KeyQueues", "KeyRate", "LowestFirst", "OldestFirst", "TurnByTurn"]

_LOWEST: Final = 9  # of priorities; what has none, or something else, is of this one
_REMOVED_MAX: Final = 1_024  # messages that were removed and are still in the queues, beside as many as wait
_SPARE_MAX: Final = 1_024  # empty queues that are kept, of 600 bytes
_OLDEST_EACH: Final = 16  # of so many messages, one is the oldest whatever its priority


class Chooser(Protocol):
    """Says which of the keys that may go is next."""

    def offer(self, key: bytes, seq: int, *, first: bool = False) -> None:
        """A key may go, with this message; offered again, it has another. `first`: its turn was not used."""
        ...

    def take(self) -> tuple[int, bytes] | None:
        """The next one, which is no longer offered; None: no key may go."""
        ...


class OldestFirst:
    """The order of the stream, as far as keys may go. What was offered twice is taken twice: the second is outdated."""

    def __init__(self) -> None:
        self._rising: deque[tuple[int, bytes]] = deque()  # offered in the order of their sequences, as most are
        self._heap: list[tuple[int, bytes]] = []  # the others

    def offer(self, key: bytes, seq: int, *, first: bool = False) -> None:
        """See `Chooser.offer`."""
        rising = self._rising
        if not rising or rising[-1][0] < seq:
            rising.append((seq, key))
        else:
            heapq.heappush(self._heap, (seq, key))

    def take(self) -> tuple[int, bytes] | None:
        """See `Chooser.take`."""
        rising, heap = self._rising, self._heap
        if not heap:
            return rising.popleft() if rising else None
        return rising.popleft() if rising and rising[0] < heap[0] else heapq.heappop(heap)


class TurnByTurn:
    """One message of each key, round and round."""

    def __init__(self) -> None:
        self._ring: OrderedDict[bytes, int] = OrderedDict()

    def offer(self, key: bytes, seq: int, *, first: bool = False) -> None:
        """See `Chooser.offer`."""
        self._ring[key] = seq
        if first:
            self._ring.move_to_end(key, last=False)

    def take(self) -> tuple[int, bytes] | None:
        """See `Chooser.take`."""
        if not self._ring:
            return None
        key, seq = self._ring.popitem(last=False)
        return seq, key


class LowestFirst:
    """The lowest number first; one message in sixteen is the oldest there is, so that none waits for ever."""

    def __init__(self) -> None:
        self._heads: dict[bytes, int] = {}
        self._turn = 0

    def offer(self, key: bytes, seq: int, *, first: bool = False) -> None:
        """See `Chooser.offer`."""
        self._heads[key] = seq
        if first and self._turn:
            self._turn -= 1

    def take(self) -> tuple[int, bytes] | None:
        """See `Chooser.take`."""
        heads = self._heads
        if not heads:
            return None
        self._turn += 1
        key = min(heads) if self._turn % _OLDEST_EACH else min(heads, key=lambda each: heads[each])
        return heads.pop(key), key

    @staticmethod
    def number(key: bytes) -> bytes:
        """The priority in a key: one digit."""
        return key if len(key) == 1 and key.isdigit() else b"%d" % _LOWEST


class KeyRate:
    """When a key may go again. All wait equally long, so the order in which they went is that of their times."""

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns
        self._next_ns: dict[bytes, int] = {}

    def ready_ns(self, key: bytes, now_ns: int) -> int:
        """When this key may go; not later than now: it may. Too many keys at once wait for one another."""
        known = self._next_ns
        while known:
            oldest = next(iter(known))
            if known[oldest] > now_ns:
                break
            del known[oldest]
        if key in known:
            return known[key]
        return next(iter(known.values())) if len(known) >= RATED_KEYS_MAX else now_ns

    def went(self, key: bytes, now_ns: int) -> None:
        """A message of this key goes now."""
        self._next_ns[key] = now_ns + self._interval_ns

    def undo(self, key: bytes) -> None:
        """It did not."""
        self._next_ns.pop(key, None)


class KeyQueues:
    """The waiting messages of one consumer."""

    def __init__(self, chooser: Chooser, rate: KeyRate | None = None, *, one_in_flight: bool = False) -> None:
        """Nothing waits."""
        self._chooser = chooser
        self._rate = rate
        self._one_in_flight = one_in_flight
        self._waiting: dict[bytes, deque[int]] = {}
        self._spare: list[deque[int]] = []  # empty ones, for keys to come: mostly one message of a key waits
        self._key_of: dict[int, bytes] = {}  # of what waits, was chosen, or keeps its key busy
        self._busy: dict[bytes, int] = {}  # keys that may not go → their message that is chosen or in flight
        self._late: list[tuple[int, bytes]] = []  # when keys may go again, a heap
        self._late_keys: set[bytes] = set()
        self._removed = 0  # in the queues and no longer there

    def add(self, seqs: Iterable[int], keys: Iterable[bytes]) -> None:
        """These wait, each behind the others of its key."""
        waiting, key_of, busy, late = self._waiting, self._key_of, self._busy, self._late_keys
        offer, spare = self._chooser.offer, self._spare
        for seq, key in zip(seqs, keys, strict=True):
            key_of[seq] = key
            queue = waiting.get(key)
            if queue is None:
                waiting[key] = queue = spare.pop() if spare else deque()
                if key not in busy and key not in late:
                    offer(key, seq)
            queue.append(seq)

    def in_flight(self, seq: int, key: bytes) -> None:
        """This one was delivered before, and is not acknowledged."""
        if self._one_in_flight and key not in self._busy:
            self._key_of[seq] = key
            self._busy[key] = seq

    def choose(self, most: int, now_ns: int) -> list[int]:
        """The next ones; fewer: no other key may go now."""
        late, waiting, key_of, busy = self._late, self._waiting, self._key_of, self._busy
        take, offer, spare, one_in_flight = self._chooser.take, self._chooser.offer, self._spare, self._one_in_flight
        while late and late[0][0] <= now_ns:
            key = heapq.heappop(late)[1]
            self._late_keys.discard(key)
            if key in waiting and key not in busy:
                offer(key, waiting[key][0])
        chosen: list[int] = []
        while len(chosen) < most and (taken := take()) is not None:
            seq, key = taken
            queue = waiting.get(key)
            if queue is None or queue[0] != seq or key in busy:
                continue  # outdated: it was offered again since, or will be
            if self._removed:
                while queue and queue[0] not in key_of:
                    queue.popleft()  # removed while it waited
                    self._removed -= 1
                if not queue:
                    del waiting[key]
                    continue
            if self._rate is not None:
                if key in self._late_keys:
                    continue  # outdated as well
                ready_ns = self._rate.ready_ns(key, now_ns)
                if ready_ns > now_ns:
                    heapq.heappush(late, (ready_ns, key))
                    self._late_keys.add(key)
                    continue
                self._rate.went(key, now_ns)
            seq = queue.popleft()
            chosen.append(seq)
            if not queue:
                del waiting[key]
                if len(spare) < _SPARE_MAX:
                    spare.append(queue)
            if one_in_flight:
                busy[key] = seq
            elif queue:
                offer(key, queue[0])
        return chosen

    def took(self, seqs: Iterable[int]) -> None:
        """What was chosen is out."""
        if not self._one_in_flight:
            for seq in seqs:
                del self._key_of[seq]

    def put_back(self, seq: int) -> None:
        """What was chosen is not wanted now: it is the first of its key again. The last one chosen goes back first."""
        key = self._key_of[seq]
        if self._rate is not None:
            self._rate.undo(key)
        self._busy.pop(key, None)
        self._waiting.setdefault(key, deque()).appendleft(seq)
        self._chooser.offer(key, seq, first=True)

    def done(self, seqs: Iterable[int]) -> bool:
        """They are no longer in flight; whether a key may go that might not."""
        if not self._one_in_flight:
            return False
        key_of, busy, waiting = self._key_of, self._busy, self._waiting
        freed = False
        for seq in seqs:
            key = key_of.get(seq)
            if key is None or busy.get(key) != seq:
                continue
            del key_of[seq], busy[key]
            queue = waiting.get(key)
            if queue is not None and key not in self._late_keys:
                self._chooser.offer(key, queue[0])
                freed = True
        return freed

    def remove(self, seq: int) -> None:
        """It left the stream while it waited."""
        if self._key_of.pop(seq, None) is None:
            return
        self._removed += 1
        if self._removed > len(self._key_of) + _REMOVED_MAX:
            self._tidy()

    def _tidy(self) -> None:
        """Forget the places of what was removed."""
        self._removed = 0
        for key, queue in list(self._waiting.items()):
            left = deque(seq for seq in queue if seq in self._key_of)
            if not left:
                del self._waiting[key]
                continue
            self._waiting[key] = left
            if left[0] != queue[0] and key not in self._busy and key not in self._late_keys:
                self._chooser.offer(key, left[0])

    def next_ns(self) -> int:
        """When a key may go because of time; 0: none waits for that."""
        return self._late[0][0] if self._late else 0

    @property
    def waiting_seqs(self) -> Set[int]:
        """What waits."""
        return self._key_of.keys() - self._busy.values()

    @property
    def busy_keys(self) -> int:
        """Keys that may not go because one of their messages is in flight, and others wait."""
        return sum(1 for key in self._busy if key in self._waiting)

    @property
    def late_keys(self) -> int:
        """Keys that may not go yet because of their rate."""
        return len(self._late_keys)

    def held(self, now_ns: int) -> int:
        """Messages that may not go now: another one of their key is in flight, or it has had its share."""
        keys = self._busy.keys() | {key for ready_ns, key in self._late if ready_ns > now_ns}
        return sum(seq in self._key_of for key in keys for seq in self._waiting.get(key, ()))

    def check_invariants(self) -> None:
        """What must hold between calls."""
        queued = [seq for queue in self._waiting.values() for seq in queue]
        assert len(queued) == len(set(queued)) and all(self._waiting.values())
        waits = self.waiting_seqs
        assert waits <= set(queued) and len(queued) - len(waits) == self._removed
        assert all(self._key_of[seq] == key for key, seq in self._busy.items())
        assert {key for _, key in self._late} == self._late_keys
