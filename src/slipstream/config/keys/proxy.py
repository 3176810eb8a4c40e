"""The block `proxies`: whose word about a client is trusted."""

from __future__ import annotations

from typing import Final

from slipstream.config.checker import Checker, Key, KeyTable, go_type, quote, read_map, refusal
from slipstream.config.parser import Value
from slipstream.config.readers import text
from slipstream.config.subject_rules import is_public_key

__all__ = ["PROXIES", "proxies"]


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


def proxies(checker: Checker, value: Value, _key: str) -> dict[str, object]:
    """Which proxies sign for their clients."""
    if not isinstance(value.data, dict):
        raise refusal(value, f"expected proxies to be a map/struct, got {go_type(value)}")
    return read_map(checker, value, PROXIES)
