"""One publish: accept it, refuse it, or recognise it as a repetition.

Input is what the router delivers; the outcome is an append to the store and an answer that leaves after the commit, or
only an answer. A decision is made against what was *assigned* so far, so two publishes in one batch see each other.

The order of checks is nats-server's: transform, sealed, size, conditions in headers (`conditions`), duplicate, last
message id, roll-up, and then, in `appends`: resources, interest, TTL, discard-new limits, append, discard-old limits,
roll-up.

Three paths. A message without headers into a stream without special settings takes `on_publish` alone, and opens the
fast path (`Intake`) for the ones that follow it into the same commit, and after an inline commit into the next.
Everything else goes through `_publish`, which is the specification of all three.

Invariant: while a unit of many messages is being written, publishes wait (`held`) and are taken afterwards, in order.
"""

from __future__ import annotations

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import headers
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import SEQ_LAST
from slipstream.jetstream.stream.admission.admission import Admission
from slipstream.jetstream.stream.admission.appends import Appends, exhausted
from slipstream.jetstream.stream.admission.conditions import first_refusal
from slipstream.jetstream.stream.admission.fast_batches import FAST_SUFFIX
from slipstream.jetstream.stream.admission.ingest_ports import Batches, IngestOwner, Resources
from slipstream.jetstream.stream.admission.settings_rules import wrong_rollup
from slipstream.jetstream.stream.commit.answers import Answers
from slipstream.jetstream.stream.commit.committer import Committer
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.commit.pubacks import PubAcks
from slipstream.jetstream.stream.features import schedule_rules
from slipstream.jetstream.stream.features.republish import Republisher
from slipstream.kernels.fastpath.intake import Intake

__all__ = ["Ingest"]


class Ingest:
    """The way in to one stream."""

    __slots__ = (
        "_append",
        "_buffered_bytes_max",
        "_buffered_msgs_max",
        "_committer",
        "_held_bytes",
        "_now",
        "_resources",
        "_store",
        "admission",
        "answers",
        "appends",
        "batches",
        "held",
        "intake",
    )

    def __init__(
        self,
        store: Store,
        ports: Ports,
        owner: IngestOwner,
        intake: Intake,
        committer: Committer,
        acks: PubAcks,
        resources: Resources,
        *,
        max_buffered_msgs: int,
        max_buffered_bytes: int,
        max_payload_bytes: int,
    ) -> None:
        """Take publishes into `store`, so many that are not committed yet; `configure` must follow."""
        self.intake = intake
        self._buffered_msgs_max = max_buffered_msgs
        self._buffered_bytes_max = max_buffered_bytes
        self._store = store
        self._append = store.append
        self._now = ports.now_ns
        self._committer = committer
        self._resources = resources
        # Publishes that wait for a unit to be written, None when none is.
        self.held: list[tuple[bytes, bytes | None, bytes | None, bytes]] | None = None
        self._held_bytes = 0
        self.answers = Answers(ports, committer, acks)
        self.admission = Admission(store, ports, owner, resources, max_payload_bytes)
        self.appends = Appends(store, ports, owner, intake, committer, self.admission, self.answers)
        self.batches: Batches | None = None  # the stream puts it here

    def configure(self, config: StreamConfig, republisher: Republisher | None) -> None:
        """Take over a (new) configuration."""
        self.intake.close()
        self.answers.wanted = not config.no_ack
        self.admission.configure(config, republishes=republisher is not None)
        self.appends.configure(config, republisher)
        self.intake.answers = self.answers.wanted
        self.intake.payload_bytes_max = self.admission.max_msg_size

    def on_publish(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """A message arrived on one of the stream's subjects."""
        try:
            self._take(subject, reply, header, payload)
        except Exception as error:
            # Whatever it is about this message, the stream goes on, and the publisher is told.
            refusal = self.appends.broke(error)
            if self.held is None and self._store.atomic_open:
                self._committer.abort_unit()
            self.answers.refuse(reply, refusal)

    def _take(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        if self.held is not None:
            self._hold(subject, reply, header, payload)
            return
        intake, resources = self.intake, self._resources
        if (
            header
            or not self.admission.is_plain
            or (reply is not None and reply.endswith(FAST_SUFFIX))
            or resources.limited
            or resources.server_exceeded
            or len(payload) > intake.payload_bytes_max
            or intake.buffered_bytes > self._buffered_bytes_max
            or len(intake.acks) > self._buffered_msgs_max
        ):
            self._publish(subject, reply, header or b"", payload)
            return
        seq = intake.last_seq + 1
        if seq > SEQ_LAST:
            self.answers.refuse(reply, exhausted())
            return
        ts_ns = max(self._now(), intake.last_ts_ns)
        try:
            self._append(seq, ts_ns, subject, b"", payload)
        except StorageFault as fault:
            self.answers.refuse(reply, store_error(fault))
            return
        intake.last_seq = seq
        intake.last_ts_ns = ts_ns
        intake.last_id = b""
        intake.buffered_bytes += len(payload)
        if reply and intake.answers:
            intake.acks.append((reply, seq))
        if intake.appended is not None:
            intake.appended(seq, subject, 0)
        self._committer.wake()
        # The account and the store have room, and a commit is on its way: until it begins, nothing of this changes.
        intake.open(self._store.direct_writer())

    def told(self, subject: bytes, reply: bytes | None, header: bytes, payload: bytes) -> ApiError | str | None:
        """The same as `on_publish` for one that is traced: why the message is not stored, if it is known already."""
        self.answers.refusal = None
        self.on_publish(subject, reply, header, payload)
        return self.answers.refusal

    def judged(self, subject: bytes, header: bytes, payload: bytes) -> ApiError | str | None:
        """Why a message would not be stored, as far as that can be said without storing it."""
        self.answers.refusal = None
        self._publish(subject, None, header, payload, stores=False)
        return self.answers.refusal

    def open_short_way(self) -> None:
        """A message was appended by another way, and its commit is on its way: plain ones may follow it directly."""
        resources = self._resources
        if self.admission.is_plain and not (resources.limited or resources.server_exceeded or self.intake.is_open):
            self.intake.open(self._store.direct_writer())

    def resume(self) -> bool:
        """The fast path was left open by an inline commit: look at what may have changed since, once a batch."""
        resources = self._resources
        writer = None if resources.limited or resources.server_exceeded else self._store.direct_writer()
        self.intake.open(writer)
        if writer is None:
            return False
        self._committer.wake()
        return True

    def _publish(
        self, subject: bytes, reply: bytes | None, header: bytes, payload: bytes, *, stores: bool = True
    ) -> None:
        """Check a message, and store it if it `stores`."""
        committer, appends, admission, answers = self._committer, self.appends, self.admission, self.answers
        if committer.waiting_bytes > self._buffered_bytes_max or committer.waiting > self._buffered_msgs_max:
            answers.overloaded(reply)
            return
        if header:
            header = headers.without_status(header)
        if self.batches is not None:
            if stores and self.batches.takes(subject, reply, header, payload):
                return
            not_taken = None if stores else self.batches.refusal(subject, header, payload)
            if not_taken is not None:
                answers.refuse(reply, not_taken)
                return
        subject = admission.transformed(subject)
        message_id = rollup = tail = b""
        refusal = admission.closed_or_too_large(len(header), len(payload))
        if refusal is not None:
            answers.refuse(reply, refusal)
            return
        # Only headers of ours are looked at, and they all begin alike.
        if header and header.find(b"Nats-") >= 0:
            header = headers.remove(header, b"Nats-Request-Info")
            refusal = first_refusal(appends, subject, header, payload)
            if refusal is not None:
                answers.refuse(reply, refusal)
                return
            header = schedule_rules.with_rollup(header, self._now())
            message_id = headers.find(header, b"Nats-Msg-Id") or b""
            if message_id:
                original = appends.ids.find(message_id, self._now())
                if original is not None:
                    answers.repeated(reply, original)
                    return
            rollup = (headers.find(header, b"Nats-Rollup") or b"").lower()
            refusal = appends.wrong_last_id(header) or wrong_rollup(admission.config, rollup)
            if refusal is not None:
                answers.refuse(reply, refusal)
                return
        if admission.counter is not None:
            counted = admission.counted(subject, header, payload)
            if isinstance(counted, ApiError):
                answers.refuse(reply, counted)
                return
            header, payload, tail = counted
        if not stores:
            return
        refusal = appends.add(subject, reply, header, payload, message_id=message_id, rollup=rollup, tail=tail)
        if refusal is not None:
            answers.refuse(reply, refusal)

    # --- while a unit is being written ------------------------------------------------------------------------------

    def hold_back(self) -> None:
        """Let publishes wait, because a unit of many messages is being written. `let_go` must follow."""
        self.intake.close()
        self._committer.hold_back()
        self.held = []
        self._held_bytes = 0

    def let_go(self) -> None:
        """Take the publishes that waited, in order."""
        held, self.held = self.held or [], None
        for subject, reply, header, payload in held:
            self.on_publish(subject, reply, header, payload)

    def _hold(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        assert self.held is not None
        self._held_bytes += len(payload) + len(header or b"")
        if self._held_bytes > self._buffered_bytes_max or len(self.held) >= self._buffered_msgs_max:
            self.answers.overloaded(reply)
        else:
            self.held.append((subject, reply, header, payload))
