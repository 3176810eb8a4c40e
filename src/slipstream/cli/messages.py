"""Messages on the screen and their headers on the wire: what `sub`, `req`, `reply`, `stream` and `consumer` share."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import click

from slipstream.cli.connection import Failure
from slipstream.cli.human import visible
from slipstream.units import SECOND_NS

__all__ = ["DeliveryInfo", "Headers", "decode_header", "encode_header", "print_body", "print_headers", "read_delivery"]

Headers = list[tuple[str, str]]

_HEADER_LINE = b"NATS/1.0"
_TRANSLATE_SECONDS_MAX = 60.0


def encode_header(headers: Iterable[tuple[str, str]]) -> bytes:
    """Headers as the protocol carries them; empty for none."""
    lines = [f"{name}: {value}\r\n" for name, value in headers]
    return b"" if not lines else b"".join((_HEADER_LINE, b"\r\n", "".join(lines).encode(), b"\r\n"))


def decode_header(block: bytes) -> Headers:
    """Name and value of each line; a status comes as `Status` and `Description`, as clients show it."""
    if not block:
        return []
    first, _, rest = block.partition(b"\r\n")
    headers: Headers = []
    status, _, description = first.removeprefix(_HEADER_LINE).decode(errors="replace").strip().partition(" ")
    if status:
        headers.append(("Status", status))
    if description:
        headers.append(("Description", description.strip()))
    for line in rest.decode(errors="replace").split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers.append((name.strip(), value.strip()))
    return headers


def print_headers(headers: Headers, indent: str = "") -> None:
    """A header a line."""
    for name, value in headers:
        click.echo(f"{indent}{click.style(visible(name), fg='cyan')}: {visible(value)}")


def print_body(payload: bytes, translate: str = "", *, subject: str = "", stream: str = "") -> None:
    """A payload, through a command if one is given; `{{Subject}}` and `{{Stream}}` in it are filled in.

    A terminal gets it as text, control characters written out; a pipe gets its bytes.

    Raises:
        Failure: the command fails.
    """
    if translate:
        payload = _translated(payload, translate.replace("{{Subject}}", subject).replace("{{Stream}}", stream))
    click.echo(visible(payload.decode(errors="replace")) if sys.stdout.isatty() else payload)


def _translated(payload: bytes, command: str) -> bytes:
    try:
        done = subprocess.run(
            shlex.split(command), input=payload, capture_output=True, timeout=_TRANSLATE_SECONDS_MAX, check=True
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip()
        raise Failure(f"{command!r} failed with status {error.returncode}: {reason}") from error
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{command!r} cannot be run: {error}") from error
    return done.stdout.rstrip(b"\n")


class DeliveryInfo(NamedTuple):
    """What the reply subject of a delivered message says."""

    stream: str
    consumer: str
    tries: int
    stream_seq: int
    consumer_seq: int
    time: str
    pending: int


def read_delivery(reply: str) -> DeliveryInfo | None:
    """Read `$JS.ACK....`; None for any other reply subject."""
    words = reply.split(".")
    if not reply.startswith("$JS.ACK.") or len(words) not in (9, 11, 12):
        return None
    # With a domain and an account hash in front the nine become eleven or twelve.
    fields: Iterator[str] = iter(words[2:] if len(words) == 9 else words[4:11])
    stream, consumer = next(fields), next(fields)
    try:
        tries, stream_seq, consumer_seq, stamp_ns, pending = (int(word) for word in fields)
    except ValueError:
        return None
    moment = datetime.fromtimestamp(stamp_ns // SECOND_NS).astimezone()
    return DeliveryInfo(
        stream, consumer, tries, stream_seq, consumer_seq, moment.strftime("%Y-%m-%d %H:%M:%S"), pending
    )
