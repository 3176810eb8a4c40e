"""/leafz: leaf nodes, of which there are none."""

from __future__ import annotations

import msgspec

from slipstream.monitoring.facts import Facts
from slipstream.monitoring.query import Query

__all__ = ["Leafz", "LeafzOptions", "leafz", "leafz_options"]


class LeafzOptions(msgspec.Struct, kw_only=True):
    """Which leaf nodes to show."""

    subscriptions: bool = False
    account: str = ""


class Leafz(msgspec.Struct, kw_only=True):
    """The leaf nodes."""

    server_id: str
    now: str
    leafnodes: int
    leafs: list[object]


def leafz_options(query: Query) -> LeafzOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    return LeafzOptions(subscriptions=query.flag("subs"), account=query.text("acc"))


def leafz(facts: Facts, _options: LeafzOptions) -> Leafz:
    """The leaf nodes as they are now."""
    return Leafz(server_id=facts.server_id, now=facts.now(), leafnodes=0, leafs=[])
