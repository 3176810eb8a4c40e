"""Message ids seen within the duplicate window.

An id counts from the time its message got a sequence, so that two publishes in one batch are told apart; if the batch
is lost, the stream rebuilds this from the log and the id is free again. The window is kept by dropping entries from
the old end whenever an id is added or looked up, and by a timer of the owner's when nothing arrives.

Invariant: `_order` holds every id of `_seqs` at least once, in the order of its times. An id published again after its
window has two entries; the older one then no longer owns it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

__all__ = ["MessageIds"]


class MessageIds:
    """The ids of one stream. A window of zero remembers nothing."""

    __slots__ = ("_order", "_seqs", "window_ns")

    def __init__(self, window_ns: int) -> None:
        """Remember ids for `window_ns`."""
        self.window_ns = window_ns
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

    def expire(self, now_ns: int) -> None:
        """Forget what is older than the window."""
        order, horizon_ns = self._order, now_ns - self.window_ns
        while order and order[0][0] <= horizon_ns:
            _, message_id, seq = order.popleft()
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
