"""Routes without sockets: bad input of peers, pools, and what other servers are told."""

from __future__ import annotations

import pytest

from slipstream.kernels.wire.receivers import Subscription
from slipstream.links.routes.roster import pool_place
from slipstream.links.routes.targets import RouteTarget
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from support.link_world import LinkWorld, connect, info_line, said


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"RS+ $G foo\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (b"RMSG $G foo 0\r\n\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (info_line(), CloseReason.AUTHENTICATION_VIOLATION),
        (connect(lang="go"), CloseReason.WRONG_PORT),
        (connect(gateway="G"), CloseReason.WRONG_GATEWAY),
        (connect(cluster="other"), CloseReason.CLUSTER_NAME_CONFLICT),
        (b"CONNECT {nonsense}\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b'CONNECT {"name": "\xa5"}\r\n', CloseReason.PROTOCOL_VIOLATION),
        (connect() + connect(), CloseReason.PROTOCOL_VIOLATION),
        (connect() + b"RS+ $G foo\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (connect() + info_line(server_id="SELF"), CloseReason.DUPLICATE_ROUTE),
        (connect() + info_line(server_name="self"), CloseReason.DUPLICATE_SERVER_NAME),
        (connect() + info_line(cluster="other"), CloseReason.CLUSTER_NAME_CONFLICT),
        (connect() + info_line(route_pool_idx=7), CloseReason.PROTOCOL_VIOLATION),
        (connect() + info_line(route_account="$G"), CloseReason.PROTOCOL_VIOLATION),
        (connect() + info_line() + b"NONSENSE\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"INFO " + b"x" * 100_000, CloseReason.MAX_CONTROL_LINE),
    ],
)
def test_what_a_peer_must_not_say_ends_its_route_and_no_other(sent: bytes, reason: CloseReason) -> None:
    world = LinkWorld()
    good = world.peer(server_id="GOOD", server_name="good")
    link = world.accepted()
    link.parser.feed(sent)
    assert link.end.close_reason is reason
    assert good.end.close_reason is None
    assert world.mesh.roster.routes() == [good]


def test_a_password_is_asked_for() -> None:
    world = LinkWorld(user="u", password="p")
    link = world.accepted()
    link.parser.feed(connect(user="u", **{"pass": "x"}))
    assert link.end.close_reason is CloseReason.AUTHENTICATION_VIOLATION
    assert said(link) == b"-ERR 'Authorization Violation'\r\n"


def test_interest_is_told_with_the_first_and_the_last_subscription() -> None:
    world = LinkWorld()
    link = world.peer()
    account = world.hub.accounts["$G"]
    said(link)
    first, second = (account.subscribe(b"foo.*", lambda *_: None) for _ in range(2))
    assert said(link) == b"RS+ $G foo.*\r\n"
    members = [Subscription(b"q", b"g", b"", None, None, lambda *_: None) for _ in range(2)]
    for member in members:
        account.add(member)
    assert said(link) == b"RS+ $G q g 1\r\nRS+ $G q g 2\r\n"
    account.remove(first)
    assert said(link) == b""
    account.remove(second)
    for member in members:
        account.remove(member)
    assert said(link) == b"RS- $G foo.*\r\nRS+ $G q g 1\r\nRS- $G q g\r\n"


def test_a_message_leaves_once_for_a_server_with_the_groups_that_it_shall_serve() -> None:
    world = LinkWorld()
    link = world.peer()
    said(link)
    link.parser.feed(b"RS+ $G foo\r\nRS+ $G *\r\nRS+ $G foo g1 2\r\nRS+ $G foo g2 1\r\n")
    account = world.hub.accounts["$G"]
    assert account.publish(b"foo", None, 0, b"hi") == 1
    assert said(link) == b"RMSG $G foo | g1 g2 2\r\nhi\r\n"
    assert account.publish(b"foo", b"r", 12, b"NATS/1.0\r\n\r\nhi") == 1
    assert said(link) == b"HMSG $G foo + r g1 g2 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    link.parser.feed(b"RS- $G foo g1\r\nRS- $G foo g2\r\nRS- $G foo\r\n")
    assert account.publish(b"foo", b"r", 0, b"") == 1
    assert said(link) == b"RMSG $G foo r 0\r\n\r\n"
    link.close(CloseReason.CLIENT_CLOSED)
    assert account.publish(b"foo", b"r", 0, b"") == 0


def test_what_arrives_goes_to_local_receivers_alone_and_to_the_groups_it_names() -> None:
    world = LinkWorld()
    link, other = world.peer(), world.peer(server_id="OTHER", server_name="other")
    account, got = world.hub.accounts["$G"], list[bytes]()
    account.subscribe(b"foo", lambda _publisher, _subject, _reply, _size, body: got.append(b"plain " + body))
    for queue in (b"g1", b"g2"):
        account.subscribe(b"foo", lambda *args, queue=queue: got.append(queue + b" " + args[4]), queue)
    other.parser.feed(b"RS+ $G foo\r\n")
    said(other)
    link.parser.feed(b"RMSG $G foo 1\r\na\r\nRMSG $G foo | g2 1\r\nb\r\nRMSG $G foo + reply g1 g2 1\r\nc\r\n")
    assert sorted(got) == [b"g1 c", b"g2 b", b"g2 c", b"plain a", b"plain b", b"plain c"]
    assert said(other) == b"", "one hop"
    link.parser.feed(b"RMSG nobody foo 1\r\nd\r\nRS+ nobody foo\r\nRMSG $G foo 1\r\ne\r\n")
    assert got[-1] == b"plain e", "an account that is not known here is passed over"


def test_a_server_that_is_told_of_is_dialled_unless_it_is_known() -> None:
    world = LinkWorld(routes=("nats://10.0.0.9:6222",))
    link = world.peer()
    gossip = {"server_id": "NEW", "server_name": "new", "ip": "nats-route://10.0.0.7:6222/"}
    link.parser.feed(info_line(**gossip))
    assert [target.address for target in world.edge.dialled] == ["10.0.0.7:6222"]
    link.parser.feed(info_line(**{**gossip, "server_id": "CONFIGURED", "ip": "nats-route://10.0.0.9:6222/"}))
    link.parser.feed(info_line(**{**gossip, "server_id": "SELF"}))
    link.parser.feed(info_line(**{**gossip, "server_id": "BROKEN", "ip": "nats-route://[/"}))
    assert len(world.edge.dialled) == 1
    assert link.end.close_reason is None


def test_the_place_in_a_pool_is_that_of_nats_server() -> None:
    """FNV-1a of 32 bits, by its published values."""
    assert pool_place(1, "foobar") == 0
    assert pool_place(1 << 32, "a") == 0xE40C292C
    assert pool_place(1 << 32, "foobar") == 0xBF9CF968
    assert pool_place(3, "foobar") == 0xBF9CF968 % 3


def test_many_subjects_in_one_read_are_all_wanted_and_gone_one_by_one() -> None:
    world = LinkWorld()
    link, account = world.peer(), world.hub.accounts["$G"]
    heard: list[bool] = []
    account.watch(b"s.7", None, heard.append)
    link.parser.feed(b"".join(b"RS+ $G s.%d\r\n" % number for number in range(3_000)) + b"RS+ $G s..x\r\n")
    assert link.subscription_count == 3_000 and heard == [True]
    assert b"Invalid Subscription" in said(link)
    assert account.subscription_bytes > 3_000 * 500
    assert account.publish(b"s.2999", None, 0, b"") == 1
    link.parser.feed(b"RS- $G s.2999\r\n")
    assert account.publish(b"s.2999", None, 0, b"") == 0
    link.close(CloseReason.CLIENT_CLOSED)
    assert account.publish(b"s.1", None, 0, b"") == 0
    assert account.subscription_bytes == 0 and heard == [True, False]


def test_a_place_of_a_pool_that_a_reload_left_empty_is_dialled_by_the_new_url() -> None:
    """A route by the old URL, which is refused in the end, had taken a place from those of the new one."""
    url = "nats://u:p@10.0.0.9:6222"
    world = LinkWorld(routes=(url,), pool_size=2)
    peer = Peer("10.0.0.9", 6222, "route")
    old, new = (RouteTarget(one, explicit=True) for one in ("nats://10.0.0.9:6222", url))
    links = [world.mesh.dialled(peer, target) for target in (old, new)]
    for link in links:
        link.parser.feed(info_line(route_pool_size=2))
    assert [link.place for link in links] == [0, 1]
    links[1].parser.feed(b"PONG\r\n")
    assert world.edge.dialled == [], "the pool is full"
    links[0].parser.feed(b"-ERR 'Authorization Violation'\r\n")
    links[0].close(CloseReason.CLIENT_CLOSED)
    assert [target.url for target in world.edge.dialled if world.mesh.dials.is_wanted(target)] == [url]
    third = world.mesh.dialled(peer, world.edge.dialled.pop())
    third.parser.feed(info_line(route_pool_size=2))
    assert third.place == 0
    world.edge.dialled.clear()
    third.close(CloseReason.READ_ERROR)
    assert [target.url for target in world.edge.dialled] == [url], "dialled once, for itself"


def test_of_two_routes_of_an_account_the_second_is_not_dialled_again() -> None:
    """Both servers dial each other: without this they would do so every second for ever."""
    url = "nats://10.0.0.9:6222"
    world = LinkWorld(routes=(url,), accounts=("$G",))
    kept = world.peer(route_account="$G")
    again = world.mesh.dialled(Peer("10.0.0.9", 6222, "route"), RouteTarget(url, explicit=True, account="$G"))
    again.parser.feed(info_line(route_account="$G"))
    assert again.end.close_reason is CloseReason.DUPLICATE_ROUTE
    assert world.edge.dialled == [] and kept.end.is_open
    kept.close(CloseReason.CLIENT_CLOSED)
    assert [(target.url, target.account) for target in world.edge.dialled] == [(url, "$G")], "it was inherited"


@pytest.mark.parametrize("other", ["A", "Z"])
def test_clusters_that_just_agreed_on_a_name_are_joined_soon(other: str) -> None:
    """Both names were made up, and the larger one counts: what was said under the other is said again at once, once."""
    world = LinkWorld(routes=("nats://10.0.0.9:6222",), dynamic=True)
    target = RouteTarget("nats://10.0.0.9:6222", explicit=True)
    for _ in range(2):
        link = world.mesh.dialled(Peer("10.0.0.9", 6222, "route"), target)
        link.parser.feed(
            info_line(cluster=other if other < "C" else f"{other}{len(world.edge.hurried)}", cluster_dynamic=True)
        )
        link.close(CloseReason.CLIENT_CLOSED)
    assert world.edge.hurried == [True, False]
