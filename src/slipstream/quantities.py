"""Durations, sizes and times as people write and read them: `7d`, `1.5GiB`, `2026-01-31 12:30:00`.

Durations and sizes are integers (nanoseconds, bytes) on the inside; -1 means unlimited where a limit is asked for.
Units are those of `nats`: besides Go's there are days, weeks, months of 30 days and years of 365.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from slipstream.units import HOUR_NS, MICROSECOND_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS

__all__ = ["format_bytes", "format_duration", "parse_bytes", "parse_duration", "parse_timestamp", "to_rfc3339"]

_DAY_NS: Final = 24 * HOUR_NS
_DURATION_UNITS: Final = {
    "ns": 1,
    "us": MICROSECOND_NS,
    "µs": MICROSECOND_NS,
    "ms": MILLISECOND_NS,
    "s": SECOND_NS,
    "m": MINUTE_NS,
    "h": HOUR_NS,
    "d": _DAY_NS,
    "D": _DAY_NS,
    "w": 7 * _DAY_NS,
    "W": 7 * _DAY_NS,
    "M": 30 * _DAY_NS,
    "y": 365 * _DAY_NS,
    "Y": 365 * _DAY_NS,
}
_DURATION_PART: Final = re.compile(r"(\d{1,19})(?:\.(\d{1,9}))?(ns|us|µs|ms|[smhdDwWMyY])")
_SIZE: Final = re.compile(r"(\d{1,19})(?:\.(\d{1,9}))?\s*([kmgtp]?)(i?)b?", re.IGNORECASE)
_INT64_MAX: Final = 2**63 - 1
_GO_ZERO_TIME: Final = "0001-01-01T00:00:00Z"


def parse_duration(text: str) -> int:
    """Nanoseconds of `2s`, `1h30m`, `1.5h`, `7d`; `-1` for none.

    Raises:
        ValueError: it is no duration.
    """
    text = text.strip()
    if text in ("0", "-1"):
        return int(text)
    at, total = 0, 0
    while at < len(text):
        part = _DURATION_PART.match(text, at)
        if part is None:
            break
        unit_ns = _DURATION_UNITS[part[3]]
        total += int(part[1]) * unit_ns
        if part[2]:
            total += int(part[2]) * unit_ns // 10 ** len(part[2])
        at = part.end()
    if not text or at < len(text) or total > _INT64_MAX:
        raise ValueError(f"{text!r} is not a duration such as 2s, 1h30m or 7d")
    return total


def parse_bytes(text: str) -> int:
    """Bytes of `1024`, `16KB`, `1.5GiB`: always powers of 1024, as `nats` has it; `-1` for unlimited.

    Raises:
        ValueError: it is no size.
    """
    if text.strip() == "-1":
        return -1
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size such as 512, 16KB or 1.5GiB")
    unit: int = 1024 ** " kmgtp".index(found[3].lower() or " ")
    size = int(found[1]) * unit + (int(found[2]) * unit // 10 ** len(found[2]) if found[2] else 0)
    if size > _INT64_MAX:
        raise ValueError(f"{text!r} is more than a server can count")
    return size


def parse_timestamp(text: str) -> datetime:
    """A moment from RFC 3339 or `2026-01-31 12:30:00`; local time where no zone is given.

    Raises:
        ValueError: it is no such text.
    """
    if text == _GO_ZERO_TIME:
        return datetime.min.replace(tzinfo=UTC)
    # Python reads at most six digits of a second.
    shorter = re.sub(r"(\.\d{6})\d+", r"\1", text.strip())
    return datetime.fromisoformat(shorter).astimezone()


def to_rfc3339(moment: datetime) -> str:
    """A moment as the JetStream API writes it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def format_bytes(size: int) -> str:
    """Bytes in powers of 1024, with one decimal below ten: `76 B`, `1.5 KiB`, `161 MiB`."""
    if size < 0:
        return "unlimited"
    amount, names = float(size), iter(("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
    if size < 1024:
        return f"{size} B"
    name = ""
    while amount >= 1024:
        amount, name = amount / 1024, next(names)
    digits = 1 if amount < 9.95 else 0
    return f"{amount:.{digits}f} {name}"


def format_duration(duration_ns: int) -> str:
    """A duration in the words of `nats`: `250ms`, `1.50s`, `2m0s`, `1d2h3m4s`, `7d`; `never` for the longest one."""
    if duration_ns >= _INT64_MAX:
        return "never"
    if duration_ns < 0:
        return f"-{format_duration(-duration_ns)}"
    if duration_ns < MILLISECOND_NS:
        return f"{duration_ns / MICROSECOND_NS:.0f}µs" if duration_ns else "0s"
    if duration_ns < SECOND_NS:
        return f"{duration_ns / MILLISECOND_NS:.0f}ms"
    if duration_ns < MINUTE_NS:
        return f"{duration_ns / SECOND_NS:.2f}s"
    seconds = duration_ns // SECOND_NS
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    years = days // 365
    parts = [(years, "y"), (days % 365, "d"), (hours % 24, "h"), (minutes % 60, "m"), (seconds % 60, "s")]
    while days and parts[-1][0] == 0:
        parts.pop()
    return "".join(f"{number}{unit}" for number, unit in _without_leading_zeros(parts))


def _without_leading_zeros(parts: Iterable[tuple[int, str]]) -> Iterable[tuple[int, str]]:
    started = False
    for number, unit in parts:
        started = started or number > 0
        if started:
            yield number, unit
