"""What the servers of one cluster tell each other of gateways, and answers of other clusters on their last way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from slipstream.protocol import texts

if TYPE_CHECKING:
    from slipstream.links.presence import LinkMember
    from slipstream.links.routes.handshake import RouteInfo
    from slipstream.links.routes.link import RouteLink

__all__ = ["MeshGateways", "RouteGateways"]


class MeshGateways(Protocol):
    """Gateways to other clusters, as the mesh knows them."""

    @property
    def url(self) -> str:
        """Where other clusters reach this server."""
        ...

    def route_opened(self, route: RouteLink, info: RouteInfo) -> None:
        """There is a first route to a server."""
        ...

    def told_by_route(self, info: RouteInfo, server_id: str) -> None:
        """A server tells of another cluster."""
        ...

    def on_addressed(
        self, member: LinkMember, subject: bytes, reply: bytes | None, header_size: int, body: bytes, *, routed: bool
    ) -> None:
        """An answer with the address of a cluster and a server."""
        ...


class RouteGateways:
    """The gateways of one server, if it has some, for its routes.

    Args:
        gateways: of the server; None: it has none.
        log: writes a log line.
    """

    def __init__(self, gateways: MeshGateways | None, log: Callable[[str, str], None]) -> None:
        self._gateways = gateways
        self._log = log

    @property
    def are_there(self) -> bool:
        """Whether there are other clusters, and answers with addresses."""
        return self._gateways is not None

    @property
    def url(self) -> str:
        """Where other clusters reach this server; empty: nowhere."""
        return "" if self._gateways is None else self._gateways.url

    def opened(self, link: RouteLink, info: RouteInfo) -> None:
        """There is a first route to a server."""
        if self._gateways is not None:
            self._gateways.route_opened(link, info)

    def told(self, link: RouteLink, info: RouteInfo) -> None:
        """A server tells of another cluster."""
        if self._gateways is not None:
            self._gateways.told_by_route(info, link.remote_id)
            return
        name, who = texts.quoted_text(info.gateway), texts.escaped(link.remote_id)
        self._log("ERR", f"Received information about gateway {name} from {who}, but gateway is not configured")

    def addressed(self, member: LinkMember, subject: bytes, reply: bytes | None, header_size: int, body: bytes) -> None:
        """An answer of another cluster came in at another server, and is for this one."""
        if self._gateways is not None:
            self._gateways.on_addressed(member, subject, reply, header_size, body, routed=True)
