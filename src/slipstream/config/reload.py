"""What a reload may change: two configurations to a plan.

`diff` compares the options a server runs with and those of its file read again. What can change while clients are
connected becomes an action, grouped by the part of the server that has to act; anything else is a refusal, and then
nothing at all is changed. Refusals are worded like nats-server's, with its names of the options.

Some options can be reloaded here that nats-server refuses to: `max_pending`, `max_subscriptions`, rotation of the log
file, the lame duck times, and the keys of encryption at rest (not on servers of a cluster).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

from slipstream.config.durations import format_duration
from slipstream.config.options import SYSTEM_ACCOUNT, Options
from slipstream.config.record import Record, is_compared, is_secret, replace
from slipstream.errors import ConfigError
from slipstream.limits import RANDOM_PORT

if TYPE_CHECKING:
    from slipstream.config.listener_options import GatewayOptions, RemoteGatewayOptions

__all__ = ["ReloadAction", "ReloadKind", "ReloadPlan", "diff"]

ReloadKind = Literal[
    "logging",
    "trace",
    "auth",
    "tls",
    "limits",
    "timers",
    "files",
    "identity",
    "lame_duck",
    "jetstream",
    "routes",
    "leafnodes",
    "lake",
]


class ReloadAction(Record):
    """One part of the server has to take over new options."""

    kind: ReloadKind
    fields: tuple[str, ...]  # what changed, `block.field` inside a block


class ReloadPlan(Record):
    """What a reload does. With refusals there are no actions."""

    actions: tuple[ReloadAction, ...] = ()
    refusals: tuple[ConfigError, ...] = ()

    @property
    def changed(self) -> frozenset[str]:
        """Names of all fields that change."""
        return frozenset(field for action in self.actions for field in action.fields)


# All but where routes come in.
_CLUSTER_HOT: Final = (
    *("name", "user", "password", "auth_timeout_ns", "permissions", "routes", "tls", "accounts", "compression"),
    *("advertise", "no_advertise", "connect_retries", "connect_backoff", "pool_size"),
    *("ping_interval_ns", "ping_max", "write_deadline_ns", "write_timeout"),
)

_HOT: Final[dict[str, ReloadKind]] = {
    **dict.fromkeys(("debug", "trace", "trace_verbose", "trace_headers", "max_traced_msg_len"), "trace"),
    **dict.fromkeys(("logtime", "logtime_utc", "logfile", "logfile_size_limit", "logfile_max_num"), "logging"),
    **dict.fromkeys(("syslog", "remote_syslog"), "logging"),
    **dict.fromkeys(("pidfile", "ports_file_dir"), "files"),
    **dict.fromkeys(("server_tags", "server_metadata", "client_advertise"), "identity"),
    **dict.fromkeys(
        ("max_connections", "max_subscriptions", "max_control_line", "max_payload", "max_pending"), "limits"
    ),
    **dict.fromkeys(("no_fast_producer_stall", "connect_error_reports", "reconnect_error_reports"), "limits"),
    **dict.fromkeys(("ping_interval_ns", "ping_max", "write_deadline_ns", "prof_block_rate"), "timers"),
    **dict.fromkeys(("lame_duck_duration_ns", "lame_duck_grace_period_ns"), "lame_duck"),
    **dict.fromkeys(("authorization", "accounts", "mappings", "default_sentinel", "trusted_proxies"), "auth"),
    **dict.fromkeys(("tls", "websocket.tls", "leafnodes.tls", "gateway.tls"), "tls"),
    "jetstream.declared": "jetstream",
    "lake": "lake",
    **dict.fromkeys((f"cluster.{field}" for field in _CLUSTER_HOT), "routes"),
    **dict.fromkeys(("leafnodes.remotes", "leafnodes.compression"), "leafnodes"),
}

# Names of refused options in nats-server's messages; any other is named as in the file.
_GO_NAMES: Final = {
    "host": "Host",
    "port": "Port",
    "server_name": "ServerName",
    "allow_non_tls": "AllowNonTLS",
    "proxy_protocol": "ProxyProtocol",
    "no_header_support": "NoHeaderSupport",
    "feature_flags": "FeatureFlags",
    "http_host": "HTTPHost",
    "http_port": "HTTPPort",
    "https_port": "HTTPSPort",
    "http_base_path": "HTTPBasePath",
    "prof_port": "ProfPort",
    "max_sub_tokens": "MaxSubTokens",
    "max_closed_clients": "MaxClosedClients",
    "disable_sublist_cache": "NoSublistCache",
    "write_timeout": "WriteTimeout",
    "no_auth_user": "NoAuthUser",
    "system_account": "SystemAccount",
    "no_system_account": "NoSystemAccount",
    "operator": "TrustedOperators",
    "trusted_keys": "TrustedKeys",
    "default_js_domain": "JsAccDefaultDomain",
    "websocket": "Websocket",
    "leafnodes": "LeafNode",
    "jetstream": "JetStream",
    "jetstream.domain": "JetStreamDomain",
    "jetstream.key": "JetStreamKey",
    "jetstream.key_file": "JetStreamKeyFile",
    "jetstream.key_command": "JetStreamKeyCommand",
    "jetstream.prev_key": "JetStreamOldKey",
    "jetstream.decrypt": "JetStreamDecrypt",
    "jetstream.cipher": "JetStreamCipher",
    "jetstream.unique_tag": "JetStreamUniqueTag",
    "jetstream.extension_hint": "JetStreamExtHint",
    "jetstream.limits": "JetStreamLimits",
    "jetstream.tpm": "JetStreamTpm",
    "jetstream.max_outstanding_catchup": "JetStreamMaxCatchup",
    "jetstream.request_queue_limit": "JetStreamRequestQueueLimit",
    "jetstream.info_queue_limit": "JetStreamInfoQueueLimit",
    "jetstream.max_concurrent_io": "JetStreamConcurrentIOs",
    "jetstream.strict": "NoJetStreamStrict",
    "jetstream.max_buffered_msgs": "StreamMaxBufferedMsgs",
    "jetstream.max_buffered_size": "StreamMaxBufferedSize",
    "jetstream.sync_always": "SyncInterval",
    "jetstream.sync_interval_ns": "SyncInterval",
    "auth_callout": "AuthCallout",
    "gateway": "Gateway",
    "mqtt": "MQTT",
}
_JETSTREAM_SIZES: Final = ("jetstream.max_memory_store", "jetstream.max_file_store")
_JETSTREAM_KEYS: Final = frozenset(
    f"jetstream.{field}" for field in ("key", "key_file", "key_command", "prev_key", "decrypt", "cipher")
)
_UNSET: Final = -1  # a size that the file does not say
_BLOCKS: Final = ("websocket", "http_api", "leafnodes", "jetstream", "cluster", "gateway", "mqtt")


def diff(old: Options, new: Options) -> ReloadPlan:
    """Compare the running options with those of the file.

    Args:
        old: what the server was started or last reloaded with.
        new: what the file and the flags say now; already valid by itself.
    """
    new = _keeping_random_ports(old, new)
    fields: dict[ReloadKind, list[str]] = {}
    refusals: list[ConfigError] = []
    for name, before, after in _changes(old, new):
        kind = _HOT.get(name)
        if kind is None and _reloads_jetstream(name, before, after, old, new):
            kind = "jetstream"
        if name == "gateway.gateways" and _without_tls(old.gateway) == _without_tls(new.gateway):
            kind = "tls"
        if kind is None and name.startswith("leafnodes.") and _all_remotes_change(old, new):
            kind = "leafnodes"
        if kind is not None:
            fields.setdefault(kind, []).append(name)
            continue
        reason = _refusal(name, before, after, new)
        if reason is not None:
            refusals.append(ConfigError(reason))
    if refusals:
        return ReloadPlan(refusals=tuple(refusals))
    return ReloadPlan(tuple(ReloadAction(kind, tuple(names)) for kind, names in fields.items()))


def _all_remotes_change(old: Options, new: Options) -> bool:
    """Whether a server without a leaf node port gets its first remotes, or has none any more: nothing has to follow."""
    before, after = old.leafnodes, new.leafnodes
    return not (before.port or after.port or (before.remotes and after.remotes))


def _keeping_random_ports(old: Options, new: Options) -> Options:
    """A port of -1 in the file is satisfied by whatever port the server has."""
    changes: dict[str, object] = {}
    if new.port == RANDOM_PORT:
        changes["port"] = old.port
    for name in ("websocket", "http_api", "leafnodes", "cluster", "gateway", "mqtt"):
        block, running = getattr(new, name), getattr(old, name)
        if block.port == RANDOM_PORT and running.port != 0:
            changes[name] = replace(block, port=running.port)
    return replace(new, **changes)


def _changes(old: Options, new: Options) -> Iterator[tuple[str, object, object]]:
    """Name, old and new value of every field that differs; blocks field by field."""
    for name in old.__match_args__:
        if not is_compared(old, name):
            continue
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        if name == "authorization" and before.auth_callout != after.auth_callout:
            yield "auth_callout", before.auth_callout, after.auth_callout
        if name not in _BLOCKS:
            yield name, before, after
            continue
        for field in before.__match_args__:
            inner_before, inner_after = getattr(before, field), getattr(after, field)
            if inner_before != inner_after:
                secret = is_secret(before, field)
                hidden = "[REDACTED]" if secret else None
                yield f"{name}.{field}", hidden or inner_before, hidden or inner_after


def _refusal(name: str, before: object, after: object, new: Options) -> str | None:
    """Why a change cannot be made while the server runs; None if it needs nothing to be done."""
    if name == "no_auth_user" and before and not after and all(user.name != before for _, user in new.users()):
        return None
    if name == "system_account" and before == SYSTEM_ACCOUNT and not after:
        return None
    if name.startswith("resolver"):
        return "config reload does not support moving to or from an account resolver"
    if name.startswith("jetstream.meta_compact"):
        return None  # of clusters
    if name == "jetstream.store_dir":
        return f"config reload not supported for jetstream storage {'directory' if after else 'dir'}"
    if name in _JETSTREAM_SIZES:
        if before == _UNSET:
            return "config reload not supported for jetstream dynamic max memory and store"
        if after == _UNSET:
            return "config reload not supported for jetstream max memory and max store"
        return "config reload not supported for decreasing jetstream max memory and store"
    block, _, field = name.partition(".")
    if block == "cluster" and field:
        shown = f"cluster {field}"
    elif name in _GO_NAMES:
        shown = _GO_NAMES[name]
    else:
        shown = _GO_NAMES.get(block, block) + (f': field "{field}"' if field else "")
    return f"config reload not supported for {shown}: old={_shown(name, before)}, new={_shown(name, after)}"


def _reloads_jetstream(name: str, before: object, after: object, old: Options, new: Options) -> bool:
    """Whether a change of JetStream's block can be made: switching it on and off, and allowing it more."""
    if name == "jetstream.enabled":
        return True
    if name in _JETSTREAM_KEYS:
        return not new.replicates
    if not old.jetstream.enabled or not new.jetstream.enabled:
        return name == "jetstream.store_dir" or name in _JETSTREAM_SIZES
    grows = isinstance(before, int) and isinstance(after, int) and _UNSET < before < after
    return name in _JETSTREAM_SIZES and grows


def _without_tls(gateway: GatewayOptions) -> tuple[RemoteGatewayOptions, ...]:
    """The other clusters, whatever certificates are used with them."""
    return tuple(replace(entry, tls=None) for entry in gateway.gateways)


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and name.endswith("_ns"):
        return format_duration(value)
    if isinstance(value, tuple):
        return "[" + " ".join(_shown(name, entry) for entry in value) + "]"
    return str(value)
