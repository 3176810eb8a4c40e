"""What clients answer to deliveries, and what happens when they do not answer in time.

Acks of one turn of the loop are collected: one change in the journal, one commit, and only then the confirmations of
those that asked for one. The timer is armed for the earliest deadline and never moved by an ack; when it fires too
early, it is armed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.errors import ApiError
from slipstream.jetstream import headers
from slipstream.jetstream.ack_subjects import ack_numbers
from slipstream.jetstream.config.enums import AckPolicy
from slipstream.jetstream.consumer.config import sample_percent
from slipstream.jetstream.consumer.delivery import FOREVER_NS
from slipstream.jetstream.consumer.limits import REDELIVER_INTERVAL_MIN_NS, REDELIVER_SLICE_MSGS
from slipstream.jetstream.consumer.naks import nak_delay_ns
from slipstream.jetstream.consumer.state import ACKED_UP_TO, GAVE_UP, POSTPONED
from slipstream.jetstream.ports import Cancel
from slipstream.kernels.fastpath.ackintake import AckIntake

if TYPE_CHECKING:
    from slipstream.jetstream.consumer.consumer import Consumer

__all__ = ["Replies"]


class Replies:
    """The acks of one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        """Nothing happens before an ack comes, or `arm`."""
        self._consumer = consumer
        self._ports = consumer.ports
        prefix = f"$JS.ACK.{consumer.stream.name}.{consumer.name}."
        self.intake = AckIntake(len(prefix.encode()), self.on_ack, self._began)
        self._timer: Cancel | None = None
        self.timer_ns = 0  # what the timer is armed for
        self.last_ack_ns = 0
        self.configure()

    def configure(self) -> None:
        """Take over a (new) configuration."""
        config = self._consumer.config
        self._sample_percent = sample_percent(config.sample_freq)
        self.intake.plain = config.ack_policy is AckPolicy.EXPLICIT and not self._sample_percent
        self.rebind()

    def rebind(self) -> None:
        """The consumer has got another ack engine."""
        self._consumer.state.acks.bind(self.intake)

    def close(self) -> None:
        """No more timers."""
        if self._timer is not None:
            self._timer()
            self._timer = None

    @property
    def armed(self) -> bool:
        """Whether the timer runs."""
        return self._timer is not None

    def _began(self) -> None:
        """The first ack of this turn has come."""
        self.last_ack_ns = self._consumer.sink.last_active_ns = self._ports.now_ns()
        self._ports.call_soon(self.flush)
        self._consumer.wake_if_full()

    def on_ack(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """An ack of any kind; those that `intake` takes end the same way here."""
        numbers = ack_numbers(subject)
        if numbers is None or numbers[0] == 0:
            return
        seq, dseq, deliveries = numbers
        self._consumer.sink.last_active_ns = self._ports.now_ns()
        if not payload or payload in (b"+ACK", b"+OK"):
            if not self._ack(seq, dseq, deliveries):
                return
        elif payload.startswith(b"+NXT"):
            self._ack(seq, dseq, deliveries)
            if reply:
                self._consumer.on_request(subject, reply, None, payload[4:])
            return
        elif payload.startswith(b"-NAK"):
            self._nak(seq, dseq, deliveries, payload[4:].strip())
        elif payload == b"+WPI":
            self._progress(seq)
        elif payload.startswith(b"+TERM") and not self._terminate(seq, dseq, deliveries, payload[5:].strip()):
            return
        if reply:
            self._flush_soon()
            self.intake.confirm.append(reply)

    def _ack(self, seq: int, dseq: int, deliveries: int, *, sampled: bool = True) -> bool:
        """Acknowledge. False: nothing that has been delivered, so not confirmed either."""
        if seq >= self._consumer.state.next_seq and seq not in self._consumer.state.acks.pending:
            if seq > self._consumer.store.last_seq:
                self._consumer.warn(f"got an ack of future message {seq}")
            return False
        self.last_ack_ns = self._ports.now_ns()
        if self._consumer.config.ack_policy is AckPolicy.EXPLICIT:
            if sampled and self._sample_percent:
                self._sample(seq, dseq, deliveries)
            if self._consumer.state.acks.ack(seq):
                self._flush_soon()
                self.intake.acked.append(seq)
        else:
            self._ack_up_to(seq, dseq)
        self._consumer.wake_if_full()
        return True

    def _ack_up_to(self, seq: int, dseq: int) -> None:
        self.flush()
        done = self._consumer.state.acks.ack_up_to(seq, dseq)
        if done is not None:
            self._consumer.journal.add(ACKED_UP_TO, seq, dseq)
            self._consumer.done_with(done)

    def _nak(self, seq: int, dseq: int, deliveries: int, argument: bytes) -> None:
        acks = self._consumer.state.acks
        if seq not in acks.pending:
            return
        self._consumer.events.nak(seq, dseq, deliveries)
        delay_ns = nak_delay_ns(argument) if argument else 0
        if delay_ns is None:
            shown = argument[:64].decode("utf-8", "replace")
            self._consumer.warn(f"got a bad NAK delay value: {shown!r}")
        if delay_ns and delay_ns > 0:
            self._postpone(seq, self._ports.now_ns() + delay_ns, sent_back=True)
        elif not acks.is_queued(seq):
            self._consumer.journal.add(POSTPONED, seq, self._ports.now_ns())  # due at once, after a restart too
            self.expired(seq)
            self._consumer.wake()

    def _progress(self, seq: int) -> None:
        acks = self._consumer.state.acks
        wait_ns = self._consumer.ack_wait_ns(acks.deliveries(seq)) if seq in acks.pending else 0
        if wait_ns and not acks.is_queued(seq):
            self._postpone(seq, self._ports.now_ns() + wait_ns)

    def _postpone(self, seq: int, deadline_ns: int, *, sent_back: bool = False) -> None:
        self._consumer.state.acks.postpone(seq, deadline_ns, sent_back=sent_back)
        self._consumer.journal.add(POSTPONED, seq, deadline_ns)
        self.arm()

    def _terminate(self, seq: int, dseq: int, deliveries: int, reason: bytes) -> bool:
        text = reason.decode("utf-8", "replace")
        known = seq in self._consumer.state.acks.pending
        if known and self._consumer.dead_letters.subject:
            self.flush()
            self._consumer.dead_letters.bury(seq, f"terminated: {text}" if text else "terminated")
            self._consumer.wake_if_full()
        elif not self._ack(seq, dseq, deliveries, sampled=False):
            return False
        self._consumer.events.terminated(seq, dseq, deliveries, text)
        return True

    def _sample(self, seq: int, dseq: int, deliveries: int) -> None:
        acks, percent = self._consumer.state.acks, self._sample_percent
        if seq not in acks.pending or (percent < 100 and self._ports.random_below(100) > percent):
            return
        sent_ns = acks.deadline_ns(seq) - self._consumer.ack_wait_ns(acks.deliveries(seq))
        self._consumer.events.acked(seq, dseq, deliveries, max(self._ports.now_ns() - sent_ns, 0))

    def _flush_soon(self) -> None:
        if not self.intake.acked and not self.intake.confirm:
            self._ports.call_soon(self.flush)

    def flush(self) -> None:
        """Journal the acks of this turn together, and confirm them when they are committed."""
        intake = self.intake
        acked, intake.acked = intake.acked, []
        replies, intake.confirm = intake.confirm, []
        if acked and not self._consumer.closed:
            self._consumer.journal.acked(acked)
            self._consumer.done_with(acked)
        if replies:
            self._consumer.journal.flush()
            self._consumer.stream.after_commit(lambda error: self._confirmed(replies, error))

    def _confirmed(self, replies: list[bytes], error: ApiError | None) -> None:
        """Silence after an error: the client asks again, and is answered when the disk works."""
        if error is None:
            self._ports.publish_many((reply, b"") for reply in replies)

    def on_flow_reply(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """The answer to a flow control request; for some consumers it is also an ack."""
        consumer = self._consumer
        assert consumer.push is not None
        is_ack = consumer.config.ack_policy is AckPolicy.FLOW_CONTROL
        if not consumer.push.on_flow_reply(subject) or not is_ack or not header:
            return
        seq = headers.find(header, b"Nats-Last-Stream") or b""
        dseq = headers.find(header, b"Nats-Last-Consumer") or b"0"
        if seq.isdigit() and dseq.isdigit() and 0 < int(seq) < consumer.state.next_seq:
            self._ack_up_to(int(seq), int(dseq))

    def expired(self, seq: int) -> None:
        """It was not acknowledged: deliver it again, or give up."""
        acks, limit = self._consumer.state.acks, self._consumer.config.max_deliver
        if limit <= 0 or acks.deliveries(seq) < limit:
            acks.queue(seq)
            return
        self.flush()
        deliveries = acks.deliveries(seq)
        if self._consumer.dead_letters.subject:
            self._consumer.dead_letters.bury(seq, "max_deliver")
        else:
            acks.give_up(seq)
            self._consumer.deliverer.source.done([seq])
            self._consumer.journal.add(GAVE_UP, seq)
        self._consumer.events.max_deliver(seq, deliveries)
        self._consumer.wake_if_full()

    def arm(self, deadline_ns: int | None = None) -> None:
        """See to it that the earliest deadline is noticed; `deadline_ns` if the caller knows it."""
        if deadline_ns is None:
            deadline_ns = self._consumer.state.acks.next_deadline_ns()
        if deadline_ns is None or deadline_ns >= FOREVER_NS or self._consumer.closed:
            return
        if self._timer is not None:
            if self.timer_ns <= deadline_ns:
                return
            self._timer()
        self.timer_ns = deadline_ns
        delay_ns = max(deadline_ns - self._ports.now_ns(), REDELIVER_INTERVAL_MIN_NS)
        self._timer = self._ports.call_later(delay_ns, self._due)

    def _due(self) -> None:
        self._timer = None
        due = self._consumer.state.acks.take_due(self._ports.now_ns(), REDELIVER_SLICE_MSGS)
        for seq in due:
            self.expired(seq)
        if due:
            self._consumer.wake()
        self.arm()
