"""Clients come and go: what they leave behind is bounded, and bounded by numbers somebody chose."""

from __future__ import annotations

import gc
import weakref

import pytest

from slipstream.protocol.connection import ClientConnection
from slipstream.protocol.texts import CloseReason
from support.hub_world import HubWorld

CYCLES = 200
RING = 10
CONFIG = f"""
max_closed_clients: {RING}
accounts {{
  A: {{
    users = [
      {{ user: narrow, password: x, permissions: {{
          publish: {{ deny: "x.>" }}, subscribe: {{ deny: "d.*" }}, allow_responses: {{ max: 5, expires: "1m" }} }} }}
      {{ user: wide, password: x }}
    ]
    exports = [{{ service: svc }}, {{ stream: "feed.>" }}]
  }}
  B: {{
    users = [{{ user: b, password: x }}]
    imports = [{{ service: {{ account: A, subject: svc }} }}, {{ stream: {{ account: A, subject: "feed.>" }} }}]
  }}
}}
"""


def _cycle(world: HubWorld, index: int) -> weakref.ref[ClientConnection]:
    """One client of each kind that subscribes, publishes, asks, and goes."""
    refs = []
    for user in ("narrow", "wide", "b"):
        client = world.connect(user=user, name=f"{user}-{index}", **{"pass": "x"})
        client.send(
            b"SUB foo.%d 1\r\nSUB foo.* 2\r\nSUB > q 3\r\nSUB feed.%d 4\r\nSUB only 5\r\nUNSUB 5 1\r\n" % (index, index)
        )
        client.send(b"PUB foo.%d r.%d 1\r\nx\r\n" % (index, index) * 3 + b"PUB x.%d 0\r\n\r\n" % index)
        client.send(
            b"PUB svc in.%d 0\r\n\r\nPUB feed.%d 0\r\n\r\nPUB only 0\r\n\r\nPUB cut 100\r\nhalf" % (index, index)
        )
        refs.append(weakref.ref(client.connection))
    world.flush()
    for connection in list(world.hub.connections.values()):
        connection.close(CloseReason.CLIENT_CLOSED)
        connection.outbox.close()
    world.flush()
    return refs[0]


def test_nothing_of_closed_connections_stays_but_the_ring() -> None:
    world = HubWorld(CONFIG)
    refs = [_cycle(world, index) for index in range(CYCLES)]
    gc.collect()
    assert len(world.hub.closed_connections) == RING
    assert sum(ref() is not None for ref in refs) <= RING
    assert not world.hub.connections
    for account in world.hub.accounts.values():
        assert not account.connections
        assert [s for s in account.interest.subscriptions() if s.client is not None] == []
        assert account.interest.cached_routes <= 64


def test_a_closed_connection_keeps_only_what_monitoring_shows() -> None:
    world = HubWorld(CONFIG)
    _cycle(world, 1)
    for closed in world.hub.closed_connections:
        parser = closed.connection.parser
        assert parser.dead and parser.unparsed.held == 0
        assert parser.verdicts is None and parser.interest is None
        assert closed.connection.rights is None or not closed.connection.rights.may_respond


def test_routes_and_verdicts_of_many_subjects_are_bounded() -> None:
    """Every subject is a new one, twice, so that it is worth remembering."""
    world = HubWorld(CONFIG)
    client = world.connect(user="narrow", **{"pass": "x"}).send(b"SUB foo.* 1\r\n")
    for index in range(50_000):
        client.send(b"PUB foo.%d 0\r\n\r\nPUB foo.%d 0\r\n\r\n" % (index, index))
        if index % 1000 == 0:
            world.flush()
    account = world.hub.accounts["A"]
    assert account.interest.cached_routes <= 40_000
    assert len(client.connection.parser.verdicts or ()) <= 4096
    assert len(account.interest.routes()) == account.interest.cached_routes


@pytest.mark.parametrize("answered", [True, False])
def test_open_requests_of_a_service_are_bounded(answered: bool) -> None:
    """Requests that get no answer are forgotten after their time, answered ones at once."""
    world = HubWorld(CONFIG)
    service = world.connect(user="wide", **{"pass": "x"}).send(b"SUB svc 1\r\n")
    asker = world.connect(user="b", **{"pass": "x"}).send(b"SUB in.> 1\r\n")
    responses = world.hub.topology._responses["A"]
    for index in range(500):
        asker.send(b"PUB svc in.%d 0\r\n\r\n" % index)
        reply = service.take().split()[3]
        if answered:
            service.send(b"PUB %b 2\r\nok\r\n" % reply)
            assert asker.take() == b"MSG in.%d 1 2\r\nok\r\n" % index
    assert len(responses) == (0 if answered else 500)
    world.pass_time(3600)
    asker.send(b"PUB svc in.last 0\r\n\r\n")
    assert len(responses) == 1


LATENCY = """
accounts {
  A: {
    users = [{ user: a, password: x }]
    exports = [{ service: svc, response_threshold: "1s", latency: { sampling: 100, subject: lat } }]
  }
  B: { users = [{ user: b, password: x }], imports = [{ service: { account: A, subject: svc } }] }
}
"""


def test_measured_requests_are_counted_down_however_they_end() -> None:
    """The count decides whether every client that leaves is looked for among the open requests."""
    world = HubWorld(LATENCY)
    responses = world.hub.topology._responses["A"]
    asker = world.connect(user="b", **{"pass": "x"}).send(b"SUB in 1\r\nPUB svc in 0\r\n\r\n")
    assert responses._measured == 0, "nobody took it"
    service = world.connect(user="a", **{"pass": "x"}).send(b"SUB svc 1\r\n")

    asker.send(b"PUB svc in 0\r\n\r\n")
    assert responses._measured == 1
    service.send(b"PUB %b 0\r\n\r\n" % service.take().split()[3])
    assert responses._measured == 0, "answered"

    asker.send(b"PUB svc in 0\r\n\r\n")
    world.pass_time(2)
    late = service.take().split()[3]
    service.send(b"PUB %b 0\r\n\r\n" % late)
    assert responses._measured == 0, "answered too late"

    asker.send(b"PUB svc in 0\r\n\r\n")
    asker.connection.close(CloseReason.CLIENT_CLOSED)
    assert responses._measured == 0 and len(responses) == 0, "the asker left"


def test_the_table_of_requests_forgets_the_oldest_when_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream.routing.services.SERVICE_RESPONSES_MAX", 10)
    world = HubWorld(LATENCY)
    responses = world.hub.topology._responses["A"]
    world.connect(user="a", **{"pass": "x"}).send(b"SUB svc 1\r\n")
    asker = world.connect(user="b", **{"pass": "x"}).send(b"SUB in 1\r\n")
    for _ in range(100):
        asker.send(b"PUB svc in 0\r\n\r\n")
    assert len(responses) == responses._measured == 10
