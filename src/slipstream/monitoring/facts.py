"""What every endpoint and every event looks at: one server, read only.

An endpoint is a function of `Facts` and its options; it keeps nothing between two calls. What the server has not got (a
cluster, JetStream) is asked through the small protocols here and answered as "none" while nobody has plugged it in.

Counters of connections live in the connections themselves; a total is the sum over the open ones plus what the hub kept
of the closed ones, so that counting costs nothing while messages flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import process_time_ns
from typing import TYPE_CHECKING, Protocol

from slipstream.clock import rfc3339
from slipstream.config.features import effective_flags
from slipstream.config.options import GLOBAL_ACCOUNT
from slipstream.config.record import Record

if TYPE_CHECKING:
    import socket

    from slipstream.accounts.account import Account
    from slipstream.accounts.claimed import Claimed
    from slipstream.accounts.member import Member
    from slipstream.clock import Clock
    from slipstream.config.listener_options import TLSOptions
    from slipstream.config.options import Options
    from slipstream.jetstream.api.actions import Action
    from slipstream.links.gateways.inbound import InboundGateway
    from slipstream.links.gateways.outbound import OutboundGateway
    from slipstream.links.gateways.supercluster import Supercluster
    from slipstream.links.leafs.link import LeafLink
    from slipstream.links.leafs.nodes import LeafNodes
    from slipstream.links.routes.link import RouteLink
    from slipstream.links.routes.mesh import Mesh
    from slipstream.links.traffic import PastTraffic
    from slipstream.monitoring.jetstream_facts import JetStreamFacts
    from slipstream.monitoring.lake_facts import LakeState
    from slipstream.monitoring.process import Usage
    from slipstream.protocol.connection import ClientConnection
    from slipstream.routing.deadlines import Timers
    from slipstream.routing.hub import Hub, ServerIdentity

__all__ = ["Facts", "Monitored", "Traffic"]


class Monitored(Protocol):
    """The server, as far as monitoring is concerned."""

    @property
    def options(self) -> Options: ...
    @property
    def identity(self) -> ServerIdentity: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def hub(self) -> Hub: ...
    @property
    def mesh(self) -> Mesh | None: ...
    @property
    def supercluster(self) -> Supercluster | None: ...
    @property
    def leafs(self) -> LeafNodes | None: ...
    @property
    def lake_states(self) -> Sequence[LakeState]: ...
    @property
    def turns(self) -> Timers: ...
    @property
    def running(self) -> bool: ...
    @property
    def auth_timeout_ns(self) -> int: ...

    @property
    def log(self) -> Callable[[str, str], object]: ...
    @property
    def on_reload_request(self) -> Callable[[], None] | None: ...
    def bind(self, what: str, host: str, port: int) -> socket.socket: ...
    def record_action(
        self, action: Action, *, asker: Member | None = None, subject: str = "", body: bytes = b"", error: str = ""
    ) -> None: ...


class Traffic(Record):
    """Messages and bytes, seen from the server."""

    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int


class Facts:
    """One server for reading."""

    def __init__(self, server: Monitored) -> None:
        self.server = server
        self.config_loaded_ns = server.identity.start_ns  # moves with every reload
        self.http_requests: dict[str, int] = {}  # by path, for `http_req_stats`
        self._jetstream: JetStreamFacts | None = None
        self.before_jetstream: Callable[[], None] | None = None  # lets JetStream start, when it was left for later
        self.ports: dict[str, int] = {}  # ports of listeners that picked one: `leafnodes`, `websocket`, `cluster`
        self.queues: dict[str, Callable[[], int]] = {}  # lengths of the server's inner queues, for /ipqueuesz
        self.far_count: Callable[[], int] = lambda: 0  # servers of other clusters that were heard of
        self.health_failure = ""  # the last health check's, for the log
        self._used_before_ns = process_time_ns()  # by the program that the server is in
        self._usage: Usage | None = None
        self._certificates: dict[str, str] = {}  # file to the end of its validity, as loaded

    @property
    def options(self) -> Options:
        """The options in force."""
        return self.server.hub.options

    @property
    def hub(self) -> Hub:
        """Accounts and connections."""
        return self.server.hub

    @property
    def server_id(self) -> str:
        """The server's public key."""
        return self.server.identity.id

    @property
    def server_name(self) -> str:
        """The configured name, or the id."""
        return self.server.identity.name

    @property
    def accounts(self) -> dict[str, Account]:
        """All accounts by name."""
        return self.server.hub.accounts

    @property
    def system_account(self) -> str:
        """Name of the system account, empty if there is none."""
        account = self.server.hub.system_account
        return "" if account is None else account.name

    @property
    def feature_flags(self) -> dict[str, bool]:
        """Switches by name, in the order of their names."""
        return effective_flags(self.options.feature_flags)

    @property
    def usage(self) -> Usage:
        """Memory and processor use of the process."""
        if self._usage is None:
            from slipstream.monitoring.process import Usage

            up_ns = self.now_ns() - self.server.identity.start_ns
            self._usage = Usage(self.server.clock.monotonic_ns() - up_ns, self._used_before_ns)
        return self._usage

    def certificate_expiry(self, tls: TLSOptions | None) -> str:
        """When the certificate of a listener ends, RFC 3339; empty without one."""
        if tls is None:
            return ""
        file = tls.cert_file or (tls.certs[0].cert_file if tls.certs else "")
        if file not in self._certificates:
            from slipstream.monitoring.client_facts import certificate_expiry

            self._certificates[file] = certificate_expiry(file)
        return self._certificates[file]

    def reloaded(self) -> None:
        """The options changed."""
        self.config_loaded_ns = self.now_ns()
        self._certificates.clear()

    def now_ns(self) -> int:
        """Wall clock."""
        return self.server.clock.now_ns()

    def now(self) -> str:
        """Wall clock as text."""
        return rfc3339(self.now_ns())

    @property
    def jetstream(self) -> JetStreamFacts | None:
        """JetStream; None where it is off. Who asks for it before it has started waits for that."""
        start, self.before_jetstream = self.before_jetstream, None
        if start is not None:
            start()
        return self._jetstream

    @jetstream.setter
    def jetstream(self, facts: JetStreamFacts | None) -> None:
        """Plugged in by whoever runs JetStream."""
        self._jetstream = facts

    def is_heard(self, subject: str) -> bool:
        """Whether anybody in the system account wants `subject`."""
        account = self.hub.system_account
        return account is not None and account.has_interest(subject.encode("utf-8", "surrogateescape"))

    def subscription_count(self) -> int:
        """Subscriptions of all accounts, the server's own included."""
        return sum(account.interest.count for account in self.accounts.values())

    def traffic(self) -> Traffic:
        """Everything clients sent and got since the start."""
        hub = self.hub
        before = Traffic(hub.closed_in_msgs, hub.closed_in_bytes, hub.closed_out_msgs, hub.closed_out_bytes)
        return _with_open(before, hub.connections.values())

    def server_traffic(self) -> Traffic:
        """Everything that came and went over routes, gateways and leaf links since the start."""
        mesh, leafs, gateways = self.server.mesh, self.server.leafs, self.server.supercluster
        found = Traffic(0, 0, 0, 0)
        if mesh is not None:
            found = _with_open(_with_past(found, mesh.past), mesh.roster.routes())
        if gateways is not None:
            found = _with_open(_with_past(found, gateways.past), self.gateways())
        if leafs is not None:
            found = _with_open(_with_past(found, leafs.past), leafs.links.values())
        return found

    def gateways(self) -> list[InboundGateway | OutboundGateway]:
        """The connections with other clusters."""
        gateways = self.server.supercluster
        return [] if gateways is None else [*gateways.outbound.values(), *gateways.inbound.values()]

    def gateway_urls(self, cluster: str) -> list[str]:
        """Where a cluster is reached, as configured and as it told; empty for one that is not known."""
        gateways = self.server.supercluster
        remote = None if gateways is None else gateways.clusters.remotes.get(cluster)
        return [] if remote is None else remote.urls()

    def leafs(self, account: str = "") -> list[LeafLink]:
        """The leaf links, all or those of one account, the first that came first."""
        leafs = self.server.leafs
        if leafs is None:
            return []
        return leafs.of_account(account) if account else list(leafs.links.values())

    def leaf_traffic(self, account: str) -> Traffic:
        """What came and goes over the open leaf links of one account."""
        return _with_open(Traffic(0, 0, 0, 0), self.leafs(account))

    def routes(self) -> list[RouteLink]:
        """The routes to other servers of the cluster, the first that came first."""
        mesh = self.server.mesh
        return [] if mesh is None else sorted(mesh.roster.routes(), key=lambda link: link.cid)

    def peer_count(self) -> int:
        """Other servers of the cluster."""
        mesh = self.server.mesh
        return 0 if mesh is None else len(mesh.roster.pools)

    def account_traffic(self, account: Account) -> Traffic:
        """Everything the clients of one account sent and got."""
        before = Traffic(
            account.closed_in_msgs, account.closed_in_bytes, account.closed_out_msgs, account.closed_out_bytes
        )
        return _with_open(before, account.connections.values())

    def claimed(self, account: str) -> Claimed | None:
        """The token of an account, in operator mode."""
        operators = self.hub.logins.operators
        return None if operators is None else operators.claimed.accounts.get(account)

    def name_tag_of(self, account: str) -> str:
        """What people call an account: in operator mode its name is a key."""
        claimed = self.claimed(account)
        return account if claimed is None else claimed.claims.name or account

    def account_name_of(self, connection: ClientConnection) -> str:
        """The account a connection counts for; one that has not said who it is counts for the global one."""
        return GLOBAL_ACCOUNT if connection.account is None else connection.account.name

    def connections_of(self, account: str) -> list[ClientConnection]:
        """The open connections that count for an account."""
        return [
            connection for connection in self.hub.connections.values() if self.account_name_of(connection) == account
        ]


def _with_past(before: Traffic, past: PastTraffic) -> Traffic:
    """What links that are gone carried, on top."""
    return Traffic(
        before.in_msgs + past.in_msgs,
        before.in_bytes + past.in_bytes,
        before.out_msgs + past.out_msgs,
        before.out_bytes + past.out_bytes,
    )


def _with_open(
    before: Traffic, connections: Iterable[Member | RouteLink | LeafLink | InboundGateway | OutboundGateway]
) -> Traffic:
    in_msgs, in_bytes, out_msgs, out_bytes = before.in_msgs, before.in_bytes, before.out_msgs, before.out_bytes
    for connection in connections:
        parser, outbox = connection.parser, connection.outbox
        in_msgs += parser.msgs
        in_bytes += parser.msg_bytes
        out_msgs += outbox.msgs
        out_bytes += outbox.msg_bytes
    return Traffic(in_msgs, in_bytes, out_msgs, out_bytes)
