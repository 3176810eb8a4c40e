"""What the delivery kernel writes, byte by byte."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.outbox import FlushQueue, Outbox
from slipstream.kernels.wire.receivers import Route, Subscription

HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"


class Client:
    def __init__(self, limit: int = 1 << 20) -> None:
        self.flushes = 0
        self.queue = FlushQueue(self.schedule)
        self.outbox = Outbox(self.queue, self, limit)
        self.delivered: list[tuple[bytes, bytes | None]] = []

    def schedule(self) -> None:
        self.flushes += 1

    def take(self) -> bytes:
        return b"".join(self.outbox.take())

    def on_delivered(self, subscription: Subscription, reply: bytes | None) -> None:
        self.delivered.append((subscription.sid, reply))


def subscription(client: Client, sid: bytes, subject: bytes = b"a.b", queue: bytes | None = None) -> Subscription:
    return Subscription(subject, queue, sid, client.outbox, client)


def test_message_without_reply_and_header() -> None:
    client = Client()
    route = Route((subscription(client, b"7"),))
    assert Delivery(1).deliver(route, None, b"a.b", None, 0, b"hello") == 1
    assert client.take() == b"MSG a.b 7 5\r\nhello\r\n"


def test_message_with_reply_and_header() -> None:
    client = Client()
    route = Route((subscription(client, b"s1"),))
    Delivery(1).deliver(route, None, b"a.b", b"inbox", len(HEADER), HEADER + b"x")
    assert client.take() == b"HMSG a.b s1 inbox 18 19\r\n" + HEADER + b"x\r\n"


def test_header_is_cut_for_a_client_that_does_not_know_headers() -> None:
    client = Client()
    plain = subscription(client, b"1")
    plain.headers = False
    Delivery(1).deliver(Route((plain,)), None, b"a.b", b"r", len(HEADER), HEADER + b"body")
    assert client.take() == b"MSG a.b 1 r 4\r\nbody\r\n"


def test_empty_message() -> None:
    client = Client()
    Delivery(1).deliver(Route((subscription(client, b"1"),)), None, b"a", None, 0, b"")
    assert client.take() == b"MSG a 1 0\r\n\r\n"


def test_renamed_copies() -> None:
    client = Client()
    route = Route((subscription(client, b"1"), subscription(client, b"2")), (), (None, b"other"))
    Delivery(1).deliver(route, None, b"a", None, 0, b"x")
    assert client.take() == b"MSG a 1 1\r\nx\r\nMSG other 2 1\r\nx\r\n"


def test_mapped_subject_replaces_the_published_one() -> None:
    client = Client()
    Delivery(1).deliver(Route((subscription(client, b"1"),), subject=b"new"), None, b"old", None, 0, b"x")
    assert client.take() == b"MSG new 1 1\r\nx\r\n"


def test_own_messages_are_left_out_without_echo() -> None:
    client = Client()
    quiet = subscription(client, b"1")
    quiet.echo = False
    assert Delivery(1).deliver(Route((quiet,)), client, b"a", None, 0, b"x") == 0
    assert Delivery(1).deliver(Route((quiet,)), Client(), b"a", None, 0, b"x") == 1


def test_queue_members_share_fairly() -> None:
    client = Client()
    members = tuple(subscription(client, str(i).encode(), queue=b"q") for i in range(4))
    delivery = Delivery(42)
    for _ in range(4000):
        assert delivery.deliver(Route((), (members,)), None, b"a", None, 0, b"") == 1
    counts = Counter(member.delivered for member in members)
    assert sum(member.delivered for member in members) == 4000
    assert min(counts) > 800


def test_queue_skips_members_that_cannot_take_it() -> None:
    gone, alive = Client(), Client()
    gone.outbox.close()
    route = Route((), ((subscription(gone, b"1", queue=b"q"), subscription(alive, b"2", queue=b"q")),))
    delivery = Delivery(9)
    for _ in range(20):
        assert delivery.deliver(route, None, b"a", None, 0, b"") == 1
    assert alive.outbox.msgs == 20


class Publisher:
    """Somebody who may be answered anywhere, or only where `answerable` says."""

    def __init__(self, *, anywhere: bool = True) -> None:
        self.rights = (
            None if anywhere else SimpleNamespace(answered_anywhere=False, answer_prefix=b"", answer_mark=None)
        )

    def answerable(self, reply: bytes, crossed: bool) -> bytes:
        return b".%b%b" % (b"crossed." if crossed else b"", reply)


def test_internal_subscribers_get_the_reply_that_may_be_answered() -> None:
    delivery = Delivery(1)
    seen: list[tuple[bytes, bytes | None]] = []
    inside = Subscription(
        b"a", None, b"", None, None, lambda _who, subject, reply, *_rest: seen.append((subject, reply))
    )
    bound = Publisher(anywhere=False)
    for who, names in ((None, None), (Publisher(), None), (bound, None), (Publisher(), (b"x",)), (bound, (b"x",))):
        delivery.deliver(Route((inside,), (), names), who, b"a", b"r", 0, b"")
    assert seen == [(b"a", b"r"), (b"a", b"r"), (b"a", b".r"), (b"x", b".crossed.r"), (b"x", b".crossed.r")]


def test_internal_subscriber_gets_bytes_and_may_decline() -> None:
    seen: list[tuple[object, ...]] = []

    def taker(*message: object) -> bool:
        seen.append(message)
        return len(seen) > 1

    inside = Subscription(b"a", None, b"", None, None, taker)
    delivery = Delivery(1)
    publisher = Publisher()
    assert delivery.deliver(Route((inside,)), publisher, b"a", b"r", 2, b"hhbody") == 0
    assert delivery.deliver(Route((inside,)), None, b"a", None, 0, b"x") == 1
    assert seen == [(publisher, b"a", b"r", 2, b"hhbody"), (None, b"a", None, 0, b"x")]
    assert inside.delivered == 1


def test_counting_and_watched_subscriptions_tell_their_client() -> None:
    client = Client()
    counting, watched, plain = (subscription(client, sid) for sid in (b"1", b"2", b"3"))
    counting.max_msgs = 5
    watched.watched = True
    Delivery(1).deliver(Route((counting, watched, plain)), None, b"a", b"reply", 0, b"")
    assert client.delivered == [(b"1", b"reply"), (b"2", b"reply")]


def test_closed_subscriptions_of_an_old_route_are_skipped() -> None:
    client = Client()
    interest = Interest()
    sub = subscription(client, b"1")
    interest.insert(sub)
    route = interest.find_route(b"a.b")
    interest.remove(sub)
    assert Delivery(1).deliver(route, None, b"a.b", None, 0, b"x") == 0


def test_outbox_asks_for_one_flush_and_hands_over_everything() -> None:
    client = Client()
    for _ in range(3):
        client.outbox.write(b"PING\r\n")
    assert client.flushes == 1
    assert client.queue.take_dirty() == [client.outbox]
    assert client.take() == b"PING\r\n" * 3
    assert client.take() == b""
    client.outbox.write(b"x")
    assert client.flushes == 2


def test_outbox_over_its_limit_drops_everything_and_is_reported_once() -> None:
    client = Client(limit=100)
    route = Route((subscription(client, b"1"),))
    delivery = Delivery(1)
    for _ in range(10):
        delivery.deliver(route, None, b"a", None, 0, b"x" * 50)
    assert client.queue.take_overflowed() == [client.outbox]
    assert client.queue.take_overflowed() == []
    assert client.take() == b""
    assert delivery.take_stalled() is True
    assert delivery.take_stalled() is False


def test_what_the_transport_holds_counts_as_pending() -> None:
    client = Client(limit=1000)
    client.outbox.in_flight = 990
    client.outbox.write(b"x" * 20)
    assert client.queue.take_overflowed() == [client.outbox]


def test_an_outbox_that_nobody_empties_grows_by_buffers_and_loses_nothing() -> None:
    client = Client(limit=1 << 30)
    route = Route((subscription(client, b"1"),))
    delivery = Delivery(1)
    bodies = [bytes([number % 251]) * (number * 3701 % 150_000) for number in range(60)]
    for body in bodies:
        delivery.deliver(route, None, b"a", None, 0, body)
    chunks = client.outbox.take()
    assert len(chunks) > 10
    assert b"".join(chunks) == b"".join(b"MSG a 1 %d\r\n%b\r\n" % (len(body), body) for body in bodies)
    assert client.outbox.waiting == 0


def test_a_large_body_is_handed_on_as_it_is() -> None:
    first, second = Client(), Client()
    body = HEADER + bytes(100_000)
    plain = subscription(second, b"2")
    plain.headers = False
    route = Route((subscription(first, b"1"), plain))
    first.outbox.write(b"+OK\r\n")
    delivery = Delivery(1)
    assert delivery.deliver(route, None, b"a.b", None, len(HEADER), body) == 2
    assert delivery.deliver(route, None, b"a.b", None, 0, b"small") == 2
    pieces = first.outbox.take()
    assert any(piece is body for piece in pieces)
    assert b"".join(pieces) == b"+OK\r\nHMSG a.b 1 18 100018\r\n" + body + b"\r\nMSG a.b 1 5\r\nsmall\r\n"
    assert second.take() == b"MSG a.b 2 100000\r\n" + bytes(100_000) + b"\r\nMSG a.b 2 5\r\nsmall\r\n"
    assert first.outbox.pending == second.outbox.pending == 0


def test_a_large_body_beyond_the_limit_closes_the_outbox() -> None:
    client = Client(limit=90_000)
    route = Route((subscription(client, b"1"),))
    Delivery(1).deliver(route, None, b"a", None, 0, bytes(100_000))
    assert client.queue.take_overflowed() == [client.outbox]
    assert client.outbox.take() == []


def test_what_an_internal_subscriber_raises_is_not_the_publishers_trouble() -> None:
    client = Client()
    failures: list[Exception] = []

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    broken = Subscription(b"a.b", None, b"", None, None, fail)
    route = Route((broken, subscription(client, b"7")))
    with pytest.raises(ZeroDivisionError):
        Delivery(1).deliver(route, None, b"a.b", None, 0, b"hello")
    delivery = Delivery(1, failures.append)
    assert delivery.deliver(route, None, b"a.b", None, 0, b"hello") == 2
    assert client.take() == b"MSG a.b 7 5\r\nhello\r\n"
    assert [str(error) for error in failures] == ["a mistake"]


def test_a_receiver_that_raises_is_the_trouble_of_nobody_else() -> None:
    class Failing(Client):
        def on_delivered(self, subscription: Subscription, reply: bytes | None) -> None:
            raise ZeroDivisionError("a mistake")

    failing, other, failures = Failing(), Client(), list[Exception]()
    watched = subscription(failing, b"1")
    watched.watched = True
    route = Route((watched, subscription(other, b"2")))
    with pytest.raises(ZeroDivisionError):
        Delivery(1).deliver(route, None, b"a.b", None, 0, b"x")
    delivery = Delivery(1, failures.append)
    assert delivery.deliver(route, None, b"a.b", None, 0, b"x") == 2
    assert other.take() == b"MSG a.b 2 1\r\nx\r\n"
    assert [type(error) for error in failures] == [ZeroDivisionError]
