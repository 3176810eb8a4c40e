"""Which cluster is told what of the interest here: all of it to a server that is new, and each change as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slipstream.links.gateways.handshake import ALL_COMPLETE, ALL_START, GatewayInfo
from slipstream.links.gateways.interest import Asked, ClusterInterest, told_line

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.imports import StreamImport
    from slipstream.links.gateways.inbound import InboundGateway
    from slipstream.routing.hub import Hub

__all__ = ["ClusterTelling"]


class ClusterTelling:
    """The interest of one cluster on its way to the others.

    Args:
        hub: accounts.
        cluster: the name of this one.
        subscribed: is told of each subscription at this server: the account and the subject.
    """

    def __init__(self, hub: Hub, cluster: str, subscribed: Callable[[str, bytes], None]) -> None:
        self._hub = hub
        self._cluster = cluster
        self._interest = ClusterInterest(self._imports, self._tell, subscribed)
        self.links: dict[int, InboundGateway] = {}  # those that are told, by number

    def watch(self, account: Account) -> bool:
        """Count what an account wants, and tell it; False if that is done already."""
        if not self._interest.watch(account):
            return False
        for link in self.links.values():
            self._hub.in_steps(self._account(link, account.name))
        return True

    def begin(self, link: InboundGateway) -> None:
        """A server of another cluster is there."""
        self.links[link.cid] = link
        self._hub.in_steps(self._all(link))

    def tell(self, line: bytes) -> None:
        """Say something to all of them."""
        for link in self.links.values():
            link.outbox.write(line)

    def _imports(self, account: str) -> tuple[StreamImport, ...]:
        resolved = self._hub.topology.graph.accounts.get(account)
        return () if resolved is None else tuple(resolved.stream_imports)

    def _tell(self, account: str, asked: Asked, wanted: bool) -> None:
        if not self.links:
            return
        line = told_line(account.encode() + b" ", asked, wanted=wanted)
        for link in self.links.values():
            if asked[1] is not None or account in link.told:
                link.outbox.write(line)

    def _all(self, link: InboundGateway) -> Iterator[None]:
        for piece in self._interest.queue_lines():
            if not link.end.is_open:
                return
            link.outbox.write(piece)
            yield
        for account in list(self._hub.accounts):
            yield from self._account(link, account)

    def _account(self, link: InboundGateway, account: str) -> Iterator[None]:
        """All interest of one account, between two INFOs; from the first one on each change is told."""
        if account in link.told or not link.end.is_open:
            return
        link.told.add(account)
        link.present(account)
        link.outbox.write(self._command(ALL_START, account))
        for piece in self._interest.plain_lines(account):
            if not link.end.is_open:
                return
            link.outbox.write(piece)
            yield
        link.outbox.write(self._command(ALL_COMPLETE, account))

    def _command(self, command: int, account: str) -> bytes:
        return GatewayInfo(gateway=self._cluster, gateway_cmd=command, gateway_cmd_payload=account.encode()).line()
