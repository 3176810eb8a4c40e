"""/raftz: Raft groups, of which there are none."""

from __future__ import annotations

import msgspec

__all__ = ["NO_RAFT", "RaftzOptions", "raftz"]

# What HTTP says, with status 404, where no group can exist.
NO_RAFT = "No Raft nodes registered"


class RaftzOptions(msgspec.Struct, kw_only=True):
    """Which groups to show."""

    account: str = ""
    group: str = ""


def raftz(_options: RaftzOptions) -> dict[str, object]:
    """The groups by account."""
    return {}
