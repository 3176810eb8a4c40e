"""The keys of `accounts`: their users, limits, JetStream; what they share is in `sharing`."""

from __future__ import annotations

from typing import Final

from slipstream.config.account_options import (
    AccountJetStreamOptions,
    AccountLimitsOptions,
    AccountOptions,
    MsgTraceOptions,
)
from slipstream.config.checker import (
    Checker,
    Key,
    KeyTable,
    Kind,
    go_type,
    quote,
    read_map,
    refusal,
)
from slipstream.config.keys.declared import DECLARED
from slipstream.config.keys.sharing import exports, imports, mappings, percent
from slipstream.config.keys.user import permissions, users, with_default_permissions
from slipstream.config.options import GLOBAL_ACCOUNT
from slipstream.config.parser import Value
from slipstream.config.readers import INTEGER, text
from slipstream.config.record import replace
from slipstream.config.subject_rules import ACCOUNT_KEY, is_literal, is_public_key, is_valid_subject

__all__ = [
    "ACCOUNT",
    "ACCOUNT_JETSTREAM",
    "LIMITS",
    "MSG_TRACE",
    "accounts",
]


def accounts(checker: Checker, value: Value, _key: str) -> tuple[AccountOptions, ...]:
    """A map of accounts, or an array of names."""
    if isinstance(value.data, list):
        return _account_names(checker, value.data)
    if not isinstance(value.data, dict):
        return ()  # nats-server ignores any other type here
    found = []
    for name, entry in value.data.items():
        if entry.used_as_variable:
            continue
        if not isinstance(entry.data, dict):
            checker.error(refusal(entry, "Expected map entries for accounts"))
        elif name == GLOBAL_ACCOUNT:
            checker.error(refusal(entry, f"{quote(name)} is a Reserved Account"))
        else:
            account = AccountOptions(name, **read_map(checker, entry, ACCOUNT))  # type: ignore[arg-type]
            own_users = with_default_permissions(account.users, account.default_permissions)
            found.append(replace(account, users=own_users))
    return tuple(found)


def _account_names(checker: Checker, entries: list[Value]) -> tuple[AccountOptions, ...]:
    found: dict[str, AccountOptions] = {}
    for entry in entries:
        name = text(checker, entry, "accounts")
        if name == GLOBAL_ACCOUNT:
            checker.error(refusal(entry, f"{quote(name)} is a Reserved Account"))
        elif name in found:
            checker.error(refusal(entry, f"Duplicate Account Entry: {name}"))
        else:
            found[name] = AccountOptions(name)
    return tuple(found.values())


def _account_nkey(_checker: Checker, value: Value, _key: str) -> str:
    if not isinstance(value.data, str) or not is_public_key(value.data, ACCOUNT_KEY):
        raise refusal(value, f"Not a valid public nkey for an account: {quote(str(value.plain()))}")
    return value.data


# --- limits, JetStream, tracing --------------------------------------------------------------------------------------

LIMITS: Final = KeyTable(
    Key("max_connections max_conn", INTEGER, "Client connections of the account.", reloadable=True),
    Key("max_subscriptions max_subs", INTEGER, "Subscriptions of the account.", reloadable=True),
    Key("max_payload max_pay", ("size", INTEGER[1]), "Size of a message of the account.", reloadable=True),
    Key("max_leafnodes max_leafs", INTEGER, "Leaf node connections of the account.", reloadable=True),
    unknown="Unknown field {} parsing account limits",
)


def _limits(checker: Checker, value: Value, _key: str) -> AccountLimitsOptions:
    if not isinstance(value.data, dict):
        raise refusal(value, f"Expected account limits to be a map/struct, got {value.plain()}")
    return AccountLimitsOptions(**read_map(checker, value, LIMITS))  # type: ignore[arg-type]


def _size(_checker: Checker, value: Value, key: str) -> int:
    if not isinstance(value.data, int) or isinstance(value.data, bool):
        raise refusal(value, f"Expected a parseable size for {quote(key)}, got {value.plain()}")
    return value.data


def _required(_checker: Checker, value: Value, key: str) -> bool:
    if not isinstance(value.data, bool):
        raise refusal(value, f"Expected a parseable bool for {quote(key)}, got {value.plain()}")
    return value.data


def _cluster_traffic(_checker: Checker, value: Value, key: str) -> str:
    if not isinstance(value.data, str):
        wanted = f"Expected either 'system' or 'owner' string value for {quote(key)}"
        raise refusal(value, f"{wanted}, got {value.plain()}")
    if value.data not in ("system", "owner", ""):
        raise refusal(value, f"Expected 'system' or 'owner' string value for {quote(key)}, got {value.data}")
    return value.data or "system"


_SIZE: Final[Kind] = ("size", _size)
_COUNT: Final[Kind] = ("integer", _size)

ACCOUNT_JETSTREAM: Final = KeyTable(
    Key("max_memory max_mem mem memory", _SIZE, "Memory its streams may use; -1 means no limit.", reloadable=True),
    Key(
        "max_store max_file max_disk store disk",
        _SIZE,
        "Disk its streams may use; -1 means no limit.",
        reloadable=True,
    ),
    Key("max_streams streams", _COUNT, "Number of streams.", reloadable=True),
    Key("max_consumers consumers", _COUNT, "Number of consumers of a stream.", reloadable=True),
    Key(
        "max_bytes_required max_stream_bytes max_bytes",
        ("boolean", _required),
        "Streams must have a size limit.",
        reloadable=True,
    ),
    Key(
        "mem_max_stream_bytes memory_max_stream_bytes",
        _SIZE,
        "Largest size limit of a stream in memory.",
        reloadable=True,
    ),
    Key(
        "disk_max_stream_bytes store_max_stream_bytes",
        _SIZE,
        "Largest size limit of a stream on disk.",
        reloadable=True,
    ),
    Key("max_ack_pending", _COUNT, "Largest `max_ack_pending` of a consumer.", reloadable=True),
    Key(
        "cluster_traffic",
        ("`system` or `owner`", _cluster_traffic),
        "Account that replication traffic is counted for.",
        reloadable=True,
    ),
    Key(
        "declared",
        DECLARED,
        "Streams, consumers and buckets that there should be; see [declared streams](features/declared.md).",
        reloadable=True,
    ),
)


def _jetstream(checker: Checker, value: Value, _key: str) -> AccountJetStreamOptions | None:
    data = value.data
    if isinstance(data, dict):
        return AccountJetStreamOptions(**read_map(checker, value, ACCOUNT_JETSTREAM))  # type: ignore[arg-type]
    if isinstance(data, str):
        if data.lower() not in ("enabled", "enable", "disabled", "disable"):
            raise refusal(value, f"Expected 'enabled' or 'disabled' for string value, got '{data}'")
        return AccountJetStreamOptions() if data.lower().startswith("enable") else None
    if isinstance(data, bool):
        return AccountJetStreamOptions() if data else None
    raise refusal(value, f"Expected map, bool or string to define JetStream, got {go_type(value)}")


def _trace_dest(_checker: Checker, value: Value, key: str) -> str:
    if not isinstance(value.data, str):
        raise refusal(value, f"Field {quote(key)} should be a string, got {go_type(value)}")
    if not is_valid_subject(value.data) or not is_literal(value.data):
        raise refusal(value, f"Trace destination {quote(value.data)} is not valid")
    return value.data


def _trace_sampling(_checker: Checker, value: Value, key: str) -> int:
    return percent(
        value,
        'Invalid trace destination sampling value "{}"',
        f"Trace destination sampling field {quote(key)} should be an integer or a percentage, got {{}}",
        "Ttrace destination sampling value {} is invalid, needs to be [1..100]",
    )


MSG_TRACE: Final = KeyTable(
    Key("dest", ("subject", _trace_dest), "Where traces are published.", reloadable=True),
    Key("sampling", ("percent", _trace_sampling), "Share of sampled requests that are traced.", reloadable=True),
    unknown='Unknown field {} parsing account message trace map/struct "msg_trace"',
)


def _msg_trace(checker: Checker, value: Value, key: str) -> MsgTraceOptions | None:
    if isinstance(value.data, str):
        return MsgTraceOptions(_trace_dest(checker, value, key))
    if not isinstance(value.data, dict):
        wanted = f"Expected account message trace {quote(key)} to be a string or a map/struct"
        raise refusal(value, f"{wanted}, got {go_type(value)}")
    fields = read_map(checker, value, MSG_TRACE)
    if "dest" not in fields:
        if "sampling" in fields:
            checker.warnings.append(refusal(value, "Trace destination sampling ignored since no destination was set"))
        return None
    return MsgTraceOptions(**fields)  # type: ignore[arg-type]  # the table names its fields


ACCOUNT: Final = KeyTable(
    Key("nkey", ("account key", _account_nkey), "Public key of the account (`A...`).", reloadable=True),
    Key("users", ("list of users", users), "Users of the account.", reloadable=True),
    Key("default_permissions", ("map", permissions), "Permissions of users that have none.", reloadable=True),
    Key("exports", ("list of exports", exports), "What others may import.", reloadable=True),
    Key("imports", ("list of imports", imports), "What it uses of others.", reloadable=True),
    Key("mappings maps", ("map of mappings", mappings), "Subjects that are mapped on publish.", reloadable=True),
    Key(
        "jetstream",
        ("boolean, `enabled`, `disabled` or map", _jetstream),
        "Turn JetStream on for the account, with limits.",
        reloadable=True,
    ),
    Key("limits", ("map", _limits), "Limits of the account.", reloadable=True),
    Key("msg_trace trace_dest", ("subject or map", _msg_trace), "Where message traces go.", reloadable=True),
)
