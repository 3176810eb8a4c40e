"""Connections for replicas to servers of other clusters: who dials them, what they carry, and who is refused."""

from __future__ import annotations

from slipstream.links.gateways.inbound import InboundGateway
from slipstream.links.gateways.outbound import OutboundGateway
from slipstream.links.gateways.remotes import GatewayAddress
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from support.gateway_world import GatewayWorld, gateway_connect, gateway_info, said
from support.link_world import ReplicaListener

URLS = ["b.example:7222", "b2.example:7222"]


def replicating() -> tuple[GatewayWorld, ReplicaListener]:
    world, listener = GatewayWorld(clustered=True, replicates=True), ReplicaListener()
    assert world.mesh is not None and world.mesh.replicas is not None
    world.mesh.replicas.tell(listener)
    return world, listener


def end_turn(world: GatewayWorld) -> None:
    ends, world.edge.ends = world.edge.ends, []
    for work in ends:
        work()


def road(world: GatewayWorld, address: str = "b2.example", **info: object) -> OutboundGateway:
    """A connection for replicas that this server dialled."""
    link = world.gateways.dialled(
        Peer("10.0.0.3", 7222, "gateway"),
        world.gateways.clusters.remotes["B"],
        GatewayAddress(address, 7222),
        for_replicas=True,
    )
    known = {"server_id": "ID2", "server_name": "far2", "slipstream_replication": True}
    link.parser.feed(gateway_info(**{**known, **info}))
    return link


def came(world: GatewayWorld, **info: object) -> InboundGateway:
    """One that a server of the other cluster dialled."""
    link = world.accepted()
    link.parser.feed(gateway_connect(slipstream_replicas=True) + gateway_info(slipstream_replication=True, **info))
    return link


def test_all_servers_of_a_cluster_that_takes_part_are_dialled_once() -> None:
    world, _ = replicating()
    world.outbound(gateway_urls=URLS, slipstream_replication=True)
    assert world.sockets.replica_dials == [("B", "b.example:7222", False), ("B", "b2.example:7222", False)]
    world.gateways.outbound["B"].parser.feed(gateway_info(gateway_urls=[*URLS, "b3.example:7222"]))
    assert world.sockets.replica_dials[2:] == [("B", "b3.example:7222", False)], "it told of one more"
    assert world.gateways.clusters.expected_servers() == 1, "those that are configured"


def test_who_takes_no_part_is_neither_dialled_nor_expected() -> None:
    world, _ = replicating()
    assert world.gateways.clusters.expected_servers() == 1
    world.outbound(gateway_urls=URLS)
    assert world.sockets.replica_dials == [] and world.gateways.clusters.expected_servers() == 0


def test_what_replicas_say_goes_both_ways_and_reaches_no_account() -> None:
    world, listener = replicating()
    link = road(world)
    assert b'"slipstream_replicas":true' in said(link)
    assert link.end.close_reason is None and not world.gateways.outbound
    inbound = came(world)
    assert not world.gateways.inbound, "it is told no interest"
    inbound.parser.feed(b"RMSG 7 2\r\nhi\r\n")
    link.parser.feed(b"RMSG 8 3\r\nyou\r\n")
    end_turn(world)
    assert listener.events == ["+far2", "+far", ("far", [(7, b"hi")]), ("far2", [(8, b"you")])]
    assert world.mesh is not None and world.mesh.replicas is not None
    assert world.mesh.replicas.send("far2", [(9, b"x")])
    assert said(link) == b"RMSG 9 1\r\nx\r\n"
    link.close(CloseReason.STALE_CONNECTION)
    assert listener.events[-1] == "-far2" and world.sockets.replica_dials == [("B", "b2.example:7222", True)]
    inbound.close(CloseReason.STALE_CONNECTION)
    assert listener.events[-1] == "-far" and len(world.sockets.replica_dials) == 1, "whoever dialled dials again"


def test_a_second_road_to_a_server_is_one_too_many() -> None:
    world, listener = replicating()
    first, second = road(world), road(world, "10.0.0.3")
    assert (first.end.close_reason, second.end.close_reason) == (None, CloseReason.DUPLICATE_ROUTE)
    assert listener.events == ["+far2"] and world.sockets.replica_dials == []


def test_a_server_that_its_cluster_tells_of_no_more_is_not_dialled() -> None:
    world, _ = replicating()
    link = world.outbound(gateway_urls=URLS, slipstream_replication=True)
    remote, address = world.gateways.clusters.remotes["B"], GatewayAddress("b2.example", 7222)
    assert world.gateways.replica_gateways.is_wanted(remote, address)
    link.parser.feed(gateway_info(gateway_urls=URLS[:1]))
    assert not world.gateways.replica_gateways.is_wanted(remote, address)
    link.parser.feed(gateway_info(gateway_urls=URLS))
    assert world.sockets.replica_dials[-1] == ("B", "b2.example:7222", False), "it is back"


def test_a_server_without_jetstream_is_not_dialled_again_and_again() -> None:
    """One of a cluster whose others have it, or one that had it before it was started anew."""
    world, listener = replicating()
    gateway = world.outbound(gateway_urls=URLS, slipstream_replication=True)
    world.sockets.replica_dials.clear()
    link = road(world, slipstream_replication=False)
    assert not link.end.is_open and world.sockets.replica_dials == [] and listener.events == []
    gateway.parser.feed(gateway_info(gateway_urls=URLS))
    assert world.sockets.replica_dials == [("B", "b2.example:7222", False)], "its cluster tells of its servers anew"


def test_who_takes_no_part_refuses_and_bad_groups_end_a_road() -> None:
    world = GatewayWorld(clustered=True)
    assert came(world).end.close_reason is CloseReason.PROTOCOL_VIOLATION
    world, _ = replicating()
    link = came(world)
    link.parser.feed(b"RMSG seven 2\r\nhi\r\n")
    assert link.end.close_reason is CloseReason.PROTOCOL_VIOLATION


def test_jetstream_of_another_kind_is_refused_in_both_directions_until_it_is_gone() -> None:
    world, _ = replicating()
    inbound, other = world.inbound("B"), world.inbound("C")
    link = world.outbound("B")
    link.parser.feed(b"RS+ $SYS $NRG.V._meta_\r\n")
    assert link.end.close_reason is inbound.end.close_reason is CloseReason.WRONG_GATEWAY
    assert b"cannot be in one supercluster" in said(link) and b"cannot be in one supercluster" in said(inbound)
    assert other.end.close_reason is None
    assert world.inbound("B").end.close_reason is CloseReason.WRONG_GATEWAY
    # It is asked again, and has told all that is wanted in the system account.
    told = {"gateway": "B", "gateway_cmd_payload": "JFNZUw=="}
    again = world.outbound("B")
    again.parser.feed(gateway_info(**told, gateway_cmd=2) + gateway_info(**told, gateway_cmd=3))
    assert world.inbound("B").end.close_reason is None
    # A server without JetStream does not mind.
    plain = GatewayWorld(clustered=True).outbound("B")
    plain.parser.feed(b"RS+ $SYS $NRG.V._meta_\r\n")
    assert plain.end.close_reason is None
