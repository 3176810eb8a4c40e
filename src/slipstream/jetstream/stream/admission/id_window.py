"""The duplicate window over time: message ids leave it when nothing arrives, and are read from the log again.

`dedup` holds the ids; this keeps the timer, and finds them anew after a start, a fault, or when the window grows. An id
counts whether or not its message is still there: who works off a queue and dies before the publisher got its ack must
not get the message twice. So the records of removed messages are read as well, and the store keeps them that long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from operator import itemgetter

from slipstream.jetstream import headers
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.ports import Cancel, Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Damaged, StoredMessage
from slipstream.jetstream.stream.admission.appends import Appends
from slipstream.jetstream.stream.header_scan import messages_with_headers
from slipstream.jetstream.stream.limits import EXPIRE_INTERVAL_MIN_NS

__all__ = ["IdWindow"]


class IdWindow:
    """The duplicate window of one stream."""

    __slots__ = ("_appends", "_ports", "_stopped", "_store", "_timer")

    def __init__(self, store: Store, ports: Ports, appends: Appends) -> None:
        """Keep the ids of `appends`."""
        self._store = store
        self._ports = ports
        self._appends = appends
        self._timer: Cancel | None = None
        self._stopped = False
        store.keep_removed(lambda: appends.ids.oldest_ns(ports.now_ns()))

    def remembered(self) -> None:
        """See to it that message ids leave the window even if nothing more arrives."""
        if self._timer is None:
            self._arm()

    def stop(self) -> None:
        """Keep no more time."""
        self._stopped = True
        if self._timer is not None:
            self._timer()
            self._timer = None

    def rebuild(self, config: StreamConfig) -> None:
        """Read the window's message ids from the log, and the id of the last message."""
        if config.mirror is None:
            window_ns = config.duplicate_window_ns
            entries = merge(self._stored_ids(window_ns), self._removed_ids(window_ns), key=itemgetter(1))
            self._appends.ids.rebuild(entries)
        last = self._store.get(self._store.last_seq)
        block = last.headers if last is not None and not isinstance(last, Damaged) else b""
        self._appends.intake.last_id = (headers.find(block, b"Nats-Msg-Id") if block else None) or b""
        self.remembered()

    def _arm(self) -> None:
        due_ns = self._appends.ids.next_expiry_ns()
        if due_ns is not None and not self._stopped:
            delay_ns = max(due_ns - self._ports.now_ns(), EXPIRE_INTERVAL_MIN_NS)
            self._timer = self._ports.call_later(delay_ns, self._forget)

    def _forget(self) -> None:
        self._timer = None
        self._appends.ids.expire(self._ports.now_ns())
        self._arm()

    def _removed_ids(self, window_ns: int) -> list[tuple[bytes, int, int]]:
        if window_ns <= 0:
            return []
        return list(_ids_of(self._store.removed_with_headers(self._ports.now_ns() - window_ns)))[::-1]

    def _stored_ids(self, window_ns: int) -> Iterator[tuple[bytes, int, int]]:
        store = self._store
        if window_ns <= 0 or not store.messages:
            return
        first_seq = store.seq_for_time(self._ports.now_ns() - window_ns + 1)
        yield from _ids_of(messages_with_headers(store, first_seq, store.last_seq))


def _ids_of(messages: Iterable[StoredMessage]) -> Iterator[tuple[bytes, int, int]]:
    for message in messages:
        message_id = headers.find(message.headers, b"Nats-Msg-Id")
        if message_id:
            yield message_id, message.seq, message.ts_ns
