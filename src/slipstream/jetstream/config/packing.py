"""How a stream is compressed on the disk: `compression`, or the metadata `slipstream.compression: zstd` (ADR 96)."""

from __future__ import annotations

from typing import Final

from slipstream.jetstream.config.enums import Compression, StorageType
from slipstream.jetstream.config.metadata_switch import MetadataSwitch
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import invalid_config
from slipstream.jetstream.store.packed.codecs import Codec, is_known

__all__ = ["COMPRESSION_KEY", "check_packing", "codec_of"]

_ZSTD: Final = MetadataSwitch("slipstream.compression", "zstd")
COMPRESSION_KEY: Final = _ZSTD.key


def codec_of(config: StreamConfig) -> Codec:
    """What closed segments of a stream are packed with."""
    if _ZSTD.is_on(config):
        return Codec.ZSTD
    return Codec.S2 if config.compression is Compression.S2 else Codec.NONE


def check_packing(config: StreamConfig) -> None:
    """Whether a stream can be compressed as it asks for.

    Raises:
        TableError: 10052, in an unknown way, in memory, or the package for it is missing.
    """
    if not _ZSTD.is_asked(config):
        return
    if config.storage is not StorageType.FILE:
        raise invalid_config(f"{COMPRESSION_KEY} needs file storage")
    if not is_known(Codec.ZSTD):
        raise invalid_config(f"{COMPRESSION_KEY} needs the package zstandard, which this server does not have")
