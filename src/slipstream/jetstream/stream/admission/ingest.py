"""A publish arrives: it is a message of a batch, or it is judged alone, stored or not, and answered.

Input is what the router delivers; the outcome is an append to the store and an answer that leaves after the commit, or
only an answer. What is decided is decided by the rules (`rule_table`) and carried out by `appends`.

A message without headers, or with headers that are no business of a server, goes into a stream where the rules have
nothing to say about such messages (`is_plain`) by `on_publish` alone. That opens the fast path of the kernel (`Intake`)
for the ones without headers that follow it into the same commit, and after an inline commit into the next. The kernel
also takes such messages into a stream that refuses new ones when it is full, as long as it is not.

Invariant: while a unit of many messages is being written, publishes wait (`held`) and are taken afterwards, in order.
"""

from __future__ import annotations

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports, ServerFacts
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import SEQ_LAST
from slipstream.jetstream.stream.admission.appends import Appends
from slipstream.jetstream.stream.admission.fast_batches import FAST_SUFFIX
from slipstream.jetstream.stream.admission.ingest_ports import IngestOwner, Resources
from slipstream.jetstream.stream.admission.rule_table import is_looked_at
from slipstream.jetstream.stream.admission.stream_batches import StreamBatches
from slipstream.jetstream.stream.admission.traced import REPEATED
from slipstream.jetstream.stream.admission.verdict import Duplicate, Origin, Refused
from slipstream.jetstream.stream.commit.answers import Answers
from slipstream.jetstream.stream.commit.committer import Committer
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.commit.pubacks import PubAcks
from slipstream.kernels.fastpath.intake import Intake

__all__ = ["Ingest"]


class Ingest:
    """The way in to one stream for its publishers."""

    __slots__ = (
        "_append",
        "_buffered_bytes_max",
        "_buffered_msgs_max",
        "_committer",
        "_held_bytes",
        "_now",
        "_resources",
        "_store",
        "answers",
        "appends",
        "batches",
        "held",
        "intake",
    )

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        ports: Ports,
        facts: ServerFacts,
        owner: IngestOwner,
        intake: Intake,
        committer: Committer,
        acks: PubAcks,
        resources: Resources,
    ) -> None:
        """Take publishes into `store`, as many that are not committed yet as the server allows."""
        self.intake = intake
        self._buffered_msgs_max = facts.max_buffered_msgs
        self._buffered_bytes_max = facts.max_buffered_bytes
        self._store = store
        self._append = store.append
        self._now = ports.now_ns
        self._committer = committer
        self._resources = resources
        # Publishes that wait for a unit to be written, None when none is.
        self.held: list[tuple[bytes, bytes | None, bytes | None, bytes]] | None = None
        self._held_bytes = 0
        self.answers = Answers(ports, committer, acks)
        self.appends = Appends(
            config, store, ports, owner, intake, committer, self.answers, resources, facts.max_payload_bytes
        )
        self.batches = StreamBatches(self.appends, self.answers, ports, facts)

    def configure(self, config: StreamConfig) -> None:
        """Go on by another configuration."""
        self.appends.configure(config)
        self.batches.configure(config)

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
        block = header or b""
        if (
            not self.appends.rules.is_plain
            or (header and is_looked_at(header))
            or (reply is not None and reply.endswith(FAST_SUFFIX))
            or resources.limited
            or resources.server_exceeded
            or len(block) + len(payload) > intake.payload_bytes_max
            or intake.buffered_bytes > self._buffered_bytes_max
            or len(intake.acks) > self._buffered_msgs_max
            or intake.last_seq >= SEQ_LAST
        ):
            self._publish(subject, reply, block, payload)
            return
        seq = intake.last_seq + 1
        ts_ns = max(self._now(), intake.last_ts_ns)
        try:
            self._append(seq, ts_ns, subject, block, payload)
        except StorageFault as fault:
            self.answers.refuse(reply, store_error(fault))
            return
        except ValueError as error:
            self.answers.refuse(reply, TableError(table.STREAM_STORE_FAILED, err=error))
            return
        intake.last_seq = seq
        intake.last_ts_ns = ts_ns
        intake.last_id = b""
        intake.buffered_bytes += len(block) + len(payload)
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
        refusal = self.batches.refusal(subject, header, payload)
        if refusal is not None:
            return refusal
        appends = self.appends
        verdict = appends.judge(Origin.TRACE, appends.stored_under(subject), header, payload)
        if isinstance(verdict, Duplicate):
            return REPEATED
        return verdict.error if isinstance(verdict, Refused) else None

    def resume(self) -> bool:
        """The fast path was left open by an inline commit: look at what may have changed since, once a batch."""
        resources = self._resources
        writer = None if resources.limited or resources.server_exceeded else self._store.direct_writer()
        self.intake.open(writer)
        if writer is None:
            return False
        self._committer.wake()
        return True

    def _publish(self, subject: bytes, reply: bytes | None, header: bytes, payload: bytes) -> None:
        """The way of every message that is not plain."""
        committer, appends, answers = self._committer, self.appends, self.answers
        if committer.waiting_bytes > self._buffered_bytes_max or committer.waiting > self._buffered_msgs_max:
            answers.overloaded(reply)
            return
        if self.batches.takes(subject, reply, header, payload):
            return
        verdict = appends.judge(Origin.PUBLISH, appends.stored_under(subject), header, payload)
        if isinstance(verdict, Refused):
            answers.refuse(reply, verdict.error)
        elif isinstance(verdict, Duplicate):
            answers.repeated(reply, verdict.seq)
        else:
            error = appends.apply(verdict, reply)
            if error is None:
                appends.open_fast_path()
            else:
                answers.refuse(reply, error)

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
