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
from slipstream.jetstream.errors import ApiError as TableError
from slipstream.jetstream.gojson.times import parse_duration
from slipstream.jetstream.store.base import Store
from slipstream.kernels.subject import is_literal, is_valid_publish
from slipstream.limits import SECOND_NS

__all__ = ["NEVER", "ConditionState", "first_refusal", "last_seq_of", "message_ttl"]

NEVER: Final = -1
_INCREMENT = re.compile(rb"[+-]?[0-9]+")
_DIGITS = re.compile(rb"[0-9]{1,20}")
_NOT_A_SEQUENCE: Final = -1  # never equals a real one


class ConditionState(Protocol):
    """What conditions are compared with: the stream as assigned, not only as committed."""

    name: str
    allows_ttl: bool
    store: Store

    @property
    def last_seq(self) -> int:
        """Sequence assigned last."""
        ...


def first_refusal(state: ConditionState, subject: bytes, header: bytes) -> ApiError | None:
    """The first condition in `header` that does not hold, from Nats-Incr to the stream source."""
    if headers.find(header, b"Nats-Batch-Id"):
        return TableError(table.ATOMIC_PUBLISH_DISABLED)
    increment = headers.find(header, b"Nats-Incr")
    if increment:
        if not _INCREMENT.fullmatch(increment):
            return TableError(table.MESSAGE_INCR_INVALID)
        return TableError(table.MESSAGE_INCR_DISABLED)
    expected_stream = headers.find(header, b"Nats-Expected-Stream")
    if expected_stream and expected_stream != state.name.encode():
        return TableError(table.STREAM_NOT_MATCH)
    if not state.allows_ttl and message_ttl(header):
        return TableError(table.MESSAGE_TTL_DISABLED)
    return (
        _subject_sequence(state, subject, header)
        or _stream_sequence(state, header)
        or _schedule(subject, header)
        or (TableError(table.MESSAGE_SOURCE_HDR_NOT_ALLOWED) if headers.find(header, b"Nats-Stream-Source") else None)
    )


def _subject_sequence(state: ConditionState, subject: bytes, header: bytes) -> ApiError | None:
    value = headers.find(header, b"Nats-Expected-Last-Subject-Sequence")
    other = headers.find(header, b"Nats-Expected-Last-Subject-Sequence-Subject")
    if not value:
        return TableError(table.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID) if other else None
    actual = last_seq_of(state.store, other or subject)
    return None if _sequence(value) == actual else TableError(table.STREAM_WRONG_LAST_SEQUENCE, seq=actual)


def _stream_sequence(state: ConditionState, header: bytes) -> ApiError | None:
    value = headers.find(header, b"Nats-Expected-Last-Sequence")
    if not value or _sequence(value) == state.last_seq:
        return None
    return TableError(table.STREAM_WRONG_LAST_SEQUENCE, seq=state.last_seq)


def _schedule(subject: bytes, header: bytes) -> ApiError | None:
    """Schedules are not available; what is refused before that is nats-server's order of checks."""
    if headers.find(header, b"Nats-Schedule"):
        return TableError(table.MESSAGE_SCHEDULES_DISABLED)
    following = headers.find(header, b"Nats-Schedule-Next")
    scheduler = headers.find(header, b"Nats-Scheduler")
    if not following:
        return TableError(table.MESSAGE_SCHEDULES_SCHEDULER_INVALID) if scheduler else None
    usable = scheduler and scheduler != subject and is_valid_publish(scheduler)
    if following != b"purge" or not usable:
        return TableError(table.MESSAGE_SCHEDULES_SCHEDULER_INVALID)
    return TableError(table.MESSAGE_SCHEDULES_DISABLED)


def last_seq_of(store: Store, subject: bytes) -> int:
    """The newest sequence under a subject or wildcard, 0 if there is none."""
    if is_literal(subject):
        return store.subject_state(subject).last_seq
    return store.filtered_state([subject], 0).last_seq


def _sequence(value: bytes) -> int:
    return int(value) if _DIGITS.fullmatch(value) else _NOT_A_SEQUENCE


def message_ttl(header: bytes) -> int | None:
    """Seconds a message asks to live, `NEVER`, 0 if it does not ask, None if what it asks is not a time.

    None is falsy like 0 on purpose: a bad TTL is reported late, when all other conditions hold.
    """
    value = headers.find(header, b"Nats-TTL")
    if not value:
        return 0
    if value.lower() == b"never":
        return NEVER
    duration_ns = parse_duration(value.decode("latin-1"))
    if duration_ns is not None:
        return duration_ns // SECOND_NS if duration_ns >= SECOND_NS else None
    return int(value) if _DIGITS.fullmatch(value) and int(value) < 2**63 else None
