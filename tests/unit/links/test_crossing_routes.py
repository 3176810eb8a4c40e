"""Two servers that dial each other at the same time: one of the routes stays, whatever is read first."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from slipstream.links.routes.link import RouteLink
from slipstream.links.routes.targets import RouteTarget
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from support.link_world import LinkWorld, connect, info_line, said

URL = "nats://10.0.0.9:6222"


class Wire:
    """One connection between two servers, whose bytes a test carries over when it likes."""

    def __init__(self, caller: LinkWorld, callee: LinkWorld, account: str) -> None:
        target = RouteTarget(URL, explicit=True, account=account)
        self.ends = [
            caller.mesh.dialled(Peer("10.0.0.9", 6222, "route"), target),
            callee.mesh.accept(Peer("10.0.0.8", 1, "route")),
        ]
        self._ended = [False, False]

    @property
    def is_open(self) -> bool:
        """Whether both sides take it as a route."""
        return all(end.place >= 0 or end.account for end in self.ends) and all(end.end.is_open for end in self.ends)

    def carry(self, side: int) -> bool:
        """Bring what one side has written, or its end, to the other; False: there is nothing."""
        sender, reader = self.ends[side], self.ends[1 - side]
        written = said(sender)
        if written and reader.end.is_open:
            reader.parser.feed(written)
            return True
        if sender.end.is_open or self._ended[side]:
            return False
        self._ended[side] = True
        if reader.end.is_open:
            reader.close(CloseReason.CLIENT_CLOSED)
        return True


def carried(wires: list[Wire], order: random.Random) -> Iterator[None]:
    """All that is written arrives, in some order of the connections."""
    ways = [(wire, side) for wire in wires for side in (0, 1)]
    while ways:
        wire, side = order.choice(ways)
        if wire.carry(side):
            ways = [(one, at) for one in wires for at in (0, 1)]
            yield
        else:
            ways.remove((wire, side))


@pytest.mark.parametrize("account", ["", "$G"])
def test_the_route_that_the_smaller_id_has_dialled_stays(account: str) -> None:
    pinned = (account,) if account else ()
    both_began = 0
    for seed in range(60):
        worlds = [LinkWorld(server_id=name, routes=(URL,), accounts=pinned) for name in ("NA", "NB")]
        wires = [Wire(worlds[0], worlds[1], account), Wire(worlds[1], worlds[0], account)]
        for _ in carried(wires, random.Random(seed)):
            both_began += all(wire.ends[0].info is not None for wire in wires)
        assert [wire.is_open for wire in wires].count(True) == 1, seed
        for world in worlds:
            [route] = world.mesh.roster.routes()
            assert route.solicited or world.edge.dialled, "both dial it again when it goes"
            assert world.mesh.roster.first_routes() == ([] if account else [route])
    assert both_began, "the routes crossed"


def crossed(**info: object) -> tuple[LinkWorld, RouteLink, RouteLink]:
    """A peer asks for the place of the route that this server has just dialled."""
    world = LinkWorld(routes=(URL,))
    own = world.mesh.dialled(Peer("10.0.0.9", 6222, "route"), RouteTarget(URL, explicit=True))
    own.parser.feed(info_line(**info))
    said(own)
    other = world.accepted()
    other.parser.feed(connect() + info_line(**info))
    return world, own, other


def test_nats_server_keeps_the_route_that_it_has_dialled() -> None:
    """It refuses the other one, so this one has to stay here as well."""
    world, own, other = crossed()
    assert own.end.close_reason is CloseReason.DUPLICATE_ROUTE
    assert world.mesh.roster.routes() == [other] and world.edge.dialled == []
    other.parser.feed(b"RS+ $G foo\r\n")
    assert world.hub.accounts["$G"].publish(b"foo", None, 0, b"") == 1
    other.close(CloseReason.CLIENT_CLOSED)
    assert [target.url for target in world.edge.dialled] == [URL], "it is dialled as the other one was"


def test_a_server_without_pools_that_dialled_too_is_told_of_the_route_that_there_is() -> None:
    """It asks before it looks what it has."""
    world, own, other = crossed(route_pool_size=0)
    assert other.end.close_reason is CloseReason.DUPLICATE_ROUTE
    assert world.mesh.roster.routes() == [own]


def test_a_peer_that_asks_for_a_place_again_that_it_has_is_refused() -> None:
    world = LinkWorld(routes=(URL,))
    first = world.peer()
    second = world.peer()
    assert (first.end.is_open, second.end.close_reason) == (True, CloseReason.DUPLICATE_ROUTE)
