"""A server with leaf nodes without sockets, and peers that a test plays by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from slipstream.clock import SystemClock
from slipstream.config.listener_options import LeafRemoteOptions
from slipstream.kernels.wire.outbox import FlushQueue
from slipstream.links.end import LinkEnd
from slipstream.links.leafs.handshake import LeafConnect
from slipstream.links.leafs.link import LeafLink
from slipstream.links.leafs.nodes import LeafNodes
from slipstream.links.leafs.remotes import LeafRemote
from slipstream.protocol.peer import Peer
from slipstream.protocol.texts import CloseReason
from slipstream.routing.hub import Hub, ServerIdentity
from support.config_loading import loaded


class LeafTestEdge:
    """Neither sockets nor threads: what the hub and the leaf nodes asked for is written down."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.secured: list[Callable[[], None]] = []
        self.checks: list[Callable[[], None]] = []
        self.closed: list[LeafLink] = []
        self.compressed: list[tuple[LinkEnd, str]] = []

    def secure(self, _link: LeafLink, then: Callable[[], None]) -> None:
        self.secured.append(then)

    def sign_in(self, _link: LeafLink, connect: LeafConnect) -> str | None:
        connect.user, connect.password = "u", "p"
        return None

    def check_password(self, _link: object, job: Callable[[], bool], done: Callable[[bool], None]) -> None:
        self.checks.append(lambda: done(job()))

    def compress(self, end: LinkEnd, mode: str) -> None:
        self.compressed.append((end, mode))

    def called_out(self, _link: LeafLink) -> None: ...
    def end_at(self, _link: LeafLink, _at_ns: int) -> None: ...
    def await_answer(self, _link: LeafLink, _delay_ns: int) -> None: ...
    def ready(self, _link: LeafLink) -> None: ...
    def connected(self, _connection: object) -> None: ...

    def close(self, link: object, _reason: CloseReason) -> None:
        if isinstance(link, LeafLink):
            self.closed.append(link)

    def log(self, level: str, text: str) -> None:
        self.lines.append(f"[{level}] {text}")

    def call_soon(self, callback: Callable[[], object]) -> None:
        callback()


class LeafLinkWorld:
    """A server with leaf nodes, and hands to play its peers."""

    def __init__(self, config: str = "") -> None:
        self.edge = LeafTestEdge()
        options = loaded(f"server_name: self\n{config}").options
        identity = ServerIdentity("SELF", "self", "", 1)
        queue = FlushQueue(lambda: None)
        self.hub = Hub(options, identity, SystemClock(), random.Random(1), self.edge, queue)  # type: ignore[arg-type]
        self.nodes = LeafNodes(self.hub, self.edge)
        self.nodes.introduction.urls = ["10.0.0.9:7422"]

    def accepted(self) -> LeafLink:
        """A peer that has dialled and was greeted."""
        link = self.nodes.accept(Peer("10.0.0.1", 1, "leafnode"))
        self.nodes.greet(link)
        said(link)
        return link

    def leaf(self, **fields: object) -> LeafLink:
        """A leaf that is in."""
        link = self.accepted()
        link.parser.feed(connect(**fields))
        return link

    def dialled(self, **options: object) -> LeafLink:
        """A remote that was reached and has said nothing."""
        urls = {"urls": ("nats-leaf://10.0.0.2:7422",)}
        remote = LeafRemote(LeafRemoteOptions(**{**urls, **options}), random.Random(1))  # type: ignore[arg-type]
        return self.nodes.dialled(Peer("10.0.0.2", 7422, "leafnode"), remote)

    def hub_of(self, first: dict[str, object] | None = None, **second: object) -> LeafLink:
        """A hub that has let this server in."""
        link = self.dialled()
        link.parser.feed(leaf_info(**(first or {})))
        link.parser.feed(leaf_info(connect_info=True, remote_account="R", **second))
        return link


def said(link: LeafLink) -> bytes:
    """What the peer would read."""
    return b"".join(link.outbox.take())


def connect(**fields: object) -> bytes:
    """CONNECT of a leaf."""
    known = {"name": "leaf", "cluster": "leaf", "headers": True, "version": "2.15.1", "server_id": "LEAF"}
    return b"CONNECT " + json.dumps({**known, **fields}).encode() + b"\r\n"


def leaf_info(**fields: object) -> bytes:
    """INFO of a hub."""
    known = {
        "server_id": "HUB",
        "server_name": "hub",
        "headers": True,
        "client_id": 7,
        "nonce": "abc",
        "info_on_connect": True,
        "leafnode_urls": ["10.0.0.2:7422"],
    }
    return b"INFO " + json.dumps({**known, **fields}).encode() + b"\r\n"
