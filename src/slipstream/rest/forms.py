"""What messages of a stream look like in an HTTP response."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from slipstream.jetstream.ack_subjects import ack_numbers
from slipstream.kernels.client.serverdecode import Message
from slipstream.protocol.headers import find_header, parse_headers
from slipstream.rest.steps import JSON_TYPE, HttpProblem
from slipstream.units import SECOND_NS

__all__ = ["EVENTS", "LINES", "Form", "KeyChanges", "KeyNames", "MessageRows", "StreamPlace"]

EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"
_TOKENS_V1 = 9
_COMMENT = b": alive\n\n"


class StreamPlace(msgspec.Struct, frozen=True):
    """Where a delivered message stands, as its ack subject says."""

    seq: int
    consumer_seq: int
    time_ns: int
    pending: int

    @staticmethod
    def of(message: Message) -> StreamPlace:
        """Read it.

        Raises:
            HttpProblem: the message was not delivered by a consumer.
        """
        numbers = ack_numbers(message.reply.encode())
        tokens = message.reply.split(".")
        at = 7 if len(tokens) == _TOKENS_V1 else 9
        if numbers is None or not (tokens[at].isdigit() and tokens[at + 1].isdigit()):
            raise HttpProblem(502, "a delivery without its place in the stream")
        return StreamPlace(numbers[0], numbers[1], int(tokens[at]), int(tokens[at + 1]))


class Form(Protocol):
    """How a response is written."""

    @property
    def content_type(self) -> str: ...
    @property
    def first(self) -> bytes: ...
    @property
    def last(self) -> bytes: ...
    @property
    def heartbeat(self) -> bytes:
        """What says that more may follow."""
        ...

    def row(self, message: Message, place: StreamPlace) -> bytes:
        """One message; nothing, if it is not to be seen."""
        ...


class MessageRows:
    """Messages, each a JSON object."""

    first = last = b""

    def __init__(self, content_type: str) -> None:
        self.content_type = content_type
        self.heartbeat = _COMMENT if content_type == EVENTS else b""

    def row(self, message: Message, place: StreamPlace) -> bytes:
        """One message."""
        row: dict[str, object] = {"seq": place.seq, "subject": message.subject, "time": _time(place.time_ns)}
        if message.header:
            row["headers"] = parse_headers(message.header)
        row |= _text_or_base64("data", message.payload)
        return _event(place, row) if self.content_type == EVENTS else msgspec.json.encode(row) + b"\n"


class KeyChanges:
    """Changes of keys, each an event."""

    content_type = EVENTS
    first = last = b""
    heartbeat = _COMMENT

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    def row(self, message: Message, place: StreamPlace) -> bytes:
        """One change."""
        row: dict[str, object] = {
            "bucket": self._bucket,
            "key": message.subject.removeprefix(f"$KV.{self._bucket}."),
            "revision": place.seq,
            "operation": _operation(message.header),
            "time": _time(place.time_ns),
            "pending": place.pending,
            **_text_or_base64("value", message.payload),
        }
        return _event(place, row)


class KeyNames:
    """The keys that are there, as one JSON array."""

    content_type = JSON_TYPE
    first, last = b"[", b"]\n"
    heartbeat = b" "  # JSON may have blanks everywhere

    def __init__(self, bucket: str) -> None:
        self._prefix = f"$KV.{bucket}."
        self._separator = b""

    def row(self, message: Message, place: StreamPlace) -> bytes:
        """One key, unless it was deleted."""
        if _operation(message.header) != "PUT":
            return b""
        row = self._separator + msgspec.json.encode(message.subject.removeprefix(self._prefix))
        self._separator = b","
        return row


def _operation(header: bytes) -> str:
    if find_header(b"Nats-Marker-Reason", header) is not None:
        return "PURGE"
    return (find_header(b"KV-Operation", header) or b"PUT").decode("latin-1")


def _event(place: StreamPlace, row: dict[str, object]) -> bytes:
    # JSON has no line ends of its own, so one `data` line carries it.
    return b"id: %d\ndata: %b\n\n" % (place.seq, msgspec.json.encode(row))


def _text_or_base64(name: str, payload: bytes) -> dict[str, object]:
    try:
        return {name: payload.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(payload).decode()}


def _time(time_ns: int) -> str:
    seconds, rest = divmod(time_ns, SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
