"""What differs between two configurations, as lines for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from slipstream.quantities import format_bytes, format_duration

__all__ = ["differences", "user_metadata"]

_RESERVED_METADATA: Final = "_nats."


def user_metadata(config: Mapping[str, Any]) -> dict[str, str]:
    """Metadata without what the server adds."""
    metadata = config.get("metadata") or {}
    return {key: str(value) for key, value in metadata.items() if not key.startswith(_RESERVED_METADATA)}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Lines `- field: value` and `+ field: value` for what differs."""
    for field in sorted({*old, *new}):
        before, after = old.get(field), new.get(field)
        if before == after or (not before and not after):
            continue
        if before not in (None, [], {}):
            yield f"- {field}: {_written(field, before)}"
        if after not in (None, [], {}):
            yield f"+ {field}: {_written(field, after)}"


# Fields of streams and consumers that are durations or sizes: people do not read nanoseconds.
_DURATIONS: Final = frozenset(
    (
        "ack_wait",
        "duplicate_window",
        "idle_heartbeat",
        "inactive_threshold",
        "max_age",
        "max_expires",
        "priority_timeout",
        "subject_delete_marker_ttl",
    )
)
_SIZES: Final = frozenset(("max_bytes", "max_msg_size"))


def _written(field: str, value: Any) -> str:
    """A value of a configuration, as the flags take it."""
    if isinstance(value, int) and value > 0 and field in _DURATIONS:
        return format_duration(value)
    if isinstance(value, int) and value > 0 and field in _SIZES:
        return format_bytes(value)
    if field == "backoff" and isinstance(value, list):
        return ", ".join(format_duration(step) for step in value)
    return json.dumps(value)
