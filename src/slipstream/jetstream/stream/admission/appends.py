"""Where a verdict is carried out: the message joins the store and has its consequences.

The last step of every way in. The message joins the log, alone or with others in a unit, and has its consequences: its
id is remembered, limits and timers are told, a roll-up removes, schedules change, a copy is republished, and the ack
waits for the commit. Nothing is decided here.

The fast paths of `ingest`, `copy_in` and the kernel do the same for messages without consequences.

Invariants: the intake has the sequence *assigned* last, so two publishes in one commit see each other; times do not go
back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.stream.admission.dedup import MessageIds
from slipstream.jetstream.stream.admission.ingest_ports import IngestOwner, Resources
from slipstream.jetstream.stream.admission.rule_table import StreamRules
from slipstream.jetstream.stream.admission.verdict import Admitted, Draft, Origin, Refused, Unwanted, Verdict
from slipstream.jetstream.stream.admission.views import AssignedView
from slipstream.jetstream.stream.commit.answers import Answers
from slipstream.jetstream.stream.commit.committer import Committer
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.features import schedule_rules
from slipstream.jetstream.stream.features.republish import Republisher
from slipstream.kernels.fastpath.intake import Intake

__all__ = ["Appends"]


class Appends:
    """The stream as assigned, and how it grows."""

    __slots__ = (
        "_answers",
        "_append",
        "_committer",
        "_max_payload_bytes",
        "_owner",
        "_ports",
        "ids",
        "intake",
        "republisher",
        "resources",
        "rules",
        "store",
        "view",
    )

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        ports: Ports,
        owner: IngestOwner,
        intake: Intake,
        committer: Committer,
        answers: Answers,
        resources: Resources,
        max_payload_bytes: int,
    ) -> None:
        """Go on behind what `store` holds."""
        self.store = store
        self._ports = ports
        self._append = store.append
        self._owner = owner
        self._committer = committer
        self._answers = answers
        self._max_payload_bytes = max_payload_bytes
        self.resources = resources
        self.intake = intake  # has what was assigned: sequence, time and message id of the last message
        intake.last_seq = store.last_seq
        intake.last_ts_ns = store.last_ts_ns
        self.rules = StreamRules(config, max_payload_bytes)
        self.view = AssignedView(store, intake, owner, resources, self.rules.settings)
        self.ids: MessageIds = self.view.ids
        self._adopt()

    def configure(self, config: StreamConfig) -> None:
        """Go on by another configuration."""
        self.rules = StreamRules(config, self._max_payload_bytes)
        self._adopt()

    def _adopt(self) -> None:
        settings, intake = self.rules.settings, self.intake
        config = settings.config
        intake.close()
        intake.answers = self._answers.wanted = not config.no_ack
        intake.payload_bytes_max = settings.max_msg_size
        intake.full_msgs = max(config.max_msgs, 0) if settings.discards_new else 0
        intake.full_bytes = max(config.max_bytes, 0) if settings.discards_new else 0
        intake.appended = self._owner.appended if settings.is_watched else None
        self.view.settings = settings
        self.ids.window_ns = config.duplicate_window_ns
        self.republisher = Republisher(config.name, config.republish, self._ports) if config.republish else None

    @property
    def last_seq(self) -> int:
        """Sequence assigned last, not necessarily committed."""
        return self.intake.last_seq

    @property
    def last_ts_ns(self) -> int:
        """Time of that message."""
        return self.intake.last_ts_ns

    def take_over(self, last_id: bytes) -> None:
        """Go on behind what the store holds now; `last_id` is the id of its last message."""
        self.intake.close()
        self.intake.last_seq = self.store.last_seq
        self.intake.last_ts_ns = self.store.last_ts_ns
        self.intake.last_id = last_id

    def open_fast_path(self) -> None:
        """A message was appended, and its commit is on its way: plain ones may follow it directly."""
        resources = self.resources
        if self.rules.is_plain_with_room and not (
            resources.limited or resources.server_exceeded or self.intake.is_open
        ):
            self.intake.open(self.store.direct_writer())

    # --- messages join ----------------------------------------------------------------------------------------------

    def judge(
        self, origin: Origin, subject: bytes, header: bytes, payload: bytes, *, seq: int = 0, ts_ns: int = 0
    ) -> Verdict:
        """What becomes of a message that is alone, with `seq` and `ts_ns` of another stream if they are not 0."""
        draft = Draft(origin, subject, header, payload, self._ports.now_ns(), seq, ts_ns)
        return self.rules.judge(draft, self.view)

    def refused_on_arrival(self, subject: bytes, header: bytes, payload: bytes) -> ApiError | None:
        """Why a message of a batch is not even kept."""
        draft = Draft(Origin.ARRIVAL, subject, header, payload, self._ports.now_ns())
        objection = self.rules.objection(draft, self.view)
        return objection.error if isinstance(objection, Refused) else None

    def stored_under(self, subject: bytes) -> bytes:
        """What a subject becomes in this stream."""
        return self.rules.settings.stored_under(subject, self._ports.random_below)

    def apply(self, verdict: Admitted | Unwanted, reply: bytes | None = None) -> ApiError | None:
        """Carry out the verdict on a message that is alone, and have it acknowledged; why not, if it cannot be."""
        try:
            if isinstance(verdict, Admitted):
                self._append(
                    verdict.seq, verdict.ts_ns, verdict.subject, verdict.header, verdict.payload, verdict.expires_ns
                )
            else:
                self.store.skip_to(verdict.seq)
        except StorageFault as fault:
            return store_error(fault)
        except ValueError as error:
            return TableError(table.STREAM_STORE_FAILED, err=error)
        except Exception as error:
            return self.broke(error)
        self._follow(verdict, is_last=True)
        if reply and self._answers.wanted:
            if isinstance(verdict, Admitted) and verdict.tail:
                self._answers.stored(reply, verdict.seq, verdict.tail)
            else:
                self.intake.acks.append((reply, verdict.seq))
        self._committer.wake()
        return None

    def apply_unit(self, verdicts: Sequence[Admitted | Unwanted], reply: bytes | None, tail: bytes) -> ApiError | None:
        """Carry out the verdicts on messages that are stored together or not at all; the ack ends with `tail`."""
        store = self.store
        try:
            store.begin_atomic()
            for verdict in verdicts:
                if isinstance(verdict, Admitted):
                    store.append_atomic(
                        verdict.seq, verdict.ts_ns, verdict.subject, verdict.header, verdict.payload, verdict.expires_ns
                    )
            store.end_atomic()
            if not isinstance(verdicts[-1], Admitted):
                store.skip_to(verdicts[-1].seq)
        except StorageFault as fault:
            store.abort_atomic()
            return store_error(fault)
        except ValueError as error:
            store.abort_atomic()
            return TableError(table.STREAM_STORE_FAILED, err=error)
        except Exception as error:
            self._committer.abort_unit()
            return self.broke(error)
        for verdict in verdicts:
            self._follow(verdict, is_last=False)
        self._answers.stored(reply, self.last_seq, tail)
        self._committer.wake()
        return None

    def broke(self, error: Exception) -> ApiError:
        """An exception that nobody expected ended an append: go on behind what the store holds; what to answer."""
        self._ports.report(f"A message for stream '{self.rules.settings.config.name}'", error)
        if self.store.last_seq != self.last_seq:
            self.take_over(b"")
        return TableError(table.STREAM_GENERAL, err="internal error")

    # --- what follows -----------------------------------------------------------------------------------------------

    def _follow(self, verdict: Admitted | Unwanted, *, is_last: bool) -> None:
        """Let follow what follows from a message: all but its ack. `is_last`: the store holds no newer one yet."""
        try:
            self._assigned(verdict.seq, verdict.ts_ns, verdict.message_id)
            if isinstance(verdict, Admitted):
                self._joined(verdict, is_last=is_last)
            elif verdict.rollup:
                rolled = verdict.subject if verdict.rollup == b"sub" else b""
                self._owner.rolled_up(rolled, 0, 0 if is_last else verdict.seq + 1)
            if verdict.header:
                self._cancel_schedule(verdict)
            if isinstance(verdict, Admitted) and self.republisher is not None:
                self._republish(self.republisher, verdict)
        except Exception as error:
            # The message is stored, with all others of its unit, whatever becomes of the rest.
            self._ports.report(f"What follows from a message of stream '{self.rules.settings.config.name}'", error)
            if self.store.last_seq != self.last_seq:
                self.take_over(b"")

    def _joined(self, verdict: Admitted, *, is_last: bool) -> None:
        seq, subject, header = verdict.seq, verdict.subject, verdict.header
        settings = self.rules.settings
        self.intake.buffered_bytes += len(verdict.payload) + len(header)
        if settings.is_watched or verdict.expires_ns:
            self._owner.appended(seq, subject, verdict.expires_ns)
        if verdict.rollup:
            rolled = subject if verdict.rollup == b"sub" else b""
            if is_last:
                self._owner.rolled_up(rolled, 1)
            else:
                self._owner.rolled_up(rolled, 0, seq)
        if settings.config.allow_msg_schedules:
            self._owner.schedule_stored(seq, verdict.ts_ns, subject, header)

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

    def _cancel_schedule(self, verdict: Admitted | Unwanted) -> None:
        """Remove the schedule that a message says was its last: one that it cancels, or that has published it."""
        header = verdict.header
        if header.find(b"\r\nNats-Schedule-Next:") < 0 or not self.rules.settings.can_roll_up:
            return
        scheduler = headers.find(header, b"Nats-Scheduler")
        if scheduler and headers.find(header, b"Nats-Schedule-Next") == schedule_rules.PURGE:
            self._owner.rolled_up(scheduler, 0, verdict.seq if isinstance(verdict, Admitted) else 0)

    def _republish(self, republisher: Republisher, verdict: Admitted) -> None:
        effect = republisher.effect(
            verdict.seq, verdict.ts_ns, verdict.subject, verdict.header, verdict.payload, verdict.previous_seq
        )
        if effect is not None:
            self._committer.after(effect)
