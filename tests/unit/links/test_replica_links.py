"""Links for what replicas say: who dials them, what they carry, and what a peer must not do with one."""

from __future__ import annotations

import pytest

from slipstream.links.routes.link import RouteLink
from slipstream.links.routes.targets import RouteTarget
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from support.link_world import LinkWorld, ReplicaListener, connect, info_line, said


class ReplicaWorld(LinkWorld):
    """A server that takes part in replication."""

    def __init__(self) -> None:
        self.listener = ReplicaListener()
        super().__init__(replicates=True)
        assert self.mesh.replicas is not None
        self.replicas = self.mesh.replicas
        self.replicas.tell(self.listener)

    def dial(self, target: RouteTarget, **info: object) -> RouteLink:
        link = self.mesh.dialled(Peer("10.0.0.1", 1, "route"), target)
        link.parser.feed(info_line(**info))
        return link

    def end_turn(self) -> None:
        ends, self.edge.ends = self.edge.ends, []
        for work in ends:
            work()


@pytest.fixture
def world() -> ReplicaWorld:
    return ReplicaWorld()


def target() -> RouteTarget:
    return RouteTarget("nats-route://10.0.0.1:6222", explicit=True)


def test_who_dialled_the_route_dials_the_link_for_replicas(world: ReplicaWorld) -> None:
    world.dial(target(), slipstream_replication=True)
    (dialled,) = world.edge.dialled
    assert (dialled.replicas_of, dialled.address) == ("peer", "10.0.0.1:6222")
    link = world.dial(dialled, slipstream_replication=True)
    assert b'"slipstream_replicas":true' in said(link)
    assert world.listener.events == ["+peer"]
    assert link not in world.mesh.roster.routes()


def test_a_server_that_comes_back_without_jetstream_is_not_dialled_again_and_again(world: ReplicaWorld) -> None:
    world.dial(target(), slipstream_replication=True)
    link = world.dial(world.edge.dialled.pop())
    assert not link.end.is_open and world.edge.dialled == [] and world.listener.events == []


def test_who_comes_later_is_told_who_is_there(world: ReplicaWorld) -> None:
    world.peer(slipstream_replicas=True)
    late = ReplicaListener()
    world.replicas.tell(late)
    assert late.events == ["+peer"]


def test_a_peer_that_does_not_take_part_is_left_alone(world: ReplicaWorld) -> None:
    world.dial(target())
    world.peer(server_id="B", server_name="b", slipstream_replication=True)
    assert world.edge.dialled == []


def test_messages_of_one_read_come_together(world: ReplicaWorld) -> None:
    link = world.peer(slipstream_replicas=True)
    link.parser.feed(b"RMSG 7 3\r\nabc\r\nRMSG 18446744073709551615 0\r\n\r\nRMSG 7 4\r\n\r\n\r\n\r\n")
    assert world.listener.events == ["+peer"]
    world.end_turn()
    assert world.listener.events[1:] == [("peer", [(7, b"abc"), (2**64 - 1, b""), (7, b"\r\n\r\n")])]


def test_what_one_server_sends_another_one_reads(world: ReplicaWorld) -> None:
    link = world.peer(slipstream_replicas=True)
    said(link)
    assert world.replicas.send("peer", [(1, b"one"), (2, b"t\r\nwo")])
    other = ReplicaWorld()
    other.peer(slipstream_replicas=True).parser.feed(said(link))
    other.end_turn()
    assert other.listener.events[-1] == ("peer", [(1, b"one"), (2, b"t\r\nwo")])


def test_large_messages_are_read_as_they_were_sent(world: ReplicaWorld) -> None:
    link = world.peer(slipstream_replicas=True)
    said(link)
    batch = [(1, b"a"), (2, b"\r\n" * 100_000), (3, b"c"), (4, b"d" * 100_000)]
    assert world.replicas.send("peer", batch)
    other = ReplicaWorld()
    other.peer(slipstream_replicas=True).parser.feed(said(link))
    other.end_turn()
    assert other.listener.events[-1] == ("peer", batch)


def test_nothing_is_kept_for_a_peer_that_cannot_be_reached_or_does_not_read(world: ReplicaWorld) -> None:
    assert not world.replicas.send("peer", [(1, b"x")])
    link = world.peer(slipstream_replicas=True)
    assert world.replicas.send("peer", [(1, bytes(17 << 20))])
    assert not world.replicas.send("peer", [(1, b"x")])
    said(link)
    assert world.replicas.send("peer", [(1, b"x")])
    link.close(CloseReason.READ_ERROR)
    assert not world.replicas.send("peer", [(1, b"x")])
    assert world.listener.events == ["+peer", "-peer"]


def test_of_two_links_that_this_server_dialled_one_stays(world: ReplicaWorld) -> None:
    world.dial(target(), slipstream_replication=True)
    first = world.dial(target().for_replicas("peer"), slipstream_replication=True)
    second = world.dial(target().for_replicas("peer"), slipstream_replication=True)
    assert (first.end.close_reason, second.end.close_reason) == (None, CloseReason.DUPLICATE_ROUTE)
    accepted = world.peer(slipstream_replicas=True)
    first.close(CloseReason.READ_ERROR)
    assert accepted.end.close_reason is None
    assert world.listener.events == ["+peer"], "the other one is as good"


def test_a_link_is_dialled_again_while_there_is_a_route(world: ReplicaWorld) -> None:
    route = world.dial(target(), slipstream_replication=True)
    link = world.dial(world.edge.dialled.pop(), slipstream_replication=True)
    link.close(CloseReason.READ_ERROR)
    (again,) = world.edge.dialled
    assert again.replicas_of == "peer"
    assert world.mesh.dials.is_wanted(again)
    route.close(CloseReason.READ_ERROR)
    assert not world.mesh.dials.is_wanted(again)


@pytest.mark.parametrize(
    "sent", [b"RS+ foo\r\n", b"RMSG foo 0\r\n\r\n", b"RMSG 123456789012345678901 0\r\n\r\n", b"RMSG 1 999999999999\r\n"]
)
def test_a_peer_that_says_anything_else_is_cut_off(world: ReplicaWorld, sent: bytes) -> None:
    link = world.peer(slipstream_replicas=True)
    link.parser.feed(sent)
    assert link.end.state.name == "CLOSED"
    world.end_turn()
    assert world.listener.events == ["+peer", "-peer"]


def test_a_server_without_replication_refuses_such_a_link() -> None:
    world = LinkWorld()
    link = world.accepted()
    link.parser.feed(connect() + info_line(slipstream_replicas=True))
    assert link.end.close_reason is CloseReason.PROTOCOL_VIOLATION
    assert b"Replication is not configured" in said(link)


def test_jetstream_of_nats_server_is_refused(world: ReplicaWorld) -> None:
    link = world.dial(target(), jetstream=True)
    assert not link.end.is_open and b"cannot be in one cluster" in said(link)
    assert world.dial(target()).end.is_open  # core NATS alone is welcome


def test_a_server_without_jetstream_has_nothing_against_it() -> None:
    world = LinkWorld()
    link = world.mesh.dialled(Peer("10.0.0.1", 1, "route"), target())
    link.parser.feed(info_line(jetstream=True))
    assert link.end.is_open
