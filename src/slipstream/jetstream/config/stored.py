"""What a store keeps as "configuration": the stream's, and when the stream was made."""

from __future__ import annotations

import msgspec

from slipstream.jetstream.config.structs import STREAM_CONFIG, StreamConfig
from slipstream.jetstream.gojson import JsonError, encode
from slipstream.jetstream.gojson.bind import Field, GoStruct
from slipstream.jetstream.gojson.scalars import BOOL, TIME
from slipstream.jetstream.gojson.times import format_time

__all__ = ["from_stored", "to_stored"]


class _Stored(msgspec.Struct, kw_only=True):
    created_ns: int = 0
    config: StreamConfig = msgspec.field(default_factory=StreamConfig)
    republish_outside: bool = False


_STORED = GoStruct(
    "StoredStream",
    _Stored,
    [
        Field("created", TIME, attribute="created_ns"),
        Field("config", STREAM_CONFIG),
        Field("republish_outside", BOOL),
    ],
)


def to_stored(config: StreamConfig, created_ns: int) -> bytes:
    """The bytes to give to a store."""
    fields: dict[str, object] = {"created": format_time(created_ns), "config": STREAM_CONFIG.wire(config)}
    if config.republish is not None and config.republish.outside:
        fields["republish_outside"] = True
    return encode(fields)


def from_stored(data: bytes) -> tuple[StreamConfig, int]:
    """Configuration and time of creation.

    Raises:
        JsonError: the bytes are something else.
    """
    stored = _STORED.decode(data)
    if not stored.config.name:
        raise JsonError("the stored configuration has no stream name")
    if stored.config.republish is not None:
        stored.config.republish.outside = stored.republish_outside
    return stored.config, stored.created_ns
