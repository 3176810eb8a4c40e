"""One connection that a server of another cluster dialled: messages come over it, and interest leaves.

GREETED (INFO sent) ──CONNECT──► AUTHENTICATING ──INFO──► READY ──► CLOSED
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from slipstream.kernels.links.linkparser import EARLY_OPERATION, UNKNOWN_OPERATION
from slipstream.links.gateways.ends import gateway_end
from slipstream.links.gateways.handshake import GatewayConnect, GatewayInfo
from slipstream.links.presence import LinkMember
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.protocol.peer import Peer
    from slipstream.routing.hub import Hub

__all__ = ["InboundGateway"]

_ABSENT_MAX: Final = 10_000  # accounts that a peer names and that are not known here


class InboundHost(Protocol):
    """What an inbound connection needs of the supercluster and its server."""

    @property
    def hub(self) -> Hub: ...
    def log(self, level: str, text: str) -> None: ...
    def account_named(self, name: str) -> Account | None: ...
    def on_inbound_connect(self, link: InboundGateway, connect: GatewayConnect) -> None: ...
    def on_inbound_info(self, link: InboundGateway, info: GatewayInfo) -> None: ...
    def on_addressed(
        self, member: LinkMember, subject: bytes, reply: bytes | None, header_size: int, body: bytes, *, routed: bool
    ) -> None: ...
    def on_replica_message(self, link: InboundGateway, group: bytes, body: bytes) -> None: ...
    def inbound_closed(self, link: InboundGateway, reason: CloseReason) -> None: ...


class InboundGateway:
    """One connection from another cluster. The parser's sink."""

    solicited = reconnects = False

    def __init__(self, host: InboundHost, peer: Peer) -> None:
        self.end = end = gateway_end(host.hub, self, peer, host.log, self._closed)
        # What of the end never changes is the link's, too.
        self.cid, self.peer, self.outbox, self.link, self.parser = end.cid, peer, end.outbox, end.link, end.parser
        self.close, self.refuse, self.log = end.close, end.refuse, end.log
        self.parser.arrivals.addressed = True
        self.for_replicas = False  # it carries what replicas say, no more
        self.remote_id = ""
        self.told: set[str] = set()  # accounts whose interest the peer is told
        self._members: dict[bytes, LinkMember] = {}
        self._absent: set[bytes] = set()  # accounts that the peer was told nobody is in (`A-`)
        self._host = host

    @property
    def cluster(self) -> str:
        """The name of the other cluster."""
        return self.end.remote_cluster

    def begin(self) -> None:
        """The handshake is over: take messages from now on."""
        self.parser.arrivals.fast = True
        self.end.begin()

    def present(self, account: str) -> None:
        """An account is known now; what is told of it from here on takes back that it was not."""
        self._absent.discard(account.encode())

    def _closed(self, reason: CloseReason) -> None:
        self._members = {}
        self._host.inbound_closed(self, reason)

    # --- what the parser calls ---------------------------------------------------------------------------------------

    def on_connect(self, text: bytes) -> None:
        """CONNECT of the peer."""
        if self.end.state is not State.GREETED:
            self.refuse(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)
            return
        connect = self.end.read(text, GatewayConnect, "CONNECT")
        if connect is not None:
            self._host.on_inbound_connect(self, connect)

    def on_info(self, text: bytes) -> None:
        """INFO of the peer; what it says later about itself it says to those that it dialled."""
        if not self._has_said_who_it_is():
            return
        info = self.end.read(text, GatewayInfo, "INFO")
        if info is not None and self.end.state is State.AUTHENTICATING:
            self._host.on_inbound_info(self, info)

    def on_ping(self) -> None:
        """The peer asks whether this server lives."""
        if self._has_said_who_it_is():
            self.end.keepalive.answer()

    def on_pong(self) -> None:
        """The peer lives."""
        if self._has_said_who_it_is():
            self.end.keepalive.answered()

    def _has_said_who_it_is(self) -> bool:
        """Nothing comes before CONNECT, however harmless; whoever says something else is ended."""
        if self.end.state is State.GREETED:
            self.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)
            return False
        return True

    def on_wanted(self, _account: bytes, _subjects: list[bytes]) -> None:
        """Interest comes over connections that this side dialled."""
        self._refuse_interest("RS+")

    def on_interest(
        self, _account: bytes, _subject: bytes, _queue: bytes | None, _weight: int, _origin: bytes | None
    ) -> None:
        """The same."""
        self._refuse_interest("RS+")

    def on_interest_gone(self, _account: bytes, _subject: bytes, _queue: bytes | None, _origin: bytes | None) -> None:
        """The same."""
        self._refuse_interest("RS-")

    def on_account(self, _account: bytes, wanted: bool) -> None:
        """The same."""
        self._refuse_interest("A+" if wanted else "A-")

    def _refuse_interest(self, verb: str) -> None:
        self.log("ERR", f"Received {verb} from gateway on inbound connection")
        self.close(CloseReason.PROTOCOL_VIOLATION)

    def on_unknown_account(self, account: bytes) -> bool:
        """A message for an account that this connection has not seen yet."""
        return self._member(account) is not None

    def may_publish(self, _account: bytes, _subject: bytes) -> bool:
        """Never asked: rights were checked where the client is."""
        return True

    def on_addressed(self, account: bytes, subject: bytes, reply: bytes | None, header_size: int, body: bytes) -> None:
        """An answer with the address of a cluster and a server."""
        member = self._member(account)
        if member is not None:
            self._host.on_addressed(member, subject, reply, header_size, body, routed=False)

    def on_message(
        self,
        account: bytes,
        subject: bytes,
        reply: bytes | None,
        queues: tuple[bytes, ...] | None,
        _origin: bytes | None,
        header_size: int,
        body: bytes,
    ) -> None:
        """A message that the parser does not deliver by itself."""
        if self.for_replicas:
            self._host.on_replica_message(self, subject, body)
            return
        member = self._member(account)
        if member is not None:
            member.arrived(self._host.hub, subject, reply, queues, None, header_size, body)

    def on_peer_error(self, text: bytes) -> None:
        """The peer complains, and mostly ends the connection then."""
        if self._has_said_who_it_is():
            self.end.complained(text)

    def on_violation(self, kind: int, line: bytes) -> None:
        """The bytes make no sense or break a limit; the parser takes no more."""
        if self.end.state is State.GREETED and kind == UNKNOWN_OPERATION:
            kind = EARLY_OPERATION  # whoever is not known is told no more than that
        self.end.violated(kind, line)

    def _member(self, name: bytes) -> LinkMember | None:
        """The peer in an account; None for one that is not known here, which the peer is told once."""
        member = self._members.get(name)
        if member is None:
            account = self._host.account_named(name.decode("utf-8", "replace"))
            if account is None:
                if name not in self._absent and len(self._absent) < _ABSENT_MAX:
                    self._absent.add(name)
                    self.log("DBG", f"Unknown account {texts.quoted(name)} for gateway message")
                    self.outbox.write(b"A- %b\r\n" % name)
                return None
            member = self._members[name] = LinkMember(self.end, account, self.link, name + b" ")
            self.parser.arrivals.admit(name, account.interest, member)
        return member
