"""Which routes there are: a pool for each peer, and one route more for each account that has its own.

peer ──► pool: `pool_size` routes, each with the accounts whose name hashes to its place
     └─► pinned: one route more for each account that is configured to have its own
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.links.routes.handshake import RouteInfo
    from slipstream.links.routes.link import RouteLink

__all__ = ["Roster", "pool_place"]


def pool_place(pool_size: int, account: str) -> int:
    """Which route of a pool an account has; all servers find the same."""
    if pool_size <= 1:
        return 0
    mixed = 2166136261
    for byte in account.encode():
        mixed = (mixed ^ byte) * 16777619 & 0xFFFFFFFF
    return mixed % pool_size


class Roster:
    """The READY routes of one server."""

    def __init__(self, accounts: Iterable[str]) -> None:
        self.pools: dict[str, list[RouteLink | None]] = {}  # by the peer's id
        self.pinned: dict[str, dict[str, RouteLink]] = {name: {} for name in accounts}  # by account and peer

    def routes(self) -> list[RouteLink]:
        """All of them."""
        return self.pooled() + [link for links in self.pinned.values() for link in links.values()]

    def pooled(self) -> list[RouteLink]:
        """Those of all pools."""
        return [link for pool in self.pools.values() for link in pool if link is not None]

    def first_routes(self) -> list[RouteLink]:
        """One to each peer."""
        found = (next((link for link in pool if link is not None), None) for pool in self.pools.values())
        return [link for link in found if link is not None]

    def at(self, place: int) -> list[RouteLink]:
        """Those with one place in the pools; peers without pools have none."""
        found = [pool[place] for pool in self.pools.values() if place < len(pool)]
        return [link for link in found if link is not None and not link.unpooled]

    def of_account(self, account: str, pool_size: int) -> list[RouteLink]:
        """Those over which interest of an account is told."""
        unpooled = [link for link in self.first_routes() if link.unpooled]
        if account in self.pinned:
            return [*self.pinned[account].values(), *unpooled]
        return self.at(pool_place(pool_size, account)) + unpooled

    def give_way(self, link: RouteLink, info: RouteInfo, own_id: str) -> RouteLink | None:
        """Free the place of a route that this server dialled while its peer dialled the one that is to stay.

        A peer asks for a place that it has given to nobody: what was dialled from here is not there yet, or gone. Of
        two servers of this kind the one with the larger id gives way; nats-server keeps what it has dialled.
        """
        pool: list[RouteLink | None] = []
        if link.account:
            held = self.pinned[link.account].get(link.remote_id)
        else:
            pool = self.pools.get(link.remote_id, pool)
            place = 0 if link.unpooled else info.route_pool_idx
            held = pool[place] if place < len(pool) else None
        stays = info.server_id < own_id if info.slipstream_crossing else not link.unpooled
        if held is None or link.dialled or not held.dialled or not stays:
            return None
        if link.account:
            del self.pinned[link.account][link.remote_id]
        else:
            pool[held.place] = None
        return held

    def pin(self, link: RouteLink) -> bool:
        """Add a route of one account, unless its peer has one already."""
        links = self.pinned[link.account]
        kept = links.setdefault(link.remote_id, link)
        if kept is not link:
            kept.inherit(link)
        return kept is link

    def enter(self, link: RouteLink, size: int, asked: int) -> bool:
        """Give a route a place in its peer's pool: a free one, or what a peer that dialled asks for.

        False: that is taken.
        """
        pool = self.pools.get(link.remote_id) or []
        pool.extend([None] * (size - len(pool)))
        if link.solicited:
            place = next((at for at, other in enumerate(pool) if other is None), -1)
        else:
            place = 0 if link.unpooled else asked
        if place < 0 or pool[place] is not None:
            next(other for other in pool if other is not None).inherit(link)
            return False
        self.pools[link.remote_id] = pool
        pool[place] = link
        link.place = place
        return True

    def share_target(self, peer: str) -> None:
        """All routes of a pool are dialled again if one of them would be."""
        pool = [link for link in self.pools[peer] if link is not None]
        known = next((link for link in pool if link.solicited), None)
        if known is not None:
            for link in pool:
                link.inherit(known)

    def drop(self, link: RouteLink) -> tuple[bool, bool]:
        """Forget a route; whether it was one, and whether its peer is gone with it."""
        if link.account and self.pinned.get(link.account, {}).get(link.remote_id) is link:
            del self.pinned[link.account][link.remote_id]
            return True, False
        pool = self.pools.get(link.remote_id)
        if pool is None or not 0 <= link.place < len(pool) or pool[link.place] is not link:
            return False, False
        pool[link.place] = None
        if any(pool):
            return True, False
        del self.pools[link.remote_id]
        return True, True
