"""Conditions a publisher states in headers, and header features this stream does not have switched on.

Each check gives the error to answer with, or None. They run in nats-server's order (`first_refusal`), because which of
two broken conditions is reported is visible to clients.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.admission.ttl import NEVER, message_ttl
from slipstream.jetstream.stream.features import counters, schedule_rules

__all__ = ["NEVER", "ConditionState", "first_refusal", "last_seq_of", "message_ttl", "sequence_of"]

_DIGITS = re.compile(rb"[0-9]{1,20}")
_NOT_A_SEQUENCE: Final = -1  # never equals a real one


class ConditionState(Protocol):
    """What conditions are compared with: the stream as assigned, not only as committed."""

    name: str
    allows_ttl: bool
    store: Store

    @property
    def config(self) -> StreamConfig:
        """The stream's configuration."""
        ...

    @property
    def last_seq(self) -> int:
        """Sequence assigned last."""
        ...

    def now_ns(self) -> int:
        """Wall clock."""
        ...


def first_refusal(state: ConditionState, subject: bytes, header: bytes, payload: bytes = b"") -> ApiError | None:
    """The first condition in `header` that does not hold, from Nats-Incr to the stream source."""
    wrong_increment = counters.refusal(header, payload, allowed=state.config.allow_msg_counter)
    if wrong_increment is not None:
        return wrong_increment
    expected_stream = headers.find(header, b"Nats-Expected-Stream")
    if expected_stream and expected_stream != state.name.encode():
        return TableError(table.STREAM_NOT_MATCH)
    if not state.allows_ttl and message_ttl(header):
        return TableError(table.MESSAGE_TTL_DISABLED)
    return (
        _subject_sequence(state, subject, header)
        or _stream_sequence(state, header)
        or schedule_rules.refusal(state.config, state.store, subject, header, state.now_ns())
        or (TableError(table.MESSAGE_SOURCE_HDR_NOT_ALLOWED) if headers.find(header, b"Nats-Stream-Source") else None)
    )


def _subject_sequence(state: ConditionState, subject: bytes, header: bytes) -> ApiError | None:
    value = headers.find(header, b"Nats-Expected-Last-Subject-Sequence")
    other = headers.find(header, b"Nats-Expected-Last-Subject-Sequence-Subject")
    if not value:
        return TableError(table.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID) if other else None
    actual = last_seq_of(state.store, other or subject)
    return None if sequence_of(value) == actual else TableError(table.STREAM_WRONG_LAST_SEQUENCE, seq=actual)


def _stream_sequence(state: ConditionState, header: bytes) -> ApiError | None:
    value = headers.find(header, b"Nats-Expected-Last-Sequence")
    if not value or sequence_of(value) == state.last_seq:
        return None
    return TableError(table.STREAM_WRONG_LAST_SEQUENCE, seq=state.last_seq)


def last_seq_of(store: Store, subject: bytes) -> int:
    """The newest sequence under a subject or wildcard as assigned, 0 if there is none."""
    return store.assigned.last_seq_of(subject)


def sequence_of(value: bytes) -> int:
    """The number in a header; one that no sequence equals if it is none."""
    return int(value) if _DIGITS.fullmatch(value) else _NOT_A_SEQUENCE
