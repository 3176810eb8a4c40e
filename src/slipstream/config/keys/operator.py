"""Operator mode in a configuration: trusted keys, and where tokens of accounts come from."""

from __future__ import annotations

import re
from typing import Final

from slipstream.config.checker import Checker, Key, KeyTable, go_type, quote, read_map, refusal
from slipstream.config.options import ResolverOptions
from slipstream.config.parser import Value
from slipstream.config.readers import BOOLEAN, INTEGER, STRING, duration_text, strict_text_list
from slipstream.config.subject_rules import OPERATOR_KEY, is_public_key

__all__ = ["RESOLVER", "resolver", "resolver_preload", "trusted_keys"]

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


def resolver(checker: Checker, value: Value, _key: str) -> ResolverOptions:
    """`MEMORY`, `URL(...)`, or a map for a directory of tokens."""
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


def resolver_preload(checker: Checker, value: Value, _key: str) -> dict[str, str]:
    """Tokens of accounts that need no resolver."""
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


def trusted_keys(checker: Checker, value: Value, key: str) -> tuple[str, ...]:
    """Public keys of operators."""
    keys = strict_text_list("trusted")(checker, value, key)
    assert isinstance(keys, tuple)
    entries = value.data if isinstance(value.data, list) else [value]
    for public_key, entry in zip(keys, entries, strict=True):
        if not is_public_key(public_key, OPERATOR_KEY):
            raise refusal(entry, f"trust key {quote(public_key)} required to be a valid public operator nkey")
    return keys
