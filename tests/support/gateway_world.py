"""A server with gateways and without sockets, and servers of other clusters that a test plays by hand."""

from __future__ import annotations

import json
import random

from slipstream.clock import SystemClock
from slipstream.config import JetStreamOptions
from slipstream.config.listener_options import ClusterOptions, GatewayOptions, RemoteGatewayOptions
from slipstream.config.options import Options
from slipstream.kernels.wire.outbox import FlushQueue, Outbox
from slipstream.links.gateways.inbound import InboundGateway
from slipstream.links.gateways.outbound import OutboundGateway
from slipstream.links.gateways.remotes import GatewayAddress, RemoteCluster
from slipstream.links.gateways.supercluster import Supercluster
from slipstream.links.routes.link import RouteLink
from slipstream.links.routes.mesh import Mesh
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from slipstream.routing.hub import Hub, ServerIdentity
from support.link_world import LinkEdge, connect, info_line


class GatewaySockets:
    """What gateways asked for is written down."""

    def __init__(self) -> None:
        self.dialled: list[tuple[str, bool]] = []
        self.lines: list[str] = []
        self.replica_dials: list[tuple[str, str, bool]] = []

    def dial(self, remote: RemoteCluster, *, again: bool = False) -> None:
        self.dialled.append((remote.name, again))

    def dial_replicas(self, remote: RemoteCluster, address: GatewayAddress, again: bool) -> None:
        self.replica_dials.append((remote.name, address.shown, again))

    def ready(self, link: object) -> None: ...
    def close(self, link: object, reason: CloseReason) -> None: ...
    def log(self, level: str, text: str) -> None:
        self.lines.append(f"[{level}] {text}")


class StillClock(SystemClock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at_ns = 1_000_000_000

    def now_ns(self) -> int:
        return self.at_ns

    def monotonic_ns(self) -> int:
        return self.at_ns


class GatewayWorld:
    """A server of cluster A, and hands to play servers of other clusters and of its own."""

    def __init__(self, *, clustered: bool = False, replicates: bool = False, **gateway: object) -> None:
        known = (RemoteGatewayOptions("B", ("nats://b.example:7222",)),)
        gateway = {"name": "A", "port": -1, "gateways": known, **gateway}
        options = Options(
            cluster=ClusterOptions(name="A", port=-1, pool_size=1),
            gateway=GatewayOptions(**gateway),  # type: ignore[arg-type]
            jetstream=JetStreamOptions(enabled=replicates),
        )
        self.clock, self.sockets = StillClock(), GatewaySockets()
        self.edge = edge = LinkEdge()
        queue = FlushQueue(lambda: None)
        identity = ServerIdentity("SELF", "self", "", 1)
        self.hub = Hub(options, identity, self.clock, random.Random(1), edge, queue)  # type: ignore[arg-type]
        self.gateways = Supercluster(self.hub, self.sockets)
        self.gateways.introduction.listens_at("127.0.0.1", 7222, "127.0.0.1:7222")
        self.mesh: Mesh | None = None
        if clustered:
            self.mesh = Mesh(self.hub, edge, "A", dynamic=False, gateways=self.gateways, replicates=options.replicates)
            self.gateways.join(self.mesh)
            self.mesh.telling.watch_accounts()
        self.gateways.watch_accounts()

    @property
    def account(self):  # type: ignore[no-untyped-def]
        return self.hub.accounts["$G"]

    def outbound(self, cluster: str = "B", *, iom: bool = True, **info: object) -> OutboundGateway:
        """A connection to another cluster that was dialled, with its handshake done."""
        remote = self.gateways.clusters.remotes.setdefault(cluster, RemoteCluster(cluster))
        address = GatewayAddress("b.example", 7222)
        link = self.gateways.dialled(Peer("10.0.0.2", 7222, "gateway"), remote, address)
        link.parser.feed(gateway_info(gateway=cluster, server_id=f"ID{cluster}", gateway_iom=iom, **info))
        said(link)
        return link

    def accepted(self) -> InboundGateway:
        link = self.gateways.accept(Peer("10.0.0.2", 1, "gateway"))
        said(link)
        return link

    def inbound(self, cluster: str = "B", **info: object) -> InboundGateway:
        """A connection that a server of another cluster dialled, with its handshake done."""
        link = self.accepted()
        link.parser.feed(gateway_connect(gateway=cluster))
        link.parser.feed(gateway_info(gateway=cluster, server_id=f"ID{cluster}", **info))
        return link

    def route(self, **info: object) -> RouteLink:
        """A route of another server of the own cluster."""
        assert self.mesh is not None
        link = self.mesh.accept(Peer("10.0.0.1", 1, "route"))
        link.parser.feed(connect(cluster="A"))
        link.parser.feed(info_line(cluster="A", **info))
        return link


class Client:
    """A client that writes down where its answers are to go."""

    rights = permissions = account = None

    def __init__(self, queue: FlushQueue) -> None:
        self.outbox = Outbox(queue, self, 1 << 20)
        self.answers: list[tuple[bytes, bytes]] = []

    def answers_to(self, reply: bytes, address: bytes) -> None:
        self.answers.append((reply, address))


def said(link: InboundGateway | OutboundGateway | RouteLink | Client) -> bytes:
    """What the peer would read."""
    return b"".join(link.outbox.take())


def gateway_connect(**fields: object) -> bytes:
    """CONNECT of a server of another cluster."""
    return b"CONNECT " + json.dumps({"name": "PEER", "gateway": "B", **fields}).encode() + b"\r\n"


def gateway_info(**fields: object) -> bytes:
    """INFO of a server of another cluster."""
    known = {
        "server_id": "PEER",
        "server_name": "far",
        "gateway": "B",
        "gateway_urls": ["b.example:7222"],
        "headers": True,
        "gateway_nrp": True,
    }
    return b"INFO " + json.dumps({**known, **fields}).encode() + b"\r\n"
