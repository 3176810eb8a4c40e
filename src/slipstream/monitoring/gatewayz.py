"""/gatewayz: connections to other clusters, of which there are none."""

from __future__ import annotations

import msgspec

from slipstream.monitoring.facts import Facts
from slipstream.monitoring.query import Query
from slipstream.monitoring.routez import routez_options

__all__ = ["Gatewayz", "GatewayzOptions", "gatewayz", "gatewayz_options"]


class GatewayzOptions(msgspec.Struct, kw_only=True):
    """Which gateways and accounts to show."""

    name: str = ""
    accounts: bool = False
    account_name: str = ""
    subscriptions: bool = False
    subscriptions_detail: bool = False


class Gatewayz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The other clusters."""

    server_id: str
    now: str
    name: str = ""
    host: str = ""
    port: int = 0
    outbound_gateways: dict[str, object]
    inbound_gateways: dict[str, object]


def gatewayz_options(query: Query) -> GatewayzOptions:
    """The parameters of an HTTP request.

    Raises:
        BadRequest: one of them cannot be read.
    """
    subscriptions = routez_options(query)
    return GatewayzOptions(
        name=query.text("gw_name"),
        accounts=query.flag("accs") or bool(query.text("acc_name")),
        account_name=query.text("acc_name"),
        subscriptions=subscriptions.subscriptions,
        subscriptions_detail=subscriptions.subscriptions_detail,
    )


def gatewayz(facts: Facts, _options: GatewayzOptions) -> Gatewayz:
    """The gateways as they are now."""
    gateway = facts.options.gateway
    return Gatewayz(
        server_id=facts.server_id,
        now=facts.now(),
        name=gateway.name,
        host=gateway.host if gateway.name else "",
        port=facts.ports.get("gateway", gateway.port) if gateway.name else 0,
        outbound_gateways={},
        inbound_gateways={},
    )
