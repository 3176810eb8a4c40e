"""Pull requests: reading one, and the queue of those that wait.

The queue is fair: a request that got a message goes to the end of its priority. Requests that ended are removed from
the middle lazily, so that ending one costs the same however long the queue is. Time is a heap of the next moment each
request wants attention (its end, or its next heartbeat).
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections import deque
from collections.abc import Iterator
from typing import Annotated, TypeVar

import msgspec

from slipstream.jetstream.gojson.bind import Field, GoStruct
from slipstream.jetstream.gojson.scalars import BOOL, DURATION, INT, INT64, STRING
from slipstream.jetstream.gojson.scan import JsonError

__all__ = ["PullRequest", "WaitingRequests", "read_request", "unmarshal"]

StructT = TypeVar("StructT", bound=msgspec.Struct)

_NUMBER = re.compile(rb"[+-]?[0-9]{1,18}")
_BLANK = b" \t\r\n\v\f"
PRIORITY_MAX = 9
_ENDED_MAX = 64  # requests that ended and are still in a list, beside as many as have not


class _Body(msgspec.Struct, kw_only=True):
    expires_ns: int = 0
    batch: int = 0
    max_bytes: int = 0
    no_wait: bool = False
    heartbeat_ns: int = 0
    group: str = ""
    min_pending: int = 0
    min_ack_pending: int = 0
    id: str = ""
    priority: int = 0


_BODY = GoStruct(
    "",  # nats-server reads it through a pointer, so that its complaints name no struct
    _Body,
    [
        Field("expires", DURATION, attribute="expires_ns"),
        Field("batch", INT),
        Field("max_bytes", INT),
        Field("no_wait", BOOL),
        Field("idle_heartbeat", DURATION, attribute="heartbeat_ns"),
        Field("group", STRING),
        Field("min_pending", INT64),
        Field("min_ack_pending", INT64),
        Field("id", STRING),
        Field("priority", INT),
    ],
)


_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _PlainBody(msgspec.Struct, forbid_unknown_fields=True, rename={"heartbeat_ns": "idle_heartbeat"}, kw_only=True):
    """What clients send: the exact names and no oddities. Anything else is read the way Go does, which takes longer."""

    expires: _Int64 = 0
    batch: _Int64 = 0
    max_bytes: _Int64 = 0
    no_wait: bool = False
    heartbeat_ns: _Int64 = 0
    group: str = ""
    min_pending: _Int64 = 0
    min_ack_pending: _Int64 = 0
    id: str = ""
    priority: _Int64 = 0

    @property
    def expires_ns(self) -> int:
        """The same under the name of the other reader."""
        return self.expires


_ODD = re.compile(rb"[^ -~]|[.\\]|[0-9][eE]")  # fractions, exponents, escapes, control and other characters
_plain_body = msgspec.json.Decoder(_PlainBody).decode


def _read_body(body: bytes) -> _Body | _PlainBody:
    if _ODD.search(body) is None:
        try:
            return _plain_body(body)
        except msgspec.MsgspecError:
            pass
    return unmarshal(_BODY, body)


class PullRequest:
    """What one client asked for, and how far it has been served."""

    __slots__ = (
        "batch",
        "beat_ns",
        "bytes_left",
        "delivered",
        "ended",
        "expires_ns",
        "group",
        "grouped",
        "heartbeat_ns",
        "min_ack_pending",
        "min_pending",
        "no_wait",
        "pin_id",
        "preview",
        "priority",
        "reply",
    )

    def __init__(self, reply: bytes, batch: int = 1) -> None:
        """Ask for `batch` messages without any condition."""
        self.reply = reply
        self.batch = batch  # messages still wanted; a request for none gets one, as with nats-server
        self.delivered = 0
        self.bytes_left = 0  # byte budget; 0: none
        self.no_wait = False
        self.expires_ns = 0  # 0: never
        self.heartbeat_ns = 0
        self.beat_ns = 0  # time of the next heartbeat
        self.grouped = False  # the request could have named a group (it was JSON)
        self.group = ""
        self.min_pending = 0
        self.min_ack_pending = 0
        self.pin_id = ""
        self.priority = 0
        self.preview = False  # it came as JetStream's preview had it
        self.ended = False

    def next_event_ns(self) -> int:
        """When it wants attention next; 0: never."""
        if self.beat_ns and (not self.expires_ns or self.beat_ns < self.expires_ns):
            return self.beat_ns
        return self.expires_ns


def unmarshal(struct: GoStruct[StructT], body: bytes) -> StructT:
    """Read exactly one document, ignoring unknown names, with the words of Go's `json.Unmarshal`.

    Raises:
        JsonError: it is none.
    """
    try:
        if not body.strip(_BLANK):
            raise JsonError("unexpected EOF")
        return struct.decode(body, strict=False)
    except JsonError as error:
        if str(error) == "unexpected EOF":
            raise JsonError("unexpected end of JSON input") from None
        raise


def read_request(reply: bytes, body: bytes, now_ns: int) -> PullRequest:
    """The request in a body: empty for one message, a number, or JSON.

    Raises:
        JsonError: JSON that is none, or contradicts itself; the text is for the client.
    """
    body = body.strip(_BLANK)
    if not body.startswith(b"{"):
        return PullRequest(reply, int(body) if _NUMBER.fullmatch(body) else 1)
    asked = _read_body(body)
    if asked.heartbeat_ns > 0 and asked.heartbeat_ns * 2 > asked.expires_ns:
        raise JsonError("heartbeat value too large")
    request = PullRequest(reply, asked.batch)
    request.bytes_left = asked.max_bytes
    request.no_wait = asked.no_wait
    request.expires_ns = now_ns + asked.expires_ns if asked.expires_ns else 0
    request.heartbeat_ns = max(asked.heartbeat_ns, 0)
    request.beat_ns = now_ns + asked.heartbeat_ns if asked.heartbeat_ns > 0 else 0
    request.grouped = True
    request.group = asked.group
    request.min_pending = asked.min_pending
    request.min_ack_pending = asked.min_ack_pending
    request.pin_id = asked.id
    request.priority = asked.priority
    return request


class WaitingRequests:
    """Requests in the order they are served: by priority, then fairly."""

    __slots__ = ("_heap", "_levels", "_numbers", "count", "no_wait_count")

    def __init__(self) -> None:
        """Nobody waits."""
        self._levels: list[deque[PullRequest]] = [deque() for _ in range(PRIORITY_MAX + 1)]
        self.count = 0  # of those that have not ended
        self._heap: list[tuple[int, int, PullRequest]] = []
        self._numbers = itertools.count()
        self.no_wait_count = 0  # of these

    def __len__(self) -> int:
        """Requests that have not ended."""
        return self.count

    def __iter__(self) -> Iterator[PullRequest]:
        """All of them, in the order they are served."""
        return (request for level in self._levels for request in level if not request.ended)

    @property
    def wanted(self) -> int:
        """Messages all of them together still want."""
        return sum(request.batch for request in self)

    def add(self, request: PullRequest) -> None:
        """Put it last of its priority."""
        level = self._levels[request.priority]
        if len(level) > 2 * self.count + _ENDED_MAX:
            self._levels[request.priority] = level = deque(old for old in level if not old.ended)
        level.append(request)
        self.count += 1
        self.no_wait_count += request.no_wait
        self.watch(request)

    def watch(self, request: PullRequest) -> None:
        """Look after it at its next event."""
        due_ns = request.next_event_ns()
        if not due_ns:
            return
        if len(self._heap) > 2 * self.count + _ENDED_MAX:
            self._heap = [entry for entry in self._heap if not entry[2].ended]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (due_ns, next(self._numbers), request))

    def only(self) -> PullRequest | None:
        """The one that waits; None if none does, or several."""
        return self.first() if self.count == 1 else None

    def first(self) -> PullRequest | None:
        """Whose turn it is."""
        for level in self._levels:
            while level:
                if not level[0].ended:
                    return level[0]
                level.popleft()
        return None

    def rotate(self, request: PullRequest) -> None:
        """The first one goes behind the others of its priority."""
        level = self._levels[request.priority]
        assert level[0] is request
        level.rotate(-1)

    def end(self, request: PullRequest) -> None:
        """It gets nothing more."""
        if not request.ended:
            request.ended = True
            self.count -= 1
            self.no_wait_count -= request.no_wait

    def next_event_ns(self) -> int | None:
        """When `take_due` may have something."""
        while self._heap and self._heap[0][2].ended:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ns: int) -> list[PullRequest]:
        """Those whose moment has come; the caller ends or watches each of them."""
        due = []
        while self._heap and self._heap[0][0] <= now_ns:
            request = heapq.heappop(self._heap)[2]
            if not request.ended:
                due.append(request)
        return due

    def check_invariants(self) -> None:
        """What must hold between calls."""
        assert self.count == sum(1 for _ in self)
        assert self.no_wait_count == sum(request.no_wait for request in self)
