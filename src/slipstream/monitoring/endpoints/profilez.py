"""PROFILEZ: profiles by name. Python has no pprof: stacks are text, under the names Go has for them (ADR 122)."""

from __future__ import annotations

from typing import Final

import msgspec

from slipstream.jetstream.gojson.scan import go_quote
from slipstream.monitoring.endpoints.stacksz import stacksz

__all__ = ["Profilez", "ProfilezOptions", "profilez"]

# The names of Go's runtime. Those that have nothing to answer them here are refused with where to look instead.
_STACKS: Final = frozenset(("goroutine", "threadcreate"))
_MISSING: Final = {
    "cpu": "what holds the event loop is logged with SLIPSTREAM_SLOW_EVENT_MS, and /varz has the processor time",
    "heap": "/varz has the memory",
    "allocs": "/varz has the memory",
    "mutex": "there is one thread that serves",
    "block": "there is one thread that serves",
}


class ProfilezOptions(msgspec.Struct, kw_only=True):
    """Which profile."""

    name: str = ""
    debug: int = 0
    duration: int = 0


class Profilez(msgspec.Struct):
    """The profile, base64 in JSON, or why there is none."""

    profile: bytes | None
    error: str


def profilez(options: ProfilezOptions) -> Profilez:
    """The profile asked for."""
    if not options.name:
        return Profilez(None, "Profile name not specified")
    if options.name in _STACKS:
        return Profilez(stacksz(), "")
    if options.name in _MISSING:
        why = f"is of Go's runtime, which this server has not: {_MISSING[options.name]}; goroutine has the stacks"
        return Profilez(None, f"Profile {go_quote(options.name)} {why}")
    return Profilez(None, f"Profile {go_quote(options.name)} not found")
