"""Everything as people read it, for commands: what `quantities` knows, ages, and texts that do not steer a terminal.

No colour, no terminal, no clock.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from slipstream.quantities import (
    format_bytes,
    format_duration,
    parse_bytes,
    parse_duration,
    parse_timestamp,
    to_rfc3339,
)
from slipstream.units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS

__all__ = [
    "format_age",
    "format_bytes",
    "format_duration",
    "format_exactly",
    "format_number",
    "format_time",
    "parse_bytes",
    "parse_duration",
    "parse_timestamp",
    "to_rfc3339",
    "visible",
    "visible_in_colour",
]

# Control characters, but for tabs and line ends: what others wrote must not steer the terminal.
_CONTROL: Final = re.compile(r"(?!\r\n)[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROL_BUT_COLOURS: Final = re.compile(rf"(?!\x1b\[[0-9;]*m){_CONTROL.pattern}")


def visible(text: str) -> str:
    """A text that only shows itself: control characters are written out, as `\\x07`."""
    return _CONTROL.sub(_written_out, text)


def visible_in_colour(text: str) -> str:
    """The same for a text that this program may have coloured."""
    return _CONTROL_BUT_COLOURS.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"


def format_number(number: int) -> str:
    """1,234,567"""
    return f"{number:,}"


def format_exactly(duration_ns: int) -> str:
    """A short time with all its digits: 84.3µs, 2.660946ms."""
    for unit_ns, unit in ((SECOND_NS, "s"), (MILLISECOND_NS, "ms"), (MICROSECOND_NS, "µs")):
        if duration_ns >= unit_ns:
            return f"{duration_ns / unit_ns:.9f}".rstrip("0").rstrip(".") + unit
    return f"{duration_ns}ns" if duration_ns else "0s"


def format_time(text: str) -> str:
    """An RFC 3339 time as local `2026-01-31 12:30:00`; empty for the zero time and for none."""
    moment = parse_timestamp(text) if text else None
    return "" if moment is None or moment.year == 1 else moment.strftime("%Y-%m-%d %H:%M:%S")


def format_age(text: str, now: datetime) -> str:
    """How long ago an RFC 3339 time was; `never` for the zero time and for none."""
    moment = parse_timestamp(text) if text else None
    if moment is None or moment.year <= 1970:
        return "never"
    elapsed = now - moment
    return format_duration(max(round(elapsed.total_seconds() * 1e6), 0) * MICROSECOND_NS)
