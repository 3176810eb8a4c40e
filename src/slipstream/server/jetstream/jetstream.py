"""JetStream in a running server: threads, and one JetStream account per account that has it.

Its directory is taken before (`storage`).

What this is not: JetStream. That is `slipstream.jetstream`, which knows neither sockets nor files of its own.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from slipstream.config.jetstream_options import JetStreamAuditOptions
from slipstream.config.options import GLOBAL_ACCOUNT
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.account.directory import DirectoryStores, account_directory
from slipstream.jetstream.account.server import JetStreamServer
from slipstream.jetstream.api.api import open_api
from slipstream.jetstream.api.subjects import API_PREFIX, API_SUBSCRIPTIONS, keeps_silent
from slipstream.jetstream.api.trail import AuditTrail, audit_stream_config
from slipstream.jetstream.config.packing import codec_of
from slipstream.jetstream.ports import AccountLimits
from slipstream.jetstream.store.file import FileStoreOptions, segment_bytes_for
from slipstream.jetstream.store.file.disk.real_disk import RealDisk
from slipstream.jetstream.store.file.disk.reserve import Reserve
from slipstream.jetstream.store.packed.disk import PackedDisk
from slipstream.kernels.subjects.subject import matches
from slipstream.server.jetstream.file_threads import FileWork
from slipstream.server.jetstream.ports import AccountPorts
from slipstream.server.jetstream.settings import account_limits, server_facts
from slipstream.server.jetstream.signing import ServerKey
from slipstream.server.jetstream.storage import Storage
from slipstream.server.jetstream.system import SystemApi

if TYPE_CHECKING:
    import asyncio

    from slipstream.accounts.account import Callback
    from slipstream.accounts.member import Member
    from slipstream.jetstream.api.dispatch import ApiDispatcher
    from slipstream.jetstream.config.structs import StreamConfig
    from slipstream.jetstream.store.file.disk.disk import Disk
    from slipstream.jetstream.stream.stream import Stream
    from slipstream.server.jetstream.at_rest import AtRest, KeysAtRest
    from slipstream.server.jetstream.cluster import JetStreamCluster
    from slipstream.server.jetstream.conversion import Conversion
    from slipstream.server.server import Server

__all__ = ["JetStreamRunner"]

_INFO = f"{API_PREFIX}INFO".encode()


_YOUNG_STREAMS_MAX: Final = 256  # a stream is some hundred objects, and 100,000 take 10 ms to look at


class JetStreamRunner:
    """Starts, holds and stops JetStream."""

    def __init__(
        self,
        server: Server,
        loop: asyncio.AbstractEventLoop,
        storage: Storage,
        key: KeysAtRest | None = None,
        on_meta_leader: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is opened before `start`; the storage is closed by `stop`.

        Args:
            server: whose JetStream it is.
            loop: the server's.
            storage: where files are.
            key: that of encryption at rest.
            on_meta_leader: is told when this server begins to lead its cluster, and when it does no more.
        """
        self._on_meta_leader = on_meta_leader
        self._server = server
        self._loop = loop
        self._raw_disk = raw = RealDisk()
        self.sync_times = raw.sync_times
        self._at_rest: AtRest | None = None
        below: Disk = raw
        if key is not None:
            from slipstream.server.jetstream import at_rest

            self._at_rest = at_rest.AtRest(raw, key)
            below = self._at_rest.disk
        self._disk: Disk = PackedDisk(below)
        self.conversion: Conversion | None = None  # files are written anew, with encryption or without
        if self._at_rest is not None and self._at_rest.is_converting:
            from slipstream.server.jetstream.conversion import Conversion

            self.conversion = Conversion(raw, self._disk, storage.directory, self._at_rest, server.log)
        self._files = FileWork(
            loop, server.turns.run_and_flush, server.turns.report, server.options.jetstream.max_concurrent_io
        )
        self._storage = storage
        self.options = server.options.jetstream
        self.directory = storage.directory
        self._reserve = Reserve(self._disk, self.directory)
        self._signer = ServerKey(self._disk, self.directory)
        self.facts = server_facts(server, self.directory)
        self.accounts: dict[str, JetStreamAccount] = {}
        self.cluster = self._join_cluster()
        """The cluster that streams are spread over; None: this server is alone."""
        coordinator = self.cluster.coordinator if self.cluster is not None else None
        self.shared = JetStreamServer(self.facts, self._on_full, coordinator)
        self.server_id = server.identity.id
        self.apis: dict[str, ApiDispatcher] = {}  # of these
        self.broken: dict[str, str] = {}  # accounts whose streams could not be looked for, and why
        self._listening: dict[str, list[Callable[[], None]]] = {}  # accounts whose calls are answered → what ends that
        self._stopping = False
        self._conversion_timer: asyncio.TimerHandle | None = None
        self._system: SystemApi | None = None
        self.trail: AuditTrail | None = None  # where actions are written down
        self._young_streams = 0  # made since the garbage collector was told that what is there stays
        self._system_listening: list[Callable[[], None]] = []

    def start(self) -> None:
        """Recover every stream. Blocks: the server does not listen yet.

        Raises:
            StorageFault: the directory cannot be used.
        """
        began = time.perf_counter()
        if not self._reserve.fill():
            self._server.log("WRN", f"Not enough space in {self.directory} to keep a reserve for when it is full")
        self._open_system_account()
        for name, limits in self._wanted().items():
            self._open(name, limits)
        self._server.hub.jetstream = True
        self._look_at_conversion()
        self._server.log("INF", f"Took {(time.perf_counter() - began) * 1000:.6f}ms to start JetStream")

    def _look_at_conversion(self) -> None:
        """Find out how far it is, now and after a while."""
        conversion = self.conversion
        if conversion is None or conversion.is_done:
            return

        def looked() -> None:
            conversion.tell()
            if not self._stopping:
                self._conversion_timer = self._loop.call_later(conversion.pause_s, self._look_at_conversion)

        self._files.rest.run(conversion.look, looked)

    def stop(self) -> None:
        """Close every stream; everything acknowledged is on disk before that."""
        self._stopping = True
        if self._conversion_timer is not None:
            self._conversion_timer.cancel()
        self._server.log("INF", "Initiating JetStream Shutdown...")
        if self.cluster is not None:
            self.cluster.stop()
        for name in reversed(list(self._listening)):  # the audit trail, which was there first, goes last
            self._close(name)
        self.trail = None
        for stop_listening in self._system_listening:
            stop_listening()
        if self._system is not None:
            self._system.stop()
        self._server.hub.jetstream = False
        self._files.stop()
        self._raw_disk.close()
        self._storage.close()
        self._server.log("INF", "JetStream Shutdown")

    def _wanted(self) -> dict[str, AccountLimits | None]:
        """Limits of every account; None where JetStream is off. A server without accounts gives it to everybody."""
        options = self._server.options
        if options.trusts_operators:
            # Tokens say who has JetStream; the global account is nobody's.
            return {name: self._limits_of(name) for name in self._server.hub.accounts if self._is_token_account(name)}
        if not options.has_tenants:
            return {GLOBAL_ACCOUNT: AccountLimits()}
        wanted: dict[str, AccountLimits | None] = {GLOBAL_ACCOUNT: None}
        for account in options.accounts:
            if account.name != options.system_account_name:
                wanted[account.name] = None if account.jetstream is None else account_limits(account.jetstream)
        return wanted

    def _is_token_account(self, name: str) -> bool:
        operators = self._server.hub.logins.operators
        return operators is not None and name in operators.claimed.accounts and not self._is_system(name)

    @property
    def system_name(self) -> str:
        """The name of the system account."""
        return self._server.options.system_account_name

    def _is_system(self, name: str) -> bool:
        return name == self._server.options.system_account_name

    def _limits_of(self, name: str) -> AccountLimits | None:
        options = self._server.hub.topology.graph.accounts[name].options.jetstream
        return None if options is None else account_limits(options)

    def accounts_changed(self, names: Iterable[str]) -> None:
        """Accounts of operator mode came, or have other limits now."""
        for name in names:
            if self._is_token_account(name):
                self._adapt(name, self._limits_of(name))

    def reconnected(self, name: str) -> None:
        """Another server is connected with an account: mirrors and sources that read there need not wait."""
        account = self.accounts.get(name)
        for hook in account.on_reconnected if account is not None else ():
            hook()

    def _calls_another(self, name: str) -> bool:
        """Whether an account imports the API of another: it then has what it imports, and no answer of its own."""
        imports = self._server.hub.topology.graph.accounts[name].options.imports
        services = [entry for entry in imports if entry.kind == "service"]
        return any(matches((entry.to or entry.subject).encode(), _INFO) for entry in services)

    def _open(self, name: str, limits: AccountLimits | None) -> None:
        if limits is None and self._calls_another(name):
            self._listening[name] = []
            return
        account, api = self._make(name, limits)
        if limits is not None:
            self._recover(account, api)
        self._listening[name] = self._listen(name, api)

    def _make(
        self, name: str, limits: AccountLimits | None, *, takes_publishes: bool = True
    ) -> tuple[JetStreamAccount, ApiDispatcher]:
        """An account without its streams yet, and its API; without limits JetStream is off."""
        server = self._server
        if self.conversion is not None:
            self.conversion.leave(self.account_path(name))
        place = server.hub.accounts[name]
        ports = AccountPorts(server, place, self._loop, self._files, takes_publishes=takes_publishes)
        stores = DirectoryStores(
            self._disk,
            self.account_path(name),
            options=self._store_options,
            new_uid=lambda: os.urandom(16),
            log=ports.log,
            label=name.encode() if self._at_rest is not None and self._at_rest.hides_names else b"",
        )
        account = JetStreamAccount(name, ports, self.shared, stores, limits or AccountLimits())
        cluster = self.cluster if takes_publishes else None  # the audit trail is each server's own
        gate = None if cluster is None else cluster.gate(name)
        api = open_api(account, self._on_dropped, signer=self._signer, trail=self.trail, gate=gate)
        if cluster is not None:
            cluster.serve(account, api)
        api.enabled = limits is not None
        account.on_started.append(self._on_stream)
        return account, api

    def _join_cluster(self) -> JetStreamCluster | None:
        server = self._server
        if not server.options.replicates:
            return None
        from slipstream.server.jetstream.cluster import JetStreamCluster

        place = server.hub.system_account or server.hub.accounts[GLOBAL_ACCOUNT]
        ports = AccountPorts(server, place, self._loop, self._files)
        return JetStreamCluster(
            server,
            self.facts,
            ports,
            self._disk,
            self.directory,
            self.replica_options,
            self._account_of,
            self._on_removed,
            self._on_meta_leader,
        )

    def _account_of(self, name: str) -> JetStreamAccount | None:
        return self.accounts.get(name)

    def replica_options(self) -> FileStoreOptions:
        """Of the store of a replica."""
        return FileStoreOptions(
            random64=_random64,
            noise=os.urandom,
            now_ns=self._server.clock.now_ns,
            reserve=self._reserve,
            replicated=True,
        )

    def _recover(self, account: JetStreamAccount, api: ApiDispatcher) -> None:
        name = account.name
        try:
            account.recover()
        except Exception as error:
            # One account's trouble is not the others': its API says that JetStream is not there.
            self._server.turns.report(f"The recovery of account '{name}'", error)
            self.broken[name] = str(error) or type(error).__name__
            api.enabled = False
        self.accounts[name], self.apis[name] = account, api
        if self.cluster is not None:
            self.cluster.opened(account)

    def _open_trail(self, options: JetStreamAuditOptions, name: str) -> ApiDispatcher:
        """Write actions down from now on, in a stream of the system account; gives the API of those who read it."""
        account, api = self._make(name, AccountLimits(), takes_publishes=False)
        self._recover(account, api)
        self._listening[name] = []  # the system account has its own way to answer
        self.trail = AuditTrail(account, audit_stream_config(options.max_age_ns, options.max_bytes))
        self.trail.open()
        return api

    def has_account(self, name: str) -> bool:
        """Whether this server knows an account, with JetStream or without."""
        return name in self._server.hub.accounts

    def account_path(self, name: str) -> str:
        """Where the files of an account are."""
        hidden = self._at_rest
        directory = account_directory(name) if hidden is None else hidden.account_directory(name)
        return os.path.join(self.directory, directory)

    def describe_client(self, client: Member) -> Mapping[str, object]:
        """Who calls, for advisories and the audit trail."""
        return self._server.hub.client_info(client)

    def _on_stream(self, _stream: Stream) -> None:
        """Streams stay: a full garbage collection does not have to look at all of them again and again."""
        self._young_streams += 1
        if self._young_streams >= _YOUNG_STREAMS_MAX:
            self._young_streams = 0
            gc.freeze()

    def _on_full(self, stream: str) -> None:
        """A stream finds no space on the disk."""
        if self._system is not None:
            self._system.full(stream)

    def _on_removed(self) -> None:
        """This server was taken out of its cluster."""
        if self._system is not None:
            self._system.removed(self._server.options.cluster.name)

    def _on_dropped(self, looks: bool) -> None:
        """An API call was dropped."""
        if self._system is not None:
            self._system.dropped(looks)

    def _close(self, name: str) -> None:
        """Let an account's clients call its API no more. Its streams stay on disk."""
        for stop_listening in self._listening.pop(name):
            stop_listening()
        self.broken.pop(name, None)
        account = self.accounts.pop(name, None)
        if account is not None:
            del self.apis[name]
            account.shutdown()

    def reload(self) -> None:
        """Take over other limits, and accounts that came, went, or may now use JetStream or not any more. Blocks."""
        self.options = self._server.options.jetstream
        # What the file does not say was found out at the start, and stays.
        self.shared.set_limits(
            max_memory=_given(self.options.max_memory_store, self.facts.max_memory),
            max_storage=_given(self.options.max_file_store, self.facts.max_storage),
        )
        wanted = self._wanted()
        for name in [name for name in self._listening if name not in wanted and not self._is_system(name)]:
            self._close(name)
        for name, limits in wanted.items():
            self._adapt(name, limits)

    def _adapt(self, name: str, limits: AccountLimits | None) -> None:
        running = self.accounts.get(name)
        if running is not None and limits is not None:
            running.set_limits(limits)
        elif (
            name not in self._listening
            or (running is None) != (limits is None)
            or (not self._listening[name]) != (limits is None and self._calls_another(name))
        ):
            if name in self._listening:
                self._close(name)
            self._open(name, limits)

    def _listen(self, name: str, api: ApiDispatcher) -> list[Callable[[], None]]:
        """Let an account's clients call its API, also by the server's domain; gives what ends it."""
        prefixes = [API_PREFIX]
        if self.facts.domain:
            prefixes.append(f"$JS.{self.facts.domain}.API.")

        spanning = self.cluster if self._server.options.gateway.port else None

        def answer_at(prefix: bytes) -> Callback:
            def answer(
                publisher: Member | None, subject: bytes, reply: bytes | None, header_size: int, body: bytes
            ) -> None:
                client = None if publisher is None else partial(self.describe_client, publisher)
                grants = None if publisher is None else publisher.grants
                called = API_PREFIX.encode() + subject[len(prefix) :]
                whence = None if spanning is None else spanning.whence(publisher, called, reply)
                api.handle(called, reply, body[:header_size] or None, body[header_size:], client, grants, whence)

            return answer

        place = self._server.hub.accounts[name]
        made: list[Callable[[], None]] = []
        for prefix in prefixes:
            for pattern in API_SUBSCRIPTIONS:
                suffix = pattern.removeprefix(API_PREFIX)
                # Under the domain there is only what the domain's mappings know of.
                subject = prefix + ("INFO" if suffix == "*" and prefix != API_PREFIX else suffix)
                subscription = place.subscribe(subject.encode(), answer_at(prefix.encode()))
                made.append(partial(place.remove, subscription))
        place.keeps_silent = keeps_silent
        made.append(partial(setattr, place, "keeps_silent", None))
        return made

    def _open_system_account(self) -> None:
        name = self._server.options.system_account_name
        if not name:
            return
        place = self._server.hub.accounts[name]
        ports = AccountPorts(self._server, place, self._loop, self._files)
        audit = self.options.audit
        self._system = SystemApi(self, ports, None if audit is None else self._open_trail(audit, name))
        subscription = place.subscribe(f"{API_PREFIX}>".encode(), self._system.answer)
        self._system_listening = [partial(place.remove, subscription)]

    def _store_options(self, config: StreamConfig) -> FileStoreOptions:
        codec = codec_of(config)
        return FileStoreOptions(
            random64=_random64,
            noise=os.urandom,
            now_ns=self._server.clock.now_ns,
            segment_bytes=segment_bytes_for(config.max_bytes, codec),
            codec=codec,
            reserve=self._reserve,
        )


def _random64() -> int:
    return int.from_bytes(os.urandom(8))


def _given(configured: int, otherwise: int) -> int:
    return configured if configured >= 0 else otherwise
