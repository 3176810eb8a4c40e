"""One HTTP request, read: where it goes, and what it says."""

from __future__ import annotations

import re
from functools import cached_property

import msgspec

from slipstream.config.durations import parse_duration
from slipstream.monitoring.query import BadRequest, UrlQuery
from slipstream.rest.limits import ANSWER_TIMEOUT_MAX_NS, ANSWER_TIMEOUT_NS
from slipstream.rest.message_headers import from_http, header_block
from slipstream.rest.steps import HttpProblem

__all__ = ["ApiCall", "CallHeaders", "subject_of"]

# What a PUB line can carry; whether it is a subject that may be published to, the server says.
_BLANKS = re.compile(r"[\x00-\x20\x7f]")


class CallHeaders:
    """The headers of a request, or of many that have the same: what they mean is found out once."""

    def __init__(self, lines: tuple[tuple[str, str], ...] = ()) -> None:
        """Keep the lines; names are in lower case."""
        self.lines = lines

    def first(self, name: str) -> str:
        """The first value of a header, empty if there is none."""
        return next((value for found, value in self.lines if found == name), "")

    @cached_property
    def for_message(self) -> list[tuple[str, str]]:
        """What is meant for the message.

        Raises:
            HttpProblem: there are too many.
        """
        return from_http(self.lines)

    @cached_property
    def message_block(self) -> bytes:
        """The same as a message carries it.

        Raises:
            HttpProblem: there are too many.
        """
        return header_block(self.for_message)


class ApiCall(msgspec.Struct, frozen=True):
    """What is asked."""

    method: str
    path: tuple[str, ...]  # decoded, without the empty piece in front
    query: UrlQuery
    headers: CallHeaders
    body: bytes = b""

    def header(self, name: str) -> str:
        """The first value of a header, empty if there is none."""
        return self.headers.first(name)

    @property
    def message_headers(self) -> list[tuple[str, str]]:
        """What of the headers is meant for the message."""
        return self.headers.for_message

    @property
    def timeout_ns(self) -> int:
        """How long the client would wait for an answer of NATS.

        Raises:
            HttpProblem: `timeout` is no duration, or too long a one.
        """
        text = self.query.text("timeout")
        return self.duration_ns(text, ANSWER_TIMEOUT_MAX_NS) if text else ANSWER_TIMEOUT_NS

    def duration_ns(self, text: str, most_ns: int) -> int:
        """A duration of the query.

        Raises:
            HttpProblem: it is none, or not between nothing and `most_ns`.
        """
        try:
            found = parse_duration(text)
        except ValueError as error:
            raise HttpProblem(400, f"no duration: {text!r}") from error
        if not 0 < found <= most_ns:
            raise HttpProblem(400, f"a duration out of range: {text!r}")
        return found

    def flag(self, name: str) -> bool:
        """A boolean of the query.

        Raises:
            HttpProblem: it is none.
        """
        try:
            return self.query.flag(name)
        except BadRequest as error:
            raise HttpProblem(400, str(error)) from error

    def number(self, name: str) -> int:
        """An unsigned number of the query, 0 if it is not there.

        Raises:
            HttpProblem: it is none.
        """
        try:
            return self.query.unsigned(name)
        except BadRequest as error:
            raise HttpProblem(400, str(error)) from error


def subject_of(pieces: tuple[str, ...]) -> str:
    """The subject that is the rest of a path; a slash is a character like any other in it.

    Raises:
        HttpProblem: no message can have it.
    """
    subject = "/".join(pieces)
    if not subject or _BLANKS.search(subject):
        raise HttpProblem(400, f"no subject: {subject!r}")
    return subject
