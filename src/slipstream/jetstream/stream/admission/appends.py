"""Where a message whose conditions hold gets its sequence, joins the store, and has its consequences.

The last step of every way in. `add` looks at room and life time, appends, and lets follow what follows: the message id
is remembered, limits and timers are told, a roll-up removes, schedules change, a copy is republished, and the ack waits
for the commit. A unit of messages joins the store as a whole; its messages then come through `joined` one by one.

The plain paths of `ingest`, `copy_in` and the kernel do the same for messages without consequences.

Invariants: `last_seq` is the sequence *assigned* last, so two publishes in one batch see each other; times do not go
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import SEQ_LAST
from slipstream.jetstream.stream.admission.admission import Admission
from slipstream.jetstream.stream.admission.conditions import message_ttl
from slipstream.jetstream.stream.admission.dedup import MessageIds, cost_of
from slipstream.jetstream.stream.admission.ingest_ports import IngestOwner
from slipstream.jetstream.stream.admission.settings_rules import at_least_marker_ttl, no_place
from slipstream.jetstream.stream.admission.staging import Prepared
from slipstream.jetstream.stream.admission.ttl import deadline
from slipstream.jetstream.stream.commit.answers import Answers
from slipstream.jetstream.stream.commit.committer import Committer
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.features import schedule_rules
from slipstream.jetstream.stream.features.republish import Republisher
from slipstream.jetstream.stream.features.schedules import Schedules
from slipstream.kernels.fastpath.intake import Intake

__all__ = ["Appends", "exhausted"]


def exhausted() -> ApiError:
    """Why a stream that has used its last sequence takes no more messages."""
    return TableError(table.STREAM_STORE_FAILED, err="no sequences left")


class Appends:
    """The stream as assigned, and how it grows. Implements `ConditionState`."""

    __slots__ = (
        "_admission",
        "_answers",
        "_append",
        "_committer",
        "_owner",
        "_ports",
        "_rolls_up",
        "_watched",
        "allows_ttl",
        "ids",
        "intake",
        "name",
        "now_ns",
        "republisher",
        "schedules",
        "store",
    )

    def __init__(
        self,
        store: Store,
        ports: Ports,
        owner: IngestOwner,
        intake: Intake,
        committer: Committer,
        admission: Admission,
        answers: Answers,
    ) -> None:
        """Go on behind what `store` holds; `configure` must follow."""
        self.store = store
        self._ports = ports
        self.now_ns = ports.now_ns
        self._append = store.append
        self._owner = owner
        self._committer = committer
        self._admission = admission
        self._answers = answers
        self.intake = intake  # has what was assigned: sequence, time and message id of the last message
        intake.last_seq = store.last_seq
        intake.last_ts_ns = store.last_ts_ns
        self.ids = MessageIds(0, admission.resources.hold)
        self.name = ""
        self.schedules: Schedules | None = None  # the stream puts it here, if it has schedules

    def configure(self, config: StreamConfig, republisher: Republisher | None) -> None:
        """Take over a (new) configuration, after the admission."""
        self.name = config.name
        self.republisher = republisher
        self.allows_ttl = config.allow_msg_ttl
        self._rolls_up = config.allow_rollup_hdrs and not config.deny_purge
        self.ids.window_ns = config.duplicate_window_ns
        # Whether the owner has to look after an append: limits, age.
        self._watched = (
            config.max_msgs > 0 or config.max_bytes > 0 or config.max_msgs_per_subject > 0 or config.max_age_ns > 0
        )
        self.intake.appended = self._owner.appended if self._watched else None

    @property
    def config(self) -> StreamConfig:
        """The stream's configuration."""
        return self._admission.config

    @property
    def last_seq(self) -> int:
        """Sequence assigned last, not necessarily committed."""
        return self.intake.last_seq

    @property
    def last_ts_ns(self) -> int:
        """Time of that message."""
        return self.intake.last_ts_ns

    def wrong_last_id(self, header: bytes) -> ApiError | None:
        """Why a message may not follow the last one, by the id that one should have."""
        expected = headers.find(header, b"Nats-Expected-Last-Msg-Id")
        last_id = self.intake.last_id
        if not expected or expected == last_id:
            return None
        return TableError(table.STREAM_WRONG_LAST_MSG_ID, id=last_id.decode("utf-8", "replace"))

    def no_room_for_ids(self, message_ids: Iterable[bytes]) -> ApiError | None:
        """Why these ids cannot be remembered for the whole window."""
        if self.ids.window_ns <= 0:
            return None
        needed_bytes = sum(cost_of(message_id) for message_id in message_ids if message_id)
        if needed_bytes == 0 or self._admission.resources.can_hold(needed_bytes):
            return None
        return TableError(table.ACCOUNT_RESOURCES_EXCEEDED)

    def take_over(self, last_id: bytes) -> None:
        """Go on behind what the store holds now; `last_id` is the id of its last message."""
        self.intake.close()
        self.intake.last_seq = self.store.last_seq
        self.intake.last_ts_ns = self.store.last_ts_ns
        self.intake.last_id = last_id

    # --- messages join ----------------------------------------------------------------------------------------------

    def add_internal(self, subject: bytes, header: bytes, payload: bytes) -> None:
        """Store a message of the server's own (a delete marker): conditions do not apply, limits do."""
        self.add(subject, None, header, payload, message_id=b"", rollup=b"sub")

    def add_checked(self, message: Prepared) -> ApiError | None:
        """Store a message whose conditions were checked; why not, if it cannot be. It is not answered."""
        return self.add(
            message.subject,
            None,
            message.header,
            message.payload,
            message_id=message.message_id,
            rollup=message.rollup,
        )

    def add(
        self,
        subject: bytes,
        reply: bytes | None,
        header: bytes,
        payload: bytes,
        *,
        message_id: bytes,
        rollup: bytes,
        tail: bytes = b"",
        seq: int = 0,
        ts_ns: int = 0,
    ) -> ApiError | None:
        """The conditions hold: look at sizes and room, append, and do what follows from it; why not, if not.

        `seq` and `ts_ns` are what the message had in another stream, 0 to give it new ones; the ack ends with `tail`.
        """
        admission, resources = self._admission, self._admission.resources
        size = self.store.message_bytes(len(subject), len(header), len(payload))
        if resources.server_exceeded:
            return TableError(table.INSUFFICIENT_RESOURCES)
        refusal = self.no_room_for_ids((message_id,)) if message_id else None
        if refusal is not None:
            return refusal
        seq = seq or self.last_seq + 1
        if seq > SEQ_LAST:
            return exhausted()
        if admission.interest_only and not self._owner.has_interest(subject):
            return self._skip(seq, subject, reply, header, message_id, rollup)
        if resources.limited and resources.would_exceed(size):
            return TableError(table.ACCOUNT_RESOURCES_EXCEEDED)
        ttl = message_ttl(header) if header else 0
        if ttl is None:
            return TableError(table.MESSAGE_TTL_INVALID)
        if admission.discards_new:
            refusal = no_place(admission.config, self.store, subject, header, size)
            if refusal is not None:
                return refusal
        header, ttl = at_least_marker_ttl(admission.config, header, ttl)
        ts_ns = max(ts_ns or self.now_ns(), self.last_ts_ns)
        # A copy may ask for a life time that its new stream does not know of.
        expires_ns = deadline(ts_ns, ttl) if self.allows_ttl else 0
        previous = self.store.assigned.last_seq_of(subject) if self.republisher is not None else 0
        try:
            self._append(seq, ts_ns, subject, header, payload, expires_ns)
        except StorageFault as fault:
            return store_error(fault)
        except ValueError as error:
            return TableError(table.STREAM_STORE_FAILED, err=error)
        except Exception as error:
            return self.broke(error)
        try:
            self.joined(
                seq,
                ts_ns,
                subject,
                header,
                payload,
                message_id=message_id,
                rollup=rollup,
                expires_ns=expires_ns,
                previous_seq=previous,
            )
        except Exception as error:
            self.followed_badly(error)
        if reply and self._answers.wanted:
            if tail:
                self._answers.stored(reply, seq, tail)
            else:
                self.intake.acks.append((reply, seq))
        self._committer.wake()
        return None

    def broke(self, error: Exception) -> ApiError:
        """An exception that nobody expected ended an append: go on behind what the store holds; what to answer."""
        self._ports.report(f"A message for stream '{self.name}'", error)
        if self.store.last_seq != self.last_seq:
            self.take_over(b"")
        return TableError(table.STREAM_GENERAL, err="internal error")

    def followed_badly(self, error: Exception) -> None:
        """An exception that nobody expected ended what follows from a message that is stored."""
        self._ports.report(f"What follows from a message of stream '{self.name}'", error)
        if self.store.last_seq != self.last_seq:
            self.take_over(b"")

    def _skip(
        self, seq: int, subject: bytes, reply: bytes | None, header: bytes, message_id: bytes, rollup: bytes
    ) -> ApiError | None:
        """Nobody wants it: the sequence moves on and the publisher is told so, but nothing is stored."""
        try:
            self.store.skip_to(seq)
        except StorageFault as fault:
            return store_error(fault)
        self._assigned(seq, max(self.now_ns(), self.last_ts_ns), message_id)
        if rollup:
            self._owner.rolled_up(subject if rollup == b"sub" else b"", 0)
        self._rescheduled(0, 0, subject, header)
        if reply and self._answers.wanted:
            self.intake.acks.append((reply, seq))
        self._committer.wake()
        return None

    # --- what follows -----------------------------------------------------------------------------------------------

    def joined(
        self,
        seq: int,
        ts_ns: int,
        subject: bytes,
        header: bytes,
        payload: bytes,
        *,
        message_id: bytes,
        rollup: bytes,
        expires_ns: int,
        previous_seq: int,
        is_last: bool = True,
    ) -> None:
        """Let follow what follows from a message that joined the store: all but its ack.

        Args:
            seq: its sequence.
            ts_ns: its time.
            subject: its subject.
            header: its header block, or `b""`.
            payload: its body.
            message_id: its id, if it has one.
            rollup: `b"sub"`, `b"all"` or `b""`.
            expires_ns: its own deadline, 0 for none.
            previous_seq: the message before it on its subject, if it may be republished.
            is_last: False if the store holds newer ones already, of the same unit.
        """
        self._assigned(seq, ts_ns, message_id)
        self.intake.buffered_bytes += len(payload) + len(header)
        if self._watched or expires_ns:
            self._owner.appended(seq, subject, expires_ns)
        if rollup:
            rolled = subject if rollup == b"sub" else b""
            if is_last:
                self._owner.rolled_up(rolled, 1)
            else:
                self._owner.rolled_up(rolled, 0, seq)
        self._rescheduled(seq, ts_ns, subject, header)
        if self.republisher is not None:
            effect = self.republisher.effect(seq, ts_ns, subject, header, payload, previous_seq)
            if effect is not None:
                self._committer.after(effect)

    def passed_over(self, seq: int, ts_ns: int, message: Prepared) -> None:
        """Let follow what follows from a message of a unit that nobody wants: it only took a sequence."""
        self._assigned(seq, ts_ns, message.message_id)
        if message.rollup:
            self._owner.rolled_up(message.subject if message.rollup == b"sub" else b"", 0, seq + 1)
        self._rescheduled(0, 0, message.subject, message.header)

    def unit_stored(self, last_seq: int, ts_ns: int, last_id: bytes, ids: Mapping[bytes, int]) -> None:
        """A unit of messages has joined the store; `ids` are the message ids in it with their sequences."""
        self.intake.last_seq = last_seq
        self.intake.last_ts_ns = ts_ns
        self.intake.last_id = last_id
        for message_id, seq in ids.items():
            self.ids.add(message_id, seq, ts_ns)
        if ids:
            self._owner.remembered()

    def _assigned(self, seq: int, ts_ns: int, message_id: bytes) -> None:
        self.intake.last_seq = seq
        self.intake.last_ts_ns = ts_ns
        self.intake.last_id = message_id
        if message_id:
            self.ids.add(message_id, seq, ts_ns)
            self._owner.remembered()

    def _rescheduled(self, seq: int, ts_ns: int, subject: bytes, header: bytes) -> None:
        """What a message that was stored (sequence not 0) does to schedules, its own and others'."""
        if self.schedules is not None and seq:
            self.schedules.stored(seq, ts_ns, subject, header)
        if header and self._rolls_up and header.find(b"\r\nNats-Schedule-Next:") >= 0:
            scheduler = headers.find(header, b"Nats-Scheduler")
            if scheduler and headers.find(header, b"Nats-Schedule-Next") == schedule_rules.PURGE:
                self._owner.rolled_up(scheduler, 0, seq)
