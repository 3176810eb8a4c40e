"""The unit of one commit: messages joining the log, each held to the rules of a bulk commit (`rule_table`).

Most messages are ordinary and appended by the kernel. The others are judged here one by one: those with headers that
begin with `Nats-`, and all of them when the stream's settings concern each message (`careful`). One that is refused
refuses the commit; one that is a duplicate, or that nobody wants, is left out.

Invariant: nothing outside the unit changes before `close`: message ids, deadlines, limits and republished copies follow
from the unit only when it is whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.bulk import errors
from slipstream.jetstream.bulk.parts import Part
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.bulk import unit_subject_state
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import SEQ_LAST, SubjectState
from slipstream.jetstream.stream.admission.dedup import cost_of
from slipstream.jetstream.stream.admission.verdict import Admitted, Draft, Origin, Refused
from slipstream.jetstream.stream.admission.views import AssignedView
from slipstream.jetstream.stream.commit.point import AfterCommit
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels.bulk import stagedrows
from slipstream.kernels.bulk.stagedrows import StagedRows
from slipstream.limits import STREAM_HEADER_BYTES_MAX

__all__ = ["CommitUnit", "UnitView"]

_SLICE_ROWS = 1 << 30


class UnitView:
    """The stream with the messages of a unit that is being written. Implements `View`."""

    def __init__(self, base: AssignedView, store: Store) -> None:
        """Nothing is written yet."""
        self._base = base
        self._store = store
        self.settings = base.settings
        self.server_exceeded = base.server_exceeded
        self.is_limited = base.is_limited
        self.last_seq = base.last_seq
        self.last_ts_ns = base.last_ts_ns
        self.last_id = base.last_id
        self.count = 0
        self.ids: dict[bytes, int] = {}
        self._ids_bytes = 0
        self._bytes = 0  # of those that were judged
        self.size_of = base.size_of
        self.size_at = base.size_at
        self.newest = base.newest
        self.has_interest = base.has_interest

    def add_plain(self, count: int) -> None:
        """So many ordinary messages were written."""
        self.last_seq += count
        self.count += count
        if count:
            self.last_id = b""

    def add(self, verdict: Admitted) -> None:
        """One that was judged was written."""
        self.last_seq = verdict.seq
        self.last_id = verdict.message_id
        self.count += 1
        self._bytes += self.size_of(verdict.subject, verdict.header, verdict.payload)
        if verdict.message_id:
            self.ids[verdict.message_id] = verdict.seq
            self._ids_bytes += cost_of(verdict.message_id)

    @property
    def messages(self) -> int:
        """See `View.messages`."""
        return self._base.messages + self.count

    @property
    def size_bytes(self) -> int:
        """See `View.size_bytes`. Where somebody asks, all messages are judged."""
        return self._base.size_bytes + self._bytes

    def would_exceed(self, extra_bytes: int) -> bool:
        """See `View.would_exceed`. What was staged is counted against the account already."""
        return self._base.would_exceed(0)

    def can_remember(self, message_id: bytes) -> bool:
        """See `View.can_remember`."""
        return self._base.can_remember(message_id, self._ids_bytes)

    def original(self, message_id: bytes, now_ns: int) -> int | None:
        """See `View.original`."""
        if self._base.ids.window_ns <= 0:
            return None
        return self.ids.get(message_id) or self._base.original(message_id, now_ns)

    def last_seq_of(self, subject: bytes) -> int:
        """See `View.last_seq_of`; only for literal subjects."""
        return self.subject_state(subject).last_seq

    def subject_state(self, subject: bytes) -> SubjectState:
        """See `View.subject_state`."""
        before = self._base.subject_state(subject)
        first, last, count = unit_subject_state(self._store.bulk, subject)
        if not count:
            return before
        return SubjectState(before.first_seq or first, last, before.count + count)

    def has_written(self, subject: bytes = b"") -> bool:
        """See `View.has_written`. Who stages the messages knows their sequences, so conditions may be about them."""
        return False


class CommitUnit:
    """Messages of one commit on their way into a stream."""

    def __init__(self, stream: Stream, ports: Ports, *, count: int, copied: bool = False) -> None:
        """Open the unit; publishes to the stream wait from here on.

        With `copied` the messages come from another stream, which has done what their headers ask for: conditions,
        message ids, roll-ups and batches are kept as they are and mean nothing here, as in a mirror.

        Raises:
            ApiError: the stream takes no messages, or not as many.
            StorageFault: the store takes no changes.
        """
        config, appends = stream.config, stream.appends
        if config.mirror is not None:
            raise TableError(errors.INVALID_REQUEST, err="a mirror takes no messages")
        self._view = UnitView(appends.view, stream.store)
        self._rules = appends.rules
        opening = self._rules.objection(Draft(Origin.UNIT, b"", b"", b"", ports.now_ns()), self._view)
        if isinstance(opening, Refused):
            raise opening.error
        if self._view.last_seq + count > SEQ_LAST:
            raise TableError(table.STREAM_STORE_FAILED, err="no sequences left")
        self._stream = stream
        self._ports = ports
        self._origin = Origin.BULK_COPY if copied else Origin.BULK
        # Whether each message has to be judged, or its subject to be known.
        self.careful = not self._rules.is_plain or config.max_msgs_per_subject > 0
        self._subjects = tuple(subject.encode() for subject in config.subjects)
        self._rows = StagedRows()
        stream.store.begin_atomic()
        stream.ingest.hold_back()
        self.first_seq = self._view.last_seq + 1
        self._now_ns = ports.now_ns()
        self.ts_ns = max(self._now_ns, self._view.last_ts_ns)
        self.left_out = 0
        self._expiries: list[tuple[int, int]] = []
        self._effects: list[AfterCommit] = []
        self._has_subjects = config.max_msgs_per_subject > 0 or config.allow_msg_schedules
        self._newest: dict[bytes, int] = {}  # by subject, where limits or schedules need that

    @property
    def count(self) -> int:
        """Messages in the unit."""
        return self._view.count

    @property
    def last_seq(self) -> int:
        """Sequence of the last one."""
        return self._view.last_seq

    def begin_part(self) -> None:
        """The next bytes are the first of a part."""
        settings = self._rules.settings
        size_max = min(settings.max_msg_size, settings.max_payload_bytes)
        self._rows = StagedRows(self._subjects, size_max, STREAM_HEADER_BYTES_MAX, self.careful)

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
        rows, view, store = self._rows, self._view, self._stream.store
        rows.feed(data)
        self._now_ns = self._ports.now_ns()
        self.ts_ns = view.last_ts_ns = max(self._now_ns, self.ts_ns)
        writer = None  # the first message of a slice goes through the store, which then has room for more
        while True:
            done, reason = rows.append_to(writer, view.last_seq + 1, self.ts_ns, _SLICE_ROWS if writer else 0)
            view.add_plain(done)
            if reason == stagedrows.MORE:
                return
            if reason == stagedrows.SPECIAL:
                self._judge_next()
            elif reason in (stagedrows.LIMIT, stagedrows.NO_ROOM):
                subject, header, payload = rows.current()
                store.append_atomic(view.last_seq + 1, self.ts_ns, subject, header, payload)
                view.add_plain(1)
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
        stream, view = self._stream, self._view
        stream.store.end_atomic(notes)
        if view.count:
            stream.appends.unit_stored(view.last_seq, self.ts_ns, view.last_id, view.ids)
        for effect in self._effects:
            stream.committer.after(effect)
        if stream.config.allow_msg_schedules:
            for subject, seq in self._newest.items():
                stream.schedule_stored(seq, self.ts_ns, subject, b"")
        stream.unit_stored(self._newest, self._expiries)

    def give_up(self) -> None:
        """As if it had never begun; of a stream with copies its sequences may be used all the same."""
        stream = self._stream
        stream.store.abort_atomic()
        if stream.store.last_seq != stream.appends.last_seq:
            stream.appends.take_over(stream.appends.intake.last_id)
            stream.committer.wake()

    # --- one message ------------------------------------------------------------------------------------------------

    def _judge_next(self) -> None:
        """The next message has to be looked at."""
        subject, header, payload = self._rows.current()
        appends, view = self._stream.appends, self._view
        if self.careful:
            # Whatever is asked about the subject is asked about the one it is stored under.
            subject = appends.stored_under(subject)
        verdict = self._rules.judge(Draft(self._origin, subject, header, payload, self._now_ns), view)
        if isinstance(verdict, Refused):
            raise self._named(verdict.error)
        if not isinstance(verdict, Admitted):
            self.left_out += 1
            return
        subject, header, seq = verdict.subject, verdict.header, verdict.seq
        self._stream.store.append_atomic(seq, verdict.ts_ns, subject, header, payload, verdict.expires_ns)
        view.add(verdict)
        if verdict.expires_ns:
            self._expiries.append((seq, verdict.expires_ns))
        if self._has_subjects:
            self._newest[subject] = seq
        if appends.republisher is not None:
            effect = appends.republisher.effect(seq, self.ts_ns, subject, header, payload, verdict.previous_seq)
            if effect is not None:
                self._effects.append(effect)

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
