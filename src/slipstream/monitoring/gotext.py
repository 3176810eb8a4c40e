"""Texts as Go prints them: JSON with escapes and indentation, uptimes, round trip times, numbers.

Tools compare these letter by letter, or parse them with Go's rules.
"""

from __future__ import annotations

import msgspec

from slipstream.config.durations import format_duration
from slipstream.jetstream.gojson import encode
from slipstream.units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS

__all__ = ["encode", "encode_indented", "number", "round_trip", "round_trip_text", "seconds", "uptime"]


def encode_indented(value: object, indent: int = 2) -> bytes:
    """JSON for people."""
    return msgspec.json.format(encode(value), indent=indent)


def number(value: float) -> int | float:
    """A number without the `.0` that Go does not write."""
    return int(value) if value == int(value) else value


def seconds(duration_ns: int) -> int | float:
    """A duration in seconds, as timeouts are shown."""
    return number(duration_ns / SECOND_NS)


def uptime(duration_ns: int) -> str:
    """`1d0h3m4s`: the largest unit first, the smaller ones kept even if zero."""
    total = max(duration_ns, 0) // SECOND_NS
    minutes, second = divmod(total, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    years, day = divmod(days, 365)
    if years:
        return f"{years}y{day}d{hour}h{minute}m{second}s"
    if days:
        return f"{days}d{hour}h{minute}m{second}s"
    if hours:
        return f"{hours}h{minute}m{second}s"
    return f"{minutes}m{second}s" if minutes else f"{second}s"


def round_trip(rtt_ns: int) -> int:
    """A round trip time as precise as it is shown: whole microseconds below a millisecond."""
    if MICROSECOND_NS < rtt_ns < MILLISECOND_NS:
        return rtt_ns - rtt_ns % MICROSECOND_NS
    return rtt_ns


def round_trip_text(rtt_ns: int) -> str:
    """A round trip time for people."""
    return format_duration(round_trip(rtt_ns))
