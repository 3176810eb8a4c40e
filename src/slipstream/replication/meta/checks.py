"""Whether a stream may be made or changed, judged against the assignments of its account: no server has all streams.

The rules are those of one server (`config`, `account`), in the order in which a cluster of nats-server asks them: the
configuration itself, whether the name is taken, subjects, limits. Room on servers is for `placement`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import restore_failed
from slipstream.jetstream.config.chained import is_chained
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.precheck import with_level
from slipstream.jetstream.config.sources import check_filters
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.templated import check_template_of_cluster
from slipstream.jetstream.config.update import updated
from slipstream.jetstream.config.validate import ConfigContext, checked
from slipstream.jetstream.config.versioning import same_but_for_versioning
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import AccountLimits
from slipstream.replication.meta.entries import Assignment
from slipstream.replication.meta.moves import check_not_moving
from slipstream.replication.meta.state import AccountStreams

__all__ = ["AccountRules", "changed_config", "check_movable", "new_config", "restored_config", "tier_of"]


@dataclass(frozen=True, slots=True)
class AccountRules:
    """What the account and the server say about streams."""

    limits: AccountLimits
    context: ConfigContext


def tier_of(replicas: int) -> str:
    """The name of the limits that streams with so many copies have."""
    return f"R{max(replicas, 1)}"


def new_config(
    asked: StreamConfig, held: AccountStreams, rules: AccountRules, *, pedantic: bool = False
) -> tuple[StreamConfig, Assignment | None]:
    """The configuration of a stream that is to be made, and its assignment if exactly this stream is there already.

    Raises:
        TableError: the first rule it breaks.
    """
    config = checked(with_level(asked), _context(held, rules), pedantic=pedantic)
    check_template_of_cluster(config)
    existing = held.streams.get(config.name)
    if existing is not None:
        if existing.restoring or not same_but_for_versioning(config, existing.config):
            raise TableError(table.STREAM_NAME_EXIST)
        return existing.config, existing
    held.holdings.check_overlap(config)
    check_filters(config)
    _check_limits(config, held, rules.limits, new=True)
    return config, None


def restored_config(asked: StreamConfig, held: AccountStreams, rules: AccountRules) -> StreamConfig:
    """The configuration of a stream that a backup is to fill.

    Raises:
        TableError: the first rule it breaks.
    """
    config = checked(with_level(asked), _context(held, rules))
    check_template_of_cluster(config)
    if config.name in held.streams:
        raise TableError(table.STREAM_NAME_EXIST_RESTORE_FAILED)
    try:
        held.holdings.check_overlap(config)
    except ApiError as error:
        raise restore_failed(error) from None
    _check_limits(config, held, rules.limits, new=True)
    return config


def changed_config(
    asked: StreamConfig, held: AccountStreams, rules: AccountRules, *, pedantic: bool = False
) -> tuple[StreamConfig, Assignment]:
    """The configuration that an update leaves a stream with, and its assignment.

    Raises:
        TableError: there is no such stream, or the first rule that the change breaks. That a stream with one copy gets
            more, or goes elsewhere, or the other way round, is refused as not supported yet.
    """
    existing = held.streams.get(asked.name)
    if existing is None or existing.restoring:
        raise TableError(table.STREAM_NOT_FOUND)
    config = checked(with_level(asked), _context(held, rules), pedantic=pedantic)
    old = existing.config
    config = updated(old, config, clustered=True)
    check_template_of_cluster(config)
    held.holdings.check_overlap(config)
    moved = config.placement is not None and config.placement != old.placement
    scaled = max(config.num_replicas, 1) != max(old.num_replicas, 1)
    if moved and scaled:
        raise TableError(table.STREAM_MOVE_AND_SCALE)
    if moved or scaled:
        check_not_moving(existing, is_move=moved)
        check_movable(existing)
    _check_limits(config, held, rules.limits, new=False)
    return config, existing


def check_movable(existing: Assignment) -> None:
    """Whether a stream can get other servers.

    Raises:
        TableError: 10036, its one copy is in memory (ADR 76), or has a hash chain.
    """
    alone = not existing.is_replicated
    if alone and (existing.config.storage is StorageType.MEMORY or is_chained(existing.config)):
        raise TableError(table.CLUSTER_UN_SUPPORT_FEATURE)


def _context(held: AccountStreams, rules: AccountRules) -> ConfigContext:
    return replace(rules.context, find_stream=held.config_of)


def _check_limits(config: StreamConfig, held: AccountStreams, limits: AccountLimits, *, new: bool) -> None:
    """With tiers, streams count where they belong, and each byte once; without, a byte counts for each copy."""
    tier = tier_of(config.num_replicas)
    if limits.tiers:
        if tier not in limits.tiers:
            raise TableError(table.NO_LIMITS)
        limits, peers = limits.tiers[tier], True
    else:
        peers = False
    others = [
        found.config
        for name, found in held.streams.items()
        if name != config.name and (not peers or tier_of(found.config.num_replicas) == tier)
    ]
    if new and 0 < limits.max_streams <= len(others):
        raise TableError(table.MAXIMUM_STREAMS_LIMIT)
    if 0 < limits.max_consumers < config.max_consumers:
        raise TableError(table.MAXIMUM_CONSUMERS_LIMIT)

    def reserved(one: StreamConfig, least: int) -> int:
        size = one.max_bytes if one.max_bytes >= 0 else least
        return size if peers else size * max(one.num_replicas, 1)

    memory = config.storage is StorageType.MEMORY
    limit_bytes = limits.max_memory if memory else limits.max_storage
    taken = sum(reserved(one, 0) for one in others if one.storage is config.storage)
    # A stream without a bound still needs something.
    if limit_bytes >= 0 and taken + reserved(config, 1) > limit_bytes:
        raise TableError(table.MEMORY_RESOURCES_EXCEEDED if memory else table.STORAGE_RESOURCES_EXCEEDED)
