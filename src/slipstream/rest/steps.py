"""What a handler of the HTTP API is made of.

A handler is a generator: it yields what it wants of NATS, gets what came of it, and returns what the HTTP client gets.
So it reads from top to bottom and touches neither sockets nor clocks.

    def handler(call):
        reply = yield Ask("time.now")
        return Answer(200, reply.payload)
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from slipstream.errors import SlipstreamError
from slipstream.kernels.client.serverdecode import Message
from slipstream.rest.limits import ANSWER_TIMEOUT_NS

__all__ = ["Answer", "Ask", "HttpProblem", "Listen", "NatsReply", "PublishStep", "Step", "Steps", "Tail"]

JSON_TYPE = "application/json"


class PublishStep(msgspec.Struct, frozen=True):
    """Publish, and go on when the server has looked at it. Gives None."""

    subject: str
    payload: bytes = b""
    header: bytes = b""


class Ask(msgspec.Struct, frozen=True):
    """Send a request and wait for the first reply, which is given.

    A time-out and a subject without anybody behind it are `HttpProblem`s, raised where the step was yielded.
    """

    subject: str
    payload: bytes = b""
    header: bytes = b""
    timeout_ns: int = ANSWER_TIMEOUT_NS


@dataclass(frozen=True, slots=True)
class Listen:
    """Subscribe to a new subject of this client's own, which is given; what arrives there goes to the `Tail`."""


Step = PublishStep | Ask | Listen


class NatsReply(msgspec.Struct, frozen=True):
    """What came back."""

    header: bytes
    payload: bytes

    @property
    def status(self) -> int:
        """The number in the first line of the header; 0 if there is none."""
        code = self.header[9:12]
        return int(code) if self.header.startswith(b"NATS/1.0 ") and code.isdigit() else 0


class Answer(msgspec.Struct, frozen=True):
    """What the HTTP client gets."""

    status: int
    body: bytes = b""
    content_type: str = "application/octet-stream"
    headers: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def json(value: object, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
        """A value as JSON, with a line end for those who read it in a terminal."""
        return Answer(status, msgspec.json.encode(value) + b"\n", JSON_TYPE, headers)


class HttpProblem(SlipstreamError):
    """An answer that is an error, in the shape of JetStream's own."""

    def __init__(self, status: int, description: str, err_code: int = 0) -> None:
        super().__init__(description)
        self.status = status
        self.err_code = err_code

    def answer(self) -> Answer:
        """What the HTTP client gets."""
        body: dict[str, object] = {"code": self.status, "description": str(self)}
        if self.err_code:
            body["err_code"] = self.err_code
        headers = (("WWW-Authenticate", 'Basic realm="NATS", charset="UTF-8"'),) if self.status == 401 else ()
        return Answer.json({"error": body}, self.status, headers)


class Tail(Protocol):
    """An answer that goes on: made of the messages that arrive on the subject of a `Listen`."""

    @property
    def content_type(self) -> str: ...
    @property
    def has_ended(self) -> bool: ...

    def begin(self) -> bytes:
        """What comes before the first message."""
        ...

    def take(self, message: Message) -> tuple[bytes, bytes]:
        """What a message becomes: bytes for the HTTP client, and protocol lines for the server (both may be empty)."""
        ...

    def heartbeat(self) -> bytes:
        """What is sent when nothing else was for a while."""
        ...

    def end(self) -> bytes | None:
        """What comes after the last message; None when the answer is not whole."""
        ...


Steps = Generator[Step, NatsReply | str | None, Answer | Tail]
