"""The keys of leaf node remotes. Loaded only when a file has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from slipstream.config.checker import Checker, Key, KeyTable, go_type, quote, read_block, read_map, refusal
from slipstream.config.keys.listener import compression, lazy_tls
from slipstream.config.keys.user import subject_list
from slipstream.config.listener_options import LeafProxyOptions, LeafRemoteOptions
from slipstream.config.parser import Value
from slipstream.config.readers import (
    BOOLEAN,
    DURATION,
    STRING,
    checked_url,
    duration,
    duration_or,
    text,
    urls,
)
from slipstream.config.subject_rules import is_user_seed
from slipstream.limits import LEAF_FIRST_INFO_TIMEOUT_NS

__all__ = ["LEAF_REMOTE", "PROXY", "is_websocket", "leaf_remotes", "redacted", "remote_name"]


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
    Key("url", STRING, "URL of the proxy.", reloadable=True),
    Key("username", STRING, "User of the proxy.", reloadable=True),
    Key("password", STRING, "Password of the proxy.", reloadable=True),
    Key(
        "timeout",
        ("duration", duration("proxy timeout")),
        "Time for a connection.",
        field="timeout_ns",
        reloadable=True,
    ),
)


def _proxy(checker: Checker, value: Value, _key: str) -> LeafProxyOptions:
    return LeafProxyOptions(**read_block(checker, value, PROXY, "proxy"))  # type: ignore[arg-type]  # of the table


_DENIED: Final = ("list of subjects", subject_list(queue_allowed=False))

LEAF_REMOTE: Final = KeyTable(
    Key("urls url", ("list of URLs", _remote_urls), "Where the remote is reached.", reloadable=True),
    Key("account local", STRING, "Local account that is connected; `$G` if missing.", reloadable=True),
    Key("credentials creds", STRING, "File with the credentials.", reloadable=True),
    Key("nkey seed", ("user seed", _seed), "Seed to authenticate with.", reloadable=True),
    Key("tls", ("map", lazy_tls), "TLS to the remote.", reloadable=True),
    Key("hub", BOOLEAN, "This side is the hub.", reloadable=True),
    Key("deny_imports deny_import", _DENIED, "Subjects not received from the remote.", reloadable=True),
    Key("deny_exports deny_export", _DENIED, "Subjects not sent to the remote.", reloadable=True),
    Key("no_randomize dont_randomize", BOOLEAN, "Try the URLs in order.", reloadable=True),
    Key(
        "ws_compression ws_compress websocket_compress websocket_compression",
        BOOLEAN,
        "Compress WebSocket frames.",
        reloadable=True,
    ),
    Key("ws_no_masking websocket_no_masking", BOOLEAN, "Do not mask WebSocket frames.", reloadable=True),
    Key(
        "jetstream_cluster_migrate js_cluster_migrate",
        ("boolean or map", _migrate),
        "Move stream leaders away when the connection is lost.",
        field="",
        reloadable=True,
    ),
    Key(
        "isolate isolate_leafnode_interest", BOOLEAN, "Do not send subscriptions of other leaf nodes.", reloadable=True
    ),
    Key("request_isolation", BOOLEAN, "Ask the remote for the same.", reloadable=True),
    Key(
        "compression",
        ("mode, boolean or map", compression("s2_auto")),
        "Compression of the connection.",
        reloadable=True,
    ),
    Key(
        "first_info_timeout",
        ("duration", duration_or(LEAF_FIRST_INFO_TIMEOUT_NS)),
        "Wait for INFO.",
        field="first_info_timeout_ns",
        reloadable=True,
    ),
    Key("dial_timeout", DURATION, "Time for a connection.", field="dial_timeout_ns", reloadable=True),
    Key("disabled", BOOLEAN, "Do not connect.", reloadable=True),
    Key("proxy", ("map", _proxy), "HTTP proxy for WebSocket URLs.", reloadable=True),
    Key("ignore_discovered_servers", BOOLEAN, "Only use the URLs above.", reloadable=True),
)
