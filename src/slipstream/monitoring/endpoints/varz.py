"""/varz: the server in one object. The structs list the fields in nats-server's order; defaults are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from slipstream.auth.nkeys import payload_of
from slipstream.clock import rfc3339
from slipstream.monitoring.endpoints import varz_blocks as blocks
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.gotext import number, seconds, uptime
from slipstream.monitoring.jetstream_facts import JetStreamVarz, after_received, varz_of
from slipstream.monitoring.worker import Steps
from slipstream.version import PRODUCT_VERSION, SERVER_VERSION

__all__ = ["ConnectionKinds", "Varz", "varz"]


class ConnectionKinds(msgspec.Struct):
    """A count for each kind of connection."""

    clients: int = 0
    routes: int = 0
    gateways: int = 0
    leafs: int = 0


class DiskWaits(msgspec.Struct):
    """Waiting for a turn at the disk. Commits are grouped here, so nobody waits for a turn."""

    waiters: int = 0
    waits: int = 0
    wait_time: int = 0
    max_wait_time: int = 0


class Varz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Everything about the server that is one value."""

    server_id: str
    server_name: str
    version: str
    proto: int
    git_commit: str = ""
    go: str
    host: str
    port: int
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    ip: str = ""
    connect_urls: list[str] = []
    ws_connect_urls: list[str] = []
    max_connections: int
    max_subscriptions: int = 0
    ping_interval: int
    ping_max: int
    http_host: str
    http_port: int
    http_base_path: str
    https_port: int
    auth_timeout: float
    max_control_line: int
    max_payload: int
    max_pending: int
    cluster: blocks.ClusterVarz
    gateway: blocks.GatewayVarz
    leaf: blocks.LeafVarz
    mqtt: blocks.MqttVarz
    websocket: blocks.WebsocketVarz
    jetstream: JetStreamVarz
    tls_timeout: float
    write_deadline: int
    write_timeout: str = ""
    start: str
    now: str
    uptime: str
    mem: int
    cores: int
    gomaxprocs: int
    cpu: float
    connections: int
    total_connections: int
    routes: int
    remotes: int
    leafnodes: int
    in_msgs: int
    in_bytes: int
    in_client_msgs: int
    in_client_bytes: int
    out_msgs: int
    out_bytes: int
    out_client_msgs: int
    out_client_bytes: int
    slow_consumers: int
    stale_connections: int
    stalled_clients: int
    subscriptions: int
    http_req_stats: Mapping[str, int]
    config_load_time: str
    config_digest: str
    tags: Sequence[str] = ()
    metadata: Mapping[str, str] = {}
    feature_flags: Mapping[str, bool] = {}
    trusted_operators_jwt: Sequence[str] = ()
    trusted_operators_claim: Sequence[msgspec.Raw] = ()
    system_account: str = ""
    pinned_account_fails: int = 0
    slow_consumer_stats: ConnectionKinds
    stale_connection_stats: ConnectionKinds
    disk_io_wait_stats: DiskWaits
    proxies: blocks.ProxiesVarz | None = None
    tls_cert_not_after: str = ""


def varz(facts: Facts) -> Steps[Varz]:
    """The server as it is, with everything that its streams have received."""
    yield from after_received(facts.jetstream)
    return _varz(facts)


def _varz(facts: Facts) -> Varz:
    """The server as it is now."""
    options, hub = facts.options, facts.hub
    now_ns = facts.now_ns()
    traffic, routed = facts.traffic(), facts.server_traffic()
    process = facts.usage.read(facts.server.clock.monotonic_ns())
    tls = options.tls
    return Varz(
        server_id=facts.server_id,
        server_name=facts.server_name,
        version=SERVER_VERSION,
        git_commit=f"slipstream-{PRODUCT_VERSION}",
        proto=1,
        go="python",
        host=hub.host,
        port=hub.port,
        auth_required=hub.authenticator.asks_for_credentials("STANDARD"),
        tls_required=tls is not None and not options.allow_non_tls,
        tls_verify=tls is not None and tls.verify,
        connect_urls=list(hub.connect_urls),
        ws_connect_urls=list(hub.websocket_urls),
        max_connections=options.max_connections,
        max_subscriptions=max(options.max_subscriptions, 0),
        ping_interval=options.ping_interval_ns,
        ping_max=options.ping_max,
        http_host=options.http_host or options.host,
        http_port=options.http_port,
        http_base_path=options.http_base_path,
        https_port=options.https_port,
        auth_timeout=seconds(facts.server.auth_timeout_ns),
        max_control_line=options.max_control_line,
        max_payload=options.max_payload,
        max_pending=options.max_pending,
        cluster=blocks.cluster_block(facts),
        gateway=blocks.gateway_block(facts),
        leaf=blocks.leaf_block(facts),
        mqtt=blocks.mqtt_block(facts),
        websocket=blocks.websocket_block(facts),
        jetstream=varz_of(facts.jetstream),
        tls_timeout=2 if tls is None else seconds(tls.timeout_ns),
        write_deadline=options.write_deadline_ns,
        write_timeout=blocks.write_timeout(options.write_timeout),
        start=rfc3339(facts.server.identity.start_ns),
        now=rfc3339(now_ns),
        uptime=uptime(now_ns - facts.server.identity.start_ns),
        mem=process.resident_bytes,
        cores=process.cores,
        # One event loop does the work, whatever the machine has.
        gomaxprocs=1,
        cpu=number(process.cpu_percent),
        connections=len(hub.connections),
        total_connections=hub.total_connections,
        routes=len(facts.routes()),
        remotes=facts.peer_count(),
        leafnodes=len(facts.leafs()),
        in_msgs=traffic.in_msgs + routed.in_msgs,
        in_bytes=traffic.in_bytes + routed.in_bytes,
        in_client_msgs=traffic.in_msgs,
        in_client_bytes=traffic.in_bytes,
        out_msgs=traffic.out_msgs + routed.out_msgs,
        out_bytes=traffic.out_bytes + routed.out_bytes,
        out_client_msgs=traffic.out_msgs,
        out_client_bytes=traffic.out_bytes,
        slow_consumers=hub.slow_consumers,
        stale_connections=hub.stale_connections,
        stalled_clients=hub.stalled_clients,
        subscriptions=facts.subscription_count(),
        http_req_stats=dict(sorted(facts.http_requests.items())),
        config_load_time=rfc3339(facts.config_loaded_ns),
        config_digest=options.config_digest,
        tags=options.server_tags,
        metadata=dict(sorted(options.server_metadata.items())),
        feature_flags=facts.feature_flags,
        trusted_operators_jwt=options.operator,
        trusted_operators_claim=tuple(msgspec.Raw(payload_of(text)) for text in options.operator),
        system_account=facts.system_account,
        pinned_account_fails=0 if hub.logins.operators is None else hub.logins.operators.verifier.pinned_refusals,
        slow_consumer_stats=ConnectionKinds(clients=hub.slow_consumers),
        stale_connection_stats=ConnectionKinds(clients=hub.stale_connections),
        disk_io_wait_stats=DiskWaits(),
        proxies=blocks.proxies_block(options),
        tls_cert_not_after=facts.certificate_expiry(tls),
    )
