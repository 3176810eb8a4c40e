"""The `_nats.*` metadata: which API level an asset needs (stored) and what this server has (added to answers only)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from slipstream.jetstream import headers
from slipstream.jetstream.config.enums import AckPolicy, PersistMode
from slipstream.jetstream.config.structs import ConsumerConfig, StreamConfig
from slipstream.version import API_LEVEL

__all__ = [
    "API_LEVEL",
    "REQUIRED_LEVEL_KEY",
    "consumer_level",
    "level_suffices",
    "same_but_for_versioning",
    "shown",
    "stream_level",
    "with_required_level",
]

REQUIRED_LEVEL_KEY: Final = "_nats.req.level"
_DYNAMIC_KEYS: Final = ("_nats.ver", "_nats.level")
_LEVEL = re.compile(rb"[+-]?[0-9]{1,18}")


def stream_level(config: StreamConfig) -> int:
    """The lowest API level that understands the configuration."""
    if config.allow_batched:
        return 4
    if (
        config.allow_msg_counter
        or config.allow_atomic
        or config.allow_msg_schedules
        or config.persist_mode is PersistMode.ASYNC
    ):
        return 2
    return 1 if config.allow_msg_ttl or config.subject_delete_marker_ttl_ns > 0 else 0


def consumer_level(config: ConsumerConfig) -> int:
    """The lowest API level that understands the configuration."""
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        return 4
    grouped = bool(config.priority_policy) or config.priority_timeout_ns != 0 or bool(config.priority_groups)
    return 1 if grouped or config.pause_until_ns is not None else 0


def with_required_level(metadata: dict[str, str], level: int) -> dict[str, str]:
    """Metadata as stored: with the level the asset needs, without what describes a server."""
    kept = {key: value for key, value in metadata.items() if key not in _DYNAMIC_KEYS}
    kept[REQUIRED_LEVEL_KEY] = str(level)
    return kept


def shown(metadata: dict[str, str], version: str) -> dict[str, str]:
    """Metadata as answered: with this server's version and level."""
    return {**metadata, "_nats.ver": version, "_nats.level": str(API_LEVEL)}


def same_but_for_versioning(new: StreamConfig, old: StreamConfig) -> bool:
    """Whether a repeated create asks for what is already there; who wrote the level first does not matter."""
    metadata = {key: value for key, value in new.metadata.items() if key not in _DYNAMIC_KEYS}
    metadata.pop(REQUIRED_LEVEL_KEY, None)
    if REQUIRED_LEVEL_KEY in old.metadata:
        metadata[REQUIRED_LEVEL_KEY] = old.metadata[REQUIRED_LEVEL_KEY]
    return msgspec.structs.replace(new, metadata=metadata) == old


def level_suffices(header: bytes) -> bool:
    """Whether this server has the API level a request's header asks for."""
    value = headers.find(header, b"Nats-Required-Api-Level") if header else None
    if not value:
        return True
    return _LEVEL.fullmatch(value) is not None and int(value) <= API_LEVEL
