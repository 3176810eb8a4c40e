"""The life time a message may ask for in `Nats-TTL`."""

from __future__ import annotations

import re
from typing import Final

from slipstream.jetstream import headers
from slipstream.jetstream.gojson.times import parse_duration
from slipstream.units import SECOND_NS

__all__ = ["NEVER", "deadline", "message_ttl", "parse_ttl"]

NEVER: Final = -1
_LATEST_NS: Final = 2**63 - 1  # of the times that are stored: 2262
_DIGITS = re.compile(rb"[0-9]{1,20}")


def message_ttl(header: bytes) -> int | None:
    """Seconds a message asks to live, `NEVER`, 0 if it does not ask, None if what it asks is not a time.

    None is falsy like 0 on purpose: a bad TTL is reported late, when all other conditions hold.
    """
    value = headers.find(header, b"Nats-TTL")
    return parse_ttl(value) if value else 0


def parse_ttl(value: bytes) -> int | None:
    """The same for a value."""
    if value.lower() == b"never":
        return NEVER
    duration_ns = parse_duration(value.decode("latin-1"))
    if duration_ns is not None:
        return duration_ns // SECOND_NS if duration_ns >= SECOND_NS else None
    return int(value) if _DIGITS.fullmatch(value) and int(value) < 2**63 else None


def deadline(ts_ns: int, ttl: int) -> int:
    """When a message of this time ends that asks to live so many seconds; 0: not by itself.

    A time that cannot be written is the latest that can. (nats-server's sum overflows, and the message goes at once.)
    """
    return min(ts_ns + ttl * SECOND_NS, _LATEST_NS) if ttl > 0 else 0
