"""The keys of `cluster`, `gateway`, `mqtt`, and of leaf node remotes.

These blocks are read and checked like all others, and what the server cannot do yet is then refused by `validate`.
Loaded only when a file has one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from slipstream.config.account_options import PermissionsOptions
from slipstream.config.checker import Checker, Key, KeyTable, Reader, go_type, quote, read_map, refusal
from slipstream.config.listener_keys import compression, lazy_tls, simple_authorization
from slipstream.config.listener_options import (
    ClusterOptions,
    GatewayOptions,
    LeafProxyOptions,
    LeafRemoteOptions,
    MQTTOptions,
    RemoteGatewayOptions,
)
from slipstream.config.parser import Value
from slipstream.config.readers import (
    BOOLEAN,
    DURATION,
    INTEGER,
    LISTEN,
    STRING,
    WRITE_TIMEOUT,
    checked_url,
    duration,
    integer,
    text,
    text_list,
    urls,
    without_blanks,
)
from slipstream.config.subject_rules import is_user_seed, is_valid_subject
from slipstream.config.tls_keys import peer_tls
from slipstream.config.user_keys import authorization, permissions, subject_list
from slipstream.limits import (
    LEAF_FIRST_INFO_TIMEOUT_NS,
    MQTT_ACK_WAIT_NS,
    MQTT_JS_API_TIMEOUT_NS,
    MQTT_MAX_ACK_PENDING,
    MQTT_MAX_ACK_PENDING_CEILING,
    ROUTE_PING_INTERVAL_MAX_NS,
    ROUTE_POOL_SIZE,
)

__all__ = [
    "CLUSTER",
    "GATEWAY",
    "LEAF_REMOTE",
    "MQTT",
    "PROXY",
    "REMOTE_GATEWAY",
    "cluster",
    "gateway",
    "is_websocket",
    "leaf_remotes",
    "mqtt",
    "redacted",
    "remote_name",
]

_PEER_TLS: Final = ("map", peer_tls)


def _peer_authorization(what: str) -> Reader:
    """`authorization` between servers: one user, no token."""

    def read(checker: Checker, value: Value, key: str) -> dict[str, object]:
        options = authorization(checker, value, key)
        if options.users:
            raise refusal(value, f"{what} authorization does not allow multiple users")
        if options.token:
            raise refusal(value, f"{what} authorization does not support tokens")
        if options.auth_callout is not None:
            raise refusal(value, f"{what} authorization does not support callouts")
        if options.oidc:
            raise refusal(value, f"{what} authorization does not support oidc")
        fields: dict[str, object] = {
            "user": options.user,
            "password": options.password,
            "auth_timeout_ns": options.timeout_ns,
        }
        if what == "Cluster" and options.default_permissions is not None:
            checker.warn(value, key, 'setting "permissions" within cluster authorization block is deprecated')
            fields["permissions"] = _checked_cluster_permissions(value, options.default_permissions)
        return fields

    return read


# --- cluster ---------------------------------------------------------------------------------------------------------


def cluster(checker: Checker, value: Value, _key: str) -> ClusterOptions:
    """The `cluster` block."""
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected map to define cluster, got {go_type(value)}")
    fields: dict[str, object] = {"auth_timeout_ns": 0, **read_map(checker, value, CLUSTER)}
    fields["pool_size"] = fields.get("pool_size") or ROUTE_POOL_SIZE
    return ClusterOptions(**fields)  # type: ignore[arg-type]  # the table names its fields


def _cluster_permissions(checker: Checker, value: Value, key: str) -> PermissionsOptions:
    found = permissions(checker, value, key)
    if found.allow_responses is not None:
        raise refusal(value, "Cluster permissions do not support dynamic responses")
    return _checked_cluster_permissions(value, found)


def _checked_cluster_permissions(value: Value, found: PermissionsOptions) -> PermissionsOptions:
    for what, permission in (("import", found.publish), ("export", found.subscribe)):
        if permission is None:
            continue
        for verb, subjects in (("allow", permission.allow or ()), ("deny", permission.deny)):
            for subject in subjects:
                if not is_valid_subject(subject):
                    message = f"cluster {what} {verb}: subject {quote(subject)} is not a valid subject"
                    raise refusal(value, message)
    return found


def _route_ping_interval(checker: Checker, value: Value, key: str) -> int:
    interval_ns = duration()(checker, value, key)
    assert isinstance(interval_ns, int)
    if interval_ns > ROUTE_PING_INTERVAL_MAX_NS:
        message = "Cluster 'ping_interval' will reset to 30s which is the max for routes"
        checker.warnings.append(refusal(value, message))
    return interval_ns


CLUSTER: Final = KeyTable(
    Key(
        "name",
        ("string", without_blanks("cluster")),
        "Name of the cluster, the same on all its servers.",
        reloadable=True,
    ),
    Key("listen", LISTEN, "Address and port for routes.", field=""),
    Key("host net", STRING, "Address."),
    Key("port", INTEGER, "Port; -1 lets the system choose."),
    Key("authorization", ("map", _peer_authorization("Cluster")), "User of routes.", field="", reloadable=True),
    Key("routes", ("list of URLs", urls("route")), "Servers to connect to.", reloadable=True),
    Key("tls", _PEER_TLS, "TLS of routes.", reloadable=True),
    Key("advertise cluster_advertise", STRING, "`host:port` that other servers are told.", reloadable=True),
    Key("no_advertise", BOOLEAN, "Do not tell clients about other servers.", reloadable=True),
    Key("connect_retries", INTEGER, "Attempts to reach a server found by gossip.", reloadable=True),
    Key("connect_backoff", BOOLEAN, "Wait longer after each attempt.", reloadable=True),
    Key(
        "permissions", ("map", _cluster_permissions), "Subjects imported from and exported to routes.", reloadable=True
    ),
    Key("pool_size", INTEGER, "Connections to each server; -1 for one without pooling.", reloadable=True),
    Key(
        "accounts",
        ("list of accounts", text_list("accounts")),
        "Accounts with a connection of their own.",
        reloadable=True,
    ),
    Key("compression", ("mode, boolean or map", compression("s2_fast")), "Compression of routes.", reloadable=True),
    Key(
        "ping_interval",
        ("duration", _route_ping_interval),
        "Time between pings.",
        field="ping_interval_ns",
        reloadable=True,
    ),
    Key("ping_max", INTEGER, "Unanswered pings before a route is closed.", reloadable=True),
    Key("write_deadline", DURATION, "Time for a write.", field="write_deadline_ns", reloadable=True),
    Key("write_timeout", WRITE_TIMEOUT, "What happens when a write takes too long.", reloadable=True),
)


# --- gateway ---------------------------------------------------------------------------------------------------------


def gateway(checker: Checker, value: Value, _key: str) -> GatewayOptions:
    """The `gateway` block."""
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected gateway to be a map, got {go_type(value)}")
    fields: dict[str, object] = {"auth_timeout_ns": 0, **read_map(checker, value, GATEWAY)}
    return GatewayOptions(**fields)  # type: ignore[arg-type]  # the table names its fields


def _gateway_url(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    return (checked_url(value, text(checker, value, key), "gateway"),)


REMOTE_GATEWAY: Final = KeyTable(
    Key("name", STRING, "Name of the remote cluster."),
    Key("url", ("URL", _gateway_url), "Where it is reached.", field="urls"),
    Key("urls", ("list of URLs", urls("gateway")), "Where it is reached."),
    Key("tls", _PEER_TLS, "TLS to it, if not that of the block."),
)


def _gateways(checker: Checker, value: Value, _key: str) -> tuple[RemoteGatewayOptions, ...]:
    if not isinstance(value.data, list):
        raise refusal(value, f"Expected gateways field to be an array, got {go_type(value)}")
    found = []
    for entry in value.data:
        if isinstance(entry.data, dict):
            found.append(RemoteGatewayOptions(**read_map(checker, entry, REMOTE_GATEWAY)))  # type: ignore[arg-type]
        else:
            checker.error(refusal(entry, f"Expected gateway entry to be a map/struct, got {entry.plain()}"))
    return tuple(found)


GATEWAY: Final = KeyTable(
    Key("name", ("string", without_blanks("gateway")), "Name of this cluster in the super cluster."),
    Key("listen", LISTEN, "Address and port.", field=""),
    Key("host net", STRING, "Address."),
    Key("port", INTEGER, "Port; -1 lets the system choose."),
    Key("authorization", ("map", _peer_authorization("Gateway")), "User of gateways.", field=""),
    Key("tls", _PEER_TLS, "TLS of gateways."),
    Key("advertise", STRING, "`host:port` that other clusters are told."),
    Key("connect_retries", INTEGER, "Attempts to reach a gateway found by gossip."),
    Key("connect_backoff", BOOLEAN, "Wait longer after each attempt."),
    Key("gateways", ("list of gateways", _gateways), "Clusters to connect to."),
    Key("reject_unknown_cluster reject_unknown", BOOLEAN, "Refuse clusters that are not in `gateways`."),
    Key("write_deadline", DURATION, "Time for a write.", field="write_deadline_ns"),
    Key("write_timeout", WRITE_TIMEOUT, "What happens when a write takes too long."),
)


# --- leaf node remotes -----------------------------------------------------------------------------------------------


def leaf_remotes(checker: Checker, value: Value, _key: str) -> tuple[LeafRemoteOptions, ...]:
    """`leafnodes.remotes`."""
    if not isinstance(value.data, list):
        raise refusal(value, f"Expected remotes field to be an array, got {go_type(value)}")
    found: list[LeafRemoteOptions] = []
    for entry in value.data:
        if not isinstance(entry.data, dict):
            checker.error(refusal(entry, f"Expected remote leafnode entry to be a map/struct, got {entry.plain()}"))
            continue
        before = len(checker.errors)
        remote = LeafRemoteOptions(**read_map(checker, entry, LEAF_REMOTE))  # type: ignore[arg-type]
        if len(checker.errors) > before:
            continue
        at = list(entry.data.values())[-1] if entry.data else entry
        problem = _remote_problem(remote)
        if problem is None and any(remote_name(other) == remote_name(remote) for other in found):
            shown = " ".join(quote(redacted(url)) for url in remote.urls)
            problem = f"duplicate remote urls=[{shown}], account={quote(remote.account or '$G')}"
        if problem is not None:
            checker.error(refusal(at, problem))
            continue
        checker.warnings += [refusal(at, text) for text in _remote_warnings(remote)]
        found.append(remote)
    return tuple(found)


def redacted(url: str) -> str:
    """The URL with its password hidden."""
    head, at, tail = url.rpartition("@")
    user, colon, _ = head.rpartition(":")
    return f"{user}:xxxxx@{tail}" if at and colon and not user.endswith(("nats", "tls", "ws", "wss")) else url


def is_websocket(url: str) -> bool:
    """Whether a remote is reached over WebSocket."""
    return url.startswith(("ws://", "wss://"))


def remote_name(remote: LeafRemoteOptions) -> tuple[object, ...]:
    """What tells the remotes of a configuration from each other."""
    return remote.urls, remote.account or "$G", remote.credentials, remote.nkey


def _remote_problem(remote: LeafRemoteOptions) -> str | None:
    if remote.credentials and remote.nkey:
        return "Remote leafnode can not have both creds and nkey defined"
    proxy = remote.proxy
    if proxy is None or not proxy.url:
        return None
    parts = urlsplit(proxy.url)
    if parts.scheme not in ("http", "https"):
        return f"proxy URL scheme must be http or https, got: {parts.scheme}"
    if not parts.netloc:
        return "proxy URL must specify a host"
    if proxy.timeout_ns < 0:
        return "proxy timeout must be >= 0"
    if bool(proxy.username) != bool(proxy.password):
        return "proxy username and password must both be specified or both be empty"
    for url in remote.urls:
        if url.startswith("wss://") and remote.tls is None:
            return (
                f"proxy is configured but remote URL {redacted(url)} requires TLS and no TLS configuration is "
                "provided. "
                "When using proxy with TLS endpoints, ensure TLS is properly configured for the leafnode remote"
            )
    return None


def _remote_warnings(remote: LeafRemoteOptions) -> Iterator[str]:
    """What of a remote does nothing, or less than it may seem."""
    over_websocket = any(map(is_websocket, remote.urls))
    proxy = remote.proxy
    if proxy is not None and proxy.url:
        if not over_websocket:
            yield (
                "proxy configuration will be ignored: proxy settings only apply to WebSocket connections (ws:// or "
                "wss://), but all configured URLs use TCP connections (nats://)"
            )
        if proxy.url.startswith("https:"):
            yield "the connection to the proxy itself is not encrypted, as with http"
    elif proxy is not None:
        yield "proxy without a url: remotes are reached directly"
    if (remote.ws_compression or remote.ws_no_masking) and not over_websocket:
        yield "ws_compression and ws_no_masking only apply to WebSocket URLs (ws:// or wss://)"


def _remote_urls(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    if isinstance(value.data, list):
        found = urls("leafnode")(checker, value, key)
        assert isinstance(found, tuple)
        return found
    if isinstance(value.data, str):
        return (checked_url(value, value.data, "leafnode"),)
    raise refusal(value, f"Expected remote leafnode url to be an array or string, got {value.plain()}")


def _seed(checker: Checker, value: Value, key: str) -> str:
    seed = text(checker, value, key)
    if not is_user_seed(seed):
        # The text is not repeated: it may be a real secret with one wrong character.
        raise refusal(value, "Remote leafnode nkey is not a valid seed")
    return seed


def _migrate(checker: Checker, value: Value, _key: str) -> dict[str, object]:
    if isinstance(value.data, bool):
        return {"jetstream_cluster_migrate": value.data}
    if not isinstance(value.data, dict):
        message = f"Expected boolean or map for jetstream_cluster_migrate, got {go_type(value)}"
        raise refusal(value, message)
    delay = value.data.get("leader_migrate_delay")
    delay_ns = duration()(checker, delay, "leader_migrate_delay") if delay is not None else 0
    return {"jetstream_cluster_migrate": True, "leader_migrate_delay_ns": delay_ns}


PROXY: Final = KeyTable(
    Key("url", STRING, "URL of the proxy."),
    Key("username", STRING, "User of the proxy."),
    Key("password", STRING, "Password of the proxy."),
    Key("timeout", ("duration", duration("proxy timeout")), "Time for a connection.", field="timeout_ns"),
)


def _proxy(checker: Checker, value: Value, _key: str) -> LeafProxyOptions:
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected proxy to be a map, got {go_type(value)}")
    return LeafProxyOptions(**read_map(checker, value, PROXY))  # type: ignore[arg-type]  # the table names its fields


def _first_info_timeout(checker: Checker, value: Value, key: str) -> object:
    return duration()(checker, value, key) or LEAF_FIRST_INFO_TIMEOUT_NS


_DENIED: Final = ("list of subjects", subject_list(queue_allowed=False))

LEAF_REMOTE: Final = KeyTable(
    Key("urls url", ("list of URLs", _remote_urls), "Where the remote is reached."),
    Key("account local", STRING, "Local account that is connected; `$G` if missing."),
    Key("credentials creds", STRING, "File with the credentials."),
    Key("nkey seed", ("user seed", _seed), "Seed to authenticate with."),
    Key("tls", ("map", lazy_tls), "TLS to the remote.", reloadable=True),
    Key("hub", BOOLEAN, "This side is the hub."),
    Key("deny_imports deny_import", _DENIED, "Subjects not received from the remote."),
    Key("deny_exports deny_export", _DENIED, "Subjects not sent to the remote."),
    Key("no_randomize dont_randomize", BOOLEAN, "Try the URLs in order."),
    Key(
        "ws_compression ws_compress websocket_compress websocket_compression",
        BOOLEAN,
        "Compress WebSocket frames.",
    ),
    Key("ws_no_masking websocket_no_masking", BOOLEAN, "Do not mask WebSocket frames."),
    Key(
        "jetstream_cluster_migrate js_cluster_migrate",
        ("boolean or map", _migrate),
        "Move stream leaders away when the connection is lost.",
        field="",
    ),
    Key("isolate isolate_leafnode_interest", BOOLEAN, "Do not send subscriptions of other leaf nodes."),
    Key("request_isolation", BOOLEAN, "Ask the remote for the same."),
    Key("compression", ("mode, boolean or map", compression("s2_auto")), "Compression of the connection."),
    Key("first_info_timeout", ("duration", _first_info_timeout), "Wait for INFO.", field="first_info_timeout_ns"),
    Key("dial_timeout", DURATION, "Time for a connection.", field="dial_timeout_ns"),
    Key("disabled", BOOLEAN, "Do not connect.", reloadable=True),
    Key("proxy", ("map", _proxy), "HTTP proxy for WebSocket URLs."),
    Key("ignore_discovered_servers", BOOLEAN, "Only use the URLs above."),
)


# --- MQTT ------------------------------------------------------------------------------------------------------------


def mqtt(checker: Checker, value: Value, _key: str) -> MQTTOptions:
    """The `mqtt` block."""
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected mqtt to be a map, got {go_type(value)}")
    fields = read_map(checker, value, MQTT)
    for field, default in (("ack_wait_ns", MQTT_ACK_WAIT_NS), ("js_api_timeout_ns", MQTT_JS_API_TIMEOUT_NS)):
        fields[field] = fields.get(field) or default
    return MQTTOptions(**fields)  # type: ignore[arg-type]  # the table names its fields


def _max_ack_pending(checker: Checker, value: Value, key: str) -> int:
    number = integer(checker, value, key)
    if not 0 <= number <= MQTT_MAX_ACK_PENDING_CEILING:
        raise refusal(value, f"invalid value {number}, should in [0..{MQTT_MAX_ACK_PENDING_CEILING}] range")
    return number or MQTT_MAX_ACK_PENDING


def _ignored_replicas(checker: Checker, value: Value, key: str) -> dict[str, object]:
    checker.warn(value, key, "consumer replicas setting ignored in this server version")
    return {}


MQTT: Final = KeyTable(
    Key("listen", LISTEN, "Address and port.", field=""),
    Key("host net", STRING, "Address."),
    Key("port", INTEGER, "Port; -1 lets the system choose."),
    Key("tls", ("map", lazy_tls), "TLS of this listener."),
    Key("authorization authentication", ("map", simple_authorization), "User or token of this listener.", field=""),
    Key("no_auth_user", STRING, "User of clients without credentials on this listener."),
    Key(
        "ack_wait ackwait",
        ("duration", duration("ack_wait")),
        "Time before a message is sent again.",
        field="ack_wait_ns",
    ),
    Key(
        "js_api_timeout api_timeout",
        ("duration", duration("js_api_timeout")),
        "Time for a JetStream request.",
        field="js_api_timeout_ns",
    ),
    Key("max_ack_pending max_pending max_inflight", ("integer", _max_ack_pending), "Messages in flight to a client."),
    Key("js_domain", STRING, "JetStream domain to use."),
    Key("stream_replicas", INTEGER, "Replicas of the streams."),
    Key("consumer_replicas", ("integer", _ignored_replicas), "Ignored, with a warning.", field=""),
    Key("consumer_memory_storage", BOOLEAN, "Keep the state of consumers in memory."),
    Key(
        "consumer_inactive_threshold consumer_auto_cleanup",
        ("duration", duration("consumer_inactive_threshold")),
        "Remove consumers that are not used for this time.",
        field="consumer_inactive_threshold_ns",
    ),
    Key("reject_qos2_publish", BOOLEAN, "Refuse messages with QoS 2."),
    Key("downgrade_qos2_subscribe", BOOLEAN, "Answer subscriptions with QoS 2 as QoS 1."),
)
