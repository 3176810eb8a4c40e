"""A reload must not loosen what an account or a user was limited to."""

from __future__ import annotations

from support.hub_world import HubWorld

LIMITED = """
accounts { A: { users = [{ user: a, password: x }], limits: { max_payload: 10, max_subscriptions: 1 } } }
"""


def test_the_payload_limit_of_an_account_survives_a_reload() -> None:
    world = HubWorld(LIMITED)
    client = world.connect(user="a", **{"pass": "x"})
    world.hub.reload(HubWorld(LIMITED + "max_payload: 1000").options)
    assert client.connection.parser.max_payload == 10
    client.send(b"PUB foo 11\r\nhello world\r\n")
    assert client.is_closed and client.take() == b"-ERR 'Maximum Payload Violation'\r\n"


def test_a_lower_payload_limit_holds_after_a_reload() -> None:
    world = HubWorld(LIMITED)
    client = world.connect(user="a", **{"pass": "x"})
    world.hub.reload(HubWorld(LIMITED.replace("max_payload: 10", "max_payload: 5")).options)
    assert client.connection.parser.max_payload == 5
    world.hub.reload(HubWorld("max_payload: 3" + LIMITED).options)
    assert client.connection.parser.max_payload == 3


def test_the_pending_limit_of_a_reload_moves_the_point_of_stalling() -> None:
    world = HubWorld("max_pending: 1000000")
    outbox = world.connect().connection.outbox
    world.hub.reload(HubWorld("max_pending: 2000").options)
    assert outbox.limit == 2000 and outbox.stall_at <= 2000


MANY = "accounts {{ A: {{ users = [{{ user: a, password: x }}], limits: {{ max_connections: {} }} }} }}"


def test_a_reload_closes_the_last_that_came_where_fewer_are_allowed() -> None:
    world = HubWorld(MANY.format(10))
    clients = [world.connect(user="a", **{"pass": "x"}) for _ in range(4)]
    world.hub.reload(HubWorld("max_connections: 3\n" + MANY.format(10)).options)
    assert [client.is_closed for client in clients] == [False, False, False, True]
    assert clients[3].take() == b"-ERR 'maximum connections exceeded'\r\n"
    world.hub.reload(HubWorld("max_connections: 3\n" + MANY.format(1)).options)
    assert [client.is_closed for client in clients] == [False, True, True, True]
    assert clients[1].take() == b"-ERR 'maximum account active connections exceeded'\r\n"
    world.hub.reload(HubWorld("max_connections: 0\n" + MANY.format(-1)).options)
    assert not clients[0].is_closed
