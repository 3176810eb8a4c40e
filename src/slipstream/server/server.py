"""A whole server in one event loop: listeners, timers and files around a hub.

    async with Server(port=-1) as server:
        ...connect any NATS client to server.url...

Start order: identity, log, hub, monitoring, client port; `Server is ready` is the last line. Stop order is the reverse,
and nothing is left behind. Several servers may run in one process.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from slipstream.clock import SystemClock
from slipstream.config.options import Options
from slipstream.config.record import replace
from slipstream.config.validate import unsupported
from slipstream.kernels.wire.outbox import Outbox
from slipstream.limits import AUTH_AFTER_TLS_NS, AUTH_TIMEOUT_NS
from slipstream.protocol.texts import CloseReason
from slipstream.routing.hub import Hub, ServerIdentity
from slipstream.server.clients.edge import ClientEdge
from slipstream.server.errors import StartError
from slipstream.server.identity import new_identity
from slipstream.server.jetstream.switch import JetStreamSwitch
from slipstream.server.limits import READ_BUFFER_BYTES
from slipstream.server.listeners.table import Listeners
from slipstream.server.logins.services import LoginServices
from slipstream.server.memory import SUBSCRIPTION_MEMORY_SHARE, memory_bytes
from slipstream.server.process.files import PortsFile, write_pid_file
from slipstream.server.process.logs import Log, NullLog
from slipstream.server.process.notices import notices
from slipstream.server.randomness import PooledRandom
from slipstream.server.sockets.binding import bind
from slipstream.server.turns import Turns
from slipstream.version import PRODUCT_VERSION, SERVER_VERSION

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from slipstream.accounts.member import Member
    from slipstream.jetstream.api.actions import Action
    from slipstream.links.gateways.supercluster import Supercluster
    from slipstream.links.leafs.nodes import LeafNodes
    from slipstream.links.routes.mesh import Mesh
    from slipstream.monitoring.lake_facts import LakeState
    from slipstream.monitoring.monitoring import Monitoring
    from slipstream.server.clients.http_api import RestListener
    from slipstream.server.clients.websocket import WebsocketListener
    from slipstream.server.jetstream.jetstream import JetStreamRunner
    from slipstream.server.jetstream.lake_writers import LakeWriters
    from slipstream.server.links.gateways import Gateways
    from slipstream.server.links.leafnodes import LeafnodeServer
    from slipstream.server.links.routes import Routes

__all__ = ["Server"]


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
            from slipstream.server.logins.operators import with_tokens

            self.options = with_tokens(self.options)
        self.log: Log = log or NullLog()
        self.turns = Turns(self.log, self.outboxes)
        self.edge = ClientEdge(self.turns)
        self.clock = SystemClock()
        self.identity: ServerIdentity = new_identity(
            self.options.server_name, self.clock.now_ns(), signs=self.options.may_call_out
        )
        self.read_buffer = bytearray(READ_BUFFER_BYTES)
        self.hub = Hub(
            self.options,
            self.identity,
            self.clock,
            PooledRandom(),
            self.edge,
            self.turns.queue,
            subscription_bytes_max=int(memory_bytes() * SUBSCRIPTION_MEMORY_SHARE),
            on_service_failure=partial(self.turns.report, "A service of the server"),
        )
        self.running = False
        self.login_services = LoginServices(self, self._accounts_changed, self._account_expired)
        self.listeners = Listeners(self)
        self.jetstream_switch = JetStreamSwitch(self, opens_late=opens_late)
        self._opens_late = opens_late
        self.lake: LakeWriters | None = None  # processes that write tables
        self._ports_file: PortsFile | None = None
        self._leaving: asyncio.Task[None] | None = None
        self.on_reload_request = on_reload_request
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
        return self.listeners.clients.url

    def _repr_html_(self) -> str:
        from slipstream.server.display import server_html

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
            self.login_services.start()
            self.jetstream_switch.start(self.login_services.operators)
            await self.jetstream_switch.make_declared()
            await self.listeners.open()
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
            has_jetstream = self.options.jetstream.enabled
            load_the_rest(
                self.turns.loop, self.jetstream_switch.door, has_jetstream=has_jetstream, answers_http=answers_http
            )

    def _use_lake(self) -> None:
        if self.lake is not None:
            self.lake.reload()
        elif self.options.lake:
            from slipstream.server.jetstream.lake_writers import LakeWriters

            self.lake = LakeWriters(self)

    def _accounts_changed(self, names: Iterable[str]) -> None:
        """Accounts of operator mode came or changed while the server runs."""
        if self.monitoring is not None:
            self.monitoring.accounts_changed(names)
        if self.jetstream is not None:
            self.jetstream.accounts_changed(names)
        self.listeners.accounts_changed(names)

    def _account_expired(self, name: str) -> None:
        if self.leafs is not None:
            self.leafs.account_expired(name)

    @property
    def jetstream(self) -> JetStreamRunner | None:
        """JetStream, while it runs."""
        return self.jetstream_switch.runner

    def finish_start(self) -> None:
        """Do now what a start has left for later; whoever has to see all of the server asks for it."""
        self.jetstream_switch.finish_start()

    def bind(self, what: str, host: str, port: int) -> socket.socket:
        """A listening socket.

        Raises:
            StartError: the address cannot be had.
        """
        return bind(what, host, port)

    def _write_files(self) -> None:
        options = self.options
        try:
            if options.pidfile:
                write_pid_file(options.pidfile)
            if options.ports_file_dir:
                self._ports_file = PortsFile(options.ports_file_dir)
                self._ports_file.write(self.listeners.urls())
        except OSError as error:
            raise StartError(f"Could not write pid or ports file: {error}") from error

    def stop_accepting(self) -> None:
        """Let nobody new in."""
        self.listeners.close()

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
        self.jetstream_switch.stop()  # while the clients are there: those who wait for messages are told
        self.hub.close_all(CloseReason.SERVER_SHUTDOWN)
        self.listeners.end_links()
        self.turns.flush()
        # One turn lets transports send their last words and report that they are gone.
        await asyncio.sleep(0)
        await self._close_everything()
        self.log("INF", "Server Exiting..")
        if self._stopped is not None:
            self._stopped.set()

    async def _close_everything(self) -> None:
        self.login_services.close()
        await self.listeners.stop()
        self.jetstream_switch.stop()
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
            ConfigError: accounts do not fit together, a certificate or an encryption key cannot be used; nothing has
                changed then.
        """
        self.jetstream_switch.prepare(options)
        change_listeners = self.listeners.prepare(options)
        self.hub.reload(options)
        before, self.options = self.options, options
        self.login_services.reload()
        if self.monitoring is not None:
            self.monitoring.reloaded()
        self.jetstream_switch.reload(self.login_services.operators)
        change_listeners(before)
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
    def monitoring(self) -> Monitoring | None:
        """What this server shows of itself; None: nothing, to nobody."""
        return self.listeners.monitoring.opened

    @property
    def websocket(self) -> WebsocketListener | None:
        """The WebSocket port."""
        return self.listeners.websocket.opened

    @property
    def http_api(self) -> RestListener | None:
        """The port of the HTTP API."""
        return self.listeners.http_api.opened

    @property
    def routes(self) -> Routes | None:
        """Connections to other servers of the cluster."""
        return self.listeners.routes.opened

    @property
    def gateways(self) -> Gateways | None:
        """Connections to other clusters."""
        return self.listeners.gateways.opened

    @property
    def leafnodes(self) -> LeafnodeServer | None:
        """Connections to leaf nodes, and to servers whose leaf node this one is."""
        return self.listeners.leafnodes.opened

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
        return [connection.outbox for connection in self.hub.connections.values()] + self.listeners.outboxes()
