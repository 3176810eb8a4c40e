"""One connection a process and server, kept between calls and tasks, made anew when it was lost.

Planner and workers of Spark are processes that live long and work one call at a time, so a connection is kept; a server
drops clients that answer no ping, so one that was idle for long is not trusted.

What this is not: reconnecting under a read. A read that loses its connection fails, and whoever reads goes on from the
next sequence (`ranges`).
"""

from __future__ import annotations

import fnmatch
import gc
import time
from collections.abc import Callable
from typing import Any, TypeVar

from slipstream.bulk import BulkClient, BulkError, connect
from slipstream.jetstream.gojson.times import parse_time
from slipstream.spark.runtime.retention import RetentionRisk, read_retention
from slipstream.spark.runtime.stream_state import Measure, Measured, StreamState
from slipstream.spark.runtime.target import Reach, Target

__all__ = ["Connection", "back_off", "drop_connection", "get_connection", "retrying", "settle_worker"]

_T = TypeVar("_T")
_STREAM_NOT_FOUND = 10059
_MESSAGE_NOT_FOUND = 10037
_IDLE_SECONDS_MAX = 60.0  # servers ask for a sign of life every two minutes and give up after the second time
_BACK_OFF_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_STREAMS_MAX = 10_000  # of one pattern

_connections: dict[Reach, Connection] = {}
_settled = False


class Connection:
    """A bulk client and the questions the Spark side asks."""

    def __init__(self, client: BulkClient) -> None:
        self.client = client
        self.used_at = time.monotonic()
        self._replaces: dict[str, bool] = {}  # by identity

    @property
    def is_slipstream(self) -> bool:
        """Whether the server offers bulk calls."""
        return self.client.is_slipstream

    def request(self, call: str, body: dict[str, object] | bytes = b"") -> dict[str, Any]:
        """Call the JetStream API; `call` follows the prefix."""
        return self.client.link.request(call, body)

    def state(self, stream: str) -> StreamState | None:
        """The stream now; None if there is none of that name."""
        try:
            if not self.is_slipstream:
                return _state(stream, self.client.stream_info(stream))
            found = self.client.bulk_info(stream)
            first, last = int(found["first_seq"]), int(found["last_seq"])
            return StreamState(stream, str(found["identity"]), max(first, 1) if first <= last else last + 1, last)
        except BulkError as error:
            if error.err_code == _STREAM_NOT_FOUND:
                return None
            raise

    def retention(self, stream: str) -> RetentionRisk:
        """What can have removed messages of a stream."""
        return read_retention(self.client.stream_info(stream), self.client.link.max_payload, time.time_ns())

    def oldest_ns(self, state: StreamState, seq: int) -> int:
        """A time before which no message from `seq` on was stored; 0 for streams that replace nothing.

        Those whose front moves by itself need it, see `retention`.
        """
        if state.identity in self._replaces and not self._replaces[state.identity]:
            return 0
        found = self.retention(state.name)
        self._replaces[state.identity] = found.per_subject > 0
        if not found.per_subject:
            return 0
        try:
            message = self.request(f"STREAM.MSG.GET.{state.name}", {"seq": seq, "next_by_subj": ">"})["message"]
        except BulkError as error:
            if error.retryable:
                raise
            # None is there: all are still to come. Whoever may not ask knows nothing.
            return found.now_ns if error.err_code == _MESSAGE_NOT_FOUND else 0
        return parse_time(message["time"])

    def seq_at(self, state: StreamState, time_ns: int, transport: str) -> int:
        """Sequence of the first message stored at or after a time; behind the last one if there is none."""
        if state.first > state.last:
            return state.last + 1
        plan = self.client.plan(state.name, state.first, state.last, start_time_ns=time_ns, transport=transport)
        return plan.first if plan.messages else state.last + 1

    def stream_names(self, target: Target) -> list[str]:
        """The streams of a read; patterns are looked up."""
        if not target.has_patterns:
            return list(target.stream_names)
        known: list[str] = []
        while len(known) < _STREAMS_MAX:
            page = self.request("STREAM.NAMES", {"offset": len(known)})
            names = page.get("streams") or []
            known += names
            if not names or len(known) >= int(page.get("total", 0)):
                break
        return sorted(name for name in known if any(fnmatch.fnmatchcase(name, one) for one in target.stream_names))

    def measure(self, subjects: tuple[str, ...], transport: str) -> Measure:
        """A `Measure` for streams filtered by `subjects`."""

        def ask(stream: str, first: int, last: int, max_messages: int | None, max_bytes: int | None) -> Measured:
            plan = self.client.plan(
                stream,
                first,
                last,
                subjects=subjects,
                max_msgs=max_messages,
                max_bytes=max_bytes,
                partitions=1,
                transport=transport,
            )
            # A range without messages is cut at its end; nothing in it can exceed a limit.
            return Measured(plan.last if plan.messages else last, plan.messages, plan.bytes)

        return ask

    def close(self) -> None:
        """Close it."""
        self.client.close()


def get_connection(reach: Reach) -> Connection:
    """The connection of this process to a server.

    Raises:
        BulkError: no server lets us in.
    """
    found = _connections.get(reach)
    if found is not None and time.monotonic() - found.used_at > _IDLE_SECONDS_MAX:
        drop_connection(reach)
        found = None
    if found is None:
        found = _connections[reach] = Connection(connect(reach))
    found.used_at = time.monotonic()
    return found


def drop_connection(reach: Reach) -> None:
    """Forget a connection that failed."""
    found = _connections.pop(reach, None)
    if found is not None:
        found.close()


def retrying(reach: Reach, timeout_ns: int, call: Callable[[Connection], _T]) -> _T:
    """Make a call that may be made again, until it works or the time is over.

    Raises:
        BulkError: the last one, or the first that will not pass.
    """
    deadline = time.monotonic() + timeout_ns / 1e9
    attempt = 0
    while True:
        try:
            return call(get_connection(reach))
        except BulkError as error:
            drop_connection(reach)
            pause = back_off(attempt)
            if not error.retryable or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        attempt += 1


def back_off(attempt: int) -> float:
    """Seconds to wait before trying again."""
    return _BACK_OFF_SECONDS[min(attempt, len(_BACK_OFF_SECONDS) - 1)]


def settle_worker() -> None:
    """Take what a worker has loaded out of the garbage collector's sight, once.

    Spark collects garbage after every task; with pyarrow loaded that is 40 to 80 ms, more than a small task's work.
    """
    global _settled
    if not _settled:
        _settled = True
        gc.freeze()


def _state(stream: str, info: dict[str, Any]) -> StreamState:
    state = info["state"]
    first, last = int(state["first_seq"]), int(state["last_seq"])
    if not state["messages"]:
        first = last + 1
    return StreamState(stream, info["identity"], first, last)
