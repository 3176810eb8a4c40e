"""Message ids seen within the duplicate window.

An id counts from the time its message got a sequence, so that two publishes in one batch are told apart; if the batch
is lost, the stream rebuilds this from the log and the id is free again. The window is kept by dropping entries from
the old end whenever an id is added or looked up, and by a timer of the owner's when nothing arrives.

Every id is counted with what it takes in memory (`ID_OVERHEAD_BYTES`), against the account of its stream: messages may
go long before their ids do. Who adds them asks first whether there is room (`cost_of`).

Invariant: `_order` holds every id of `_seqs` at least once, in the order of its times. An id published again after its
window has two entries; the older one then no longer owns it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["ID_OVERHEAD_BYTES", "MessageIds", "cost_of"]

# Of one id beside its own bytes: a bytes object, an entry of a dict, a tuple, two numbers, a place in a deque.
ID_OVERHEAD_BYTES: Final = 280


def cost_of(message_id: bytes) -> int:
    """Memory that an id takes for as long as it is remembered, in bytes."""
    return len(message_id) + ID_OVERHEAD_BYTES


def _uncounted(_delta_bytes: int) -> None:
    """For windows that belong to nobody."""


class MessageIds:
    """The ids of one stream. A window of zero remembers nothing."""

    __slots__ = ("_hold", "_order", "_seqs", "window_ns")

    def __init__(self, window_ns: int, hold: Callable[[int], None] = _uncounted) -> None:
        """Remember ids for `window_ns`; `hold` is told of each change of the memory this takes."""
        self.window_ns = window_ns
        self._hold = hold
        self._seqs: dict[bytes, int] = {}
        self._order: deque[tuple[int, bytes, int]] = deque()

    def __len__(self) -> int:
        """Ids now remembered."""
        return len(self._seqs)

    def find(self, message_id: bytes, now_ns: int) -> int | None:
        """The sequence a message with this id got within the window."""
        self.expire(now_ns)
        return self._seqs.get(message_id)

    def add(self, message_id: bytes, seq: int, ts_ns: int) -> None:
        """Remember an id; times must not go back."""
        if self.window_ns <= 0:
            return
        self._seqs[message_id] = seq
        self._order.append((ts_ns, message_id, seq))
        self._hold(cost_of(message_id))

    def expire(self, now_ns: int) -> None:
        """Forget what is older than the window."""
        order, horizon_ns = self._order, now_ns - self.window_ns
        while order and order[0][0] <= horizon_ns:
            _, message_id, seq = order.popleft()
            self._hold(-cost_of(message_id))
            if self._seqs.get(message_id) == seq:
                del self._seqs[message_id]

    def oldest_ns(self, now_ns: int) -> int:
        """When the oldest id was added that is still in the window; `now_ns` when there is none."""
        self.expire(now_ns)
        return self._order[0][0] if self._order else now_ns

    def next_expiry_ns(self) -> int | None:
        """When the oldest id leaves the window; None if there is none."""
        return self._order[0][0] + self.window_ns if self._order else None

    def rebuild(self, entries: Iterable[tuple[bytes, int, int]]) -> None:
        """Start anew from `(id, seq, ts_ns)` in log order."""
        self._hold(-sum(cost_of(message_id) for _, message_id, _ in self._order))
        self._seqs.clear()
        self._order.clear()
        for message_id, seq, ts_ns in entries:
            self.add(message_id, seq, ts_ns)

    def check_invariants(self) -> None:
        """Every remembered id can expire, and times are in order."""
        times = [ts_ns for ts_ns, _, _ in self._order]
        assert times == sorted(times)
        owned = {(message_id, seq) for _, message_id, seq in self._order}
        assert all(entry in owned for entry in self._seqs.items())
