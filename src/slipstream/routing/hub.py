"""The middle of a server, without sockets: accounts, connections, who is let in, who gets what.

The edge (`slipstream.server`) turns accepted sockets into `open_connection`, bytes into calls of the connection's
parser, and time into timers; the hub answers through outboxes and the few calls of `Edge`. Nothing here blocks.

Several hubs live side by side in one process: there is no global state.
"""

from __future__ import annotations

import base64
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from slipstream.auth.identity import PROXY_NOT_TRUSTED
from slipstream.config.addresses import advertised
from slipstream.kernels.wire.delivery import Delivery
from slipstream.kernels.wire.outbox import FlushQueue
from slipstream.protocol import texts
from slipstream.protocol.texts import CloseReason
from slipstream.protocol.trace_request import TraceRequest
from slipstream.protocol.tracelog import operation_line, payload_line
from slipstream.routing.client_words import account_info, client_info, log_line
from slipstream.routing.logins import LoginEdge, Logins
from slipstream.routing.publishes import Passing, Publishes
from slipstream.routing.topology import Topology
from slipstream.version import SERVER_VERSION

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.accounts.member import Member
    from slipstream.auth.authenticator import Authenticator, Identity
    from slipstream.auth.callout.keys import ServerKeys
    from slipstream.clock import Clock
    from slipstream.config.options import Options
    from slipstream.ids import RandomSource
    from slipstream.kernels.wire.receivers import Route
    from slipstream.protocol.connection import ClientConnection
    from slipstream.protocol.info import ConnectInfo
    from slipstream.protocol.peer import Peer
    from slipstream.routing.greetings import Greetings
    from slipstream.routing.trace import TraceSource

__all__ = ["ClosedConnection", "Edge", "Hub", "ServerIdentity"]


class Edge(LoginEdge, Protocol):
    """What the hub asks of the side that has sockets and threads."""

    def connected(self, connection: ClientConnection) -> None:
        """The client was let in: its authentication timer is over, and reading may go on."""
        ...

    def close(self, connection: ClientConnection, reason: CloseReason) -> None:
        """Send what waits, then close the socket."""
        ...

    def log(self, level: str, text: str) -> None: ...


class ServerIdentity:
    """Who this server is; made once at start."""

    def __init__(self, server_id: str, name: str, xkey: str, start_ns: int, keys: ServerKeys | None = None) -> None:
        self.id = server_id
        self.name = name
        self.xkey = xkey
        self.start_ns = start_ns
        self.keys = keys  # the private halves, where a configuration may need them


class ClosedConnection:
    """What is kept of a connection that ended."""

    __slots__ = ("connection", "reason", "stop_ns", "subscription_count", "subscriptions")

    def __init__(self, connection: ClientConnection, reason: CloseReason, stop_ns: int) -> None:
        self.connection = connection
        self.reason = reason
        self.stop_ns = stop_ns
        self.subscription_count = connection.last_subscription_count
        self.subscriptions = connection.last_subscriptions
        connection.last_subscriptions = ()


class Hub:
    """Accounts and connections of one server."""

    def __init__(
        self,
        options: Options,
        identity: ServerIdentity,
        clock: Clock,
        rng: RandomSource,
        edge: Edge,
        flush_queue: FlushQueue,
        *,
        subscription_bytes_max: int = sys.maxsize,
        on_service_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        """No connection is there yet.

        Args:
            options: those that hold; `reload` brings others.
            identity: who this server is.
            clock: what time it is.
            rng: numbers that nobody can foresee.
            edge: does what needs sockets, threads and logs.
            flush_queue: of outboxes with something to send.
            subscription_bytes_max: of one account; the edge knows how much memory there is.
            on_service_failure: told of what a service of the server raises; None: who calls it gets that.
        """
        self.options = options
        self.identity = identity
        self.clock = clock
        self.rng = rng
        self.flush_queue = flush_queue
        self.delivery = Delivery(rng.getrandbits(63), on_service_failure)
        self.connections: dict[int, ClientConnection] = {}
        self.closed_connections: deque[ClosedConnection] = deque(maxlen=max(1, options.max_closed_clients))
        self.total_connections = 0
        self.subscription_bytes_max = subscription_bytes_max
        self.slow_consumers = 0
        self.stale_connections = 0
        self.stalled_clients = 0
        # Traffic of connections that are gone.
        self.closed_in_msgs = self.closed_in_bytes = self.closed_out_msgs = self.closed_out_bytes = 0
        self.topology = Topology(options, self.delivery, clock, rng, (self.client_info, account_info))
        self.logins = Logins(options, edge)
        self.lame_duck = False
        # What the listeners found out; part of INFO.
        self.host, self.port = options.host, options.port
        self.websocket_host, self.websocket_port = options.websocket.host, options.websocket.port
        self.cluster_name = options.cluster.name  # as it is now: one that was made up may give way to that of others
        self.connect_urls: list[str] = []
        self.websocket_urls: list[str] = []
        self.jetstream = False
        # How this server introduces itself in events; monitoring knows more and puts its own here.
        self.describe_server: Callable[[], object] = self._introduction
        # Whoever wants to know: the system account's events.
        self.on_connected: list[Callable[[ClientConnection], None]] = []
        self.on_closed: list[Callable[[ClosedConnection], None]] = []
        self._edge = edge
        self._greetings: Greetings | None = None  # made for the first client
        self._next_cid = 1
        self._publishes = Publishes(
            self.delivery, self.topology, clock.now_ns, rng, self.log, lambda: self.describe_server()
        )

    @property
    def authenticator(self) -> Authenticator:
        """Who decides about clients, as it is now."""
        return self.logins.authenticator

    # --- accounts -------------------------------------------------------------------------------------------------

    @property
    def accounts(self) -> dict[str, Account]:
        """All accounts by name."""
        return self.topology.accounts

    @property
    def system_account(self) -> Account | None:
        """The account that sees `$SYS` subjects, if there is one."""
        return self.topology.accounts.get(self.options.system_account_name)

    def account_of(self, identity: Identity) -> Account | None:
        """The account a user belongs to."""
        return self.topology.accounts.get(identity.account)

    # --- connections ----------------------------------------------------------------------------------------------

    def next_cid(self) -> int:
        """A number for one more connection, of whatever kind."""
        cid, self._next_cid = self._next_cid, self._next_cid + 1
        return cid

    def open_connection(self, peer: Peer) -> ClientConnection:
        """A socket was accepted. The connection may already be closed again when there are too many."""
        from slipstream.protocol.connection import ClientConnection  # no start waits for it

        connection = ClientConnection(self, self.next_cid(), peer)
        self.total_connections += 1
        if self.authenticator.needs_nonce:
            connection.nonce = self.new_nonce()
        self.connections[connection.cid] = connection
        self.log("DBG", connection, "Client connection created")
        if 0 <= self.options.max_connections < len(self.connections):
            self.log("ERR", connection, texts.MAXIMUM_CONNECTIONS)
            connection.greet()
            connection.close(CloseReason.MAX_CONNECTIONS, texts.MAXIMUM_CONNECTIONS)
        return connection

    def connected(self, connection: ClientConnection) -> None:
        """A client was let in."""
        self._edge.connected(connection)
        for listener in self.on_connected:
            listener(connection)

    def closed(self, connection: ClientConnection, reason: CloseReason) -> None:
        """A connection ended; called once for each."""
        self.connections.pop(connection.cid, None)
        self.log("DBG", connection, f"Client connection closed: {reason.value}")
        self.closed_in_msgs += connection.parser.msgs
        self.closed_in_bytes += connection.parser.msg_bytes
        self.closed_out_msgs += connection.outbox.msgs
        self.closed_out_bytes += connection.outbox.msg_bytes
        if reason in (CloseReason.SLOW_CONSUMER_PENDING, CloseReason.SLOW_CONSUMER_WRITE_DEADLINE):
            self.was_slow(connection)
        elif reason is CloseReason.STALE_CONNECTION:
            self.stale_connections += 1
        record = ClosedConnection(connection, reason, self.clock.now_ns())
        self.closed_connections.append(record)
        self.topology.connection_closed(connection)
        for listener in self.on_closed:
            listener(record)
        self._edge.close(connection, reason)

    def was_slow(self, connection: ClientConnection) -> None:
        """Count a client that did not keep up, whether it is closed for that or not."""
        self.slow_consumers += 1
        if connection.account is not None:
            connection.account.slow_consumers += 1

    def close_all(self, reason: CloseReason) -> None:
        """End every connection."""
        for connection in list(self.connections.values()):
            connection.close(reason)

    # --- what connections ask -------------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """Wall clock."""
        return self.clock.now_ns()

    def in_steps(self, work: Iterator[None]) -> None:
        """Do the first step of some work now, and the others when everybody else had a turn."""
        for _ in work:
            self._edge.call_soon(lambda: self.in_steps(work))
            return

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Run something when everybody else had a turn."""
        self._edge.call_soon(callback)

    def new_nonce(self) -> str:
        """Eleven unguessable bytes as text; a client signs them to prove its nkey."""
        return base64.urlsafe_b64encode(self.rng.randbytes(11)).rstrip(b"=").decode()

    def info_line(self, connection: ClientConnection, *, after_connect: bool = False, lame_duck: bool = False) -> bytes:
        """INFO as this connection should see it; `lame_duck` asks it to go elsewhere."""
        if self._greetings is None:
            from slipstream.routing.greetings import Greetings

            self._greetings = Greetings(self)
        return self._greetings.line(connection, after_connect=after_connect, lame_duck=lame_duck)

    @property
    def advertised(self) -> tuple[str, int]:
        """Where clients are told to connect."""
        told = self.options.client_advertise
        return advertised(told, self.port) if told else (self.host, self.port)

    def authenticate(self, connection: ClientConnection, connect: ConnectInfo) -> None:
        """Find out who a client is; ends in `admit` or `refuse`, perhaps later."""
        self.logins.authenticate(connection, connect)

    def publish(
        self, connection: ClientConnection, subject: bytes, reply: bytes | None, header_size: int, body: bytes
    ) -> int:
        """See `Publishes.publish`."""
        return self._publishes.publish(connection, subject, reply, header_size, body)

    def publish_traced(
        self,
        connection: ClientConnection,
        traced: TraceRequest,
        published: bytes,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        body: bytes,
    ) -> int:
        """See `Publishes.publish_traced`."""
        return self._publishes.publish_traced(connection, traced, published, subject, reply, header_size, body)

    def trace_request(self, connection: ClientConnection, header: bytes) -> TraceRequest | None:
        """See `Publishes.trace_request`."""
        return self._publishes.trace_request(connection, header)

    def trace_arrival(
        self,
        member: Passing,
        source: TraceSource,
        published: bytes,
        subject: bytes,
        route: Route,
        reply: bytes | None,
        header_size: int,
        body: bytes,
    ) -> bool:
        """See `Publishes.trace_arrival`."""
        return self._publishes.trace_arrival(member, source, published, subject, route, reply, header_size, body)

    def mapped(self, connection: ClientConnection, subject: bytes) -> bytes | None:
        """See `Publishes.mapped`."""
        return self._publishes.mapped(connection, subject)

    def log(self, level: str, connection: ClientConnection, text: str) -> None:
        """A log line about one connection."""
        if level == "DBG" and not self.options.debug:
            return  # two for each client that comes and goes: what nobody reads is not written
        self._edge.log(level, log_line(connection, text))

    def log_own(self, account: Account, subject: bytes, body: bytes) -> None:
        """Log a message of the server itself, if the trace is to show these, too."""
        options = self.options
        if not options.trace or (account.is_system and not options.trace_verbose):
            return
        who = "SYSTEM" if account.is_system else "ACCOUNT"
        self._edge.log("TRC", f"{who} - {operation_line('PUB', subject, len(body))}")
        payload = payload_line("<<-", 0, body, options)
        if payload is not None:
            self._edge.log("TRC", f"{who} - {payload}")

    def client_info(self, connection: Member) -> dict[str, object]:
        """Who a client is, as a service in another account may learn it."""
        return client_info(connection, self.identity.name)

    def _introduction(self) -> dict[str, object]:
        return {"name": self.identity.name, "host": self.host, "id": self.identity.id, "ver": SERVER_VERSION}

    # --- reload ---------------------------------------------------------------------------------------------------

    def reload(self, options: Options) -> None:
        """Use other options. Clients whose user is gone or changed are closed; everybody else stays."""
        self.options = options
        self.topology.reload(options)
        self.logins.reload(options)
        for connection in list(self.connections.values()):
            self._reapply(connection)
        self._cut_excess()

    def _cut_excess(self) -> None:
        """Close clients, the last that came first, until server and accounts are within their limits again."""
        limit = self.options.max_connections
        if 0 < limit < len(self.connections):
            excess = [*self.connections.values()][limit:]
            for connection in reversed(excess):
                self.log("ERR", connection, texts.MAXIMUM_CONNECTIONS)
                connection.close(CloseReason.MAX_CONNECTIONS, texts.MAXIMUM_CONNECTIONS)
            self._edge.log("INF", f"Closed {len(excess)} connections to fall within max_connections")
        for account in list(self.accounts.values()):
            self.cut_excess_of(account)

    def cut_excess_of(self, account: Account) -> None:
        """Close clients of an account, the last that came first, until those of all servers are within its limit."""
        limit = account.limits.max_connections
        if limit < 0:
            return
        room = max(limit - account.connections_elsewhere, 0)
        for connection in reversed(self.connections_of(account)[room:]):
            self.log("ERR", connection, texts.MAXIMUM_ACCOUNT_CONNECTIONS)
            connection.close(CloseReason.MAX_ACCOUNT_CONNECTIONS, texts.MAXIMUM_ACCOUNT_CONNECTIONS)

    def _reapply(self, connection: ClientConnection) -> None:
        connection.apply_limits()
        connection.tracing = self.options.trace
        connection.refresh_fast_path()
        if connection.identity is None:
            return
        if connection.proxy and not self.authenticator.trusts_proxy(connection.proxy):
            connection.refuse(PROXY_NOT_TRUSTED.reason, CloseReason.PROXY_NOT_TRUSTED)
            return
        identity = self.authenticator.current(connection.identity, proxied=bool(connection.proxy))
        account = None if identity is None else self.account_of(identity)
        if identity is None or account is None or account is not connection.account:
            # A user that is gone is told nothing, one that changed is told to log in again, as by nats-server.
            known = self.authenticator.knows(connection.identity)
            connection.close(CloseReason.AUTHENTICATION_VIOLATION, texts.AUTHORIZATION_VIOLATION if known else None)
            return
        connection.identity = identity
        connection.renew_permissions(identity.permissions)

    def connections_of(self, account: Account) -> list[ClientConnection]:
        """The open connections of an account, the first that came first."""
        return [self.connections[cid] for cid in account.connections]

    def each_connection(self) -> Iterable[ClientConnection]:
        """All open connections, for monitoring."""
        return self.connections.values()
