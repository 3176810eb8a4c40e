"""What a message says about being published later: read, checked, and turned into the message that is published.

A schedule is a message with `Nats-Schedule`: `@at <time>`, `@every <duration>`, six cron fields or one of their
names. It lies under its own subject, and at its time a copy goes to `Nats-Schedule-Target` in the same stream. The
headers that make it a schedule are not in the copy; two others are: `Nats-Scheduler` names the schedule, and
`Nats-Schedule-Next` says when it comes again, or `purge` if it does not and is removed.

What this is not: timers (`schedules`) or storing.
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.errors_table import ErrorSpec
from slipstream.jetstream.gojson import JsonError
from slipstream.jetstream.gojson.times import ZERO_TIME_NS, format_time, parse_duration, parse_time
from slipstream.jetstream.stream.admission.ingest_ports import Newest
from slipstream.jetstream.stream.admission.ttl import parse_ttl
from slipstream.jetstream.stream.features.cron import Cron, OffsetAt, parse_cron, utc
from slipstream.jetstream.stream.limits import SCHEDULE_ZONES_MAX
from slipstream.kernels.subjects.subject import is_valid_publish, overlaps
from slipstream.units import SECOND_NS

__all__ = ["Moment", "fired", "is_schedule", "moment_of", "next_time", "refusal", "with_rollup"]

PURGE: Final = b"purge"
_ALIASES = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_LATEST_NS: Final = 2**63 - 1
_OURS = re.compile(rb"\r\n(?:Nats-Schedule|Nats-Expected-|(?:Nats-Msg-Id|Nats-TTL|Nats-Rollup):)[^\r\n]*(?=\r\n)")


class Moment(NamedTuple):
    """When a schedule fires."""

    due_ns: int
    repeats: bool
    offset_seconds: int = 0
    """Of the schedule's zone then: how the time is written."""


def is_schedule(header: bytes) -> bool:
    """Whether a message is a schedule."""
    return bool(header) and bool(headers.find(header, b"Nats-Schedule"))


def moment_of(header: bytes, after_ns: int, now_ns: int) -> Moment | ErrorSpec | None:
    """When the schedule in a header block fires first behind a time; None if there is none in it."""
    offset_at: OffsetAt | None = None
    zone_name = headers.find(header, b"Nats-Schedule-Time-Zone")
    if zone_name is not None:
        offset_at = _zone(zone_name.decode("latin-1"))
        if offset_at is None:
            return table.MESSAGE_SCHEDULES_TIME_ZONE_INVALID
    pattern = headers.find(header, b"Nats-Schedule")
    if not pattern:
        return None
    found = _moment(pattern.decode("utf-8", "replace"), offset_at, after_ns, now_ns)
    if found is None:
        return table.MESSAGE_SCHEDULES_PATTERN_INVALID
    return None if found.due_ns == ZERO_TIME_NS else found


def _moment(pattern: str, offset_at: OffsetAt | None, after_ns: int, now_ns: int) -> Moment | None:
    if pattern.startswith("@at "):
        try:
            return Moment(min(parse_time(pattern[4:]), _LATEST_NS), False) if offset_at is None else None
        except JsonError:
            return None
    if pattern.startswith("@every "):
        interval_ns = parse_duration(pattern[7:])
        if offset_at is not None or interval_ns is None or interval_ns < SECOND_NS:
            return None
        # Times that passed while nobody looked are not made up for.
        due_ns = _rounded(after_ns) + interval_ns
        return Moment(due_ns if due_ns >= now_ns else _rounded(now_ns) + interval_ns, True)
    cron = _cron(_ALIASES.get(pattern, pattern))
    if cron is None:
        return None
    offset_at = offset_at or utc
    due = cron.next_after(after_ns // SECOND_NS, offset_at)
    if due is not None and due * SECOND_NS < now_ns:
        due = cron.next_after(_rounded(now_ns) // SECOND_NS, offset_at)
    return Moment(due * SECOND_NS, True, offset_at(due)) if due is not None else None


def _rounded(time_ns: int) -> int:
    return (time_ns + SECOND_NS // 2) // SECOND_NS * SECOND_NS


@functools.lru_cache(maxsize=1024)
def _cron(pattern: str) -> Cron | None:
    return parse_cron(pattern)


@functools.lru_cache(maxsize=SCHEDULE_ZONES_MAX)
def _zone(name: str) -> OffsetAt | None:
    """The offsets of an IANA time zone; None if there is no such zone."""
    if name == "UTC":
        return utc
    from zoneinfo import ZoneInfo  # most servers have no schedule

    try:
        zone = ZoneInfo(name)
    except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        return None
    except KeyError:
        return None

    def offset_at(seconds: int) -> int:
        offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
        return offset.days * 86_400 + offset.seconds if offset is not None else 0

    return offset_at


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def refusal(config: StreamConfig, subject: bytes, header: bytes, now_ns: int, newest: Newest) -> ApiError | None:
    """Why a message must not be stored because of what it schedules or cancels; None for most messages.

    Args:
        config: of the stream.
        subject: of the message.
        header: of the message.
        now_ns: wall clock.
        newest: finds the message that is cancelled.
    """
    if header.find(b"\r\nNats-Schedule") < 0:
        return None
    found = moment_of(header, now_ns, now_ns)
    if found is not None:
        spec = found if isinstance(found, ErrorSpec) else _wrong_schedule(config, subject, header)
        if not config.allow_msg_schedules:
            spec = table.MESSAGE_SCHEDULES_DISABLED
        if spec is not None:
            return TableError(spec)
    spec = _wrong_cancel(config, subject, header)
    if spec is None and headers.find(header, b"Nats-Schedule-Next"):
        # What is cancelled must be a schedule, or nothing.
        last = newest(headers.find(header, b"Nats-Scheduler") or b"")
        if last is not None and not is_schedule(last[0]):
            spec = table.MESSAGE_SCHEDULES_SCHEDULER_INVALID
    return None if spec is None else TableError(spec)


def _wrong_schedule(config: StreamConfig, subject: bytes, header: bytes) -> ErrorSpec | None:
    ttl = headers.find(header, b"Nats-Schedule-TTL")
    target = headers.find(header, b"Nats-Schedule-Target") or b""
    source = headers.find(header, b"Nats-Schedule-Source") or b""
    if ttl and parse_ttl(ttl) is None:
        return table.MESSAGE_SCHEDULES_TTL_INVALID
    if headers.find(header, b"Nats-Schedule-Rollup") not in (None, b"", b"sub"):
        return table.MESSAGE_SCHEDULES_ROLLUP_INVALID
    if ttl and not config.allow_msg_ttl:
        return table.MESSAGE_TTL_DISABLED
    if not target or not is_valid_publish(target) or target == subject:
        return table.MESSAGE_SCHEDULES_TARGET_INVALID
    if source and (source in (target, subject) or not is_valid_publish(source)):
        return table.MESSAGE_SCHEDULES_SOURCE_INVALID
    if not _collected(config, target):
        return table.MESSAGE_SCHEDULES_TARGET_INVALID
    if source and not _collected(config, source):
        return table.MESSAGE_SCHEDULES_SOURCE_INVALID
    if (headers.find(header, b"Nats-Rollup") or b"sub").lower() != b"sub":
        return table.MESSAGE_SCHEDULES_ROLLUP_INVALID
    return None


def _collected(config: StreamConfig, subject: bytes) -> bool:
    return any(overlaps(own.encode(), subject) for own in config.subjects)


def _wrong_cancel(config: StreamConfig, subject: bytes, header: bytes) -> ErrorSpec | None:
    """What is wrong with headers that cancel a schedule, as far as they alone tell."""
    scheduler = headers.find(header, b"Nats-Scheduler")
    following = headers.find(header, b"Nats-Schedule-Next")
    if not following:
        return table.MESSAGE_SCHEDULES_SCHEDULER_INVALID if scheduler else None
    if following != PURGE or not scheduler or scheduler == subject or not is_valid_publish(scheduler):
        return table.MESSAGE_SCHEDULES_SCHEDULER_INVALID
    return None if config.allow_msg_schedules else table.MESSAGE_SCHEDULES_DISABLED


def with_rollup(header: bytes, now_ns: int) -> bytes:
    """A schedule replaces the one before it on its subject."""
    if header.find(b"\r\nNats-Schedule:") < 0 or headers.find(header, b"Nats-Rollup"):
        return header
    is_due_sometime = isinstance(moment_of(header, now_ns, now_ns), Moment)
    return headers.append(header, b"Nats-Rollup", b"sub") if is_due_sometime else header


def fired(subject: bytes, schedule: bytes, content: bytes, moment: Moment) -> bytes:
    """Headers of the message a schedule publishes.

    Args:
        subject: of the schedule.
        schedule: its header block.
        content: the header block of the message whose content is published, mostly the schedule's own.
        moment: when it fires next, or that it does not.
    """
    block = _OURS.sub(b"", content)
    block = b"" if block == b"NATS/1.0\r\n\r\n" else block
    block = headers.append(block, b"Nats-Scheduler", subject)
    following = next_time(moment).encode() if moment.repeats else PURGE
    block = headers.append(block, b"Nats-Schedule-Next", following)
    ttl = headers.find(schedule, b"Nats-Schedule-TTL")
    if ttl:
        block = headers.append(block, b"Nats-TTL", ttl)
    rollup = headers.find(schedule, b"Nats-Schedule-Rollup")
    if rollup:
        block = headers.append(block, b"Nats-Rollup", rollup)
    return block


def next_time(moment: Moment) -> str:
    """A moment as text, in its zone."""
    if not moment.offset_seconds:
        return format_time(moment.due_ns)
    sign = "+" if moment.offset_seconds > 0 else "-"
    hours, minutes = divmod(abs(moment.offset_seconds) // 60, 60)
    return format_time(moment.due_ns + moment.offset_seconds * SECOND_NS)[:-1] + f"{sign}{hours:02d}:{minutes:02d}"
