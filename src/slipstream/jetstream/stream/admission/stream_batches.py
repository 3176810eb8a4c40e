"""Publish batches of one stream, and how their messages get into it.

`takes` recognises messages of atomic and fast batches before anything else looks at them; the two kinds of batches
decide (`batches`, `fast_batches`), this stores and answers for them.

Invariant: all messages of an atomic batch join the log in one unit, and only then anything follows from them: message
ids, limits, roll-ups, schedules, republished copies, the ack.
"""

from __future__ import annotations

from dataclasses import replace

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports, ServerFacts
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.values import SEQ_LAST
from slipstream.jetstream.stream.admission.appends import exhausted
from slipstream.jetstream.stream.admission.batches import AtomicBatches
from slipstream.jetstream.stream.admission.dedup import MessageIds
from slipstream.jetstream.stream.admission.fast_batches import FAST_SUFFIX, FastBatches
from slipstream.jetstream.stream.admission.ingest import Ingest
from slipstream.jetstream.stream.admission.settings_rules import at_least_marker_ttl
from slipstream.jetstream.stream.admission.staging import Prepared
from slipstream.jetstream.stream.admission.ttl import deadline
from slipstream.jetstream.stream.commit.committer import Committer
from slipstream.jetstream.stream.commit.faults import store_error
from slipstream.jetstream.stream.features.counters import Counter

__all__ = ["StreamBatches"]


class StreamBatches:
    """The batches of a stream and the way they are stored: implements `FastTarget` over an ingest."""

    def __init__(self, ingest: Ingest, committer: Committer, ports: Ports, facts: ServerFacts) -> None:
        """Store through `ingest`; limits are shared by all streams of the server."""
        self._appends = ingest.appends
        self._open_short_way = ingest.open_short_way
        self._admission = ingest.admission
        self._answers = ingest.answers
        self._ports = ports
        self._committer = committer
        self._wake = committer.wake
        self.store: Store = ingest.appends.store
        self.ids: MessageIds = ingest.appends.ids
        self.atomic = AtomicBatches(self, ports, Advisories(ports, facts), facts.batches, ingest.admission.resources)
        self.fast = FastBatches(self, ports, facts.batches, ingest.intake.batches)

    def takes(self, subject: bytes, reply: bytes | None, header: bytes, payload: bytes) -> bool:
        """Whether the message belongs to a batch; then it was taken care of."""
        if reply is not None and reply.endswith(FAST_SUFFIX) and len(reply) > len(FAST_SUFFIX):
            self.fast.on_message(subject, reply, header, payload)
            return True
        if not header or header.find(b"\r\nNats-Batch-Id:") < 0:
            return False
        batch_id = headers.find(header, b"Nats-Batch-Id")
        if not batch_id:
            return False
        self.atomic.on_message(batch_id, subject, reply, header, payload)
        return True

    def refusal(self, subject: bytes, header: bytes, payload: bytes) -> ApiError | None:
        """See `Batches.refusal`; messages of fast batches are judged one by one."""
        batch_id = headers.find(header, b"Nats-Batch-Id") if header else None
        return self.atomic.refusal(batch_id, subject, header, payload)[0] if batch_id else None

    def configure(self, config: StreamConfig) -> None:
        """Open batches of a kind that is no longer allowed are forgotten."""
        if not config.allow_atomic or config.sealed:
            self.atomic.drop_all()
        if not config.allow_batched or config.sealed:
            self.fast.drop_all()

    def stop(self) -> None:
        """Forget all batches."""
        self.atomic.drop_all()
        self.fast.drop_all()

    # --- what batches ask of the stream -----------------------------------------------------------------------------

    @property
    def config(self) -> StreamConfig:
        """See `StagedState.config`."""
        return self._admission.config

    @property
    def counter(self) -> Counter | None:
        """See `StagedState.counter`."""
        return self._admission.counter

    @property
    def last_seq(self) -> int:
        """See `StagedState.last_seq`."""
        return self._appends.last_seq

    @property
    def max_payload_bytes(self) -> int:
        """See `StagedState.max_payload_bytes`."""
        return self._admission.max_payload_bytes

    def now_ns(self) -> int:
        """See `StagedState.now_ns`."""
        return self._ports.now_ns()

    def too_large_or_full(self, subject: bytes, header: bytes, payload: bytes) -> ApiError | None:
        """See `BatchTarget.too_large_or_full`."""
        config = self.config
        if config.sealed:
            return TableError(table.STREAM_SEALED)
        refusal = self._admission.no_resources(self.store.message_bytes(len(subject), len(header), len(payload)))
        if refusal is None and 0 <= config.max_msg_size < len(header) + len(payload):
            refusal = TableError(table.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
        return refusal

    def transformed(self, subject: bytes) -> bytes:
        """See `BatchTarget.transformed`."""
        return self._admission.transformed(subject)

    def wrong_last_id(self, header: bytes) -> ApiError | None:
        """See `FastTarget.wrong_last_id`."""
        return self._appends.wrong_last_id(header)

    def store_one(self, message: Prepared) -> ApiError | None:
        """See `FastTarget.store_one`."""
        refusal = self._appends.add_checked(message)
        if refusal is None:
            self._open_short_way()
        return refusal

    def store_unit(self, messages: list[Prepared], reply: bytes | None, tail: bytes) -> ApiError | None:
        """See `BatchTarget.store_unit`."""
        sizes = sum(self.store.message_bytes(len(m.subject), len(m.header), len(m.payload)) for m in messages)
        refusal = self._admission.no_resources(sizes)
        refusal = refusal or self._appends.no_room_for_ids(message.message_id for message in messages)
        if refusal is not None:
            return refusal
        wanted = [self._admission.is_wanted(message.subject) for message in messages]
        messages = [self._outliving(message) for message in messages]
        ts_ns = max(self._ports.now_ns(), self._appends.last_ts_ns)
        first_seq = self._appends.last_seq + 1
        if first_seq + len(messages) - 1 > SEQ_LAST:
            return exhausted()
        deadlines = [deadline(ts_ns, message.ttl) for message in messages]
        previous = self._previous_seqs(messages, wanted, first_seq)
        try:
            self._append(messages, wanted, deadlines, first_seq, ts_ns)
        except StorageFault as fault:
            self.store.abort_atomic()
            return store_error(fault)
        except ValueError as error:
            self.store.abort_atomic()
            return TableError(table.STREAM_STORE_FAILED, err=error)
        except Exception as error:
            self._committer.abort_unit()
            return self._appends.broke(error)
        for at, message in enumerate(messages):
            seq = first_seq + at
            try:
                if wanted[at]:
                    self._appends.joined(
                        seq,
                        ts_ns,
                        message.subject,
                        message.header,
                        message.payload,
                        message_id=message.message_id,
                        rollup=message.rollup,
                        expires_ns=deadlines[at],
                        previous_seq=previous[at],
                        is_last=False,
                    )
                else:
                    self._appends.passed_over(seq, ts_ns, message)
            except Exception as error:
                # The message is stored with all others of its batch, whatever becomes of the rest.
                self._appends.followed_badly(error)
        self._answers.stored(reply, self._appends.last_seq, tail)
        self._wake()
        return None

    def _append(
        self, messages: list[Prepared], wanted: list[bool], deadlines: list[int], first_seq: int, ts_ns: int
    ) -> None:
        """All of it joins the log in one unit; what nobody wants only takes a sequence."""
        store = self.store
        store.begin_atomic()
        for at, message in enumerate(messages):
            if wanted[at]:
                store.append_atomic(
                    first_seq + at, ts_ns, message.subject, message.header, message.payload, deadlines[at]
                )
        store.end_atomic()
        if not wanted[-1]:
            store.skip_to(first_seq + len(messages) - 1)

    def _outliving(self, message: Prepared) -> Prepared:
        header, ttl = at_least_marker_ttl(self.config, message.header, message.ttl)
        return message if ttl == message.ttl else replace(message, header=header, ttl=ttl)

    def _previous_seqs(self, messages: list[Prepared], wanted: list[bool], first_seq: int) -> list[int]:
        """The message before each on its subject, if it may be republished."""
        if self._appends.republisher is None:
            return [0] * len(messages)
        newest: dict[bytes, int] = {}
        found = []
        for at, message in enumerate(messages):
            known = newest.get(message.subject)
            found.append(self.store.assigned.last_seq_of(message.subject) if known is None else known)
            if wanted[at]:
                newest[message.subject] = first_seq + at
        return found

    # --- answers ----------------------------------------------------------------------------------------------------

    def refuse(self, reply: bytes | None, error: ApiError) -> None:
        """See `BatchTarget.refuse`."""
        self._answers.refuse(reply, error)

    def reassure(self, reply: bytes | None) -> None:
        """See `BatchTarget.reassure`. Nothing was promised, so nothing has to be waited for."""
        if reply and not self.config.no_ack:
            self._ports.publish(reply, None, None, b"")

    def tell(self, reply: bytes | None, payload: bytes) -> None:
        """See `FastTarget.tell`."""
        self._answers.tell(reply, payload)

    def ack_stored(self, reply: bytes | None, seq: int, tail: bytes) -> None:
        """See `FastTarget.ack_stored`."""
        self._answers.stored(reply, seq, tail)
