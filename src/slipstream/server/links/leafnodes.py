"""Leaf nodes at the edge: the listener, dialling with pauses, TLS, credentials, and the sockets of all leaf links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream.config.addresses import advertised
from slipstream.config.keys.remote import redacted, remote_name
from slipstream.config.record import replace
from slipstream.errors import SlipstreamError
from slipstream.links.leafs.link import LeafLink
from slipstream.links.leafs.nodes import LeafNodes
from slipstream.links.leafs.remotes import LeafRemote
from slipstream.links.leafs.words import WEBSOCKET_LEAF
from slipstream.protocol import texts
from slipstream.protocol.texts import CloseReason
from slipstream.routing.deadlines import Deadlines
from slipstream.server.clients.listener import address_of
from slipstream.server.clients.tls_protocol import SecurePeer
from slipstream.server.links.coding import LinkCoding
from slipstream.server.links.leaf_calls import LeafCall, asked_websocket
from slipstream.server.links.leaf_migration import LeafMigration
from slipstream.server.links.protocol import AcceptedLayers, LinkProtocol, LinkTiming
from slipstream.server.links.sockets import LinkSockets
from slipstream.server.links.websocket import LinkWebsocket
from slipstream.server.sockets.reachable import reachable
from slipstream.server.sockets.tls import TlsContext
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.config.listener_options import LeafnodeOptions, LeafRemoteOptions
    from slipstream.links.end import LinkEnd
    from slipstream.links.leafs.handshake import LeafConnect
    from slipstream.protocol.ws_stream import WebSocketStream
    from slipstream.server.server import Server
    from slipstream.server.sockets.tls_layer import TlsFacts, TlsLayer

__all__ = ["LeafTls", "LeafnodeServer"]

_TLS_NS = 2 * SECOND_NS  # for the handshake with a remote that names no time
_STALE = "Stale Leaf Node Connection - Closing"


class LeafTls:
    """The certificates of a `leafnodes` block: of its listener, and for each of its remotes."""

    def __init__(self, options: LeafnodeOptions) -> None:
        """Read the files.

        Raises:
            ConfigError: one of them cannot be used.
        """
        self.listening = None if options.tls is None else TlsContext.for_server(options.tls)
        self.dialling = [TlsContext.for_peer(remote.tls) for remote in options.remotes]


class LeafnodeServer:
    """The leaf links of one server. Implements `LeafEdge`."""

    def __init__(self, server: Server) -> None:
        """Nothing is open yet.

        Raises:
            ConfigError: a certificate cannot be used.
        """
        options = server.options.leafnodes
        self._server = server
        self._turns = server.turns
        if options.remotes and not server.hub.cluster_name:
            # As with nats-server: a leaf that is alone is a cluster by the name of the server.
            server.hub.cluster_name = server.identity.name
        self.nodes = LeafNodes(server.hub, self)
        tls = LeafTls(options)
        self._tls = tls.listening
        self._contexts: dict[LeafRemote, TlsContext] = {}
        self._remotes = [
            self._remote(remote, context) for remote, context in zip(options.remotes, tls.dialling, strict=True)
        ]
        self.sockets: LinkSockets[LeafLink] = LinkSockets(server)
        self._migration = LeafMigration(server)
        self._ends = Deadlines(server.turns, server.clock.now_ns)  # of logins that end by themselves
        self.port = 0

    def _remote(self, options: LeafRemoteOptions, context: TlsContext) -> LeafRemote:
        remote = LeafRemote(options, self._server.hub.rng)
        self._contexts[remote] = context
        return remote

    def listen(self) -> None:
        """Bind the leaf node port.

        Raises:
            StartError: the address cannot be had.
        """
        server, options = self._server, self._server.options.leafnodes
        host = options.host or server.options.host
        self.port = self.sockets.listen("leafnode port", "leafnode", host, options.port, partial(self._protocol, None))
        own = self.nodes.introduction
        if options.advertise:
            own.host, own.port = advertised(options.advertise, self.port)
            own.urls = reachable(own.host, own.port)
            self.log("INF", f"Advertise address for leafnode is set to {own.urls[0]}")
        else:
            own.host, own.port = host, self.port
            own.urls = reachable(host, self.port)[:1]

    def start(self) -> None:
        """Dial the remotes."""
        for remote in self._remotes:
            if remote.wanted:
                self._dial(remote, first=True)

    def accounts_changed(self, names: Iterable[str]) -> None:
        """Accounts of operator mode came or changed."""
        self.nodes.accounts_changed(names)

    # --- what leaf nodes ask -----------------------------------------------------------------------------------------

    def log(self, level: str, text: str) -> None:
        """A log line."""
        self._server.log(level, text)

    def secure(self, link: LeafLink, then: Callable[[], None]) -> None:
        """Speak TLS with a remote, and go on after the handshake."""
        edge, remote = link.end.edge, link.remote
        assert isinstance(edge, LinkProtocol) and remote is not None

        def secured(_facts: TlsFacts) -> None:
            link.secured = True
            self.await_answer(link, remote.options.first_info_timeout_ns)
            then()

        tls = remote.options.tls
        timeout_ns = _TLS_NS if tls is None else tls.timeout_ns
        edge.begin_tls(self._contexts[remote], secured, server_hostname=remote.tls_name(), timeout_ns=timeout_ns)

    def sign_in(self, link: LeafLink, connect: LeafConnect) -> str | None:
        """Put the credentials of a remote into CONNECT; gives what is wrong with them."""
        remote = link.remote
        assert remote is not None
        from slipstream.client.credentials import read_credentials, read_seed

        options = remote.options
        try:
            if options.credentials:
                key = read_credentials(Path(options.credentials).expanduser().read_text())
                connect.jwt, connect.sig = key.jwt, key.sign(link.nonce)
            elif options.nkey:
                key = read_seed(options.nkey)
                connect.nkey, connect.sig = key.public, key.sign(link.nonce)
        except (OSError, SlipstreamError) as error:
            return f"Error in the credentials of a leafnode remote: {error}"
        user, password = remote.login()
        connect.user, connect.password = user, password or ""
        if password is None:
            connect.auth_token = user
        return None

    def compress(self, end: LinkEnd, mode: str) -> None:
        """Compress from here on, or at another level."""
        self.sockets.compress(end, mode)

    def await_answer(self, link: LeafLink, delay_ns: int) -> None:
        """Give a peer so much time for its next step."""
        self.sockets.await_step(link.end, delay_ns, partial(self._too_slow, link))

    def end_at(self, link: LeafLink, at_ns: int) -> None:
        """The login of a peer ends then."""
        expired = CloseReason.AUTHENTICATION_EXPIRED, texts.AUTHENTICATION_EXPIRED
        self._ends.add(at_ns, lambda: link.end.is_open, partial(link.close, *expired))

    def check_password(self, link: LeafLink, job: Callable[[], bool], done: Callable[[bool], None]) -> None:
        """Check a password in a thread."""
        self._server.edge.check_password(link, job, done)

    def called_out(self, link: LeafLink) -> None:
        """An auth callout decides, in a time of its own."""
        if isinstance(link.end.edge, LinkProtocol):
            link.end.edge.steps.cancel()

    def ready(self, link: LeafLink) -> None:
        """The handshake is over: ask from now on whether the peer lives."""
        self.sockets.start_pings(link.end)
        if isinstance(link.end.edge, LinkProtocol):
            link.end.edge.peer_is_known()
        if isinstance(link.end.edge, LinkProtocol) and link.parser.unparsed.paused:
            self._turns.call_soon(link.end.edge.resume_reading)
        if link.remote is not None:
            self._migration.connected(link.remote)
        jetstream = self._server.jetstream
        if jetstream is not None and link.account is not None:
            jetstream.reconnected(link.account.name)

    def close(self, link: LeafLink, reason: CloseReason) -> None:
        """Close the socket of a link that ended, and dial its remote again."""
        checks = self._server.edge.password_checks
        if checks is not None:
            checks.forget(link)
        self.sockets.close(link.end, reason)
        remote = link.remote
        if reason is CloseReason.SERVER_SHUTDOWN:
            self._ends.close()
        elif remote is not None and remote.wanted:
            self._dial(remote, first=False)

    # --- dialling ----------------------------------------------------------------------------------------------------

    def _dial(self, remote: LeafRemote, *, first: bool) -> None:
        self._migration.dialling(remote)
        delay_ns, remote.delay_ns = remote.delay_ns, 0
        if not first:
            delay_ns += self._server.options.leafnodes.reconnect_ns
        call = LeafCall(remote, self._server, partial(self._protocol, remote))
        self.sockets.dialer.dial(call, delay_ns=delay_ns, again=not first)

    # --- sockets -----------------------------------------------------------------------------------------------------

    def take(
        self, transport: asyncio.Transport, tls: TlsLayer | None, stream: WebSocketStream, facts: TlsFacts | None
    ) -> None:
        """Go on with a leaf node that came to the WebSocket port.

        Args:
            transport: its socket.
            tls: of that port, if it has some.
            stream: the frames.
            facts: what the TLS handshake found out.
        """
        layers = AcceptedLayers(tls, LinkCoding(LinkWebsocket(stream)), facts)
        protocol = self._protocol(None, layers)
        # The other protocol reads in another way: the loop changes it while nothing is read.
        transport.pause_reading()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if not transport.is_closing():
            transport.resume_reading()
            protocol.read_on()

    def _protocol(self, remote: LeafRemote | None, accepted: AcceptedLayers | None = None) -> LinkProtocol:
        return LinkProtocol(
            self._server,
            self._timing,
            partial(self._opened, remote, accepted),
            self.sockets.lost,
            on_ready=self._begin if accepted is None else self._greet,
            accepted=accepted,
        )

    def _timing(self) -> LinkTiming:
        options = self._server.options
        return LinkTiming(
            options.ping_interval_ns,
            options.ping_max,
            options.leafnodes.write_deadline_ns or options.write_deadline_ns,
            options.leafnodes.write_timeout == "close",
        )

    def _opened(self, remote: LeafRemote | None, accepted: AcceptedLayers | None, protocol: LinkProtocol) -> LinkEnd:
        is_websocket = accepted is not None or (remote is not None and remote.is_websocket)
        peer = SecurePeer(*address_of(protocol.transport), WEBSOCKET_LEAF if is_websocket else "leafnode")
        link = self.nodes.accept(peer) if remote is None else self.nodes.dialled(peer, remote)
        if accepted is not None:
            if accepted.facts is not None:
                link.secured = True
                peer.learn(accepted.facts)
            link.opened_websocket(deflated=accepted.coding.is_deflated)
        self.sockets.open[link.end] = link
        return link.end

    def _greet(self, protocol: LinkProtocol) -> None:
        """A leaf node that came in otherwise is told who this is, and has to say who it is."""
        link = self.sockets.open[protocol.end]
        self.await_answer(link, self._auth_timeout_ns)
        self.nodes.greet(link)

    def _begin(self, protocol: LinkProtocol) -> None:
        """The socket is there: whoever accepted greets, after the TLS handshake or before it."""
        link = self.sockets.open[protocol.end]
        remote, tls = link.remote, self._tls
        if remote is not None and not remote.wanted:
            link.close(CloseReason.CLIENT_CLOSED)  # a reload came while it was dialled
            return
        if remote is not None:
            self._begin_with(remote, link, protocol)
        elif tls is None:
            self._greet(protocol)
        elif tls.options.handshake_first_fallback_ns:
            # Who speaks first knows of it; others wait for INFO.
            protocol.await_first_bytes(
                tls.options.handshake_first_fallback_ns,
                partial(self._shake_hands, link, protocol, tls, True),
                partial(self._shake_hands, link, protocol, tls, False),
            )
        else:
            self._shake_hands(link, protocol, tls, tls.options.handshake_first)

    def _begin_with(self, remote: LeafRemote, link: LeafLink, protocol: LinkProtocol) -> None:
        """This server dialled: over TCP the remote speaks first, a WebSocket has to be asked for."""
        self.await_answer(link, remote.options.first_info_timeout_ns)
        tls = remote.options.tls
        if remote.is_websocket:

            def opened(deflated: bool) -> None:
                link.opened_websocket(deflated=deflated)

            def ask() -> None:
                protocol.ask_for_websocket(asked_websocket(remote, opened))

            if remote.wants_tls:
                self.secure(link, ask)
            else:
                ask()
        elif remote.wants_tls and tls is not None and tls.handshake_first:
            self.secure(link, lambda: None)

    def _shake_hands(
        self, link: LeafLink, protocol: LinkProtocol, tls: TlsContext, first: bool, early: bytes = b""
    ) -> None:
        """Speak TLS with a leaf node that connected: before INFO, or after it."""
        if not first:
            self.nodes.greet(link)
            protocol.flush()

        def secured(facts: TlsFacts) -> None:
            link.secured = True
            if isinstance(link.peer, SecurePeer):
                link.peer.learn(facts)
            if first:
                self.nodes.greet(link)
            self.await_answer(link, self._auth_timeout_ns)

        protocol.begin_tls(tls, secured, timeout_ns=tls.options.timeout_ns, early=early)

    @property
    def _auth_timeout_ns(self) -> int:
        return self._server.options.leafnodes.auth_timeout_ns or 2 * SECOND_NS

    def _too_slow(self, link: LeafLink) -> None:
        """A peer that does not go on with its handshake."""
        if not link.solicited:
            link.refuse(CloseReason.AUTHENTICATION_TIMEOUT, texts.AUTHENTICATION_TIMEOUT)
        elif link.has_info:
            link.log("DBG", _STALE)
            link.close(CloseReason.STALE_CONNECTION, _STALE)
        else:
            link.log("ERR", "No INFO of the remote server in time")
            link.close(CloseReason.READ_ERROR)

    # --- reload and the end ------------------------------------------------------------------------------------------

    def reload(self, before: LeafnodeOptions, tls: LeafTls) -> None:
        """Other users, accounts, remotes or certificates are configured; links that are open keep their TLS."""
        self._tls = tls.listening
        options = self._server.options.leafnodes
        if options.remotes != before.remotes:
            self._follow_remotes(options.remotes, tls.dialling)
        if options.compression != before.compression:
            # Agreed upon anew, with new connections.
            for link in list(self.sockets.open.values()):
                if not link.solicited:
                    link.close(CloseReason.CLIENT_CLOSED)
        self.nodes.reload()

    def _follow_remotes(self, configured: tuple[LeafRemoteOptions, ...], contexts: list[TlsContext]) -> None:
        """Drop the remotes that are gone, dial new ones, and those with other settings anew."""
        known = {remote.name: remote for remote in self._remotes}
        self._remotes = []
        for options, context in zip(configured, contexts, strict=True):
            remote = known.pop(remote_name(options), None)
            if remote is not None and _keeps_its_link(remote.options, options):
                remote.follow(options)
                self._contexts[remote] = context
            else:
                if remote is not None:
                    self._drop(remote, "changed")
                remote = self._remote(options, context)
                if remote.wanted:
                    self._dial(remote, first=True)
            self._remotes.append(remote)
        for remote in known.values():
            self._drop(remote, "removed")

    def _drop(self, remote: LeafRemote, why: str) -> None:
        """A remote is not configured any more, or another way: what is there of it ends."""
        remote.removed = True
        for link in list(self.sockets.open.values()):
            if link.remote is remote:
                link.close(CloseReason.CLIENT_CLOSED)
        self._contexts.pop(remote, None)
        options = remote.options
        urls = " ".join(texts.quoted_text(redacted(url)) for url in options.urls)
        shown = f"urls=[{urls}], account={texts.quoted_text(options.account or '$G')}"
        if options.credentials:
            shown += f", credentials={texts.quoted_text(options.credentials)}"
        self.log("INF", f"Reloaded: LeafNode Remote {shown} {why}")


def _keeps_its_link(before: LeafRemoteOptions, after: LeafRemoteOptions) -> bool:
    """Whether a link may go on: nothing differs but certificates and times of TLS, which hold for the next one."""
    if (before.tls is None) != (after.tls is None):
        return False
    return replace(before, tls=after.tls) == after
