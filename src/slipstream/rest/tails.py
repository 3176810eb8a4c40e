"""Responses that go on: what a consumer delivers.

The messages come from an ordered consumer of this client's own: without acks, with flow control, and gone when the
client is. Its heartbeats show that it lives. If it misses a message (it was made anew somewhere), the response ends;
an event source then asks again, behind the last event it has.
"""

from __future__ import annotations

import msgspec

from slipstream.kernels.client.serverdecode import Message
from slipstream.protocol.headers import find_header
from slipstream.rest.forms import Form, StreamPlace
from slipstream.rest.jetstream_api import API, api_answer, no_stream
from slipstream.rest.limits import HEARTBEAT_NS
from slipstream.rest.steps import Ask, HttpProblem, Listen, NatsReply, Steps
from slipstream.units import SECOND_NS

__all__ = ["ConsumerTail", "consume"]

_STATUS = b"NATS/1.0 "
_IDLE = b"NATS/1.0 100"
_INACTIVE_NS = 5 * SECOND_NS  # how long the consumer outlives its client


def consume(stream: str, wanted: dict[str, object], form: Form, *, follow: bool = True, limit: int = 0) -> Steps:
    """Make a consumer and answer with what it delivers.

    Args:
        stream: where.
        wanted: what its configuration has beyond what all of these consumers have.
        form: how the response is written.
        follow: whether it waits for new messages behind the last.
        limit: after so many it ends; 0: never.
    """
    inbox = yield Listen()
    config = {
        "deliver_subject": inbox,
        "ack_policy": "none",
        "max_deliver": 1,
        "flow_control": True,
        "idle_heartbeat": HEARTBEAT_NS,
        "inactive_threshold": _INACTIVE_NS,
        "mem_storage": True,
        "num_replicas": 1,
        **wanted,
    }
    request = msgspec.json.encode({"stream_name": stream, "config": config})
    try:
        reply = yield Ask(f"{API}.CONSUMER.CREATE.{stream}", request)
    except HttpProblem as problem:
        raise no_stream(problem, "stream not found") from problem
    assert isinstance(reply, NatsReply)
    is_empty = not api_answer(reply).get("num_pending")
    return ConsumerTail(form, limit, follow=follow, is_empty=is_empty)


class ConsumerTail:
    """What is left of a response after its head."""

    def __init__(self, form: Form, limit: int, *, follow: bool, is_empty: bool) -> None:
        self._form = form
        self._limit = limit
        self._follow = follow
        self._is_done = is_empty and not follow
        self._is_broken = False
        self._count = 0

    @property
    def content_type(self) -> str:
        """Of the response."""
        return self._form.content_type

    @property
    def has_ended(self) -> bool:
        """Whether nothing follows."""
        return self._is_done or self._is_broken

    def begin(self) -> bytes:
        """What comes before the first message."""
        return self._form.first

    def take(self, message: Message) -> tuple[bytes, bytes]:
        """What a message becomes, and what is to be said to the server."""
        if self.has_ended:
            return b"", b""
        if message.header.startswith(_STATUS):
            return b"", self._control(message)
        place = StreamPlace.of(message)
        self._count += 1
        self._is_broken = place.consumer_seq != self._count
        if self._is_broken:
            return b"", b""
        self._is_done = self._count == self._limit or not (self._follow or place.pending)
        return self._form.row(message, place), b""

    def heartbeat(self) -> bytes:
        """What is sent when nothing else was for a while."""
        return self._form.heartbeat

    def end(self) -> bytes | None:
        """What comes after the last message; None when the answer is not whole, and must not look as if it were."""
        return None if self._is_broken else self._form.last

    def _control(self, message: Message) -> bytes:
        """A word of the consumer itself: it lives, it wants to know how far this client is, or it is gone."""
        if not message.header.startswith(_IDLE):
            self._is_broken = True
            return b""
        # A consumer that waits for an answer names its subject in each heartbeat.
        stalled = find_header(b"Nats-Consumer-Stalled", message.header) or b""
        subject = message.reply or stalled.decode("ascii", "ignore")
        return f"PUB {subject} 0\r\n\r\n".encode() if subject else b""
