"""What a stream configuration must satisfy, in nats-server's order, and the defaults it gets on the way.

`checked` is pure: it looks at the request, the limits of the server and account, and the other streams' configurations
(for mirrors and sources), and gives a corrected copy or raises the `TableError` whose text clients compare. In pedantic
mode a silent correction is an error instead.

What this is not: rules between streams (subject overlap) or resources (`account`), nor what may change (`update`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from slipstream.dataclass import dataclass
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.chained import check_chained
from slipstream.jetstream.config.direct_reads import check_direct_reads
from slipstream.jetstream.config.enums import DiscardPolicy, PersistMode, RetentionPolicy, StorageType
from slipstream.jetstream.config.packing import check_packing
from slipstream.jetstream.config.previewed import check_preview
from slipstream.jetstream.config.schemed import check_schemas
from slipstream.jetstream.config.sources import check_sources, destination_problem
from slipstream.jetstream.config.structs import Placement, StreamConfig
from slipstream.jetstream.config.templated import check_template
from slipstream.jetstream.errors import TableError, invalid_config
from slipstream.jetstream.gojson.scan import go_quote
from slipstream.jetstream.gojson.times import format_duration
from slipstream.jetstream.limits import (
    ASSET_DESCRIPTION_BYTES_MAX,
    ASSET_METADATA_BYTES_MAX,
    ASSET_NAME_BYTES_MAX,
    SEQ_LAST,
)
from slipstream.kernels.subjects.subject import is_subset, is_valid_subscription, overlaps
from slipstream.subjects.collisions import TooManySteps, overlap_within
from slipstream.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS

__all__ = ["ConfigContext", "checked", "is_valid_asset_name"]

# Copies of a stream: a majority of five survives two failures, more only slows writes down.
STREAM_REPLICAS_MAX: Final = 5
# `duplicate_window` when none is given.
DUPLICATE_WINDOW_NS: Final = 2 * MINUTE_NS
# Smallest `max_age` and `duplicate_window`: timers are not finer.
STREAM_INTERVAL_MIN_NS: Final = 100 * MILLISECOND_NS

# Names become tokens of subjects and parts of paths, so what may not be in those may not be in them.
_NAME_FORBIDDEN = frozenset(" \t\r\n\f\0.*>\\/")
_API_SPACES = (b"$JS.>", b"$JSC.>", b"$NRG.>")
_WIDE_OR_RESERVED = b"$*>"  # first bytes of what can overlap the server's own subjects


@dataclass(frozen=True, slots=True)
class ConfigContext:
    """What a configuration is checked against besides itself."""

    find_stream: Callable[[str], StreamConfig | None]
    """Configuration of another stream of the account."""
    duplicate_window_max_ns: int = 0
    """Server limit, 0 for none."""
    max_bytes_required: bool = False
    """The account insists on `max_bytes`."""
    stream_bytes_max: Callable[[StorageType], int] = lambda _: 0
    """Largest `max_bytes` the account allows for a storage type; 0 or less for no limit."""

    def limits_of(self, config: StreamConfig) -> tuple[object, ...]:
        """All that a verdict about a configuration depends on besides itself and other streams."""
        return self.duplicate_window_max_ns, self.max_bytes_required, self.stream_bytes_max(config.storage)


def is_valid_asset_name(name: str) -> bool:
    """Whether a stream or consumer may be called this (length apart)."""
    return bool(name) and not _NAME_FORBIDDEN.intersection(name)


def checked(config: StreamConfig, context: ConfigContext, *, pedantic: bool = False) -> StreamConfig:
    """A copy of `config` with defaults filled in.

    Raises:
        TableError: the first rule it breaks.
    """
    _check_names(config)
    config = msgspec.structs.replace(config)
    _default_limits(config, pedantic)
    _default_times(config, context, pedantic)
    _check_flags(config, pedantic)
    try:
        check_sources(config, context.find_stream, pedantic=pedantic)
        _check_subjects(config)
    except TooManySteps:
        raise invalid_config("subjects have wildcards in too many different places") from None
    ceiling = context.stream_bytes_max(config.storage)
    if context.max_bytes_required and config.max_bytes <= 0:
        raise TableError(table.STREAM_MAX_BYTES_REQUIRED)
    if 0 < ceiling < config.max_bytes:
        raise TableError(table.STREAM_MAX_STREAM_BYTES_EXCEEDED)
    _check_transform(config)
    _check_republish(config, pedantic)
    if config.placement == Placement():
        config.placement = None
    if config.placement is not None and config.placement.preferred:
        raise invalid_config("preferred server not permitted in placement")
    check_chained(config)
    check_direct_reads(config)
    check_packing(config)
    check_preview(config)
    check_template(config)
    check_schemas(config)
    return config


def _check_names(config: StreamConfig) -> None:
    if not is_valid_asset_name(config.name):
        raise invalid_config(r"stream name is required and can not contain '.', '*', '>', '\', '/'")
    if len(config.name.encode()) > ASSET_NAME_BYTES_MAX:
        raise invalid_config(f"stream name is too long, maximum allowed is {ASSET_NAME_BYTES_MAX}")
    if len(config.description.encode()) > ASSET_DESCRIPTION_BYTES_MAX:
        raise invalid_config(f"stream description is too long, maximum allowed is {ASSET_DESCRIPTION_BYTES_MAX}")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in config.metadata.items())
    if size > ASSET_METADATA_BYTES_MAX:
        raise invalid_config(f"stream metadata exceeds maximum size of {ASSET_METADATA_BYTES_MAX} bytes")


# In nats-server's order of checking; "unlimited" is -1 on the wire, and 0 means the same.
_UNLIMITED_BY_DEFAULT = ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")


def _default_limits(config: StreamConfig, pedantic: bool) -> None:
    if config.num_replicas == 0:
        config.num_replicas = 1
    if config.num_replicas > STREAM_REPLICAS_MAX:
        raise invalid_config(f"maximum replicas is {STREAM_REPLICAS_MAX}")
    if config.num_replicas < 0:
        raise TableError(table.REPLICAS_COUNT_CANNOT_BE_NEGATIVE)
    for name in _UNLIMITED_BY_DEFAULT:
        value: int = getattr(config, name)
        if value < -1 and pedantic:
            raise TableError(table.PEDANTIC, err=f"{name} must be set to -1")
        if value <= 0:
            setattr(config, name, -1)
    if config.first_seq > SEQ_LAST + 1:
        # nats-server counts on from 0, and finds nothing of it after a restart.
        raise invalid_config("first sequence leaves no room for messages")


def _default_times(config: StreamConfig, context: ConfigContext, pedantic: bool) -> None:
    if config.max_age_ns < 0:
        raise invalid_config("max age can not be negative")
    if 0 < config.max_age_ns < STREAM_INTERVAL_MIN_NS:
        raise invalid_config("max age needs to be >= 100ms")
    limit_ns = context.duplicate_window_max_ns
    if config.duplicate_window_ns == 0 and config.mirror is None and not config.sources:
        config.duplicate_window_ns = _default_window(config.max_age_ns, limit_ns, pedantic)
    if config.duplicate_window_ns < 0:
        raise invalid_config("duplicates window can not be negative")
    if 0 < config.max_age_ns < config.duplicate_window_ns:
        raise invalid_config("duplicates window can not be larger then max age")
    if 0 < limit_ns < config.duplicate_window_ns:
        raise invalid_config(f"duplicates window can not be larger then server limit of {format_duration(limit_ns)}")
    if 0 < config.duplicate_window_ns < STREAM_INTERVAL_MIN_NS:
        raise invalid_config("duplicates window needs to be >= 100ms")


def _default_window(max_age_ns: int, limit_ns: int, pedantic: bool) -> int:
    window_ns = DUPLICATE_WINDOW_NS
    if 0 < limit_ns < window_ns:
        if pedantic:
            raise TableError(table.PEDANTIC, err="duplicate window limits are higher than current limits")
        window_ns = limit_ns
    if 0 < max_age_ns < window_ns:
        if pedantic:
            raise TableError(table.PEDANTIC, err="duplicate window cannot be bigger than max age")
        window_ns = max_age_ns
    return window_ns


def _check_flags(config: StreamConfig, pedantic: bool) -> None:
    if config.deny_purge and config.allow_rollup_hdrs:
        raise invalid_config("roll-ups require the purge permission")
    if config.allow_msg_counter:
        _check_counter(config)
    if config.discard_new_per_subject:
        check_discard_new_per_subject(config)
    if config.subject_delete_marker_ttl_ns < 0:
        raise invalid_config("subject delete marker TTL must not be negative")
    if config.subject_delete_marker_ttl_ns:
        if config.subject_delete_marker_ttl_ns < SECOND_NS:
            raise invalid_config("subject delete marker TTL must be at least 1 second")
        if not config.allow_msg_ttl:
            if pedantic:
                raise invalid_config("subject delete marker cannot be set if message TTLs are disabled")
            config.allow_msg_ttl = True
        _require_rollup(config, "subject delete marker cannot be set if roll-ups are disabled", pedantic)
    if config.allow_msg_schedules:
        if config.discard is DiscardPolicy.NEW:
            raise invalid_config("message scheduling cannot use discard new")
        _require_rollup(config, "message scheduling cannot be set if roll-ups are disabled", pedantic)
    if config.persist_mode is PersistMode.ASYNC:
        if config.storage is not StorageType.FILE:
            raise invalid_config("async persist mode is only supported on file storage")
        if config.num_replicas > 1:
            raise invalid_config("async persist mode is not supported on replicated streams")
        if config.allow_atomic:
            raise invalid_config("async persist mode is not supported with atomic batch publish")


def _check_counter(config: StreamConfig) -> None:
    if config.discard is DiscardPolicy.NEW:
        raise invalid_config("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise invalid_config("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise invalid_config("counter stream cannot use message schedules")
    if config.retention is not RetentionPolicy.LIMITS:
        raise invalid_config("counter stream can only use limits retention")


def check_discard_new_per_subject(config: StreamConfig) -> None:
    """The two conditions of `discard_new_per_subject`; asked again on update."""
    if config.discard is not DiscardPolicy.NEW:
        raise invalid_config("discard new per subject requires discard new policy to be set")
    if config.max_msgs_per_subject <= 0:
        raise invalid_config("discard new per subject requires max msgs per subject > 0")


def _require_rollup(config: StreamConfig, complaint: str, pedantic: bool) -> None:
    if config.allow_rollup_hdrs:
        return
    if pedantic:
        raise invalid_config(complaint)
    config.allow_rollup_hdrs, config.deny_purge = True, False


def _check_subjects(config: StreamConfig) -> None:
    if not config.subjects:
        if config.mirror is None and not config.sources:
            config.subjects = [config.name]
        return
    encoded = [subject.encode() for subject in config.subjects]
    pair = overlap_within(encoded)
    for index, subject in enumerate(encoded):
        if not is_valid_subscription(subject):
            raise invalid_config("invalid subject")
        if subject == b">":
            if not config.no_ack:
                raise invalid_config("capturing all subjects requires no-ack to be true")
            if config.num_replicas != 1:
                raise invalid_config("capturing all subjects requires replicas of 1")
        if not config.no_ack and subject[0] in _WIDE_OR_RESERVED:
            _check_reserved(subject)
        if pair is not None and index == pair[0]:
            first, second = config.subjects[index], config.subjects[pair[1]]
            raise invalid_config(f"subject {go_quote(first)} overlaps with {go_quote(second)}")


def _check_reserved(subject: bytes) -> None:
    """Subjects the server itself answers on: an ack for a captured request would confuse its sender."""
    if any(overlaps(subject, space) for space in _API_SPACES) and not is_subset(subject, b"$JS.EVENT.>"):
        raise invalid_config("subjects that overlap with jetstream api require no-ack to be true")
    if overlaps(subject, b"$SYS.>") and not is_subset(subject, b"$SYS.ACCOUNT.>"):
        raise invalid_config("subjects that overlap with system api require no-ack to be true")


def _check_transform(config: StreamConfig) -> None:
    transform = config.subject_transform
    if transform is None:
        return
    if transform.src and not is_valid_subscription(transform.src.encode()):
        raise TableError(table.STREAM_TRANSFORM_INVALID_SOURCE, err=f"invalid subject {transform.src}")
    problem = destination_problem(transform.src, transform.dest)
    if problem is not None:
        raise TableError(table.STREAM_TRANSFORM_INVALID_DESTINATION, err=problem)


def _check_republish(config: StreamConfig, pedantic: bool) -> None:
    if config.republish is None:
        return
    republish = msgspec.structs.replace(config.republish)
    if not republish.src:
        if pedantic:
            raise TableError(table.PEDANTIC, err="republish source can not be empty")
        republish.src = ">"
    transform = config.subject_transform
    # Everything to everything is a cycle, unless the stream stores under another subject than it listens on.
    if republish.src == republish.dest == ">" and transform is not None and config.subjects == [transform.src]:
        if pedantic:
            raise TableError(table.PEDANTIC, err="implicit republish based on subject transform")
        republish.src = republish.dest = transform.dest
    dest = republish.dest.encode()
    if any(overlaps(dest, subject.encode()) for subject in config.subjects):
        raise invalid_config("stream configuration for republish destination forms a cycle")
    if destination_problem(republish.src, republish.dest) is not None:
        raise invalid_config(
            f"stream configuration for republish with transform from '{republish.src}' to '{republish.dest}' not valid"
        )
    config.republish = republish
