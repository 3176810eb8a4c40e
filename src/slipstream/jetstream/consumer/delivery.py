"""From the store to those who want it: the next messages of one consumer, in slices.

What may be delivered again goes first, then what is new. A slice ends when nobody wants more, too much is
unacknowledged, the stream ends, a message has to wait its time, or other work should have its turn.

Two ways. When the sink can say beforehand who gets the next messages, a kernel hands out a whole batch as it is stored;
otherwise each message is read and offered to the sink, which may refuse. When a slice has found nothing and one request
waits alone, the way of the next message is known before it comes (`expect`): a commit of this one message is handed out
at once (`deliver_expected`), ahead of the slice that follows in any case and finds it delivered.

Only committed messages are delivered, and a message is recorded as delivered in the turn it is handed out.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from slipstream.jetstream import headers
from slipstream.jetstream.config.enums import AckPolicy, PriorityPolicy, ReplayPolicy, RetentionPolicy
from slipstream.jetstream.consumer.by_key import ByKey
from slipstream.jetstream.consumer.limits import (
    CONSUMER_AHEAD_BYTES,
    CONSUMER_CONGESTED_MAX_NS,
    CONSUMER_CONGESTED_NS,
    CONSUMER_SLICE_BYTES,
    CONSUMER_SLICE_MSGS,
)
from slipstream.jetstream.consumer.ordering import ordering_of
from slipstream.jetstream.consumer.pacing import RateLimit, Replay
from slipstream.jetstream.consumer.plan import NO_BYTES_LIMIT
from slipstream.jetstream.consumer.source import InOrder, MessageSource
from slipstream.jetstream.consumer.state import REDELIVERED
from slipstream.jetstream.consumer.undelivered import Undelivered
from slipstream.jetstream.ports import Cancel
from slipstream.jetstream.store.values import Damaged, Read, StoredMessage
from slipstream.kernels.fastpath.handout import Batch

if TYPE_CHECKING:
    from slipstream.jetstream.config.structs import ConsumerConfig
    from slipstream.jetstream.consumer.consumer import Consumer
    from slipstream.jetstream.consumer.sink import Expected

__all__ = ["Deliverer", "Pacing", "Stop"]

FOREVER_NS = 1 << 62


class Stop(Enum):
    """Why a slice ended."""

    IDLE = auto()  # nobody wants anything
    END = auto()  # the stream has nothing more
    FULL = auto()  # max_ack_pending
    REFUSED = auto()  # the sink takes nothing at the moment, or the message has to wait its time
    MORE = auto()  # the slice is used up
    UNSURE = auto()  # another server may lead the stream: it is woken when that is known
    CONGESTED = auto()  # a receiver has not caught up since the last slice


class Pacing(Enum):
    """What the next slice waits for, when a timer starts it."""

    RATE = auto()  # rate_limit_bps
    REPLAY = auto()  # replay_policy original
    RECEIVER = auto()  # it has much to read


class Deliverer:
    """Delivers for one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        """Nothing happens before `run`."""
        self._consumer = consumer
        self._store = consumer.store
        self._ports = consumer.ports
        self._has_copies = consumer.stream.is_replicated  # as long as this stream is open
        self.undelivered = Undelivered(consumer)
        self.source = _source(consumer, self.undelivered)
        self._replay: Replay | None = None
        self._rate: RateLimit | None = None
        self._pace_timer: Cancel | None = None
        self._pace: tuple[Pacing, int] = (Pacing.RECEIVER, 0)  # why the timer runs, and until when
        self.last_delivered_ns = 0
        self._slice_bytes = 0  # read in the slice under way
        self._target = b""  # who got the last message
        self._congested = False  # and had not caught up then
        self._pause_ns = CONSUMER_CONGESTED_NS  # the next time that it has not
        self._expecting: tuple[Expected, ConsumerConfig] | None = None  # who gets the next message, and why
        if consumer.config.replay_policy is ReplayPolicy.ORIGINAL:
            self._replay = Replay(self._store.last_seq)
        self.configure()

    def configure(self) -> None:
        """Take over a (new) configuration."""
        consumer = self._consumer
        config = consumer.config
        self.undelivered.recount()
        self._prefix = b"$JS.ACK.%b.%b." % (consumer.stream.name.encode(), consumer.name.encode())
        self._first_prefix = self._prefix + b"1."
        self._needs_ack = config.ack_policy is not AckPolicy.NONE
        self._rate = None
        if config.rate_limit_bps:
            burst = consumer.stream.config.max_msg_size
            burst = burst if burst > 0 else consumer.facts.max_payload_bytes
            self._rate = RateLimit(config.rate_limit_bps, burst, self._ports.now_ns())
        self._as_stored = self._replay is None and self._rate is None

    def close(self) -> None:
        """No more timers."""
        self._stop_pace()
        self.source.close()

    def _stop_pace(self) -> None:
        if self._pace_timer is not None:
            self._pace_timer()
            self._pace_timer = None

    # --- delivering ---

    def run(self, *, alone: bool = False) -> Stop:
        """One slice. Messages are handed out, or in `consumer.out` afterwards; `alone`: see `Consumer.pump`."""
        consumer = self._consumer
        acks, sink = consumer.state.acks, consumer.sink
        self._expecting = None
        if self._congested:
            if self._ports.is_congested(self._target, CONSUMER_AHEAD_BYTES):
                return Stop.CONGESTED
            self._congested = False
            self._pause_ns = CONSUMER_CONGESTED_NS
        if self._has_copies and not self._leads_surely():
            return Stop.UNSURE
        self._slice_bytes = 0
        left = CONSUMER_SLICE_MSGS
        while left > 0 and (seq := acks.next_redelivery()):
            if self._slice_bytes >= CONSUMER_SLICE_BYTES:
                return Stop.MORE
            if not sink.demand():
                return Stop.IDLE
            message = self._store.get(seq)
            if message is None or isinstance(message, Damaged):
                consumer.lost(seq)
                continue
            if not self._hand_out(message, acks.deliveries(seq) + 1):
                return Stop.REFUSED
            left -= 1
        while left > 0 and self._slice_bytes < CONSUMER_SLICE_BYTES:
            wanted = sink.demand()
            if not wanted:
                return Stop.IDLE
            room = consumer.room() if self._needs_ack else left
            if room <= 0:
                return Stop.FULL
            sent = self._whole_batch(room if room < left else left, alone)
            if not sent:
                messages = self.source.read(min(wanted, room, left), CONSUMER_SLICE_BYTES - self._slice_bytes)
                if not messages:
                    return Stop.END
                sent = self._first_deliveries(messages)
            if not sent:
                return Stop.REFUSED
            left -= sent
        return Stop.MORE

    def _leads_surely(self) -> bool:
        """Whether no other server may deliver; it is asked for only where there is something to deliver."""
        consumer = self._consumer
        has_any = consumer.sink.demand() and (consumer.state.acks.next_redelivery() or self.undelivered.pending())
        return not has_any or consumer.stream.leads_surely(consumer.wake)

    # --- the fast way ---

    def _whole_batch(self, most: int, alone: bool) -> int:
        """Hand out the next messages as they are stored; how many. 0: that is not possible, or there are none."""
        consumer = self._consumer
        state, sink = consumer.state, consumer.sink
        if not self._as_stored:
            return 0
        pending = self.undelivered.pending()
        ready = self.source.ready(most, pending) if pending else 0
        plan = sink.plan(ready) if ready else None
        if plan is None:
            return 0
        batch = self.source.gather(plan.messages, CONSUMER_SLICE_BYTES - self._slice_bytes)
        if not batch:
            return 0
        if consumer.out:
            consumer.send_waiting()
        count, size, last_size = self._ports.hand_out(
            plan.targets,
            batch,
            0,
            len(batch),
            self._first_prefix,
            state.acks.dseq,
            pending,
            plan.max_bytes,
            headers_only=consumer.config.headers_only,
        )
        self._slice_bytes += batch.record_bytes
        self._target = plan.targets if isinstance(plan.targets, bytes) else plan.targets[count - 1]
        if alone:
            self._ports.flush()  # the client need not wait for our bookkeeping
        self._record(batch, count)
        if count < len(batch):
            self.source.put_back(batch.seqs(count, len(batch)))
        sink.took(plan, count, size, last_size)
        return count

    # --- ahead of a slice ---

    def expect(self) -> None:
        """The stream has nothing more: remember who gets the next message, if that can be said now."""
        consumer = self._consumer
        config = consumer.config
        follows = self._as_stored and self.source.follows_stream
        if not follows or consumer.state.resume_seq or config.pause_until_ns is not None:
            return
        expected = consumer.sink.expect()
        if expected is not None and not self.undelivered.pending():
            self._expecting = expected, config

    def deliver_expected(self, seq: int) -> None:
        """Of the messages, only this one was committed since `expect`: hand it out, unless anything else has changed.

        There is room for it: a slice that has found nothing had some, and every slice begins by expecting nothing. What
        is not done here is the next slice's, which follows.
        """
        if self._expecting is None:
            return
        expected, config = self._expecting
        self._expecting = None
        consumer, store, undelivered = self._consumer, self._store, self.undelivered
        state = consumer.state
        if (
            state.config is not config
            or consumer.out
            or state.acks.next_redelivery()
            or not undelivered.follows(seq)
            or not expected.holds()
        ):
            return
        batch = store.gather(
            consumer.filters.for_store, state.next_seq, max_msgs=1, max_bytes=CONSUMER_SLICE_BYTES, up_to_seq=seq
        )
        if not batch:
            return
        self._ports.hand_out(
            expected.target,
            batch,
            0,
            1,
            self._first_prefix,
            state.acks.dseq,
            1,
            NO_BYTES_LIMIT,
            headers_only=config.headers_only,
        )
        self._ports.flush()
        undelivered.pending()
        self._record(batch, 1)
        expected.took()

    # --- the careful way ---

    def _first_deliveries(self, messages: list[Read]) -> int:
        """Hand out as many as the sink takes; how many of the list are done with. 0: the sink takes none now."""
        done = 0
        for message in messages:
            if isinstance(message, Damaged):
                self._consumer.unreadable(message)
                self.source.passed([message.seq])
                self.undelivered.recount()
            elif not self._hand_out(message, 1):
                self.source.put_back([message.seq for message in messages[done:]])
                break
            done += 1
        return done

    def _hand_out(self, message: StoredMessage, deliveries: int) -> bool:
        """The careful way: one message, if somebody takes it now."""
        consumer, now_ns = self._consumer, self._ports.now_ns()
        self._slice_bytes += len(message.headers) + len(message.payload)
        pending = self.undelivered.pending()
        after = pending - 1 if deliveries == 1 else pending
        dseq = consumer.state.acks.dseq + 1
        reply = self._prefix + b"%d.%d.%d.%d.%d" % (deliveries, message.seq, dseq, message.ts_ns, after)
        block, payload = message.headers or None, message.payload
        if consumer.config.headers_only:
            block, payload = _size_header(message), b""
        size = len(message.subject) + len(reply) + len(block or b"") + len(payload)
        if self._must_wait(message, size, now_ns, first=deliveries == 1):
            return False
        sink = consumer.sink
        target = sink.take(size, pending)
        if target is None:
            return False
        if consumer.config.priority_policy is PriorityPolicy.PINNED_CLIENT:
            block = headers.append(block or b"", b"Nats-Pin-Id", consumer.groups.pin_id.encode())
        if consumer.pull is not None and consumer.pull.takes_preview:
            names = (consumer.stream.name.encode(), consumer.name.encode())
            reply = b"$JS.A.%b.%b.%d.%d.%d" % (*names, deliveries, message.seq, dseq)
        self._target = target
        consumer.out.append((target, message.subject, reply, block, payload))
        if deliveries == 1:
            self._record_first([message.seq])
        else:
            self._record_again(message.seq, now_ns)
        sink.sent(size)
        if self._replay is not None:
            self._replay.sent(message.ts_ns, now_ns)
        if self._rate is not None:
            self._rate.sent(size, now_ns)
        return True

    def _must_wait(self, message: StoredMessage, size: int, now_ns: int, *, first: bool) -> bool:
        delay_ns, pacing = self._rate.delay_ns(size, now_ns) if self._rate is not None else 0, Pacing.RATE
        if self._replay is not None and first:
            gap_ns = self._replay.delay_ns(message.seq, message.ts_ns, now_ns)
            if gap_ns > delay_ns:
                delay_ns, pacing = gap_ns, Pacing.REPLAY
        if delay_ns <= 0:
            return False
        self._later(delay_ns, pacing)
        return True

    @property
    def is_ahead(self) -> bool:
        """Whether the slice was long and who got it has much to read already."""
        return self._slice_bytes >= CONSUMER_SLICE_BYTES and self._ports.is_congested(
            self._target, CONSUMER_AHEAD_BYTES
        )

    def pause(self) -> None:
        """A receiver is congested: go on when it has caught up, and look at that in a moment."""
        self._congested = True
        self._later(self._pause_ns, Pacing.RECEIVER)
        self._pause_ns = min(2 * self._pause_ns, CONSUMER_CONGESTED_MAX_NS)

    def _later(self, delay_ns: int, pacing: Pacing) -> None:
        self._stop_pace()
        self._pace = pacing, self._ports.now_ns() + delay_ns
        self._pace_timer = self._ports.call_later(delay_ns, self._go_on)

    def _go_on(self) -> None:
        self._pace_timer = None
        self._consumer.wake()

    @property
    def waits(self) -> bool:
        """Whether a timer will start the next slice."""
        return self._pace_timer is not None

    @property
    def waits_for(self) -> tuple[Pacing, int] | None:
        """What that timer waits for, and until when; None: none runs."""
        return self._pace if self._pace_timer is not None else None

    # --- recording ---

    def _record(self, batch: Batch, count: int) -> None:
        """The first messages of a batch are out."""
        consumer = self._consumer
        if self._needs_ack or consumer.stream.config.retention is not RetentionPolicy.LIMITS:
            self._record_first(batch.seqs(0, count))
        else:
            self._record_unacked(count, batch.seq(count - 1))

    def _record_first(self, seqs: list[int]) -> None:
        consumer = self._consumer
        if not self._needs_ack:
            self._record_unacked(len(seqs), seqs[-1])
            consumer.done_with(seqs)
            return
        now_ns = self._ports.now_ns()
        self.last_delivered_ns = now_ns
        wait_ns = consumer.ack_wait_ns(1)
        deadline_ns = now_ns + wait_ns if wait_ns else FOREVER_NS
        self.source.delivered(deadline_ns, seqs)
        consumer.handed_out(deadline_ns)

    def _record_unacked(self, count: int, last_seq: int) -> None:
        consumer = self._consumer
        self.undelivered.passed(last_seq, count)
        self.last_delivered_ns = self._ports.now_ns()
        consumer.state.acks.delivered_unacked(count, last_seq)
        consumer.journal.unacked(consumer.state.next_seq, count, last_seq)

    def _record_again(self, seq: int, now_ns: int) -> None:
        consumer = self._consumer
        acks = consumer.state.acks
        wait_ns = consumer.ack_wait_ns(acks.deliveries(seq) + 1)
        deadline_ns = now_ns + wait_ns if wait_ns else FOREVER_NS
        acks.redelivered(seq, deadline_ns)
        consumer.journal.add(REDELIVERED, seq, deadline_ns)
        self.last_delivered_ns = now_ns
        consumer.handed_out(deadline_ns)


def _source(consumer: Consumer, undelivered: Undelivered) -> MessageSource:
    """The order that the consumer was made with: it does not change."""
    ordering = ordering_of(consumer.config.metadata)
    return InOrder(consumer, undelivered) if ordering is None else ByKey(consumer, undelivered, ordering)


def _size_header(message: StoredMessage) -> bytes:
    return headers.append(message.headers, b"Nats-Msg-Size", b"%d" % len(message.payload))
