"""A server of a cluster without sockets, and peers that a test plays by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

from slipstream.clock import SystemClock
from slipstream.config.listener_options import ClusterOptions
from slipstream.config.options import Options
from slipstream.kernels.wire.outbox import FlushQueue
from slipstream.links.end import LinkEnd
from slipstream.links.routes.link import RouteLink
from slipstream.links.routes.mesh import Mesh
from slipstream.links.routes.targets import RouteTarget
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from slipstream.routing.hub import Hub, ServerIdentity


class ReplicaListener:
    """Writes down what happens to links of replicas."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def peer_up(self, name: str) -> None:
        self.events.append(f"+{name}")

    def peer_down(self, name: str) -> None:
        self.events.append(f"-{name}")

    def received(self, name: str, batch: Sequence[tuple[int, bytes]]) -> None:
        self.events.append((name, list(batch)))


class LinkEdge:
    """Neither sockets nor logs: what the hub and the mesh asked for is written down."""

    def __init__(self) -> None:
        self.dialled: list[RouteTarget] = []
        self.hurried: list[bool] = []  # whether each of them was dialled soon
        self.ends: list[Callable[[], None]] = []

    def dial(self, target: RouteTarget, *, again: bool = False, soon: bool = False) -> None:
        self.dialled.append(target)
        self.hurried.append(soon)

    def compress(self, end: LinkEnd, mode: str) -> None: ...
    def ready(self, link: RouteLink) -> None: ...
    def connected(self, connection: object) -> None: ...
    def close(self, link: object, reason: CloseReason) -> None: ...
    def urls_changed(self) -> None: ...
    def check_password(self, *_: object) -> None: ...
    def log(self, level: str, text: str) -> None: ...
    def call_soon(self, callback: object) -> None:
        callback()  # type: ignore[operator]

    def at_end_of_turn(self, work: Callable[[], None]) -> None:
        self.ends.append(work)


class LinkWorld:
    """A server of a cluster, and hands to play its peers."""

    def __init__(
        self, *, server_id: str = "SELF", replicates: bool = False, dynamic: bool = False, **cluster: object
    ) -> None:
        self.edge = LinkEdge()
        cluster = {"name": "C", "port": -1, "pool_size": 1, **cluster}
        options = Options(cluster=ClusterOptions(**cluster))  # type: ignore[arg-type]
        identity = ServerIdentity(server_id, server_id.lower(), "", 1)
        queue = FlushQueue(lambda: None)
        self.hub = Hub(options, identity, SystemClock(), random.Random(1), self.edge, queue)  # type: ignore[arg-type]
        self.mesh = Mesh(self.hub, self.edge, "C", dynamic=dynamic, replicates=replicates)
        self.mesh.telling.watch_accounts()

    def accepted(self) -> RouteLink:
        link = self.mesh.accept(Peer("10.0.0.1", 1, "route"))
        said(link)
        return link

    def peer(self, **info: object) -> RouteLink:
        link = self.accepted()
        link.parser.feed(connect())
        link.parser.feed(info_line(**info))
        return link


def said(link: RouteLink) -> bytes:
    """What the peer would read."""
    return b"".join(link.outbox.take())


def connect(**fields: object) -> bytes:
    """CONNECT of a peer."""
    return b"CONNECT " + json.dumps({"name": "PEER", "cluster": "C", "headers": True, **fields}).encode() + b"\r\n"


def info_line(**fields: object) -> bytes:
    """INFO of a peer."""
    known = {
        "server_id": "PEER",
        "server_name": "peer",
        "cluster": "C",
        "headers": True,
        "route_pool_size": 1,
        "port": 6222,
    }
    return b"INFO " + json.dumps({**known, **fields}).encode() + b"\r\n"
