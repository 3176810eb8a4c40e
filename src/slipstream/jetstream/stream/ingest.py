"""One publish: accept it, refuse it, or recognise it as a repetition.

Input is what the router delivers; the outcome is an append to the store and an answer that leaves after the commit, or
only an answer. A decision is made against what was *assigned* so far, so two publishes in one batch see each other.

The order of checks is nats-server's: transform, sealed, size, conditions in headers (`conditions`), duplicate, last
message id, roll-up, resources, interest, TTL, discard-new limits, append, discard-old limits, roll-up.

Three paths. A message without headers into a stream without special settings takes `on_publish` alone, and opens the
short way (`Intake`) for the ones that follow it into the same commit, and after a commit on the spot into the next.
Everything else goes through `_publish`, which is the specification of all three.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.config.enums import DiscardPolicy, RetentionPolicy
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import ApiError as TableError
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.base import Store
from slipstream.jetstream.stream import schedule_rules
from slipstream.jetstream.stream.commit import AfterCommit, Committer, store_error
from slipstream.jetstream.stream.conditions import first_refusal, message_ttl
from slipstream.jetstream.stream.counters import Counter
from slipstream.jetstream.stream.dedup import MessageIds
from slipstream.jetstream.stream.fast_batches import FAST_SUFFIX
from slipstream.jetstream.stream.ingest_ports import Batches, IngestOwner, Resources
from slipstream.jetstream.stream.pubacks import PubAcks
from slipstream.jetstream.stream.republish import Republisher
from slipstream.jetstream.stream.schedules import Schedules
from slipstream.jetstream.stream.settings_rules import at_least_marker_ttl, no_place, wrong_rollup
from slipstream.jetstream.stream.staging import Prepared
from slipstream.kernels.intake import Intake
from slipstream.kernels.subject import is_valid_publish
from slipstream.limits import SECOND_NS, SOURCE_BUFFERED_BYTES_MAX, STREAM_HEADER_BYTES_MAX
from slipstream.subjects.transform import SubjectTransform

__all__ = ["Ingest", "IngestOwner", "Resources"]

_OVERLOAD_STATUS = b"NATS/1.0 429 Too Many Requests\r\n\r\n"


class Ingest:
    """The way in to one stream."""

    __slots__ = (
        "_acks",
        "_answers",
        "_append",
        "_buffered_bytes_max",
        "_buffered_msgs_max",
        "_committer",
        "_config",
        "_discards_new",
        "_fast",
        "_held",
        "_held_bytes",
        "_interest_only",
        "_max_msg_size",
        "_now",
        "_owner",
        "_ports",
        "_resources",
        "_rolls_up",
        "_transform",
        "_watched",
        "allows_ttl",
        "batches",
        "counter",
        "ids",
        "intake",
        "max_payload_bytes",
        "name",
        "republisher",
        "schedules",
        "store",
    )

    def __init__(
        self,
        store: Store,
        ports: Ports,
        owner: IngestOwner,
        committer: Committer,
        acks: PubAcks,
        resources: Resources,
        *,
        max_buffered_msgs: int,
        max_buffered_bytes: int,
    ) -> None:
        """Take publishes into `store`, so many that are not committed yet; `configure` must follow."""
        intake = Intake(self.on_publish, ports.now_ns, max_buffered_bytes, max_buffered_msgs)
        self._buffered_msgs_max = max_buffered_msgs
        self._buffered_bytes_max = max_buffered_bytes
        committer.intake = intake
        self.store = store
        self._ports = ports
        self._owner = owner
        self._committer = committer
        self._acks = acks
        self._resources = resources
        self._append = store.append
        self._now = ports.now_ns
        # Publishes that wait for a unit to be written, None when none is.
        self._held: list[tuple[bytes, bytes | None, bytes | None, bytes]] | None = None
        self._held_bytes = 0
        intake.resume = self._resume
        self.intake = intake  # has what was assigned: sequence, time and message id of the last message
        self.intake.last_seq = store.last_seq
        self.intake.last_ts_ns = store.last_ts_ns
        self.ids = MessageIds(0)
        self.name = ""
        self.batches: Batches | None = None  # the stream puts it here
        self.schedules: Schedules | None = None  # likewise, if it has schedules
        self.counter: Counter | None = None
        self.max_payload_bytes = sys.maxsize  # of the server: a counter may grow beyond what a client may send

    @property
    def config(self) -> StreamConfig:
        """The stream's configuration."""
        return self._config

    def now_ns(self) -> int:
        """Wall clock."""
        return self._now()

    @property
    def last_seq(self) -> int:
        """Sequence assigned last, not necessarily committed."""
        return self.intake.last_seq

    @property
    def last_ts_ns(self) -> int:
        """Time of that message."""
        return self.intake.last_ts_ns

    def hold_back(self) -> None:
        """Let publishes wait, because a unit of many messages is being written. `let_go` must follow."""
        self.intake.close()
        self._committer.hold_back()
        self._held = []
        self._held_bytes = 0

    def let_go(self) -> None:
        """Take the publishes that waited, in order."""
        held, self._held = self._held or [], None
        for subject, reply, header, payload in held:
            self.on_publish(subject, reply, header, payload)

    def unit_stored(self, last_seq: int, ts_ns: int, last_id: bytes, ids: Mapping[bytes, int]) -> None:
        """A unit of messages has joined the store; `ids` are the message ids in it with their sequences."""
        self.intake.last_seq = last_seq
        self.intake.last_ts_ns = ts_ns
        self.intake.last_id = last_id
        for message_id, seq in ids.items():
            self.ids.add(message_id, seq, ts_ns)
        if ids:
            self._owner.remembered()

    def take_over(self, last_id: bytes) -> None:
        """Go on behind what the store holds now; `last_id` is the id of its last message."""
        self.intake.close()
        self.intake.last_seq = self.store.last_seq
        self.intake.last_ts_ns = self.store.last_ts_ns
        self.intake.last_id = last_id

    def configure(self, config: StreamConfig, republisher: Republisher | None) -> None:
        """Take over a (new) configuration."""
        self.intake.close()
        self._config = config
        self.name = config.name
        self.republisher = republisher
        self._answers = not config.no_ack
        self._max_msg_size = config.max_msg_size if config.max_msg_size >= 0 else sys.maxsize
        self._interest_only = config.retention is RetentionPolicy.INTEREST
        self._discards_new = config.discard is DiscardPolicy.NEW and (
            config.max_msgs > 0 or config.max_bytes > 0 or config.max_msgs_per_subject > 0
        )
        transform = config.subject_transform
        self._transform = (
            SubjectTransform(transform.src.encode(), transform.dest.encode()) if transform and transform.dest else None
        )
        self.allows_ttl = config.allow_msg_ttl
        self.counter = Counter(self.store) if config.allow_msg_counter else None
        self._rolls_up = config.allow_rollup_hdrs and not config.deny_purge
        self.ids.window_ns = config.duplicate_window_ns
        # Whether the owner has to look after an append: limits, age.
        self._watched = (
            config.max_msgs > 0 or config.max_bytes > 0 or config.max_msgs_per_subject > 0 or config.max_age_ns > 0
        )
        self._fast = not (
            config.sealed
            or self._interest_only
            or self._discards_new
            or self._transform is not None
            or republisher is not None
            or config.allow_msg_counter
            or config.allow_msg_schedules
        )
        self.intake.answers = self._answers
        self.intake.payload_bytes_max = self._max_msg_size
        self.intake.appended = self._owner.appended if self._watched else None

    def on_publish(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """A message arrived on one of the stream's subjects."""
        if self._held is not None:
            self._hold(subject, reply, header, payload)
            return
        committer, intake = self._committer, self.intake
        resources = self._resources
        if (
            header
            or not self._fast
            or (reply is not None and reply.endswith(FAST_SUFFIX))
            or resources.limited
            or resources.server_exceeded
            or len(payload) > self._max_msg_size
            or intake.buffered_bytes > self._buffered_bytes_max
            or len(intake.pending) > self._buffered_msgs_max
        ):
            self._publish(subject, reply, header or b"", payload)
            return
        seq = intake.last_seq + 1
        ts_ns = max(self._now(), intake.last_ts_ns)
        try:
            self._append(seq, ts_ns, subject, b"", payload)
        except StorageFault as fault:
            self.refuse(reply, store_error(fault))
            return
        intake.last_seq = seq
        intake.last_ts_ns = ts_ns
        intake.last_id = b""
        intake.buffered_bytes += len(payload)
        if reply and self._answers:
            intake.pending.append((reply, seq))
        if self._watched:
            self._owner.appended(seq, subject, 0)
        committer.wake()
        # The account and the store have room, and a commit is on its way: until it begins, nothing of this changes.
        intake.open(self.store.direct_writer())

    def _hold(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        assert self._held is not None
        self._held_bytes += len(payload) + len(header or b"")
        if self._held_bytes > self._buffered_bytes_max or len(self._held) >= self._buffered_msgs_max:
            self._overloaded(reply)
        else:
            self._held.append((subject, reply, header, payload))

    def _resume(self) -> bool:
        """The short way was left open by a commit on the spot: look at what may have changed since, once a batch."""
        resources = self._resources
        writer = None if resources.limited or resources.server_exceeded else self.store.direct_writer()
        self.intake.open(writer)
        if writer is None:
            return False
        self._committer.wake()
        return True

    def publish_internal(self, subject: bytes, header: bytes, payload: bytes) -> None:
        """Store a message of the server's own (a delete marker): conditions do not apply, limits do."""
        self._store(subject, None, header, payload, message_id=b"", rollup=b"sub")

    def store_checked(self, message: Prepared) -> ApiError | None:
        """Store a message whose conditions were checked; why not, if it cannot be. It is not answered."""
        return self._store(
            message.subject,
            None,
            message.header,
            message.payload,
            message_id=message.message_id,
            rollup=message.rollup,
        )

    def store_plain_copy(
        self, subject: bytes, header: bytes, payload: bytes, seq: int = 0, ts_ns: int = 0
    ) -> ApiError | None:
        """The same as `store_copy` for a message that came without headers, whatever was added since."""
        resources, intake = self._resources, self.intake
        if (
            not self._fast
            or self._held is not None
            or resources.limited
            or resources.server_exceeded
            or len(header) + len(payload) > self._max_msg_size
            or self._committer.waiting_bytes > SOURCE_BUFFERED_BYTES_MAX
        ):
            return self.store_copy(subject, header, payload, seq=seq, ts_ns=ts_ns)
        seq = seq or intake.last_seq + 1
        ts_ns = max(ts_ns or self._now(), intake.last_ts_ns)
        try:
            self._append(seq, ts_ns, subject, header, payload)
        except StorageFault as fault:
            return store_error(fault)
        except ValueError as error:
            return TableError(table.STREAM_STORE_FAILED, err=error)
        intake.last_seq = seq
        intake.last_ts_ns = ts_ns
        intake.last_id = b""
        intake.buffered_bytes += len(payload)
        if self._watched:
            self._owner.appended(seq, subject, 0)
        self._committer.wake()
        return None

    def store_copy(
        self, subject: bytes, header: bytes, payload: bytes, *, seq: int = 0, ts_ns: int = 0
    ) -> ApiError | None:
        """Store a message of another stream; why not, if it cannot be. A repetition by message id is left out silently.

        Its publisher's conditions were checked at the origin. Transform, sizes, limits and roll-ups are this stream's.

        Args:
            subject: what it is stored under, before the stream's own transform.
            header: its header block without conditions, or `b""`.
            payload: its body.
            seq: the origin's sequence, for a mirror; 0 to assign the next.
            ts_ns: the origin's time, for a mirror; 0 for now.
        """
        committer = self._committer
        if self._held is not None or committer.waiting_bytes > SOURCE_BUFFERED_BYTES_MAX:
            return TableError(table.STREAM_TOO_MANY_REQUESTS)
        if self._transform is not None:
            subject = self.transformed(subject)
        refusal = self._closed_or_too_large(len(header), len(payload))
        if refusal is not None:
            return refusal
        message_id = rollup = b""
        if header and header.find(b"Nats-") >= 0:
            header = headers.remove(header, b"Nats-Request-Info")
            message_id = headers.find(header, b"Nats-Msg-Id") or b""
            if message_id and not seq and self.ids.find(message_id, self._now()) is not None:
                return None
            rollup = (headers.find(header, b"Nats-Rollup") or b"").lower()
            if rollup and (not self._config.allow_rollup_hdrs or self._config.deny_purge):
                rollup = b""
            refusal = wrong_rollup(self._config, rollup)
            if refusal is not None:
                return refusal
        if self.counter is not None:
            counted = self._counted(subject, header, payload)
            if isinstance(counted, ApiError):
                return counted
            header, payload, _tail = counted
        return self._store(subject, None, header, payload, message_id=message_id, rollup=rollup, seq=seq, ts_ns=ts_ns)

    def _publish(self, subject: bytes, reply: bytes | None, header: bytes, payload: bytes) -> None:
        committer = self._committer
        if committer.waiting_bytes > self._buffered_bytes_max or committer.waiting > self._buffered_msgs_max:
            self._overloaded(reply)
            return
        if header:
            header = headers.without_status(header)
        if self.batches is not None and self.batches.takes(subject, reply, header, payload):
            return
        if self._transform is not None:
            subject = self.transformed(subject)
        message_id = rollup = tail = b""
        refusal = self._closed_or_too_large(len(header), len(payload))
        if refusal is not None:
            self.refuse(reply, refusal)
            return
        # Only headers of ours are looked at, and they all begin alike.
        if header and header.find(b"Nats-") >= 0:
            header = headers.remove(header, b"Nats-Request-Info")
            refusal = first_refusal(self, subject, header, payload)
            if refusal is not None:
                self.refuse(reply, refusal)
                return
            header = schedule_rules.with_rollup(header, self._now())
            message_id = headers.find(header, b"Nats-Msg-Id") or b""
            if message_id:
                original = self.ids.find(message_id, self._now())
                if original is not None:
                    self._answer(reply, self._acks.duplicate(original))
                    return
            rollup = (headers.find(header, b"Nats-Rollup") or b"").lower()
            refusal = self.wrong_last_id(header) or wrong_rollup(self._config, rollup)
            if refusal is not None:
                self.refuse(reply, refusal)
                return
        if self.counter is not None:
            counted = self._counted(subject, header, payload)
            if isinstance(counted, ApiError):
                self.refuse(reply, counted)
                return
            header, payload, tail = counted
        refusal = self._store(subject, reply, header, payload, message_id=message_id, rollup=rollup, tail=tail)
        if refusal is not None:
            self.refuse(reply, refusal)

    def _counted(self, subject: bytes, header: bytes, payload: bytes) -> tuple[bytes, bytes, bytes] | ApiError:
        """Header and body of a message that counts, and what its ack says about it."""
        assert self.counter is not None
        counted = self.counter.counted(subject, header, payload)
        if isinstance(counted, ApiError):
            return counted
        if len(counted.header) + len(counted.payload) > self.max_payload_bytes:
            return TableError(table.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
        refusal = self._closed_or_too_large(len(counted.header), len(counted.payload))
        return refusal or (counted.header, counted.payload, b"," + counted.payload[1:-1])

    def transformed(self, subject: bytes) -> bytes:
        """The subject it is stored under. One with wildcards, which clients may publish to, stays what it is."""
        if self._transform is None or not is_valid_publish(subject):
            return subject
        return self._transform.find(subject, self._ports.random_below) or subject

    def no_resources(self, size_bytes: int) -> ApiError | None:
        """Why the server or the account has no room for this much."""
        if self._resources.server_exceeded:
            return TableError(table.INSUFFICIENT_RESOURCES)
        if self._resources.limited and self._resources.would_exceed(size_bytes):
            return TableError(table.ACCOUNT_RESOURCES_EXCEEDED)
        return None

    def is_wanted(self, subject: bytes) -> bool:
        """Whether a message under this subject is stored at all."""
        return not self._interest_only or self._owner.has_interest(subject)

    def _store(
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
        size = self.store.message_bytes(len(subject), len(header), len(payload))
        if self._resources.server_exceeded:
            return TableError(table.INSUFFICIENT_RESOURCES)
        seq = seq or self.last_seq + 1
        if self._interest_only and not self._owner.has_interest(subject):
            return self._skip(seq, subject, reply, header, message_id, rollup)
        if self._resources.limited and self._resources.would_exceed(size):
            return TableError(table.ACCOUNT_RESOURCES_EXCEEDED)
        ttl = message_ttl(header) if header else 0
        if ttl is None:
            return TableError(table.MESSAGE_TTL_INVALID)
        if self._discards_new:
            refusal = no_place(self._config, self.store, subject, header, size)
            if refusal is not None:
                return refusal
        header, ttl = at_least_marker_ttl(self._config, header, ttl)
        ts_ns = max(ts_ns or self._now(), self.last_ts_ns)
        # A copy may ask for a life time that its new stream does not know of.
        expires_ns = ts_ns + ttl * SECOND_NS if ttl > 0 and self.allows_ttl else 0
        previous = self.store.subject_state(subject).last_seq if self.republisher is not None else 0
        try:
            self._append(seq, ts_ns, subject, header, payload, expires_ns)
        except StorageFault as fault:
            return store_error(fault)
        except ValueError as error:
            return TableError(table.STREAM_STORE_FAILED, err=error)
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
        if reply and self._answers:
            self.intake.pending.append(self._ack(reply, seq, tail) if tail else (reply, seq))
        self._committer.wake()
        return None

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
        self.rescheduled(seq, ts_ns, subject, header)
        if self.republisher is not None:
            effect = self.republisher.effect(seq, ts_ns, subject, header, payload, previous_seq)
            if effect is not None:
                self.intake.pending.append(effect)

    def rescheduled(self, seq: int, ts_ns: int, subject: bytes, header: bytes) -> None:
        """What a message that was stored (sequence not 0) does to schedules, its own and others'."""
        if self.schedules is not None and seq:
            self.schedules.stored(seq, ts_ns, subject, header)
        if header and self._rolls_up and header.find(b"\r\nNats-Schedule-Next:") >= 0:
            scheduler = headers.find(header, b"Nats-Scheduler")
            if scheduler and headers.find(header, b"Nats-Schedule-Next") == schedule_rules.PURGE:
                self._owner.rolled_up(scheduler, 0, seq)

    def _skip(
        self, seq: int, subject: bytes, reply: bytes | None, header: bytes, message_id: bytes, rollup: bytes
    ) -> ApiError | None:
        """Nobody wants it: the sequence moves on and the publisher is told so, but nothing is stored."""
        try:
            self.store.skip_to(seq)
        except StorageFault as fault:
            return store_error(fault)
        self._assigned(seq, max(self._now(), self.last_ts_ns), message_id)
        if rollup:
            self._owner.rolled_up(subject if rollup == b"sub" else b"", 0)
        self.rescheduled(0, 0, subject, header)
        if reply and self._answers:
            self.intake.pending.append((reply, seq))
        self._committer.wake()
        return None

    def passed_over(self, seq: int, ts_ns: int, message: Prepared) -> None:
        """Let follow what follows from a message of a unit that nobody wants: it only took a sequence."""
        self._assigned(seq, ts_ns, message.message_id)
        if message.rollup:
            self._owner.rolled_up(message.subject if message.rollup == b"sub" else b"", 0, seq + 1)
        self.rescheduled(0, 0, message.subject, message.header)

    def _assigned(self, seq: int, ts_ns: int, message_id: bytes) -> None:
        self.intake.last_seq = seq
        self.intake.last_ts_ns = ts_ns
        self.intake.last_id = message_id
        if message_id:
            self.ids.add(message_id, seq, ts_ns)
            self._owner.remembered()

    def wrong_last_id(self, header: bytes) -> ApiError | None:
        """Why a message may not follow the last one, by the id that one should have."""
        expected = headers.find(header, b"Nats-Expected-Last-Msg-Id")
        last_id = self.intake.last_id
        if not expected or expected == last_id:
            return None
        return TableError(table.STREAM_WRONG_LAST_MSG_ID, id=last_id.decode("utf-8", "replace"))

    def _closed_or_too_large(self, header_size: int, payload_size: int) -> ApiError | None:
        if self._config.sealed:
            return TableError(table.STREAM_SEALED)
        if header_size + payload_size > self._max_msg_size:
            return TableError(table.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
        if header_size > STREAM_HEADER_BYTES_MAX:
            return TableError(table.STREAM_HEADER_EXCEEDS_MAXIMUM)
        return None

    def refuse(self, reply: bytes | None, error: ApiError) -> None:
        """Answer with an error, if an answer is wanted."""
        if reply and self._answers:
            self._answer(reply, self._acks.refused(error))

    def _answer(self, reply: bytes | None, payload: bytes) -> None:
        """Held back like an ack: what is refused may depend on something that is not committed yet."""
        if reply and self._answers:
            self._committer.answer(reply, payload)

    def ack_stored(self, reply: bytes | None, seq: int, tail: bytes) -> None:
        """Answer that a message is stored, and more, when that is committed."""
        if reply and self._answers:
            self._committer.after(self._ack(reply, seq, tail))

    def wake(self) -> None:
        """Something joined the store: have it committed."""
        self._committer.wake()

    def tell(self, reply: bytes | None, payload: bytes) -> None:
        """Answer something that is true once everything decided before is committed."""
        if reply:
            self._committer.after(self._either(reply, payload))

    def _ack(self, reply: bytes, seq: int, tail: bytes) -> AfterCommit:
        """The ack of a stored message with more in it than its sequence."""
        return self._either(reply, self._acks.stored(seq)[:-1] + tail + b"}")

    def _either(self, reply: bytes, payload: bytes) -> AfterCommit:
        """Sends this, or that it could not be."""

        def send(error: ApiError | None) -> None:
            self._ports.publish(reply, None, None, payload if error is None else self._acks.refused(error))

        return send

    def _overloaded(self, reply: bytes | None) -> None:
        """Too much waits for the disk. Answered at once, because the queue is what is full."""
        if reply and self._answers:
            body = self._acks.refused(TableError(table.STREAM_TOO_MANY_REQUESTS))
            self._ports.publish(reply, None, _OVERLOAD_STATUS, body)
