"""What JetStream asks of its surroundings, answered by the event loop and one account.

Nothing is decided here: times, threads and routes are passed through.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from slipstream.ids import new_nuid
from slipstream.jetstream.guard import guarded
from slipstream.jetstream.ports import Cancel, Delivery, OnMessage
from slipstream.kernels.fastpath.handout import hand_out, is_congested
from slipstream.kernels.fastpath.intake import Intake
from slipstream.kernels.wire.receivers import Presence
from slipstream.protocol.connection import SUBSCRIPTIONS_AT_ONCE
from slipstream.routing.services import REPLY_PREFIX
from slipstream.server.jetstream.shared_memory import lend_file, share_memory
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.accounts.account import Account, MessageTaker
    from slipstream.accounts.member import Member
    from slipstream.jetstream.ports import LiveSubscription
    from slipstream.kernels.fastpath.ackintake import AckIntake
    from slipstream.kernels.fastpath.handout import Batch
    from slipstream.kernels.fastpath.pointget import PointGet
    from slipstream.kernels.wire.receivers import Subscription
    from slipstream.server.jetstream.file_threads import FileWork
    from slipstream.server.server import Server

__all__ = ["AccountPorts"]


class _Listening:
    """A subscription of the server itself, as JetStream holds it."""

    __slots__ = ("_account", "_closed", "_subscription")

    def __init__(self, account: Account, subscription: Subscription) -> None:
        self._account = account
        self._subscription = subscription
        self._closed = False

    def close(self) -> None:
        """Stop listening."""
        if not self._closed:
            self._closed = True
            self._account.takers.pop(self._subscription, None)
            self._account.remove(self._subscription)

    def take(self) -> Subscription:
        """The subscription, for somebody else to remove."""
        self._closed = True
        return self._subscription


class _NotListening:
    """In the place of a subscription, where a stream takes nothing from outside."""

    def close(self) -> None:
        """There is nothing to stop."""


class AccountPorts:
    """The ports of one account."""

    def __init__(
        self,
        server: Server,
        account: Account,
        loop: asyncio.AbstractEventLoop,
        files: FileWork,
        *,
        takes_publishes: bool = True,
    ) -> None:
        """For an account; `takes_publishes=False`: its streams store nothing but what the server itself gives them."""
        self._takes_publishes = takes_publishes
        self._server = server
        self._turns = server.turns
        self._account = account
        self._loop = loop
        self._rng = server.hub.rng
        self._ending: list[Callable[[], None]] = []  # called at the end of this turn
        self._reads_seen = 0  # of the server, when a turn with work for its end ended last
        self.alone = False  # what runs now is all there is to do
        self._end = self._end_turn
        self._interest = account.interest
        self._delivery = account.delivery
        self.now_ns = server.clock.now_ns
        self.is_bound = account.is_bound
        self.flush = server.turns.flush
        self.report = server.turns.report
        self.share_memory = share_memory
        self.lend_file = lend_file
        self.cores = os.cpu_count() or 1
        self.run_commit = files.commits.run
        self.when_commits_run = files.commits.when_free
        self.run_blocking = files.rest.run

    @property
    def reads(self) -> int:
        """Times that messages of clients were taken in."""
        return self._turns.reads

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call once at the end of this turn, together with others: what they write is sent in one go."""
        if not self._ending:
            self._turns.at_end_of_turn(self._end)
        self._ending.append(callback)

    def _end_turn(self) -> None:
        ending, self._ending = self._ending, []
        before, self._reads_seen = self._reads_seen, self._turns.reads
        self.alone = len(ending) == 1 and self._reads_seen - before <= 1
        for callback in ending:
            try:
                callback()
            except Exception as error:
                self.report("JetStream work", error)  # one stream's mistake is not another's
        self.alone = False

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Cancel:
        """Call once after a while."""
        return self._loop.call_later(delay_ns / SECOND_NS, guarded(callback, self._timer_broke)).cancel

    def _timer_broke(self, error: Exception) -> None:
        self.report("A JetStream timer", error)

    def publish(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        """Publish into the account."""
        if header:
            self._account.publish(subject, reply, len(header), header + payload)
        else:
            self._account.publish(subject, reply, 0, payload)

    def publish_many(self, messages: Iterable[tuple[bytes, bytes]]) -> None:
        """Publish plain messages in order."""
        publish = self._account.publish
        for subject, payload in messages:
            publish(subject, None, 0, payload)

    def publish_acks(self, acks: list[tuple[bytes, int]], start: int, end: int, prefix: bytes) -> None:
        """Publish the acks of a commit."""
        self._delivery.publish_acks(self._interest, acks, start, end, prefix)

    def answer(self, subject: bytes, payload: bytes) -> None:
        """Publish another answer to a publish."""
        self._delivery.publish_answer(self._interest, subject, payload)

    def deliver_many(self, messages: Iterable[Delivery]) -> bool:
        """Hand out stored messages: found by their target, shown under their own subject."""
        deliver = self._account.delivery.deliver
        last_target, arrival = None, b""
        route = None
        for target, subject, reply, header, payload in messages:
            if target != last_target or route is None:
                account, arrival = (
                    self._answer_to(target) if target.startswith(REPLY_PREFIX) else (self._account, target)
                )
                # Who imports the target under another name, or maps it, still gets the message's own subject.
                route = account.interest.find_answer_route(arrival).unnamed_by(arrival)
                last_target = target
            if subject == target:
                subject = arrival  # a status has no other name than where it goes
            if header:
                deliver(route, None, subject, reply, len(header), header + payload)
            else:
                deliver(route, None, subject, reply, 0, payload)
        return not self._account.delivery.take_stalled()

    def hand_out(
        self,
        targets: bytes | list[bytes],
        batch: Batch,
        start: int,
        count: int,
        prefix: bytes,
        dseq: int,
        pending: int,
        max_bytes: int,
        *,
        headers_only: bool,
    ) -> tuple[int, int, int]:
        """Hand out stored messages as they are."""
        delivery, interest = self._delivery, self._interest
        if isinstance(targets, bytes):
            if targets.startswith(REPLY_PREFIX):
                account, targets = self._answer_to(targets)
                delivery, interest = account.delivery, account.interest
        elif _cross_accounts(targets):
            return self._hand_out_across_accounts(
                targets, batch, start, count, prefix, dseq, pending, max_bytes, headers_only=headers_only
            )
        return hand_out(
            delivery, interest, targets, batch, start, count, prefix, dseq, pending, max_bytes, headers_only
        )

    def is_congested(self, target: bytes, most: int) -> bool:
        """Whether more than `most` bytes wait for who receives this, or it is near a limit, in whatever account."""
        account, target = self._answer_to(target) if target.startswith(REPLY_PREFIX) else (self._account, target)
        return is_congested(account.interest, target, most)

    def _hand_out_across_accounts(
        self,
        targets: list[bytes],
        batch: Batch,
        start: int,
        count: int,
        prefix: bytes,
        dseq: int,
        pending: int,
        max_bytes: int,
        *,
        headers_only: bool,
    ) -> tuple[int, int, int]:
        """The same one by one, for receivers of which some are in other accounts."""
        total = size = 0
        for i in range(count):
            left = max(pending - i, 0)
            _, size, _ = self.hand_out(
                targets[i], batch, start + i, 1, prefix, dseq + i, left, max_bytes, headers_only=headers_only
            )
            total += size
            if total > max_bytes:
                return i + 1, total, size
        return count, total, size

    def has_interest(self, subject: bytes) -> bool:
        """Whether anybody would receive a message on this subject, in another account if it leads there."""
        if not subject.startswith(REPLY_PREFIX):
            return self._interest.reaches(subject)
        account, arrival = self._way_of(subject)
        return account is not self._account and account.has_interest(arrival)

    def _answer_to(self, target: bytes) -> tuple[Account, bytes]:
        """Where the answer to a request of another account has to be delivered, so that it keeps its subject."""
        account, arrival = self._account, target
        while (ways := account.ways_back) is not None and (found := ways.leads_to(arrival)) is not None:
            ways.answered(arrival)
            account, arrival = found
        return account, arrival

    def _way_of(self, target: bytes) -> tuple[Account, bytes]:
        account, arrival = self._account, target
        while (ways := account.ways_back) is not None and (found := ways.leads_to(arrival)) is not None:
            account, arrival = found
        return account, arrival

    def watch_interest(self, subject: bytes, queue: bytes | None, on_change: Callable[[bool], None]) -> Cancel:
        """Tell when interest in a subject comes and goes."""
        return self._account.watch(subject, queue, on_change)

    def subscribe(self, subject: bytes, on_message: OnMessage, queue: bytes | None = None) -> _Listening:
        """Receive what is published in the account."""

        def take(_publisher: Member | None, found: bytes, reply: bytes | None, header_size: int, body: bytes) -> None:
            if header_size:
                on_message(found, reply, body[:header_size], body[header_size:])
            else:
                on_message(found, reply, None, body)

        return _Listening(self._account, self._account.subscribe(subject, take, queue, imports=True))

    def listen(self, subject: bytes, intake: Intake | AckIntake, taker: MessageTaker | None = None) -> LiveSubscription:
        """Let a kernel receive what is published in the account; `taker` gets what is traced instead."""
        if not self._takes_publishes and isinstance(intake, Intake):
            return _NotListening()
        subscription = self._account.subscribe(subject, intake, imports=True)
        if taker is not None:
            self._account.takers[subscription] = taker
        return _Listening(self._account, subscription)

    def close_all(self, listening: list[LiveSubscription]) -> None:
        """Listen no more on any of these."""
        taken = [one.take() for one in listening if isinstance(one, _Listening)]
        for subscription in taken:
            self._account.takers.pop(subscription, None)
        if len(taken) <= SUBSCRIPTIONS_AT_ONCE:
            for subscription in taken:
                self._account.remove(subscription)
            return
        presence = Presence()
        for subscription in taken:
            subscription.presence = presence
        self._server.hub.in_steps(
            self._account.depart(presence, {b"%d" % number: one for number, one in enumerate(taken)})
        )

    def answer_gets(self, subject: bytes, getter: PointGet, queue: bytes) -> _Listening:
        """Let a stream answer requests for single messages."""
        getter.bind(self._account.delivery, self._account.interest)
        return _Listening(self._account, self._account.subscribe(subject, getter, queue))

    def log(self, level: str, text: str) -> None:
        """Write one log line; a reload may have put another log in the place of the first."""
        self._server.log(level, text)

    def random_below(self, bound: int) -> int:
        """A number below `bound`."""
        return self._rng.randrange(bound)

    def new_nuid(self) -> str:
        """A fresh identifier."""
        return new_nuid(self._rng)


def _cross_accounts(targets: list[bytes]) -> bool:
    """Whether some of these are in other accounts."""
    return any(target.startswith(REPLY_PREFIX) for target in targets)
