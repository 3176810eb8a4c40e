"""Why a consumer delivers nothing at the moment: every cause there is, seen in its own state, in one sentence each.

A cause is `stuck` if somebody has to act, `waiting` if time or the next step of a client ends it, and `idle` if there
is nothing to deliver. A consumer that is in nobody's way has none.

What this is not: a decision. The parts that decide are asked what holds them back; nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from slipstream.dataclass import dataclass
from slipstream.jetstream.config.enums import AckPolicy, PriorityPolicy
from slipstream.jetstream.consumer.by_key import ByKey
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.delivery import FOREVER_NS, Pacing
from slipstream.jetstream.consumer.limits import CONSUMER_WAITING_CEILING
from slipstream.jetstream.consumer.priority import PriorityVerdict
from slipstream.jetstream.consumer.pull import PullSink
from slipstream.jetstream.consumer.push import PushSink
from slipstream.jetstream.gojson.times import format_duration, format_time
from slipstream.units import MILLISECOND_NS

__all__ = ["Cause", "Kind", "causes", "offline"]

_FILTERS_SHOWN = 3


class Kind(Enum):
    """Who ends it."""

    STUCK = "stuck"  # somebody has to act
    WAITING = "waiting"  # time does, or the next step of a client
    IDLE = "idle"  # there is nothing to deliver


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason."""

    code: str
    kind: Kind
    text: str
    until_ns: int = 0  # when it ends by itself; 0: it does not, or that cannot be said


def offline(what: str, reason: str) -> Cause:
    """A stream or a consumer that cannot run here."""
    return Cause("offline", Kind.STUCK, f"The {what} cannot run on this server: {reason}.")


def causes(consumer: Consumer) -> list[Cause]:
    """All of them, those first that somebody has to end."""
    order = list(Kind)
    return sorted(_found(consumer), key=lambda cause: order.index(cause.kind))


def _found(consumer: Consumer) -> Iterator[Cause]:
    now_ns = consumer.ports.now_ns()
    fault = consumer.store.fault
    if fault is not None:
        text = f"The stream cannot write ({fault}): nothing new is stored, and no ack is confirmed, until it can."
        yield Cause("storage_fault", Kind.STUCK, text)
    unreadable = len(consumer.store.lost().seqs)
    if unreadable:
        text = f"{_messages(unreadable)} of the stream cannot be read any more and {_are(unreadable)} left out."
        yield Cause("unreadable", Kind.IDLE, text)
    if consumer.held:
        yield Cause("starting", Kind.WAITING, "The consumer is being made: it delivers when that is on the disk.")
    until_ns = consumer.config.pause_until_ns
    if until_ns is not None and consumer.is_paused():
        yield Cause("paused", Kind.WAITING, f"The consumer is paused until {_moment(until_ns, now_ns)}.", until_ns)
    available = consumer.available()
    if consumer.push is not None:
        yield from _of_push(consumer, consumer.push, available)
    elif consumer.pull is not None:
        source = consumer.deliverer.source
        held = source.queues.held(now_ns) if isinstance(source, ByKey) else 0
        yield from _of_pull(consumer, consumer.pull, available - held, now_ns)
    yield from _of_pace(consumer, now_ns)
    limit = consumer.config.max_ack_pending
    if consumer.room() <= 0 and not consumer.state.acks.queued_count:
        text = f"{_messages(consumer.ack_pending())} of at most {limit:,} (max_ack_pending) wait for an ack."
        yield Cause("max_ack_pending", Kind.STUCK, text)
    yield from _of_acks(consumer, now_ns)
    if available and isinstance(consumer.deliverer.source, ByKey):
        yield from _of_keys(consumer.deliverer.source, now_ns)
    if not available:
        yield _nothing_left(consumer)
    gone_ns = consumer.idleness.gone_ns()
    if gone_ns:
        text = f"Nobody uses the consumer: it is removed at {_moment(gone_ns, now_ns)} (inactive_threshold)."
        yield Cause("inactive", Kind.WAITING, text, gone_ns)


# --- who takes messages ---


def _of_push(consumer: Consumer, push: PushSink, available: int) -> Iterator[Cause]:
    config = consumer.config
    target, group = config.deliver_subject, config.deliver_group
    if push.is_cyclic:
        text = f"The stream stores what is published to the deliver subject {target}: delivering would never end."
        yield Cause("deliver_cycle", Kind.STUCK, text)
    if not push.listening:
        where = f"{target} in the queue group {group}" if group else target
        text = f"Nobody is subscribed to {where}."
        if consumer.ports.has_interest(push.target):
            text += " There are subscribers, but " + ("not in this group." if group else "only in queue groups.")
        yield Cause("no_interest", Kind.STUCK if available else Kind.IDLE, text)
    elif config.flow_control and push.stalled_bytes:
        text = f"The client has not confirmed {push.stalled_bytes:,} bytes: a flow control request is unanswered."
        yield Cause("flow_control", Kind.STUCK, text)


def _of_pull(consumer: Consumer, pull: PullSink, available: int, now_ns: int) -> Iterator[Cause]:
    pull.drop_gone(now_ns)
    waiting, limit = len(pull.waiting), min(consumer.config.max_waiting, CONSUMER_WAITING_CEILING)
    if not waiting:
        if available:
            text = f"No client asks: {_messages(available)} could be delivered to a pull request."
            yield Cause("no_pull", Kind.STUCK, text)
        return
    if waiting >= limit:
        text = f"{waiting:,} pull requests wait, which is the most (max_waiting): further ones are refused."
        yield Cause("max_waiting", Kind.WAITING, text)
    if available:
        yield from _of_priority(consumer, pull, available)


def _of_priority(consumer: Consumer, pull: PullSink, available: int) -> Iterator[Cause]:
    """Requests wait, there is something for them, and none may have it."""
    config, groups = consumer.config, consumer.groups
    pending = consumer.ack_pending()
    verdicts = (groups.verdict(one, config, pending=available, ack_pending=pending) for one in pull.waiting)
    if any(verdict is not PriorityVerdict.LATER for verdict in verdicts):
        return
    if config.priority_policy is PriorityPolicy.PINNED_CLIENT:
        text = f"The priority group is pinned to the client {groups.pin_id}, which asks for nothing now."
        yield Cause("pinned", Kind.WAITING, text, groups.kept_until_ns)
    else:
        text = (
            f"None of the waiting pull requests takes its turn yet (overflow): {available:,} pending and"
            f" {pending:,} unacknowledged messages are less than what each of them wants."
        )
        yield Cause("overflow", Kind.WAITING, text)


# --- when ---


def _of_pace(consumer: Consumer, now_ns: int) -> Iterator[Cause]:
    pace = consumer.deliverer.waits_for
    if pace is None:
        return
    pacing, until_ns = pace
    moment = _moment(until_ns, now_ns)
    if pacing is Pacing.RATE:
        yield Cause("rate_limit", Kind.WAITING, f"The rate limit holds the next message until {moment}.", until_ns)
    elif pacing is Pacing.REPLAY:
        text = f"Messages are replayed at their original pace: the next one is due at {moment}."
        yield Cause("replay", Kind.WAITING, text, until_ns)
    else:
        yield Cause("congested", Kind.WAITING, "The client has not read what it was sent: the server waits for it.")


def _of_acks(consumer: Consumer, now_ns: int) -> Iterator[Cause]:
    acks, config = consumer.state.acks, consumer.config
    if acks.delayed:
        until_ns = min(acks.deadline_ns(seq) for seq in acks.delayed)
        text = (
            f"{_messages(len(acks.delayed))} {_are(len(acks.delayed))} sent back by clients with a delay (nak): the"
            f" first comes again at {_moment(until_ns, now_ns)}."
        )
        yield Cause("nak_delay", Kind.WAITING, text, until_ns)
    out = len(acks.pending) - acks.queued_count - len(acks.delayed)
    until_ns = acks.next_deadline_ns() or FOREVER_NS
    if out > 0 and until_ns < FOREVER_NS and config.ack_policy is not AckPolicy.NONE:
        wait = "backoff" if config.backoff_ns else "ack_wait"
        text = (
            f"{_messages(out)} {_are(out)} with clients and not acknowledged: what is not comes again, the first at"
            f" {_moment(until_ns, now_ns)} ({wait})."
        )
        yield Cause("unacknowledged", Kind.WAITING, text, until_ns)
    if acks.exhausted:
        text = (
            f"{_messages(len(acks.exhausted))} {_are(len(acks.exhausted))} given up: delivered {config.max_deliver:,}"
            " times without an ack (max_deliver)."
        )
        yield Cause("max_deliver", Kind.IDLE, text)
    dead = len(consumer.state.dead)
    if dead:
        text = f"{_messages(dead)} {_are(dead)} on the way to the dead letters, and not stored there yet."
        yield Cause("dead_letters", Kind.WAITING, text)


def _of_keys(source: ByKey, now_ns: int) -> Iterator[Cause]:
    """An order by keys holds some of them back."""
    queues = source.queues
    if queues.busy_keys:
        count = len(queues.waiting_seqs)
        text = (
            f"{_messages(count)} wait{'' if count != 1 else 's'}, of {_keys(queues.busy_keys)} of which another"
            " message is in flight (key-shared): the next of a key comes when that is acknowledged."
        )
        yield Cause("key_in_flight", Kind.WAITING, text)
    until_ns = queues.next_ns()
    if queues.late_keys and until_ns > now_ns:  # else the next pull request finds that out
        had = "have had their" if queues.late_keys != 1 else "has had its"
        moment = _moment(until_ns, now_ns)
        text = f"{_keys(queues.late_keys)} {had} share (rate): the first may go at {moment}."
        yield Cause("key_rate", Kind.WAITING, text, until_ns)
    if source.is_full and (queues.busy_keys or queues.late_keys):
        text = f"{source.ordering.ahead:,} messages wait for their keys, and no more are looked at (ahead)."
        yield Cause("look_ahead", Kind.STUCK, text)


# --- what ---


def _nothing_left(consumer: Consumer) -> Cause:
    store, filters = consumer.store, consumer.filters
    if not store.messages:
        return Cause("empty", Kind.IDLE, "The stream is empty.")
    next_seq, last_seq = consumer.state.next_seq, store.last_seq
    if next_seq > last_seq + 1:
        text = f"The consumer begins at sequence {next_seq:,}, and the stream ends at {last_seq:,}."
        return Cause("not_begun", Kind.IDLE, text)
    if filters.for_store and not store.count_matching(filters.for_store, store.first_seq, store.committed_seq):
        subjects = [subject.decode("utf-8", "replace") for subject in filters.subjects]
        shown = ", ".join(subjects[:_FILTERS_SHOWN]) + (", …" if len(subjects) > _FILTERS_SHOWN else "")
        text = f"None of the stream's {_messages(store.messages)} is on a subject that the consumer wants ({shown})."
        return Cause("filter", Kind.IDLE, text)
    return Cause("all_delivered", Kind.IDLE, f"All that it wants was delivered, up to sequence {last_seq:,}.")


# --- words ---


def _messages(count: int) -> str:
    return f"{count:,} message{'s' if count != 1 else ''}"


def _keys(count: int) -> str:
    return f"{count:,} key{'s' if count != 1 else ''}"


def _are(count: int) -> str:
    return "are" if count != 1 else "is"


def _moment(at_ns: int, now_ns: int) -> str:
    """A time, and how far away it is; to the millisecond, for nobody reads more."""
    left_ns = max(at_ns - now_ns, 0) // MILLISECOND_NS * MILLISECOND_NS
    return f"{format_time(at_ns // MILLISECOND_NS * MILLISECOND_NS)}, {format_duration(left_ns)} from now"
