"""PROFILEZ: profiles by name. Python has no pprof; what there is are the stacks, under the name Go has for them."""

from __future__ import annotations

import msgspec

from slipstream.jetstream.gojson.scan import go_quote
from slipstream.monitoring.endpoints.stacksz import stacksz

__all__ = ["Profilez", "ProfilezOptions", "profilez"]


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
    if options.name == "goroutine":
        return Profilez(stacksz(), "")
    return Profilez(None, f"Profile {go_quote(options.name)} not found")
