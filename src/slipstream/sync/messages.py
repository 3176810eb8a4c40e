"""Messages as programs see them, and their headers on the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from slipstream.client.options import ClientError
from slipstream.protocol.headers import parse_headers

if TYPE_CHECKING:
    from slipstream.kernels.client.serverdecode import Message
    from slipstream.sync.client import Client

__all__ = ["Delivered", "Headers", "Msg", "delivered", "duration_ns", "header_block", "received", "status_of"]

Headers = Mapping[str, str | Sequence[str]]
_BAD_NAME: Final = re.compile(r"[^!-9;-~]|^$")  # printable, no blank and no colon
_ACK_WORDS: Final = (9, 11, 12)  # of an ack subject: plain, or with a domain and an account in front


@dataclass(frozen=True, slots=True)
class Msg:
    """One message."""

    subject: str
    data: bytes
    headers: Mapping[str, list[str]] = field(default_factory=dict)
    reply: str = ""

    @property
    def text(self) -> str:
        """The payload as text."""
        return self.data.decode()

    def json(self) -> Any:
        """The payload, read as JSON."""
        return msgspec.json.decode(self.data)

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        values = self.headers.get(name)
        return values[0] if values else None


@dataclass(frozen=True, slots=True)
class Delivered(Msg):
    """A message of a stream. `tries` and `consumer_seq` are the consumer's, if one delivered it."""

    stream: str = ""
    seq: int = 0
    time_ns: int = 0
    consumer: str = ""
    consumer_seq: int = 0
    tries: int = 1
    pending: int = 0
    _client: Client | None = field(default=None, repr=False, compare=False)

    @property
    def time(self) -> datetime:
        """When it was stored, UTC, to the microsecond."""
        return datetime.fromtimestamp(self.time_ns // 1_000_000_000, UTC) + timedelta(
            microseconds=self.time_ns // 1000 % 1_000_000
        )

    def ack(self, *, wait: bool = False) -> None:
        """It is done; with `wait` the server confirms that it knows."""
        self._answer(b"+ACK", wait=wait)

    def nak(self, delay: timedelta | float = 0) -> None:
        """It could not be done: deliver it again, after a while if one is given."""
        delay_ns = duration_ns(delay)
        self._answer(b'-NAK {"delay":%d}' % delay_ns if delay_ns else b"-NAK")

    def term(self, reason: str = "") -> None:
        """It will never be done: do not deliver it again."""
        self._answer(f"+TERM {reason}".strip().encode())

    def in_progress(self) -> None:
        """It takes longer: the time to acknowledge it begins anew."""
        self._answer(b"+WPI")

    def _answer(self, word: bytes, *, wait: bool = False) -> None:
        if self._client is None or not self.reply:
            raise ClientError("no consumer delivered this message, so nobody waits for an ack")
        if wait:
            self._client.request(self.reply, word)
        else:
            self._client.publish(self.reply, word)


def header_block(headers: Headers | None) -> bytes:
    """Headers as the protocol carries them; empty for none.

    Raises:
        ClientError: one of them cannot be a header.
    """
    if not headers:
        return b""
    lines = ["NATS/1.0\r\n"]
    for name, values in headers.items():
        if _BAD_NAME.search(name):
            raise ClientError(f"{name!r} is no name of a header")
        for value in (values,) if isinstance(values, str) else values:
            if "\r" in value or "\n" in value:
                raise ClientError(f"a value of the header {name!r} has a line break")
            lines.append(f"{name}: {value}\r\n")
    return "".join([*lines, "\r\n"]).encode()


def status_of(message: Message) -> int:
    """The status in a header, such as 404; 0 for an ordinary message."""
    if message.payload or not message.header.startswith(b"NATS/1.0 "):
        return 0
    word = message.header[9:12]
    return int(word) if word.isdigit() else 0


def received(message: Message) -> Msg:
    """A message of a subscription."""
    return Msg(message.subject, message.payload, parse_headers(message.header), message.reply)


def delivered(client: Client, message: Message) -> Delivered:
    """A message of a consumer; what its reply subject says is read.

    Raises:
        ClientError: it is not one.
    """
    words = message.reply.split(".")
    if len(words) not in _ACK_WORDS or words[:2] != ["$JS", "ACK"]:
        raise ClientError(f"not a message of a consumer: {message.reply!r}")
    stream, consumer, *numbers = words[2:] if len(words) == _ACK_WORDS[0] else words[4:11]
    try:
        tries, seq, consumer_seq, time_ns, pending = map(int, numbers)
    except ValueError:
        raise ClientError(f"not a message of a consumer: {message.reply!r}") from None
    return Delivered(
        message.subject,
        message.payload,
        parse_headers(message.header),
        message.reply,
        stream=stream,
        seq=seq,
        time_ns=time_ns,
        consumer=consumer,
        consumer_seq=consumer_seq,
        tries=tries,
        pending=pending,
        _client=client,
    )


def duration_ns(duration: timedelta | float) -> int:
    """A duration, or seconds, as nanoseconds."""
    seconds = duration / timedelta(microseconds=1) / 1e6 if isinstance(duration, timedelta) else duration
    return int(seconds * 1_000_000_000)
