"""Dead letters as messages: what they say of themselves, and the message that comes out when one is opened.

| written by | headers |
|---|---|
| a consumer with `slipstream.dlq` | `Slipstream-Dlq-Stream`, `-Consumer`, `-Reason`, `-Subject` and others |
| the Spark sink with `onError=dlq` | `Slipstream-Error`, `-Subject`, `-Size`, `-Headers`; `sink/dead_letters.py` |

A consumer's letter belongs to the stream it names. The sink's rows never were in a stream: a letter of it belongs to
the stream that takes its subject, if the letter is whole and what was wrong is not the row itself: a subject that the
stream did not take then, or more bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from slipstream.kernels.subjects.subject import is_valid_publish, matches

__all__ = ["Goal", "Letter", "open_letter"]

Headers = list[tuple[str, list[str]]]

_CONSUMER: Final = "Slipstream-Dlq-"
_SINK: Final = frozenset(("Slipstream-Error", "Slipstream-Subject", "Slipstream-Size", "Slipstream-Headers"))
# What the sink says of rows that another stream, or the same one with other settings, may take as they are.
_CURABLE: Final = ("is not among the subjects of the stream", "the server takes messages of")
_SUBJECT_MAX: Final = 1_000  # characters; the sink cuts what is longer
_DIGITS_MAX: Final = 19
_OF_ONE_ROW: Final = re.compile(r"'[^']*'|\d+")  # what differs between rows with the same fault


@dataclass(frozen=True)
class Letter:
    """One dead letter."""

    stream: str  # "" if it does not say
    consumer: str
    reason: str
    subject: str  # of the message; "" if it does not say
    headers: Headers | None  # of the message
    is_consumers: bool
    size: int | None = None  # bytes the payload had, where it may have been cut
    is_curable: bool = True  # the row could have been a message of some stream, and its headers are there

    @property
    def cause(self) -> tuple[str, str, str, str]:
        """Letters of one cause have the same fault."""
        return self.stream, self.consumer, self.reason, self.subject


@dataclass(frozen=True)
class Goal:
    """A stream that letters may go back to. Picklable."""

    stream: str
    subjects: tuple[str, ...]
    max_bytes: int | None  # of a message

    @classmethod
    def of(cls, config: dict[str, Any]) -> Goal:
        """From the settings of the stream."""
        limit = int(config.get("max_msg_size") or -1)
        return cls(config["name"], tuple(config.get("subjects") or ()), limit if limit > 0 else None)

    def takes(self, letter: Letter, payload_bytes: int) -> bool:
        """Whether the message in a letter goes to this stream."""
        if letter.is_consumers:
            return letter.stream == self.stream and bool(letter.subject)
        subject = letter.subject.encode()
        return (
            letter.is_curable
            and letter.size == payload_bytes
            and (self.max_bytes is None or payload_bytes <= self.max_bytes)
            and is_valid_publish(subject)
            and any(matches(one.encode(), subject) for one in self.subjects)
        )


def open_letter(headers: Headers | None) -> Letter:
    """Read what a letter says of itself; a message that is none says nothing."""
    first = {name: values[0] for name, values in headers or () if values}
    if "Slipstream-Error" in first:
        size = first.get("Slipstream-Size", "")
        return Letter(
            stream="",
            consumer="",
            reason=_OF_ONE_ROW.sub("…", first["Slipstream-Error"]),
            subject=first.get("Slipstream-Subject", ""),
            headers=[(name, values) for name, values in headers or () if not _is_sinks(name)] or None,
            is_consumers=False,
            size=int(size) if size.isascii() and size.isdecimal() and len(size) < _DIGITS_MAX else None,
            is_curable=any(one in first["Slipstream-Error"] for one in _CURABLE)
            and "Slipstream-Headers" not in first
            and len(first.get("Slipstream-Subject", "")) < _SUBJECT_MAX,
        )
    stream, consumer, reason, subject = (
        first.get(_CONSUMER + name, "") for name in ("Stream", "Consumer", "Reason", "Subject")
    )
    return Letter(stream, consumer, reason, subject, _before_its_death(headers), is_consumers=True)


def _is_sinks(name: str) -> bool:
    return name in _SINK or name.startswith("Nats-")


def _before_its_death(headers: Headers | None) -> Headers | None:
    """The headers of a message without what the consumer's letter added."""
    kept = [
        (name, [value for value in values if not value.startswith("dlq.")] if name == "Nats-Msg-Id" else values)
        for name, values in headers or ()
        if not name.startswith(_CONSUMER)
    ]
    return [(name, values) for name, values in kept if values] or None
