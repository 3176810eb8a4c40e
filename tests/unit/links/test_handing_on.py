"""What the members of a queue group may not have at one server goes to another one with members, never in circles."""

from __future__ import annotations

from types import SimpleNamespace

from slipstream.kernels.wire.outbox import Outbox
from slipstream.kernels.wire.receivers import Subscription
from slipstream.links.gateways.addresses import short_hash
from slipstream.links.routes.link import RouteLink
from support.link_world import LinkWorld, said

OWN = short_hash("SELF")


def peers(world: LinkWorld, *ids: str, hands_on: bool = True) -> list[RouteLink]:
    """Other servers, each with a member of the group."""
    links = [world.peer(server_id=one, server_name=one.lower(), slipstream_hands_on=hands_on) for one in ids]
    for link in links:
        link.parser.feed(b"RS+ $G s.* q 1\r\n")
        said(link)
    return links


def subscriber(world: LinkWorld, queue: bytes | None, *, denied: bool) -> Outbox:
    """A client here, whose permissions deny every message or none."""
    client = SimpleNamespace(permissions=SimpleNamespace(denies_delivery=lambda *_: denied))
    outbox = Outbox(world.hub.flush_queue, client, 1 << 20)
    subscription = Subscription(b"s.*", queue, b"7", outbox, client)
    subscription.checked = True
    world.hub.accounts["$G"].add(subscription)
    return outbox


def taken(outbox: Outbox) -> bytes:
    return b"".join(outbox.take())


def message(link: RouteLink) -> list[bytes]:
    """What is said over a link, without lines of interest."""
    return [line for line in said(link).split(b"\r\n") if line and not line.startswith(b"RS")]


def test_a_denied_message_goes_back_to_the_server_that_chose() -> None:
    world = LinkWorld()
    (chooser,) = peers(world, "ONE")
    subscriber(world, b"q", denied=True)
    message(chooser)
    chooser.parser.feed(b"RMSG $G s.a + r q 2\r\nhi\r\n")
    assert message(chooser) == [b"RMSG $G s.a + r q q %b 2" % OWN, b"hi"]


def test_each_server_is_asked_once() -> None:
    world = LinkWorld()
    one, two, three = peers(world, "ONE", "TWO", "THREE")
    subscriber(world, b"q", denied=True)
    for link in (one, two, three):
        message(link)
    one.parser.feed(b"RMSG $G s.a | q q %b 0\r\n\r\n" % short_hash("ONE"))
    tried = b"%b %b" % (short_hash("ONE"), OWN)
    assert [message(link) for link in (one, two, three)] == [[], [b"RMSG $G s.a | q q %b 0" % tried], []]
    two.parser.feed(b"RMSG $G s.a | q q %b %b %b 0\r\n\r\n" % (tried, short_hash("TWO"), short_hash("THREE")))
    assert [message(link) for link in (one, two, three)] == [[], [], []]


def test_a_handed_message_is_for_its_group_alone() -> None:
    world = LinkWorld()
    (link,) = peers(world, "ONE")
    plain, member, other = (subscriber(world, queue, denied=False) for queue in (None, b"q", b"other"))
    message(link)
    link.parser.feed(b"RMSG $G s.a | q q other 0\r\n\r\n")
    assert (taken(plain), taken(member), taken(other)) == (b"", b"MSG s.a 7 0\r\n\r\n", b"")
    assert message(link) == []


def test_nats_server_is_handed_nothing() -> None:
    """It would give the message to everybody there once more, and send it on and on."""
    world = LinkWorld()
    links = peers(world, "ONE", "TWO", hands_on=False)
    subscriber(world, b"q", denied=True)
    for link in links:
        message(link)
    links[0].parser.feed(b"RMSG $G s.a | q 0\r\n\r\n")
    assert [message(link) for link in links] == [[], []]


def test_a_list_of_servers_is_bounded() -> None:
    world = LinkWorld()
    one, two = peers(world, "ONE", "TWO")
    subscriber(world, b"q", denied=True)
    for link in (one, two):
        message(link)
    names = [b"x%05d" % number for number in range(64)]
    one.parser.feed(b"RMSG $G s.a | q q %b 0\r\n\r\n" % b" ".join(names[:63]))
    assert message(two) or message(one)
    one.parser.feed(b"RMSG $G s.a | q q %b 0\r\n\r\n" % b" ".join(names))
    assert [message(one), message(two)] == [[], []]
