"""Times and durations in Go's text forms, as integer nanoseconds since 1970 (times) or plain nanoseconds (durations).

Go's zero time is the year 1; it is what an unset time prints as, so it has a name here. Offsets other than Z are
accepted and turned into UTC: the instant is kept, the offset is not.
"""

from __future__ import annotations

import calendar
import functools
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from slipstream.jetstream.gojson.scan import JsonError, go_quote
from slipstream.units import HOUR_NS, MICROSECOND_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS

__all__ = ["DURATION_MAX_NS", "ZERO_TIME_NS", "format_duration", "format_time", "parse_duration", "parse_time"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZERO_TIME_NS: Final = -62_135_596_800 * SECOND_NS
_LAYOUT = "2006-01-02T15:04:05Z07:00"
# Go's layout, piece by piece: the name it reports when that piece is missing, what it accepts, its range.
_PIECES = (
    ("2006", re.compile(r"\d{4}"), "", 0, 9999),
    ("-", re.compile("-"), "", 0, 0),
    ("01", re.compile(r"\d{2}"), "month", 1, 12),
    ("-", re.compile("-"), "", 0, 0),
    ("02", re.compile(r"\d{2}"), "day", 1, 31),
    ("T", re.compile("T"), "", 0, 0),
    ("15", re.compile(r"\d{2}"), "hour", 0, 23),
    (":", re.compile(":"), "", 0, 0),
    ("04", re.compile(r"\d{2}"), "minute", 0, 59),
    (":", re.compile(":"), "", 0, 0),
    ("05", re.compile(r"\d{2}"), "second", 0, 59),
)
_FRACTION = re.compile(r"[.,](\d+)")
_ZONE = re.compile(r"Z|([+-])(\d{2}):(\d{2})")


def format_time(time_ns: int) -> str:
    """RFC 3339 in UTC with as many fraction digits as needed."""
    seconds, nanos = divmod(time_ns, SECOND_NS)
    if not nanos:
        return _second(seconds) + "Z"
    return _second(seconds) + f".{nanos:09d}".rstrip("0") + "Z"


@functools.lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    """A second since 1970; cached because what is asked for together was mostly stored together."""
    days, seconds = divmod(seconds, 86_400)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{_date(days)}T{hours:02d}:{minutes:02d}:{seconds:02d}"


@functools.lru_cache(maxsize=64)
def _date(days: int) -> str:
    """A day since 1970."""
    return (_EPOCH + timedelta(days=days)).date().isoformat()


def parse_time(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 time.

    Raises:
        JsonError: with the text Go's `time.Parse` gives.
    """
    rest, numbers = text, []
    for name, pattern, what, low, high in _PIECES:
        match = pattern.match(rest)
        if match is None:
            raise JsonError(
                f"parsing time {go_quote(text)} as {go_quote(_LAYOUT)}: "
                f"cannot parse {go_quote(rest)} as {go_quote(name)}"
            )
        if name[0] in "012":
            number = int(match.group())
            if not low <= number <= high:
                raise JsonError(f"parsing time {go_quote(text)}: {what} out of range")
            numbers.append(number)
        rest = rest[match.end() :]
    nanos = 0
    fraction = _FRACTION.match(rest)
    if fraction is not None:
        nanos = int(fraction.group(1)[:9].ljust(9, "0"))
        rest = rest[fraction.end() :]
    zone = _ZONE.match(rest)
    if zone is None:
        raise JsonError(
            f"parsing time {go_quote(text)} as {go_quote(_LAYOUT)}: "
            f"cannot parse {go_quote(rest)} as {go_quote('Z07:00')}"
        )
    if zone.end() != len(rest):
        raise JsonError(f"parsing time {go_quote(text)}: extra text: {go_quote(rest[zone.end() :])}")
    year, month, day, hour, minute, second = numbers
    if year == 0:
        raise JsonError(f"parsing time {go_quote(text)}: year out of range")
    if day > calendar.monthrange(year, month)[1]:
        raise JsonError(f"parsing time {go_quote(text)}: day out of range")
    offset_seconds = 0
    if zone.group(1):
        offset_seconds = int(zone.group(2)) * 3600 + int(zone.group(3)) * 60
        offset_seconds = -offset_seconds if zone.group(1) == "-" else offset_seconds
    whole = datetime(year, month, day, hour, minute, second, tzinfo=UTC) - _EPOCH
    return (whole.days * 86_400 + whole.seconds - offset_seconds) * SECOND_NS + nanos


_UNITS = {
    "ns": 1,
    "us": MICROSECOND_NS,
    "µs": MICROSECOND_NS,  # micro sign
    "μs": MICROSECOND_NS,  # Greek letter mu
    "ms": MILLISECOND_NS,
    "s": SECOND_NS,
    "m": MINUTE_NS,
    "h": HOUR_NS,
}
_DURATION_TERM = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
DURATION_MAX_NS = 2**63 - 1


def parse_duration(text: str) -> int | None:
    """Nanoseconds of a Go duration such as `1h30m` or `1.5s`; None if it is not one or does not fit in 64 bits."""
    sign = -1 if text[:1] == "-" else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        return None
    total = 0
    while rest:
        match = _DURATION_TERM.match(rest)
        if match is None:
            return None
        whole, fraction, unit = match.groups()
        if not whole and not fraction:
            return None
        total += int(whole or 0) * _UNITS[unit]
        if fraction:
            total += int(fraction) * _UNITS[unit] // 10 ** len(fraction)
        if total > DURATION_MAX_NS:
            return None
        rest = rest[match.end() :]
    return sign * total


def format_duration(duration_ns: int) -> str:
    """A duration as Go prints it: `1m30s`, `100ms`, `0s`."""
    if duration_ns == 0:
        return "0s"
    sign, rest = ("-", -duration_ns) if duration_ns < 0 else ("", duration_ns)
    for unit, size in (("ns", 1), ("µs", MICROSECOND_NS), ("ms", MILLISECOND_NS)):
        if rest < size * 1000:
            return sign + _decimal(rest, size) + unit
    hours, rest = divmod(rest, HOUR_NS)
    minutes, rest = divmod(rest, MINUTE_NS)
    text = _decimal(rest, SECOND_NS) + "s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return sign + (f"{hours}h{text}" if hours else text)


def _decimal(value: int, unit: int) -> str:
    """`value / unit` without trailing zeros; `unit` is a power of ten."""
    whole, part = divmod(value, unit)
    digits = len(str(unit)) - 1
    return str(whole) if not part else f"{whole}.{part:0{digits}d}".rstrip("0")
