"""Messages whose time has come: `max_age` of the stream, TTLs of single messages, and the markers they leave.

Times are those the store has, so nothing is decided twice: a deadline is written with the message. The owner removes
what `due` gives; this file only says what and when.

Two ways through the log. Without TTLs and markers, age is a cut: everything before one sequence goes at once. With
them each message is looked at, because `never` exempts one and the last of a subject may leave a marker.

Invariant: below `_exempt_below` there are only messages that never expire (or were removed since).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import ALL, Damaged
from slipstream.jetstream.stream.admission.ttl import NEVER, message_ttl

__all__ = ["Expiry"]


class Expiry:
    """Deadlines of one stream's messages."""

    __slots__ = ("_deadlines", "_each", "_exempt_below", "_max_age_ns", "_oldest", "_store")

    def __init__(self, store: Store) -> None:
        """Start from the deadlines the store has; `configure` decides what they mean."""
        self._store = store
        self._max_age_ns = 0
        self._each = False  # messages must be looked at one by one
        self._exempt_below = 0
        self._deadlines: list[tuple[int, int]] = []
        self._oldest = (0, 0)  # sequence and time of the oldest message when it was last asked for
        self.rebuild(store.expiries())

    def configure(self, config: StreamConfig) -> None:
        """Take over a stream's settings; a sealed stream keeps everything."""
        self._max_age_ns = 0 if config.sealed else config.max_age_ns
        self._each = config.allow_msg_ttl or config.subject_delete_marker_ttl_ns > 0
        self._exempt_below = 0

    def rebuild(self, deadlines: Iterable[tuple[int, int]]) -> None:
        """Forget all deadlines and take these `(seq, expires_ns)`."""
        self._deadlines = [(expires_ns, seq) for seq, expires_ns in deadlines]
        heapq.heapify(self._deadlines)
        self._oldest = (0, 0)  # after a fault the sequence may be another message's

    def add(self, seq: int, expires_ns: int) -> None:
        """A message with its own deadline was appended."""
        heapq.heappush(self._deadlines, (expires_ns, seq))

    def cut(self, now_ns: int) -> int:
        """The sequence below which everything is too old; 0 if nothing is, or if messages go one by one."""
        if not self._max_age_ns or self._each or not self._store.assigned.messages:
            return 0
        if self._oldest_ns(self._store.assigned.first_seq) > now_ns - self._max_age_ns:
            return 0
        return self._store.seq_for_time(now_ns - self._max_age_ns + 1)

    def due(self, now_ns: int, limit: int) -> list[int]:
        """Up to `limit` sequences that have to go one by one, ascending. They are not given again."""
        seqs = self._aged(now_ns, limit) if self._max_age_ns and self._each else []
        while self._deadlines and self._deadlines[0][0] <= now_ns and len(seqs) < limit:
            _, seq = heapq.heappop(self._deadlines)
            seqs.append(seq)
        return sorted(set(seqs))

    def next_due_ns(self) -> int | None:
        """When to look again; None if nothing will expire as things are."""
        candidates = []
        if self._deadlines:
            candidates.append(self._deadlines[0][0])
        if self._max_age_ns and self._store.assigned.messages:
            oldest_seq = self._store.assigned.first_seq
            if self._each and self._exempt_below > oldest_seq:
                oldest_seq = self._store.next_seq(ALL, self._exempt_below)
            oldest_ns = self._oldest_ns(oldest_seq)
            if oldest_ns:
                candidates.append(oldest_ns + self._max_age_ns)
        return min(candidates) if candidates else None

    def _oldest_ns(self, seq: int) -> int:
        """Time of the first readable message from `seq` on; 0 when there is none."""
        while seq:
            if seq != self._oldest[0]:
                message = self._store.get(seq)
                if message is None or isinstance(message, Damaged):
                    seq = self._store.next_seq(ALL, seq + 1)
                    continue
                self._oldest = (seq, message.ts_ns)
            return self._oldest[1]
        return 0

    def _aged(self, now_ns: int, limit: int) -> list[int]:
        """Messages over age, oldest first; those that never expire are remembered and passed over."""
        seqs: list[int] = []
        seq = self._store.next_seq(ALL, self._exempt_below)
        while seq and len(seqs) < limit:
            message = self._store.get(seq)
            if message is not None and not isinstance(message, Damaged):
                if message.ts_ns > now_ns - self._max_age_ns:
                    break
                if not message.headers or message_ttl(message.headers) != NEVER:
                    seqs.append(seq)
            # Everything passed here is either given to be removed or exempt.
            self._exempt_below = seq + 1
            seq = self._store.next_seq(ALL, seq + 1)
        return seqs
