"""JetStream of one account: its streams and its limits. Its API is above (`api`).

Making and removing a stream takes file work, which runs in a thread; until it is done the name is busy, and other
requests for that name wait their turn. Everything else happens at once and is durable before it is answered.

Invariants: no two streams (made or in the making) share a subject; a stream is in `streams` exactly while it listens;
the server's reserved bytes are the sum of `max_bytes` over all its streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from slipstream.errors import ApiError, StorageFault
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.busy import BusyNames
from slipstream.jetstream.account.facts import AccountFacts, facts_of
from slipstream.jetstream.account.holdings import Holdings
from slipstream.jetstream.account.resources import AccountBudget, StreamShare, check_limits
from slipstream.jetstream.account.server import JetStreamServer
from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.precheck import Prechecked, with_level
from slipstream.jetstream.config.sources import check_filters
from slipstream.jetstream.config.stored import from_stored
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.update import updated
from slipstream.jetstream.config.validate import ConfigContext, checked
from slipstream.jetstream.config.versioning import (
    API_LEVEL,
    REQUIRED_LEVEL_KEY,
    same_but_for_versioning,
)
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.guard import call, each, guarded, guarded_with
from slipstream.jetstream.ports import ONE_REPLICA, AccountLimits, Ports, Recovered, StreamStores
from slipstream.jetstream.store.contract import Store
from slipstream.jetstream.store.notes import RESTORING
from slipstream.jetstream.stream.commit.committer import Replication
from slipstream.jetstream.stream.commit.faults import fault_of, store_error
from slipstream.jetstream.stream.stream import Stream

__all__ = ["JetStreamAccount", "restore_failed"]

Done = Callable[[Stream | ApiError], None]
StreamHook = Callable[[Stream], None]
Fill = Callable[[StreamConfig, Store, Callable[[int | ApiError], None]], None]
"""Gets an empty store, and later tells when its stream was made (nanoseconds), or why it stays empty."""


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
        self.limits = limits
        self.streams: dict[str, Stream] = {}
        self._unassigned: dict[str, Recovered] = {}  # in a cluster: found on disk, and not known to be this server's
        self.offline: dict[str, str] = {}  # streams that cannot run here, such as those of a newer server: name → why
        self.advisories = Advisories(ports, server.facts)
        self.on_started: list[StreamHook] = []  # called when a stream begins to listen, before it is announced
        self.on_stopped: list[StreamHook] = []  # called when a stream has stopped listening
        self.on_shutdown: list[Callable[[], None]] = []  # called before all streams are closed
        self.on_updated: list[StreamHook] = []  # called when a stream has a new configuration
        self.on_reconnected: list[Callable[[], None]] = []  # called when another server is there again
        self.on_moved: list[Callable[[str], None]] = []  # called when another server leads a stream of this name
        self.on_caught_up: list[StreamHook] = []  # called when a mirror first has nearly all its origin has
        self._stores = stores
        self.holdings = Holdings(server.budgets)
        self._creating: set[str] = set()  # streams that are not there yet, and count
        self._names: list[str] | None = None  # of `streams`, sorted; None when they have changed
        self._busy = BusyNames(ports)
        self.budgets = {
            storage: AccountBudget(budget, self._limit_of(storage)) for storage, budget in server.budgets.items()
        }

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
            self._start(self._make(found.config, found.store, found.created_ns), recovered=True)

    def _keep_offline(self, found: Recovered, fault: StorageFault) -> None:
        """One stream's trouble is not the others': its files stay as they are, and its subjects stay its own."""
        name = found.config.name
        self.ports.log("ERR", f"Stream '{self.name} > {name}' could not be started: {fault}")
        self.offline[name] = str(fault)
        started = self._forget(name)
        if started is not None:
            self._stop(started, deleted=False)
        else:
            self.holdings.take(found.config)
        call(self.ports, f"Closing stream '{self.name} > {name}'", found.store.close)

    def shutdown(self) -> None:
        """Stop and close every stream. Blocks."""
        each(self.ports, "JetStream shutdown", self.on_shutdown)
        self.server.scrubber.leave(self)
        for stream in self.streams.values():
            stream.stop(deleted=False)
            call(self.ports, f"Closing stream '{self.name} > {stream.name}'", stream.store.close)
        self.streams.clear()
        self._names = None
        for found in self._unassigned.values():
            call(self.ports, f"Closing stream '{self.name} > {found.config.name}'", found.store.close)
        self._unassigned.clear()

    def set_limits(self, limits: AccountLimits) -> None:
        """Apply new limits from now on; what is stored or reserved already stays."""
        self.limits = limits
        for storage, budget in self.budgets.items():
            budget.set_limit(self._limit_of(storage))

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
        """Names of the streams that collect some of a subject's messages (all streams if it is empty), sorted."""
        if subject:
            return sorted(name for name in self.holdings.touching(subject) if name in self.streams)
        if self._names is None:
            self._names = sorted(self.streams)
        return self._names

    def precheck(self, config: StreamConfig, *, pedantic: bool) -> Prechecked:
        """Judge a configuration before its turn, perhaps in a thread."""
        asked = with_level(config)
        seen: dict[str, StreamConfig | None] = {}

        def find(name: str) -> StreamConfig | None:
            seen[name] = self._config_of(name)
            return seen[name]

        context = self.config_context(find)
        outcome: StreamConfig | ApiError
        try:
            outcome = checked(asked, context, pedantic=pedantic)
        except ApiError as error:
            outcome = error
        return Prechecked(asked, context.limits_of(asked), seen, outcome)

    def _checked(self, config: StreamConfig, prechecked: Prechecked | None, *, pedantic: bool) -> StreamConfig:
        context = self.config_context()
        if prechecked is None or not prechecked.holds_for(config, context):
            return checked(config, context, pedantic=pedantic)
        return prechecked.result()

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
        self._check_room(config, new=config.name not in self.streams)
        config = self._checked(config, prechecked, pedantic=pedantic)
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
        self._check_room(config, new=True)
        self.holdings.check_overlap(config)
        check_filters(config)
        self._create_store(config, done)

    def restore_stream(self, config: StreamConfig, fill: Fill, done: Done) -> None:
        """Make a stream from a backup; `done` gets it when `fill` has filled its store and all is durable.

        Raises:
            ApiError: what the request itself breaks.
        """
        config = checked(with_level(config), self.config_context())
        if config.num_replicas > 1:
            raise TableError(table.STREAM_REPLICAS_NOT_SUPPORTED)
        self._check_room(config, new=True)
        if config.name in self.streams or config.name in self._busy or config.name in self.offline:
            raise TableError(table.STREAM_NAME_EXIST_RESTORE_FAILED)
        try:
            self.holdings.check_overlap(config)
        except ApiError as error:
            raise restore_failed(error) from None
        self._create_store(config, done, fill)

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
        config = updated(old, self._checked(with_level(config), prechecked, pedantic=pedantic))
        growth = max(max(config.max_bytes, 0) - max(old.max_bytes, 0), 0)
        check_limits(
            config,
            self.limits,
            self.server.budgets[config.storage],
            reserved_bytes=self.holdings.reserved_besides(config) + max(config.max_bytes, 0) - growth,
            extra_bytes=growth,
        )
        self._check_consumers(stream, config)
        self.holdings.check_overlap(config)
        self._change(stream, config, done)

    def _change(self, stream: Stream, config: StreamConfig, done: Done) -> None:
        stream.update(config)
        self.holdings.change(config)
        each(self.ports, f"The update of stream '{stream.name}'", self.on_updated, stream)
        # Tighter limits may have much to remove; the answer shows the stream as it is then.
        stream.slices.after(lambda: stream.after_commit(lambda error: self._announce(stream, "modify", error, done)))

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
                self._destroy(stream, done, broke)
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
        stream = self._make(config, store, created_ns, replication)
        try:
            self._start(stream, recovered=True)
        except Exception:
            self.release_stream(config.name)
            raise
        return stream

    def release_stream(self, name: str, *, deleted: bool = False) -> None:
        """Another server may lead it now: it stops here, and nobody who waits is answered; or it is `deleted`."""
        stream = self._forget(name)
        if stream is not None:
            self._stop(stream, deleted=deleted)
            self.holdings.give_back(name)

    def hold_stream(self, store: Store, replication: Replication) -> Stream:
        """Have a replicated stream commit that is open to nobody yet; `end_held` ends it.

        Raises:
            ApiError, StorageFault, JsonError: it cannot run here.
        """
        config, created_ns = from_stored(store.config)
        return self._make(config, store, created_ns, replication)

    def end_held(self, stream: Stream) -> None:
        """A stream that was held commits no more."""
        stream.stop(deleted=False)
        stream.appends.resources.release()

    def place_stream(self, config: StreamConfig, created_ns: int, done: Done, fill: Fill | None = None) -> None:
        """Run a stream that a cluster has assigned to this server alone: the one found on disk, or a new one."""
        if self._busy.wait(config.name, lambda: self.place_stream(config, created_ns, done, fill)):
            return
        found = self._unassigned.pop(config.name, None)
        if found is None:
            self._create_store(config, done, fill, created_ns=created_ns)
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

    def drop_found(self, name: str, created_ns: int) -> None:
        """A stream that was found on disk and never ran here is gone: so are its files, if they are of that one."""
        found = self._unassigned.get(name)
        if found is not None and found.created_ns == created_ns:
            del self._unassigned[name]
            self._remove_files(found.store, lambda: None)

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

    # --- inside ---

    def _config_of(self, name: str) -> StreamConfig | None:
        stream = self.streams.get(name)
        return stream.config if stream is not None else None

    def config_context(self, find: Callable[[str], StreamConfig | None] | None = None) -> ConfigContext:
        """What a configuration of this account is checked against."""

        def ceiling(storage: StorageType) -> int:
            limits = self.limits
            memory = storage is StorageType.MEMORY
            return limits.memory_max_stream_bytes if memory else limits.storage_max_stream_bytes

        return ConfigContext(
            find_stream=find or self._config_of,
            duplicate_window_max_ns=self.facts.duplicate_window_max_ns,
            max_bytes_required=self.limits.max_bytes_required,
            stream_bytes_max=ceiling,
        )

    def _check_room(self, config: StreamConfig, *, new: bool) -> None:
        if self.limits.tiers and ONE_REPLICA not in self.limits.tiers:
            raise TableError(table.NO_LIMITS)
        if new and 0 <= self.limits.max_streams <= len(self.streams) + len(self._creating):
            raise TableError(table.MAXIMUM_STREAMS_LIMIT)
        check_limits(
            config,
            self.limits,
            self.server.budgets[config.storage],
            reserved_bytes=self.holdings.reserved_besides(config),
            extra_bytes=config.max_bytes,
            released_bytes=self.holdings.reserved_by(config),
        )

    def _check_consumers(self, stream: Stream, config: StreamConfig) -> None:
        if config.consumer_limits == stream.config.consumer_limits:
            return
        names = stream.interest.beyond(config.consumer_limits)
        if names:
            text = f"change to limits violates consumers: {', '.join(names)}"
            raise TableError(table.STREAM_UPDATE, err=text)

    def _create_store(
        self, config: StreamConfig, done: Done, fill: Fill | None = None, *, created_ns: int | None = None
    ) -> None:
        name = config.name
        created_ns = created_ns or self.ports.now_ns()
        outcome: list[Store | StorageFault] = []

        def broke(error: Exception) -> None:
            # Nobody expected it: nothing of the stream stays, and the name is free again.
            self.ports.report(f"The creation of stream '{self.name} > {name}'", error)
            self._creating.discard(name)
            self._abandon(config, outcome[0] if outcome else None, store_error(fault_of(error)), done)

        def make() -> None:
            try:
                outcome.append(self._stores.create(config, created_ns))
            except Exception as error:
                # Whatever it is, the client gets an answer and the name is free again.
                outcome.append(fault_of(error))

        def made() -> None:
            (made_or_fault,) = outcome
            if isinstance(made_or_fault, StorageFault):
                self._creating.remove(name)
                self.holdings.give_back(name)
                self.ports.log("ERR", f"Stream '{self.name} > {name}' could not be created: {made_or_fault}")
                self._busy.release(name)
                done(store_error(made_or_fault))
            elif fill is not None:
                fill(config, made_or_fault, guarded_with(partial(live, made_or_fault), broke))
            else:
                live(made_or_fault, created_ns)

        def live(store: Store, since: int | ApiError) -> None:
            self._creating.remove(name)
            if isinstance(since, ApiError):
                self._abandon(config, store, since, done)
                return
            try:
                stream = self._make(config, store, since)
                self._start(stream, recovered=False)
            except Exception as error:
                fault = fault_of(error)
                self.ports.log("ERR", f"Stream '{self.name} > {name}' could not be created: {fault}")
                self._abandon(config, store, store_error(fault), done)
                return
            self._busy.release(name)
            # Answered when it listens on all of its subjects, which may be many.
            announce = partial(self._announce, stream, "create", done=done)
            stream.slices.after(lambda: stream.after_commit(announce))

        self.holdings.take(config)
        self._busy.take(name)
        self._creating.add(name)
        self.ports.run_blocking(make, guarded(made, broke))

    def _abandon(self, config: StreamConfig, store: Store | StorageFault | None, reason: ApiError, done: Done) -> None:
        """A stream was stored but could not be brought to life: nothing of it stays, and the client is told."""
        self.holdings.give_back(config.name)
        started = self._forget(config.name)
        if started is not None:
            self._stop(started, deleted=True)

        def removed() -> None:
            self._busy.release(config.name)
            done(reason)

        self._remove_files(None if isinstance(store, StorageFault) else store, removed)

    def _remove_files(self, store: Store | None, removed: Callable[[], None]) -> None:
        def remove() -> None:
            # What cannot be removed now is found at the next start, as after any failed removal.
            if store is not None:
                with suppress(StorageFault):
                    self._stores.destroy(store)

        self.ports.run_blocking(remove, removed)

    def _announce(self, stream: Stream, action: str, error: ApiError | None, done: Done) -> None:
        """Answer first: a stream that captures advisories must not show its own in the answer."""
        done(error or stream)
        if error is None:
            self.advisories.stream_action(stream.name, action)

    def _destroy(
        self, stream: Stream, done: Callable[[ApiError | None], None], broke: Callable[[Exception], None]
    ) -> None:
        name = stream.name
        self._forget(name)
        self._stop(stream, deleted=True)
        self.holdings.give_back(name)
        outcome: list[ApiError] = []

        def remove() -> None:
            try:
                self._stores.destroy(stream.store)
            except Exception as error:
                outcome.append(TableError(table.STREAM_DELETE, err=fault_of(error).text))

        def removed() -> None:
            if outcome:
                self.ports.log("ERR", f"Stream '{self.name} > {name}' could not be removed: {outcome[0]}")
            self._busy.release(name)
            call(self.ports, f"The removal of stream '{name}'", done, outcome[0] if outcome else None)
            self.advisories.stream_action(name, "delete")

        # A piece of upkeep may still run in its thread; it must not meet the removal.
        removal = partial(self.ports.run_blocking, remove, guarded(removed, broke))
        stream.committer.upkeep.when_quiet(guarded(removal, broke))

    def _make(
        self, config: StreamConfig, store: Store, created_ns: int, replication: Replication | None = None
    ) -> Stream:
        share = StreamShare(self.budgets[config.storage], store)
        return Stream(config, store, created_ns, self.ports, self.facts, share, replication)

    def _forget(self, name: str) -> Stream | None:
        self._names = None
        return self.streams.pop(name, None)

    def _start(self, stream: Stream, *, recovered: bool) -> None:
        self.streams[stream.name] = stream
        self._names = None
        stream.health.on_lost = self.advisories.stream_damaged
        stream.health.on_full = self.server.on_full
        if recovered:
            self.holdings.take(stream.config)
        for hook in self.on_started:
            hook(stream)
        stream.start()

    def _stop(self, stream: Stream, *, deleted: bool) -> None:
        stream.stop(deleted=deleted)
        call(self.ports, f"The end of stream '{stream.name}'", stream.health.report_size, 0)
        each(self.ports, f"The end of stream '{stream.name}'", self.on_stopped, stream)
        stream.appends.resources.release()

    def _limit_of(self, storage: StorageType) -> int:
        return self.limits.max_memory if storage is StorageType.MEMORY else self.limits.max_storage


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
