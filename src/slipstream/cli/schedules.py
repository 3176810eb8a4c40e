"""The flags of `pub` for schedules: messages that a stream publishes later, once or again and again (ADR-51)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import click

from slipstream.cli.connection import Failure
from slipstream.cli.human import parse_timestamp, to_rfc3339
from slipstream.cli.types import DURATION
from slipstream.config.durations import format_duration
from slipstream.units import MICROSECOND_NS

__all__ = ["schedule_flags", "schedule_headers"]

_F = TypeVar("_F", bound=Callable[..., Any])

_WHEN: Final = ("schedule_after", "schedule_at", "schedule_every", "schedule_cron")
_OPTIONS: Final = (
    click.option("--schedule-after", type=DURATION, help="Have the stream publish it after this long."),
    click.option("--schedule-at", metavar="TIME", help="Have the stream publish it at a time."),
    click.option("--schedule-every", type=DURATION, help="Have the stream publish it again and again."),
    click.option("--schedule-cron", metavar="CRON", help="Have the stream publish it by a cron line of six fields."),
    click.option("--schedule-dest", metavar="SUBJECT", help="Subject that scheduled messages go to."),
    click.option("--schedule-source", metavar="SUBJECT", help="Take their body from the last message of a subject."),
    click.option("--schedule-ttl", type=DURATION, help="How long scheduled messages live."),
)


def schedule_flags(command: _F) -> _F:
    """The flags; the command takes them as `**schedule`."""
    for decorate in reversed(_OPTIONS):
        command = decorate(command)
    return command


def schedule_headers(schedule: dict[str, Any]) -> list[tuple[str, str]]:
    """The headers that make a message a schedule; none if no flag was given.

    Raises:
        Failure: a time is none.
        click.UsageError: the flags do not go together.
    """
    given = {name: value for name, value in schedule.items() if value}
    if not given:
        return []
    when = [name for name in _WHEN if name in given]
    if len(when) != 1:
        raise click.UsageError("One of --schedule-after, --schedule-at, --schedule-every, --schedule-cron is needed.")
    if "schedule_dest" not in given:
        raise click.UsageError("--schedule-dest is needed with a schedule.")
    headers = [("Nats-Schedule", _pattern(when[0], given[when[0]])), ("Nats-Schedule-Target", given["schedule_dest"])]
    if "schedule_source" in given:
        headers.append(("Nats-Schedule-Source", given["schedule_source"]))
    if "schedule_ttl" in given:
        headers.append(("Nats-Schedule-TTL", format_duration(given["schedule_ttl"])))
    return headers


def _pattern(kind: str, value: Any) -> str:
    if kind == "schedule_cron":
        return str(value)
    if kind == "schedule_every":
        return f"@every {format_duration(value)}"
    if kind == "schedule_after":
        moment = datetime.now().astimezone() + timedelta(microseconds=value / MICROSECOND_NS)
    else:
        try:
            moment = parse_timestamp(value)
        except ValueError:
            raise Failure(f"{value!r} is not a time such as 2026-01-31T12:30:00Z") from None
    return f"@at {to_rfc3339(moment)}"
