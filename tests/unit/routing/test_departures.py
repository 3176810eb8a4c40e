"""A client with very many subscriptions leaves: it is gone at once, what it leaves behind is cleared away in steps."""

from __future__ import annotations

import pytest

from slipstream.kernels.wire.interest import Interest
from slipstream.kernels.wire.receivers import Subscription
from slipstream.protocol.connection import SUBSCRIPTIONS_AT_ONCE
from slipstream.protocol.texts import CloseReason
from support.hub_world import HubClient, HubWorld

MANY = 5 * SUBSCRIPTIONS_AT_ONCE
TWO_ACCOUNTS = """
accounts { A { users: [ { user: a, password: p } ] }, B { users: [ { user: b, password: p } ] } }
"""


def _subscribe(client: HubClient, *patterns: bytes) -> None:
    lines = [b"SUB %s %d\r\n" % (pattern % n, n) for n, pattern in enumerate(patterns * (MANY // len(patterns)))]
    client.send(b"".join(lines))
    assert len(client.connection.subscriptions) == MANY
    assert client.take() == b""


def _interest(world: HubWorld, name: str = "$G") -> Interest:
    return world.hub.accounts[name].interest


@pytest.mark.parametrize("patterns", [(b"s.%d",), (b"s.%d.*",), (b"s.%d", b"s.%d.>"), (b"same.%.0d",)])
def test_it_is_gone_at_once(patterns: tuple[bytes, ...]) -> None:
    world = HubWorld()
    other, leaver = world.connect(), world.connect()
    other.send(b"SUB s.8 1\r\nSUB s.9.> 2\r\n")
    _subscribe(leaver, *patterns)
    other.send(b"PUB s.8 1\r\nx\r\nPUB s.9.a 1\r\nx\r\n").take()
    leaver.take()
    leaver.connection.close(CloseReason.CLIENT_CLOSED)
    account = world.hub.accounts["$G"]
    assert (account.interest.count, account.interest.removes) == (2, MANY)
    assert [one.sid for one in account.interest.subscriptions()] in ([b"1", b"2"], [b"2", b"1"])
    turns = 0
    while True:
        assert not account.has_interest(b"s.7.a") and not account.has_interest(b"s.7")
        other.send(b"PUB s.8 1\r\nx\r\nPUB s.9.a 1\r\nx\r\nPUB s.7 re 1\r\nx\r\n")
        assert other.take() == b"MSG s.8 1 1\r\nx\r\nMSG s.9.a 2 1\r\nx\r\n"
        assert leaver.take() == b""
        if not world.take_turn():
            break
        turns += 1
    assert turns >= 4
    assert account.interest.count == 2 and account.interest.removes == MANY
    assert account.subscription_bytes < 3_000
    other.send(b"UNSUB 1\r\nUNSUB 2\r\n")
    assert account.subscription_bytes == 0 == account.interest.count
    closed = world.hub.closed_connections[-1]
    assert closed.subscription_count == MANY and not closed.subscriptions


def test_routes_of_others_stay_while_it_is_cleared_away() -> None:
    world = HubWorld()
    other, leaver = world.connect(), world.connect()
    other.send(b"SUB a 1\r\n")
    _subscribe(leaver, b"s.%d.*")
    leaver.connection.close(CloseReason.CLIENT_CLOSED)
    other.send(b"PUB a 0\r\n\r\n")
    misses = _interest(world).misses
    while world.take_turn():
        other.send(b"PUB a 0\r\n\r\n")
    assert _interest(world).misses == misses


def test_a_queue_group_goes_on_without_it() -> None:
    world = HubWorld()
    leaver, other = world.connect(), world.connect()
    _subscribe(leaver, b"s.%d")
    leaver.send(b"SUB work g q\r\n")
    other.send(b"SUB work g 1\r\n")
    leaver.connection.close(CloseReason.CLIENT_CLOSED)
    for _ in range(20):
        other.send(b"PUB work 0\r\n\r\n")
    assert other.take() == b"MSG work 1 0\r\n\r\n" * 20


def test_who_waits_for_interest_is_told() -> None:
    world, heard = HubWorld(), list[bool]()
    leaver = world.connect()
    account = world.hub.accounts["$G"]
    _subscribe(leaver, b"s.%d")
    account.watch(b"s.4", None, heard.append)
    account.watch(b"other", None, heard.append)
    leaver.connection.close(CloseReason.CLIENT_CLOSED)
    assert heard == [False]


def test_a_client_that_becomes_another_user() -> None:
    world = HubWorld(TWO_ACCOUNTS)
    client = world.connect(user="a", **{"pass": "p"})
    world.check_passwords()
    _subscribe(client, b"s.%d")
    client.connect(user="b", **{"pass": "p"}).send(b"SUB s.1 1\r\nPUB s.1 0\r\n\r\n")
    world.check_passwords()
    assert client.take() == b"MSG s.1 1 0\r\n\r\n"
    assert _interest(world, "A").count == 0 and _interest(world, "B").count == 1
    while world.take_turn():
        pass
    assert not world.hub.accounts["A"].subscription_bytes
    assert isinstance(client.connection.subscriptions[b"1"], Subscription)
