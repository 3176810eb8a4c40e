"""The links of replicas by the numbers that groups have for servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slipstream.replication.ids import node_id

if TYPE_CHECKING:
    from slipstream.links.routes.replica_links import ReplicaLinks

__all__ = ["ReplicaTransport"]

Received = Callable[[int, Sequence[tuple[int, bytes]]], None]
Reached = Callable[[int, str], None]
Lost = Callable[[int], None]


class ReplicaTransport:
    """Sends what groups say, and hands over what comes.

    Args:
        links: by the names of servers.
        received: takes the messages that one server sent in one read, each with the number of its group.
        reached: is told of a server that can be reached, by number and name.
        lost: is told of one that cannot any more.
    """

    def __init__(self, links: ReplicaLinks, received: Received, reached: Reached, lost: Lost) -> None:
        self._links = links
        self._received = received
        self._reached = reached
        self._lost = lost
        self._names: dict[int, str] = {}
        links.tell(self)

    def send(self, to: int, batch: Sequence[tuple[int, bytes]]) -> bool:
        """Hand it over; False: there is no link, or too much on it, and nothing was taken."""
        name = self._names.get(to)
        return name is not None and self._links.send(name, batch)

    def name_of(self, node: int) -> str | None:
        """The name of a server that can be reached."""
        return self._names.get(node)

    # --- as a listener of links ---------------------------------------------------------------------------------------

    def peer_up(self, name: str) -> None:
        """A server can be reached."""
        node = node_id(name)
        self._names[node] = name
        self._reached(node, name)

    def peer_down(self, name: str) -> None:
        """It cannot any more."""
        node = node_id(name)
        self._names.pop(node, None)
        self._lost(node)

    def received(self, name: str, batch: Sequence[tuple[int, bytes]]) -> None:
        """What a server sent in one read."""
        self._received(node_id(name), batch)
