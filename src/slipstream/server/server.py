"""A whole server in one event loop: listeners, timers and files around a hub.

    async with Server(port=-1) as server:
        ...connect any NATS client to server.url...

Start order: identity, log, hub, monitoring, client port; `Server is ready` is the last line. Stop order is the reverse,
and nothing is left behind. Several servers may run in one process.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from slipstream.clock import SystemClock
from slipstream.config.options import Options
from slipstream.config.record import replace
from slipstream.config.validate import unsupported
from slipstream.kernels.wire.outbox import Outbox
from slipstream.limits import AUTH_AFTER_TLS_NS, AUTH_TIMEOUT_NS
from slipstream.protocol.texts import CloseReason
from slipstream.routing.hub import Hub, ServerIdentity
from slipstream.server.acceptor import Acceptor
from slipstream.server.client_edge import ClientEdge
from slipstream.server.errors import StartError
from slipstream.server.files import PortsFile, write_pid_file
from slipstream.server.identity import new_identity
from slipstream.server.jetstream_switch import JetStreamSwitch
from slipstream.server.limits import READ_BUFFER_BYTES
from slipstream.server.listener import ClientProtocol, bind
from slipstream.server.logs import Log, NullLog
from slipstream.server.memory import SUBSCRIPTION_MEMORY_SHARE, memory_bytes
from slipstream.server.notices import notices
from slipstream.server.turns import Turns
from slipstream.version import PRODUCT_VERSION, SERVER_VERSION

if TYPE_CHECKING:
    import ssl
    from tempfile import TemporaryDirectory

    from slipstream.accounts.member import Member
    from slipstream.jetstream.api.actions import Action
    from slipstream.links.gateways.supercluster import Supercluster
    from slipstream.links.leafs.nodes import LeafNodes
    from slipstream.links.routes.mesh import Mesh
    from slipstream.monitoring.lake_facts import LakeState
    from slipstream.monitoring.monitoring import Monitoring
    from slipstream.routing.operators import OperatorMode
    from slipstream.server.client_gate import ClientGate
    from slipstream.server.dashboard import DashboardDoor
    from slipstream.server.gateways import Gateways
    from slipstream.server.jetstream import JetStreamRunner
    from slipstream.server.lake_writers import LakeWriters
    from slipstream.server.leafnodes import LeafnodeServer
    from slipstream.server.link_sockets import LinkSockets
    from slipstream.server.rest_listener import RestListener
    from slipstream.server.routes import Routes
    from slipstream.server.websocket_listener import WebsocketListener

__all__ = ["Server", "host_port"]


class Closable(Protocol):
    """A listener beside the client port."""

    def close(self) -> None: ...


class Server:
    """One NATS server.

    Args:
        options: everything at once, as a configuration file gives it.
        log: where log lines go; nowhere by default.
        store_dir: turns JetStream on, with its streams below this directory.
        jetstream: True turns it on without `store_dir`: the streams go with the server. (Or `JetStreamOptions`.)
        opens_late: JetStream may follow when the server is ready, if it has no streams.
        on_reload_request: reads the configuration file again, for whoever knows it. Raises ConfigError.
        **overrides: single options by name, e.g. `port=-1`, `server_name="test"`.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        log: Log | None = None,
        store_dir: str = "",
        opens_late: bool = False,
        on_reload_request: Callable[[], None] | None = None,
        **overrides: Any,
    ) -> None:
        if overrides.get("port") == 0:
            overrides["port"] = -1
        self._scratch: TemporaryDirectory[str] | None = None
        if isinstance(overrides.get("jetstream"), bool) and overrides.pop("jetstream") and not store_dir:
            from tempfile import TemporaryDirectory

            self._scratch = TemporaryDirectory(prefix="slipstream-")
            store_dir = self._scratch.name
        self.options = replace(options or Options(), **overrides)
        if store_dir:
            jetstream = replace(self.options.jetstream, enabled=True, store_dir=store_dir)
            self.options = replace(self.options, jetstream=jetstream)
        if self.options.trusts_operators:
            from slipstream.server.operators import with_tokens

            self.options = with_tokens(self.options)
        self.log: Log = log or NullLog()
        self.turns = Turns(self.log, self.outboxes)
        self.edge = ClientEdge(self.turns)
        self.clock = SystemClock()
        self.identity: ServerIdentity = new_identity(
            self.options.server_name, self.clock.now_ns(), signs=self.options.may_call_out
        )
        self.read_buffer = bytearray(READ_BUFFER_BYTES)
        self.hub = Hub(self.options, self.identity, self.clock, random.SystemRandom(), self.edge, self.turns.queue)
        self.hub.subscription_bytes_max = int(memory_bytes() * SUBSCRIPTION_MEMORY_SHARE)
        self.hub.delivery.failed = partial(self.turns.report, "A service of the server")
        self.running = False
        self.monitoring: Monitoring | None = None
        self.websocket: WebsocketListener | None = None
        self.http_api: RestListener | None = None
        self.routes: Routes | None = None  # to other servers of the cluster
        self.gateways: Gateways | None = None  # to other clusters
        self.leafnodes: LeafnodeServer | None = None
        self.lake: LakeWriters | None = None  # processes that write tables
        self._jetstream = JetStreamSwitch(self, opens_late=opens_late)
        self._opens_late = opens_late
        self._listener: Acceptor | None = None
        self._gate: ClientGate | None = None
        self._others: list[Closable] = []
        self._ports_file: PortsFile | None = None
        self._leaving: asyncio.Task[None] | None = None
        self.on_reload_request = on_reload_request
        self._operators: OperatorMode | None = None
        self._stopped: asyncio.Event | None = None

    # --- life cycle -------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        """The client port, once started."""
        return self.hub.port

    @property
    def url(self) -> str:
        """Where clients connect."""
        host = self.options.host
        if host in ("", "0.0.0.0", "::"):
            host = "127.0.0.1"
        return f"nats://{f'[{host}]' if ':' in host else host}:{self.port}"

    def _repr_html_(self) -> str:
        from slipstream.notebook import server_html

        return server_html(self)

    async def start(self) -> None:
        """Open everything; returns when clients can connect.

        Raises:
            StartError: a port or file cannot be had.
            ConfigError: a certificate or another file named in the options cannot be used, or they ask for what this
                server cannot do.
        """
        for refused in unsupported(self.options):
            raise refused
        self.turns.start(asyncio.get_running_loop())
        self._stopped = asyncio.Event()
        self._announce()
        try:
            self._start_operators()
            self._jetstream.start(self._operators)
            await self._jetstream.make_declared()
            await self._open_listeners()
            self._write_files()
        except BaseException:
            await self._close_everything()
            raise
        self.running = True
        self.log("INF", "Server is ready")
        self._use_lake()
        if self._opens_late:
            from slipstream.server.late import load_the_rest

            answers_http = bool(self.options.http_port or self.options.https_port)
            load_the_rest(self.turns.loop, self._jetstream.door, answers_http=answers_http)

    def _start_operators(self) -> None:
        if self.options.may_call_out:
            from slipstream.server.callouts import start_callouts

            start_callouts(self)
        self._use_openid()
        if self.options.trusts_operators:
            from slipstream.server.operators import operator_problems, start_operators

            for refused in operator_problems(self.options):
                raise refused
            self._operators = start_operators(self)
            self._operators.on_changed.append(self._accounts_changed)
            self._operators.on_expired.append(self._account_expired)

    def _use_openid(self) -> None:
        if self.options.authorization.oidc or self.hub.logins.openid is not None:
            from slipstream.server.openid import start_openid

            start_openid(self)

    def _use_lake(self) -> None:
        if self.lake is not None:
            self.lake.reload()
        elif self.options.lake:
            from slipstream.server.lake_writers import LakeWriters

            self.lake = LakeWriters(self)

    def _accounts_changed(self, names: Iterable[str]) -> None:
        """Accounts of operator mode came or changed while the server runs."""
        if self.monitoring is not None:
            self.monitoring.accounts_changed(names)
        if self.jetstream is not None:
            self.jetstream.accounts_changed(names)
        if self.routes is not None:
            self.routes.mesh.telling.watch_accounts()
        if self.gateways is not None:
            self.gateways.supercluster.watch_accounts()
        if self.leafs is not None:
            self.leafs.accounts_changed(names)

    def _account_expired(self, name: str) -> None:
        if self.leafs is not None:
            self.leafs.account_expired(name)

    @property
    def jetstream(self) -> JetStreamRunner | None:
        """JetStream, while it runs."""
        return self._jetstream.runner

    def finish_start(self) -> None:
        """Do now what a start has left for later; whoever has to see all of the server asks for it."""
        self._jetstream.finish_start()

    async def _open_listeners(self) -> None:
        options = self.options
        if options.http_port or options.https_port or options.system_account_name:
            from slipstream.monitoring.monitoring import Monitoring

            self.monitoring = Monitoring(self)
            await self.monitoring.start(self._https_context(), self._dashboard_door())
            self.hub.describe_server = self.monitoring.introduction
            self._jetstream.show()
            if self._operators is not None:
                from slipstream.server.resolvers import DirectoryResolver

                resolver = self._operators.resolver
                store = resolver if isinstance(resolver, DirectoryResolver) else None
                self.monitoring.serve_claims(self._operators, store)
        if options.gateway.port:
            from slipstream.server.gateways import Gateways

            # Before routes, which tell other servers of the cluster where this one is reached.
            self.gateways = Gateways(self)
            self.gateways.listen()
            self._show_port("gateway", self.gateways.port)
        if options.cluster.port:
            from slipstream.server.routes import Routes

            self.routes = Routes(self)
            self.routes.listen()
            if self.monitoring is not None:
                self.monitoring.join_cluster(self.routes.mesh)
            if self.jetstream is not None and self.jetstream.cluster is not None:
                self.jetstream.cluster.join(self.routes.mesh)
            self._show_port("cluster", self.routes.port)
            if self.gateways is not None:
                self.gateways.supercluster.join(self.routes.mesh)
        if options.leafnodes.port or options.leafnodes.remotes:
            leafnodes = self._open_leafnodes()
            if options.leafnodes.port:
                leafnodes.listen()
                self._show_port("leafnodes", leafnodes.port)
        if options.websocket.port:
            from slipstream.server.websocket_listener import WebsocketListener

            self.websocket = WebsocketListener.open(self)
            self._others.append(self.websocket)
            self._show_port("websocket", self.websocket.port)
        if options.http_api.port:
            from slipstream.server.rest_listener import RestListener

            self.http_api = await RestListener.open(self)
            self._others.append(self.http_api)
            self._show_port("http_api", self.http_api.port)
        listening = self.bind("port", options.host, options.port)
        self.hub.host, self.hub.port = options.host, listening.getsockname()[1]
        self._gate = self._gate_for(options)
        self._listener = Acceptor(self.turns, listening, self._new_client)
        self.log("INF", f"Listening for client connections on {host_port(options.host, self.hub.port)}")
        if self._gate is not None:
            self._gate.announce()
        if self.gateways is not None:
            self.gateways.start()
        if self.routes is not None:
            self.routes.start()
        if self.leafnodes is not None:
            self.leafnodes.start()

    def _open_leafnodes(self) -> LeafnodeServer:
        from slipstream.server.leafnodes import LeafnodeServer

        self.leafnodes = leafnodes = LeafnodeServer(self)
        if self.monitoring is not None:
            self.monitoring.watch_leafs(leafnodes.nodes)
        return leafnodes

    def _dashboard_door(self) -> DashboardDoor | None:
        if not self.options.serves_dashboard:
            return None
        from slipstream.server.dashboard import DashboardDoor

        door = DashboardDoor(self)
        self._others.append(door)
        return door

    def _show_port(self, listener: str, port: int) -> None:
        """Let monitoring know which port a listener got."""
        if self.monitoring is not None:
            self.monitoring.facts.ports[listener] = port

    def _https_context(self) -> ssl.SSLContext | None:
        options = self.options
        if options.http_port and options.https_port:
            ports = f"HTTP ({options.http_port}) and HTTPs ({options.https_port}) ports"
            raise StartError(f"Can't start monitoring: can't specify both {ports}")
        if not options.https_port:
            return None
        if options.tls is None:
            raise StartError("TLS cert and key required for HTTPS")
        from slipstream.server.tls import TlsContext

        return TlsContext.for_server(options.tls).context

    def _gate_for(self, options: Options) -> ClientGate | None:
        """What stands before the client port, if it is more than a plain socket."""
        if options.tls is None and not options.proxy_protocol:
            return None
        from slipstream.server.client_gate import ClientGate

        return ClientGate(self, options)

    def _new_client(self) -> ClientProtocol:
        return ClientProtocol(self) if self._gate is None else self._gate.new_protocol()

    def bind(self, what: str, host: str, port: int) -> socket.socket:
        """A listening socket.

        Raises:
            StartError: the address cannot be had.
        """
        try:
            return bind(host, port)
        except (OSError, OverflowError) as error:
            where = host_port(host, max(port, 0))
            reason = os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else "invalid port"
            text = f'Error listening on {what}: {where}, "listen tcp {where}: bind: {reason}"'
            if what == "monitor":
                text = f"Can't start monitoring: can't listen to the monitor port: listen tcp {where}: bind: {reason}"
            raise StartError(text) from error

    def _write_files(self) -> None:
        options = self.options
        try:
            if options.pidfile:
                write_pid_file(options.pidfile)
            if options.ports_file_dir:
                self._ports_file = PortsFile(options.ports_file_dir)
                self._ports_file.write(self._urls())
        except OSError as error:
            raise StartError(f"Could not write pid or ports file: {error}") from error

    def _urls(self) -> dict[str, list[str]]:
        urls = {"nats": [self.url]}
        if self.monitoring is not None and self.monitoring.url:
            urls["monitoring"] = [self.monitoring.url]
        if self.websocket is not None:
            urls["websocket"] = [self.websocket.url]
        if self.http_api is not None:
            urls["http_api"] = [self.http_api.url]
        return urls

    def stop_accepting(self) -> None:
        """Let nobody new in."""
        if self._listener is not None:
            self._listener.close()
        for listener in self._others:
            listener.close()
        for sockets in self._link_sockets():
            sockets.close_listener()

    async def stop(self) -> None:
        """Close everything; returns when nothing is left."""
        if not self.running:
            return
        self.running = False
        self.log("INF", "Initiating Shutdown...")
        if self.monitoring is not None:
            self.monitoring.announce_shutdown()
        self.stop_accepting()
        if self.lake is not None:
            await self.lake.stop()  # they finish what they are at: the streams are still there
        if self.jetstream is not None and self.jetstream.cluster is not None:
            await self.jetstream.cluster.hand_over()
        self._jetstream.stop()  # while the clients are there: those who wait for messages are told
        self.hub.close_all(CloseReason.SERVER_SHUTDOWN)
        for sockets in self._link_sockets():
            sockets.stop()
        self.turns.flush()
        # One turn lets transports send their last words and report that they are gone.
        await asyncio.sleep(0)
        await self._close_everything()
        self.log("INF", "Server Exiting..")
        if self._stopped is not None:
            self._stopped.set()

    async def _close_everything(self) -> None:
        self.stop_accepting()
        if self.hub.logins.ends is not None:
            self.hub.logins.ends.close()
        if self.hub.logins.openid is not None:
            self.hub.logins.openid.close()
        if self._operators is not None:
            self._operators.close()
            self._operators.resolver.close()
        for sockets in self._link_sockets():
            sockets.stop()
        if self.monitoring is not None:
            await self.monitoring.stop()
        self._jetstream.stop()
        self.edge.close_threads()
        if self._ports_file is not None:
            self._ports_file.remove()
        if self._scratch is not None:
            self._scratch.cleanup()

    def enter_lame_duck_mode(self) -> None:
        """Leave slowly; see `lame_duck`."""
        if self.running and self._leaving is None:
            from slipstream.server.lame_duck import leave

            self._leaving = self.turns.loop.create_task(leave(self))

    def reload(self, options: Options) -> None:
        """Use other options as far as that is possible while running; the caller has checked that it is.

        Raises:
            ConfigError: accounts do not fit together, or a certificate cannot be used; nothing has changed then.
        """
        gate = self._gate_for(options)
        route_tls = None
        if self.routes is not None:
            from slipstream.server.peer_tls import PeerTls

            route_tls = PeerTls.of(options.cluster.tls)
        gateway_tls = None
        if self.gateways is not None:
            from slipstream.server.gateways import GatewayTls

            gateway_tls = GatewayTls(options.gateway)
        leaf_tls = None
        if self.leafnodes is not None or options.leafnodes.remotes:
            from slipstream.server.leafnodes import LeafTls

            leaf_tls = LeafTls(options.leafnodes)
        front = None if self.websocket is None else self.websocket.front.from_options(options.websocket)
        self.hub.reload(options)
        before, self.options = self.options, options
        self._use_openid()
        if self.monitoring is not None:
            self.monitoring.reloaded()
        self._gate = gate
        if self.websocket is not None and front is not None:
            self.websocket.front = front
        self._jetstream.reload(self._operators)
        if self.routes is not None:
            self.routes.reload(before.cluster, route_tls)
        if self.gateways is not None and gateway_tls is not None:
            self.gateways.reload(gateway_tls)
        if self.leafnodes is not None and leaf_tls is not None:
            self.leafnodes.reload(before.leafnodes, leaf_tls)
        elif options.leafnodes.remotes:
            self._open_leafnodes().start()
        self._use_lake()
        self._say_notices(before)

    def record_action(
        self, action: Action, *, asker: Member | None = None, subject: str = "", body: bytes = b"", error: str = ""
    ) -> None:
        """Write an action down that is no call of JetStream's API, if there is an audit trail.

        Args:
            action: what was asked for.
            asker: by whom; None: by nobody who is connected.
            subject: what was called, if it was a call.
            body: with what.
            error: why it was not done; empty: it was.
        """
        trail = None if self.jetstream is None else self.jetstream.trail
        if trail is not None:
            trail.record(
                action,
                account=self.options.system_account_name,
                subject=subject,
                body=body,
                client=None if asker is None else self.hub.client_info(asker),
                error={"code": 500, "description": error} if error else None,
            )

    async def wait_stopped(self) -> None:
        """Wait until somebody stops the server."""
        assert self._stopped is not None
        await self._stopped.wait()

    def _announce(self) -> None:
        # Line for line as nats-server: scripts look for these.
        self.log("INF", "Starting nats-server")
        self.log("INF", f"  Version:  {SERVER_VERSION}")
        self.log("INF", f"  Git:      [slipstream {PRODUCT_VERSION}]")
        self.log("INF", f"  Name:     {self.identity.name}")
        if self.options.cluster.name:
            self.log("INF", f"  Cluster:  {self.options.cluster.name}")
        self.log("INF", f"  ID:       {self.identity.id}")
        if self.options.config_file:
            self.log("INF", f"Using configuration file: {self.options.config_file} ({self.options.config_digest})")
        self._say_notices()

    def _say_notices(self, before: Options | None = None) -> None:
        """Warn of doubtful settings, and of those that do nothing; after a reload of those that are new."""
        said = notices(before) if before is not None else []
        for level, text in notices(self.options):
            if (level, text) not in said:
                self.log(level, text)

    @property
    def auth_timeout_ns(self) -> int:
        """How long a client may take to say who it is."""
        configured = self.options.authorization.timeout_ns
        if self.options.tls is not None and configured == AUTH_TIMEOUT_NS:
            return self.options.tls.timeout_ns + AUTH_AFTER_TLS_NS
        return configured

    @property
    def mesh(self) -> Mesh | None:
        """The other servers of the cluster; None on a server that is alone."""
        return None if self.routes is None else self.routes.mesh

    @property
    def supercluster(self) -> Supercluster | None:
        """The other clusters; None on a server without gateways."""
        return None if self.gateways is None else self.gateways.supercluster

    @property
    def leafs(self) -> LeafNodes | None:
        """The leaf links; None on a server without leaf nodes."""
        return None if self.leafnodes is None else self.leafnodes.nodes

    @property
    def lake_states(self) -> list[LakeState]:
        """What the writers of tables have told; empty without any."""
        return [] if self.lake is None else self.lake.states

    def outboxes(self) -> list[Outbox]:
        """Of all connections."""
        found = [connection.outbox for connection in self.hub.connections.values()]
        for sockets in self._link_sockets():
            found += sockets.outboxes()
        return found

    def _link_sockets(self) -> list[LinkSockets[Any]]:
        """Of connections to other servers, of each kind."""
        return [kind.sockets for kind in (self.gateways, self.routes, self.leafnodes) if kind is not None]


def host_port(host: str, port: int) -> str:
    """An address as it is written: IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
