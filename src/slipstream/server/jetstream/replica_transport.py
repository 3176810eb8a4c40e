"""The links of replicas by the numbers that groups have for servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slipstream.replication.ids import link_number

if TYPE_CHECKING:
    from slipstream.links.routes.replica_links import ReplicaLinks

__all__ = ["ReplicaTransport"]

Received = Callable[[int, Sequence[tuple[int, bytes]]], None]
Reached = Callable[[str], None]
Lost = Callable[[str, int | None], None]


class ReplicaTransport:
    """Sends what groups say, and hands over what comes.

    A server has its `link_number` from the beginning, and the number of its member once `knows` was told that.

    Args:
        links: by the names of servers.
        received: takes the messages that one server sent in one read, each with the number of its group.
        reached: is told of a server that can be reached, by name.
        lost: is told of one that cannot any more, by name and by the member that it was, if that is known.
    """

    def __init__(self, links: ReplicaLinks, received: Received, reached: Reached, lost: Lost) -> None:
        self._links = links
        self._received = received
        self._reached = reached
        self._lost = lost
        self._names: dict[int, str] = {}
        self._members: dict[str, int] = {}
        links.tell(self)

    def knows(self, name: str, node: int) -> None:
        """The server of this name is this member, and none that it was before."""
        if link_number(name) in self._names:
            self._forget_member(name)
            self._members[name] = node
            self._names[node] = name

    def send(self, to: int, batch: Sequence[tuple[int, bytes]]) -> bool:
        """Hand it over; False: there is no link, or too much on it, and nothing was taken."""
        name = self._names.get(to)
        return name is not None and self._links.send(name, batch)

    def name_of(self, node: int) -> str | None:
        """The name of a server that can be reached."""
        return self._names.get(node)

    def _forget_member(self, name: str) -> int | None:
        known = self._members.pop(name, None)
        if known is not None:
            del self._names[known]
        return known

    # --- as a listener of links ---------------------------------------------------------------------------------------

    def peer_up(self, name: str) -> None:
        """A server can be reached."""
        self._names[link_number(name)] = name
        self._reached(name)

    def peer_down(self, name: str) -> None:
        """It cannot any more."""
        self._names.pop(link_number(name), None)
        self._lost(name, self._forget_member(name))

    def received(self, name: str, batch: Sequence[tuple[int, bytes]]) -> None:
        """What a server sent in one read."""
        self._received(self._members.get(name) or link_number(name), batch)
