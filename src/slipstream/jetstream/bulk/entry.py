"""The unit of one commit: messages joining the log, each held to what a publish is held to.

Most messages are ordinary and appended by the kernel. The others are looked at here one by one: those with headers
that begin with `Nats-`, and all of them when the stream's settings concern each message (`careful`).

Invariant: nothing outside the unit changes before `close`: message ids, deadlines, limits and republished copies follow
from the unit only when it is whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.bulk import errors
from slipstream.jetstream.bulk.parts import Part
from slipstream.jetstream.config.enums import DiscardPolicy, RetentionPolicy
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.bulk import unit_subject_state
from slipstream.jetstream.store.values import SEQ_LAST, SubjectState
from slipstream.jetstream.stream.admission.appends import exhausted
from slipstream.jetstream.stream.admission.conditions import message_ttl
from slipstream.jetstream.stream.admission.settings_rules import at_least_marker_ttl
from slipstream.jetstream.stream.admission.ttl import deadline
from slipstream.jetstream.stream.commit.point import AfterCommit
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels.bulk import stagedrows
from slipstream.kernels.bulk.stagedrows import StagedRows
from slipstream.limits import STREAM_HEADER_BYTES_MAX

__all__ = ["Entry"]

# Headers that mean something else than a message to store, and conditions that look beyond its own subject.
_NOT_COMMITTED = (
    b"Nats-Rollup",
    b"Nats-Incr",
    b"Nats-Batch-Id",
    b"Nats-Schedule",
    b"Nats-Scheduler",
    b"Nats-Stream-Source",
    b"Nats-Expected-Last-Msg-Id",
    b"Nats-Expected-Last-Subject-Sequence-Subject",
)
# Of these a stream keeps more than the message: a copy of the message is not a copy of what it stands for.
_NOT_COPIED = (b"Nats-Incr", b"Nats-Schedule", b"Nats-Scheduler")
_SLICE_ROWS = 1 << 30


class Entry:
    """Messages of one commit on their way into a stream."""

    def __init__(self, stream: Stream, ports: Ports, *, count: int, copied: bool = False) -> None:
        """Open the unit; publishes to the stream wait from here on.

        With `copied` the messages come from another stream, which has done what their headers ask for: conditions,
        message ids, roll-ups and batches are kept as they are and mean nothing here, as in a mirror.

        Raises:
            ApiError: the stream takes no messages, or not as many.
            StorageFault: the store takes no changes.
        """
        config = stream.config
        if config.sealed:
            raise TableError(table.STREAM_SEALED)
        if config.mirror is not None:
            raise TableError(errors.INVALID_REQUEST, err="a mirror takes no messages")
        if config.allow_msg_counter:
            raise TableError(table.MESSAGE_INCR_MISSING)
        # What was staged is counted against the account already.
        refusal = stream.ingest.admission.no_resources(0)
        if refusal is not None:
            raise refusal
        self._stream = stream
        self._ports = ports
        self._copied = copied
        self._discards_new = config.discard is DiscardPolicy.NEW
        self._interest_only = config.retention is RetentionPolicy.INTEREST
        if self._discards_new and 0 < config.max_msgs < stream.store.assigned.messages + count:
            raise TableError(table.STREAM_STORE_FAILED, err="maximum messages exceeded")
        self.careful = (
            self._discards_new
            or self._interest_only
            or config.max_msgs_per_subject > 0
            or config.subject_transform is not None
            or config.allow_msg_schedules
            or stream.appends.republisher is not None
        )
        self._subjects = tuple(subject.encode() for subject in config.subjects)
        if stream.store.last_seq + count > SEQ_LAST:
            raise exhausted()
        self._rows = StagedRows()
        stream.store.begin_atomic()
        stream.ingest.hold_back()
        self.first_seq = self.next_seq = stream.store.last_seq + 1
        self.ts_ns = max(ports.now_ns(), stream.appends.last_ts_ns)
        self.count = 0
        self.left_out = 0
        self._last_id = b""
        self._ids: dict[bytes, int] = {}
        self._expiries: list[tuple[int, int]] = []
        self._effects: list[AfterCommit] = []
        self._newest: dict[bytes, int] = {}  # by subject, where a message ends a schedule on its subject
        self._added: dict[bytes, int] = {}  # messages by subject, where a limit per subject needs them
        self._bytes = 0  # by the formula of the limits, when careful

    def begin_part(self) -> None:
        """The next bytes are the first of a part."""
        limit, most = self._stream.config.max_msg_size, self._stream.ingest.admission.max_payload_bytes
        self._rows = StagedRows(
            self._subjects, min(limit, most) if limit >= 0 else most, STREAM_HEADER_BYTES_MAX, self.careful
        )

    def end_part(self, part: Part) -> None:
        """Compare what came with what was staged.

        Raises:
            ApiError: they differ.
        """
        rows = self._rows
        if rows.unused or (rows.rows, rows.crc) != (part.count, part.crc):
            raise TableError(errors.PART_INVALID, err=f"{part.name} is not what was staged")

    def append(self, data: bytes) -> None:
        """Add the next bytes of the part.

        Raises:
            ApiError: a message is refused; the unit has to be given up.
            StorageFault: the store takes no more; likewise.
        """
        rows, store = self._rows, self._stream.store
        rows.feed(data)
        self.ts_ns = max(self._ports.now_ns(), self.ts_ns)
        writer = None  # the first message of a slice goes through the store, which then has room for more
        while True:
            done, reason = rows.append_to(writer, self.next_seq, self.ts_ns, _SLICE_ROWS if writer else 0)
            self.next_seq += done
            self.count += done
            if done:
                self._last_id = b""
            if reason == stagedrows.MORE:
                return
            if reason == stagedrows.SPECIAL:
                self._add_special()
            elif reason in (stagedrows.LIMIT, stagedrows.NO_ROOM):
                subject, header, payload = rows.current()
                store.append_atomic(self.next_seq, self.ts_ns, subject, header, payload)
                self._took(b"")
            else:
                raise self._refusal(reason)
            rows.skip()
            writer = store.bulk.unit_writer()

    def close(self, notes: Mapping[bytes, bytes]) -> None:
        """Make the unit whole, and let everything follow that follows from its messages.

        Raises:
            StorageFault: the store takes no changes.
            ValueError: there are too many notes.
        """
        stream = self._stream
        stream.store.end_atomic(notes)
        if self.count:
            stream.appends.unit_stored(self.next_seq - 1, self.ts_ns, self._last_id, self._ids)
        for effect in self._effects:
            stream.committer.after(effect)
        if stream.appends.schedules is not None:
            for subject, seq in self._newest.items():
                stream.appends.schedules.stored(seq, self.ts_ns, subject, b"")
        stream.unit_stored(self._added, self._expiries)

    def give_up(self) -> None:
        """As if it had never begun."""
        self._stream.store.abort_atomic()

    # --- one message ------------------------------------------------------------------------------------------------

    def _add_special(self) -> None:
        """A message that has to be looked at."""
        stream = self._stream
        subject, header, payload = self._rows.current()
        if self.careful:
            # Whatever is asked about the subject is asked about the one it is stored under.
            subject = stream.ingest.admission.transformed(subject)
        message_id = b""
        if header:
            header = headers.remove(headers.without_status(header), b"Nats-Request-Info")
        if header and b"Nats-" in header:
            refusal = self._broken_condition(subject, header)
            if refusal is not None:
                raise self._named(refusal)
            message_id = headers.find(header, b"Nats-Msg-Id") or b""
            if message_id and not self._copied and self._is_repeated(message_id):
                self.left_out += 1
                return
        if self._interest_only and not stream.has_interest(subject):
            self.left_out += 1
            return
        ttl = message_ttl(header) if header else 0
        if ttl is None:
            raise self._named(TableError(table.MESSAGE_TTL_INVALID))
        if self.careful:
            self._check_room(subject, header, payload)
        header, ttl = at_least_marker_ttl(stream.config, header, ttl)
        expires_ns = deadline(self.ts_ns, ttl)
        seq = self.next_seq
        republisher = stream.appends.republisher
        previous = self.subject_state(subject).last_seq if republisher is not None else 0
        stream.store.append_atomic(seq, self.ts_ns, subject, header, payload, expires_ns)
        self._took(message_id)
        if message_id:
            self._ids[message_id] = seq
        if expires_ns:
            self._expiries.append((seq, expires_ns))
        if stream.appends.schedules is not None:
            self._newest[subject] = seq
        if republisher is not None:
            effect = republisher.effect(seq, self.ts_ns, subject, header, payload, previous)
            if effect is not None:
                self._effects.append(effect)

    def _broken_condition(self, subject: bytes, header: bytes) -> ApiError | None:
        """The first thing a message asks for that does not hold here, or cannot be had in a commit."""
        stream = self._stream
        for name in _NOT_COPIED if self._copied else _NOT_COMMITTED:
            if headers.find(header, name):
                return TableError(errors.PART_INVALID, err=f"{name.decode()} cannot be committed")
        if not stream.config.allow_msg_ttl and message_ttl(header):
            return TableError(table.MESSAGE_TTL_DISABLED)
        if self._copied:
            # A stream with sources finds out by this header how far it has come with them.
            known = stream.config.sources and headers.find(header, b"Nats-Stream-Source")
            return TableError(errors.PART_INVALID, err="it has come from a source before") if known else None
        expected = headers.find(header, b"Nats-Expected-Stream")
        if expected and expected != stream.name.encode():
            return TableError(table.STREAM_NOT_MATCH)
        expected = headers.find(header, b"Nats-Expected-Last-Subject-Sequence")
        if expected:
            actual = self.subject_state(subject).last_seq
            if expected != b"%d" % actual:
                return TableError(table.STREAM_WRONG_LAST_SEQUENCE, seq=actual)
        expected = headers.find(header, b"Nats-Expected-Last-Sequence")
        if expected and expected != b"%d" % (self.next_seq - 1):
            return TableError(table.STREAM_WRONG_LAST_SEQUENCE, seq=self.next_seq - 1)
        return None

    def _took(self, message_id: bytes) -> None:
        self.next_seq += 1
        self.count += 1
        self._last_id = message_id

    def _is_repeated(self, message_id: bytes) -> bool:
        ids = self._stream.appends.ids
        if ids.window_ns <= 0:
            return False
        return message_id in self._ids or ids.find(message_id, self._ports.now_ns()) is not None

    def _check_room(self, subject: bytes, header: bytes, payload: bytes) -> None:
        """Limits of a stream that discards new messages."""
        store, config = self._stream.store, self._stream.config
        self._bytes += store.message_bytes(len(subject), len(header), len(payload))
        if config.max_msgs_per_subject > 0:
            added = self._added[subject] = self._added.get(subject, 0) + 1
            full = store.assigned.subject_state(subject).count + added > config.max_msgs_per_subject
            if full and config.discard_new_per_subject and self._discards_new:
                raise self._named(TableError(table.STREAM_STORE_FAILED, err="maximum messages per subject exceeded"))
        if self._discards_new and 0 < config.max_bytes < store.assigned.size_bytes + self._bytes:
            raise TableError(table.STREAM_STORE_FAILED, err="maximum bytes exceeded")

    def subject_state(self, subject: bytes) -> SubjectState:
        """What is under a literal subject, with the messages of this unit."""
        before = self._stream.store.assigned.subject_state(subject)
        first, last, count = unit_subject_state(self._stream.store.bulk, subject)
        if not count:
            return before
        return SubjectState(before.first_seq or first, last, before.count + count)

    def _refusal(self, reason: str) -> ApiError:
        if reason == stagedrows.TOO_LARGE:
            return self._named(TableError(table.STREAM_MESSAGE_EXCEEDS_MAXIMUM))
        if reason == stagedrows.HEADERS_TOO_LARGE:
            return self._named(TableError(table.STREAM_HEADER_EXCEEDS_MAXIMUM))
        if reason == stagedrows.OTHER_SUBJECT:
            return self._named(TableError(errors.PART_INVALID, err="the stream does not take this subject"))
        return self._named(TableError(errors.PART_INVALID, err=reason))

    def _named(self, error: ApiError) -> ApiError:
        """The same error with the row in its text."""
        error.description = f"{error.description} (row {self._rows.rows} of the part)"
        return error
