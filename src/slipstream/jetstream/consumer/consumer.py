"""One consumer: the machine that decides what is delivered next, and what an answer means.

States::

    running ──pause_until in the future──► paused ──time──► running
       │
       └──delete, stream gone, nobody there for inactive_threshold──► closed

Events come from the stream (committed, removed, purged), from clients (requests, acks, interest) and from timers. They
end in `wake`, which delivers at the end of the turn; acks of one turn are journalled together.

Invariants: a message is delivered only if committed; an ack is confirmed only when it is; `state` is changed here, in
`delivery` and in `state`, nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slipstream.errors import ApiError
from slipstream.jetstream import headers
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.api.dispatch import level_suffices
from slipstream.jetstream.config.enums import AckPolicy
from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.consumer.acks import AckEngine
from slipstream.jetstream.consumer.answers import ack_numbers, nak_delay_ns
from slipstream.jetstream.consumer.config import sample_percent
from slipstream.jetstream.consumer.deadletters import DeadLetters
from slipstream.jetstream.consumer.delivery import FOREVER_NS, Deliverer, Stop
from slipstream.jetstream.consumer.events import ConsumerEvents
from slipstream.jetstream.consumer.filters import Filters, subjects_of
from slipstream.jetstream.consumer.priority import PriorityGroups
from slipstream.jetstream.consumer.pull import PullSink
from slipstream.jetstream.consumer.push import PushSink
from slipstream.jetstream.consumer.state import (
    ACKED,
    ACKED_UP_TO,
    GAVE_UP,
    POSTPONED,
    ConsumerState,
    Journal,
    NoJournal,
)
from slipstream.jetstream.ports import Cancel, Delivery, Ports, ServerFacts, Subscription
from slipstream.jetstream.store.base import ALL, Damaged
from slipstream.jetstream.stream.stream import Stream
from slipstream.limits import (
    CONSUMER_INACTIVE_NS,
    CONSUMER_INACTIVE_SLACK_NS,
    CONSUMER_INACTIVE_SPREAD_MS,
    MILLISECOND_NS,
    REDELIVER_INTERVAL_MIN_NS,
    REDELIVER_SLICE_MSGS,
)

__all__ = ["Consumer", "ConsumerOwner"]

_REMOVED_REASON = "Unacknowledged message was deleted"
_UNBOUNDED = 1 << 60


class ConsumerOwner(Protocol):
    """All consumers of the stream, as far as one of them needs it."""

    version: int
    """Grows whenever what is stored or committed has changed."""
    account_name: str
    account_hash: str

    def hungry(self, consumer: Consumer) -> None:
        """Wake this one when messages are committed."""
        ...

    def tracking(self, consumer: Consumer) -> None:
        """Tell this one when messages are removed."""
        ...

    def acked(self, consumer: Consumer, seqs: Sequence[int]) -> None:
        """This consumer is done with these messages; perhaps nobody needs them any more."""
        ...

    def commit_soon(self) -> None:
        """Something was journalled that nobody waits for."""
        ...

    def captures(self, subject: bytes) -> bool:
        """Whether a stream of the account stores messages on this subject."""
        ...

    def inactive(self, consumer: Consumer) -> None:
        """Nobody has used it for too long."""
        ...


class Consumer:
    """One consumer of a stream."""

    def __init__(
        self,
        name: str,
        state: ConsumerState,
        stream: Stream,
        ports: Ports,
        facts: ServerFacts,
        advisories: Advisories,
        owner: ConsumerOwner,
    ) -> None:
        """Take over a state, new or recovered. Nothing is listened to before `start`."""
        self.name = name
        self.state = state
        self.stream = stream
        self.store = stream.store
        self.ports = ports
        self.facts = facts
        self.owner = owner
        self.out: list[Delivery] = []  # to be sent at the end of the turn, messages and statuses in order
        self.events = ConsumerEvents(advisories, ports, facts, owner.account_name, stream.name, name)
        self.groups = PriorityGroups(ports, self.events.pinned, self._unpinned)
        self.filters = Filters(subjects_of(state.config), stream.config.subjects)
        config = state.config
        in_memory = config.mem_storage or config.direct
        self.journal: Journal | NoJournal = (
            NoJournal() if in_memory else Journal(self.store, name, state, owner.commit_soon)
        )
        base = f"{stream.name}.{name}"
        self.sink: PullSink | PushSink = (
            PushSink(self, ports, f"$JS.FC.{base}.".encode())
            if config.deliver_subject
            else PullSink(self, ports, self.groups)
        )
        self.deliverer = Deliverer(self)
        self.dead_letters = DeadLetters(self)
        self._base = base
        self._sample_percent = sample_percent(config.sample_freq)
        self._plain_acks = config.ack_policy is AckPolicy.EXPLICIT and not self._sample_percent
        self._subscriptions: list[Subscription] = []
        self._awake = False  # a slice is scheduled
        self._full = False  # the last slice ended because of max_ack_pending
        self._acked: list[int] = []  # acknowledged in this turn, not journalled yet
        self._confirm: list[bytes] = []  # who wants to know when that is committed
        self._ack_timer: Cancel | None = None
        self._ack_timer_ns = 0
        self._idle_timer: Cancel | None = None
        self._pause_timer: Cancel | None = None
        self._spread_ns = ports.random_below(CONSUMER_INACTIVE_SPREAD_MS) * MILLISECOND_NS
        self.last_ack_ns = 0
        self.closed = False

    # --- facts ---

    @property
    def config(self) -> ConsumerConfig:
        """The configuration in force."""
        return self.state.config

    @property
    def version(self) -> int:
        """See `ConsumerOwner.version`."""
        return self.owner.version

    @property
    def pull(self) -> PullSink | None:
        """The waiting requests, if this is a pull consumer."""
        return self.sink if isinstance(self.sink, PullSink) else None

    def available(self) -> int:
        """Messages that could be delivered, again or for the first time."""
        return self.deliverer.pending() + self.state.acks.queued_count

    def ack_pending(self) -> int:
        """Messages handed out and not acknowledged."""
        return len(self.state.acks.pending)

    def room(self) -> int:
        """How many more may be handed out."""
        limit = self.config.max_ack_pending
        if limit <= 0 or self.config.ack_policy is AckPolicy.NONE:
            return _UNBOUNDED
        return limit - len(self.state.acks.pending)

    def heartbeat(self) -> bytes:
        """See `PullOwner.heartbeat`."""
        lines = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n" % (
            self.state.acks.dseq,
            self.state.next_seq - 1,
        )
        if isinstance(self.sink, PushSink) and self.sink.flow_id:
            lines += b"Nats-Consumer-Stalled: %b\r\n" % self.sink.flow_id
        return lines + b"\r\n"

    def ack_wait_ns(self, delivery: int) -> int:
        """How long to wait for an ack after the n-th delivery."""
        backoff_ns = self.config.backoff_ns
        if not backoff_ns:
            return self.config.ack_wait_ns
        return backoff_ns[min(delivery, len(backoff_ns)) - 1]

    def needs(self, seq: int, subject: bytes | None) -> bool:
        """Whether this consumer is not done with a message. `subject` is None if all are wanted anyway."""
        if subject is not None and not self.filters.match(subject):
            return False
        acks = self.state.acks
        return self.deliverer.is_ahead(seq) or seq in acks.pending or seq in acks.exhausted or seq in self.state.dead

    def is_paused(self) -> bool:
        """Whether nothing is delivered until later."""
        until_ns = self.config.pause_until_ns
        return until_ns is not None and until_ns > self.ports.now_ns()

    # --- life ---

    def start(self) -> None:
        """Listen for requests and answers, and keep time."""
        subscribe, add = self.ports.subscribe, self._subscriptions.append
        if self.config.ack_policy not in (AckPolicy.NONE, AckPolicy.FLOW_CONTROL):
            add(subscribe(f"$JS.ACK.{self._base}.*.*.*.*.*".encode(), self.on_short_ack))
            domain = self.facts.domain or "_"
            long_form = f"$JS.ACK.{domain}.{self.owner.account_hash}.{self._base}.*.*.*.*.>"
            add(subscribe(long_form.encode(), self.on_ack))
        add(subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{self._base}".encode(), self.on_request))
        if isinstance(self.sink, PushSink):
            if self.config.flow_control:
                add(subscribe(f"$JS.FC.{self._base}.*".encode(), self._on_flow_reply))
            self.sink.start()
        self._arm_idle()
        self._arm_pause()
        self._arm_acks()
        self.dead_letters.resume()
        self.wake()

    def close(self, status: bytes, *, counts: bool = False) -> None:
        """Listen no more; waiting clients are told why."""
        if self.closed:
            return
        self.flush()
        if isinstance(self.sink, PullSink):
            self.sink.end_all(status, counts=counts)
        self.closed = True
        self.sink.close()
        self.deliverer.close()
        self.dead_letters.close()
        self.groups.forget()
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()
        for timer in (self._ack_timer, self._idle_timer, self._pause_timer):
            if timer is not None:
                timer()
        self._ack_timer = self._idle_timer = self._pause_timer = None
        self._send()

    def update(self, config: ConsumerConfig) -> None:
        """Become `config`, which was checked against the present one. Durable with the next commit."""
        old, state = self.config, self.state
        self.flush()
        if isinstance(self.sink, PushSink) and old.deliver_subject != config.deliver_subject:
            state.acks.expire_all(self.ports.now_ns())
        if old.ack_wait_ns != config.ack_wait_ns:
            state.acks.shift_deadlines(config.ack_wait_ns - old.ack_wait_ns)
        state.config = config
        self._sample_percent = sample_percent(config.sample_freq)
        self._plain_acks = config.ack_policy is AckPolicy.EXPLICIT and not self._sample_percent
        if subjects_of(old) != subjects_of(config):
            state.trusted_from = state.next_seq
            self.filters = Filters(subjects_of(config), self.stream.config.subjects)
            self.deliverer.restart()
        self.deliverer.configure()
        bound = ("deliver_subject", "deliver_group")
        if isinstance(self.sink, PushSink) and any(getattr(old, name) != getattr(config, name) for name in bound):
            self.sink.rebind()
        if old.pause_until_ns != config.pause_until_ns:
            self._arm_pause()
            self.events.paused(config.pause_until_ns)
        self.journal.put()
        self._arm_idle()
        self._arm_acks()
        self.wake()

    def reset(self, seq: int) -> None:
        """Begin again at `seq`, as if nothing had been delivered."""
        self.flush()
        state = self.state
        state.acks = AckEngine(seq)
        state.next_seq, state.resume_seq = seq, 0
        state.trusted_from = seq
        self.deliverer.restart()
        self.deliverer.last_delivered_ns = self.last_ack_ns = 0
        self.journal.put()
        self.wake()

    # --- the stream ---

    def on_stream_config(self) -> None:
        """The stream collects other subjects, or other sizes."""
        self.filters = Filters(subjects_of(self.config), self.stream.config.subjects)
        self.deliverer.configure()
        self.dead_letters.configure()
        if isinstance(self.sink, PushSink) and self.sink.check_cycle(self.stream.config.subjects):
            self.ports.log(
                "WRN",
                f"Consumer '{self.stream.name} > {self.name}' does not deliver: its stream takes the deliver subject",
            )
        self.wake()

    def on_removed(self, seqs: Sequence[int]) -> None:
        """Messages were removed before they were acknowledged."""
        for seq, dseq, deliveries in self.state.acks.remove(seqs):
            self.events.terminated(seq, dseq, deliveries, _REMOVED_REASON)
        self.dead_letters.lost(seqs)
        self._wake_if_full()

    def on_purged(self) -> None:
        """Any number of messages may be gone, or may never have happened."""
        state, store = self.state, self.store
        acks = state.acks
        tracked = [*acks.pending, *acks.exhausted, *state.dead]
        gone = [seq for seq in tracked if store.next_seq(ALL, seq) != seq]
        if gone:
            self.on_removed(gone)
            self.last_ack_ns = self.ports.now_ns()
        if state.next_seq < store.first_seq:
            state.next_seq = store.first_seq
            acks.skip_to(store.first_seq)
        elif state.next_seq > store.last_seq + 1 and not self.config.opt_start_seq:
            acks.clamp(store.last_seq)
            state.next_seq = store.last_seq + 1
        self.deliverer.restart()
        self.journal.put()
        self.wake()

    def lost(self, seq: int) -> None:
        """A message that was to be delivered again is no longer there."""
        self.on_removed([seq])

    def unreadable(self, message: Damaged) -> None:
        """A stored message cannot be read: say so, and go on behind it."""
        self.ports.log(
            "ERR",
            f"Consumer '{self.stream.name} > {self.name}' cannot deliver message {message.seq}: {message.reason}",
        )

    # --- delivering ---

    def wake(self) -> None:
        """Deliver at the end of this turn."""
        if not self._awake and not self.closed:
            self._awake = True
            self.ports.call_soon(self.pump)

    def pump(self) -> None:
        """Deliver one slice now."""
        self._awake = False
        if self.closed:
            return
        self._full = False
        stop = Stop.IDLE if self.is_paused() or self.deliverer.waits else self.deliverer.run()
        if stop is Stop.END and isinstance(self.sink, PullSink):
            self.sink.on_end()
        self._full = stop is Stop.FULL
        if stop in (Stop.END, Stop.REFUSED):
            self.owner.hungry(self)
        smooth = self._send()
        if stop is Stop.MORE:
            if smooth:
                self.wake()
            else:
                self.deliverer.pause()

    def handed_out(self, deadline_ns: int) -> None:
        """Something is out and wants an ack by this time."""
        self.owner.tracking(self)
        if self._ack_timer is None or deadline_ns < self._ack_timer_ns:
            self._arm_acks(deadline_ns)

    def done_with(self, seqs: Sequence[int]) -> None:
        """These need no further attention from this consumer."""
        self.owner.acked(self, seqs)

    def _send(self) -> bool:
        if not self.out:
            return True
        out, self.out = self.out, []
        return self.ports.deliver_many(out)

    def _wake_if_full(self) -> None:
        if self._full:
            self.wake()

    # --- requests and answers ---

    def on_request(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """A pull request."""
        if not reply:
            return
        if not isinstance(self.sink, PullSink):
            self._refuse(reply, b"409 Consumer is push based")
        elif header and not level_suffices(header):
            self._refuse(reply, b"412 Required Api Level")
        else:
            self.sink.on_request(reply, payload)

    def on_short_ack(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """An ack of the usual form; the most usual of all is handled here, with the same outcome as in `on_ack`."""
        if (not payload or payload == b"+ACK") and self._plain_acks:
            token = subject.split(b".", 6)[5]
            if token.isdigit() and len(token) < 20:
                seq = int(token)
                acks = self.state.acks
                if seq in acks.pending:
                    acks.ack(seq)
                    self.last_ack_ns = self.sink.last_active_ns = self.ports.now_ns()
                    if not (self._acked or self._confirm):
                        self.ports.call_soon(self.flush)
                    self._acked.append(seq)
                    if reply:
                        self._confirm.append(reply)
                    if self._full:
                        self.wake()
                    return
        self.on_ack(subject, reply, header, payload)

    def on_ack(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """An ack of any kind."""
        numbers = ack_numbers(subject)
        if numbers is None or numbers[0] == 0:
            return
        seq, dseq, deliveries = numbers
        self.sink.last_active_ns = self.ports.now_ns()
        if not payload or payload in (b"+ACK", b"+OK"):
            if not self._ack(seq, dseq, deliveries):
                return
        elif payload.startswith(b"+NXT"):
            self._ack(seq, dseq, deliveries)
            if reply:
                self.on_request(subject, reply, None, payload[4:])
            return
        elif payload.startswith(b"-NAK"):
            self._nak(seq, dseq, deliveries, payload[4:].strip())
        elif payload == b"+WPI":
            self._progress(seq)
        elif payload.startswith(b"+TERM") and not self._terminate(seq, dseq, deliveries, payload[5:].strip()):
            return
        if reply:
            self._confirm.append(reply)
            self._flush_soon()

    def _ack(self, seq: int, dseq: int, deliveries: int, *, sampled: bool = True) -> bool:
        """Acknowledge. False: nothing that has been delivered, so not confirmed either."""
        if seq >= self.state.next_seq and seq not in self.state.acks.pending:
            if seq > self.store.last_seq:
                self.ports.log("WRN", f"Consumer '{self.stream.name} > {self.name}' got an ack of future message {seq}")
            return False
        self.last_ack_ns = self.ports.now_ns()
        if self.config.ack_policy is AckPolicy.EXPLICIT:
            if sampled and self._sample_percent:
                self._sample(seq, dseq, deliveries)
            if self.state.acks.ack(seq):
                self._acked.append(seq)
                self._flush_soon()
        else:
            self._ack_up_to(seq, dseq)
        self._wake_if_full()
        return True

    def _ack_up_to(self, seq: int, dseq: int) -> None:
        self.flush()
        done = self.state.acks.ack_up_to(seq, dseq)
        if done is not None:
            self.journal.add(ACKED_UP_TO, seq, dseq)
            self.done_with(done)

    def _nak(self, seq: int, dseq: int, deliveries: int, argument: bytes) -> None:
        acks = self.state.acks
        if seq not in acks.pending:
            return
        self.events.nak(seq, dseq, deliveries)
        delay_ns = nak_delay_ns(argument) if argument else 0
        if delay_ns is None:
            shown = argument[:64].decode("utf-8", "replace")
            self.ports.log("WRN", f"Consumer '{self.stream.name} > {self.name}' bad NAK delay value: {shown!r}")
        if delay_ns and delay_ns > 0:
            self._postpone(seq, self.ports.now_ns() + delay_ns)
        elif not acks.is_queued(seq):
            self._expired(seq)
            self.wake()

    def _progress(self, seq: int) -> None:
        acks = self.state.acks
        wait_ns = self.ack_wait_ns(acks.deliveries(seq)) if seq in acks.pending else 0
        if wait_ns and not acks.is_queued(seq):
            self._postpone(seq, self.ports.now_ns() + wait_ns)

    def _postpone(self, seq: int, deadline_ns: int) -> None:
        self.state.acks.postpone(seq, deadline_ns)
        self.journal.add(POSTPONED, seq, deadline_ns)
        self._arm_acks()

    def _terminate(self, seq: int, dseq: int, deliveries: int, reason: bytes) -> bool:
        text = reason.decode("utf-8", "replace")
        known = seq in self.state.acks.pending
        if known and self.dead_letters.subject:
            self.flush()
            self.dead_letters.bury(seq, f"terminated: {text}" if text else "terminated")
            self._wake_if_full()
        elif not self._ack(seq, dseq, deliveries, sampled=False):
            return False
        self.events.terminated(seq, dseq, deliveries, text)
        return True

    def _sample(self, seq: int, dseq: int, deliveries: int) -> None:
        acks, percent = self.state.acks, self._sample_percent
        if seq not in acks.pending or (percent < 100 and self.ports.random_below(100) > percent):
            return
        sent_ns = acks.deadline_ns(seq) - self.ack_wait_ns(acks.deliveries(seq))
        self.events.acked(seq, dseq, deliveries, max(self.ports.now_ns() - sent_ns, 0))

    def _flush_soon(self) -> None:
        if len(self._acked) + len(self._confirm) == 1:
            self.ports.call_soon(self.flush)

    def flush(self) -> None:
        """Journal the acks of this turn together, and confirm them when they are committed."""
        acked, self._acked = self._acked, []
        replies, self._confirm = self._confirm, []
        if acked and not self.closed:
            self.journal.add(ACKED, acked)
            self.done_with(acked)
        if replies:
            self.stream.after_commit(lambda error: self._confirmed(replies, error))

    def _confirmed(self, replies: list[bytes], error: ApiError | None) -> None:
        """Silence after an error: the client asks again, and is answered when the disk works."""
        if error is None:
            self.ports.publish_many((reply, b"") for reply in replies)

    def _on_flow_reply(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        assert isinstance(self.sink, PushSink)
        if not self.sink.on_flow_reply(subject) or self.config.ack_policy is not AckPolicy.FLOW_CONTROL or not header:
            return
        seq = headers.find(header, b"Nats-Last-Stream") or b""
        dseq = headers.find(header, b"Nats-Last-Consumer") or b"0"
        if seq.isdigit() and dseq.isdigit() and 0 < int(seq) < self.state.next_seq:
            self._ack_up_to(int(seq), int(dseq))

    def _refuse(self, reply: bytes, status: bytes) -> None:
        self.out.append((reply, reply, None, b"NATS/1.0 %b\r\n\r\n" % status, b""))
        self.wake()

    def _unpinned(self, group: str, reason: str) -> None:
        self.events.unpinned(group, reason)
        self.wake()

    # --- time ---

    def _expired(self, seq: int) -> None:
        """It was not acknowledged: deliver it again, or give up."""
        acks, limit = self.state.acks, self.config.max_deliver
        if limit <= 0 or acks.deliveries(seq) < limit:
            acks.queue(seq)
            return
        self.flush()
        deliveries = acks.deliveries(seq)
        if self.dead_letters.subject:
            self.dead_letters.bury(seq, "max_deliver")
        else:
            acks.give_up(seq)
            self.journal.add(GAVE_UP, seq)
        self.events.max_deliver(seq, deliveries)
        self._wake_if_full()

    def _arm_acks(self, deadline_ns: int | None = None) -> None:
        if deadline_ns is None:
            deadline_ns = self.state.acks.next_deadline_ns()
        if deadline_ns is None or deadline_ns >= FOREVER_NS or self.closed:
            return
        if self._ack_timer is not None:
            if self._ack_timer_ns <= deadline_ns:
                return
            self._ack_timer()
        self._ack_timer_ns = deadline_ns
        delay_ns = max(deadline_ns - self.ports.now_ns(), REDELIVER_INTERVAL_MIN_NS)
        self._ack_timer = self.ports.call_later(delay_ns, self._acks_due)

    def _acks_due(self) -> None:
        self._ack_timer = None
        due = self.state.acks.take_due(self.ports.now_ns(), REDELIVER_SLICE_MSGS)
        for seq in due:
            self._expired(seq)
        if due:
            self.wake()
        self._arm_acks()

    def _arm_pause(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer()
            self._pause_timer = None
        until_ns = self.config.pause_until_ns
        if until_ns is not None and self.is_paused():
            self._pause_timer = self.ports.call_later(until_ns - self.ports.now_ns(), self._pause_over)

    def _pause_over(self) -> None:
        self._pause_timer = None
        if self.is_paused():
            self._arm_pause()
            return
        self.events.paused(self.config.pause_until_ns)
        self.wake()

    # --- inactivity ---

    def on_listening(self, listening: bool) -> None:
        """Somebody came to the deliver subject, or the last one left."""
        self._arm_idle()

    def _threshold_ns(self) -> int:
        threshold_ns = self.config.inactive_threshold_ns
        if not threshold_ns and not self.config.durable_name:
            threshold_ns = CONSUMER_INACTIVE_NS
        if threshold_ns and (isinstance(self.sink, PullSink) or not self.config.durable_name):
            return threshold_ns + CONSUMER_INACTIVE_SLACK_NS + self._spread_ns
        return threshold_ns

    def _arm_idle(self, delay_ns: int = 0) -> None:
        if self._idle_timer is not None:
            self._idle_timer()
            self._idle_timer = None
        threshold_ns = self._threshold_ns()
        if not threshold_ns or self.closed or (isinstance(self.sink, PushSink) and self.sink.listening):
            return
        self._idle_timer = self.ports.call_later(delay_ns or threshold_ns, self._idle_due)

    def _idle_due(self) -> None:
        self._idle_timer = None
        remaining_ns = self._busy_for_ns()
        if remaining_ns > 0:
            self._arm_idle(remaining_ns)
        else:
            self.owner.inactive(self)

    def _busy_for_ns(self) -> int:
        """How much longer a consumer without requests may still be in use; 0: it is not."""
        if isinstance(self.sink, PushSink):
            return 0
        now_ns, threshold_ns = self.ports.now_ns(), self._threshold_ns()
        since_ns = now_ns - self.sink.last_active_ns
        if since_ns < threshold_ns:
            return threshold_ns - since_ns
        self.sink.drop_gone(now_ns)
        if self.sink.waiting:
            return threshold_ns
        last_ns = self.state.acks.last_deadline_ns()
        return max(last_ns + threshold_ns - now_ns, 0) if last_ns else 0

    def check_invariants(self) -> None:
        """What must hold between calls."""
        self.state.acks.check_invariants()
        assert not self.state.dead.keys() & self.state.acks.pending.keys()
        if isinstance(self.sink, PullSink):
            self.sink.waiting.check_invariants()
        limit = self.config.max_ack_pending
        assert limit <= 0 or len(self.state.acks.pending) <= limit or not limit
