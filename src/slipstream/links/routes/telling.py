"""Which peer is told what of the interest here: each change as it comes, and all of it to a peer that is new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from slipstream.auth.permissions import Permissions
from slipstream.links.routes.interest import LocalInterest, Wanted, wanted_line
from slipstream.links.routes.roster import pool_place

if TYPE_CHECKING:
    from slipstream.accounts.imports import StreamImport
    from slipstream.kernels.wire.outbox import Outbox
    from slipstream.links.routes.link import RouteLink
    from slipstream.links.routes.roster import Roster
    from slipstream.routing.hub import Hub

__all__ = ["InterestTelling"]


class InterestTelling:
    """The interest of one server on its way to the others."""

    def __init__(self, hub: Hub, roster: Roster) -> None:
        self._hub = hub
        self._roster = roster
        self.rights = Permissions.compile(hub.options.cluster.permissions)  # publish: import, subscribe: export
        self.interest = LocalInterest(self._imports, self._tell)
        # Where interest of an account is told, by what stands before the subject. Found once: subscriptions are many.
        self._ways: dict[str, list[tuple[bytes, list[Outbox]]]] = {}

    @property
    def pool_size(self) -> int:
        """Routes of a pool, as far as this server has a say."""
        return max(self._hub.options.cluster.pool_size, 1)

    def watch_accounts(self) -> None:
        """Count the interest of accounts that came."""
        for account in list(self._hub.accounts.values()):
            self.interest.watch(account)

    def use_rights(self) -> Permissions | None:
        """Take over the permissions of the options as they are now; those that held before."""
        before, self.rights = self.rights, Permissions.compile(self._hub.options.cluster.permissions)
        return before

    def may_ask(self, subject: bytes) -> bool:
        """Whether other servers may be asked for a subject (`import`)."""
        return self.rights is None or self.rights.may_publish(subject)

    def routes_changed(self) -> None:
        """Routes came or went, or accounts have other ones: who is told is found anew."""
        self._ways.clear()

    def announce(self, link: RouteLink, accounts: list[str] | None = None) -> None:
        """Tell a peer of all interest here: of these accounts, or of all that the route has."""
        self._hub.in_steps(self._announced(link, self._accounts_of(link) if accounts is None else accounts))

    def _imports(self, account: str) -> tuple[StreamImport, ...]:
        resolved = self._hub.topology.graph.accounts.get(account)
        return () if resolved is None else tuple(resolved.stream_imports)

    def _tell(self, account: str, wanted: Wanted, count: int) -> None:
        if self.rights is not None and not self.may_ask(wanted[0]):
            return
        ways = self._ways.get(account)
        if ways is None:
            ways = self._ways[account] = self._ways_of(account)
        for prefix, outboxes in ways:
            line = wanted_line(prefix, wanted, count)
            for outbox in outboxes:
                outbox.write(line)

    def _ways_of(self, account: str) -> list[tuple[bytes, list[Outbox]]]:
        found: dict[bytes, list[Outbox]] = {}
        for link in self._roster.of_account(account, self.pool_size):
            found.setdefault(link.prefix(account), []).append(link.outbox)
        return list(found.items())

    def _accounts_of(self, link: RouteLink) -> list[str]:
        if link.account:
            return [link.account]
        names = list(self._hub.accounts)
        if link.unpooled:
            return names
        size, pinned = self.pool_size, self._roster.pinned
        return [name for name in names if name not in pinned and pool_place(size, name) == link.place]

    def _announced(self, link: RouteLink, accounts: list[str]) -> Iterator[None]:
        for piece in self.interest.lines(accounts, link.prefix, self.may_ask):
            if not link.end.is_open:
                return
            link.outbox.write(piece)
            yield
