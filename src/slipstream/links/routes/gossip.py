"""How servers of a cluster hear of each other, until each is connected to each.

A server tells the peers that it has of one that is new to it; who hears of a server that it does not know dials it.
How far that goes is said with it (`gossip_mode`): a route that came from gossip is told of no further, unless somebody
configured it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.links.routes.handshake import GOSSIP_DISABLED, GOSSIP_OVERRIDE, RouteInfo
from slipstream.links.routes.targets import RouteTarget, route_target
from slipstream.protocol import texts

if TYPE_CHECKING:
    from slipstream.config.listener_options import ClusterOptions
    from slipstream.links.routes.link import RouteLink
    from slipstream.links.routes.roster import Roster

__all__ = ["Gossip"]


class Gossip:
    """What is told of other servers, and what is made of it.

    Args:
        roster: the routes that there are.
        options: the `cluster` block, as it is now.
        dial: connects to a server that is new.
        log: writes a log line.
    """

    def __init__(
        self,
        roster: Roster,
        options: Callable[[], ClusterOptions],
        dial: Callable[[RouteTarget], None],
        log: Callable[[str, str], None],
    ) -> None:
        self._roster = roster
        self._options = options
        self._dial = dial
        self._log = log

    def tell(self, link: RouteLink, info: RouteInfo) -> None:
        """Tell the others of a server that is new here."""
        by_gossip = link.solicited and not link.explicit
        mode = 0 if link.target is None else link.target.gossip_mode
        if (by_gossip and mode != GOSSIP_OVERRIDE) or info.gossip_mode == GOSSIP_DISABLED:
            return
        info.nonce = ""
        told = set[str]()
        others = [*self._roster.pinned.get(link.account, {}).values(), *self._roster.first_routes()]
        for other in others:
            if other.remote_id == info.server_id or other.remote_id in told or (link.account and other.unpooled):
                continue
            told.add(other.remote_id)
            if link.explicit if link.solicited else other.explicit:
                info.gossip_mode = GOSSIP_OVERRIDE
            else:
                info.gossip_mode = 0 if link.solicited else GOSSIP_DISABLED
            other.outbox.write(info.line())

    def heard(self, info: RouteInfo) -> None:
        """Another server is told of: connect to it, unless that was done, or is configured."""
        options, roster = self._options(), self._roster
        if info.route_account:
            links = roster.pinned.get(info.route_account)
            if options.pool_size <= 0 or links is None or info.server_id in links:
                return
        elif info.server_id in roster.pools:
            return
        credentials = (options.user, options.password) if info.auth_required else ("", "")
        target = route_target(
            info.ip, explicit=False, account=info.route_account, gossip_mode=info.gossip_mode, credentials=credentials
        )
        if target is None:
            self._log("ERR", f"Error in URL of a route: {texts.escaped(info.ip[:256])}")
            return
        addresses = {target.address, f"{info.host}:{info.port}".lower()}
        configured = (route_target(url, explicit=True) for url in options.routes)
        if not any(other is not None and other.address in addresses for other in configured):
            self._dial(target)
