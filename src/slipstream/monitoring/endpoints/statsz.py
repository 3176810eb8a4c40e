"""STATSZ: the server's numbers as it sends them to the system account, every few seconds and on request."""

from __future__ import annotations

import msgspec

from slipstream.clock import rfc3339
from slipstream.monitoring.endpoints.accstatz import MsgBytes
from slipstream.monitoring.endpoints.varz import ConnectionKinds
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.gotext import number
from slipstream.monitoring.jetstream_facts import JetStreamVarz, varz_of

__all__ = ["ServerStats", "statsz"]

_META_GROUP = "_meta_"


class RouteStats(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The numbers of one route."""

    rid: int
    name: str = ""
    sent: MsgBytes
    received: MsgBytes
    pending: int


class GatewayStats(msgspec.Struct, kw_only=True):
    """The numbers of another cluster: sent over the one connection there, received over all from there."""

    gwid: int
    name: str
    sent: MsgBytes
    received: MsgBytes
    inbound_connections: int


class ServerStats(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The numbers."""

    start: str
    mem: int
    cores: int
    cpu: float
    connections: int
    total_connections: int
    active_accounts: int
    subscriptions: int
    sent: MsgBytes
    sent_to_clients: MsgBytes
    received: MsgBytes
    received_from_clients: MsgBytes
    slow_consumers: int
    slow_consumer_stats: ConnectionKinds | None = None
    stale_connections: int = 0
    stale_connection_stats: ConnectionKinds | None = None
    stalled_clients: int = 0
    routes: list[RouteStats] = []
    gateways: list[GatewayStats] = []
    active_servers: int = 0
    jetstream: JetStreamVarz | None = None
    gomaxprocs: int = 0


def statsz(facts: Facts) -> ServerStats:
    """The server as it is now."""
    hub, traffic = facts.hub, facts.traffic()
    process = facts.usage.read(facts.server.clock.monotonic_ns())
    routed = facts.server_traffic()
    sent, received = MsgBytes(traffic.out_msgs, traffic.out_bytes), MsgBytes(traffic.in_msgs, traffic.in_bytes)
    return ServerStats(
        start=rfc3339(facts.server.identity.start_ns),
        mem=process.resident_bytes,
        cores=process.cores,
        cpu=number(process.cpu_percent),
        connections=len(hub.connections),
        total_connections=hub.total_connections,
        active_accounts=sum(1 for account in facts.accounts.values() if account.connections),
        subscriptions=facts.subscription_count(),
        sent=MsgBytes(sent.msgs + routed.out_msgs, sent.bytes + routed.out_bytes),
        sent_to_clients=sent,
        received=MsgBytes(received.msgs + routed.in_msgs, received.bytes + routed.in_bytes),
        received_from_clients=received,
        slow_consumers=hub.slow_consumers,
        slow_consumer_stats=ConnectionKinds(clients=hub.slow_consumers) if hub.slow_consumers else None,
        stale_connections=hub.stale_connections,
        stale_connection_stats=ConnectionKinds(clients=hub.stale_connections) if hub.stale_connections else None,
        stalled_clients=hub.stalled_clients,
        routes=[
            RouteStats(
                rid=link.cid,
                name=link.end.remote_name,
                sent=MsgBytes(link.outbox.msgs, link.outbox.msg_bytes),
                received=MsgBytes(link.parser.msgs, link.parser.msg_bytes),
                pending=link.outbox.pending,
            )
            for link in facts.routes()
        ],
        gateways=_gateways(facts),
        active_servers=1 + facts.peer_count() + facts.far_count(),
        jetstream=_jetstream(facts),
        gomaxprocs=1,
    )


def _gateways(facts: Facts) -> list[GatewayStats]:
    supercluster = facts.server.supercluster
    if supercluster is None:
        return []
    found: list[GatewayStats] = []
    for name, link in supercluster.outbound.items():
        inbound = [one for one in supercluster.inbound.values() if one.cluster == name]
        received = MsgBytes(sum(one.parser.msgs for one in inbound), sum(one.parser.msg_bytes for one in inbound))
        sent = MsgBytes(link.outbox.msgs, link.outbox.msg_bytes)
        found.append(
            GatewayStats(gwid=link.cid, name=name, sent=sent, received=received, inbound_connections=len(inbound))
        )
    return found


def _jetstream(facts: Facts) -> JetStreamVarz | None:
    """As in /varz, without the directory: who may listen to the system account need not know paths.

    Only who leads the meta group names its members and its cluster: all servers send this, and each would say the same.
    """
    if facts.jetstream is None or not facts.jetstream.enabled:
        return None
    shown = varz_of(facts.jetstream)
    assert shown.config is not None
    shown.config = msgspec.structs.replace(shown.config, store_dir="")
    if shown.meta is not None and not facts.jetstream.leads_meta:
        shown.meta = {key: value for key, value in shown.meta.items() if key != "replicas"} | {"name": _META_GROUP}
    return shown
