"""The keys of `cluster` and `gateway`. Loaded only when a file has one of them."""

from __future__ import annotations

from typing import Final

from slipstream.config.account_options import PermissionsOptions
from slipstream.config.checker import Checker, Key, KeyTable, Reader, go_type, quote, read_block, read_map, refusal
from slipstream.config.keys.listener import compression
from slipstream.config.keys.tls import peer_tls
from slipstream.config.keys.user import authorization, permissions
from slipstream.config.listener_options import ClusterOptions, GatewayOptions, RemoteGatewayOptions
from slipstream.config.parser import Value
from slipstream.config.readers import (
    ADDRESS_KEYS,
    BOOLEAN,
    DURATION,
    INTEGER,
    STRING,
    WRITE_TIMEOUT,
    checked_url,
    duration,
    text,
    text_list,
    urls,
    without_blanks,
)
from slipstream.config.subject_rules import is_valid_subject
from slipstream.limits import ROUTE_PING_INTERVAL_MAX_NS, ROUTE_POOL_SIZE

__all__ = ["CLUSTER", "GATEWAY", "REMOTE_GATEWAY", "cluster", "gateway"]

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
    *ADDRESS_KEYS,
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
    fields: dict[str, object] = {"auth_timeout_ns": 0, **read_block(checker, value, GATEWAY, "gateway")}
    return GatewayOptions(**fields)  # type: ignore[arg-type]  # the table names its fields


def _gateway_url(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    return (checked_url(value, text(checker, value, key), "gateway"),)


REMOTE_GATEWAY: Final = KeyTable(
    Key("name", STRING, "Name of the remote cluster."),
    Key("url", ("URL", _gateway_url), "Where it is reached.", field="urls"),
    Key("urls", ("list of URLs", urls("gateway")), "Where it is reached."),
    Key("tls", _PEER_TLS, "TLS to it, if not that of the block.", reloadable=True),
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
    *ADDRESS_KEYS,
    Key("authorization", ("map", _peer_authorization("Gateway")), "User of gateways.", field=""),
    Key("tls", _PEER_TLS, "TLS of gateways.", reloadable=True),
    Key("advertise", STRING, "`host:port` that other clusters are told."),
    Key("connect_retries", INTEGER, "Attempts to reach a gateway found by gossip."),
    Key("connect_backoff", BOOLEAN, "Wait longer after each attempt."),
    Key("gateways", ("list of gateways", _gateways), "Clusters to connect to."),
    Key("reject_unknown_cluster reject_unknown", BOOLEAN, "Refuse clusters that are not in `gateways`."),
    Key("write_deadline", DURATION, "Time for a write.", field="write_deadline_ns"),
    Key("write_timeout", WRITE_TIMEOUT, "What happens when a write takes too long."),
)
