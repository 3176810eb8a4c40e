"""The blocks of /varz: cluster, gateway, leaf nodes, MQTT, WebSocket, proxies. A block that is off is empty.

What it is not: run-time state. These are options, with the ports that listeners really got. Nothing secret is shown:
URLs lose their user part.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from slipstream.config.listener_options import LeafRemoteOptions, WriteTimeoutPolicy
from slipstream.config.options import GLOBAL_ACCOUNT, Options
from slipstream.limits import WEBSOCKET_HANDSHAKE_TIMEOUT_NS
from slipstream.monitoring.facts import Facts
from slipstream.monitoring.gotext import seconds

__all__ = [
    "ClusterVarz",
    "GatewayVarz",
    "LeafVarz",
    "MqttVarz",
    "ProxiesVarz",
    "WebsocketVarz",
    "cluster_block",
    "gateway_block",
    "leaf_block",
    "mqtt_block",
    "proxies_block",
    "websocket_block",
    "write_timeout",
]


class ClusterVarz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The `cluster` block."""

    name: str = ""
    addr: str = ""
    cluster_port: int = 0
    auth_timeout: float = 0
    urls: list[str] = []
    tls_timeout: float = 0
    tls_required: bool = False
    tls_verify: bool = False
    pool_size: int = 0
    write_deadline: int = 0
    write_timeout: str = ""
    tls_cert_not_after: str = ""


class RemoteGatewayVarz(msgspec.Struct, omit_defaults=True):
    """A configured gateway to another cluster."""

    name: str
    tls_timeout: float = 0
    urls: list[str] = []


class GatewayVarz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The `gateway` block."""

    name: str = ""
    host: str = ""
    port: int = 0
    auth_timeout: float = 0
    tls_timeout: float = 0
    tls_required: bool = False
    tls_verify: bool = False
    advertise: str = ""
    connect_retries: int = 0
    gateways: list[RemoteGatewayVarz] = []
    reject_unknown: bool = False
    write_deadline: int = 0
    write_timeout: str = ""
    tls_cert_not_after: str = ""


class DenyVarz(msgspec.Struct, omit_defaults=True):
    """What a leaf remote may not carry."""

    exports: Sequence[str] = ()
    imports: Sequence[str] = ()


class RemoteLeafVarz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A configured leaf remote."""

    local_account: str = ""
    tls_timeout: float = 0
    urls: list[str] = []
    deny: DenyVarz | None = None


class LeafVarz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The `leafnodes` block."""

    host: str = ""
    port: int = 0
    auth_timeout: float = 0
    tls_timeout: float = 0
    tls_required: bool = False
    tls_verify: bool = False
    remotes: list[RemoteLeafVarz] = []
    write_deadline: int = 0
    write_timeout: str = ""
    tls_cert_not_after: str = ""


class MqttVarz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The `mqtt` block."""

    host: str = ""
    port: int = 0
    no_auth_user: str = ""
    auth_timeout: float = 0
    tls_map: bool = False
    tls_timeout: float = 0
    tls_pinned_certs: list[str] = []
    js_domain: str = ""
    ack_wait: int = 0
    max_ack_pending: int = 0
    tls_cert_not_after: str = ""


class WebsocketVarz(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The `websocket` block."""

    host: str = ""
    port: int = 0
    advertise: str = ""
    no_auth_user: str = ""
    jwt_cookie: str = ""
    handshake_timeout: int = 0
    auth_timeout: float = 0
    no_tls: bool = False
    tls_map: bool = False
    tls_pinned_certs: list[str] = []
    same_origin: bool = False
    allowed_origins: Sequence[str] = ()
    compression: bool = False
    tls_cert_not_after: str = ""


class ProxyVarz(msgspec.Struct):
    """A trusted proxy."""

    key: str


class ProxiesVarz(msgspec.Struct, omit_defaults=True):
    """The `proxies` block."""

    trusted: list[ProxyVarz] = []


def cluster_block(facts: Facts) -> ClusterVarz:
    """The `cluster` options."""
    cluster = facts.options.cluster
    if not cluster.port:
        return ClusterVarz(name=cluster.name, urls=_hosts(cluster.routes))
    return ClusterVarz(
        name=facts.hub.cluster_name,
        addr=cluster.host,
        cluster_port=facts.ports.get("cluster", cluster.port),
        auth_timeout=seconds(cluster.auth_timeout_ns),
        urls=_hosts(cluster.routes),
        tls_timeout=2 if cluster.tls is None else seconds(cluster.tls.timeout_ns),
        tls_required=cluster.tls is not None,
        tls_verify=cluster.tls is not None,
        pool_size=cluster.pool_size,
        write_deadline=cluster.write_deadline_ns,
        write_timeout=write_timeout(cluster.write_timeout),
        tls_cert_not_after=facts.certificate_expiry(cluster.tls),
    )


def gateway_block(facts: Facts) -> GatewayVarz:
    """The `gateway` options."""
    gateway = facts.options.gateway
    if not gateway.name:
        return GatewayVarz()
    return GatewayVarz(
        name=gateway.name,
        host=gateway.host,
        port=facts.ports.get("gateway", gateway.port),
        auth_timeout=seconds(gateway.auth_timeout_ns),
        tls_timeout=2 if gateway.tls is None else seconds(gateway.tls.timeout_ns),
        tls_required=gateway.tls is not None,
        tls_verify=gateway.tls is not None,
        advertise=gateway.advertise,
        connect_retries=gateway.connect_retries,
        gateways=[
            RemoteGatewayVarz(
                remote.name,
                0 if remote.tls is None else seconds(remote.tls.timeout_ns),
                facts.gateway_urls(remote.name) or _hosts(remote.urls),
            )
            for remote in gateway.gateways
        ],
        reject_unknown=gateway.reject_unknown_cluster,
        write_deadline=gateway.write_deadline_ns,
        write_timeout=write_timeout(gateway.write_timeout),
        tls_cert_not_after=facts.certificate_expiry(gateway.tls),
    )


def leaf_block(facts: Facts) -> LeafVarz:
    """The `leafnodes` options."""
    leafnodes = facts.options.leafnodes
    remotes = [_leaf_remote(remote) for remote in leafnodes.remotes]
    if not leafnodes.port:
        return LeafVarz(remotes=remotes)
    tls = leafnodes.tls
    return LeafVarz(
        host=leafnodes.host,
        port=facts.ports.get("leafnodes", leafnodes.port),
        auth_timeout=seconds(leafnodes.auth_timeout_ns),
        tls_timeout=2 if tls is None else seconds(tls.timeout_ns),
        tls_required=tls is not None,
        tls_verify=tls is not None and tls.verify,
        remotes=remotes,
        write_deadline=leafnodes.write_deadline_ns,
        write_timeout=write_timeout(leafnodes.write_timeout),
        tls_cert_not_after=facts.certificate_expiry(tls),
    )


def _leaf_remote(remote: LeafRemoteOptions) -> RemoteLeafVarz:
    deny = DenyVarz(remote.deny_exports, remote.deny_imports)
    return RemoteLeafVarz(
        local_account=remote.account or GLOBAL_ACCOUNT,
        tls_timeout=0 if remote.tls is None else seconds(remote.tls.timeout_ns),
        urls=_hosts(remote.urls),
        deny=deny if deny != DenyVarz() else None,
    )


def mqtt_block(facts: Facts) -> MqttVarz:
    """The `mqtt` options."""
    mqtt = facts.options.mqtt
    if not mqtt.port:
        return MqttVarz()
    return MqttVarz(
        host=mqtt.host,
        port=mqtt.port,
        no_auth_user=mqtt.no_auth_user,
        auth_timeout=seconds(mqtt.auth_timeout_ns),
        tls_map=mqtt.tls is not None and mqtt.tls.verify_and_map,
        tls_timeout=0 if mqtt.tls is None else seconds(mqtt.tls.timeout_ns),
        tls_pinned_certs=[] if mqtt.tls is None else sorted(mqtt.tls.pinned_certs),
        js_domain=mqtt.js_domain,
        ack_wait=mqtt.ack_wait_ns,
        max_ack_pending=mqtt.max_ack_pending,
        tls_cert_not_after=facts.certificate_expiry(mqtt.tls),
    )


def websocket_block(facts: Facts) -> WebsocketVarz:
    """The `websocket` options."""
    websocket = facts.options.websocket
    if not websocket.port:
        return WebsocketVarz()
    tls, handshake_ns = websocket.tls, websocket.handshake_timeout_ns
    return WebsocketVarz(
        host=websocket.host,
        port=facts.ports.get("websocket", websocket.port),
        advertise=websocket.advertise,
        no_auth_user=websocket.no_auth_user,
        jwt_cookie=websocket.jwt_cookie,
        handshake_timeout=0 if handshake_ns == WEBSOCKET_HANDSHAKE_TIMEOUT_NS else handshake_ns,
        auth_timeout=seconds(websocket.auth_timeout_ns),
        no_tls=websocket.no_tls,
        tls_map=tls is not None and tls.verify_and_map,
        tls_pinned_certs=[] if tls is None else sorted(tls.pinned_certs),
        same_origin=websocket.same_origin,
        allowed_origins=websocket.allowed_origins,
        compression=websocket.compression,
        tls_cert_not_after=facts.certificate_expiry(tls),
    )


def proxies_block(options: Options) -> ProxiesVarz | None:
    """The trusted proxies, if there are any."""
    return ProxiesVarz([ProxyVarz(key) for key in options.trusted_proxies]) if options.trusted_proxies else None


def write_timeout(policy: WriteTimeoutPolicy) -> str:
    """A write timeout policy; the default one is not shown."""
    return "" if policy == "default" else policy


def _hosts(urls: Sequence[str]) -> list[str]:
    """Host and port of URLs: everything between the user part and the path."""
    return [url.partition("://")[2].partition("/")[0].rpartition("@")[2] or url.rpartition("@")[2] for url in urls]
