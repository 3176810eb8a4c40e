"""What a stream's settings make of one message: roll-ups, discard-new limits, life times beside delete markers."""

from __future__ import annotations

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson.scan import go_quote
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import Damaged
from slipstream.units import SECOND_NS

__all__ = ["at_least_marker_ttl", "no_place", "wrong_rollup"]


def wrong_rollup(config: StreamConfig, rollup: bytes) -> ApiError | None:
    """Why a message must not roll up what came before it; `rollup` is what it asks for, in small letters."""
    if not rollup:
        return None
    if not config.allow_rollup_hdrs or config.deny_purge:
        return TableError(table.STREAM_ROLLUP_FAILED, err="rollup not permitted")
    if rollup not in (b"sub", b"all"):
        shown = go_quote(rollup.decode("utf-8", "replace"))
        return TableError(table.STREAM_ROLLUP_FAILED, err=f"rollup value invalid: {shown}")
    return None


def no_place(config: StreamConfig, store: Store, subject: bytes, header: bytes, size: int) -> ApiError | None:
    """Discard-new: whether a limit leaves no place. A full subject replaces its oldest, so it may pass the rest."""
    replaced = 0  # sequence of the message that would make place
    if config.max_msgs_per_subject > 0:
        state = store.assigned.subject_state(subject)
        if state.count >= config.max_msgs_per_subject:
            if config.discard_new_per_subject and not headers.find(header, b"Nats-Rollup"):
                return _full("maximum messages per subject exceeded")
            replaced = state.first_seq
    if 0 < config.max_msgs <= store.assigned.messages and not replaced:
        return _full("maximum messages exceeded")
    if 0 < config.max_bytes < store.assigned.size_bytes + size:
        oldest = store.get(replaced) if replaced else None
        freed = 0
        if oldest is not None and not isinstance(oldest, Damaged):
            freed = store.message_bytes(len(oldest.subject), len(oldest.headers), len(oldest.payload))
        if freed < size:
            return _full("maximum bytes exceeded")
    return None


def at_least_marker_ttl(config: StreamConfig, header: bytes, ttl: int) -> tuple[bytes, int]:
    """A message must outlive a marker on its subject, else the marker could be missed."""
    least = config.subject_delete_marker_ttl_ns // SECOND_NS
    if not 0 < ttl < least or config.max_msgs_per_subject == 1:
        return header, ttl
    header = headers.append(headers.remove(header, b"Nats-TTL"), b"Nats-TTL", b"%d" % least)
    return header, least


def _full(text: str) -> ApiError:
    return TableError(table.STREAM_STORE_FAILED, err=text)
