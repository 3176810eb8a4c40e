"""Which routes are dialled: the next of a pool, one that ended, one whose place nobody fills.

Configured routes are dialled as long as they are configured, those of gossip as long as their peer was known. A pool is
dialled one route after the other: each when the one before has answered, since its credentials were right then.

What this is not: connecting, with pauses (`server.dialer`), hearing of servers (`gossip`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from slipstream.links.routes.targets import RouteTarget, route_target

if TYPE_CHECKING:
    from slipstream.config.listener_options import ClusterOptions
    from slipstream.links.routes.introduction import Introduction
    from slipstream.links.routes.link import RouteLink
    from slipstream.links.routes.roster import Roster

__all__ = ["DialRoute", "RouteDials"]


class DialRoute(Protocol):
    """Connects to a server of the cluster."""

    def __call__(self, target: RouteTarget, *, again: bool = False, soon: bool = False) -> None:
        """Now or (`again`) after a pause (`soon`: a short one), unless a route to it is no longer wanted."""
        ...


class RouteDials:
    """What one server dials of its cluster.

    Args:
        roster: the routes that there are.
        introduction: where this server is reached.
        options: the `cluster` block, as it is now.
        dial: connects.
    """

    def __init__(
        self, roster: Roster, introduction: Introduction, options: Callable[[], ClusterOptions], dial: DialRoute
    ) -> None:
        self._roster = roster
        self._introduction = introduction
        self._options = options
        self._dial = dial
        self._to_itself: set[str] = set()  # addresses of routes that lead to this server
        self._hurried: set[str] = set()  # addresses that were dialled again soon, and not reached since
        self._next: dict[RouteLink, RouteTarget] = {}  # one more route to dial when this one has answered

    def is_wanted(self, target: RouteTarget) -> bool:
        """Whether a route is still to be dialled: those that were configured as long as they are."""
        if target.replicas_of:
            return any(link.end.remote_name == target.replicas_of for link in self._roster.first_routes())
        if target.account and target.account not in self._roster.pinned:
            return False
        return not target.explicit or target.url in self._options().routes

    def configured_peers(self) -> set[str]:
        """Addresses of all configured routes but those that are known to lead to this server."""
        own = self._introduction
        targets = (route_target(url, explicit=True) for url in self._options().routes)
        known = {*self._to_itself, f"{own.host}:{own.port}".lower()}
        return {target.address for target in targets if target is not None} - known

    def leads_here(self, target: RouteTarget) -> None:
        """Who answers at an address is this server itself."""
        self._to_itself.add(target.address)

    def fill(self, link: RouteLink) -> None:
        """A route that this server dialled has a place: dial the next one of its pool when it is answered."""
        if link.target is not None and None in self._roster.pools.get(link.remote_id, ()):
            self._next[link] = link.target.again()
            link.end.keepalive.ask()

    def answered(self, link: RouteLink) -> None:
        """The peer of a route answers."""
        if link.target is not None:
            self._hurried.discard(link.target.address)
        target = self._next.pop(link, None)
        if target is not None and None in self._roster.pools.get(link.remote_id, ()):
            self._dial(target)

    def forget(self, link: RouteLink) -> None:
        """A route ended: nothing waits for its peer's answer."""
        self._next.pop(link, None)

    def again(self, link: RouteLink, *, was_known: bool) -> None:
        """A route ended, one of the roster (`was_known`) or not: dial it again, or another in its place."""
        is_dialled = False
        if link.target is not None and link.reconnects and (link.explicit or was_known):
            is_dialled = self.is_wanted(link.target)
            soon = link.names_differed and link.target.address not in self._hurried
            if soon:
                self._hurried.add(link.target.address)
            self._dial(link.target.again(account=link.account), again=True, soon=soon)
        if was_known and not is_dialled and not link.account:
            self._fill_place(link.remote_id)

    def _fill_place(self, remote_id: str) -> None:
        """A place of a pool is free that nobody dials for: a reload took its URL away after it was dialled."""
        pool = self._roster.pools.get(remote_id, ())
        if None in pool:
            for other in pool:
                if other is not None and other.target is not None and self.is_wanted(other.target):
                    self._dial(other.target.again(), again=True)
                    return
