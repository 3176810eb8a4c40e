"""The keys of the `websocket`, `http_api` and `leafnodes` blocks."""

from __future__ import annotations

import re
from typing import Final

from slipstream.config.checker import (
    Checker,
    Key,
    KeyTable,
    Reader,
    go_type,
    quote,
    read_block,
    read_map,
    refusal,
    wrong_type,
)
from slipstream.config.keys.user import auth_timeout
from slipstream.config.listener_options import (
    CompressionOptions,
    HttpApiOptions,
    LeafnodeOptions,
    LeafUserOptions,
    WebsocketOptions,
)
from slipstream.config.parser import Value
from slipstream.config.readers import (
    ADDRESS_KEYS,
    BOOLEAN,
    DURATION,
    STRING,
    WRITE_TIMEOUT,
    duration_or,
    duration_text,
    text,
    text_list,
)
from slipstream.config.subject_rules import USER_KEY, is_public_key
from slipstream.limits import LEAF_DIAL_TIMEOUT_NS, LEAF_RECONNECT_NS, WEBSOCKET_HANDSHAKE_TIMEOUT_NS
from slipstream.units import SECOND_NS

__all__ = [
    "COMPRESSION",
    "HTTP_API",
    "LEAFNODES",
    "LEAF_AUTHORIZATION",
    "LEAF_USER",
    "SIMPLE_AUTHORIZATION",
    "WEBSOCKET",
    "compression",
    "http_api",
    "lazy_tls",
    "leafnodes",
    "simple_authorization",
    "websocket",
]


def lazy_tls(checker: Checker, value: Value, key: str) -> object:
    """A `tls` block of a listener for clients; its table is loaded only when a file has one."""
    from slipstream.config.keys.tls import client_tls

    return client_tls(checker, value, key)


# --- websocket -------------------------------------------------------------------------------------------------------


def websocket(checker: Checker, value: Value, _key: str) -> WebsocketOptions:
    """The `websocket` block."""
    fields = read_block(checker, value, WEBSOCKET, "websocket")
    return WebsocketOptions(**fields)  # type: ignore[arg-type]  # the table names its fields


def _simple_timeout(_checker: Checker, value: Value, _key: str) -> int:
    # Anything that is not a number counts as one second in nats-server.
    if isinstance(value.data, (int, float)) and not isinstance(value.data, bool):
        return round(value.data * SECOND_NS)
    return SECOND_NS


SIMPLE_AUTHORIZATION: Final = KeyTable(
    Key("user username", STRING, "The one user of this listener."),
    Key("password pass", STRING, "Its password."),
    Key("token", STRING, "A token instead of a user."),
    Key("timeout", ("seconds", _simple_timeout), "Time a client has to authenticate.", field="auth_timeout_ns"),
)


def simple_authorization(checker: Checker, value: Value, _key: str) -> dict[str, object]:
    """`authorization` of a listener that knows one user or one token."""
    if not isinstance(value.data, dict):
        raise wrong_type(value, "map[string]interface {}")
    return read_map(checker, value, SIMPLE_AUTHORIZATION)


def _handshake_timeout(_checker: Checker, value: Value, key: str) -> int:
    if isinstance(value.data, str):
        return duration_text(_checker, value, key) or WEBSOCKET_HANDSHAKE_TIMEOUT_NS
    if isinstance(value.data, int) and not isinstance(value.data, bool):
        return value.data * SECOND_NS or WEBSOCKET_HANDSHAKE_TIMEOUT_NS
    raise refusal(value, f"error parsing handshake timeout: unsupported type {go_type(value)}")


def _headers(checker: Checker, value: Value, _key: str) -> dict[str, str]:
    if not isinstance(value.data, dict):
        raise refusal(value, f"error parsing headers: unsupported type {go_type(value)}")
    headers = {}
    for name, entry in value.data.items():
        if isinstance(entry.data, str):
            headers[name] = entry.data
        else:
            message = f"error parsing header key {name}: unsupported type {go_type(entry)}"
            checker.error(refusal(entry, message))
    return headers


WEBSOCKET: Final = KeyTable(
    *ADDRESS_KEYS,
    Key("advertise", STRING, "`host:port` that clients are told."),
    Key("no_tls", BOOLEAN, "Accept connections without TLS."),
    Key("tls", ("map", lazy_tls), "TLS of this listener.", reloadable=True),
    Key("same_origin", BOOLEAN, "The origin of a request must be the host it is sent to."),
    Key(
        "allowed_origins allowed_origin allow_origins allow_origin origins origin",
        ("list of URLs", text_list("allowed origins")),
        "Origins that are accepted; all if missing.",
    ),
    Key(
        "handshake_timeout",
        ("duration", _handshake_timeout),
        "Time for TLS and the upgrade request.",
        field="handshake_timeout_ns",
    ),
    Key("compression compress", BOOLEAN, "Offer compression to clients."),
    Key(
        "authorization authentication",
        ("map", simple_authorization),
        "User or token of this listener, instead of the server's.",
        field="",
    ),
    Key("jwt_cookie", STRING, "Cookie with the JWT of the user."),
    Key("user_cookie", STRING, "Cookie with the user name."),
    Key("pass_cookie", STRING, "Cookie with the password."),
    Key("token_cookie", STRING, "Cookie with the token."),
    Key("no_auth_user", STRING, "User of clients without credentials on this listener."),
    Key("headers", ("map of strings", _headers), "Headers added to the upgrade response."),
    Key("ping_interval", DURATION, "Time between pings on this listener.", field="ping_interval_ns"),
)


# --- HTTP API --------------------------------------------------------------------------------------------------------


def http_api(checker: Checker, value: Value, _key: str) -> HttpApiOptions:
    """The `http_api` block."""
    fields = read_block(checker, value, HTTP_API, "http_api")
    return HttpApiOptions(**fields)  # type: ignore[arg-type]  # the table names its fields


HTTP_API: Final = KeyTable(
    *ADDRESS_KEYS,
    Key("tls", ("map", lazy_tls), "TLS of this listener."),
    Key(
        "allowed_origins allowed_origin",
        ("list of URLs", text_list("allowed origins")),
        "Web pages that may use it; none if missing.",
    ),
)


# --- leaf nodes ------------------------------------------------------------------------------------------------------


def leafnodes(checker: Checker, value: Value, _key: str) -> LeafnodeOptions:
    """The `leafnodes` block."""
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected map to define a leafnode, got {go_type(value)}")
    # A missing timeout is left as 0 for `load` to fill in.
    fields: dict[str, object] = {"auth_timeout_ns": 0, **read_map(checker, value, LEAFNODES)}
    return LeafnodeOptions(**fields)  # type: ignore[arg-type]  # the table names its fields


def _leaf_nkey(checker: Checker, value: Value, key: str) -> str:
    nkey = text(checker, value, key)
    if not is_public_key(nkey, USER_KEY):
        raise refusal(value, "Not a valid public nkey for leafnode authorization")
    return nkey


LEAF_USER: Final = KeyTable(
    Key("user username", STRING, "Name of the user."),
    Key("password pass", STRING, "Its password."),
    Key("account", STRING, "Account it is bound to."),
    Key("proxy_required", BOOLEAN, "Only connections that a trusted proxy vouches for."),
)


def _leaf_users(checker: Checker, value: Value, _key: str) -> tuple[LeafUserOptions, ...]:
    if not isinstance(value.data, list):
        raise refusal(value, f"Expected users field to be an array, got {value.plain()}")
    users = []
    for entry in value.data:
        if isinstance(entry.data, dict):
            users.append(LeafUserOptions(**read_map(checker, entry, LEAF_USER)))  # type: ignore[arg-type]
        else:
            checker.error(refusal(entry, f"Expected user entry to be a map/struct, got {entry.plain()}"))
    return tuple(users)


LEAF_AUTHORIZATION: Final = KeyTable(
    Key("user username", STRING, "The one user of this listener."),
    Key("password pass", STRING, "Its password."),
    Key("nkey", ("user key", _leaf_nkey), "Public key instead of a user."),
    Key("account", STRING, "Account it is bound to."),
    Key(
        "timeout",
        ("duration", auth_timeout("leafnode authorization")),
        "Time to authenticate.",
        field="auth_timeout_ns",
    ),
    Key("users", ("list of users", _leaf_users), "Several users, each bound to an account."),
    Key("proxy_required", BOOLEAN, "Only connections that a trusted proxy vouches for."),
)


def _leaf_authorization(checker: Checker, value: Value, _key: str) -> dict[str, object]:
    if not isinstance(value.data, dict):
        raise wrong_type(value, "map[string]interface {}")
    fields = read_map(checker, value, LEAF_AUTHORIZATION)
    users = fields.get("users") or ()
    assert isinstance(users, tuple)
    if users and fields.get("user"):
        raise refusal(value, "can not have a single user/pass and a users array")
    if users and fields.get("nkey"):
        raise refusal(value, "can not have a single nkey and a users array")
    names = set()
    for user in users:
        if user.user in names:
            raise refusal(value, f"duplicate user {quote(user.user)} detected in leafnode authorization")
        names.add(user.user)
    return fields


_version = re.compile(r"v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?").fullmatch


def _min_version(checker: Checker, value: Value, key: str) -> str:
    version = text(checker, value, key)
    match = _version(version)
    if match is None:
        raise refusal(value, "invalid leafnode's minimum version: invalid semver")
    if tuple(map(int, match.groups())) < (2, 8, 0):
        raise refusal(value, "the minimum version should be at least 2.8.0")
    return version


def _thresholds(checker: Checker, value: Value, key: str) -> tuple[int, ...]:
    if not isinstance(value.data, list):
        raise wrong_type(value, "[]interface {}")
    return tuple(duration_text(checker, entry, key) for entry in value.data)


COMPRESSION: Final = KeyTable(
    Key("mode", STRING, "`off`, `accept`, `s2_fast`, `s2_better`, `s2_best` or `s2_auto`."),
    Key(
        "rtt_thresholds thresholds rtts rtt",
        ("list of durations", _thresholds),
        "`s2_auto`: round trip times from which the next stronger level is used.",
        field="rtt_thresholds_ns",
    ),
)


def compression(mode_for_on: str) -> Reader:
    """A mode, a boolean, or a map.

    Args:
        mode_for_on: what `true` means here.
    """

    def read(checker: Checker, value: Value, key: str) -> CompressionOptions:
        if isinstance(value.data, bool):
            return CompressionOptions(mode_for_on if value.data else "off")
        if isinstance(value.data, str):
            return CompressionOptions(value.data)
        if not isinstance(value.data, dict):
            raise refusal(value, f"field {quote(key)} should be a boolean or a structure, got {go_type(value)}")
        return CompressionOptions(**read_map(checker, value, COMPRESSION))  # type: ignore[arg-type]

    return read


def _remotes(checker: Checker, value: Value, key: str) -> object:
    from slipstream.config.keys.remote import leaf_remotes  # remotes are rare; their table is large

    return leaf_remotes(checker, value, key)


LEAFNODES: Final = KeyTable(
    *ADDRESS_KEYS,
    Key("authorization", ("map", _leaf_authorization), "Who may connect as a leaf node.", field=""),
    Key("tls", ("map", lazy_tls), "TLS of this listener.", reloadable=True),
    Key("advertise leafnode_advertise", STRING, "`host:port` that leaf nodes are told."),
    Key("no_advertise", BOOLEAN, "Do not let leaf nodes of other servers of the cluster know of this one."),
    Key("min_version minimum_version", ("version", _min_version), "Oldest server that may connect."),
    Key(
        "compression",
        ("mode, boolean or map", compression("s2_auto")),
        "Compression of leaf node connections.",
        reloadable=True,
    ),
    Key("isolate isolate_leafnode_interest", BOOLEAN, "Leaf nodes do not see each other's subscriptions."),
    Key(
        "reconnect reconnect_delay reconnect_interval",
        ("duration", duration_or(LEAF_RECONNECT_NS, "reconnect")),
        "Time between attempts to reach a remote.",
        field="reconnect_ns",
    ),
    Key(
        "dial_timeout",
        ("duration", duration_or(LEAF_DIAL_TIMEOUT_NS, "dial_timeout")),
        "Time for a connection to a remote.",
        field="dial_timeout_ns",
    ),
    Key("write_deadline", DURATION, "Time for a write.", field="write_deadline_ns"),
    Key("write_timeout", WRITE_TIMEOUT, "What happens when a write takes too long."),
    Key("remotes", ("list of remotes", _remotes), "Servers to connect to as a leaf node.", reloadable=True),
)
