"""From the store to those who want it: the next messages of one consumer, in slices.

What may be delivered again goes first, then what is new. A slice ends when nobody wants more, too much is
unacknowledged, the stream ends, a message has to wait its time, or other work should have its turn.

Two ways. When all next messages go to one place without conditions, a whole batch is built in one loop; otherwise each
message is offered to the sink, which may refuse.

Only committed messages are delivered, and a message is recorded as delivered in the turn it is handed out.
"""

from __future__ import annotations

from bisect import bisect_left
from enum import Enum, auto
from typing import TYPE_CHECKING

from slipstream.jetstream import headers
from slipstream.jetstream.config.enums import AckPolicy, PriorityPolicy, ReplayPolicy
from slipstream.jetstream.consumer.pacing import RateLimit, Replay
from slipstream.jetstream.consumer.pull import PullSink
from slipstream.jetstream.consumer.state import REDELIVERED, UNACKED
from slipstream.jetstream.ports import Cancel
from slipstream.jetstream.store.base import Damaged, Read, StoredMessage
from slipstream.limits import CONSUMER_CONGESTED_NS, CONSUMER_SLICE_BYTES, CONSUMER_SLICE_MSGS

if TYPE_CHECKING:
    from slipstream.jetstream.consumer.consumer import Consumer

__all__ = ["Deliverer", "Stop"]

FOREVER_NS = 1 << 62


class Stop(Enum):
    """Why a slice ended."""

    IDLE = auto()  # nobody wants anything
    END = auto()  # the stream has nothing more
    FULL = auto()  # max_ack_pending
    REFUSED = auto()  # the sink takes nothing at the moment, or the message has to wait its time
    MORE = auto()  # the slice is used up


class Deliverer:
    """Delivers for one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        """Nothing happens before `run`."""
        self._consumer = consumer
        self._store = consumer.store
        self._ports = consumer.ports
        self._newest: list[int] | None = None  # last per subject: what is left of the snapshot, None: not read yet
        self._replay: Replay | None = None
        self._rate: RateLimit | None = None
        self._pace_timer: Cancel | None = None
        self._counted = (-1, 0)  # (version, messages pending) as last counted
        self.last_delivered_ns = 0
        if consumer.config.replay_policy is ReplayPolicy.ORIGINAL:
            self._replay = Replay(self._store.last_seq)
        self.configure()

    def configure(self) -> None:
        """Take over a (new) configuration."""
        consumer = self._consumer
        config = consumer.config
        self._counted = (-1, 0)
        self._prefix = b"$JS.ACK.%b.%b." % (consumer.stream.name.encode(), consumer.name.encode())
        self._needs_ack = config.ack_policy is not AckPolicy.NONE
        self._rate = None
        if config.rate_limit_bps:
            burst = consumer.stream.config.max_msg_size
            burst = burst if burst > 0 else consumer.facts.max_payload_bytes
            self._rate = RateLimit(config.rate_limit_bps, burst, self._ports.now_ns())

    def restart(self) -> None:
        """The position has changed from outside."""
        self._newest = None
        self._counted = (-1, 0)

    def close(self) -> None:
        """No more timers."""
        if self._pace_timer is not None:
            self._pace_timer()
            self._pace_timer = None

    # --- counting ---

    def pending(self) -> int:
        """Exactly how many messages wait for their first delivery."""
        version = self._consumer.version
        if self._counted[0] != version:
            self._counted = (version, self._count())
        return self._counted[1]

    def _count(self) -> int:
        consumer, store = self._consumer, self._store
        filters, from_seq = consumer.filters.for_store, consumer.state.next_seq
        snapshot = 0
        if consumer.state.resume_seq:
            snapshot = len(self._snapshot())
            from_seq = consumer.state.resume_seq + 1
        count = store.count_matching(filters, from_seq)
        if store.committed_seq < store.last_seq:
            count -= store.count_matching(filters, max(from_seq, store.committed_seq + 1))
        return count + snapshot

    def is_ahead(self, seq: int) -> bool:
        """Whether this sequence is still to be delivered for the first time (if its subject is wanted)."""
        state = self._consumer.state
        if not state.resume_seq or seq > state.resume_seq:
            return seq >= state.next_seq
        snapshot = self._snapshot()
        at = bisect_left(snapshot, seq)
        return at < len(snapshot) and snapshot[at] == seq

    def _snapshot(self) -> list[int]:
        """Last per subject: what is still to be delivered of the newest messages at the start, ascending."""
        state = self._consumer.state
        if self._newest is None:
            newest = self._store.last_per_subject(self._consumer.filters.for_store, state.resume_seq)
            self._newest = newest[bisect_left(newest, state.next_seq) :]
        return self._newest

    # --- delivering ---

    def run(self) -> Stop:
        """One slice. The messages are in `consumer.out` afterwards."""
        consumer = self._consumer
        acks, sink = consumer.state.acks, consumer.sink
        left = CONSUMER_SLICE_MSGS
        while left > 0 and (seq := acks.next_redelivery()):
            if not sink.demand():
                return Stop.IDLE
            message = self._store.get(seq)
            if message is None or isinstance(message, Damaged):
                consumer.lost(seq)
                continue
            if not self._hand_out(message, acks.deliveries(seq) + 1):
                return Stop.REFUSED
            left -= 1
        while left > 0:
            wanted = sink.demand()
            if not wanted:
                return Stop.IDLE
            room = consumer.room()
            if room <= 0:
                return Stop.FULL
            messages = self._read(min(wanted, room, left))
            if not messages:
                return Stop.END
            sent = self._first_deliveries(messages)
            if not sent:
                return Stop.REFUSED
            left -= sent
        return Stop.MORE

    def _read(self, count: int) -> list[Read]:
        consumer, store = self._consumer, self._store
        state = consumer.state
        if state.resume_seq:
            found = self._read_snapshot(count)
            if found:
                return found
            state.next_seq, state.resume_seq, self._newest = state.resume_seq + 1, 0, None
        committed_seq = store.committed_seq
        if state.next_seq > committed_seq:
            return []
        found = store.read_batch(
            consumer.filters.for_store,
            state.next_seq,
            max_msgs=count,
            max_bytes=CONSUMER_SLICE_BYTES,
            up_to_seq=committed_seq,
        )
        if not found:
            state.next_seq = committed_seq + 1
        return found

    def _read_snapshot(self, count: int) -> list[Read]:
        newest = self._snapshot()
        found: list[Read] = []
        while newest and not found:
            chosen = newest[:count]
            found = [message for seq in chosen if (message := self._store.get(seq)) is not None]
            if not found:
                del newest[: len(chosen)]
        return found

    def _first_deliveries(self, messages: list[Read]) -> int:
        """Hand out as many as the sink takes; how many of the list are done with. 0: the sink takes none now."""
        consumer = self._consumer
        for index, message in enumerate(messages):
            if isinstance(message, Damaged):
                if index:
                    return self._first_deliveries(messages[:index])
                consumer.unreadable(message)
                self._passed([message.seq])
                self._counted = (-1, 0)
                return 1
        readable: list[StoredMessage] = messages  # type: ignore[assignment]  # checked above
        bulk = None
        if self._replay is None and self._rate is None:
            bulk = consumer.sink.bulk(len(readable))
        if bulk is not None:
            target, count = bulk
            if count < len(readable):
                readable = readable[:count]
            self._hand_out_all(readable, target)
            consumer.sink.took(count)
            return count
        done = 0
        for message in readable:
            if not self._hand_out(message, 1):
                break
            done += 1
        return done

    def _hand_out_all(self, messages: list[StoredMessage], target: bytes) -> None:
        """The fast way: all to one place."""
        consumer = self._consumer
        prefix = self._prefix + b"1."
        dseq, pending = consumer.state.acks.dseq, self.pending()
        out = consumer.out
        headers_only = consumer.config.headers_only
        for message in messages:
            dseq += 1
            pending -= 1
            reply = b"%b%d.%d.%d.%d" % (prefix, message.seq, dseq, message.ts_ns, pending)
            if headers_only:
                out.append((target, message.subject, reply, _size_header(message), b""))
            else:
                out.append((target, message.subject, reply, message.headers or None, message.payload))
        self._record([message.seq for message in messages])
        self._counted = (consumer.version, pending)

    def _hand_out(self, message: StoredMessage, deliveries: int) -> bool:
        """The careful way: one message, if somebody takes it now."""
        consumer, now_ns = self._consumer, self._ports.now_ns()
        pending = self.pending()
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
        if isinstance(sink, PullSink):
            request = sink.take(size, pending)
            if request is None:
                return False
            if consumer.config.priority_policy is PriorityPolicy.PINNED_CLIENT:
                block = headers.append(block or b"", b"Nats-Pin-Id", consumer.groups.pin_id.encode())
            consumer.out.append((request.reply, message.subject, reply, block, payload))
            sink.settle(request)
        else:
            if not sink.accepts():
                return False
            consumer.out.append((sink.target, message.subject, reply, block, payload))
        if deliveries == 1:
            self._record([message.seq])
            self._counted = (consumer.version, after)
        else:
            self._record_again(message.seq, now_ns)
        if not isinstance(sink, PullSink):
            sink.sent(size)
        if self._replay is not None:
            self._replay.sent(message.ts_ns, now_ns)
        if self._rate is not None:
            self._rate.sent(size, now_ns)
        return True

    def _must_wait(self, message: StoredMessage, size: int, now_ns: int, *, first: bool) -> bool:
        delay_ns = self._rate.delay_ns(size, now_ns) if self._rate is not None else 0
        if self._replay is not None and first:
            delay_ns = max(delay_ns, self._replay.delay_ns(message.seq, message.ts_ns, now_ns))
        if delay_ns <= 0:
            return False
        self._later(delay_ns)
        return True

    def pause(self) -> None:
        """A receiver is congested: go on in a moment."""
        self._later(CONSUMER_CONGESTED_NS)

    def _later(self, delay_ns: int) -> None:
        self.close()
        self._pace_timer = self._ports.call_later(delay_ns, self._go_on)

    def _go_on(self) -> None:
        self._pace_timer = None
        self._consumer.wake()

    @property
    def waits(self) -> bool:
        """Whether a timer will start the next slice."""
        return self._pace_timer is not None

    # --- recording ---

    def _record(self, seqs: list[int]) -> None:
        consumer = self._consumer
        state, now_ns = consumer.state, self._ports.now_ns()
        self._passed(seqs)
        self.last_delivered_ns = now_ns
        if not self._needs_ack:
            state.acks.delivered_unacked(len(seqs), seqs[-1])
            consumer.journal.add(UNACKED, state.next_seq, len(seqs), seqs[-1])
            consumer.done_with(seqs)
            return
        wait_ns = consumer.ack_wait_ns(1)
        deadline_ns = now_ns + wait_ns if wait_ns else FOREVER_NS
        state.acks.delivered(seqs, deadline_ns)
        consumer.journal.delivered(deadline_ns, state.next_seq, seqs)
        consumer.handed_out(deadline_ns)

    def _record_again(self, seq: int, now_ns: int) -> None:
        consumer = self._consumer
        acks = consumer.state.acks
        wait_ns = consumer.ack_wait_ns(acks.deliveries(seq) + 1)
        deadline_ns = now_ns + wait_ns if wait_ns else FOREVER_NS
        acks.redelivered(seq, deadline_ns)
        consumer.journal.add(REDELIVERED, seq, deadline_ns)
        self.last_delivered_ns = now_ns
        consumer.handed_out(deadline_ns)

    def _passed(self, seqs: list[int]) -> None:
        """First deliveries up to here are done with."""
        state = self._consumer.state
        if state.resume_seq:
            newest = self._snapshot()
            del newest[: bisect_left(newest, seqs[-1] + 1)]
        state.next_seq = seqs[-1] + 1


def _size_header(message: StoredMessage) -> bytes:
    return headers.append(message.headers, b"Nats-Msg-Size", b"%d" % len(message.payload))
