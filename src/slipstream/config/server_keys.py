"""The keys at the top of a configuration file: the table everything else hangs from.

Readers of large or rare blocks import their table when a file has the block, so that a small file starts fast.
"""

from __future__ import annotations

from typing import Final

from slipstream.config.checker import Checker, Key, KeyTable, Kind, Reader, go_type, quote, read_map, refusal
from slipstream.config.listener_options import OCSPCacheOptions, OCSPOptions
from slipstream.config.options import ResolverOptions
from slipstream.config.parser import Value
from slipstream.config.readers import (
    BOOLEAN,
    INT32,
    INTEGER,
    LISTEN,
    SIZE,
    STRING,
    WRITE_TIMEOUT,
    address,
    boolean,
    duration,
    duration_text,
    integer,
    map_of_text,
    text,
    without_blanks,
)
from slipstream.config.subject_rules import OPERATOR_KEY, is_public_key
from slipstream.errors import ConfigError
from slipstream.limits import LAME_DUCK_DURATION_MIN_NS, MAX_SUB_TOKENS_CEILING

__all__ = ["OCSP", "OCSP_CACHE", "PROXIES", "RESOLVER", "SERVER"]


def _block(module: str, reader: str) -> Reader:
    """The reader of a block whose module is imported when a file has the block."""

    def read(checker: Checker, value: Value, key: str) -> object:
        from importlib import import_module

        block_reader: Reader = getattr(import_module(f"slipstream.config.{module}"), reader)
        return block_reader(checker, value, key)

    return read


# --- small readers ---------------------------------------------------------------------------------------------------


def _tracing(field: str) -> Reader:
    """A kind of trace, which also turns tracing itself on or off."""

    def read(checker: Checker, value: Value, key: str) -> dict[str, object]:
        on = boolean(checker, value, key)
        return {field: on, "trace": on}

    return read


def _max_connections(checker: Checker, value: Value, key: str) -> int:
    return integer(checker, value, key) or -1  # 0 means no limit in a file


def _max_sub_tokens(checker: Checker, value: Value, key: str) -> int:
    number = integer(checker, value, key)
    if number > MAX_SUB_TOKENS_CEILING:
        raise refusal(value, f"{key} value is too big")
    if number <= 0:
        raise refusal(value, f"{key} value can not be negative")
    return number


def _lame_duck_duration(checker: Checker, value: Value, key: str) -> int:
    duration_ns = _lame_duck(checker, value, key)
    if duration_ns < LAME_DUCK_DURATION_MIN_NS:
        from slipstream.config.durations import format_duration

        shown = format_duration(duration_ns)
        raise refusal(value, f"invalid lame_duck_duration of {shown}, minimum is 30 seconds")
    return duration_ns


def _lame_duck_grace_period(checker: Checker, value: Value, key: str) -> int:
    duration_ns = _lame_duck(checker, value, key)
    if duration_ns < 0:
        raise refusal(value, "invalid lame_duck_grace_period, needs to be positive")
    return duration_ns


def _lame_duck(checker: Checker, value: Value, key: str) -> int:
    try:
        return duration_text(checker, value, key)
    except ConfigError as error:
        if error.message.startswith("time:"):
            raise refusal(value, f"error parsing {key.lower()}: {error.message}") from None
        raise


def _list_of_text(what: str, one_of: str = "") -> Reader:
    """A text or an array of texts; `one_of` is the wording for a wrong entry."""

    def read(_checker: Checker, value: Value, _key: str) -> tuple[str, ...]:
        if isinstance(value.data, str):
            return (value.data,)
        if not isinstance(value.data, list):
            raise refusal(value, f"error parsing {what}: unsupported type {go_type(value)}")
        words = []
        for entry in value.data:
            if not isinstance(entry.data, str):
                at, found = (value, "*conf.token") if one_of else (entry, go_type(entry))
                wording = (
                    f"unsupported type {found} where string is expected"
                    if one_of
                    else (f"unsupported type in array {found}")
                )
                raise refusal(at, f"error parsing {what}: {wording}")
            words.append(entry.data)
        return tuple(words)

    return read


def _server_tags(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    words = _list_of_text("tags", "string")(checker, value, key)
    assert isinstance(words, tuple)
    return tuple(dict.fromkeys(word.strip().lower() for word in words if word.strip()))


def _feature_flags(_checker: Checker, value: Value, _key: str) -> dict[str, bool]:
    if not isinstance(value.data, dict):
        raise refusal(value, f"error parsing feature flags: unsupported type {go_type(value)}")
    flags = {}
    for name, entry in value.data.items():
        if not isinstance(entry.data, bool):
            raise refusal(entry, f"error parsing feature flag {quote(name)}: expected bool, got {go_type(entry)}")
        flags[name] = entry.data
    return flags


def _system_account(_checker: Checker, value: Value, _key: str) -> str:
    if not isinstance(value.data, str):
        raise refusal(value, "system account name must be a string")
    return value.data


def _trusted_keys(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    keys = _list_of_text("trusted")(checker, value, key)
    assert isinstance(keys, tuple)
    entries = value.data if isinstance(value.data, list) else [value]
    for public_key, entry in zip(keys, entries, strict=True):
        if not is_public_key(public_key, OPERATOR_KEY):
            raise refusal(entry, f"trust key {quote(public_key)} required to be a valid public operator nkey")
    return keys


def _resolver_preload(checker: Checker, value: Value, _key: str) -> dict[str, str]:
    if not isinstance(value.data, dict):
        raise refusal(value, "preload should be a map of account_public_key:account_jwt")
    preload = {}
    for name, entry in value.data.items():
        if not isinstance(entry.data, str):
            checker.error(refusal(entry, "preload map value should be a string JWT"))
        elif entry.data.count(".") != 2:
            checker.error(refusal(entry, "invalid account JWT"))
        else:
            preload[name] = entry.data
    return preload


# --- resolver --------------------------------------------------------------------------------------------------------

RESOLVER: Final = KeyTable(
    Key("type", STRING, "`full`, `cache` or `memory`."),
    Key("dir", STRING, "Directory of the account JWTs."),
    Key("allow_delete", BOOLEAN, "Accounts may be deleted over NATS."),
    Key("hard_delete", BOOLEAN, "Deleted JWTs are removed instead of renamed."),
    Key("limit", INTEGER, "Number of JWTs kept."),
    Key("ttl", ("duration", duration_text), "`cache`: how long a JWT is kept.", field="ttl_ns"),
    Key("interval", ("duration", duration_text), "`full`: time between comparisons.", field="interval_ns"),
    Key("timeout", ("duration", duration_text), "Time to wait for a JWT.", field="timeout_ns"),
)


def _resolver(checker: Checker, value: Value, _key: str) -> ResolverOptions:
    import re

    unknown = (
        'error parsing account resolver, should be MEM or  URL("url") or a map containing dir and type '
        "state=[FULL|CACHE])"
    )
    data = value.data
    if isinstance(data, str):
        if re.search(r"(?i)MEM", data):
            return ResolverOptions("memory")
        url = re.search(r'(?i)URL\(\s*"?([^\s"]*)"?\s*\)', data)
        if url is None:
            raise refusal(value, unknown)
        return ResolverOptions("url", url=url.group(1))
    if not isinstance(data, dict):
        raise refusal(value, f"error parsing operator resolver, wrong type {go_type(value)}")
    fields = read_map(checker, value, RESOLVER)
    kind = str(fields.get("type", "")).upper()
    if kind in ("MEM", "MEMORY"):
        return ResolverOptions("memory")
    if kind not in ("FULL", "CACHE"):
        raise refusal(value, unknown)
    fields["type"] = kind.lower()
    options = ResolverOptions(**fields)  # type: ignore[arg-type]  # the table names its fields
    problem = _resolver_problem(options, hard_delete_set="hard_delete" in fields)
    if problem is not None:
        raise refusal(value, problem)
    return options


def _resolver_problem(options: ResolverOptions, *, hard_delete_set: bool) -> str | None:
    if not options.dir:
        return "dir has no value and needs to point to a directory"
    for name, value in (("timeout", options.timeout_ns), ("ttl", options.ttl_ns), ("interval", options.interval_ns)):
        if value < 0:
            return f"{name} of a resolver is negative"
    if options.type == "full":
        if options.ttl_ns:
            return "FULL does not accept ttl"
        if hard_delete_set and not options.allow_delete:
            return "hard_delete has no effect without delete"
        return None
    if options.interval_ns:
        return "CACHE does not accept sync"
    if options.allow_delete:
        return "CACHE does not accept allow_delete"
    return "CACHE does not accept hard_delete" if hard_delete_set else None


# --- OCSP, proxies ---------------------------------------------------------------------------------------------------


def _ocsp_mode(checker: Checker, value: Value, key: str) -> str:
    mode = text(checker, value, key).lower()
    if mode not in ("always", "must", "never", "auto"):
        raise refusal(value, "error parsing ocsp config: unsupported ocsp mode string")
    return mode


def _ocsp_url(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    return (text(checker, value, key),)


OCSP: Final = KeyTable(
    Key("mode", ("`auto`, `always`, `must` or `never`", _ocsp_mode), "When to staple."),
    Key("url", ("URL", _ocsp_url), "Responder to ask.", field="urls"),
    Key("urls", ("list of URLs", _list_of_text("ocsp config")), "Responders to ask."),
    unknown="error parsing ocsp config: unsupported field string",
)


def _ocsp(checker: Checker, value: Value, _key: str) -> OCSPOptions:
    if isinstance(value.data, bool):
        return OCSPOptions("auto" if value.data else "never")
    if not isinstance(value.data, dict):
        raise refusal(value, f"error parsing ocsp config: unsupported type {go_type(value)}")
    return OCSPOptions(**read_map(checker, value, OCSP))  # type: ignore[arg-type]  # the table names its fields


def _cache_type(checker: Checker, value: Value, key: str) -> str:
    kind = text(checker, value, key).lower()
    if kind not in ("local", "none"):
        raise refusal(value, f"error parsing ocsp cache config, unknown cache type [{kind}]")
    return kind


OCSP_CACHE: Final = KeyTable(
    Key("type", ("`local` or `none`", _cache_type), "Where answers are kept."),
    Key("local_store", STRING, "Directory of a local cache."),
    Key("preserve_revoked", BOOLEAN, "Keep answers that revoke a certificate."),
    Key("save_interval", ("duration", duration(seconds_warn=False)), "Time between saves.", field="save_interval_ns"),
    unknown="error parsing ocsp cache config, unknown field [{}]",
)


def _ocsp_cache(checker: Checker, value: Value, _key: str) -> OCSPCacheOptions:
    if isinstance(value.data, bool):
        return OCSPCacheOptions("local" if value.data else "none")
    if not isinstance(value.data, dict):
        raise refusal(value, f"error parsing tags: unsupported type {go_type(value)}")
    return OCSPCacheOptions(**read_map(checker, value, OCSP_CACHE))  # type: ignore[arg-type]


def _trusted_proxies(checker: Checker, value: Value, _key: str) -> tuple[str, ...]:
    if not isinstance(value.data, list):
        raise refusal(value, f"expected proxies' trusted field to be an array, got {go_type(value)}")
    keys = []
    for entry in value.data:
        if not isinstance(entry.data, dict):
            message = f"expected proxies' trusted entry to be a map/struct, got {go_type(entry)}"
            checker.error(refusal(entry, message))
            continue
        for name, public_key in entry.data.items():
            if name.lower() not in ("key", "public_key"):
                checker.error(refusal(public_key, f"unknown field {quote(name)}"))
            elif not is_public_key(text(checker, public_key, name)):
                checker.error(refusal(public_key, f"invalid proxy key {quote(str(public_key.data))}"))
            else:
                keys.append(str(public_key.data))
    return tuple(keys)


PROXIES: Final = KeyTable(
    Key("trusted", ("list of maps with `key`", _trusted_proxies), "Public keys of proxies.", field="trusted_proxies"),
)


def _proxies(checker: Checker, value: Value, _key: str) -> dict[str, object]:
    if not isinstance(value.data, dict):
        raise refusal(value, f"expected proxies to be a map/struct, got {go_type(value)}")
    return read_map(checker, value, PROXIES)


# --- the table -------------------------------------------------------------------------------------------------------

_MAP: Final = "map"
_BOTH: Final[Kind] = ("boolean or map", _ocsp)

SERVER: Final = KeyTable(
    # The client listener.
    Key("listen", LISTEN, "Address and port for clients.", field=""),
    Key("host net", STRING, "Address for clients."),
    Key("port", INTEGER, "Port for clients; -1 lets the system choose."),
    Key("client_advertise", STRING, "`host:port` that clients are told instead of the address.", reloadable=True),
    Key("tls", (_MAP, _block("tls_keys", "client_tls")), "TLS for clients.", reloadable=True),
    Key("allow_non_tls", BOOLEAN, "Accept clients without TLS on the same port."),
    Key("proxy_protocol", BOOLEAN, "Connections start with a PROXY header, version 1 or 2."),
    Key("no_header_support", BOOLEAN, "Do not offer message headers."),
    # Identity.
    Key("server_name", ("string", without_blanks("server")), "Name of the server, unique in a cluster."),
    Key("server_tags", ("list of strings", _server_tags), "Tags for placement and filters.", reloadable=True),
    Key(
        "server_metadata",
        ("map of strings", map_of_text("error parsing metadata: unsupported type {}")),
        "Free facts about the server.",
        reloadable=True,
    ),
    Key("feature_flags", ("map of booleans", _feature_flags), "Features to turn on or off by name."),
    # Logging and files.
    Key("debug", BOOLEAN, "Log debug messages.", reloadable=True),
    Key("trace", BOOLEAN, "Log protocol operations.", reloadable=True),
    Key(
        "trace_verbose",
        ("boolean", _tracing("trace_verbose")),
        "Log protocol operations of the system account, too.",
        field="",
        reloadable=True,
    ),
    Key(
        "trace_headers",
        ("boolean", _tracing("trace_headers")),
        "Log the headers of messages instead of their payload.",
        field="",
        reloadable=True,
    ),
    Key("max_traced_msg_len", INTEGER, "Bytes of a payload in the trace; 0 means all.", reloadable=True),
    Key("logtime", BOOLEAN, "Log lines start with the time.", reloadable=True),
    Key("logtime_utc", BOOLEAN, "Times in the log are UTC.", reloadable=True),
    Key("logfile log_file", STRING, "Log to this file instead of stderr.", reloadable=True),
    Key("logfile_size_limit log_size_limit", SIZE, "Size after which the log file is rotated.", reloadable=True),
    Key("logfile_max_num log_max_num", INTEGER, "Log files kept; 0 means all.", reloadable=True),
    Key("syslog", BOOLEAN, "Log to syslog.", reloadable=True),
    Key("remote_syslog", STRING, "Address of a syslog server.", reloadable=True),
    Key("pidfile pid_file", STRING, "File for the process id.", reloadable=True),
    Key("ports_file_dir", STRING, "Directory for a file with the ports in use.", reloadable=True),
    # Monitoring.
    Key(
        "http",
        ("host:port or port", address("http_host", "http_port")),
        "Address and port of the monitoring listener.",
        field="",
    ),
    Key("https", ("host:port or port", address("http_host", "https_port")), "The same, with TLS.", field=""),
    Key("http_port monitor_port", INTEGER, "Port of the monitoring listener."),
    Key("https_port", INTEGER, "The same, with TLS."),
    Key("http_base_path", STRING, "Path before the names of endpoints."),
    Key("dashboard", BOOLEAN, "Have the dashboard at `/ui` of the monitoring port; unset: if that is on loopback."),
    Key("prof_port", INTEGER, "Port of the profiler."),
    Key("prof_block_rate", INTEGER, "Sampling of blocking events.", reloadable=True),
    # Limits.
    Key("max_connections max_conn", ("integer", _max_connections), "Connections; 0 means no limit.", reloadable=True),
    Key("max_subscriptions max_subs", INTEGER, "Subscriptions of a connection; 0 means no limit.", reloadable=True),
    Key("max_sub_tokens max_subscription_tokens", ("integer", _max_sub_tokens), "Tokens of a subject, 1 to 255."),
    Key("max_control_line", ("size", INT32[1]), "Length of a protocol line.", reloadable=True),
    Key("max_payload", ("size", INT32[1]), "Size of a message, headers included.", reloadable=True),
    Key("max_pending", SIZE, "Bytes waiting for a client before it is closed as too slow.", reloadable=True),
    Key("max_closed_clients", INTEGER, "Closed connections remembered for monitoring."),
    Key("disable_sublist_cache no_sublist_cache", BOOLEAN, "Do not cache the receivers of a subject."),
    Key("no_fast_producer_stall", BOOLEAN, "Do not slow down a publisher for slow receivers.", reloadable=True),
    # Timers.
    Key(
        "ping_interval",
        ("duration", duration("ping_interval")),
        "Time between pings.",
        field="ping_interval_ns",
        reloadable=True,
    ),
    Key("ping_max", INTEGER, "Unanswered pings before a connection is closed.", reloadable=True),
    Key(
        "write_deadline",
        ("duration", duration("write_deadline")),
        "Time for a write to a client.",
        field="write_deadline_ns",
        reloadable=True,
    ),
    Key("write_timeout", WRITE_TIMEOUT, "What happens when a write takes too long."),
    Key(
        "lame_duck_duration",
        ("duration", _lame_duck_duration),
        "Time over which clients are closed in lame duck mode, at least 30 s.",
        field="lame_duck_duration_ns",
        reloadable=True,
    ),
    Key(
        "lame_duck_grace_period",
        ("duration", _lame_duck_grace_period),
        "Time before the first client is closed in lame duck mode.",
        field="lame_duck_grace_period_ns",
        reloadable=True,
    ),
    Key("connect_error_reports", INTEGER, "Log every n-th failed first connection to a server.", reloadable=True),
    Key("reconnect_error_reports", INTEGER, "Log every n-th failed reconnection to a server.", reloadable=True),
    # Who may connect.
    Key(
        "authorization",
        (_MAP, _block("user_keys", "authorization")),
        "Users of the global account, or one user or token.",
        reloadable=True,
    ),
    Key("accounts", ("map of accounts", _block("account_keys", "accounts")), "Accounts.", reloadable=True),
    Key(
        "mappings maps",
        ("map of mappings", _block("sharing_keys", "mappings")),
        "Subjects of the global account that are mapped on publish.",
        reloadable=True,
    ),
    Key("no_auth_user", STRING, "User of clients without credentials."),
    Key("system_account system", ("string", _system_account), "Account that sees `$SYS` subjects."),
    Key("no_system_account no_system no_sys_acc", BOOLEAN, "Have no system account."),
    Key("default_sentinel", STRING, "Operator mode: JWT of clients without one.", reloadable=True),
    Key("proxies", (_MAP, _proxies), "Proxies whose word about a client is trusted.", field="", reloadable=True),
    # Operator mode.
    Key(
        "operator operators roots root root_operators root_operator",
        ("list of files or JWTs", _list_of_text("operators", "string")),
        "Operators whose accounts are trusted.",
    ),
    Key("trusted_keys trusted", ("list of operator keys", _trusted_keys), "Public keys of trusted operators."),
    Key("resolver account_resolver accounts_resolver", ("string or map", _resolver), "Where account JWTs come from."),
    Key("resolver_preload", ("map of strings", _resolver_preload), "Account JWTs by account key."),
    Key(
        "resolver_pinned_accounts",
        ("list of strings", _list_of_text("resolver_pinned_accounts")),
        "Only these accounts may connect.",
    ),
    Key("resolver_tls", (_MAP, _block("tls_keys", "client_tls")), "TLS to the resolver."),
    # Other listeners and subsystems.
    Key("websocket ws", (_MAP, _block("listener_keys", "websocket")), "WebSocket listener."),
    Key("http_api", (_MAP, _block("listener_keys", "http_api")), "HTTP for those who have no NATS client."),
    Key("leafnodes leaf", (_MAP, _block("listener_keys", "leafnodes")), "Leaf node listener and remotes."),
    Key(
        "jetstream",
        ("boolean, `enabled`, `disabled` or map", _block("jetstream_keys", "jetstream")),
        "Turn JetStream on, with its settings.",
    ),
    Key("store_dir storedir", STRING, "Directory of the streams, as in `jetstream`."),
    Key(
        "lake",
        ("map or list of maps", _block("lake_keys", "lake")),
        "Streams as Delta or Iceberg tables, written by a process that the server starts.",
        reloadable=True,
    ),
    Key(
        "default_js_domain",
        ("map of strings", map_of_text("error default_js_domain config: unsupported type {}")),
        "JetStream domain of an account, by account.",
    ),
    Key("cluster", (_MAP, _block("cluster_keys", "cluster")), "Routes to servers of the same cluster."),
    Key("gateway", (_MAP, _block("cluster_keys", "gateway")), "Connections to other clusters."),
    Key("mqtt", (_MAP, _block("cluster_keys", "mqtt")), "MQTT listener."),
    Key("ocsp", _BOTH, "OCSP stapling of the server's certificate."),
    Key("ocsp_cache", ("boolean or map", _ocsp_cache), "Cache of OCSP answers about peers."),
)
