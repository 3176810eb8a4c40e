"""Exception root and the four families, by whose fault it was.

What this is not: a list of every error text. Texts that clients compare live beside the code that sends them
(`protocol`, the JetStream error table). A bug is `InvariantBroken` or an `assert`; nothing catches those.

Invariant: every exception raised on purpose by this package derives from `SlipstreamError` and carries its facts
as fields, so that no caller has to parse the text.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "UNREADABLE",
    "ApiError",
    "ConfigError",
    "InvariantBroken",
    "PeerViolation",
    "SlipstreamError",
    "StorageFault",
]

UNREADABLE: Final = (ValueError, RecursionError)
"""What reading JSON or MessagePack of others may raise: not that format, no UTF-8 in a text, nested too deep."""


class SlipstreamError(Exception):
    """Root of every error raised on purpose."""


class PeerViolation(SlipstreamError):
    """A peer broke the protocol: it is told so with `-ERR`, and perhaps disconnected."""

    def __init__(self, text: str, *, closes: bool = True) -> None:
        """Remember what to say.

        Args:
            text: the words between the quotes of `-ERR '...'`; clients compare them.
            closes: whether the connection is closed after the error was sent.
        """
        super().__init__(text)
        self.text = text
        self.closes = closes


class ApiError(SlipstreamError):
    """A JetStream request was refused; the fields are those of the `error` object in the response."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        """Remember the three fields clients read.

        Args:
            code: the HTTP-like class of the error (400, 404, 500, 503).
            err_code: the number that identifies the error.
            description: the text for people.
        """
        super().__init__(description)
        self.code = code
        self.err_code = err_code
        self.description = description


class StorageFault(SlipstreamError):
    """The disk failed or lied: what depended on it stops loudly instead of guessing."""

    def __init__(self, text: str, *, path: str = "", offset: int | None = None) -> None:
        """Remember where it happened.

        Args:
            text: what went wrong.
            path: the file or directory concerned, empty if none.
            offset: byte offset in `path`, if one is known.
        """
        place = path if offset is None else f"{path}@{offset}"
        super().__init__(f"{place}: {text}" if place else text)
        self.text = text
        self.path = path
        self.offset = offset


class ConfigError(SlipstreamError):
    """A configuration cannot be used; says in which file, line and column when that is known.

    `str()` gives `file:line:column: message`, the form nats-server prints after its `nats-server: ` prefix.
    """

    def __init__(self, message: str, *, file: str = "", line: int = 0, column: int = 0) -> None:
        """Remember the message and its place.

        Args:
            message: what is wrong, without the place.
            file: path of the configuration file, empty for a flag or an in-memory text.
            line: 1-based line, 0 if no place is known.
            column: character offset in the line as nats-server counts it, 0 allowed.
        """
        super().__init__(f"{file}:{line}:{column}: {message}" if line else message)
        self.message = message
        self.file = file
        self.line = line
        self.column = column


class InvariantBroken(SlipstreamError):
    """A bug in this program. Never caught: the connection or the process dies."""
