"""Dead letters: a message that a consumer gives up is published under another subject, once.

The subject is the consumer's metadata `slipstream.dlq`, or else its stream's. The way of one letter::

    pending ──max_deliver, term──► dead (journalled) ──committed──► published ──stored there──► buried (journalled)

While it is dead, the message stays in its stream. What was not confirmed, by a restart or for some seconds, is looked
for in the streams that store the subject, by its message id and from the time of its death on; it is published again
only if it is not there. If no stream of the account stores the subject, the letter is published once, when its death is
committed.

In a cluster the stream that stores it may be led by another server: then it is not looked into. A letter that is
published again has the same message id, and that stream knows it for as long as its duplicate window is.

A buried message counts as acknowledged: interest and work-queue streams remove it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from slipstream.errors import ApiError
from slipstream.jetstream import headers
from slipstream.jetstream.consumer.limits import DEAD_LETTER_RETRY_NS, DEAD_LETTERS_IN_FLIGHT
from slipstream.jetstream.consumer.state import BURIED, DEAD, DeadLetter
from slipstream.jetstream.errors import invalid_config
from slipstream.jetstream.ports import Cancel, LiveSubscription
from slipstream.jetstream.store.values import Damaged, StoredMessage
from slipstream.jetstream.stream import reads
from slipstream.kernels.subjects.subject import is_valid_publish, matches

if TYPE_CHECKING:
    from slipstream.jetstream.config.structs import ConsumerConfig, StreamConfig
    from slipstream.jetstream.consumer.consumer import Consumer
    from slipstream.jetstream.consumer.filters import Filters

__all__ = ["DLQ_KEY", "DeadLetters", "check_dead_letters"]

DLQ_KEY = "slipstream.dlq"
_REASON_BYTES_MAX = 1_024


def check_dead_letters(config: ConsumerConfig, stream: StreamConfig, filters: Filters) -> None:
    """Whether the dead letter subject of a consumer makes sense.

    Raises:
        ApiError: 10052, it is no subject, or the consumer would get its own dead letters.
    """
    subject = config.metadata.get(DLQ_KEY) or stream.metadata.get(DLQ_KEY) or ""
    if not subject:
        return
    target = subject.encode()
    if not is_valid_publish(target):
        raise invalid_config(f"dead letter subject is not valid: {subject}")
    if any(matches(own.encode(), target) for own in stream.subjects) and filters.match(target):
        raise invalid_config(f"dead letter subject forms a cycle: {subject}")


class DeadLetters:
    """The dead letters of one consumer that are not buried yet."""

    def __init__(self, consumer: Consumer) -> None:
        """Nothing is published before `resume` or `bury`."""
        self._consumer = consumer
        self._subscription: LiveSubscription | None = None
        self._reply_prefix = f"$JS.DLQ.{consumer.stream.name}.{consumer.name}.".encode()
        self._sent: set[int] = set()  # published and not confirmed
        self._timer: Cancel | None = None
        self.subject = b""
        self.configure()

    def configure(self) -> None:
        """Find the subject in the metadata."""
        consumer = self._consumer
        subject = consumer.config.metadata.get(DLQ_KEY) or consumer.stream.config.metadata.get(DLQ_KEY) or ""
        self.subject = subject.encode() if is_valid_publish(subject.encode()) else b""

    def resume(self) -> None:
        """Publish what was on its way when the server stopped, once all streams are there."""
        if self._consumer.state.dead:
            self._consumer.ports.call_soon(self._retry)

    def close(self) -> None:
        """Publish no more; what is not buried is published after the next start."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        if self._timer is not None:
            self._timer()
            self._timer = None

    def bury(self, seq: int, reason: str) -> None:
        """A pending message has left the consumer."""
        consumer = self._consumer
        acks = consumer.state.acks
        reason = reason.replace("\r", " ").replace("\n", " ")[:_REASON_BYTES_MAX]
        letter = DeadLetter(acks.pending[seq], acks.deliveries(seq), reason, consumer.ports.now_ns())
        acks.ack(seq)
        consumer.deliverer.source.done([seq])
        consumer.state.dead[seq] = letter
        consumer.journal.add(DEAD, seq, letter.dseq, letter.deliveries, letter.reason, letter.died_ns)
        consumer.journal.flush()
        consumer.stream.after_commit(self._committed)

    def lost(self, seqs: Iterable[int]) -> None:
        """These messages were removed from the stream before they were buried."""
        dead = self._consumer.state.dead
        for seq in [seq for seq in seqs if seq in dead]:
            self._consumer.ports.log(
                "WRN", f"Dead letter {seq} of consumer '{self._consumer.name}' was removed before it was published"
            )
            self._buried(seq)

    def _committed(self, error: ApiError | None) -> None:
        if error is None and not self._consumer.closed:
            self._publish()

    def _publish(self) -> None:
        """Send what is not on its way yet."""
        consumer = self._consumer
        if not self.subject:
            return
        waiting = [seq for seq in consumer.state.dead if seq not in self._sent]
        confirmed = consumer.owner.is_stored(self.subject)
        for seq in waiting[: DEAD_LETTERS_IN_FLIGHT - len(self._sent)] if confirmed else waiting:
            message = consumer.store.get(seq)
            if message is None or isinstance(message, Damaged):
                self.lost([seq])
                continue
            block = self._header(message, consumer.state.dead[seq])
            if not confirmed:
                consumer.ports.publish(self.subject, None, block, message.payload)
                self._buried(seq)
                continue
            self._listen()
            self._sent.add(seq)
            consumer.ports.publish(self.subject, self._reply_prefix + b"%d" % seq, block, message.payload)
        if self._sent and self._timer is None:
            self._timer = consumer.ports.call_later(DEAD_LETTER_RETRY_NS, self._retry)

    def _retry(self) -> None:
        if self._consumer.closed:
            return
        self._timer = None
        self._sent.clear()
        for seq, letter in list(self._consumer.state.dead.items()):
            if self._is_stored(self._message_id(seq), letter.died_ns):
                self._buried(seq)
        self._publish()

    def _is_stored(self, message_id: bytes, since_ns: int) -> bool:
        """Whether a letter has arrived. Message ids are kept for minutes, a server may be down for longer."""
        for stream in self._consumer.owner.capturing(self.subject):
            # A stream that transforms subjects stores the letter under another one.
            subject = b"" if stream.config.subject_transform else self.subject
            message = reads.following(stream.store, subject, stream.store.seq_for_time(since_ns))
            while message is not None:
                if headers.find(message.headers, b"Nats-Msg-Id") == message_id:
                    return True
                message = reads.following(stream.store, subject, message.seq + 1)
        return False

    def _message_id(self, seq: int) -> bytes:
        consumer = self._consumer
        return f"dlq.{consumer.stream.name}.{consumer.name}.{consumer.state.created_ns}.{seq}".encode()

    def _listen(self) -> None:
        if self._subscription is None:
            self._subscription = self._consumer.ports.subscribe(self._reply_prefix + b"*", self._on_stored)

    def _on_stored(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        token = subject[len(self._reply_prefix) :]
        seq = int(token) if token.isdigit() and len(token) < 20 else 0
        if seq not in self._sent:
            return
        try:
            answer = json.loads(payload)
        except ValueError:
            return
        if not isinstance(answer, dict) or "seq" not in answer or "error" in answer:
            shown = payload[:200].decode("utf-8", "replace")
            self._consumer.ports.log("WRN", f"Dead letter {seq} of '{self._consumer.name}' was refused: {shown}")
            return
        self._sent.discard(seq)
        self._buried(seq)
        if self._consumer.state.dead.keys() - self._sent:
            self._publish()

    def _buried(self, seq: int) -> None:
        consumer = self._consumer
        if consumer.state.dead.pop(seq, None) is not None:
            consumer.journal.add(BURIED, seq)
            consumer.done_with([seq])

    def _header(self, message: StoredMessage, letter: DeadLetter) -> bytes:
        """The original headers without those that would mean something to the receiving stream, and ours."""
        consumer = self._consumer
        lines = message.headers.split(b"\r\n")[1:] if message.headers else []
        block = b"NATS/1.0\r\n" + b"".join(
            line + b"\r\n" for line in lines if line and not line.lower().startswith(b"nats-")
        )
        stream, name = consumer.stream.name, consumer.name
        block = headers.append(block + b"\r\n", b"Nats-Msg-Id", self._message_id(message.seq))
        for key, value in (
            (b"Slipstream-Dlq-Stream", stream),
            (b"Slipstream-Dlq-Sequence", str(message.seq)),
            (b"Slipstream-Dlq-Consumer", name),
            (b"Slipstream-Dlq-Deliveries", str(letter.deliveries)),
            (b"Slipstream-Dlq-Reason", letter.reason),
        ):
            block = headers.append(block, key, value.encode())
        return headers.append(block, b"Slipstream-Dlq-Subject", message.subject)
