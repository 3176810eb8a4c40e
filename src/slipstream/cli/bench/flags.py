"""The flags that bench commands share, gathered into values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from slipstream.cli.connection import Failure
from slipstream.cli.human import parse_bytes, parse_duration
from slipstream.cli.types import DURATION, HEADER, Parsed
from slipstream.client.bench.course import Subjects
from slipstream.limits import LOADGEN_FRAME_BYTES_MAX
from slipstream.units import HOUR_NS, MILLISECOND_NS, SECOND_NS

__all__ = ["BenchPlan", "Publication", "body_flags", "flags", "publication_flags"]

_Wrapped = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class BenchPlan:
    """How much load, by how many, how fast, and what is told of it."""

    msgs: int
    clients: int
    size: int
    csv: str
    shown: bool
    timeout_ns: int
    sleep_ns: int = 0
    throughput: int = 0
    duration_ns: int = 0

    def fewer_clients(self) -> BenchPlan:
        """Nobody without a message."""
        return self if self.clients <= self.msgs else BenchPlan(**{**vars(self), "clients": self.msgs})

    def shares(self) -> list[int]:
        """Messages of each client: as equal as whole messages can be."""
        share, rest = divmod(self.msgs, self.clients)
        return [share + (number < rest) for number in range(self.clients)]


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What is published, and where."""

    payload_file: str | None
    headers: tuple[tuple[str, str], ...]
    multi: bool = False
    multi_max: int = 0
    multi_random: bool = False

    def subjects(self, subject: str, *, offset: int = 0) -> Subjects:
        """The subject of each message of a client whose first has the number `offset`."""
        return Subjects(
            subject=subject, multi=self.multi, limit=self.multi_max, randomize=self.multi_random, offset=offset
        )

    def payload(self, size: int) -> bytes:
        """The body of each message."""
        if not self.payload_file:
            return bytes(size)
        with Path(self.payload_file).open("rb") as file:
            payload = file.read(LOADGEN_FRAME_BYTES_MAX + 1)
        if len(payload) > LOADGEN_FRAME_BYTES_MAX:
            raise Failure(f"{self.payload_file} is more than {LOADGEN_FRAME_BYTES_MAX} bytes")
        return payload


def _read_size(text: str) -> int:
    size = parse_bytes(text)
    if not 0 <= size <= LOADGEN_FRAME_BYTES_MAX:
        raise ValueError(f"{text!r} is more than {LOADGEN_FRAME_BYTES_MAX} bytes or less than none")
    return size


def _read_timeout(text: str) -> int:
    """Seconds, or a duration."""
    try:
        timeout_ns = int(float(text) * SECOND_NS)
    except (ValueError, OverflowError):
        timeout_ns = parse_duration(text)
    if not MILLISECOND_NS <= timeout_ns <= 24 * HOUR_NS:
        raise ValueError(f"{text!r} is not between 1ms and 24h")
    return timeout_ns


_COMMON: Final = (
    click.option("--msgs", default=100_000, type=click.IntRange(min=1), show_default=True, help="Messages."),
    click.option("--clients", default=1, show_default=True, type=click.IntRange(1, 1000), help="Connections."),
    click.option("--size", default="128B", type=Parsed("size", _read_size), show_default=True, help="Payload size."),
    click.option("--csv", default="", metavar="FILE", help="Save the numbers of each client."),
    click.option("--progress/--no-progress", "shown", default=True, help="Show a progress bar."),
    click.option(
        "--timeout",
        "timeout_ns",
        default="60s",
        type=Parsed("duration", _read_timeout),
        show_default=True,
        help="Give up after this time without any progress.",
    ),
)
_SLEEP: Final = click.option("--sleep", "sleep_ns", default="0s", type=DURATION, help="Pause after each message.")
_PACE: Final = (
    click.option(
        "--throughput", default=0, type=click.IntRange(min=0), help="Messages a second of all clients; 0: no limit."
    ),
    click.option(
        "--duration", "duration_ns", default="0s", type=DURATION, help="Go on for this time, with --throughput."
    ),
)
_SUBJECTS: Final = (
    click.option("--multisubject", "multi", is_flag=True, help="Add the number of each message to its subject."),
    click.option(
        "--multisubjectmax",
        "multi_max",
        default=100_000,
        type=click.IntRange(min=0),
        show_default=True,
        help="Subjects of --multisubject; 0: as many as messages.",
    ),
    click.option("--multisubjectrandomize", "multi_random", is_flag=True, help="Take these subjects at random."),
)
_BODY: Final = (
    click.option(
        "--payload",
        "payload_file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        help="Publish the content of a file.",
    ),
    click.option("--header", "-H", "headers", multiple=True, type=HEADER, help="Add a header Name:value."),
)


def flags(*, sleep: bool = True, pace: bool = False) -> Callable[[_Wrapped], _Wrapped]:
    """Flags of every command; it takes the `Session` and a `BenchPlan`, and then its own."""

    def decorate(command: _Wrapped) -> _Wrapped:
        @functools.wraps(command)
        def planned(session: Any, /, **given: Any) -> Any:
            plan = BenchPlan(**{name: given.pop(name) for name in BenchPlan.__dataclass_fields__ if name in given})
            return command(session, _checked(plan), **given)

        called: _Wrapped = click.pass_obj(planned)
        for option in reversed((*_COMMON, *((_SLEEP,) if sleep else ()), *(_PACE if pace else ()))):
            called = option(called)
        return called

    return decorate


def publication_flags(command: _Wrapped) -> _Wrapped:
    """Flags of what is published and where; the command takes it as `publication`."""
    return _gathered(command, (*_SUBJECTS, *_BODY))


def body_flags(command: _Wrapped) -> _Wrapped:
    """The same for commands that know their subject."""
    return _gathered(command, _BODY)


def _gathered(command: _Wrapped, options: Sequence[Callable[[_Wrapped], _Wrapped]]) -> _Wrapped:
    @functools.wraps(command)
    def published(*args: Any, **given: Any) -> Any:
        fields = {name: given.pop(name) for name in Publication.__dataclass_fields__ if name in given}
        return command(*args, publication=Publication(**fields), **given)

    wrapped: _Wrapped = published
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def _checked(plan: BenchPlan) -> BenchPlan:
    """A duration says how many messages there are."""
    if plan.sleep_ns < 0 or plan.duration_ns < 0:
        raise click.UsageError("A pause or a duration is negative.")
    if not plan.duration_ns:
        return plan
    if not plan.throughput:
        raise click.UsageError("--duration requires --throughput.")
    msgs = round(plan.throughput * plan.duration_ns / SECOND_NS)
    if not msgs:
        raise click.UsageError("With this --throughput and --duration there are no messages.")
    return BenchPlan(**{**vars(plan), "msgs": msgs})
