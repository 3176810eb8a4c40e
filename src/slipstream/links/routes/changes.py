"""What changes while routes are there: permissions and accounts with a route of their own, here and at peers.

An account that moves to a route of its own is prepared on both sides before that route is dialled: the server that was
reloaded tells its peers, who forget what was asked over the pool and answer.

    reloaded: INFO {account, request} ──► peer: forgets, listens for the route
              dials                   ◄── INFO {request}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.links.routes.handshake import RouteInfo
from slipstream.links.routes.interest import wanted_line
from slipstream.links.routes.roster import pool_place
from slipstream.protocol.texts import CloseReason

if TYPE_CHECKING:
    from slipstream.config.listener_options import ClusterOptions
    from slipstream.links.routes.link import RouteLink
    from slipstream.links.routes.mesh import Mesh
    from slipstream.links.routes.targets import RouteTarget

__all__ = ["RouteChanges"]


class RouteChanges:
    """Changes of one mesh."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._moving: dict[str, list[str]] = {}  # request → accounts whose routes are dialled when a peer agrees

    # --- a reload here -----------------------------------------------------------------------------------------------

    def reload(self, before: ClusterOptions, request: str) -> None:
        """Other options hold: follow them as far as routes that are there are concerned.

        Args:
            before: the block as it was.
            request: a new name, for what peers have to agree to.
        """
        mesh = self._mesh
        mesh.telling.routes_changed()
        now = mesh.hub.options.cluster
        if now.name and now.name != before.name:
            mesh.introduction.cluster, mesh.introduction.dynamic = now.name, False
            mesh.log("INF", f"Cluster name updated to {now.name}")
        if now.permissions != before.permissions:
            self._change_rights()
        if now.compression != before.compression:
            # Agreed upon anew, with new connections.
            for link in mesh.roster.routes():
                link.close(CloseReason.CLIENT_CLOSED)
        pooled = mesh.roster.pooled() if now.pool_size != before.pool_size else []
        self._unpin([name for name in before.accounts if name not in now.accounts])
        self._pin([name for name in now.accounts if name not in before.accounts], request)
        for link in pooled:
            # Another number of routes is agreed upon anew.
            link.close(CloseReason.ROUTE_REMOVED)

    def _change_rights(self) -> None:
        mesh = self._mesh
        before = mesh.telling.use_rights()
        line = mesh.introduction.info(None).line()
        for link in mesh.roster.routes():
            link.outbox.write(line)
            link.use_rights(mesh.rights)
        for account in list(mesh.account_names()):
            links = mesh.roster.of_account(account, mesh.telling.pool_size)
            for wanted, count in mesh.telling.interest.wanted(account):
                could = before is None or before.may_publish(wanted[0])
                may = mesh.telling.may_ask(wanted[0])
                if could == may:
                    continue
                for link in links:
                    link.outbox.write(wanted_line(link.prefix(account), wanted, count if may else 0))

    def _unpin(self, accounts: list[str]) -> None:
        mesh = self._mesh
        for account in accounts:
            for link in list(mesh.roster.pinned.get(account, {}).values()):
                link.reconnects = False
                link.close(CloseReason.ROUTE_REMOVED)
            mesh.roster.pinned.pop(account, None)
            mesh.telling.routes_changed()
            for link in mesh.roster.at(pool_place(mesh.telling.pool_size, account)):
                mesh.telling.announce(link, [account])

    def _pin(self, accounts: list[str], request: str) -> None:
        roster, size = self._mesh.roster, self._mesh.telling.pool_size
        if accounts:
            self._moving = {request: accounts}
        for account in accounts:
            roster.pinned.setdefault(account, {})
            self._mesh.telling.routes_changed()
            line = RouteInfo(route_pool_size=size, route_account=account, route_acc_add_reqid=request).line()
            for link in roster.at(pool_place(size, account)):
                link.forget(account)
                link.outbox.write(line)

    # --- what peers say ----------------------------------------------------------------------------------------------

    def account_moves(self, link: RouteLink, info: RouteInfo) -> list[RouteTarget]:
        """A peer tells that an account gets its own route, or agrees to that; what is to be dialled now."""
        roster = self._mesh.roster
        if info.route_account:
            if self._mesh.account_named(info.route_account) is None:
                link.log("ERR", "Error looking up an account that is to have its own route")
                return []
            roster.pinned.setdefault(info.route_account, {})
            self._mesh.telling.routes_changed()
            for other in roster.at(pool_place(info.route_pool_size, info.route_account)):
                other.forget(info.route_account)
            info.route_account = ""
            link.outbox.write(info.line())
            return []
        target = link.target
        if target is None:
            return []
        accounts = self._moving.get(info.route_acc_add_reqid, ())
        return [target.again(account=name) for name in accounts if link.remote_id not in roster.pinned.get(name, {})]

    def peer_changed(self, link: RouteLink, info: RouteInfo) -> None:
        """A peer has other permissions: what it refused before is asked for again."""
        known = link.info
        if known is None or (known.imports, known.exports) == (info.imports, info.exports):
            return
        known.imports, wider = info.imports, known.exports != info.exports
        known.exports = info.exports
        if wider:
            self._mesh.telling.announce(link)
