"""JetStream of one account: its streams and its limits. Its API is above (`api`).

Making and removing a stream takes file work, which runs in a thread; until it is done the name is busy, and other
requests for that name wait their turn. Everything else happens at once and is durable before it is answered.

Invariants: no two streams (made or in the making) share a subject; a stream is in `streams` exactly while it listens;
the server's reserved bytes are the sum of `max_bytes` over all its streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.busy import BusyNames
from slipstream.jetstream.account.checks import StreamChecks
from slipstream.jetstream.account.facts import AccountFacts, facts_of
from slipstream.jetstream.account.holdings import Holdings
from slipstream.jetstream.account.making import Done, Fill, StreamMaker
from slipstream.jetstream.account.resources import AccountBudget
from slipstream.jetstream.account.running import RunningStreams, StreamHook
from slipstream.jetstream.account.server import ClusterStreams, JetStreamServer
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.precheck import Prechecked, with_level
from slipstream.jetstream.config.sources import check_filters
from slipstream.jetstream.config.stored import from_stored
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.update import updated
from slipstream.jetstream.config.validate import checked
from slipstream.jetstream.config.versioning import (
    API_LEVEL,
    REQUIRED_LEVEL_KEY,
    same_but_for_versioning,
)
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.guard import call, each, guarded_with
from slipstream.jetstream.ports import AccountLimits, Ports, Recovered, StreamStores
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.notes import RESTORING
from slipstream.jetstream.stream.commit.committer import Replication
from slipstream.jetstream.stream.commit.faults import fault_of
from slipstream.jetstream.stream.stream import Stream

__all__ = ["JetStreamAccount", "restore_failed"]


class JetStreamAccount:
    """The streams of one account and what is asked of them."""

    def __init__(
        self, name: str, ports: Ports, server: JetStreamServer, stores: StreamStores, limits: AccountLimits
    ) -> None:
        """Empty until `recover`; what lives with streams (consumers, copies, the API) hooks in before that."""
        self.name = name
        self.ports = ports
        self.server = server
        self.facts = server.facts
        self.advisories = Advisories(ports, server.facts)
        self.holdings = Holdings(server.budgets)
        self.budgets = {
            storage: AccountBudget(budget, _limit_of(limits, storage)) for storage, budget in server.budgets.items()
        }
        self._stores = stores
        self._busy = BusyNames(ports)
        self._running = RunningStreams(ports, server, self.holdings, self.budgets, self.advisories)
        self._maker = StreamMaker(name, ports, stores, self._running, self.holdings, self._busy, self.advisories)
        self.checks = StreamChecks(limits, server, self._running, self.holdings, self._maker.creating)
        self.streams = self._running.by_name
        self._unassigned: dict[str, Recovered] = {}  # in a cluster: found on disk, and not known to be this server's
        self.offline: dict[str, str] = {}  # streams that cannot run here, such as those of a newer server: name → why
        self.on_started = self._running.on_started  # called when a stream begins to listen, before it is announced
        self.on_stopped = self._running.on_stopped  # called when a stream has stopped listening
        self.on_shutdown: list[Callable[[], None]] = []  # called before all streams are closed
        self.on_updated: list[StreamHook] = []  # called when a stream has a new configuration
        self.on_reconnected: list[Callable[[], None]] = []  # called when another server is there again
        self.on_moved: list[Callable[[str], None]] = []  # called when another server leads a stream of this name
        self.on_caught_up: list[StreamHook] = []  # called when a mirror first has nearly all its origin has
        self.cluster_streams: ClusterStreams | None = None
        """In a cluster: the streams of the account, whoever keeps them."""
        self.stored_elsewhere: list[Callable[[bytes], bool]] = []
        """In a cluster: asked whether a stream stores a subject and acknowledges it, whichever server leads it."""

    @property
    def limits(self) -> AccountLimits:
        """Those that hold now."""
        return self.checks.limits

    # --- start and stop ---

    def recover(self) -> None:
        """Open every stream found on disk. Blocks; called before the server accepts connections.

        In a cluster they run when this server hears that they are assigned to it.
        """
        for found in self._stores.recover():
            if self.server.cluster is not None:
                self._unassigned[found.config.name] = found
                continue
            try:
                self._recover(found)
            except Exception as error:
                self._keep_offline(found, fault_of(error))
        for name, reason in self._stores.unopened().items():
            self.ports.log("ERR", f"Stream '{self.name} > {name}' could not be opened: {reason}")
            if name not in self.streams:
                self.offline[name] = reason
        self.server.scrubber.join(self)
        for path in self._stores.quarantined():
            self.ports.log("WRN", f"JetStream directory moved aside because it could not be read: {path}")

    def _recover(self, found: Recovered) -> None:
        level = found.config.metadata.get(REQUIRED_LEVEL_KEY, "0")
        if not level.isdecimal() or int(level) > API_LEVEL:
            self.offline[found.config.name] = f"unsupported - required API level: {level}, current: {API_LEVEL}"
            self.holdings.take(found.config)
            found.store.close()
        elif RESTORING in found.store.notes():
            self.ports.log("WRN", f"Stream '{self.name} > {found.config.name}' was restored only in part: removed")
            self._stores.destroy(found.store)
        else:
            self._running.start(self._running.make(found.config, found.store, found.created_ns), recovered=True)

    def _keep_offline(self, found: Recovered, fault: StorageFault) -> None:
        """One stream's trouble is not the others': its files stay as they are, and its subjects stay its own."""
        name = found.config.name
        self.ports.log("ERR", f"Stream '{self.name} > {name}' could not be started: {fault}")
        self.offline[name] = str(fault)
        started = self._running.forget(name)
        if started is not None:
            self._running.stop(started, deleted=False)
        else:
            self.holdings.take(found.config)
        call(self.ports, f"Closing stream '{self.name} > {name}'", found.store.close)

    def shutdown(self) -> None:
        """Stop and close every stream. Blocks."""
        each(self.ports, "JetStream shutdown", self.on_shutdown)
        self.server.scrubber.leave(self)
        self._running.close_all(self.name)
        for found in self._unassigned.values():
            call(self.ports, f"Closing stream '{self.name} > {found.config.name}'", found.store.close)
        self._unassigned.clear()

    def set_limits(self, limits: AccountLimits) -> None:
        """Apply new limits from now on; what is stored or reserved already stays."""
        self.checks.use(limits)
        for storage, budget in self.budgets.items():
            budget.set_limit(_limit_of(limits, storage))

    # --- streams ---

    def get_stream(self, name: str) -> Stream:
        """The stream of this name.

        Raises:
            ApiError: 10059, or 10194 if it exists but cannot run here.
        """
        stream = self.streams.get(name)
        if stream is None:
            if name in self.offline:
                raise TableError(table.STREAM_OFFLINE_REASON, err=self.offline[name])
            raise TableError(table.STREAM_NOT_FOUND)
        return stream

    def matching(self, subject: str) -> Sequence[str]:
        """See `RunningStreams.matching`."""
        return self._running.matching(subject)

    def create_stream(
        self, config: StreamConfig, done: Done, *, pedantic: bool = False, prechecked: Prechecked | None = None
    ) -> None:
        """Make a stream, or find that exactly this one exists; `done` gets it when it is durable.

        Raises:
            ApiError: what the request itself breaks; what the disk does to it goes to `done`.
        """
        if self._busy.wait(
            config.name, lambda: _attempt(lambda: self.create_stream(config, done, pedantic=pedantic), done)
        ):
            return
        config = with_level(config)
        self.checks.check_room(config, new=config.name not in self.streams)
        config = self.checks.checked(config, prechecked, pedantic=pedantic)
        if config.num_replicas > 1:
            raise TableError(table.STREAM_REPLICAS_NOT_SUPPORTED)
        existing = self.streams.get(config.name)
        if existing is not None:
            if not same_but_for_versioning(config, existing.config):
                raise TableError(table.STREAM_NAME_EXIST)
            existing.after_commit(lambda error: done(error or existing))
            return
        if config.name in self.offline:
            raise TableError(table.STREAM_OFFLINE_REASON, err=self.offline[config.name])
        self.checks.check_room(config, new=True)
        self.holdings.check_overlap(config)
        check_filters(config)
        self._maker.create(config, done)

    def restore_stream(self, config: StreamConfig, fill: Fill, done: Done) -> None:
        """Make a stream from a backup; `done` gets it when `fill` has filled its store and all is durable.

        Raises:
            ApiError: what the request itself breaks.
        """
        config = checked(with_level(config), self.checks.context())
        if config.num_replicas > 1:
            raise TableError(table.STREAM_REPLICAS_NOT_SUPPORTED)
        self.checks.check_room(config, new=True)
        if config.name in self.streams or config.name in self._busy or config.name in self.offline:
            raise TableError(table.STREAM_NAME_EXIST_RESTORE_FAILED)
        try:
            self.holdings.check_overlap(config)
        except ApiError as error:
            raise restore_failed(error) from None
        self._maker.create(config, done, fill)

    def update_stream(
        self, config: StreamConfig, done: Done, *, pedantic: bool = False, prechecked: Prechecked | None = None
    ) -> None:
        """Change a stream; `done` gets it when the change is durable.

        Raises:
            ApiError: 10059 or what the change breaks.
        """
        if self._busy.wait(
            config.name, lambda: _attempt(lambda: self.update_stream(config, done, pedantic=pedantic), done)
        ):
            return
        stream = self.get_stream(config.name)
        old = stream.config
        config = updated(old, self.checks.checked(with_level(config), prechecked, pedantic=pedantic))
        self.checks.check_growth(old, config)
        self.checks.check_consumers(stream, config)
        self.holdings.check_overlap(config)
        self._change(stream, config, done)

    def _change(self, stream: Stream, config: StreamConfig, done: Done) -> None:
        stream.update(config)
        self.holdings.change(config)
        each(self.ports, f"The update of stream '{stream.name}'", self.on_updated, stream)
        # Tighter limits may have much to remove; the answer shows the stream as it is then.
        stream.slices.after(
            lambda: stream.after_commit(lambda error: self._maker.announce(stream, "modify", error, done))
        )

    def delete_stream(
        self,
        name: str,
        done: Callable[[ApiError | None], None],
        *,
        only_if: Callable[[Stream], bool] | None = None,
    ) -> None:
        """Remove a stream and all it stored; `done` is called when nothing of it is left.

        With `only_if`, which is asked at the last moment, it may stay.

        Raises:
            ApiError: 10059.
        """
        again = partial(self.delete_stream, name, done, only_if=only_if)
        if self._busy.wait(name, lambda: _attempt(again, done)):
            return
        stream = self.get_stream(name)

        def broke(error: Exception) -> None:
            # What is left of its files is found at the next start.
            self.ports.report(f"The removal of stream '{self.name} > {name}'", error)
            if name in self._busy:
                self._busy.release(name)
                done(TableError(table.STREAM_DELETE, err=fault_of(error).text))

        def committed(_: ApiError | None) -> None:
            if only_if is None or only_if(stream):
                self._maker.destroy(stream, done, broke)
            else:
                self._busy.release(name)
                done(None)

        # What was decided before is answered before.
        stream.after_commit(guarded_with(committed, broke))
        self._busy.take(name)

    # --- streams that other servers have, too ---

    def lead_stream(self, store: Store, replication: Replication) -> Stream:
        """Run a replicated stream here, from what its store says: this server leads its replicas from now on.

        Raises:
            ApiError, StorageFault, JsonError: it cannot run here.
        """
        config, created_ns = from_stored(store.config)
        stream = self._running.make(config, store, created_ns, replication)
        try:
            self._running.start(stream, recovered=True)
        except Exception:
            self.release_stream(config.name)
            raise
        return stream

    def release_stream(self, name: str, *, deleted: bool = False) -> None:
        """Another server may lead it now: it stops here, and nobody who waits is answered; or it is `deleted`."""
        stream = self._running.forget(name)
        if stream is not None:
            self._running.stop(stream, deleted=deleted, elsewhere=not deleted)
            self.holdings.give_back(name)

    def hold_stream(self, store: Store, replication: Replication) -> Stream:
        """Have a replicated stream commit that is open to nobody yet; `end_held` ends it.

        Raises:
            ApiError, StorageFault, JsonError: it cannot run here.
        """
        config, created_ns = from_stored(store.config)
        return self._running.make(config, store, created_ns, replication)

    def end_held(self, stream: Stream) -> None:
        """A stream that was held commits no more."""
        stream.stop(deleted=False)
        stream.appends.resources.release()

    def place_stream(self, config: StreamConfig, created_ns: int, done: Done, fill: Fill | None = None) -> None:
        """Run a stream that a cluster has assigned to this server alone: the one found on disk, or a new one."""
        if self._busy.wait(config.name, lambda: self.place_stream(config, created_ns, done, fill)):
            return
        running = self.streams.get(config.name)
        if running is not None:
            done(running)
            return
        found = self._unassigned.pop(config.name, None)
        if found is None:
            self._maker.create(config, done, fill, created_ns=created_ns)
        elif found.created_ns != created_ns:
            found.store.close()
            done(TableError(table.STREAM_OFFLINE_REASON, err="another stream of this name is on the disk"))
        else:
            try:
                self._recover(found)
            except Exception as error:
                self._keep_offline(found, fault_of(error))
            stream = self.streams.get(config.name)
            done(stream or TableError(table.STREAM_OFFLINE_REASON, err=self.offline.get(config.name, "")))

    def detach_stream(self, name: str, created_ns: int, done: Callable[[str | None], None]) -> None:
        """Run a stream no more that was this server's alone; `done` gets its directory when nothing works on it.

        Everything that was decided before is durable and answered; whoever asks meanwhile is answered by nobody. None:
        there is no such stream, or it is in memory.
        """
        if self._busy.wait(name, lambda: self.detach_stream(name, created_ns, done)):
            return
        stream, found = self.streams.get(name), self._unassigned.get(name)
        if stream is None:
            if found is None or found.created_ns != created_ns:
                done(None)
                return
            del self._unassigned[name]
            self._close(name, found.store, done)
            return

        def end() -> None:
            self.release_stream(name)
            committer, close = stream.committer, partial(self._close, name, stream.store, done)
            committer.when_quiet(lambda: committer.upkeep.when_quiet(close))

        # Not among those who wait for the same commit: the others are answered first.
        stream.after_commit(lambda _: self.ports.call_soon(end))
        self._busy.take(name)

    def _close(self, name: str, store: Store, done: Callable[[str | None], None]) -> None:
        def closed() -> None:
            self._busy.release(name)
            done(self._stores.detach(store))

        if name not in self._busy:
            self._busy.take(name)
        self.ports.run_blocking(store.close, closed)

    def drop_found(self, name: str, created_ns: int) -> None:
        """A stream that was found on disk and never ran here is gone: so are its files, if they are of that one."""
        found = self._unassigned.get(name)
        if found is not None and found.created_ns == created_ns:
            del self._unassigned[name]
            self._maker.remove_files(found.store, lambda: None)

    def change_stream(self, config: StreamConfig, done: Done) -> None:
        """Give a stream a configuration that was checked already; `done` gets it when that is durable."""
        if self._busy.wait(config.name, lambda: self.change_stream(config, done)):
            return
        stream = self.streams.get(config.name)
        if stream is None:
            done(TableError(table.STREAM_NOT_FOUND))
        else:
            self._change(stream, config, done)

    # --- facts ---

    def cluster_block(self, stream: str) -> Mapping[str, object] | None:
        """What answers say about the cluster; None: this server is alone."""
        cluster = self.server.cluster
        return None if cluster is None else cluster.block(self.name, stream)

    def raft_group(self, stream: str) -> str:
        """The name of a stream's Raft group; none: this server is alone."""
        cluster = self.server.cluster
        return "" if cluster is None else cluster.group(self.name, stream)

    def alternates(self, stream: str) -> Sequence[Mapping[str, object]]:
        """What can be read in the place of a stream, and itself; none without mirrors, or alone."""
        cluster = self.server.cluster
        return () if cluster is None else cluster.alternates(self.name, stream)

    def consumer_made(self, stream: Stream, consumer: str) -> None:
        """A consumer is new: those hear of its leader who listen for that."""
        if self.server.cluster is not None and stream.is_replicated:
            self.server.cluster.consumer_elected(self.name, stream.name, consumer)

    def snapshot(self, *, streams: bool = True) -> AccountFacts:
        """What /jsz and /healthz show; each stream only if that is asked for, because there may be very many."""
        return AccountFacts(
            name=self.name,
            memory_bytes=self.budgets[StorageType.MEMORY].used_bytes,
            storage_bytes=self.budgets[StorageType.FILE].used_bytes,
            reserved_memory_bytes=self.holdings.reserved_bytes(StorageType.MEMORY),
            reserved_storage_bytes=self.holdings.reserved_bytes(StorageType.FILE),
            streams=[facts_of(stream) for _, stream in sorted(self.streams.items())] if streams else [],
            offline=dict(self.offline),
            quarantined=self._stores.quarantined(),
        )


def restore_failed(error: ApiError) -> ApiError:
    """Why a backup cannot become a stream.

    nats-server says this only when all was sent; the same words do not make the client send it in vain.
    """
    return TableError(table.STREAM_RESTORE, err=f"error adding stream: {error.description} ({error.err_code})")


def _attempt(work: Callable[[], None], refused: Callable[[ApiError], None]) -> None:
    """Try again what had to wait; nobody is there any more who would catch what it raises."""
    try:
        work()
    except ApiError as error:
        refused(error)


def _limit_of(limits: AccountLimits, storage: StorageType) -> int:
    return limits.max_memory if storage is StorageType.MEMORY else limits.max_storage
