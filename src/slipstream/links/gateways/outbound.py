"""One connection to a server of another cluster that this one dialled: messages leave over it, and interest comes.

GREETED (waits for INFO) ──INFO──► READY (CONNECT and INFO sent) ──► CLOSED
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from slipstream.kernels.subjects.subject import is_valid_subscription
from slipstream.links.gateways.ends import gateway_end
from slipstream.links.gateways.handshake import GatewayInfo
from slipstream.links.gateways.wants import RemoteWants
from slipstream.protocol import texts
from slipstream.protocol.texts import CloseReason

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.links.gateways.remotes import GatewayAddress, RemoteCluster
    from slipstream.protocol.peer import Peer
    from slipstream.routing.hub import Hub

__all__ = ["OutboundGateway"]

_OTHER_JETSTREAM: Final = b"$NRG."  # what groups of a JetStream cluster of nats-server listen to, and nobody else does


class OutboundHost(Protocol):
    """What an outbound connection needs of the supercluster and its server."""

    @property
    def hub(self) -> Hub: ...
    def log(self, level: str, text: str) -> None: ...
    def account_named(self, name: str) -> Account | None: ...
    def on_outbound_info(self, link: OutboundGateway, info: GatewayInfo) -> None: ...
    def on_replica_message(self, link: OutboundGateway, group: bytes, body: bytes) -> None: ...
    def on_foreign_jetstream(self, link: OutboundGateway) -> None: ...
    def on_outbound_pong(self, link: OutboundGateway) -> None: ...
    def outbound_closed(self, link: OutboundGateway, reason: CloseReason) -> None: ...


class OutboundGateway:
    """One connection to another cluster. The parser's sink."""

    solicited = True

    def __init__(
        self,
        host: OutboundHost,
        peer: Peer,
        remote: RemoteCluster,
        address: GatewayAddress,
        *,
        for_replicas: bool = False,
    ) -> None:
        self.end = end = gateway_end(host.hub, self, peer, host.log, self._closed)
        # What of the end never changes is the link's, too.
        self.cid, self.peer, self.outbox, self.link, self.parser = end.cid, peer, end.outbox, end.link, end.parser
        self.close, self.refuse, self.log = end.close, end.refuse, end.log
        self.end.remote_cluster = remote.name
        self.remote = remote
        self.for_replicas = for_replicas  # it carries what replicas say, no more
        self.address = address
        self.remote_id = ""
        self.wants: RemoteWants | None = None  # from READY on
        self.reconnects = True
        self.watches_jetstream = False  # the peer is no server of this kind, and must have no JetStream
        self._host = host

    def begin(self, wants: RemoteWants) -> None:
        """The handshake is over: take interest from now on."""
        self.wants = wants
        for account in list(self._host.hub.accounts.values()):
            wants.join(account)
        self.end.begin()

    def _closed(self, reason: CloseReason) -> None:
        wants, self.wants = self.wants, None
        if wants is not None:
            wants.leave(self._host.hub.in_steps)
        self._host.outbound_closed(self, reason)

    # --- what the parser calls ---------------------------------------------------------------------------------------

    def on_info(self, text: bytes) -> None:
        """INFO of the peer, the first one or a later one."""
        info = self.end.read(text, GatewayInfo, "INFO")
        if info is not None:
            self._host.on_outbound_info(self, info)

    def on_connect(self, _text: bytes) -> None:
        """Who was dialled does not say CONNECT."""
        self.refuse(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)

    def on_ping(self) -> None:
        """The peer asks whether this server lives."""
        self.end.keepalive.answer()

    def on_pong(self) -> None:
        """The peer lives."""
        self.end.keepalive.answered()
        self._host.on_outbound_pong(self)

    def on_wanted(self, account: bytes, subjects: list[bytes]) -> None:
        """The other cluster wants all these subjects, none in a queue group."""
        valid = [subject for subject in subjects if is_valid_subscription(subject)]
        if len(valid) != len(subjects):
            for subject in subjects:
                if not is_valid_subscription(subject):
                    self.end.refuse_subject(subject)
        if self.watches_jetstream and any(subject.startswith(_OTHER_JETSTREAM) for subject in subjects):
            self._host.on_foreign_jetstream(self)
        if self.wants is not None:
            self.wants.add_all(account, valid)

    def on_interest(
        self, account: bytes, subject: bytes, queue: bytes | None, weight: int, _origin: bytes | None
    ) -> None:
        """The other cluster wants a subject."""
        if not is_valid_subscription(subject):
            self.end.refuse_subject(subject)
        elif self.wants is not None:
            self.wants.add(account, subject, queue, weight)

    def on_interest_gone(self, account: bytes, subject: bytes, queue: bytes | None, _origin: bytes | None) -> None:
        """It does not want it."""
        if self.wants is not None:
            self.wants.remove(account, subject, queue)

    def on_account(self, account: bytes, wanted: bool) -> None:
        """Nobody wants anything in an account there, or somebody does again."""
        if self.wants is not None:
            (self.wants.account_back if wanted else self.wants.account_gone)(account)

    def on_unknown_account(self, account: bytes) -> bool:
        """A message: these come over connections that the other side dialled."""
        self._refuse_message(account)
        return False

    def may_publish(self, _account: bytes, _subject: bytes) -> bool:
        """Never asked: no message is taken."""
        return False

    def on_addressed(
        self, account: bytes, _subject: bytes, _reply: bytes | None, _header_size: int, _body: bytes
    ) -> None:
        """A message."""
        self._refuse_message(account)

    def on_message(
        self,
        account: bytes,
        subject: bytes,
        _reply: bytes | None,
        _queues: tuple[bytes, ...] | None,
        _origin: bytes | None,
        _header_size: int,
        body: bytes,
    ) -> None:
        """A message: of replicas, if the connection is for them."""
        if self.for_replicas:
            self._host.on_replica_message(self, subject, body)
        else:
            self._refuse_message(account)

    def _refuse_message(self, account: bytes) -> None:
        self.log("ERR", f"Received a message of account {texts.quoted(account)} on an outbound gateway connection")
        self.close(CloseReason.PROTOCOL_VIOLATION)

    def on_peer_error(self, text: bytes) -> None:
        """The peer complains, and mostly ends the connection then."""
        self.end.complained(text)

    def on_violation(self, kind: int, line: bytes) -> None:
        """The bytes make no sense or break a limit; the parser takes no more."""
        self.end.violated(kind, line)
