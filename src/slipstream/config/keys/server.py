"""The keys at the top of a configuration file: the table everything else hangs from.

Readers of large or rare blocks import their table when a file has the block, so that a small file starts fast.
"""

from __future__ import annotations

from typing import Final

from slipstream.config.checker import Checker, Key, KeyTable, Reader, go_type, quote, refusal
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
    strict_text_list,
    without_blanks,
)
from slipstream.errors import ConfigError
from slipstream.limits import LAME_DUCK_DURATION_MIN_NS, MAX_SUB_TOKENS_CEILING

__all__ = ["SERVER"]


def _block(module: str, reader: str) -> Reader:
    """The reader of a block whose module is imported when a file has the block."""

    def read(checker: Checker, value: Value, key: str) -> object:
        from importlib import import_module

        block_reader: Reader = getattr(import_module(f"slipstream.config.keys.{module}"), reader)
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


def _server_tags(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    words = strict_text_list("tags", "string")(checker, value, key)
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


# --- the table -------------------------------------------------------------------------------------------------------

_MAP: Final = "map"

SERVER: Final = KeyTable(
    # The client listener.
    Key("listen", LISTEN, "Address and port for clients.", field=""),
    Key("host net", STRING, "Address for clients."),
    Key("port", INTEGER, "Port for clients; -1 lets the system choose."),
    Key("client_advertise", STRING, "`host:port` that clients are told instead of the address.", reloadable=True),
    Key("tls", (_MAP, _block("tls", "client_tls")), "TLS for clients.", reloadable=True),
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
        (_MAP, _block("user", "authorization")),
        "Users of the global account, or one user or token.",
        reloadable=True,
    ),
    Key("accounts", ("map of accounts", _block("account", "accounts")), "Accounts.", reloadable=True),
    Key(
        "mappings maps",
        ("map of mappings", _block("sharing", "mappings")),
        "Subjects of the global account that are mapped on publish.",
        reloadable=True,
    ),
    Key("no_auth_user", STRING, "User of clients without credentials."),
    Key("system_account system", ("string", _system_account), "Account that sees `$SYS` subjects."),
    Key("no_system_account no_system no_sys_acc", BOOLEAN, "Have no system account."),
    Key("default_sentinel", STRING, "Operator mode: JWT of clients without one.", reloadable=True),
    Key(
        "proxies",
        (_MAP, _block("proxy", "proxies")),
        "Proxies whose word about a client is trusted.",
        field="",
        reloadable=True,
    ),
    # Operator mode.
    Key(
        "operator operators roots root root_operators root_operator",
        ("list of files or JWTs", strict_text_list("operators", "string")),
        "Operators whose accounts are trusted.",
    ),
    Key(
        "trusted_keys trusted",
        ("list of operator keys", _block("operator", "trusted_keys")),
        "Public keys of trusted operators.",
    ),
    Key(
        "resolver account_resolver accounts_resolver",
        ("string or map", _block("operator", "resolver")),
        "Where account JWTs come from.",
    ),
    Key(
        "resolver_preload",
        ("map of strings", _block("operator", "resolver_preload")),
        "Account JWTs by account key.",
    ),
    Key(
        "resolver_pinned_accounts",
        ("list of strings", strict_text_list("resolver_pinned_accounts")),
        "Only these accounts may connect.",
    ),
    Key("resolver_tls", (_MAP, _block("tls", "client_tls")), "TLS to the resolver."),
    # Other listeners and subsystems.
    Key("websocket ws", (_MAP, _block("listener", "websocket")), "WebSocket listener."),
    Key("http_api", (_MAP, _block("listener", "http_api")), "HTTP for those who have no NATS client."),
    Key("leafnodes leaf", (_MAP, _block("listener", "leafnodes")), "Leaf node listener and remotes."),
    Key(
        "jetstream",
        ("boolean, `enabled`, `disabled` or map", _block("jetstream", "jetstream")),
        "Turn JetStream on, with its settings.",
    ),
    Key("store_dir storedir", STRING, "Directory of the streams, as in `jetstream`."),
    Key(
        "lake",
        ("map or list of maps", _block("lake", "lake")),
        "Streams as Delta or Iceberg tables, written by a process that the server starts.",
        reloadable=True,
    ),
    Key(
        "default_js_domain",
        ("map of strings", map_of_text("error default_js_domain config: unsupported type {}")),
        "JetStream domain of an account, by account.",
    ),
    Key("cluster", (_MAP, _block("cluster", "cluster")), "Routes to servers of the same cluster."),
    Key("gateway", (_MAP, _block("cluster", "gateway")), "Connections to other clusters."),
    Key("mqtt", (_MAP, _block("mqtt", "mqtt")), "MQTT listener."),
    Key("ocsp", ("boolean or map", _block("ocsp", "ocsp")), "OCSP stapling of the server's certificate."),
    Key("ocsp_cache", ("boolean or map", _block("ocsp", "ocsp_cache")), "Cache of OCSP answers about peers."),
)
