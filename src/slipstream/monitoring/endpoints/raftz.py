"""/raftz: the Raft groups that this server takes part in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slipstream.monitoring.facts import Facts
    from slipstream.monitoring.query import UrlQuery

__all__ = ["NO_RAFT", "RaftzOptions", "raftz", "raftz_options"]

# What HTTP says, with status 404, where no group can exist.
NO_RAFT = "No Raft nodes registered"


class RaftzOptions(msgspec.Struct, kw_only=True):
    """Which groups to show."""

    account: str = ""
    group: str = ""


def raftz_options(query: UrlQuery) -> RaftzOptions:
    """The parameters of an HTTP request."""
    return RaftzOptions(account=query.text("acc"), group=query.text("group"))


def raftz(facts: Facts, options: RaftzOptions) -> Mapping[str, Mapping[str, object]] | None:
    """The groups by account; None where there can be none."""
    return None if facts.jetstream is None else facts.jetstream.raft_groups(options.account, options.group)
