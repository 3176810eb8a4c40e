"""What a bench client does: a generator that says what it waits for, and the pieces that courses share.

A course yields one of

    CAME    go on when something came
    SENT    go on when the socket has taken what was sent
    a time  go on at that `monotonic_ns`

and returns its tally. Waiting for messages that never come is ended by the loop.
"""

from __future__ import annotations

import json
import random
from collections.abc import Generator
from dataclasses import dataclass
from time import monotonic_ns
from typing import Protocol

from slipstream.client.bench.peer import BenchPeer
from slipstream.client.load import Tally
from slipstream.client.options import ClientError
from slipstream.client.wire import Message, message_frame
from slipstream.units import SECOND_NS

__all__ = [
    "CAME",
    "SENT",
    "Body",
    "ClientPace",
    "Course",
    "Steps",
    "Subjects",
    "answer_of",
    "ask",
    "checked_ack",
    "flushed",
    "status_of",
    "waited",
]

CAME = -1
SENT = -2
Steps = Generator[int, None, Tally]
Setup = Generator[int, None, None]


class Course(Protocol):
    """The program of one client, as a value that can be sent to another process."""

    @property
    def counts(self) -> bool:
        """Whether messages are only counted."""

    def setup(self, peer: BenchPeer) -> Setup:
        """Subscribe, and what else comes before the clock starts."""

    def run(self, peer: BenchPeer) -> Steps:
        """Do the work."""


@dataclass(frozen=True, kw_only=True)
class Subjects:
    """The subject of each message: one, or in multi-subject mode one that ends with a number."""

    subject: str
    multi: bool = False
    limit: int = 0  # number of subjects; 0: as many as messages
    randomize: bool = False
    offset: int = 0  # number of the first message

    @property
    def pattern(self) -> str:
        """What matches all of them."""
        return f"{self.subject}.*" if self.multi else self.subject

    def of(self, number: int) -> str:
        """The subject of the message with a number."""
        if not self.multi:
            return self.subject
        number += self.offset
        if not self.limit:
            return f"{self.subject}.{number}"
        chosen = random.randrange(self.limit) if self.randomize else number % self.limit
        return f"{self.subject}.{chosen:0{len(str(self.limit))}d}"


@dataclass(frozen=True, kw_only=True)
class Body:
    """Payload and headers of all messages; a message may add headers of its own."""

    payload: bytes
    headers: tuple[tuple[str, str], ...] = ()
    id_prefix: str = ""  # of message ids; empty: none

    def frame(self, subject: str, *, number: int = 0, reply: str = "", extra: str = "") -> bytes:
        """One message as it is sent."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.headers)
        if self.id_prefix:
            lines += f"Nats-Msg-Id: {self.id_prefix}-{number}\r\n"
        lines += extra
        header = f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""
        return message_frame(subject, self.payload, reply=reply, header=header)


@dataclass(frozen=True, kw_only=True)
class ClientPace:
    """How fast a client goes: a pause after each message, or so many messages a second, or as fast as it can."""

    sleep_ns: int = 0
    rate: float = 0.0  # messages a second of this client; 0: no limit
    first_pause_ns: int = 0  # so that clients that pause do not do it all at the same time

    @property
    def limited(self) -> bool:
        """Whether it pauses at all."""
        return bool(self.sleep_ns or self.rate)

    @property
    def group(self) -> int:
        """Messages sent between two pauses: one, unless there are many in a millisecond."""
        return 1 if self.sleep_ns or not self.rate else max(int(self.rate / 500), 1)

    def pause(self, sent: int, started_ns: int) -> Setup:
        """Wait after `sent` messages as long as needed."""
        if not self.limited:
            return
        now_ns = monotonic_ns()
        until_ns = now_ns + self.sleep_ns
        if self.rate:
            until_ns = max(until_ns, started_ns + int(sent / self.rate * SECOND_NS))
        if until_ns > now_ns:
            yield until_ns

    def begin(self) -> Setup:
        """Wait before the first message."""
        if self.first_pause_ns:
            yield monotonic_ns() + self.first_pause_ns


def flushed(peer: BenchPeer) -> Setup:
    """Wait until the server has processed everything sent so far."""
    wanted = peer.pongs + 1
    peer.send(b"PING\r\n")
    while peer.pongs < wanted:
        yield CAME


def waited(peer: BenchPeer) -> Generator[int, None, list[Message]]:
    """The next messages, at least one."""
    while not (came := peer.take()):
        yield CAME
    return came


def ask(peer: BenchPeer, frame: bytes) -> Generator[int, None, Message]:
    """Send a request that asks for its answer at the peer's inbox; nothing else may be under way."""
    peer.send(frame)
    came = yield from waited(peer)
    return came[0]


def status_of(message: Message) -> int:
    """404 and the like for a message that is a status of the server; 0 for all others."""
    header = message.header
    return int(header[9:12]) if header[:9] == b"NATS/1.0 " and header[9:12].isdigit() else 0


def checked_ack(message: Message, subject: str) -> bytes:
    """The ack of a publish.

    Raises:
        ClientError: no stream took the message, or one refused it.
    """
    payload = message.payload
    if b'"error"' in payload or not payload.startswith(b"{"):
        if status_of(message):
            raise ClientError(f"no stream takes messages on {subject!r}")
        answer_of(message, f"a message on {subject!r} was not stored")
    return payload


def answer_of(message: Message, failed: str) -> dict[str, object]:
    """An answer of the JetStream API.

    Raises:
        ClientError: it is a refusal; `failed` says of what.
    """
    if status_of(message):
        raise ClientError(f"{failed}: JetStream does not answer")
    try:
        answer = json.loads(message.payload)
    except ValueError:
        raise ClientError(f"{failed}: the answer is not JSON") from None
    if not isinstance(answer, dict) or answer.get("error"):
        error = answer.get("error") if isinstance(answer, dict) else None
        reason = f"{error.get('description')} ({error.get('err_code')})" if isinstance(error, dict) else "no ack"
        raise ClientError(f"{failed}: {reason}")
    return answer
