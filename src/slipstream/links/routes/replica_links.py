"""What replicas say to each other, over connections of their own: bulk never delays a message or a heartbeat of routes.

Such a link begins as a route does, on the same port and with the same rights; its INFO says what it is for. Whoever
dialled a route to a server that takes part dials this link, too, and again as long as there are routes. Two servers
that dialled each other have two links, and use either. To servers of other clusters such links begin as gateways do,
and on their port (`links.gateways.replica_gateways`).

    RMSG <group> <size>        one message of a group; Raft bears that it is lost, or comes twice

What this is not: a promise. `send` says False when there is no link, or when a peer is so far behind with reading that
more would only wait: the group sends it again when it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from slipstream.kernels.wire.interest import Interest
from slipstream.links.routes.targets import RouteTarget
from slipstream.protocol.texts import CloseReason
from slipstream.units import KIB, MIB

if TYPE_CHECKING:
    from slipstream.links.end import LinkEnd
    from slipstream.links.routes.handshake import RouteInfo
    from slipstream.links.routes.link import RouteLink

__all__ = ["REPLICA_MESSAGE_MAX", "ReplicaLink", "ReplicaLinks", "ReplicaListener"]

REPLICA_MESSAGE_MAX: Final = 256 * MIB
"""The largest message: a frame travels whole, and holds what a leader took in while a commit was under way."""
_LARGE: Final = 64 * KIB  # messages that are not copied
_UNREAD_MAX: Final = 16 * MIB  # that wait for one peer: a window of large frames fits, more would make it look dead


class ReplicaLink(Protocol):
    """One connection for replicas, to a server of this cluster or of another."""

    end: LinkEnd
    solicited: bool
    """Whether this server dialled it."""
    reconnects: bool
    """Whether it is dialled again when it ends."""


class ReplicaListener(Protocol):
    """Who takes part in groups."""

    def peer_up(self, name: str) -> None:
        """A peer can be reached."""
        ...

    def peer_down(self, name: str) -> None:
        """It cannot any more."""
        ...

    def received(self, name: str, batch: Sequence[tuple[int, bytes]]) -> None:
        """What a peer sent in one read: group and message."""
        ...


class ReplicaLinks:
    """The links of one server's replicas to those of others, by the names of servers.

    Args:
        dial: connects to a target.
        at_end: calls once when what was read in this turn is handled.
    """

    def __init__(
        self,
        dial: Callable[[RouteTarget], None],
        at_end: Callable[[Callable[[], None]], None],
    ) -> None:
        self._listeners: list[ReplicaListener] = []
        self._dial = dial
        self._at_end = at_end
        self._links: dict[str, list[ReplicaLink]] = {}
        self._arrived: dict[str, list[tuple[int, bytes]]] = {}

    def tell(self, listener: ReplicaListener) -> None:
        """Somebody takes part from now on; what came before is lost, as if there had been no link."""
        self._listeners.append(listener)
        for name in self._links:
            listener.peer_up(name)

    @property
    def peers(self) -> list[str]:
        """Servers that can be reached."""
        return list(self._links)

    def send(self, name: str, batch: Sequence[tuple[int, bytes]]) -> bool:
        """Send messages of groups to a server; False: none of them."""
        links = self._links.get(name)
        if not links or links[0].end.outbox.pending > _UNREAD_MAX:
            return False
        outbox, lines = links[0].end.outbox, []
        for group, one in batch:
            if len(one) < _LARGE:
                lines.append(b"RMSG %d %d\r\n%b\r\n" % (group, len(one), one))
            else:
                lines.append(b"RMSG %d %d\r\n" % (group, len(one)))
                outbox.write(b"".join(lines))
                outbox.write_whole(one)
                lines = [b"\r\n"]
        outbox.write(b"".join(lines))
        outbox.flush_early()
        return True

    # --- what the mesh tells ------------------------------------------------------------------------------------------

    def route_began(self, link: RouteLink, info: RouteInfo) -> None:
        """A route is there: dial the link for replicas beside it, if that is this side's task."""
        if info.slipstream_replication and link.target is not None and not link.account:
            if self.has_dialled(link.end.remote_name):
                return
            self._dial(link.target.for_replicas(link.end.remote_name))

    def has_dialled(self, name: str) -> bool:
        """Whether there is a link to a server that this one dialled."""
        return any(known.solicited for known in self._links.get(name, ()))

    def began(self, link: ReplicaLink) -> None:
        """A link for replicas has shaken hands."""
        name = link.end.remote_name
        if link.solicited and self.has_dialled(name):
            link.reconnects = False
            link.end.close(CloseReason.DUPLICATE_ROUTE)
            return
        links = self._links.setdefault(name, [])
        link.end.begin_replicas(Interest(), REPLICA_MESSAGE_MAX)
        links.append(link)
        if len(links) == 1:
            for listener in self._listeners:
                listener.peer_up(name)

    def message(self, link: ReplicaLink, group: bytes, body: bytes) -> None:
        """One message of a peer."""
        if not group.isdigit() or len(group) > 20:
            link.end.refuse(CloseReason.PROTOCOL_VIOLATION, "Unknown Replica Group")
            return
        if not self._arrived:
            self._at_end(self._hand_over)
        self._arrived.setdefault(link.end.remote_name, []).append((int(group), body))

    def _hand_over(self) -> None:
        arrived, self._arrived = self._arrived, {}
        for name, batch in arrived.items():
            for listener in self._listeners:
                listener.received(name, batch)

    def closed(self, link: ReplicaLink) -> None:
        """A link ended."""
        links = self._links.get(link.end.remote_name)
        if links is None or link not in links:
            return
        links.remove(link)
        if not links:
            del self._links[link.end.remote_name]
            for listener in self._listeners:
                listener.peer_down(link.end.remote_name)
