"""Durations as Go writes them: `1h30m`, `250ms`, `1.5s`.

Inside the program a duration is an integer of nanoseconds; this is the border.
"""

from __future__ import annotations

import re

from slipstream.units import HOUR_NS, MICROSECOND_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS

__all__ = ["format_duration", "parse_duration"]

_UNITS_NS = {
    "ns": 1,
    "us": MICROSECOND_NS,
    "µs": MICROSECOND_NS,  # U+00B5
    "μs": MICROSECOND_NS,  # U+03BC  # Go accepts both letters
    "ms": MILLISECOND_NS,
    "s": SECOND_NS,
    "m": MINUTE_NS,
    "h": HOUR_NS,
}
_part = re.compile(r"([0-9]*+)(?:\.([0-9]*+))?([^0-9.]*+)").match
_DURATION_MAX_NS = 2**63 - 1
# More digits than this cannot be a duration in range; int() of a very long text is slow.
_DIGITS_MAX = 40


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration.

    Raises:
        ValueError: it is not a duration; the message is Go's.
    """
    invalid = f"time: invalid duration {_quoted(text)}"
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(invalid)
    total = 0
    while rest:
        match = _part(rest)
        assert match is not None, "the pattern matches the empty text"
        whole, fraction, unit = match.group(1), match.group(2) or "", match.group(3)
        if (not whole and not fraction) or len(whole) > _DIGITS_MAX:
            raise ValueError(invalid)
        if not unit:
            raise ValueError(f"time: missing unit in duration {_quoted(text)}")
        if unit not in _UNITS_NS:
            raise ValueError(f"time: unknown unit {_quoted(unit)} in duration {_quoted(text)}")
        unit_ns = _UNITS_NS[unit]
        fraction = fraction[:_DIGITS_MAX]
        total += int(whole or "0") * unit_ns + (int(fraction) * unit_ns // 10 ** len(fraction) if fraction else 0)
        if total > _DURATION_MAX_NS:
            raise ValueError(invalid)
        rest = rest[match.end() :]
    return -total if negative else total


def format_duration(duration_ns: int) -> str:
    """A duration as Go prints it: `2m0s`, `1.5s`, `250ms`, `0s`."""
    sign, rest = ("-", -duration_ns) if duration_ns < 0 else ("", duration_ns)
    if rest < SECOND_NS:
        for unit, unit_ns in (("ms", MILLISECOND_NS), ("µs", MICROSECOND_NS), ("ns", 1)):
            if rest >= unit_ns:
                return f"{sign}{_decimal(rest, unit_ns)}{unit}"
        return "0s"
    hours, rest = divmod(rest, HOUR_NS)
    minutes, rest = divmod(rest, MINUTE_NS)
    text = f"{hours}h" if hours else ""
    if hours or minutes:
        text += f"{minutes}m"
    return f"{sign}{text}{_decimal(rest, SECOND_NS)}s"


def _decimal(amount_ns: int, unit_ns: int) -> str:
    whole, rest = divmod(amount_ns, unit_ns)
    fraction = f"{rest:0{len(str(unit_ns)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
