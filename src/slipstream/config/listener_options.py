"""Options of the listeners beside the client port, and of TLS, which all of them share.

Values only. A listener with port 0 is off; -1 lets the kernel choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from slipstream.config.account_options import PermissionsOptions
from slipstream.config.record import EMPTY, Record
from slipstream.limits import (
    AUTH_TIMEOUT_NS,
    LEAF_DIAL_TIMEOUT_NS,
    LEAF_FIRST_INFO_TIMEOUT_NS,
    LEAF_RECONNECT_NS,
    MQTT_ACK_WAIT_NS,
    MQTT_JS_API_TIMEOUT_NS,
    MQTT_MAX_ACK_PENDING,
    ROUTE_POOL_SIZE,
    TLS_TIMEOUT_NS,
    WEBSOCKET_HANDSHAKE_TIMEOUT_NS,
)

__all__ = [
    "ClusterOptions",
    "CompressionOptions",
    "GatewayOptions",
    "HttpApiOptions",
    "LeafProxyOptions",
    "LeafRemoteOptions",
    "LeafUserOptions",
    "LeafnodeOptions",
    "MQTTOptions",
    "OCSPCacheOptions",
    "OCSPOptions",
    "OCSPPeerOptions",
    "RemoteGatewayOptions",
    "TLSCertificateOptions",
    "TLSOptions",
    "WebsocketOptions",
    "WriteTimeoutPolicy",
]

WriteTimeoutPolicy = Literal["default", "close", "retry"]


class TLSCertificateOptions(Record):
    """One pair of `tls.certs`."""

    cert_file: str
    key_file: str


class OCSPPeerOptions(Record):
    """`tls.ocsp_peer`."""

    verify: bool = False
    ca_timeout_ns: int = 2_000_000_000
    allowed_clockskew_ns: int = 30_000_000_000
    warn_only: bool = False
    unknown_is_good: bool = False
    allow_when_ca_unreachable: bool = False
    cache_ttl_when_next_update_unset_ns: int = 3_600_000_000_000


class TLSOptions(Record):
    """A `tls` block. Paths are as written, relative to the working directory of the process."""

    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    verify: bool = False  # clients must show a certificate of `ca_file`; also set by verify_and_map
    verify_and_map: bool = False
    verify_cert_and_check_known_urls: bool = False  # routes and gateways only
    insecure: bool = False  # as a client: do not check the server's certificate
    timeout_ns: int = TLS_TIMEOUT_NS
    cipher_suites: tuple[str, ...] = ()  # Go names; empty: the defaults
    curve_preferences: tuple[str, ...] = ()  # Go names; empty: the defaults
    allow_insecure_cipher_suites: bool = False
    pinned_certs: frozenset[str] = frozenset()  # lower case hex sha256 of the public key info
    connection_rate_limit: int = 0  # handshakes a second; 0: none
    handshake_first: bool = False
    handshake_first_fallback_ns: int = 0  # wait for a ClientHello this long, then send INFO in clear; 0: for ever
    min_version: Literal["1.2", "1.3"] = "1.2"
    certs: tuple[TLSCertificateOptions, ...] = ()
    cert_store: str = ""
    cert_match_by: str = ""
    cert_match: str = ""
    cert_match_skip_invalid: bool = False
    ca_certs_match: tuple[str, ...] = ()
    ocsp_peer: OCSPPeerOptions | None = None


class OCSPOptions(Record):
    """`ocsp`: stapling for the server's own certificate."""

    mode: Literal["auto", "always", "never", "must"] = "auto"
    urls: tuple[str, ...] = ()


class OCSPCacheOptions(Record):
    """`ocsp_cache`: where answers about peers are kept."""

    type: Literal["local", "none"] = "local"
    local_store: str = "_rc_"
    preserve_revoked: bool = False
    save_interval_ns: int = 300_000_000_000


class CompressionOptions(Record):
    """`compression` of routes and leaf nodes."""

    mode: str = ""
    rtt_thresholds_ns: tuple[int, ...] = ()


class WebsocketOptions(
    Record,
    secret=(
        "password",
        "token",
    ),
):
    """The `websocket` block."""

    host: str = ""
    port: int = 0
    advertise: str = ""
    no_tls: bool = False
    tls: TLSOptions | None = None
    same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    handshake_timeout_ns: int = WEBSOCKET_HANDSHAKE_TIMEOUT_NS
    compression: bool = False
    user: str = ""
    password: str = ""
    token: str = ""
    auth_timeout_ns: int = 0  # 0: that of the client port
    jwt_cookie: str = ""
    user_cookie: str = ""
    pass_cookie: str = ""
    token_cookie: str = ""
    no_auth_user: str = ""
    headers: Mapping[str, str] = EMPTY
    ping_interval_ns: int = 0  # 0: that of the client port


class HttpApiOptions(Record):
    """The `http_api` block."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: TLSOptions | None = None
    allowed_origins: tuple[str, ...] = ()


class LeafProxyOptions(Record, secret=("password",)):
    """`proxy` of a leaf remote: an HTTP proxy for WebSocket connections."""

    url: str = ""
    username: str = ""
    password: str = ""
    timeout_ns: int = 0


class LeafRemoteOptions(
    Record,
    secret=(
        "urls",
        "nkey",
    ),
):
    """One entry of `leafnodes.remotes`."""

    urls: tuple[str, ...] = ()  # may hold passwords
    account: str = ""
    credentials: str = ""
    nkey: str = ""  # a seed
    tls: TLSOptions | None = None
    hub: bool = False
    deny_imports: tuple[str, ...] = ()
    deny_exports: tuple[str, ...] = ()
    no_randomize: bool = False
    ws_compression: bool = False
    ws_no_masking: bool = False
    jetstream_cluster_migrate: bool = False
    leader_migrate_delay_ns: int = 0
    isolate: bool = False
    request_isolation: bool = False
    compression: CompressionOptions = CompressionOptions("s2_auto")
    first_info_timeout_ns: int = LEAF_FIRST_INFO_TIMEOUT_NS
    dial_timeout_ns: int = 0  # 0: that of the block
    disabled: bool = False
    proxy: LeafProxyOptions | None = None
    ignore_discovered_servers: bool = False


class LeafUserOptions(Record, secret=("password",)):
    """One user of `leafnodes.authorization`, bound to an account."""

    user: str = ""
    password: str = ""
    account: str = ""
    proxy_required: bool = False


class LeafnodeOptions(Record, secret=("password",)):
    """The `leafnodes` block."""

    host: str = ""
    port: int = 0
    user: str = ""
    password: str = ""
    nkey: str = ""
    account: str = ""
    users: tuple[LeafUserOptions, ...] = ()
    auth_timeout_ns: int = AUTH_TIMEOUT_NS
    proxy_required: bool = False
    tls: TLSOptions | None = None
    advertise: str = ""
    no_advertise: bool = False
    min_version: str = ""
    compression: CompressionOptions = CompressionOptions("s2_auto")
    isolate: bool = False
    reconnect_ns: int = LEAF_RECONNECT_NS
    dial_timeout_ns: int = LEAF_DIAL_TIMEOUT_NS
    write_deadline_ns: int = 0  # 0: that of the client port
    write_timeout: WriteTimeoutPolicy = "default"
    remotes: tuple[LeafRemoteOptions, ...] = ()


class ClusterOptions(
    Record,
    secret=(
        "password",
        "routes",
    ),
):
    """The `cluster` block, or the cluster flags."""

    name: str = ""
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = ""
    auth_timeout_ns: int = AUTH_TIMEOUT_NS
    permissions: PermissionsOptions | None = None  # publish: import, subscribe: export
    routes: tuple[str, ...] = ()  # may hold passwords
    tls: TLSOptions | None = None
    advertise: str = ""
    no_advertise: bool = False
    connect_retries: int = 0
    connect_backoff: bool = False
    pool_size: int = ROUTE_POOL_SIZE
    accounts: tuple[str, ...] = ()
    compression: CompressionOptions = CompressionOptions("accept")
    ping_interval_ns: int = 0  # 0: that of the client port, capped
    ping_max: int = 0
    write_deadline_ns: int = 0
    write_timeout: WriteTimeoutPolicy = "default"


class RemoteGatewayOptions(Record, secret=("urls",)):
    """One entry of `gateway.gateways`."""

    name: str = ""
    urls: tuple[str, ...] = ()  # may hold passwords
    tls: TLSOptions | None = None


class GatewayOptions(Record, secret=("password",)):
    """The `gateway` block."""

    name: str = ""
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = ""
    auth_timeout_ns: int = AUTH_TIMEOUT_NS
    tls: TLSOptions | None = None
    advertise: str = ""
    connect_retries: int = 0
    connect_backoff: bool = False
    gateways: tuple[RemoteGatewayOptions, ...] = ()
    reject_unknown_cluster: bool = False
    write_deadline_ns: int = 0
    write_timeout: WriteTimeoutPolicy = "default"


class MQTTOptions(
    Record,
    secret=(
        "password",
        "token",
    ),
):
    """The `mqtt` block."""

    host: str = ""
    port: int = 0
    tls: TLSOptions | None = None
    user: str = ""
    password: str = ""
    token: str = ""
    auth_timeout_ns: int = 0
    no_auth_user: str = ""
    ack_wait_ns: int = MQTT_ACK_WAIT_NS
    js_api_timeout_ns: int = MQTT_JS_API_TIMEOUT_NS
    max_ack_pending: int = MQTT_MAX_ACK_PENDING
    js_domain: str = ""
    stream_replicas: int = 0
    consumer_memory_storage: bool = False
    consumer_inactive_threshold_ns: int = 0
    reject_qos2_publish: bool = False
    downgrade_qos2_subscribe: bool = False
