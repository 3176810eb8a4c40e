"""JetStream as monitoring sees it: `/jsz`, `/healthz`, `/varz` and their `$SYS` twins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from slipstream.jetstream.api.info import config_fields, state_fields
from slipstream.jetstream.api.received import all_received
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.consumer.consumers import Consumers
from slipstream.jetstream.consumer.info import consumer_fields
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.stream.copies.mirror import Mirror
from slipstream.jetstream.stream.copies.sources import Sources
from slipstream.monitoring.jetstream_facts import (
    ApiStats,
    AtRestProgress,
    HealthProblem,
    JetStreamConfig,
    JetStreamLimits,
    JetStreamStats,
    SyncStats,
)
from slipstream.server.jetstream.replica_facts import ReplicaFacts
from slipstream.version import API_LEVEL

if TYPE_CHECKING:
    from slipstream.jetstream.account.account import JetStreamAccount
    from slipstream.jetstream.api.dispatch import ApiDispatcher
    from slipstream.jetstream.stream.stream import Stream
    from slipstream.replication.hosting import Hosting
    from slipstream.server.jetstream.jetstream import JetStreamRunner

__all__ = ["RunningJetStream"]

_STREAMS_A_LOOK = 1_000  # that are asked in one turn whether they wait for a commit: some 5 ms


class RunningJetStream:
    """Implements `slipstream.monitoring.jetstream_facts.JetStreamFacts`."""

    def __init__(self, runner: JetStreamRunner) -> None:
        """Show what `runner` runs."""
        self._runner = runner
        self.enabled = True

    def received(self) -> Callable[[], bool]:
        """See `JetStreamFacts.received`."""
        left = iter([stream for account in self._runner.accounts.values() for stream in account.streams.values()])
        unread = 0  # groups of streams that wait for a commit

        def read() -> None:
            nonlocal unread
            unread -= 1

        def is_done() -> bool:
            """Looks at some more streams each time: there may be very many."""
            nonlocal unread
            some = list(islice(left, _STREAMS_A_LOOK))
            if some:
                unread += 1
                all_received(some, read)
            return len(some) < _STREAMS_A_LOOK and not unread

        return is_done

    def config(self) -> JetStreamConfig:
        """What it was started with."""
        facts, options = self._runner.facts, self._runner.options
        return JetStreamConfig(
            max_memory=facts.max_memory,
            max_storage=facts.max_storage,
            store_dir=self._runner.directory,
            sync_interval=facts.sync_interval_ns,
            sync_always=facts.sync_always,
            domain=facts.domain,
            compress_ok=True,
            unique_tag=options.unique_tag,
            strict=options.strict,
        )

    def limits(self) -> JetStreamLimits:
        """The ceilings for every account."""
        limits = self._runner.options.limits
        return JetStreamLimits(
            max_request_batch=limits.max_request_batch,
            default_max_consumers=limits.default_max_consumers or -1,  # always shown, as boards ask for it
            max_ack_pending=limits.max_ack_pending,
            max_ha_assets=limits.max_ha_assets,
            max_duplicate_window=limits.duplicate_window_ns,
            max_batch_inflight_per_stream=limits.batch.max_inflight_per_stream,
            max_batch_inflight_total=limits.batch.max_inflight_total,
            max_batch_size=limits.batch.max_msgs,
            max_batch_timeout=limits.batch.timeout_ns,
        )

    def stats(self) -> JetStreamStats:
        """Use by all accounts together."""
        each = [account.stats() for account in self.accounts()]
        return JetStreamStats(
            memory=sum(stats.memory for stats in each),
            storage=sum(stats.storage for stats in each),
            reserved_memory=sum(stats.reserved_memory for stats in each),
            reserved_storage=sum(stats.reserved_storage for stats in each),
            accounts=len(each),
            ha_assets=self._group_count(),
            api=ApiStats(
                API_LEVEL,
                sum(stats.api.total for stats in each),
                sum(stats.api.errors for stats in each),
                sum(api.load.waiting for api in self._runner.apis.values()),
            ),
        )

    def _group_count(self) -> int:
        """Raft groups that this server takes part in, the meta group among them."""
        cluster = self._runner.cluster
        if cluster is None:
            return 0
        return len(cluster.coordinator.hosting.kept.groups()) + (cluster.coordinator.meta is not None)

    def syncs(self) -> SyncStats:
        """See `JetStreamFacts.syncs`."""
        times = self._runner.sync_times
        return SyncStats(times.count, times.total_s, times.last_s)

    def accounts(self) -> Iterable[_AccountFacts]:
        """The accounts that use JetStream."""
        return [self._account_facts(account) for account in self._runner.accounts.values()]

    def _account_facts(self, account: JetStreamAccount) -> _AccountFacts:
        cluster = self._runner.cluster
        hosting = cluster.coordinator.hosting if cluster is not None else None
        return _AccountFacts(account, self._runner.apis[account.name], hosting)

    def at_rest(self) -> AtRestProgress | None:
        """See `JetStreamFacts.at_rest`."""
        conversion = self._runner.conversion
        return None if conversion is None else conversion.progress()

    @property
    def leads_meta(self) -> bool:
        """See `JetStreamFacts.leads_meta`."""
        cluster = self._runner.cluster
        return cluster is None or cluster.coordinator.is_meta_leader

    def meta_cluster(self) -> Mapping[str, object] | None:
        """See `JetStreamFacts.meta_cluster`."""
        cluster = self._runner.cluster
        meta = None if cluster is None else cluster.coordinator.blocks.meta_block()
        if meta is None:
            return None
        calls, looks = self._waiting()
        return {**meta, "pending": calls + looks, "pending_requests": calls, "pending_infos": looks}

    def raft_groups(self, account: str, group: str) -> Mapping[str, Mapping[str, object]] | None:
        """See `JetStreamFacts.raft_groups`."""
        cluster = self._runner.cluster
        if cluster is None:
            return None
        system = self._runner.system_name
        if account not in ("", system):
            return cluster.coordinator.blocks.raft_groups(account, group)
        meta = cluster.coordinator.blocks.meta_facts()
        return {} if meta is None or group not in ("", "_meta_") else {system: {"_meta_": meta}}

    def queues(self) -> Mapping[str, int]:
        """See `JetStreamFacts.queues`."""
        accounts = self._runner.accounts.values()
        calls, looks = self._waiting()
        lengths = {"JetStream API queue": calls, "JetStream API info queue": looks}
        for account in accounts:
            for name, stream in account.streams.items():
                lengths[f"[ACC:{account.name}] stream '{name}' messages"] = stream.committer.waiting
        return lengths

    def _waiting(self) -> tuple[int, int]:
        """Requests to the API that wait: those that change something, and those that only look."""
        loads = [api.load for api in self._runner.apis.values()]
        return sum(load.waiting_of(looks=False) for load in loads), sum(load.waiting_of(looks=True) for load in loads)

    def problems(self, account: str, stream: str, consumer: str) -> Iterable[HealthProblem]:
        """What is wrong with everything, or with what was named."""
        cluster = self._runner.cluster
        if cluster is not None and not cluster.coordinator.meta_leader:
            return [HealthProblem("JETSTREAM", "JetStream has not established contact with a meta leader")]
        found = self._runner.accounts
        if account and account not in found:
            return [HealthProblem("ACCOUNT", f'JetStream account "{account}" not found', account=account, missing=True)]
        named = [found[account]] if account else list(found.values())
        if stream:
            return self._stream_problems(named[0], stream, consumer)
        broken = [
            HealthProblem(
                "ACCOUNT", f"JetStream account '{one.name}' {self._runner.broken[one.name]}", account=one.name
            )
            for one in named
            if one.name in self._runner.broken
        ]
        names = {one.name for one in named}
        broken += [problem for problem in self._replica_problems() if problem.account in names]
        return broken + [problem for one in named for problem in _account_problems(one)]

    def _replica_problems(self) -> list[HealthProblem]:
        """Copies that take no part."""
        cluster = self._runner.cluster
        if cluster is None:
            return []
        return [
            HealthProblem(
                "STREAM", f"JetStream stream '{of.account} > {of.name}' {text}", account=of.account, stream=of.name
            )
            for of, text in cluster.coordinator.hosting.kept.faults()
        ]

    def _stream_problems(self, account: JetStreamAccount, name: str, consumer: str) -> Iterable[HealthProblem]:
        found = [*_account_problems(account), *self._replica_problems()]
        broken = [problem for problem in found if (problem.account, problem.stream) == (account.name, name)]
        if name in account.offline or (broken and name not in account.streams):
            return broken
        facts = next((one for one in self._account_facts(account).streams() if one.name == name), None)
        if facts is None:
            text = f'JetStream stream "{name}" not found on account "{account.name}"'
            return [HealthProblem("STREAM", text, account=account.name, stream=name, missing=True)]
        if consumer and not facts.has_consumer(consumer):
            text = f'JetStream consumer "{consumer}" not found for stream "{name}" on account "{account.name}"'
            return [HealthProblem("CONSUMER", text, account=account.name, stream=name, consumer=consumer, missing=True)]
        return broken


def _account_problems(account: JetStreamAccount) -> Iterable[HealthProblem]:
    facts = account.snapshot(streams=False)
    for name, reason in facts.offline.items():
        yield HealthProblem(
            "STREAM", f"JetStream stream '{account.name} > {name}' {reason}", account=account.name, stream=name
        )
    for name, stream in account.streams.items():
        offline = stream.interest.offline if isinstance(stream.interest, Consumers) else {}
        for consumer, reason in offline.items():
            text = f"JetStream consumer '{account.name} > {name} > {consumer}' {reason}"
            yield HealthProblem("CONSUMER", text, account=account.name, stream=name, consumer=consumer)
    for path in facts.quarantined:
        yield HealthProblem("ACCOUNT", f"JetStream directory moved aside: {path}", account=account.name)
    # In one pass over what may be ten thousand streams: nearly none has a fault.
    for name, fault in sorted(
        (name, str(one.store.fault)) for name, one in account.streams.items() if one.store.fault is not None
    ):
        text = f"JetStream stream '{account.name} > {name}' {fault}"
        yield HealthProblem("STREAM", text, account=account.name, stream=name)


class _AccountFacts:
    """One account."""

    def __init__(self, account: JetStreamAccount, api: ApiDispatcher, hosting: Hosting | None) -> None:
        self._account = account
        self._hosting = hosting
        self._calls = api.counters
        self.name = account.name

    def stats(self) -> JetStreamStats:
        facts = self._account.snapshot(streams=False)
        return JetStreamStats(
            memory=facts.memory_bytes + self._followed_bytes(StorageType.MEMORY),
            storage=facts.storage_bytes + self._followed_bytes(StorageType.FILE),
            reserved_memory=facts.reserved_memory_bytes,
            reserved_storage=facts.reserved_storage_bytes,
            accounts=0,
            api=ApiStats(API_LEVEL, self._calls.total, self._calls.errors),
        )

    def _followed_bytes(self, storage: StorageType) -> int:
        return 0 if self._hosting is None else self._hosting.kept.followed_bytes(self.name, storage)

    def streams(self) -> Iterable[_StreamFacts | ReplicaFacts]:
        led = [_StreamFacts(self._account, stream) for stream in self._account.streams.values()]
        followed = [] if self._hosting is None else self._hosting.kept.followed(self.name)
        found: list[_StreamFacts | ReplicaFacts] = [*led, *(ReplicaFacts(self._account, *one) for one in followed)]
        return sorted(found, key=lambda one: one.name)


class _StreamFacts:
    """One stream that runs here."""

    is_led: Final = True

    def __init__(self, account: JetStreamAccount, stream: Stream) -> None:
        self._account = account
        self._stream = stream
        self.name = stream.config.name
        self.created = format_time(stream.created_ns)

    def config(self) -> Mapping[str, object]:
        return config_fields(self._stream.config, None)

    def state(self) -> Mapping[str, object]:
        return state_fields(self._stream)

    def cluster(self) -> Mapping[str, object] | None:
        return self._account.cluster_block(self.name) or {"leader": self._account.facts.name}

    def raft_group(self) -> str:
        return self._account.raft_group(self.name)

    def mirror(self) -> Mapping[str, object] | None:
        upstream = self._stream.upstream
        return upstream.shown() if isinstance(upstream, Mirror) else None

    def sources(self) -> list[Mapping[str, object]]:
        upstream = self._stream.upstream
        return [*upstream.shown()] if isinstance(upstream, Sources) else []

    def readers(self) -> Mapping[str, int]:
        last = self._stream.store.committed_seq
        found: dict[str, int] = {}
        for hold in self._stream.holds:
            # Of several with one name the one that is furthest behind.
            found[hold.by] = max(found.get(hold.by, 0), last - hold.first_seq + 1)
        return found

    def has_consumer(self, name: str) -> bool:
        interest = self._stream.interest
        return isinstance(interest, Consumers) and name in interest.consumers

    def consumers(self, *, direct: bool) -> list[Mapping[str, object]]:
        interest = self._stream.interest
        if not isinstance(interest, Consumers):
            return []
        now_ns = self._account.ports.now_ns()
        return [
            consumer_fields(consumer, now_ns, version=None, cluster=self._account.cluster_block(self.name))
            for _, consumer in sorted(interest.consumers.items())
            if consumer.config.direct is direct
        ]
