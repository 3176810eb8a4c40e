"""The whole configuration of a server as one frozen value.

Built by `slipstream.config.load` from a file, flags and the environment; read by everything else. Field names are the
canonical nats-server keys; durations end in `_ns`; sizes are bytes. Every field has nats-server's default, so
`Options()` is a server started without arguments.

What this is not: a place for run-time state. A reload makes a new `Options` and compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slipstream.config.account_options import AccountOptions, AuthorizationOptions, MappingOptions, UserOptions
from slipstream.config.addresses import is_loopback
from slipstream.config.declared_options import DeclaredOptions
from slipstream.config.jetstream_options import JetStreamOptions
from slipstream.config.lake_options import LakeOptions
from slipstream.config.listener_options import (
    ClusterOptions,
    GatewayOptions,
    HttpApiOptions,
    LeafnodeOptions,
    MQTTOptions,
    OCSPCacheOptions,
    OCSPOptions,
    TLSOptions,
    WebsocketOptions,
    WriteTimeoutPolicy,
)
from slipstream.config.record import EMPTY, Record
from slipstream.limits import (
    CONNECT_ERROR_REPORTS,
    DEFAULT_HOST,
    DEFAULT_PORT,
    LAME_DUCK_DURATION_NS,
    LAME_DUCK_GRACE_PERIOD_NS,
    MAX_CLOSED_CLIENTS,
    MAX_CONNECTIONS,
    MAX_CONTROL_LINE_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_PENDING_BYTES,
    PING_INTERVAL_NS,
    PING_MAX,
    RECONNECT_ERROR_REPORTS,
    WRITE_DEADLINE_NS,
)

__all__ = ["GLOBAL_ACCOUNT", "SYSTEM_ACCOUNT", "Options", "Position", "ResolverOptions"]

GLOBAL_ACCOUNT = "$G"
SYSTEM_ACCOUNT = "$SYS"


class Position(Record):
    """Where a value was written; line 0 means it was not in a file."""

    file: str = ""
    line: int = 0
    column: int = 0


class ResolverOptions(Record):
    """`resolver`: where account JWTs come from."""

    type: str = ""  # memory, url, full or cache
    url: str = ""
    dir: str = ""
    allow_delete: bool = False
    hard_delete: bool = False
    limit: int = 0
    ttl_ns: int = 0
    interval_ns: int = 0
    timeout_ns: int = 0


class Options(Record, uncompared=("config_file", "config_digest", "positions")):
    """Everything an operator can set."""

    # The client listener.
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT  # -1: the kernel chooses
    client_advertise: str = ""
    tls: TLSOptions | None = None
    allow_non_tls: bool = False
    proxy_protocol: bool = False
    no_header_support: bool = False

    # Identity.
    server_name: str = ""  # empty: the server id
    server_tags: tuple[str, ...] = ()  # lower case, unique
    server_metadata: Mapping[str, str] = EMPTY
    feature_flags: Mapping[str, bool] = EMPTY

    # Logging and files.
    debug: bool = False
    trace: bool = False
    trace_verbose: bool = False
    trace_headers: bool = False
    max_traced_msg_len: int = 0  # 0: no limit
    logtime: bool = True
    logtime_utc: bool = False
    logfile: str = ""
    logfile_size_limit: int = 0  # bytes; 0: no rotation
    logfile_max_num: int = 0  # 0: keep all
    syslog: bool = False
    remote_syslog: str = ""
    pidfile: str = ""
    ports_file_dir: str = ""

    # Monitoring.
    http_host: str = ""  # empty: as `host`
    http_port: int = 0  # 0: off, -1: the kernel chooses
    https_port: int = 0
    http_base_path: str = ""
    dashboard: bool | None = None  # None: where monitoring is on loopback
    prof_port: int = 0
    prof_block_rate: int = 0

    # Limits.
    max_connections: int = MAX_CONNECTIONS  # -1: no limit
    max_subscriptions: int = 0  # a connection; 0 or less: no limit
    max_sub_tokens: int = 0  # 0: no limit
    max_control_line: int = MAX_CONTROL_LINE_BYTES
    max_payload: int = MAX_PAYLOAD_BYTES
    max_pending: int = MAX_PENDING_BYTES
    max_closed_clients: int = MAX_CLOSED_CLIENTS
    disable_sublist_cache: bool = False
    no_fast_producer_stall: bool = False

    # Timers.
    ping_interval_ns: int = PING_INTERVAL_NS
    ping_max: int = PING_MAX
    write_deadline_ns: int = WRITE_DEADLINE_NS
    write_timeout: WriteTimeoutPolicy = "default"
    lame_duck_duration_ns: int = LAME_DUCK_DURATION_NS
    lame_duck_grace_period_ns: int = LAME_DUCK_GRACE_PERIOD_NS
    connect_error_reports: int = CONNECT_ERROR_REPORTS
    reconnect_error_reports: int = RECONNECT_ERROR_REPORTS

    # Who may connect.
    authorization: AuthorizationOptions = AuthorizationOptions()
    accounts: tuple[AccountOptions, ...] = ()  # never holds $G; $SYS only if configured
    mappings: tuple[MappingOptions, ...] = ()  # of the global account
    no_auth_user: str = ""
    system_account: str = ""  # empty: $SYS, unless no_system_account
    no_system_account: bool = False
    default_sentinel: str = ""
    trusted_proxies: tuple[str, ...] = ()  # public keys of `proxies.trusted`

    # Operator mode.
    operator: tuple[str, ...] = ()  # files or JWTs
    trusted_keys: tuple[str, ...] = ()
    resolver: ResolverOptions | None = None
    resolver_preload: Mapping[str, str] = EMPTY
    resolver_pinned_accounts: tuple[str, ...] = ()
    resolver_tls: TLSOptions | None = None

    # Other listeners and subsystems.
    websocket: WebsocketOptions = WebsocketOptions()
    http_api: HttpApiOptions = HttpApiOptions()
    leafnodes: LeafnodeOptions = LeafnodeOptions()
    jetstream: JetStreamOptions = JetStreamOptions()
    lake: tuple[LakeOptions, ...] = ()
    default_js_domain: Mapping[str, str] = EMPTY
    cluster: ClusterOptions = ClusterOptions()
    gateway: GatewayOptions = GatewayOptions()
    mqtt: MQTTOptions = MQTTOptions()
    ocsp: OCSPOptions | None = None
    ocsp_cache: OCSPCacheOptions | None = None

    # Where it came from. Not part of the comparison of two configurations.
    config_file: str = ""
    config_digest: str = ""  # sha256:<hex>
    positions: Mapping[str, Position] = EMPTY  # by top-level key

    def users(self) -> Iterator[tuple[str, UserOptions]]:
        """Every configured user with the name of its account, in file order."""
        for user in self.authorization.users:
            yield GLOBAL_ACCOUNT, user
        for account in self.accounts:
            for user in account.users:
                yield account.name, user

    @property
    def trusts_operators(self) -> bool:
        """Whether accounts and users come from tokens that operators vouch for."""
        return bool(self.operator or self.trusted_keys)

    @property
    def has_tenants(self) -> bool:
        """Whether there are accounts besides the system's, so that the global account is nobody's."""
        return self.trusts_operators or any(one.name != self.system_account_name for one in self.accounts)

    @property
    def replicates(self) -> bool:
        """Whether streams are spread over the servers of a cluster."""
        return self.jetstream.enabled and bool(self.cluster.port)

    @property
    def declared(self) -> dict[str, DeclaredOptions]:
        """What accounts should have, by their names."""
        found = {GLOBAL_ACCOUNT: self.jetstream.declared}
        found |= {one.name: one.jetstream.declared for one in self.accounts if one.jetstream is not None}
        return {name: block for name, block in found.items() if block is not None}

    @property
    def may_call_out(self) -> bool:
        """Whether an auth callout may have to be asked: the configuration has one, or tokens of accounts may."""
        return self.authorization.auth_callout is not None or self.trusts_operators

    @property
    def serves_dashboard(self) -> bool:
        """Whether the monitoring port has the dashboard: as configured, or else where only this machine gets to it."""
        if not (self.http_port or self.https_port):
            return False
        if self.dashboard is not None:
            return self.dashboard
        return is_loopback(self.http_host or self.host)

    @property
    def system_account_name(self) -> str:
        """Name of the account that sees `$SYS` subjects; empty when it is turned off."""
        return self.system_account or ("" if self.no_system_account else SYSTEM_ACCOUNT)
