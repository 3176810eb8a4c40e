"""One account: a subject space of its own, with the clients and internal listeners that live in it.

What this is not: a decision about permissions or imports. Those are the planner's, which is consulted when a subject
is published for the first time and whenever interest has changed (`interest.planner`).

Invariant: every subscription in `interest` belongs to a connection in `connections` or is internal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ParamSpec, Protocol

from slipstream.config.account_options import AccountLimitsOptions
from slipstream.kernels.subjects.subject import is_literal, token_count
from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.receivers import Link, Presence, Route, Subscription
from slipstream.subjects.outside import unmarked

if TYPE_CHECKING:
    from slipstream.accounts.imports import StreamImport
    from slipstream.accounts.member import Member
    from slipstream.config.account_options import MsgTraceOptions

__all__ = [
    "HERE_SID",
    "IMPORTING_SID",
    "Account",
    "Callback",
    "InterestWatcher",
    "MessageTaker",
    "most_subscription_cost",
    "subscription_cost",
]

# publisher (None: the server itself), subject, reply, header size, header and body. False: not taken.
Callback = Callable[["Member | None", bytes, bytes | None, int, bytes], bool | None]

P = ParamSpec("P")

_NO_SID = b""
# Marks an internal listener that hears imported streams as a client does.
IMPORTING_SID = b"imports"
# Marks an internal listener for what is asked at this server: no other one is told of it.
HERE_SID = b"here"


# What a subscription takes in memory: itself with its places in tables, and a node of the trie for each token of a
# pattern. Rounded up from what was measured.
_SUBSCRIPTION_BYTES = 500
_NODE_BYTES = 360
# What is done in one step when a client with very many subscriptions leaves: some 2 ms of work each.
_SUBSCRIPTIONS_A_STEP = 1_000
_WATCHERS_A_STEP = 500


def subscription_cost(subject: bytes) -> int:
    """Memory that a subscription takes, about, in bytes."""
    nodes = 0 if is_literal(subject) else token_count(subject)
    return _SUBSCRIPTION_BYTES + len(subject) + nodes * _NODE_BYTES


def most_subscription_cost(count: int, size: int) -> int:
    """Memory that so many subscriptions to subjects of so many bytes take at most."""
    return count * (_SUBSCRIPTION_BYTES + _NODE_BYTES) + size * (1 + _NODE_BYTES)


class _Watcher:
    """Somebody who waits for interest in one subject."""

    __slots__ = ("heard", "on_change", "queue")

    def __init__(self, queue: bytes | None, on_change: Callable[[bool], None], heard: bool) -> None:
        self.queue = queue
        self.on_change = on_change
        self.heard = heard  # as last told


class WaysBack(Protocol):
    """The reply subjects under which answers to requests of other accounts leave this one."""

    def leads_to(self, reply: bytes) -> tuple[Account, bytes] | None:
        """Where answers end up: the importing account and the subject there; None: nowhere."""
        ...

    def answered(self, reply: bytes) -> None:
        """An answer was delivered there."""
        ...


class InterestWatcher(Protocol):
    """Whoever tells other servers what is wanted here."""

    def changed(self, account: Account, subscription: Subscription, delta: int) -> None:
        """A subscription came, went, or stands for so many members more or less."""
        ...

    def came(self, account: Account, subscriptions: list[Subscription]) -> None:
        """Subscriptions of one other server came, none of them in a queue group."""
        ...


class MessageTaker(Protocol):
    """A receiver inside the server that can tell a trace what it makes of a message."""

    name: str

    def take(
        self, subject: bytes, reply: bytes | None, header: bytes, payload: bytes, *, only: bool
    ) -> tuple[bytes, bool, str]:
        """Take a message, or with `only` find out what would become of it.

        Returns the subject it is kept under, whether it is not because nobody wants it, and why it is refused.
        """
        ...


class Account:
    """A subject space."""

    def __init__(
        self,
        name: str,
        delivery: Delivery,
        limits: AccountLimitsOptions | None = None,
        *,
        is_system: bool = False,
        remembers_routes: bool = True,
    ) -> None:
        self.name = name
        self.limits = limits or AccountLimitsOptions()
        self.is_system = is_system
        self.interest = Interest() if remembers_routes else Interest(0)
        self.connections: dict[int, Member] = {}
        self.total_connections = 0  # ever bound to this account
        self.connections_elsewhere = 0  # at other servers of the cluster, as far as they told
        self.slow_consumers = 0
        # Traffic of connections that are gone; live ones keep their own counts.
        self.closed_in_msgs = self.closed_in_bytes = self.closed_out_msgs = self.closed_out_bytes = 0
        # Called after interest changed, by whoever depends on it (importing and exporting accounts).
        self.interest_listeners: list[Callable[[], None]] = []
        # Told of each subscription that comes or goes; nobody where there are no other servers.
        self.interest_watchers: list[InterestWatcher] = []
        self.delivery = delivery
        self.msg_trace: MsgTraceOptions | None = None  # where traces of sampled W3C requests go
        self.traced_imports: list[StreamImport] = []  # stream imports that a message trace may follow
        # Subscriptions inside the server that tell a trace what they make of a message.
        self.takers: dict[Subscription, MessageTaker] = {}
        self.maps_subjects = False  # published subjects may become others
        self.ways_back: WaysBack | None = None  # of requests that other accounts made here
        # Whether a request on a subject that nobody took gets no answer, instead of "no responders".
        self.keeps_silent: Callable[[bytes], bool] | None = None
        self.subscription_bytes = 0  # memory that subscriptions of clients take, about
        self._watchers: dict[bytes, list[_Watcher]] = {}
        self._plan: Callable[[bytes], Route] | None = None
        self._always_planned = False
        self._checked = 0  # subscriptions whose client may not receive everything they match

    def use_planner(self, plan: Callable[[bytes], Route], *, always: bool) -> None:
        """Who decides routes: always, or only while some subscription has to be checked at delivery."""
        self._plan = plan
        self._always_planned = always
        self._choose_planner()
        self.interest.forget_all()

    def _choose_planner(self) -> None:
        self.interest.planner = self._plan if self._always_planned or self._checked else None

    def add(self, subscription: Subscription) -> None:
        """Let a subscription take part."""
        if subscription.checked:
            self._checked += 1
            self._choose_planner()
        self.interest.insert(subscription)
        if subscription.client is not None:
            subscription.cost = subscription_cost(subscription.subject)
            self.subscription_bytes += subscription.cost
        self._interest_changed(subscription.subject)
        for watcher in self.interest_watchers:
            self._guarded(watcher.changed, self, subscription, subscription.weight)

    def add_wanted(
        self,
        subjects: list[bytes],
        known: dict[bytes, Subscription],
        link: Link,
        client: object,
        sid: bytes,
        presence: Presence,
    ) -> None:
        """Let subscriptions of another server take part, one for each subject.

        Args:
            subjects: what it wants, without queue groups.
            known: what it has asked for before, by subject; grows by what is new.
            link: over which messages leave.
            client: whose the subscriptions are.
            sid: of the subscriptions.
            presence: of the client.
        """
        made, cost = self.interest.insert_wanted(
            subjects, known, link, client, sid, presence, _SUBSCRIPTION_BYTES, _NODE_BYTES
        )
        if not made:
            return
        self.subscription_bytes += cost
        for changed in self.interest_listeners:
            self._guarded(changed)
        if self._watchers:
            for subscription in made:
                self._tell_watchers(subscription.subject)
        for watcher in self.interest_watchers:
            self._guarded(watcher.came, self, made)

    def remove(self, subscription: Subscription) -> None:
        """Take a subscription out."""
        if self.interest.remove(subscription):
            if subscription.checked:
                self._checked -= 1
                self._choose_planner()
            self.subscription_bytes -= subscription.cost
            self._interest_changed(subscription.subject)
            for watcher in self.interest_watchers:
                self._guarded(watcher.changed, self, subscription, -subscription.weight)

    def reweigh(self, subscription: Subscription, weight: int) -> None:
        """Another server has another number of members in a queue group."""
        delta, subscription.weight = weight - subscription.weight, weight
        self.interest.forget_all()
        for changed in self.interest_listeners:
            self._guarded(changed)
        for watcher in self.interest_watchers:
            self._guarded(watcher.changed, self, subscription, delta)

    def depart(self, presence: Presence, subscriptions: dict[bytes, Subscription]) -> Iterator[None]:
        """Let a client, or a listener inside the server, with very many subscriptions go, in steps.

        It is gone for everybody with the first one; its subscriptions are taken out bit by bit, and count as memory of
        the account until then.
        """
        self.interest.leave(presence, len(subscriptions))
        for changed in self.interest_listeners:
            self._guarded(changed)
        for number, subject in enumerate(list(self._watchers), 1):
            self._tell_watchers(subject)
            if number % _WATCHERS_A_STEP == 0:
                yield
        while subscriptions:
            leaving = list(subscriptions.values())[-_SUBSCRIPTIONS_A_STEP:] if self.interest_watchers else ()
            checked, cost = self.interest.take_out(subscriptions, _SUBSCRIPTIONS_A_STEP)
            for watcher in self.interest_watchers:
                for subscription in leaving:
                    self._guarded(watcher.changed, self, subscription, -subscription.weight)
            self.subscription_bytes -= cost
            if checked:
                self._checked -= checked
                self._choose_planner()
            yield

    def watch(self, subject: bytes, queue: bytes | None, on_change: Callable[[bool], None]) -> Callable[[], None]:
        """Be told when `is_bound` becomes true or false for a literal subject.

        Returns what ends it.
        """
        subject = unmarked(subject)
        watcher = _Watcher(queue, on_change, self.is_bound(subject, queue))
        self._watchers.setdefault(subject, []).append(watcher)

        def cancel() -> None:
            found = self._watchers.get(subject, [])
            if watcher in found:
                found.remove(watcher)
                if not found:
                    del self._watchers[subject]

        return cancel

    def interest_changed_elsewhere(self) -> None:
        """An account that imports from this one has other subscriptions now."""
        self.interest.forget_all()
        for subject in list(self._watchers):
            self._tell_watchers(subject)

    def _interest_changed(self, pattern: bytes) -> None:
        for changed in self.interest_listeners:
            self._guarded(changed)
        if not self._watchers:
            return
        if pattern in self._watchers:
            self._tell_watchers(pattern)

    def _tell_watchers(self, subject: bytes) -> None:
        for watcher in list(self._watchers.get(subject, ())):
            heard = self.is_bound(subject, watcher.queue)
            if heard != watcher.heard:
                watcher.heard = heard
                self._guarded(watcher.on_change, heard)

    def _guarded(self, callback: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell somebody; what goes wrong there is not the trouble of whoever came or went, nor of others."""
        try:
            callback(*args, **kwargs)
        except Exception as error:
            if self.delivery.failed is None:
                raise
            self.delivery.failed(error)

    def is_bound(self, subject: bytes, queue: bytes | None) -> bool:
        """Whether somebody subscribes to exactly this subject, in exactly this queue group or in none.

        Who listens to much with a wildcard does not count. Somebody in an account that imports the subject does.
        """
        subject = unmarked(subject)
        found = self.interest.match(subject)
        if any(subscription.subject == subject and subscription.queue == queue for subscription in found):
            return True
        return queue is None and not found and self.has_interest(subject)

    def subscribe(
        self,
        subject: bytes,
        callback: Callback,
        queue: bytes | None = None,
        *,
        imports: bool = False,
        here: bool = False,
    ) -> Subscription:
        """Listen inside the server; `remove` ends it.

        Args:
            subject: what to listen to.
            callback: is given each message.
            queue: the group, if any.
            imports: also to what other accounts export to this one.
            here: other servers do not hear of it, and need not send what is published there.
        """
        sid = IMPORTING_SID if imports else HERE_SID if here else _NO_SID
        subscription = Subscription(subject, queue, sid, None, None, callback)
        self.add(subscription)
        return subscription

    def publish(self, subject: bytes, reply: bytes | None, header_size: int, body: bytes) -> int:
        """Publish as the server; returns how many got the message. The subject may be one `outside_only`."""
        return self.delivery.deliver(self.interest.find_answer_route(subject), None, subject, reply, header_size, body)

    def allows_trace_of(self, exporter: str, subject: bytes) -> bool:
        """Whether a trace may tell that a message of another account was delivered here."""
        return any(
            stream.exporter == exporter and stream.local_subject(subject) is not None for stream in self.traced_imports
        )

    def has_interest(self, subject: bytes) -> bool:
        """Whether a message on `subject` would reach anybody."""
        return self.interest.reaches(subject)

    def connection_bound(self, connection: Member) -> None:
        """A client was authenticated into this account."""
        self.connections[connection.cid] = connection
        self.total_connections += 1

    def connection_left(self, connection: Member) -> None:
        """A client closed or moved to another account."""
        if self.connections.pop(connection.cid, None) is None:
            return
        self.closed_in_msgs += connection.parser.msgs
        self.closed_in_bytes += connection.parser.msg_bytes
        self.closed_out_msgs += connection.outbox.msgs
        self.closed_out_bytes += connection.outbox.msg_bytes
