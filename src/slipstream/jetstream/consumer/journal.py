"""Keeps one consumer's state in its store's journal: whole now and then, changes in between.

A change that nobody waits for (a delivery, an ack without confirmation) is held here until the owner's next tick, a
fraction of a second later, so that it costs no write of its own and changes of one kind become one. Losing it in a
crash means that a message is delivered again, which clients must expect anyway. Whoever promises something calls
`flush` before the commit that the promise waits for; changes reach the store in the order they were made.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from slipstream.jetstream.consumer.limits import CONSUMER_CHANGES_HELD, CONSUMER_DELTAS_BYTES_MIN
from slipstream.jetstream.consumer.state import ACKED, DELIVERED, PICKED, RUN, UNACKED, ConsumerState
from slipstream.jetstream.store.contract import Store

__all__ = ["ConsumerJournal", "NoJournal"]

_encode = msgspec.msgpack.Encoder().encode


class ConsumerJournal:
    """Writes for one consumer."""

    __slots__ = ("_delta_bytes", "_held", "_holding", "_key", "_state", "_store", "_whole_bytes")

    def __init__(
        self, store: Store, name: str, state: ConsumerState, holding: Callable[[ConsumerJournal], None]
    ) -> None:
        """Write for the consumer `name`; `holding` is called when a `flush` would be useful soon."""
        self._store = store
        self._key = name.encode()
        self._state = state
        self._holding = holding
        self._held: list[list[object]] = []
        self._whole_bytes = 0
        self._delta_bytes = 0

    def put(self) -> None:
        """Write the whole state; what was held is in it."""
        self._held.clear()
        whole = self._state.encode()
        self._whole_bytes, self._delta_bytes = len(whole), 0
        self._store.journal.put(self._key, whole)
        self._holding(self)

    def delivered(self, deadline_ns: int, next_seq: int, seqs: list[int]) -> None:
        """First deliveries; written short when there are no gaps."""
        first, count = seqs[0], len(seqs)
        if seqs[-1] - first + 1 == count:
            self.add(RUN, deadline_ns, next_seq, first, count)
        else:
            self.add(DELIVERED, deadline_ns, next_seq, seqs)

    def picked(self, deadline_ns: int, next_seq: int, seqs: list[int], passed: list[int]) -> None:
        """First deliveries out of order, with what was passed over since the last ones."""
        self.add(PICKED, deadline_ns, next_seq, seqs, passed)

    def unacked(self, next_seq: int, count: int, last_seq: int) -> None:
        """First deliveries that need no ack; several in a row become one."""
        if self._held and self._held[-1][0] == UNACKED:
            last = self._held[-1]
            assert isinstance(last[2], int)
            last[1:] = [next_seq, last[2] + count, last_seq]
        else:
            self.add(UNACKED, next_seq, count, last_seq)

    def acked(self, seqs: list[int]) -> None:
        """Acks; several in a row become one."""
        if self._held and self._held[-1][0] == ACKED:
            known = self._held[-1][1]
            assert isinstance(known, list)
            known += seqs
        else:
            self.add(ACKED, seqs)

    def add(self, *change: object) -> None:
        """One change that the state has already made."""
        if not self._held:
            self._holding(self)
        self._held.append([*change])
        if len(self._held) >= CONSUMER_CHANGES_HELD:
            self.flush()

    def flush(self) -> None:
        """Hand what is held to the store: it is durable with the next commit."""
        if not self._held:
            return
        held = [_encode(change) for change in self._held]
        self._delta_bytes += sum(map(len, held))
        if self._delta_bytes > CONSUMER_DELTAS_BYTES_MIN and self._delta_bytes > 2 * self._whole_bytes:
            self.put()
            return
        self._held.clear()
        for delta in held:
            self._store.journal.add(self._key, delta)

    def remove(self) -> None:
        """Forget the consumer."""
        self._held.clear()
        self._store.journal.remove(self._key)
        self._holding(self)


class NoJournal:
    """Of consumers kept in memory only: they do not survive a restart."""

    def put(self) -> None:
        """Nothing is kept."""

    def delivered(self, deadline_ns: int, next_seq: int, seqs: list[int]) -> None:
        """Nothing is kept."""

    def picked(self, deadline_ns: int, next_seq: int, seqs: list[int], passed: list[int]) -> None:
        """Nothing is kept."""

    def unacked(self, next_seq: int, count: int, last_seq: int) -> None:
        """Nothing is kept."""

    def acked(self, seqs: list[int]) -> None:
        """Nothing is kept."""

    def add(self, *change: object) -> None:
        """Nothing is kept."""

    def flush(self) -> None:
        """Nothing is held."""

    def remove(self) -> None:
        """Nothing was kept."""
