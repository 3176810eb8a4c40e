"""Fast batches: many messages, few answers. Each message is stored as it comes; the server says how often it acks.

The reply subject carries the batch::

    <prefix>.<id>.<flow>.<gap: ok|fail>.<sequence>.<operation>.$FI       0 start, 1 append, 2 commit, 3 end, 4 ping

Answers go to it: `ack` (stored up to a sequence, and how many messages to the next ack), `gap` (messages are missing),
`err` (one was refused), and at the end an ordinary ack with id and count. With `gap: fail` the first missing or refused
message ends the batch with what was stored until then; with `ok` it goes on.

The intake's kernel stores what is next in an open batch and due for no answer, as long as messages without headers need
no look; everything else comes here, and so does the first message after that has changed.

What this is not: atomic. Invariant: an `ack` leaves only after the commit of everything it speaks of.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream import headers
from slipstream.jetstream.config.versioning import level_suffices
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.guard import guarded
from slipstream.jetstream.limits import BATCH_ID_BYTES_MAX
from slipstream.jetstream.ports import BatchLimits, Ports
from slipstream.jetstream.stream.admission.appends import Appends
from slipstream.jetstream.stream.admission.batches import batch_tail
from slipstream.jetstream.stream.admission.verdict import Duplicate, Origin, Refused
from slipstream.jetstream.stream.commit.answers import Answers
from slipstream.jetstream.stream.commit.pubacks import error_object
from slipstream.jetstream.stream.limits import FAST_BATCH_ACK_EVERY_MAX
from slipstream.kernels.fastpath.fastbatch import FastBatch
from slipstream.kernels.fastpath.fastbatch import parse_reply as read_reply

__all__ = ["FAST_SUFFIX", "FastBatches", "Operation", "parse_reply"]

FAST_SUFFIX: Final = b".$FI"
_COMMIT, _END, _PING = 2, 3, 4
_NEVER: Final = 2**64 - 1  # no message of a batch has this sequence


class Operation(NamedTuple):
    """What a reply subject says."""

    batch_id: bytes
    flow: int
    gap_ok: bool
    seq: int
    kind: int

    @property
    def commits(self) -> bool:
        """Whether this is the last of its batch."""
        return self.kind in (_COMMIT, _END)


def parse_reply(reply: bytes) -> Operation | None:
    """What a reply subject that ends with `FAST_SUFFIX` says; None if it is malformed."""
    found = read_reply(reply)
    return None if found is None else Operation(*found)


class FastBatches:
    """The open fast batches of one stream."""

    def __init__(self, appends: Appends, answers: Answers, ports: Ports, limits: BatchLimits) -> None:
        """Store by `appends`, within the limits all streams share; the intake knows the open batches, too."""
        self._appends = appends
        self._answers = answers
        self._ports = ports
        self._limits = limits
        self._open: dict[bytes, FastBatch] = appends.intake.batches

    def __len__(self) -> int:
        """Open batches."""
        return len(self._open)

    def on_message(self, subject: bytes, reply: bytes, header: bytes, payload: bytes) -> None:
        """A message with a reply subject of this kind arrived."""
        appends = self._appends
        operation = parse_reply(reply)
        error = appends.refused_on_arrival(subject, header, payload)
        if error is None and not appends.rules.settings.config.allow_batched:
            error = TableError(table.BATCH_PUBLISH_DISABLED)
        if error is None and operation is None:
            error = TableError(table.BATCH_PUBLISH_INVALID_PATTERN)
        if error is None:
            assert operation is not None
            error = self._take(operation, subject, reply, header, payload)
        if error is not None:
            self._answers.refuse(reply, error)

    def _take(
        self, operation: Operation, subject: bytes, reply: bytes, header: bytes, payload: bytes
    ) -> ApiError | None:
        batch_id = operation.batch_id
        if len(batch_id) > BATCH_ID_BYTES_MAX:
            return TableError(table.BATCH_PUBLISH_INVALID_BATCH_ID)
        batch = self._open.get(batch_id)
        if batch is None:
            if operation.seq != 1 or operation.kind == _PING:
                return TableError(table.BATCH_PUBLISH_UNKNOWN_BATCH_ID)
            if len(self._open) >= self._limits.fast_per_stream_max or self._limits.fast_full:
                return TableError(table.BATCH_PUBLISH_TOO_MANY_INFLIGHT)
            batch = self._begin(operation)
        if header and headers.find(header, b"Nats-Required-Api-Level"):
            if not level_suffices(header):
                self._end(batch_id)
                return TableError(table.REQUIRED_API_LEVEL)
            header = headers.remove(header, b"Nats-Required-Api-Level")
        batch.last_active_ns = self._ports.now_ns()
        if operation.kind == _PING:
            self._ping(batch, operation, reply)
        elif self._is_next(batch, operation, reply):
            if operation.kind == _END:
                batch.seq -= 1
                batch.stored = batch.seq
                self._finish(batch, batch_id, reply)
            else:
                self._store(batch, operation, subject, reply, header, payload)
        return None

    def _ping(self, batch: FastBatch, operation: Operation, reply: bytes) -> None:
        """The client asks how far we are; what it has sent and we have not seen is a gap."""
        if operation.seq > batch.seq:
            self._tell_gap(reply, batch.seq + 1, operation.seq + 1)
            if not batch.gap_ok:
                self._finish(batch, operation.batch_id, reply)
                return
            batch.seq = batch.stored = operation.seq
            if self._ack_if_due(batch, reply):
                return
        self._ack(batch, reply)

    def _is_next(self, batch: FastBatch, operation: Operation, reply: bytes) -> bool:
        """Count the message; False if a gap ends the batch."""
        batch.seq += 1
        if batch.seq == operation.seq:
            return True
        self._tell_gap(reply, batch.seq, operation.seq)
        if operation.seq > batch.seq and batch.gap_ok:
            batch.seq = operation.seq
            return True
        batch.seq -= 1
        self._finish(batch, operation.batch_id, reply)
        return False

    def _store(
        self, batch: FastBatch, operation: Operation, subject: bytes, reply: bytes, header: bytes, payload: bytes
    ) -> None:
        if operation.seq == 1 and not operation.commits:
            self._ack(batch, reply)
        appends = self._appends
        verdict = appends.judge(Origin.FAST_BATCH, appends.stored_under(subject), header, payload)
        if isinstance(verdict, Duplicate):
            self._repeated(batch, operation, reply, verdict.seq)
            return
        error = verdict.error if isinstance(verdict, Refused) else appends.apply(verdict)
        if error is not None:
            self._refused(batch, operation, reply, error)
            return
        appends.open_fast_path()
        batch.stream_seq = appends.last_seq
        batch.stored = batch.seq
        if operation.commits:
            self._finish(batch, operation.batch_id, reply)
        else:
            self._ack_if_due(batch, reply)

    def _repeated(self, batch: FastBatch, operation: Operation, reply: bytes, seq: int) -> None:
        """The message is there already, at `seq`."""
        batch.stored = operation.seq
        self._ack_if_due(batch, reply)
        if not operation.commits:
            return
        if not operation.gap_ok and batch.seq == 1:
            # The first of a batch is answered like a message of its own.
            self._end(operation.batch_id)
            tail = b',"duplicate": true' + batch_tail(operation.batch_id, operation.seq)
            self._answers.stored(reply, seq, tail)
        else:
            self._finish(batch, operation.batch_id, reply)

    def _refused(self, batch: FastBatch, operation: Operation, reply: bytes, error: ApiError) -> None:
        if error.err_code == table.STREAM_WRONG_LAST_MSG_ID.err_code:
            # It concerns this message alone and does not end the batch.
            self._answers.refuse(reply, error)
            if operation.commits:
                self._end(operation.batch_id)
            return
        if not operation.gap_ok and batch.seq == 1:
            # The first of a batch is answered like a message of its own.
            self._end(operation.batch_id)
            self._answers.refuse(reply, error)
            return
        self._tell(reply, {"type": "err", "seq": operation.seq, "error": error_object(error)})
        if operation.gap_ok and not operation.commits:
            return
        batch.seq -= 1
        batch.stored = batch.seq
        self._finish(batch, operation.batch_id, reply)

    def _finish(self, batch: FastBatch, batch_id: bytes, reply: bytes) -> None:
        """Answer for the whole batch."""
        self._end(batch_id)
        self._answers.stored(reply, batch.stream_seq, batch_tail(batch_id, batch.seq))

    # --- flow control ---

    def _ack_if_due(self, batch: FastBatch, reply: bytes) -> bool:
        """Tell how far we are, every so many messages; how many changes slowly with the number of open batches."""
        if batch.stored < batch.ack_at:
            return False
        steps = (batch.stored - batch.acked) // batch.ack_every
        batch.acked += steps * batch.ack_every
        most = min(max(FAST_BATCH_ACK_EVERY_MAX // len(self._open), 1), batch.ack_every_max)
        if batch.ack_every < most:
            batch.ack_every = min(batch.ack_every * 2, most)
        elif batch.ack_every > most:
            batch.ack_every = max(batch.ack_every // 2, most)
        batch.ack_at = min(batch.acked + batch.ack_every, _NEVER)
        self._ack(batch, reply)
        return True

    def _ack(self, batch: FastBatch, reply: bytes) -> None:
        self._answers.tell(reply, b'{"type":"ack","seq":%d,"msgs":%d}' % (batch.acked, batch.ack_every))

    def _tell_gap(self, reply: bytes, expected_seq: int, seq: int) -> None:
        self._tell(reply, {"type": "gap", "last_seq": expected_seq, "seq": seq})

    def _tell(self, reply: bytes, fields: dict[str, object]) -> None:
        self._answers.tell(reply, encode(fields))

    # --- life of a batch ---

    def _begin(self, operation: Operation) -> FastBatch:
        batch = FastBatch(operation.gap_ok, operation.flow)
        self._watch(operation.batch_id, batch, self._limits.timeout_ns)
        self._open[operation.batch_id] = batch
        self._limits.fast_open += 1
        # Alone it may go as fast as it likes; beside others it starts slowly.
        batch.ack_every = min(FAST_BATCH_ACK_EVERY_MAX, operation.flow) if len(self._open) == 1 else 1
        batch.ack_at = batch.ack_every
        return batch

    def _watch(self, batch_id: bytes, batch: FastBatch, delay_ns: int) -> None:
        """Forget the batch when it was silent for too long."""

        def look() -> None:
            left_ns = batch.last_active_ns + self._limits.timeout_ns - self._ports.now_ns()
            if left_ns > 0:
                self._watch(batch_id, batch, left_ns)
            else:
                self._end(batch_id)

        def broke(error: Exception) -> None:
            self._ports.report("The end of a fast batch", error)
            if batch_id in self._open:
                self._end(batch_id)

        batch.timer = self._ports.call_later(delay_ns, guarded(look, broke))

    def _end(self, batch_id: bytes) -> None:
        batch = self._open.pop(batch_id)
        self._limits.fast_open -= 1
        if batch.timer is not None:
            batch.timer()

    def drop_all(self) -> None:
        """Forget every open batch: the stream stops, or takes no more of them."""
        for batch_id in list(self._open):
            self._end(batch_id)
