"""One consumer: the machine that decides what is delivered next, and what an answer means.

States::

    running ──pause_until in the future──► paused ──time──► running
       │
       └──delete, stream gone, nobody there for inactive_threshold──► closed

Events come from the stream (committed, removed, purged), from clients (requests, acks, interest) and from timers. They
end in `wake`, which delivers at the end of the turn; acks of one turn are journalled together.

Invariants: a message is delivered only if it and the consumer are committed; an ack is confirmed only when it is;
`state` is changed here, in `delivery`, `replies` and `deadletters`, nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.config.enums import AckPolicy
from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.config.versioning import level_suffices
from slipstream.jetstream.consumer.acks import AckEngine
from slipstream.jetstream.consumer.deadletters import DeadLetters
from slipstream.jetstream.consumer.delivery import Deliverer, Stop
from slipstream.jetstream.consumer.events import ConsumerEvents
from slipstream.jetstream.consumer.filters import Filters, subjects_of
from slipstream.jetstream.consumer.idleness import Idleness
from slipstream.jetstream.consumer.journal import ConsumerJournal, NoJournal
from slipstream.jetstream.consumer.limits import CONSUMER_WARNING_NS
from slipstream.jetstream.consumer.priority import PriorityGroups
from slipstream.jetstream.consumer.pull import PullSink
from slipstream.jetstream.consumer.push import PushSink
from slipstream.jetstream.consumer.replies import Replies
from slipstream.jetstream.consumer.sink import Sink
from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.ports import Delivery, LiveSubscription, Ports, ServerFacts
from slipstream.jetstream.store.values import ALL, Damaged
from slipstream.jetstream.stream.stream import Stream

__all__ = ["Consumer", "ConsumerOwner"]

_REMOVED_REASON = "Unacknowledged message was deleted"
_UNBOUNDED = 1 << 60


class ConsumerOwner(Protocol):
    """All consumers of the stream, as far as one of them needs it."""

    version: int
    """Grows whenever messages have left the stream, or a configuration has changed."""
    account_name: str
    account_hash: str

    def park(self, consumer: Consumer) -> None:
        """Wake this one when messages are committed."""
        ...

    def tracking(self, consumer: Consumer) -> None:
        """Tell this one when messages are removed, until nothing of it is out, dead or in a snapshot."""
        ...

    def acked(self, consumer: Consumer, seqs: Sequence[int]) -> None:
        """This consumer is done with these messages; perhaps nobody needs them any more."""
        ...

    def holding(self, journal: ConsumerJournal) -> None:
        """Changes are held that nobody waits for: flush and commit them soon."""
        ...

    def capturing(self, subject: bytes) -> Sequence[Stream]:
        """The streams of the account that run here and store messages on this subject."""
        ...

    def is_stored(self, subject: bytes) -> bool:
        """Whether a stream of the account, here or on another server, stores this subject and says so."""
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
        self.filters = Filters(subjects_of(state.config), stream.known_subjects)
        config = state.config
        in_memory = config.mem_storage or config.direct
        self.journal: ConsumerJournal | NoJournal = (
            NoJournal() if in_memory else ConsumerJournal(self.store, name, state, owner.holding)
        )
        base = f"{stream.name}.{name}"
        # It has one of the two, for as long as it lives.
        self.pull: PullSink | None = None
        self.push: PushSink | None = None
        self.sink: Sink
        if config.deliver_subject:
            self.sink = self.push = PushSink(self, ports, f"$JS.FC.{base}.".encode())
        else:
            self.sink = self.pull = PullSink(self, ports, self.groups)
        self.deliverer = Deliverer(self)
        self.dead_letters = DeadLetters(self)
        self._base = base
        self.replies = Replies(self)
        self.idleness = Idleness(self)
        self._subscriptions: list[LiveSubscription] = []
        self._awake = False  # a slice is scheduled
        self._warned_ns = 0  # when a client was last complained about
        self.full = False  # the last slice ended because of max_ack_pending
        self.held = False  # delivers nothing yet: whoever made it has not been told
        self.closed = False

    # --- facts ---

    @property
    def config(self) -> ConsumerConfig:
        """The configuration in force."""
        return self.state.config

    def available(self) -> int:
        """Messages that could be delivered, again or for the first time."""
        return self.deliverer.undelivered.pending() + self.state.acks.queued_count

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
        """See `SinkOwner.heartbeat`."""
        lines = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n" % (
            self.state.acks.dseq,
            self.state.next_seq - 1,
        )
        if self.push is not None and self.push.flow_id:
            lines += b"Nats-Consumer-Stalled: %b\r\n" % self.push.flow_id
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
        if self.deliverer.undelivered.is_undelivered(seq) or seq in acks.pending or seq in acks.exhausted:
            return True
        return seq in self.state.dead

    def is_paused(self) -> bool:
        """Whether nothing is delivered until later."""
        until_ns = self.config.pause_until_ns
        return until_ns is not None and until_ns > self.ports.now_ns()

    # --- life ---

    def start(self) -> None:
        """Listen for requests and answers, and keep time."""
        subscribe, add = self.ports.subscribe, self._subscriptions.append
        if self.config.ack_policy not in (AckPolicy.NONE, AckPolicy.FLOW_CONTROL):
            add(self.ports.listen(f"$JS.ACK.{self._base}.*.*.*.*.*".encode(), self.replies.intake))
            domain = self.facts.domain or "_"
            long_form = f"$JS.ACK.{domain}.{self.owner.account_hash}.{self._base}.*.*.*.*.>"
            add(subscribe(long_form.encode(), self.replies.on_ack))
        add(subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{self._base}".encode(), self.on_request))
        if self.push is not None and self.config.flow_control:
            add(subscribe(f"$JS.FC.{self._base}.*".encode(), self.replies.on_flow_reply))
        self.sink.start()
        self.idleness.arm()
        self.idleness.arm_pause()
        self.replies.arm()
        self.dead_letters.resume()
        if self.state.resume_seq:
            self.owner.tracking(self)
        self.wake()

    def close(self, status: bytes, *, counts: bool = False) -> None:
        """Listen no more; waiting clients are told why."""
        if self.closed:
            return
        self.replies.flush()
        self.sink.close(status, counts=counts)
        self.closed = True
        self.deliverer.close()
        self.dead_letters.close()
        self.groups.forget()
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()
        self.replies.close()
        self.idleness.close()
        self.journal.flush()
        self.send_waiting()

    def update(self, config: ConsumerConfig) -> None:
        """Become `config`, which was checked against the present one. Durable with the next commit."""
        old, state = self.config, self.state
        self.replies.flush()
        if self.push is not None and old.deliver_subject != config.deliver_subject:
            state.acks.expire_all(self.ports.now_ns())
        if old.ack_wait_ns != config.ack_wait_ns:
            state.acks.shift_deadlines(config.ack_wait_ns - old.ack_wait_ns)
        state.config = config
        self.replies.configure()
        if subjects_of(old) != subjects_of(config):
            state.trusted_from = state.next_seq
            self.filters = Filters(subjects_of(config), self.stream.known_subjects)
            self.deliverer.undelivered.restart()
            self.deliverer.source.restart()
        self.deliverer.configure()
        bound = (old.deliver_subject, old.deliver_group)
        if self.push is not None and bound != (config.deliver_subject, config.deliver_group):
            self.push.rebind()
        if old.pause_until_ns != config.pause_until_ns:
            self.idleness.arm_pause()
            self.events.paused(config.pause_until_ns)
        self.journal.put()
        self.idleness.arm()
        self.replies.arm()
        self.wake()

    def reset(self, seq: int) -> None:
        """Begin again at `seq`, as if nothing had been delivered."""
        self.replies.flush()
        state = self.state
        state.acks = AckEngine(seq, is_straight=state.acks.ahead is None)
        self.replies.rebind()
        state.next_seq, state.resume_seq = seq, 0
        state.trusted_from = seq
        self.deliverer.undelivered.restart()
        self.deliverer.source.restart()
        self.deliverer.last_delivered_ns = self.replies.last_ack_ns = 0
        self.journal.put()
        self.wake()

    # --- the stream ---

    def on_stream_config(self) -> None:
        """The stream collects other subjects, or other sizes."""
        self.filters = Filters(subjects_of(self.config), self.stream.known_subjects)
        self.deliverer.configure()
        self.dead_letters.configure()
        if self.push is not None and self.push.check_cycle(self.stream.config.subjects):
            self.log("WRN", "does not deliver: its stream takes the deliver subject")
        self.wake()

    def on_removed(self, seqs: Sequence[int]) -> None:
        """Messages were removed before they were acknowledged."""
        for seq, dseq, deliveries in self.state.acks.remove(seqs):
            self.events.terminated(seq, dseq, deliveries, _REMOVED_REASON)
        self.deliverer.source.removed(seqs)
        self.dead_letters.lost(seqs)
        self.deliverer.undelivered.removed(seqs)
        self.wake_if_full()

    def on_purged(self) -> None:
        """Any number of messages may be gone, or may never have happened."""
        state, store = self.state, self.store
        acks = state.acks
        tracked = [*acks.pending, *acks.exhausted, *state.dead, *(acks.ahead or ())]
        gone = [seq for seq in tracked if store.next_seq(ALL, seq) != seq]
        if gone:
            self.on_removed(gone)
            self.replies.last_ack_ns = self.ports.now_ns()
        if state.next_seq < store.first_seq:
            state.next_seq = store.first_seq
            acks.skip_to(store.first_seq)
        elif state.next_seq > store.last_seq + 1 and not self.config.opt_start_seq:
            acks.clamp(store.last_seq)
            state.next_seq = store.last_seq + 1
        self.deliverer.undelivered.restart()
        self.journal.put()
        self.wake()

    def lost(self, seq: int) -> None:
        """A message that was to be delivered again is no longer there."""
        self.on_removed([seq])

    def unreadable(self, message: Damaged) -> None:
        """A stored message cannot be read: say so, and go on behind it."""
        self.log("ERR", f"cannot deliver message {message.seq}: {message.reason}")

    def log(self, level: str, text: str) -> None:
        """One line that names the consumer."""
        self.ports.log(level, f"Consumer '{self.owner.account_name} > {self.stream.name} > {self.name}' {text}")

    def warn(self, text: str) -> None:
        """The same for what a client can cause: once a second at most."""
        now_ns = self.ports.now_ns()
        if now_ns - self._warned_ns >= CONSUMER_WARNING_NS:
            self._warned_ns = now_ns
            self.log("WRN", text)

    # --- delivering ---

    def release(self) -> None:
        """It is durable and was announced: deliver from now on."""
        self.held = False
        self.wake()

    def wake(self) -> None:
        """Deliver at the end of this turn."""
        if not self._awake and not self.closed:
            self._awake = True
            self.ports.call_soon(self.pump)

    def pump(self, *, alone: bool = False) -> None:
        """Deliver one slice now; `alone`: no other consumer does, so there is nothing to be sent together with it."""
        self._awake = False
        if self.closed or self.held:
            return
        self.full = False
        paused = self.state.config.pause_until_ns is not None and self.is_paused()
        stop = Stop.IDLE if paused or self.deliverer.waits else self.deliverer.run(alone=alone)
        # Nobody of those who ask may have what is there: for who does not wait that is the end, too.
        unwanted = stop is Stop.REFUSED and not self.deliverer.waits
        if paused or unwanted or stop is Stop.END:
            self.sink.on_end()
        if stop is Stop.END:
            self.deliverer.expect()
        self.full = stop is Stop.FULL
        if stop in (Stop.END, Stop.REFUSED):
            self.owner.park(self)
        smooth = self.send_waiting()
        if stop is Stop.CONGESTED or (stop is Stop.MORE and (not smooth or self.deliverer.is_ahead)):
            self.deliverer.pause()
        elif stop is Stop.MORE:
            self.wake()

    def handed_out(self, deadline_ns: int) -> None:
        """Something is out and wants an ack by this time."""
        self.owner.tracking(self)
        if not self.replies.armed or deadline_ns < self.replies.timer_ns:
            self.replies.arm(deadline_ns)

    def done_with(self, seqs: Sequence[int]) -> None:
        """These need no further attention from this consumer."""
        self.deliverer.source.done(seqs)
        self.owner.acked(self, seqs)

    def send_waiting(self) -> bool:
        """Send what is in `out`. False: a receiver is near its limit."""
        out, self.out = self.out, []
        return self.ports.deliver_many(out)

    def wake_if_full(self) -> None:
        """There may be room again."""
        if self.full:
            self.wake()

    # --- requests and answers ---

    def on_request(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """A pull request."""
        if not reply:
            return
        pull = self.pull
        if pull is None:
            self._refuse(reply, b"409 Consumer is push based")
        elif header and not level_suffices(header):
            self._refuse(reply, b"412 Required Api Level")
        elif b"no_wait" in payload and not self.store.is_settled:
            # Who does not wait gets what was published before it asked, or hears that there is nothing.
            self.stream.after_received(
                lambda: None if self.closed else pull.on_request(reply, payload), confirmed=False
            )
        else:
            pull.on_request(reply, payload)

    def on_preview_request(self, reply: bytes, payload: bytes) -> None:
        """A pull request as in JetStream's preview."""
        if self.pull is None:
            self._refuse(reply, b"409 Consumer is push based")
        else:
            self.pull.on_request(reply, payload, preview=True)

    def _refuse(self, reply: bytes, status: bytes) -> None:
        self.out.append((reply, reply, None, b"NATS/1.0 %b\r\n\r\n" % status, b""))
        self.wake()

    def _unpinned(self, group: str, reason: str) -> None:
        self.events.unpinned(group, reason)
        self.wake()

    def on_listening(self, listening: bool) -> None:
        """Somebody came to the deliver subject, or the last one left."""
        self.idleness.arm()

    def check_invariants(self) -> None:
        """What must hold between calls."""
        self.state.acks.check_invariants()
        self.deliverer.source.check_invariants()
        assert not self.state.dead.keys() & self.state.acks.pending.keys()
        if self.pull is not None:
            self.pull.waiting.check_invariants()
        limit = self.config.max_ack_pending
        assert limit <= 0 or len(self.state.acks.pending) <= limit or not limit
