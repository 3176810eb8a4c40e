"""Where the bodies of messages come from: the command line, a file, standard input at once or line by line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from slipstream.cli.connection import Failure
from slipstream.cli.templates import Template, TemplateError

__all__ = ["BodyFlags", "Filled", "body_flags", "messages_to_send", "read_bodies"]

_F = TypeVar("_F", bound=Callable[..., Any])
_BODY_BYTES_MAX: Final = 64 * 1024 * 1024  # no server takes more in one message


class BodyFlags:
    """What the flags of `body_flags` say."""

    def __init__(self, body: str | None, file: str | None, send_on: str, force_stdin: bool, templates: bool) -> None:
        """Keep them."""
        self.body = body
        self.file = file
        self.send_on = send_on
        self.force_stdin = force_stdin
        self.templates = templates


def body_flags(command: _F) -> _F:
    """The flags about bodies; a command takes them as `body`, `file`, `send_on`, `force_stdin`, `templates`."""
    for decorate in reversed(
        (
            click.argument("body", required=False),
            click.option("--file", metavar="FILE", help="Read the body from a file; - is standard input."),
            click.option("--force-stdin", is_flag=True, help="Read the body from standard input."),
            click.option(
                "--send-on",
                type=click.Choice(["eof", "newline"]),
                default="eof",
                help="Standard input is one message (eof) or one a line (newline).",
            ),
            click.option("--templates/--no-templates", default=True, help="Fill in {{Count}} and the like."),
        )
    ):
        command = decorate(command)
    return command


def read_bodies(flags: BodyFlags) -> Iterator[bytes]:
    """The bodies: one, or one for each line of standard input.

    Raises:
        Failure: a body is too big for any server.
    """
    if flags.file not in (None, "-"):
        assert flags.file is not None
        with Path(flags.file).open("rb") as file:
            yield _bounded(file.read(_BODY_BYTES_MAX + 1))
    elif flags.body is not None and not flags.force_stdin and flags.file is None:
        yield flags.body.encode(errors="surrogateescape")
    elif flags.file is None and not flags.force_stdin and sys.stdin.isatty():
        yield b""
    elif flags.send_on == "newline":
        for line in iter(lambda: sys.stdin.buffer.readline(_BODY_BYTES_MAX + 1), b""):
            yield _bounded(line.rstrip(b"\r\n"))
    else:
        yield _bounded(sys.stdin.buffer.read(_BODY_BYTES_MAX + 1))


def _bounded(body: bytes) -> bytes:
    if len(body) > _BODY_BYTES_MAX:
        raise Failure(f"the body has more than {_BODY_BYTES_MAX:,} bytes")
    return body


class Filled:
    """Subject, body and headers of messages to send, with templates filled in for each."""

    def __init__(self, subject: str, body: bytes, headers: list[tuple[str, str]], *, templates: bool) -> None:
        """Compile the templates.

        Raises:
            TemplateError: one of them is wrong.
        """
        self._body = body
        self._subject = subject
        self._templates = templates
        try:
            # A body that is not text has no templates in it.
            text = body.decode() if templates and b"{{" in body else None
        except UnicodeDecodeError:
            text = None
        try:
            self._body_template = None if text is None else Template(text)
            self._subject_template = Template(subject) if templates and "{{" in subject else None
            self._headers = [(name, Template(value) if templates else value) for name, value in headers]
        except TemplateError as error:
            raise TemplateError(f"{error}; --no-templates sends braces as they are") from error

    @property
    def is_constant(self) -> bool:
        """All messages are the same."""
        templates = [self._body_template, self._subject_template, *(value for _, value in self._headers)]
        return all(not isinstance(template, Template) or template.is_constant for template in templates)

    def message(self, count: int) -> tuple[str, bytes, list[tuple[str, str]]]:
        """Subject, body and headers of the message with this number."""
        subject = self._subject_template.expand(count) if self._subject_template else self._subject
        body = self._body_template.expand(count).encode() if self._body_template else self._body
        headers = [
            (name, value.expand(count) if isinstance(value, Template) else value) for name, value in self._headers
        ]
        return subject, body, headers


def messages_to_send(count: int) -> Iterator[int]:
    """Numbers of messages from 1; without end for a count below 1."""
    number = 1
    while count < 1 or number <= count:
        yield number
        number += 1
