"""This server's end of a link to another server: what routes, leaf links and all other kinds have in common.

    GREETED ──► [AUTHENTICATING] ──► READY ──► CLOSED
       from every state: violation, timeout, peer gone ┘

A link of one kind *has* an end. The end has the connection's number, its outbox and its parser, and knows how a link
closes, complains and is logged; what is said over it, and when it is READY, is the business of its kind, which is the
parser's sink. The socket (`server.link_protocol`) knows ends alone, so it serves every kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from slipstream.errors import UNREADABLE
from slipstream.kernels.links import linkparser as wire
from slipstream.kernels.links.linkparser import LinkParser
from slipstream.kernels.wire.outbox import Outbox
from slipstream.kernels.wire.receivers import Link
from slipstream.links.gateways.addresses import short_hash
from slipstream.links.keepalive import Keepalive
from slipstream.protocol import texts
from slipstream.protocol.host import State
from slipstream.protocol.texts import CloseReason, error_line

if TYPE_CHECKING:
    from slipstream.kernels.links.linkparser import LinkSink
    from slipstream.kernels.wire.interest import Interest
    from slipstream.protocol.peer import Peer
    from slipstream.routing.hub import Hub

__all__ = ["LinkEnd", "LinkWords"]

_ERROR_SHOWN = 256  # characters of a peer's complaint that the log shows
_LINE_SHOWN = 64  # bytes of a line that nobody understands

Document = TypeVar("Document")


class LinkWords(NamedTuple):
    """How logs speak of one kind of links."""

    tag: str  # before the number of a connection
    what: str
    name: str
    reader: str


class LinkEnd:
    """One connection to another server, as its socket and its kind know it.

    Args:
        hub: options, clock, delivery.
        sink: the link of a kind, which the parser calls.
        peer: the other end.
        words: how logs speak of it.
        kind: of the kernel's `Link`.
        max_payload: of a message that comes, -1 for any.
        max_line: bytes of a line that comes.
        log: writes a log line.
        on_closed: the rest of closing, called once.
    """

    def __init__(
        self,
        hub: Hub,
        sink: LinkSink,
        peer: Peer,
        words: LinkWords,
        *,
        kind: int,
        max_payload: int,
        max_line: int,
        log: Callable[[str, str], None],
        on_closed: Callable[[CloseReason], None],
    ) -> None:
        self.cid = hub.next_cid()
        self.peer = peer
        self.start_ns = self.last_activity_ns = self.last_read_ns = hub.now_ns()
        self.state = State.GREETED
        self.close_reason: CloseReason | None = None
        self.outbox = Outbox(hub.flush_queue, self, hub.options.max_pending)
        self.link = Link(kind, self.outbox)
        if hub.delivery.name is None:
            hub.delivery.name = short_hash(hub.identity.id)
        self.parser = LinkParser(sink, self.link, hub.delivery, max_payload, max_line)
        self.keepalive = Keepalive(self.outbox, hub.now_ns)
        self.remote_name = ""  # of the other server, as it told
        self.remote_cluster = ""  # of the other server, if it is another one than this server's
        self.understands_traces = False  # the other server tells where a traced message goes there
        self.compression = ""  # as both ends agreed; empty before
        self.of_clients = True  # what comes is what clients of the other server sent, or want
        self.edge: object = None  # the transport side; only the edge looks at it
        self._words = words
        self._log = log
        self._on_closed = on_closed

    @property
    def is_open(self) -> bool:
        """Whether it was not closed."""
        return self.state is not State.CLOSED

    # --- life cycle --------------------------------------------------------------------------------------------------

    def authenticating(self) -> None:
        """The peer has said who it is, or was told who this is; somebody decides now."""
        self.state = State.AUTHENTICATING

    def told_of(self, server_id: str, *, hands_on: bool) -> None:
        """The peer said who it is, and whether it hands on what members of its queue groups may not have."""
        self.link.name = short_hash(server_id) if hands_on else None

    def begin(self, *, of_clients: bool = True) -> None:
        """The handshake is over: take messages and interest from now on."""
        self.of_clients = of_clients
        self.state = State.READY
        self.parser.ready = True

    def begin_replicas(self, nobody: Interest, largest: int) -> None:
        """The handshake is over, and messages are of replicas: each is named by its group, and is of no account."""
        self.outbox.limit = max(self.outbox.limit, 2 * largest)
        self.parser.max_payload = largest
        self.parser.named_accounts = self.parser.arrivals.fast = self.parser.arrivals.addressed = False
        self.parser.arrivals.admit(b"", nobody, None)
        self.begin(of_clients=False)

    def close(self, reason: CloseReason, error: str | None = None) -> None:
        """End the link: say why if there is a text for it, and let the kind forget what the peer wanted."""
        if self.state is State.CLOSED:
            return
        if error is not None:
            self.outbox.write(error_line(error))
        self.state = State.CLOSED
        self.close_reason = reason
        self.parser.stop()
        self._on_closed(reason)

    def refuse(self, reason: CloseReason, error: str) -> None:
        """End the link with an error that is logged here, too."""
        self.log("ERR", error)
        self.close(reason, error)

    def overflowed(self, limit: int) -> None:
        """End a peer that has not read the more than `limit` bytes that wait for it."""
        self.log("INF", f"Slow Consumer Detected: MaxPending of {limit} Exceeded")
        self.close(CloseReason.SLOW_CONSUMER_PENDING)

    def log(self, level: str, text: str) -> None:
        """A log line about this link."""
        host = f"[{self.peer.ip}]" if ":" in self.peer.ip else self.peer.ip
        self._log(level, f"{host}:{self.peer.port} - {self._words.tag}:{self.cid} - {text}")

    # --- what peers of all kinds say ---------------------------------------------------------------------------------

    def read(self, text: bytes, document: type[Document], verb: str) -> Document | None:
        """The document of an INFO or a CONNECT; one that cannot be read ends the link."""
        try:
            return msgspec.json.decode(text, type=document)
        except UNREADABLE as error:
            self.unreadable(verb, error)
            return None

    def unreadable(self, verb: str, error: Exception) -> None:
        """What the peer said in an INFO or a CONNECT makes no sense."""
        self.log("ERR", f"Error in {verb} of {self._words.what}: {texts.escaped(str(error))}")
        self.close(CloseReason.PROTOCOL_VIOLATION)

    def complained(self, text: bytes) -> str:
        """The peer complains, and mostly ends the link then; gives the complaint as logs show it."""
        shown = texts.escaped(text.decode("utf-8", "replace")[:_ERROR_SHOWN])
        self.log("ERR", f"{self._words.name} Error {shown}")
        return shown

    def refuse_subject(self, subject: bytes) -> None:
        """The peer wants something that is no subject: it is told, and stays."""
        self.outbox.write(error_line("Invalid Subscription"))
        self.log("ERR", f"Could not insert subscription: invalid subject {texts.quoted(subject)}")

    def violated(self, kind: int, line: bytes) -> None:
        """The bytes make no sense or break a limit; the parser takes no more."""
        shown = texts.escaped(line[:_LINE_SHOWN].decode("utf-8", "replace"))
        if kind == wire.EARLY_OPERATION:
            self.log("ERR", f"{self._words.name} operation before its handshake: '{shown}'")
            self.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION)
        elif kind == wire.CONTROL_LINE_TOO_LONG:
            self.refuse(CloseReason.MAX_CONTROL_LINE, texts.MAXIMUM_CONTROL_LINE)
        elif kind == wire.PAYLOAD_TOO_LARGE:
            self.refuse(CloseReason.MAX_PAYLOAD, texts.MAXIMUM_PAYLOAD)
        else:
            self.log("ERR", f"{self._words.reader} parser ERROR: proto='{shown}...'")
            self.close(CloseReason.PROTOCOL_VIOLATION, texts.UNKNOWN_OPERATION)
