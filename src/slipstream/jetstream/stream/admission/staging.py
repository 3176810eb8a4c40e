"""Checks of messages that are stored together: each against the stream and against those before it in its batch.

The order of checks is nats-server's for batches, which differs from that of a single publish. Nothing is stored here;
what passes becomes a `Prepared` message, with headers and body as they have to be stored.

Inside a batch, a condition on the stream's last sequence is only for its first message, a condition on a subject only
for one that the batch has not written to, and so is a roll-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.config.enums import DiscardPolicy
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.errors_table import ErrorSpec
from slipstream.jetstream.gojson.scan import go_quote
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.admission.conditions import last_seq_of, sequence_of
from slipstream.jetstream.stream.admission.dedup import MessageIds
from slipstream.jetstream.stream.admission.ttl import message_ttl
from slipstream.jetstream.stream.features import counters, schedule_rules
from slipstream.limits import STREAM_HEADER_BYTES_MAX

__all__ = ["Prepared", "Refused", "StagedState", "Staging"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A message that may be stored."""

    subject: bytes
    header: bytes
    payload: bytes
    message_id: bytes
    rollup: bytes
    ttl: int
    """Seconds, 0 or `NEVER`."""


class Refused(NamedTuple):
    """Why a message may not be stored."""

    error: ApiError
    is_repeated: bool = False
    """Its message id was seen before; with this sequence, if it is not in the same batch."""
    seq: int = 0


@dataclass(slots=True)
class _Written:
    """What a batch adds under one subject."""

    count: int
    size_bytes: int
    is_schedule: bool


class StagedState(Protocol):
    """The stream as assigned."""

    store: Store
    ids: MessageIds

    @property
    def config(self) -> StreamConfig:
        """The stream's configuration."""
        ...

    @property
    def counter(self) -> counters.Counter | None:
        """How it counts, if it does."""
        ...

    @property
    def last_seq(self) -> int:
        """Sequence assigned last."""
        ...

    @property
    def max_payload_bytes(self) -> int:
        """Largest message of the server."""
        ...

    def now_ns(self) -> int:
        """Wall clock."""
        ...


class Staging:
    """The messages of one batch that passed so far."""

    def __init__(self, state: StagedState) -> None:
        """Nothing staged yet."""
        self._state = state
        self._count = 0
        self._ids: set[bytes] = set()
        self._written: dict[bytes, _Written] = {}
        self._totals: dict[bytes, counters.Total] = {}
        self._expected: dict[bytes, int] = {}  # subjects whose last sequence was asked for, and what it was

    def check(self, subject: bytes, header: bytes, payload: bytes) -> Prepared | Refused:
        """Check the next message; if it passes, later ones see it."""
        config = self._state.config
        error = self._bad_header(header, payload)
        if error is not None:
            return Refused(error)
        message_id = (headers.find(header, b"Nats-Msg-Id") or b"") if header else b""
        if message_id:
            repeated = self._repeated(message_id)
            if repeated is not None:
                return repeated
        if header and headers.find(header, b"Nats-Stream-Source"):
            return Refused(TableError(table.MESSAGE_SOURCE_HDR_NOT_ALLOWED))
        counted = self._counted(subject, header, payload)
        if isinstance(counted, ApiError):
            return Refused(counted)
        if counted is not None:
            header, payload, self._totals[subject] = counted
        rollup = b""
        is_schedule = False
        if header:
            error = self._wrong_sequence(header) or self._wrong_subject_sequence(subject, header)
            error = error or self._wrong_schedule(subject, header)
            if error is not None:
                return Refused(error)
            is_schedule = schedule_rules.is_schedule(header)
            header = schedule_rules.with_rollup(header, self._state.now_ns())
            rollup = (headers.find(header, b"Nats-Rollup") or b"").lower()
            error = self._wrong_rollup(subject, rollup)
            if error is not None:
                return Refused(error)
        self._note(subject, header, payload, is_schedule)
        error = self._no_room(subject, header) if config.discard is DiscardPolicy.NEW else None
        if error is not None:
            return Refused(error)
        self._count += 1
        ttl = message_ttl(header) if header else 0
        assert ttl is not None
        return Prepared(subject, header, payload, message_id, rollup, ttl)

    def _bad_header(self, header: bytes, payload: bytes) -> ApiError | None:
        if not header:
            return None
        config = self._state.config
        if len(header) > STREAM_HEADER_BYTES_MAX:
            return TableError(table.STREAM_HEADER_EXCEEDS_MAXIMUM)
        error = counters.refusal(header, payload, allowed=config.allow_msg_counter)
        if error is not None:
            return error
        expected = headers.find(header, b"Nats-Expected-Stream")
        if expected and expected != config.name.encode():
            return TableError(table.STREAM_NOT_MATCH)
        ttl = message_ttl(header)
        if ttl != 0 and not config.allow_msg_ttl:
            return TableError(table.MESSAGE_TTL_DISABLED)
        return TableError(table.MESSAGE_TTL_INVALID) if ttl is None else None

    def _repeated(self, message_id: bytes) -> Refused | None:
        error = TableError(table.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE)
        if message_id in self._ids:
            return Refused(error, is_repeated=True)
        original = self._state.ids.find(message_id, self._state.now_ns())
        if original is not None:
            return Refused(error, is_repeated=True, seq=original)
        self._ids.add(message_id)
        return None

    def _counted(self, subject: bytes, header: bytes, payload: bytes) -> counters.Counted | ApiError | None:
        state = self._state
        if state.counter is None:
            return None
        counted = state.counter.counted(subject, header, payload, self._totals.get(subject))
        if isinstance(counted, ApiError):
            return counted
        most = state.max_payload_bytes
        if state.config.max_msg_size >= 0:
            most = min(most, state.config.max_msg_size)
        if len(counted.header) + len(counted.payload) > most:
            return TableError(table.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
        return counted

    def _wrong_sequence(self, header: bytes) -> ApiError | None:
        expected = headers.find(header, b"Nats-Expected-Last-Sequence")
        if not expected:
            return None
        actual = self._state.last_seq + self._count
        if sequence_of(expected) != actual:
            return TableError(table.STREAM_WRONG_LAST_SEQUENCE, seq=actual)
        return TableError(table.STREAM_WRONG_LAST_SEQUENCE_CONSTANT) if self._written else None

    def _wrong_subject_sequence(self, subject: bytes, header: bytes) -> ApiError | None:
        value = headers.find(header, b"Nats-Expected-Last-Subject-Sequence")
        other = headers.find(header, b"Nats-Expected-Last-Subject-Sequence-Subject")
        if not value:
            return TableError(table.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID) if other else None
        asked = other or subject
        if asked in self._written:
            return TableError(table.STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
        actual = self._expected.get(asked)
        if actual is None:
            actual = last_seq_of(self._state.store, asked)
        if sequence_of(value) != actual:
            return TableError(table.STREAM_WRONG_LAST_SEQUENCE, seq=actual)
        self._expected[asked] = actual
        return None

    def _wrong_schedule(self, subject: bytes, header: bytes) -> ApiError | None:
        state = self._state
        scheduler = headers.find(header, b"Nats-Scheduler") or b""
        written = self._written.get(scheduler) if headers.find(header, b"Nats-Schedule-Next") else None
        if written is None:
            return schedule_rules.refusal(state.config, state.store, subject, header, state.now_ns())
        # It cancels what this batch has written: the store does not know that yet.
        spec: ErrorSpec | None = schedule_rules.wrong_cancel(state.config, subject, header)
        if spec is None and not written.is_schedule:
            spec = table.MESSAGE_SCHEDULES_SCHEDULER_INVALID
        return None if spec is None else TableError(spec)

    def _wrong_rollup(self, subject: bytes, rollup: bytes) -> ApiError | None:
        config = self._state.config
        if not rollup:
            return None
        if not config.allow_rollup_hdrs or config.deny_purge:
            complaint = "rollup not permitted"
        elif rollup == b"sub" and subject in self._written:
            complaint = "batch rollup sub invalid"
        elif rollup == b"all" and self._written:
            complaint = "batch rollup all invalid"
        elif rollup not in (b"sub", b"all"):
            complaint = f"rollup value invalid: {go_quote(rollup.decode('utf-8', 'replace'))}"
        else:
            return None
        return TableError(table.STREAM_ROLLUP_FAILED, err=complaint)

    def _note(self, subject: bytes, header: bytes, payload: bytes, is_schedule: bool) -> None:
        size = self._state.store.message_bytes(len(subject), len(header), len(payload))
        written = self._written.get(subject)
        if written is None:
            self._written[subject] = _Written(1, size, is_schedule)
        else:
            written.count += 1
            written.size_bytes += size
            written.is_schedule = is_schedule

    def _no_room(self, subject: bytes, header: bytes) -> ApiError | None:
        """Discard-new: whether the limits leave no place for the batch so far."""
        config, store = self._state.config, self._state.store
        complaint = ""
        if 0 < config.max_msgs < store.assigned.messages + sum(each.count for each in self._written.values()):
            complaint = "maximum messages exceeded"
        elif 0 < config.max_bytes < store.assigned.size_bytes + sum(each.size_bytes for each in self._written.values()):
            complaint = "maximum bytes exceeded"
        elif config.discard_new_per_subject and config.max_msgs_per_subject > 0:
            count = store.assigned.subject_state(subject).count + self._written[subject].count
            if count > config.max_msgs_per_subject and not (header and headers.find(header, b"Nats-Rollup")):
                complaint = "maximum messages per subject exceeded"
        return TableError(table.STREAM_STORE_FAILED, err=complaint) if complaint else None
