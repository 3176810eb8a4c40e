"""Leaf links as /connz lists them, beside clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.kernels.links.linkparser import LinkParser
    from slipstream.kernels.wire.outbox import Outbox
    from slipstream.kernels.wire.receivers import Subscription
    from slipstream.links.leafs.link import LeafLink
    from slipstream.protocol.peer import Peer

__all__ = ["LeafRow"]


class LeafRow:
    """A candidate for a page: an open leaf link."""

    __slots__ = ("cid", "closed", "link", "outbox", "parser", "peer")

    def __init__(self, link: LeafLink) -> None:
        self.link = link
        self.cid: int = link.cid
        self.outbox: Outbox = link.outbox
        self.parser: LinkParser = link.parser
        self.peer: Peer = link.peer
        self.closed: None = None

    @property
    def subscription_count(self) -> int:
        """How many subjects the other server wants."""
        return self.link.subscription_count

    @property
    def start_ns(self) -> int:
        """When it was opened."""
        return self.link.end.start_ns

    @property
    def last_activity_ns(self) -> int:
        """When something went over it last."""
        return self.link.end.last_activity_ns

    @property
    def rtt_ns(self) -> int:
        """How long the last ping took; 0 before the first answer."""
        return self.link.end.keepalive.rtt_ns

    @property
    def account(self) -> str:
        """Whose it is."""
        return "" if self.link.account is None else self.link.account.name

    @property
    def name(self) -> str:
        """The server that dialled, as it calls itself; a server that was dialled has none."""
        return "" if self.link.solicited else self.link.end.remote_name

    @property
    def user(self) -> str:
        """As whom the other server was let in."""
        return "" if self.link.identity is None else self.link.identity.user

    def stop_ns(self, now_ns: int) -> int:
        """It is open."""
        return now_ns

    def subscriptions(self) -> list[Subscription]:
        """What the other server wants."""
        return [] if self.link.member is None else self.link.member.subscriptions()
