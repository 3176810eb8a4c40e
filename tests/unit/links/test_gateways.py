"""Gateways without sockets: bad input of peers, interest modes, addresses of answers, and who hears of whom."""

from __future__ import annotations

import base64
import json
import random

import pytest

from slipstream.config.listener_options import RemoteGatewayOptions
from slipstream.kernels.wire.receivers import Subscription
from slipstream.links.gateways.addresses import Address, short_hash
from slipstream.links.gateways.remotes import RemoteCluster
from slipstream.links.gateways.wants import InterestMode
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from support.gateway_world import Client, GatewayWorld, gateway_connect, gateway_info, said


def infos(text: bytes) -> list[dict[str, object]]:
    return [json.loads(line[5:]) for line in text.split(b"\r\n") if line.startswith(b"INFO ")]


def command(number: int, account: bytes | None = b"$G") -> bytes:
    fields = {} if account is None else {"gateway_cmd_payload": base64.b64encode(account).decode()}
    return b"INFO " + json.dumps({"gateway": "B", "gateway_cmd": number, **fields}).encode() + b"\r\n"


def test_hashes_are_those_of_nats_server() -> None:
    assert short_hash("A") == b"NUmM6c"
    address = Address.prefix(short_hash("A"), short_hash("SELF"))
    assert len(address) == 19
    assert Address.read(address + b"x") == Address(short_hash("A"), short_hash("SELF"), b"x")
    assert Address.read(address) is None
    assert Address.read(b"_INBOX.x") is None


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"RMSG $G foo 0\r\n\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (b"RS+ $G foo\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (b"A- $G\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (gateway_info(), CloseReason.AUTHENTICATION_VIOLATION),
        (gateway_connect(gateway=""), CloseReason.WRONG_PORT),
        (b'CONNECT {"lang": "go", "name": "a client"}\r\n', CloseReason.WRONG_PORT),
        (gateway_connect(user="x"), None),
        (b"CONNECT {nonsense}\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b'CONNECT {"gateway": 3}\r\n', CloseReason.PROTOCOL_VIOLATION),
        (gateway_connect() * 2, CloseReason.PROTOCOL_VIOLATION),
        (gateway_connect() + b"RMSG $G foo 0\r\n\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (gateway_connect() + gateway_info(server_name="self"), CloseReason.DUPLICATE_SERVER_NAME),
        (gateway_connect() + gateway_info() * 2, None),
        (gateway_connect() + gateway_info() + b"RS+ $G foo\r\n", CloseReason.PROTOCOL_VIOLATION),
        (gateway_connect() + gateway_info() + b"RS- $G foo\r\n", CloseReason.PROTOCOL_VIOLATION),
        (gateway_connect() + gateway_info() + b"A+ $G\r\n", CloseReason.PROTOCOL_VIOLATION),
        (gateway_connect() + gateway_info() + b"LS+ x $G foo\r\n", CloseReason.PROTOCOL_VIOLATION),
        (gateway_connect() + gateway_info() + b"LMSG x $G foo 0 0\r\n\r\n", CloseReason.PROTOCOL_VIOLATION),
        (gateway_connect() + gateway_info() + b"NONSENSE\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"INFO " + b"x" * 100_000, CloseReason.MAX_CONTROL_LINE),
    ],
)
def test_what_a_peer_must_not_say_ends_its_connection_and_no_other(sent: bytes, reason: CloseReason | None) -> None:
    world = GatewayWorld()
    good = world.inbound("C")
    link = world.accepted()
    link.parser.feed(sent)
    assert link.end.close_reason is reason
    assert good.end.close_reason is None
    assert good.cid in world.gateways.inbound


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (gateway_info(gateway=""), CloseReason.WRONG_PORT),
        (b'INFO {"server_id": "X", "client_id": 7}\r\n', CloseReason.WRONG_PORT),
        (gateway_info(gateway="X"), CloseReason.WRONG_GATEWAY),
        (gateway_info(server_name="self"), CloseReason.DUPLICATE_SERVER_NAME),
        (b"INFO [1]\r\n", CloseReason.PROTOCOL_VIOLATION),
        (gateway_connect(), CloseReason.PROTOCOL_VIOLATION),
        (b"RS+ $G foo\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (gateway_info() + b"RMSG $G foo 0\r\n\r\n", CloseReason.PROTOCOL_VIOLATION),
        (gateway_info() + command(2, None), CloseReason.PROTOCOL_VIOLATION),
        (gateway_info() + command(9), None),
        (gateway_info() + gateway_info(gateway="X"), CloseReason.WRONG_GATEWAY),
        (gateway_info() + b"RS+ $G a..b g 1\r\n", None),
        (gateway_info() + b"A- \r\n", CloseReason.PROTOCOL_VIOLATION),
    ],
)
def test_what_a_server_that_was_dialled_must_not_say(sent: bytes, reason: CloseReason | None) -> None:
    world = GatewayWorld()
    good = world.outbound("C")
    address = world.gateways.clusters.remotes["B"].configured[0]
    link = world.gateways.dialled(good.peer, world.gateways.clusters.remotes["B"], address)
    link.parser.feed(sent)
    assert link.end.close_reason is reason
    assert good.end.close_reason is None
    assert world.sockets.dialled == ([] if reason is None else [("B", True)])


def test_a_second_connection_to_a_cluster_is_one_too_many() -> None:
    world = GatewayWorld()
    first = world.outbound()
    second = world.outbound()
    assert second.end.close_reason is CloseReason.WRONG_GATEWAY
    assert world.gateways.outbound == {"B": first}
    assert world.sockets.dialled == []


def test_a_password_is_asked_for() -> None:
    world = GatewayWorld(user="u", password="p")
    link = world.accepted()
    link.parser.feed(gateway_connect(user="u", **{"pass": "x"}))
    assert link.end.close_reason is CloseReason.AUTHENTICATION_VIOLATION
    assert said(link) == b"-ERR 'Authorization Violation'\r\n"
    link = world.accepted()
    link.parser.feed(gateway_connect(user="u", **{"pass": "p"}))
    assert link.end.close_reason is None


def test_unknown_clusters_may_be_refused() -> None:
    world = GatewayWorld(reject_unknown_cluster=True)
    link = world.accepted()
    link.parser.feed(gateway_connect(gateway="C"))
    assert link.end.close_reason is CloseReason.WRONG_GATEWAY
    assert said(link) == b"-ERR 'Connection to gateway \"A\" rejected'\r\n"
    assert world.inbound("B").end.close_reason is None
    world.outbound("B").parser.feed(gateway_info(gateway="C", gateway_cmd=1))
    assert "C" not in world.gateways.clusters.remotes


# --- what is told -----------------------------------------------------------------------------------------------------


def test_all_interest_is_told_and_then_each_first_and_last() -> None:
    world = GatewayWorld()
    first = world.account.subscribe(b"foo.*", lambda *_: None)
    world.account.subscribe(b"q", lambda *_: None, b"g")
    world.account.subscribe(b"home", lambda *_: None, here=True)
    link = world.inbound()
    text = said(link)
    start, complete = [at for at, line in enumerate(text.split(b"\r\n")) if b"JEc=" in line]
    lines = text.split(b"\r\n")
    assert b"RS+ $G q g 1" in lines[:start]
    assert lines[start + 1 : complete] == [b"RS+ $G foo.*"]
    again = world.account.subscribe(b"foo.*", lambda *_: None)
    assert said(link) == b""
    world.account.remove(first)
    assert said(link) == b""
    world.account.remove(again)
    assert said(link) == b"RS- $G foo.*\r\n"
    member = world.account.subscribe(b"q", lambda *_: None, b"g")
    world.account.remove(member)
    assert said(link) == b""


def test_interest_of_other_servers_of_the_cluster_is_told_too() -> None:
    world = GatewayWorld(clustered=True)
    link = world.inbound()
    route = world.route()
    said(link)
    route.parser.feed(b"RS+ $G far\r\nRS+ $G far g 3\r\n")
    assert said(link) == b"RS+ $G far\r\nRS+ $G far g 1\r\n"
    route.close(CloseReason.CLIENT_CLOSED)
    assert said(link) == b"RS- $G far\r\nRS- $G far g\r\n"


def test_an_account_that_is_not_here_is_said_once() -> None:
    world = GatewayWorld()
    link = world.inbound()
    said(link)
    link.parser.feed(b"RMSG NOBODY foo 0\r\n\r\n" * 2)
    assert said(link) == b"A- NOBODY\r\n"


# --- what others want -------------------------------------------------------------------------------------------------


def test_interest_only_sends_what_was_asked_for() -> None:
    world = GatewayWorld()
    link = world.outbound()
    assert world.account.publish(b"foo", None, 0, b"hi") == 0
    link.parser.feed(b"RS+ $G foo\r\n")  # before it was said that all follows: of no account
    assert world.account.publish(b"foo", None, 0, b"hi") == 0
    link.parser.feed(command(2) + b"RS+ $G foo\r\nRS+ $G foo g1 1\r\n" + command(3))
    assert world.account.publish(b"foo", b"r", 0, b"hi") == 1
    assert said(link) == b"RMSG $G foo + r g1 2\r\nhi\r\n"
    assert world.account.publish(b"bar", None, 0, b"hi") == 0
    assert link.wants is not None and link.wants.accounts[b"$G"].mode is InterestMode.INTEREST_ONLY
    link.parser.feed(b"RS- $G foo\r\nRS- $G foo g1\r\n")
    assert world.account.publish(b"foo", None, 0, b"hi") == 0


def test_queue_groups_are_wanted_in_every_mode() -> None:
    world = GatewayWorld()
    link = world.outbound()
    link.parser.feed(b"RS+ $G work w 1\r\n")
    assert world.account.publish(b"work", None, 0, b"") == 1
    assert said(link) == b"RMSG $G work | w 0\r\n\r\n"
    member = world.account.subscribe(b"work", lambda *_: None, b"w")
    assert world.account.publish(b"work", None, 0, b"") == 1
    assert said(link) == b"", "a group of the own cluster comes first"
    world.account.remove(member)
    assert world.account.publish(b"work", None, 0, b"") == 1


def test_the_nearest_cluster_has_the_group() -> None:
    world = GatewayWorld()
    far, near = world.outbound("B"), world.outbound("C")
    for link, rtt_ns in ((far, 5_000_000), (near, 1_000_000)):
        link.parser.feed(b"RS+ $G work w 1\r\n")
        link.end.keepalive.ask()
        said(link)
        world.clock.at_ns += rtt_ns
        link.parser.feed(b"PONG\r\n")
    assert world.account.publish(b"work", None, 0, b"") == 1
    assert (said(far), said(near)) == (b"", b"RMSG $G work | w 0\r\n\r\n")
    near.close(CloseReason.CLIENT_CLOSED)
    assert world.account.publish(b"work", None, 0, b"") == 1
    assert said(far) == b"RMSG $G work | w 0\r\n\r\n"


def test_an_older_server_is_sent_everything_but_what_it_refused() -> None:
    world = GatewayWorld()
    link = world.outbound(iom=False)
    publish = world.account.publish
    assert publish(b"a.b", None, 0, b"") == 1
    link.parser.feed(b"RS- $G a.b\r\nRS- $G a.c\r\n")
    assert [publish(b"a.b", None, 0, b""), publish(b"a.c", None, 0, b""), publish(b"x", None, 0, b"")] == [0, 0, 1]
    link.parser.feed(b"RS+ $G a.b\r\n")
    assert [publish(b"a.b", None, 0, b""), publish(b"a.c", None, 0, b"")] == [1, 0]
    link.parser.feed(b"RS- $G a.b\r\nRS+ $G a.*\r\n")
    assert [publish(b"a.b", None, 0, b""), publish(b"a.c", None, 0, b"")] == [1, 1]
    link.parser.feed(b"A- $G\r\n")
    assert publish(b"x", None, 0, b"") == 0
    link.parser.feed(b"RS+ $G x w 1\r\n")
    assert publish(b"x", None, 0, b"") == 1, "queue groups count without a word about the account"
    link.parser.feed(b"A+ $G\r\n")
    assert publish(b"y", None, 0, b"") == 1
    link.parser.feed(command(2) + b"RS+ $G a.>\r\nRS+ $G >\r\n")
    assert publish(b"y", None, 0, b"") == 1, "until all is told it is sent as before"
    link.parser.feed(b"RS- $G >\r\n" + command(3))
    assert [publish(b"y", None, 0, b""), publish(b"a.b", None, 0, b"")] == [0, 1]


def test_interest_in_an_account_that_comes_later_waits() -> None:
    world = GatewayWorld()
    link = world.outbound()
    link.parser.feed(command(2, b"$SYS") + command(2, b"NEW") + b"RS+ NEW foo\r\nRS+ NEW bar g 1\r\nRS- NEW bar g\r\n")
    assert link.wants is not None
    assert link.wants.accounts[b"NEW"].count == 1
    account = type(world.account)("NEW", world.hub.delivery)
    world.hub.accounts["NEW"] = account
    world.gateways.watch_accounts()
    assert account.publish(b"foo", None, 0, b"") == 1
    assert account.publish(b"bar", None, 0, b"") == 0
    link.close(CloseReason.CLIENT_CLOSED)
    assert account.publish(b"foo", None, 0, b"") == 0


# --- messages ---------------------------------------------------------------------------------------------------------


def subscribed(world: GatewayWorld, subject: bytes, queue: bytes | None = None) -> Client:
    client = Client(world.hub.flush_queue)
    world.account.add(Subscription(subject, queue, b"1", client.outbox, client))
    return client


def test_what_comes_from_a_cluster_goes_to_this_one_and_to_no_other() -> None:
    world = GatewayWorld(clustered=True)
    route, other = world.route(), world.outbound("C")
    other.parser.feed(command(2).replace(b'"B"', b'"C"') + b"RS+ $G foo\r\nRS+ $G foo g 1\r\n")
    route.parser.feed(b"RS+ $G foo\r\n")
    client = subscribed(world, b"foo")
    link = world.inbound()
    said(route), said(other)
    link.parser.feed(b"RMSG $G foo 2\r\nhi\r\n")
    assert said(client) == b"MSG foo 1 2\r\nhi\r\n"
    assert said(route) == b"RMSG $G foo 2\r\nhi\r\n"
    assert said(other) == b""
    route.parser.feed(b"RMSG $G foo 2\r\nho\r\n")
    assert said(client) == b"MSG foo 1 2\r\nho\r\n"
    assert said(other) == b"", "the server where it was published has sent it there"


def test_a_message_of_a_cluster_serves_the_groups_that_it_names_alone() -> None:
    world = GatewayWorld()
    members = {name: subscribed(world, b"foo", name) for name in (b"g1", b"g2")}
    link = world.inbound()
    link.parser.feed(b"RMSG $G foo 0\r\n\r\nRMSG $G foo | g2 0\r\n\r\n")
    assert said(members[b"g1"]) == b""
    assert said(members[b"g2"]) == b"MSG foo 1 0\r\n\r\n"


# --- answers ----------------------------------------------------------------------------------------------------------


def test_a_reply_that_is_new_leaves_with_an_address() -> None:
    world = GatewayWorld()
    link = world.outbound()
    link.parser.feed(command(2) + b"RS+ $G ask\r\n" + command(3))
    subscribed(world, b"inbox.*")
    world.account.publish(b"ask", b"inbox.7", 0, b"")
    prefix = Address.prefix(short_hash("A"), short_hash("SELF"))
    assert said(link) == b"RMSG $G ask %binbox.7 0\r\n\r\n" % prefix
    world.account.publish(b"ask", b"elsewhere.7", 0, b"")
    assert said(link) == b"RMSG $G ask elsewhere.7 0\r\n\r\n"
    world.clock.at_ns += 2_000_000_000
    world.account.publish(b"ask", b"inbox.7", 0, b"")
    assert said(link) == b"RMSG $G ask inbox.7 0\r\n\r\n", "the other cluster has heard of it by now"


def test_a_client_does_not_see_the_address_and_servers_do() -> None:
    world = GatewayWorld(clustered=True)
    route, link = world.route(), world.inbound()
    route.parser.feed(b"RS+ $G ask\r\n")
    client = subscribed(world, b"ask")
    inside: list[bytes | None] = []
    world.account.subscribe(b"ask", lambda _who, _subject, reply, _size, _body: inside.append(reply))
    said(route)
    address = Address.prefix(short_hash("B"), short_hash("IDB")) + b"inbox.7"
    link.parser.feed(b"RMSG $G ask %b 2\r\nhi\r\n" % address)
    assert said(client) == b"MSG ask 1 inbox.7 2\r\nhi\r\n"
    assert client.answers == [(b"inbox.7", address)]
    assert said(route) == b"RMSG $G ask %b 2\r\nhi\r\n" % address
    assert inside == [address]


def test_a_client_answers_to_the_address_though_the_other_cluster_told_nothing_of_the_inbox() -> None:
    world = GatewayWorld()
    there, link = world.outbound("B"), world.inbound()
    client = world.hub.open_connection(Peer("10.0.0.9", 1, "nats"))
    client.parser.feed(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB ask 1\r\n')
    client.outbox.take(), said(there)
    prefix = Address.prefix(short_hash("B"), short_hash("IDB"))
    for number in (b"1", b"2"):
        link.parser.feed(b"RMSG $G ask %binbox.%b 2\r\nhi\r\n" % (prefix, number))
        client.parser.feed(b"PUB inbox.%b 2\r\nho\r\n" % number)
        assert said(there) == b"RMSG $G %binbox.%b 2\r\nho\r\n" % (prefix, number)
    world.clock.at_ns += 2_000_000_000
    client.parser.feed(b"PUB inbox.2 2\r\nho\r\n")
    assert said(there) == b"", "what the other cluster wants is known by now"


def test_an_answer_goes_to_the_cluster_of_its_address_and_to_nobody_with_a_wildcard() -> None:
    world = GatewayWorld()
    there, other = world.outbound("B"), world.outbound("C")
    spy, exact = subscribed(world, b">"), subscribed(world, b"_GR_.>")
    address = Address.prefix(short_hash("B"), short_hash("IDB")) + b"inbox.7"
    assert world.account.publish(address, None, 0, b"hi") == 1
    assert said(there) == b"RMSG $G %b 2\r\nhi\r\n" % address
    assert [said(link) for link in (other, spy, exact)] == [b"", b"", b""]
    nowhere = Address.prefix(short_hash("X"), short_hash("IDB")) + b"inbox.7"
    assert world.account.publish(nowhere, None, 0, b"hi") == 0


def test_an_answer_that_came_home_is_delivered_or_passed_on_to_the_server_it_names() -> None:
    world = GatewayWorld(clustered=True)
    route, link, other = world.route(), world.inbound(), world.outbound("C")
    other.parser.feed(command(2).replace(b'"B"', b'"C"') + b"RS+ $G inbox.*\r\n")
    client = subscribed(world, b"inbox.7")
    said(route), said(other)
    here = Address.prefix(short_hash("A"), short_hash("SELF")) + b"inbox.7"
    link.parser.feed(b"RMSG $G %b 2\r\nhi\r\n" % here)
    assert said(client) == b"MSG inbox.7 1 2\r\nhi\r\n"
    assert (said(route), said(other)) == (b"", b"RMSG $G inbox.7 2\r\nhi\r\n")
    peer = Address.prefix(short_hash("A"), short_hash("PEER")) + b"inbox.7"
    link.parser.feed(b"HMSG $G %b 12 14\r\nNATS/1.0\r\n\r\nhi\r\n" % peer)
    assert said(route) == b"HMSG $G %b 12 14\r\nNATS/1.0\r\n\r\nhi\r\n" % peer
    assert said(client) == b""
    route.parser.feed(b"RMSG $G %b 2\r\nho\r\n" % here)
    assert said(client) == b"MSG inbox.7 1 2\r\nho\r\n"
    unknown = Address.prefix(short_hash("A"), short_hash("GONE")) + b"inbox.7"
    link.parser.feed(b"RMSG $G %b 2\r\nha\r\n" % unknown)
    assert said(client) == b"MSG inbox.7 1 2\r\nha\r\n", "rather here than nowhere"
    foreign = Address.prefix(short_hash("C"), short_hash("SELF")) + b"inbox.7"
    link.parser.feed(b"RMSG $G %b 2\r\nno\r\n" % foreign)
    assert said(client) == b"", "what is forged to be of a third cluster is dropped"


# --- who hears of whom ------------------------------------------------------------------------------------------------


def test_clusters_that_are_told_of_are_dialled_once() -> None:
    world = GatewayWorld(clustered=True)
    link = world.outbound()
    link.parser.feed(gateway_info(gateway="C", gateway_urls=["c.example:7222"], gateway_cmd=1))
    link.parser.feed(gateway_info(gateway="C", gateway_urls=["c2.example:7222"], gateway_cmd=1))
    link.parser.feed(gateway_info(gateway="A", gateway_urls=["a.example:7222"], gateway_cmd=1))
    link.parser.feed(gateway_info(gateway="D", gateway_urls=["no port"], gateway_cmd=1))
    assert world.sockets.dialled == [("C", False)]
    assert world.gateways.clusters.remotes["C"].urls() == ["c.example:7222", "c2.example:7222"]
    world.inbound("E", gateway_urls=["e.example:7222"])
    world.route().parser.feed(b'INFO {"server_id":"GWX","gateway":"F","gateway_urls":["f:1"],"gateway_cmd":1}\r\n')
    assert world.sockets.dialled == [("C", False), ("E", False), ("F", False)]
    assert not world.gateways.given_up(world.gateways.clusters.remotes["E"]), "it has reached this server"
    assert world.gateways.given_up(world.gateways.clusters.remotes["F"])
    assert "F" not in world.gateways.clusters.remotes


def test_who_comes_is_told_of_the_others() -> None:
    world = GatewayWorld(clustered=True)
    link = world.inbound("C")
    gossip = [info for info in infos(said(link)) if info.get("gateway_cmd") == 1]
    assert [(info["gateway"], info["gateway_urls"]) for info in gossip] == [("B", ["b.example:7222"])]
    world.outbound("B")
    route = world.route(gateway_url="127.0.0.2:7222")
    [told] = [info for info in infos(said(route)) if info.get("gateway")]
    assert (told["gateway"], told["gateway_urls"], told["server_id"]) == ("B", ["b.example:7222"], "GWSELF")
    [urls] = infos(said(link))
    assert urls["gateway_urls"] == ["127.0.0.1:7222", "127.0.0.2:7222"]
    route.close(CloseReason.CLIENT_CLOSED)
    [urls] = infos(said(link))
    assert urls["gateway_urls"] == ["127.0.0.1:7222"]


def test_the_name_that_a_certificate_has_to_show() -> None:
    remote = RemoteCluster("B", RemoteGatewayOptions("B", ("nats://127.0.0.1:1", "tls://b1.example:2")))
    number, named = remote.configured
    assert (remote.tls_name(number), remote.tls_name(named)) == ("b1.example", "b1.example")
    remote.add(["b2.example:3", "[::1]:4"])
    addresses = {address.host: address for address in remote.shuffled(random.Random(1))}
    assert remote.tls_name(addresses["b2.example"]) == "b2.example"
    remote.tls_failed(named)
    assert remote.tls_name(addresses["::1"]) == "b1.example"
    remote.tls_failed(number)
    assert remote.tls_name(number) == "127.0.0.1"


def test_a_cluster_that_moves_is_found_where_it_is() -> None:
    world = GatewayWorld()
    link = world.outbound(gateway_urls=["b1:7222", "b2:7222"])
    assert world.gateways.clusters.remotes["B"].urls() == ["b.example:7222", "b1:7222", "b2:7222"]
    link.parser.feed(gateway_info(gateway_urls=["b3:7222"]))
    assert world.gateways.clusters.remotes["B"].urls() == ["b.example:7222", "b3:7222"]
    link.close(CloseReason.READ_ERROR)
    assert world.sockets.dialled == [("B", True)]
