"""Leaf links without sockets: bad input of peers, handshakes, what crosses, and what the peer is told."""

from __future__ import annotations

import json

import pytest

from slipstream.accounts.account import Account
from slipstream.kernels.wire.receivers import Subscription
from slipstream.links.leafs.link import LeafLink
from slipstream.links.leafs.nodes import _is_new_enough
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason
from support.config_loading import loaded
from support.leaf_link_world import LeafLinkWorld, connect, leaf_info, said


def lines(link: LeafLink) -> list[bytes]:
    """What the peer was told, without INFO and the subject that shows loops."""
    return [line for line in said(link).splitlines() if not line.startswith((b"INFO ", b"LS+ $LDS."))]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"LS+ foo\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (b"LS- foo\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (b"LMSG foo 0\r\n\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (b"HMSG foo 12 12\r\nNATS/1.0\r\n\r\n\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (b"RS+ $G foo\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (b"SUB foo 1\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"PUB foo 0\r\n\r\n", CloseReason.PROTOCOL_VIOLATION),
        (connect(lang="go"), CloseReason.WRONG_PORT),
        (connect(gateway="G"), CloseReason.WRONG_GATEWAY),
        (connect(cluster="a b"), CloseReason.PROTOCOL_VIOLATION),
        (connect(cluster="C"), CloseReason.CLUSTER_NAMES_IDENTICAL),
        (connect(account="A"), CloseReason.AUTHENTICATION_VIOLATION),
        (b"CONNECT {nonsense}\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b'CONNECT {"name": 7}\r\n', CloseReason.PROTOCOL_VIOLATION),
        (b'CONNECT {"name": "\xa5"}\r\n', CloseReason.PROTOCOL_VIOLATION),
        (b'INFO {"server_id": "\xff"}\r\n', CloseReason.PROTOCOL_VIOLATION),
        (connect() + connect(), CloseReason.PROTOCOL_VIOLATION),
        (connect(deny_pub=["a..b"]), CloseReason.PROTOCOL_VIOLATION),
        (connect() + b"NONSENSE\r\n", CloseReason.PROTOCOL_VIOLATION),
        (connect() + b"RS+ $G foo\r\n", CloseReason.PROTOCOL_VIOLATION),
        (connect() + b"RMSG $G foo 0\r\n\r\n", CloseReason.PROTOCOL_VIOLATION),
        (connect() + b"LS+ foo bar\r\n", CloseReason.PROTOCOL_VIOLATION),
        (connect() + b"LMSG foo x\r\n", CloseReason.PROTOCOL_VIOLATION),
        (connect() + b"LMSG foo 3\r\nabcdef\r\n", CloseReason.PROTOCOL_VIOLATION),
        (connect() + b"LMSG foo 2000000\r\n", CloseReason.MAX_PAYLOAD),
        (connect() + b"LS+ " + b"x" * 70_000, CloseReason.MAX_CONTROL_LINE),
        (b"INFO {nonsense}\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"INFO " + b"x" * 100_000, CloseReason.MAX_CONTROL_LINE),
    ],
)
def test_what_a_leaf_must_not_say_ends_its_link_and_no_other(sent: bytes, reason: CloseReason) -> None:
    world = LeafLinkWorld("cluster { name: C }")
    good = world.leaf(name="good", cluster="good")
    link = world.accepted()
    link.parser.feed(sent)
    assert link.end.close_reason is reason
    assert good.end.close_reason is None
    assert list(world.nodes.links.values()) == [good]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b'INFO {"server_id":"X","port":4222}\r\n', CloseReason.WRONG_PORT),  # the client port of some server
        (b'INFO {"server_id":"X","client_id":4}\r\n', CloseReason.WRONG_PORT),
        (b"LS+ foo\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (connect(), CloseReason.PROTOCOL_VIOLATION),
        (leaf_info() + b"LMSG foo 0\r\n\r\n", CloseReason.AUTHENTICATION_VIOLATION),
        (leaf_info(cluster="a b"), CloseReason.PROTOCOL_VIOLATION),
        (leaf_info() + leaf_info(connect_info=True, export={"allow": ["a..b"]}), CloseReason.PROTOCOL_VIOLATION),
        (b"INFO [1]\r\n", CloseReason.PROTOCOL_VIOLATION),
        (b"HTTP/1.1 400 Bad Request\r\n", CloseReason.PROTOCOL_VIOLATION),
    ],
)
def test_what_a_hub_must_not_say_ends_the_link(sent: bytes, reason: CloseReason) -> None:
    world = LeafLinkWorld()
    link = world.dialled()
    link.parser.feed(sent)
    assert link.end.close_reason is reason
    assert world.edge.closed == [link], "and it is dialled again"
    assert not world.nodes.links


def test_a_leaf_is_told_where_it_is_and_what_it_may() -> None:
    world = LeafLinkWorld(
        "accounts { A { users [ {user: u, password: p, permissions { publish: [up.*], subscribe { deny: x.> } }} ] } }"
    )
    link = world.leaf(user="u", **{"pass": "p"})
    [first, *_] = said(link).splitlines()
    info = json.loads(first.removeprefix(b"INFO "))
    assert (info["connect_info"], info["remote_account"]) == (True, "A")
    assert (info["export"], info["import"]) == ({"allow": ["up.*"]}, {"deny": ["x.>"]})


def test_a_hub_ends_a_leaf_that_oversteps_and_a_leaf_passes_over_it() -> None:
    config = "accounts { A { users [ {user: u, password: p, permissions { publish: up, subscribe: down }} ] } }"
    for sent, text in ((b"LMSG no 0\r\n\r\n", "Publish to"), (b"LS+ no\r\n", "Subscription to")):
        world = LeafLinkWorld(config)
        link = world.leaf(user="u", **{"pass": "p"})
        link.parser.feed(b"LMSG up 0\r\n\r\nLS+ down\r\nLS+ *\r\n")
        assert link.end.state is State.READY
        link.parser.feed(sent)
        assert link.end.close_reason is CloseReason.PROTOCOL_VIOLATION
        assert said(link).endswith(f"-ERR 'Permissions Violation for {text} \"no\"'\r\n".encode())
    world = LeafLinkWorld()
    hub = world.hub_of(export={"allow": ["up"]}, **{"import": {"allow": ["down"]}})
    got: list[bytes] = []
    world.hub.accounts["$G"].subscribe(b">", lambda *args: got.append(args[1]))
    hub.parser.feed(b"LMSG no 0\r\n\r\nLS+ no\r\nLMSG down 0\r\n\r\n")
    assert hub.end.state is State.READY and got == [b"down"]


def test_jetstream_stays_at_home() -> None:
    world = LeafLinkWorld()
    link, account = world.leaf(), world.hub.accounts["$G"]
    said(link)
    for subject in (b"$JS.API.>", b"$KV.bucket.key", b"$OBJ.>", b"$JS.edge.API.>", b"plain"):
        account.subscribe(subject, lambda *_: None)
    assert lines(link) == [b"LS+ $JS.edge.API.>", b"LS+ plain"]
    link.parser.feed(b"LS+ >\r\n")
    assert account.publish(b"$JS.API.INFO", None, 0, b"") == 1  # who listens here
    assert account.publish(b"$KV.bucket.key", None, 0, b"") == 1
    assert said(link) == b""
    assert account.publish(b"$JS.edge.API.INFO", None, 0, b"") == 2
    assert said(link) == b"LMSG $JS.edge.API.INFO 0\r\n\r\n"


def subscribed(account: Account, subject: bytes, queue: bytes | None = None) -> Subscription:
    return account.subscribe(subject, lambda *_: None, queue)


def test_interest_is_told_with_the_first_and_the_last_subscription() -> None:
    world = LeafLinkWorld()
    account = world.hub.accounts["$G"]
    subscribed(account, b"before")
    link = world.leaf()
    assert b"LS+ before" in lines(link)
    first, second = subscribed(account, b"foo.*"), subscribed(account, b"foo.*")
    members = [subscribed(account, b"q", b"g") for _ in range(2)]
    assert lines(link) == [b"LS+ foo.*", b"LS+ q g 1", b"LS+ q g 2"]
    account.remove(first)
    assert lines(link) == []
    account.remove(second)
    for member in members:
        account.remove(member)
    assert lines(link) == [b"LS- foo.*", b"LS+ q g 1", b"LS- q g"]


def test_a_leaf_hears_of_other_leafs_unless_it_is_isolated_or_of_their_cluster() -> None:
    world = LeafLinkWorld()
    asking = world.leaf(name="one", cluster="one")
    same = world.leaf(name="uno", cluster="one")
    other = world.leaf(name="two", cluster="two")
    isolated = world.leaf(name="three", cluster="three", isolate=True)
    for link in (same, other, isolated):
        said(link)
    asking.parser.feed(b"LS+ foo\r\nLS+ bar g 3\r\n")
    assert lines(other) == [b"LS+ foo", b"LS+ bar g 3"]
    assert lines(same) == lines(isolated) == []
    asking.parser.feed(b"LS+ bar g 5\r\nLS- foo\r\n")
    assert lines(other) == [b"LS+ bar g 5", b"LS- foo"]
    said(asking)
    other.parser.feed(b"LMSG bar | g 2\r\nhi\r\n")
    assert said(asking) == b"LMSG bar | g 2\r\nhi\r\n"
    asking.close(CloseReason.CLIENT_CLOSED)
    assert lines(other) == [b"LS- bar g"]


def test_a_hub_is_told_of_this_server_and_its_leafs_and_not_of_other_hubs() -> None:
    world = LeafLinkWorld()
    hub, other = world.hub_of({"server_name": "h1", "cluster": "h1"}), world.hub_of({"server_name": "h2"})
    leaf = world.leaf()
    for link in (hub, other, leaf):
        said(link)
    subscribed(world.hub.accounts["$G"], b"local")
    leaf.parser.feed(b"LS+ below\r\n")
    other.parser.feed(b"LS+ above\r\n")
    assert lines(hub) == [b"LS+ local", b"LS+ below"]
    assert lines(leaf) == [b"LS+ local", b"LS+ above"]


def test_loops_are_found_by_the_subject_that_all_pass_on() -> None:
    world = LeafLinkWorld()
    hub, leaf = world.hub_of({"cluster": "h"}), world.leaf()
    said(hub)
    leaf.parser.feed(b"LS+ $LDS.of-somebody\r\n")
    assert said(hub) == b"LS+ $LDS.of-somebody\r\n"
    own = world.nodes.loop_subject(world.hub.accounts["$G"])
    hub.parser.feed(b"LS+ %b\r\n" % own)
    assert hub.end.close_reason is CloseReason.PROTOCOL_VIOLATION
    assert b"Loop detected for leafnode" in said(hub)
    assert hub.remote is not None and hub.remote.delay_ns == 30_000_000_000
    again = world.hub_of({"cluster": "leaf"})
    assert again.end.close_reason is CloseReason.PROTOCOL_VIOLATION, "of a cluster that is a leaf of this server"


def test_the_same_server_replaces_its_link() -> None:
    world = LeafLinkWorld()
    first = world.leaf(remote_account="X")
    second = world.leaf(remote_account="X")
    assert first.end.close_reason is CloseReason.DUPLICATE_LEAFNODE
    assert list(world.nodes.links.values()) == [second]
    third = world.leaf(remote_account="Y")
    assert second.end.close_reason is third.end.close_reason is None


@pytest.mark.parametrize(
    ("version", "wanted", "enough"),
    [
        ("2.15.1", "2.8.0", True),
        ("2.10.0", "2.9.9", True),
        ("v2.8.0-beta", "2.8.0", True),
        ("2.7.4", "2.8.0", False),
        ("", "2.8.0", False),
        ("x.y.z", "2.8.0", False),
        ("", "", True),
    ],
)
def test_versions(version: str, wanted: str, enough: bool) -> None:
    assert _is_new_enough(version, wanted) is enough


def test_a_server_that_is_too_old_is_told_so() -> None:
    world = LeafLinkWorld('leafnodes { port: -1, min_version: "2.11.0" }')
    link = world.leaf(version="2.10.22")
    assert link.end.close_reason is CloseReason.MINIMUM_VERSION
    assert said(link).endswith(b"-ERR 'connection rejected since minimum version required is \"2.11.0\"'\r\n")
    assert world.leaf(version="2.11.0").end.state is State.READY


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (b"remote leafnode has same cluster name", 30),
        (b'connection rejected since minimum version required is "2.11.0"', 5),
        (b'Loop detected for leafnode account="A". Delaying attempt to reconnect for 30s', 30),
        (b"Authorization Violation", 0),
    ],
)
def test_what_takes_time_to_mend_is_not_tried_again_at_once(error: bytes, seconds: int) -> None:
    link = LeafLinkWorld().hub_of()
    link.parser.feed(b"-ERR '%b'\r\n" % error)
    assert link.remote is not None and link.remote.delay_ns == seconds * 1_000_000_000


def test_tls_comes_before_credentials_when_the_hub_asks_for_it() -> None:
    world = LeafLinkWorld()
    link = world.dialled()
    link.parser.feed(leaf_info(tls_required=True))
    assert said(link) == b""
    [then] = world.edge.secured
    then()
    assert said(link).startswith(b"CONNECT {") and link.end.state is State.AUTHENTICATING


def test_a_slow_password_holds_back_what_follows() -> None:
    world = LeafLinkWorld(
        "leafnodes { port: -1, authorization { user: u, "
        "password: '$2a$04$lW0EYYrJjCyqbUSS0JTGlOE0qPHRFtCPBrMbnKBbVW1tr.Jvq4CXi' } }"
    )
    link = world.accepted()
    link.parser.feed(connect(user="u", **{"pass": "wrong"}) + b"LS+ foo\r\n")
    assert link.end.state is State.AUTHENTICATING and link.end.close_reason is None
    [check] = world.edge.checks
    check()
    assert link.end.close_reason is CloseReason.AUTHENTICATION_VIOLATION


def test_a_request_may_be_answered_once_by_a_leaf_that_may_respond() -> None:
    world = LeafLinkWorld(
        "accounts { A { users [ {user: u, password: p, permissions { subscribe: ask, allow_responses: true }} ] } }"
    )
    link, account = world.leaf(user="u", **{"pass": "p"}), world.hub.accounts["A"]
    got: list[bytes] = []
    account.subscribe(b"inbox.1", lambda *args: got.append(args[4]))
    link.parser.feed(b"LS+ ask\r\n")
    account.publish(b"ask", b"inbox.1", 0, b"?")
    link.parser.feed(b"LMSG inbox.1 3\r\nyes\r\n")
    assert got == [b"yes"] and link.end.state is State.READY
    link.parser.feed(b"LMSG inbox.1 5\r\nagain\r\n")
    assert got == [b"yes"] and link.end.close_reason is CloseReason.PROTOCOL_VIOLATION


def test_a_leaf_has_no_more_subscriptions_than_it_may() -> None:
    world = LeafLinkWorld("max_subscriptions: 2")
    link = world.leaf()
    link.parser.feed(b"LS+ a\r\nLS+ b\r\nLS+ c\r\nLS+ a\r\n")
    assert said(link).endswith(b"-ERR 'maximum subscriptions exceeded'\r\n")
    assert link.subscription_count == 2 and link.end.state is State.READY


def test_many_subjects_in_one_read_are_each_judged() -> None:
    """What no rule speaks of comes in together, and everything else as it would alone."""
    rights = 'permissions { publish: up, subscribe { deny: [secret, "secret.>"] } }'
    world = LeafLinkWorld(f"accounts {{ A {{ users [ {{user: u, password: p, {rights}}} ] }} }}")
    link = world.leaf(user="u", **{"pass": "p"})
    account = world.hub.accounts["A"]
    link.parser.feed(b"LS+ a\r\nLS+ b.*\r\nLS+ a\r\nLS+ >\r\nLS+ b..c\r\n")
    assert b"Invalid Subscription" in said(link)
    assert account.publish(b"a", None, 0, b"1") == 1 and account.publish(b"b.x", None, 0, b"2") == 1
    assert account.publish(b"secret.x", None, 0, b"3") == 0, "a wildcard gets what its peer may have"
    said(link)
    link.parser.feed(b"LS- a\r\nLS- >\r\n")
    assert account.publish(b"a", None, 0, b"1") == 0
    link.parser.feed(b"LS+ c\r\nLS+ secret\r\n")
    assert link.end.close_reason is CloseReason.PROTOCOL_VIOLATION


def test_a_reload_keeps_whom_it_does_not_concern() -> None:
    def config(password: str, extra: str = "") -> str:
        return f"accounts {{ A {{ users [ {{user: u, password: p}}, {{user: v, password: {password}}} ] {extra} }} }}"

    world = LeafLinkWorld(config("p"))
    kept, changed = world.leaf(user="u", **{"pass": "p"}), world.leaf(name="w", user="v", **{"pass": "p"})
    said(kept)
    world.hub.reload(loaded(config("q", ', mappings { old: "new" }')).options)
    world.nodes.reload()
    assert changed.end.close_reason is CloseReason.AUTHENTICATION_VIOLATION
    assert kept.end.state is State.READY
    assert lines(kept) == [b"LS+ old"]
    world.hub.reload(loaded(config("q")).options)
    world.nodes.reload()
    assert lines(kept) == [b"LS- old"]


def test_the_address_of_another_cluster_gives_a_leaf_no_rights() -> None:
    rights = "permissions { publish: [ask, ok], subscribe: [req], allow_responses: true }"
    world = LeafLinkWorld(f"accounts {{ A {{ users [ {{user: u, password: p, {rights}}} ] }} }}")
    link = world.accepted()
    link.parser.feed(connect(user="u", **{"pass": "p"}))
    account = world.hub.accounts["A"]
    heard: list[bytes | None] = []
    account.subscribe(b"ask", lambda _who, _subject, reply, _size, _body: heard.append(reply))
    address = b"_GR_.cccccc.ssssss."
    link.parser.feed(b"LMSG ask %bok 0\r\n\r\nLMSG ask %bsecret 0\r\n\r\n" % (address, address))
    # What it may not publish to is answered to clients alone, and nowhere else.
    assert heard == [address + b"ok", b".secret"]
    # A request of another cluster may be answered, at its address.
    link.parser.feed(b"LS+ req\r\n")
    assert account.publish(b"req", address + b"inbox", 0, b"") == 1
    link.parser.feed(b"LMSG %binbox 0\r\n\r\n" % address)
    assert link.end.close_reason is None
    link.parser.feed(b"LMSG %bsecret 0\r\n\r\n" % address)
    assert link.end.close_reason is CloseReason.PROTOCOL_VIOLATION
