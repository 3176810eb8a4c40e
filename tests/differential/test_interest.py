"""The interest kernel against its plain model, through any history of subscribing and unsubscribing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from models.interest import Interest as Model
from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.outbox import FlushQueue, Outbox
from slipstream.kernels.wire.receivers import ROUTE, Link, Presence, Route, Subscription

token = st.sampled_from([b"a", b"b", b"c", b"long-token", b"*x", b">y"])
literal = st.lists(token, min_size=1, max_size=4).map(b".".join)


@st.composite
def patterns(draw: st.DrawFn) -> bytes:
    tokens = draw(st.lists(st.one_of(token, st.just(b"*")), min_size=1, max_size=4))
    if draw(st.booleans()):
        tokens.append(b">")
    return b".".join(tokens)


def receivers(route: Route) -> set[int]:
    """Everybody a route mentions, by the number in its sid."""
    plain = {int(sub.sid) for sub in route.subscriptions}
    return plain | {int(sub.sid) for group in route.queues for sub in group}


class InterestMachine(RuleBasedStateMachine):
    subscriptions: Bundle[Subscription] = Bundle("subscriptions")

    def __init__(self) -> None:
        super().__init__()
        self.kernel = Interest(4)
        self.model = Model()
        self.asked: set[bytes] = set()
        self.next = 0
        self.clients: set[int] = set()
        self.leaving: list[dict[bytes, Subscription]] = []

    @rule(
        target=subscriptions,
        pattern=st.one_of(literal, patterns()),
        queue=st.sampled_from([None, b"q1", b"q2"]),
        of_client=st.booleans(),
    )
    def insert(self, pattern: bytes, queue: bytes | None, of_client: bool) -> Subscription:
        self.next += 1
        outbox = Outbox(FlushQueue(lambda: None), None, 1 << 20) if of_client else None
        subscription = Subscription(pattern, queue, str(self.next).encode(), outbox)
        if of_client:
            self.clients.add(self.next)
        self.kernel.insert(subscription)
        self.model.insert(self.next, pattern)
        return subscription

    @rule(subscription=consumes(subscriptions))
    def remove(self, subscription: Subscription) -> None:
        assert self.kernel.remove(subscription) is self.model.remove(int(subscription.sid))
        assert self.kernel.remove(subscription) is False

    @rule(
        wanted=st.lists(st.tuples(st.one_of(literal, patterns()), st.booleans()), min_size=1, max_size=8),
        queue=st.sampled_from([None, b"q1"]),
    )
    def come_and_leave(self, wanted: list[tuple[bytes, bool]], queue: bytes | None) -> None:
        """Who leaves is gone at once; its subscriptions are taken out later."""
        presence, mine = Presence(), dict[bytes, Subscription]()
        for pattern, checked in wanted:
            subscription = self.insert(pattern, queue, of_client=True)
            subscription.presence, subscription.checked, subscription.cost = presence, checked, len(pattern)
            mine[subscription.sid] = subscription
        self.remembered_routes_are_never_out_of_date()
        self.kernel.leave(presence, len(mine))
        for sid in mine:
            assert self.model.remove(int(sid))
        self.leaving.append(mine)

    @rule(most=st.integers(1, 5))
    def take_out(self, most: int) -> None:
        if self.leaving:
            mine = self.leaving[0]
            before = dict(mine)
            checked, cost = self.kernel.take_out(mine, most)
            taken = [subscription for sid, subscription in before.items() if sid not in mine]
            assert len(taken) == min(most, len(before))
            assert all(subscription.closed for subscription in taken)
            assert checked == sum(subscription.checked for subscription in taken)
            assert cost == sum(subscription.cost for subscription in taken)
            if not mine:
                self.leaving.pop(0)

    def teardown(self) -> None:
        """Nothing of those who left stays anywhere."""
        for mine in self.leaving:
            self.kernel.take_out(mine, 1_000)
        self.nothing_is_lost()

    @rule(subject=literal)
    def publish(self, subject: bytes) -> None:
        self.asked.add(subject)
        expected = self.model.match(subject)
        assert {int(sub.sid) for sub in self.kernel.match(subject)} == expected
        assert receivers(self.kernel.find_route(subject)) == expected
        assert self.kernel.reaches(subject) is bool(expected)
        assert receivers(self.kernel.find_answer_route(subject)) == expected
        outside = self.kernel.find_answer_route(b"." + subject)
        assert receivers(outside) == expected & self.clients
        assert all(outside.queues), "a group without members cannot choose one"
        assert self.kernel.reaches(b"." + subject) is bool(expected & self.clients)

    @rule(subject=st.sampled_from([b"", b".", b"a.", b".a", b"a..b"]))
    def publish_an_undeliverable_subject(self, subject: bytes) -> None:
        assert self.kernel.match(subject) == []

    @invariant()
    def remembered_routes_are_never_out_of_date(self) -> None:
        for subject in self.asked:
            assert receivers(self.kernel.find_route(subject)) == self.model.match(subject)

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.kernel.count == len(self.model.entries)
        assert {int(sub.sid) for sub in self.kernel.subscriptions()} == {key for key, _ in self.model.entries}
        assert self.kernel.cached_routes <= 4


TestInterest = InterestMachine.TestCase


@given(
    st.lists(st.one_of(literal, patterns()), max_size=12),
    st.lists(st.one_of(literal, patterns()), max_size=12),
    st.lists(literal, max_size=6),
)
def test_what_another_server_wants_in_one_call_is_what_it_would_be_one_by_one(
    before: list[bytes], wanted: list[bytes], asked: list[bytes]
) -> None:
    link = Link(ROUTE, Outbox(FlushQueue(lambda: None), None, 1 << 20))
    kernel, model, presence = Interest(4), Model(), Presence()
    known = dict[bytes, Subscription]()
    total = 0
    for batch in (before, wanted):
        for subject in asked:
            kernel.find_route(subject)  # is remembered, and has to be forgotten
        new = [subject for subject in dict.fromkeys(batch) if subject not in known]
        made, cost = kernel.insert_wanted(batch, known, link, None, b"$G ", presence, 100, 10)
        assert [sub.subject for sub in made] == new
        for subject in new:
            model.insert(len(model.entries), subject)
            tokens = subject.split(b".")
            cost -= 100 + len(subject) + (10 * len(tokens) if {b"*", b">"} & set(tokens) else 0)
        assert cost == 0
        total += len(new)
        assert kernel.count == total == len(known)
        assert all(known[sub.subject] is sub and sub.presence is presence and not sub.echo for sub in made)
        places = list(known)
        for subject in asked:
            matched = {sub.subject for sub in kernel.match(subject)}
            assert matched == {places[number] for number in model.match(subject)}
            assert bool(kernel.find_route(subject).links) is bool(matched)
    for sub in known.values():
        assert kernel.remove(sub)
    assert kernel.count == 0
