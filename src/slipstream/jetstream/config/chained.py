"""Tamper-evident streams: asked for by the metadata `slipstream.chain`, so that any client can (ADR 64)."""

from __future__ import annotations

from typing import Final

from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.metadata_switch import MetadataSwitch
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import invalid_config

__all__ = ["CHAIN_KEY", "check_chained", "check_still_chained", "is_chained"]

_CHAIN: Final = MetadataSwitch("slipstream.chain", "blake2b")
CHAIN_KEY: Final = _CHAIN.key


def is_chained(config: StreamConfig) -> bool:
    """Whether a stream has a hash chain."""
    return _CHAIN.is_on(config)


def check_chained(config: StreamConfig) -> None:
    """Whether a stream can have the chain that it asks for.

    Raises:
        TableError: 10052, it is an unknown one, or the stream is not kept in files, or in several places.
    """
    if not _CHAIN.is_asked(config):
        return
    if config.storage is not StorageType.FILE:
        raise invalid_config(f"{CHAIN_KEY} needs file storage")
    if config.num_replicas > 1:
        raise invalid_config(f"{CHAIN_KEY} is not for replicated streams; a mirror with one replica can have it")


def check_still_chained(old: StreamConfig, new: StreamConfig) -> None:
    """A chain covers a stream from its first record to its last.

    Raises:
        TableError: 10052, an update begins or ends it.
    """
    _CHAIN.check_unchanged(old, new)
