"""Delivery on request: who gets the next message, and what those are told who get none.

Every request ends with a status, or with its last message. Statuses are put into the same list as messages, so that a
client sees them in order.
"""

from __future__ import annotations

from collections import deque
from itertools import islice, takewhile

from slipstream.jetstream.config.enums import PriorityPolicy
from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.consumer.limits import (
    CONSUMER_CAREFUL_MSGS,
    CONSUMER_WAITING_CEILING,
    CONSUMER_WAITING_SWEEP_NS,
    REDELIVER_INTERVAL_MIN_NS,
)
from slipstream.jetstream.consumer.plan import NO_BYTES_LIMIT, DeliveryPlan
from slipstream.jetstream.consumer.priority import PriorityGroups, PriorityVerdict
from slipstream.jetstream.consumer.requests import PullRequest, WaitingRequests, read_request
from slipstream.jetstream.consumer.sink import SinkOwner
from slipstream.jetstream.gojson.scan import JsonError
from slipstream.jetstream.gojson.times import format_duration
from slipstream.jetstream.ports import Cancel, Ports

__all__ = ["PullSink"]

_NO_PRIORITY = PriorityPolicy.NONE  # members of an enum are looked up slowly


class _ExpectedRequest:
    """The one request that waits."""

    __slots__ = ("_request", "_sink", "target")

    def __init__(self, sink: PullSink, request: PullRequest) -> None:
        self._sink = sink
        self._request = request
        self.target = request.reply

    def holds(self) -> bool:
        """Whether it still is the only one, and somebody is there to take a message."""
        return self._sink.is_only_taker(self._request)

    def took(self) -> None:
        """It got the message."""
        self._sink.took_one(self._request)


class PullSink:
    """The waiting requests of one consumer."""

    def __init__(self, owner: SinkOwner, ports: Ports, groups: PriorityGroups) -> None:
        """Serve requests for `owner`."""
        self._owner = owner
        self._ports = ports
        self._now_ns = ports.now_ns
        self._has_interest = ports.has_interest
        self._groups = groups
        self._timer: Cancel | None = None
        self._timer_ns = 0
        self._swept_ns = 0  # when gone clients were last looked for
        self.waiting = WaitingRequests()
        self.last_active_ns = ports.now_ns()
        self._taker: PullRequest | None = None  # got the message that is being sent

    def start(self) -> None:
        """Requests come as they come."""

    # --- requests ---

    def on_request(self, reply: bytes, body: bytes, *, preview: bool = False) -> None:
        """Queue a request, or say why not; `preview`: it came as JetStream's preview had it."""
        config, now_ns = self._owner.config, self._ports.now_ns()
        try:
            request = read_request(reply, body, now_ns)
        except JsonError as error:
            self._status(reply, b"400 Bad Request - %b" % str(error).encode())
            return
        request.preview = preview
        refusal = self._beyond(request, config, now_ns) or self._groups.refusal(request, config)
        if refusal is None and request.no_wait:
            refusal = self._nothing_there(request, now_ns)
        if refusal is not None:
            self._status(reply, refusal)
            return
        if config.priority_policy is not PriorityPolicy.PRIORITIZED:
            request.priority = 0
        if self._full(config, now_ns):
            # A client with heartbeats notices by itself; told at once it would ask again at once.
            if not request.heartbeat_ns:
                self._status(reply, b"409 Exceeded MaxWaiting")
            return
        self.waiting.add(request)
        self.last_active_ns = now_ns
        self._arm()
        self._owner.wake()

    def _beyond(self, request: PullRequest, config: ConsumerConfig, now_ns: int) -> bytes | None:
        if 0 < config.max_batch < request.batch:
            return b"409 Exceeded MaxRequestBatch of %d" % config.max_batch
        if request.expires_ns and 0 < config.max_expires_ns < request.expires_ns - now_ns:
            return b"409 Exceeded MaxRequestExpires of %b" % format_duration(config.max_expires_ns).encode()
        if 0 < config.max_bytes < request.bytes_left:
            return b"409 Exceeded MaxRequestMaxBytes of %d" % config.max_bytes
        return None

    def _nothing_there(self, request: PullRequest, now_ns: int) -> bytes | None:
        """A request that does not wait is refused if there is nothing, or others have a claim to it."""
        available = self._owner.available()
        if available == 0 and not request.expires_ns:
            self.last_active_ns = now_ns
            return b"404 No Messages"
        if available > 0 and self.waiting and available < self._claimed(now_ns):
            self.last_active_ns = now_ns
            return b"408 Requests Pending"
        return None

    def _claimed(self, now_ns: int) -> int:
        self.on_timer()
        self.drop_gone(now_ns)
        return self.waiting.wanted

    def _full(self, config: ConsumerConfig, now_ns: int) -> bool:
        limit = min(config.max_waiting, CONSUMER_WAITING_CEILING)
        if len(self.waiting) >= limit and now_ns - self._swept_ns > CONSUMER_WAITING_SWEEP_NS:
            self.drop_gone(now_ns)
        return len(self.waiting) >= limit

    def drop_gone(self, now_ns: int) -> None:
        """Forget requests whose clients no longer listen."""
        self._swept_ns = now_ns
        for request in list(self.waiting):
            if not self._ports.has_interest(request.reply):
                self.waiting.end(request)

    # --- messages ---

    def demand(self) -> int:
        """How many messages to read for those who wait; 0: nobody does."""
        return CONSUMER_CAREFUL_MSGS if self.waiting.count else 0

    def plan(self, most: int) -> DeliveryPlan | None:
        """Who gets the next messages if each request may have any message; None: ask for each."""
        if self._owner.config.priority_policy is not _NO_PRIORITY:
            return None
        only = self.waiting.only()
        if only is None:
            return self._plan_in_turn(most)
        if not self._is_easy(only, self._now_ns()):
            return None
        wanted = only.batch
        if wanted < 1:
            wanted = 1
        return DeliveryPlan(only.reply, most if most < wanted else wanted, NO_BYTES_LIMIT, (only,))

    def _plan_in_turn(self, most: int) -> DeliveryPlan | None:
        now_ns = self._ports.now_ns()
        turns = list(takewhile(lambda request: self._is_easy(request, now_ns), islice(self.waiting, most)))
        if not turns:
            return None
        if len(turns) == len(self.waiting):
            turns = _in_turn(turns, most)
        return DeliveryPlan([request.reply for request in turns], len(turns), turns=tuple(turns))

    def _is_easy(self, request: PullRequest, now_ns: int) -> bool:
        """It takes whatever comes, and somebody is there to take it."""
        if request.bytes_left > 0 or request.preview or 0 < request.expires_ns <= now_ns:
            return False
        return self._has_interest(request.reply)

    def expect(self) -> _ExpectedRequest | None:
        """The one request that waits, if it may have any message; None: there is not one, or it has conditions."""
        if self._owner.config.priority_policy is not _NO_PRIORITY:
            return None
        only = self.waiting.only()
        return None if only is None or only.bytes_left > 0 or only.preview else _ExpectedRequest(self, only)

    def is_only_taker(self, request: PullRequest) -> bool:
        """Whether this one, which waited alone, still does, and somebody is there to take a message."""
        if self.waiting.count != 1 or request.ended or 0 < request.expires_ns <= self._now_ns():
            return False
        return self._has_interest(request.reply)

    def took_one(self, request: PullRequest) -> None:
        """One message went to this request."""
        request.batch -= 1
        request.delivered += 1
        self._served(request)

    def took(self, plan: DeliveryPlan, count: int, size: int, last_size: int) -> None:
        """The first so many messages of a plan went out."""
        if isinstance(plan.targets, bytes):
            (only,) = plan.turns
            only.batch -= count
            only.delivered += count
            self._served(only)
            return
        for request in plan.turns[:count]:
            assert self.waiting.first() is request
            self.took_one(request)

    def take(self, size: int, pending: int) -> bytes | None:
        """Who gets the next message of this size; those who cannot are told so. `pending` counts the message too."""
        self._taker = request = self._choose(size, pending)
        return None if request is None else request.reply

    @property
    def takes_preview(self) -> bool:
        """Whether who takes the next message knows the ack subjects of the preview."""
        return self._taker is not None and self._taker.preview

    def _choose(self, size: int, pending: int) -> PullRequest | None:
        waiting, config = self.waiting, self._owner.config
        passed = 0
        while (request := waiting.first()) is not None:
            if request.expires_ns and request.expires_ns <= self._ports.now_ns():
                self._timed_out(request)
                continue
            verdict = self._groups.verdict(request, config, pending=pending, ack_pending=self._owner.ack_pending())
            if verdict is PriorityVerdict.WRONG_PIN:
                self._end_with(request, b"423 Nats-Wrong-Pin-Id")
                continue
            if verdict is PriorityVerdict.LATER:
                waiting.rotate(request)
                passed += 1
                if passed >= len(waiting):
                    return None
                continue
            if request.bytes_left > 0 and size > request.bytes_left:
                self._end_with(request, b"409 Message Size Exceeds MaxBytes")
                continue
            if not self._ports.has_interest(request.reply):
                waiting.end(request)
                continue
            if verdict is PriorityVerdict.PINNED:
                self._groups.pin(request, config)
            self._charge(request, size)
            return request
        return None

    def sent(self, size: int) -> None:
        """Its message is on the way: let the request wait for more, or end."""
        request, self._taker = self._taker, None
        assert request is not None
        self._served(request)
        if request.ended and request.bytes_left > 0:
            self._status(request.reply, b"409 Batch Completed", request)

    def _charge(self, request: PullRequest, size: int) -> None:
        if request.bytes_left > 0:
            request.bytes_left -= size
            if request.bytes_left == 0:
                request.batch = 1  # this one is the last: the budget is used up to the byte
        request.batch -= 1
        request.delivered += 1

    def _served(self, request: PullRequest) -> None:
        now_ns = self.last_active_ns = self._ports.now_ns()
        if request.batch <= 0:
            self.waiting.end(request)
            return
        if request.heartbeat_ns:
            request.beat_ns = now_ns + request.heartbeat_ns
        self.waiting.rotate(request)

    def on_end(self) -> None:
        """There is nothing more to deliver: those who do not wait are told."""
        if not self.waiting.no_wait_count:
            return
        now_ns = self._ports.now_ns()
        for request in [request for request in self.waiting if request.no_wait]:
            if request.expires_ns and request.expires_ns <= now_ns:
                self._timed_out(request)
            elif not request.expires_ns or request.delivered:
                self._status(request.reply, b"404 No Messages")
                self.waiting.end(request)

    # --- time ---

    def on_timer(self) -> None:
        """Some request has ended, or wants to hear that the consumer is alive."""
        now_ns = self._ports.now_ns()
        for request in self.waiting.take_due(now_ns):
            if request.expires_ns and request.expires_ns <= now_ns:
                self._timed_out(request)
                continue
            if not self._ports.has_interest(request.reply):
                self.waiting.end(request)
                continue
            if request.beat_ns and request.beat_ns <= now_ns:
                self._owner.out.append((request.reply, request.reply, None, self._owner.heartbeat(), b""))
                request.beat_ns = now_ns + request.heartbeat_ns
            self.waiting.watch(request)
        self._arm()

    def close(self, status: bytes, *, counts: bool) -> None:
        """Tell everyone who waits why nothing comes any more."""
        for request in list(self.waiting):
            self._status(request.reply, status, request if counts else None)
            self.waiting.end(request)
        if self._timer is not None:
            self._timer()
            self._timer = None

    def _arm(self) -> None:
        due_ns = self.waiting.next_event_ns()
        if due_ns is None or (self._timer is not None and self._timer_ns <= due_ns):
            return
        if self._timer is not None:
            self._timer()
        self._timer_ns = due_ns
        delay_ns = max(due_ns - self._ports.now_ns(), REDELIVER_INTERVAL_MIN_NS)
        self._timer = self._ports.call_later(delay_ns, self._due)

    def _due(self) -> None:
        self._timer = None
        # nats-server lets those who do not wait go whenever its timer fires, even if acks would free more for them.
        self.on_end()
        self.on_timer()
        self._owner.wake()

    # --- statuses ---

    def _timed_out(self, request: PullRequest) -> None:
        self._end_with(request, b"408 Request Timeout")

    def _end_with(self, request: PullRequest, status: bytes) -> None:
        self._status(request.reply, status, request)
        self.waiting.end(request)

    def _status(self, reply: bytes, status: bytes, request: PullRequest | None = None) -> None:
        """A status line; with the request, what is left of its budget."""
        block = b"NATS/1.0 %b\r\n" % status
        if request is not None:
            block += b"Nats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n" % (request.batch, request.bytes_left)
        self._owner.out.append((reply, reply, None, block + b"\r\n", b""))
        self._owner.wake()


def _in_turn(requests: list[PullRequest], most: int) -> list[PullRequest]:
    """One message for each, again and again, until none wants more."""
    waiting = deque((request, max(request.batch, 1)) for request in requests)
    turns: list[PullRequest] = []
    while waiting and len(turns) < most:
        request, wanted = waiting.popleft()
        turns.append(request)
        if wanted > 1:
            waiting.append((request, wanted - 1))
    return turns
