"""What a consumer configuration must satisfy, in nats-server's order, and the defaults it gets on the way.

`checked` is pure: it looks at the request, its stream's configuration and the limits, and gives a corrected copy or
raises the `TableError` whose text clients compare. In pedantic mode a silent correction is an error instead.

What this is not: rules between consumers of a stream (`consumers`), nor what may change later (`update`).
"""

from __future__ import annotations

import re

import msgspec

from slipstream.dataclass import dataclass
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.enums import AckPolicy, DeliverPolicy, PriorityPolicy, RetentionPolicy
from slipstream.jetstream.config.structs import ConsumerConfig, StreamConfig
from slipstream.jetstream.config.validate import is_valid_asset_name
from slipstream.jetstream.consumer.filters import subjects_of
from slipstream.jetstream.consumer.limits import (
    CONSUMER_ACK_PENDING,
    CONSUMER_ACK_WAIT_NS,
    CONSUMER_EXPIRES_MIN_NS,
    CONSUMER_FLOW_ACK_HEARTBEAT_NS,
    CONSUMER_HEARTBEAT_MIN_NS,
    CONSUMER_PIN_NS,
    CONSUMER_WAITING,
)
from slipstream.jetstream.errors import TableError, invalid_config
from slipstream.jetstream.gojson.scan import go_quote
from slipstream.jetstream.gojson.times import format_duration
from slipstream.jetstream.limits import ASSET_DESCRIPTION_BYTES_MAX, ASSET_METADATA_BYTES_MAX, CONSUMER_FILTERS_MAX
from slipstream.kernels.subjects.subject import is_literal, is_subset, is_valid_subscription
from slipstream.subjects.collisions import TooManySteps, subset_within
from slipstream.units import KIB

__all__ = ["ConsumerContext", "checked", "is_group_name", "sample_percent"]

_GROUP_NAME = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
_NUMBER = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class ConsumerContext:
    """What a configuration is checked against besides itself."""

    stream: StreamConfig
    server_ack_pending: int = 0
    """Largest `max_ack_pending` the server allows, 0 for no limit."""
    server_batch: int = 0
    """Largest `max_batch` the server allows, 0 for no limit."""
    account_ack_pending: int = -1
    """Largest `max_ack_pending` the account allows, 0 or less for no limit."""


def is_group_name(name: str) -> bool:
    """Whether a priority group may be called this."""
    return _GROUP_NAME.fullmatch(name) is not None


def sample_percent(sample_freq: str) -> int:
    """`sample_freq` as a number.

    Raises:
        TableError: 10095.
    """
    text = sample_freq.removesuffix("%")
    if not sample_freq:
        return 0
    if not _NUMBER.fullmatch(text):
        err = f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax"
        raise TableError(table.CONSUMER_INVALID_SAMPLING, err=err)
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        err = f"strconv.Atoi: parsing {go_quote(text)}: value out of range"
        raise TableError(table.CONSUMER_INVALID_SAMPLING, err=err)
    if int(text) < 0:
        raise TableError(table.CONSUMER_INVALID_SAMPLING, err="<nil>")
    return int(text)


def checked(config: ConsumerConfig, context: ConsumerContext, *, pedantic: bool = False) -> ConsumerConfig:
    """A copy of `config` with defaults filled in.

    Raises:
        TableError: the first rule it breaks.
    """
    config = msgspec.structs.replace(config)
    _fill_zeros(config, pedantic)
    _fill_defaults(config, context, pedantic)
    _check_names_and_replicas(config, context.stream)
    _check_acks(config)
    if config.deliver_subject:
        _check_push(config, context.stream)
    else:
        _check_pull(config, context)
    _check_limits(config, context)
    _check_filters(config)
    _check_start(config)
    sample_percent(config.sample_freq)
    if config.flow_control and not config.idle_heartbeat_ns:
        raise TableError(table.CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS)
    if config.durable_name and config.name and config.name != config.durable_name:
        raise TableError(table.CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in config.metadata.items())
    if size > ASSET_METADATA_BYTES_MAX:
        raise TableError(table.CONSUMER_METADATA_LENGTH, limit=f"{ASSET_METADATA_BYTES_MAX // KIB}KB")
    _check_priority(config)
    return config


_NEVER_NEGATIVE = (
    ("max_batch", "max_batch"),
    ("max_expires_ns", "max_expires"),
    ("max_bytes", "max_bytes"),
    ("idle_heartbeat_ns", "idle_heartbeat"),
    ("inactive_threshold_ns", "inactive_threshold"),
    ("priority_timeout_ns", "priority_timeout"),
)


def _fill_zeros(config: ConsumerConfig, pedantic: bool) -> None:
    """Out-of-range numbers become what they most likely mean."""
    if config.max_deliver == 0 or config.max_deliver < -1:
        _pedantic(pedantic and config.max_deliver < -1, "max_deliver must be set to -1")
        config.max_deliver = -1
    if config.max_waiting < 0:
        _pedantic(pedantic, "max_waiting must not be negative")
        config.max_waiting = 0
    if config.max_ack_pending < -1:
        _pedantic(pedantic, "max_ack_pending must be set to -1")
        config.max_ack_pending = -1
    for attribute, name in _NEVER_NEGATIVE:
        if getattr(config, attribute) < 0:
            _pedantic(pedantic, f"{name} must not be negative")
            setattr(config, attribute, 0)


def _fill_defaults(config: ConsumerConfig, context: ConsumerContext, pedantic: bool) -> None:
    limits = context.stream.consumer_limits
    if not config.deliver_subject and config.max_waiting == 0:
        config.max_waiting = CONSUMER_WAITING
    if config.ack_wait_ns == 0 and config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL):
        config.ack_wait_ns = CONSUMER_ACK_WAIT_NS
    if config.backoff_ns:
        _pedantic(
            pedantic and config.ack_wait_ns != config.backoff_ns[0], "first backoff value has to equal batch AckWait"
        )
        config.ack_wait_ns = config.backoff_ns[0]
    if config.max_ack_pending == 0:
        _pedantic(
            pedantic and limits.max_ack_pending > 0,
            "max_ack_pending must be set if it's configured in stream limits",
        )
        config.max_ack_pending = limits.max_ack_pending
    if config.inactive_threshold_ns == 0:
        _pedantic(
            pedantic and limits.inactive_threshold_ns > 0,
            "inactive_threshold must be set if it's configured in stream limits",
        )
        config.inactive_threshold_ns = limits.inactive_threshold_ns
    if config.max_ack_pending == 0 and config.ack_policy is not AckPolicy.NONE:
        ceilings = (context.server_ack_pending, context.account_ack_pending)
        config.max_ack_pending = min([CONSUMER_ACK_PENDING, *(ceiling for ceiling in ceilings if ceiling > 0)])
    if not config.deliver_subject and config.max_batch == 0 and context.server_batch > 0:
        _pedantic(pedantic, "max_request_batch must be set if it's JetStream limits are set")
        config.max_batch = context.server_batch
    if config.priority_policy is PriorityPolicy.PINNED_CLIENT and config.priority_timeout_ns == 0:
        config.priority_timeout_ns = CONSUMER_PIN_NS
    if config.ack_policy is AckPolicy.FLOW_CONTROL and not pedantic:
        config.flow_control = True
        config.idle_heartbeat_ns = CONSUMER_FLOW_ACK_HEARTBEAT_NS


def _pedantic(refused: bool, text: str) -> None:
    if refused:
        raise TableError(table.PEDANTIC, err=text)


def _check_names_and_replicas(config: ConsumerConfig, stream: StreamConfig) -> None:
    if config.name and not is_valid_asset_name(config.name):
        raise invalid_config(r"consumer name can not contain '.', '*', '>', '\', '/'")
    if config.durable_name and not is_valid_asset_name(config.durable_name):
        raise invalid_config(r"consumer durable name can not contain '.', '*', '>', '\', '/'")
    if 0 < config.num_replicas > stream.num_replicas:
        raise TableError(table.CONSUMER_REPLICAS_EXCEEDS_STREAM)
    if config.num_replicas < 0:
        raise TableError(table.REPLICAS_COUNT_CANNOT_BE_NEGATIVE)
    if stream.retention is not RetentionPolicy.LIMITS and config.num_replicas not in (0, stream.num_replicas):
        raise TableError(table.CONSUMER_REPLICAS_SHOULD_MATCH_STREAM)


def _check_acks(config: ConsumerConfig) -> None:
    if any(wait_ns < 0 for wait_ns in config.backoff_ns):
        raise TableError(table.CONSUMER_BACK_OFF_NEGATIVE)
    if config.ack_wait_ns < 0:
        raise TableError(table.CONSUMER_ACK_WAIT_NEGATIVE)
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        if not config.deliver_subject:
            raise TableError(table.CONSUMER_ACK_FC_REQUIRES_PUSH)
        if not config.flow_control:
            raise TableError(table.CONSUMER_ACK_FC_REQUIRES_FC)
        if config.idle_heartbeat_ns != CONSUMER_FLOW_ACK_HEARTBEAT_NS:
            raise invalid_config("flow control ack policy heartbeat needs to be 1s")
        if config.max_ack_pending <= 0:
            raise TableError(table.CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING)
        if config.ack_wait_ns != 0 or config.backoff_ns:
            raise TableError(table.CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT)
        if config.max_deliver > 0:
            raise TableError(table.CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER)
    check_backoff(config)
    if len(config.description.encode()) > ASSET_DESCRIPTION_BYTES_MAX:
        raise TableError(table.CONSUMER_DESCRIPTION_TOO_LONG, max=ASSET_DESCRIPTION_BYTES_MAX)


def check_backoff(config: ConsumerConfig) -> None:
    """There may not be more waiting times than deliveries; asked again on update."""
    if config.backoff_ns and config.max_deliver != -1 and len(config.backoff_ns) > config.max_deliver:
        raise TableError(table.CONSUMER_MAX_DELIVER_BACKOFF)


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    target = config.deliver_subject.encode()
    if not is_literal(target):
        raise TableError(table.CONSUMER_DELIVER_TO_WILDCARDS)
    if not is_valid_subscription(target):
        raise TableError(table.CONSUMER_INVALID_DELIVER_SUBJECT)
    if any(is_subset(target, subject.encode()) for subject in stream.subjects):
        raise TableError(table.CONSUMER_DELIVER_CYCLE)
    if config.max_waiting != 0:
        raise TableError(table.CONSUMER_PUSH_MAX_WAITING)
    if config.max_ack_pending > 0 and config.ack_policy is AckPolicy.NONE:
        raise TableError(table.CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED)
    if 0 < config.idle_heartbeat_ns < CONSUMER_HEARTBEAT_MIN_NS:
        raise TableError(table.CONSUMER_SMALL_HEARTBEAT)


def _check_pull(config: ConsumerConfig, context: ConsumerContext) -> None:
    if config.ack_policy is AckPolicy.NONE and context.stream.retention is RetentionPolicy.WORK_QUEUE:
        raise TableError(table.CONSUMER_PULL_REQUIRES_ACK)
    if config.rate_limit_bps > 0:
        raise TableError(table.CONSUMER_PULL_WITH_RATE_LIMIT)
    if config.idle_heartbeat_ns > 0:
        raise TableError(table.CONSUMER_HB_REQUIRES_PUSH)
    if config.flow_control:
        raise TableError(table.CONSUMER_FC_REQUIRES_PUSH)
    if 0 < config.max_expires_ns < CONSUMER_EXPIRES_MIN_NS:
        raise TableError(table.CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL)
    if 0 < context.server_batch < config.max_batch:
        raise TableError(table.CONSUMER_MAX_REQUEST_BATCH_EXCEEDED, limit=context.server_batch)


def _check_limits(config: ConsumerConfig, context: ConsumerContext) -> None:
    limits = context.stream.consumer_limits
    for ceiling in (context.server_ack_pending, context.account_ack_pending, limits.max_ack_pending):
        if 0 < ceiling < config.max_ack_pending:
            raise TableError(table.CONSUMER_MAX_PENDING_ACK_EXCESS, limit=ceiling)
    if 0 < limits.inactive_threshold_ns < config.inactive_threshold_ns:
        raise TableError(table.CONSUMER_INACTIVE_THRESHOLD_EXCESS, limit=format_duration(limits.inactive_threshold_ns))
    if config.direct:
        if not config.deliver_subject:
            raise TableError(table.CONSUMER_DIRECT_REQUIRES_PUSH)
        if config.durable_name:
            raise TableError(table.CONSUMER_DIRECT_REQUIRES_EPHEMERAL)


def _check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise TableError(table.CONSUMER_DUPLICATE_FILTER_SUBJECTS)
    if config.filter_subject and not is_valid_subscription(config.filter_subject.encode()):
        raise invalid_config("invalid subject")
    if "" in config.filter_subjects:
        raise TableError(table.CONSUMER_EMPTY_FILTER)
    if len(config.filter_subjects) > CONSUMER_FILTERS_MAX:
        raise invalid_config(f"too many filter subjects, maximum allowed is {CONSUMER_FILTERS_MAX}")
    subjects = [subject.encode() for subject in subjects_of(config)]
    if not all(is_valid_subscription(subject) for subject in subjects):
        raise invalid_config("invalid subject")
    try:
        if subset_within(subjects):
            raise TableError(table.CONSUMER_OVERLAPPING_SUBJECT_FILTERS)
    except TooManySteps:
        raise invalid_config("filter subjects have wildcards in too many different places") from None


_WITHOUT_START = {
    DeliverPolicy.ALL: "all",
    DeliverPolicy.LAST: "last",
    DeliverPolicy.LAST_PER_SUBJECT: "last per subject",
    DeliverPolicy.NEW: "new",
}


def _check_start(config: ConsumerConfig) -> None:
    """The start that belongs to the policy must be there, and no other."""
    policy = config.deliver_policy
    if policy in _WITHOUT_START:
        name = _WITHOUT_START[policy]
        if config.opt_start_seq > 0:
            raise _start_set(name, "sequence")
        if config.opt_start_time_ns is not None:
            raise _start_set(name, "time")
        if policy is DeliverPolicy.LAST_PER_SUBJECT and not subjects_of(config):
            raise _start_missing(name, "filter subject")
    elif policy is DeliverPolicy.BY_START_SEQUENCE:
        if config.opt_start_seq == 0:
            raise _start_missing("by start sequence", "start sequence")
        if config.opt_start_time_ns is not None:
            raise _start_set("by start sequence", "time")
    else:
        if config.opt_start_time_ns is None:
            raise _start_missing("by start time", "start time")
        if config.opt_start_seq != 0:
            raise _start_set("by start time", "start sequence")


def _start_set(policy: str, what: str) -> TableError:
    err = f"consumer delivery policy is deliver {policy}, but optional start {what} is also set"
    return TableError(table.CONSUMER_INVALID_POLICY, err=err)


def _start_missing(policy: str, what: str) -> TableError:
    err = f"consumer delivery policy is deliver {policy}, but optional {what} is not set"
    return TableError(table.CONSUMER_INVALID_POLICY, err=err)


def _check_priority(config: ConsumerConfig) -> None:
    if config.priority_policy is PriorityPolicy.NONE:
        if config.priority_groups:
            raise TableError(table.CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE)
        if config.priority_timeout_ns > 0:
            raise TableError(table.CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE)
        return
    if config.deliver_subject:
        raise TableError(table.CONSUMER_PUSH_WITH_PRIORITY_GROUP)
    if not config.priority_groups:
        raise TableError(table.CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP)
    for group in config.priority_groups:
        if not group:
            raise TableError(table.CONSUMER_EMPTY_GROUP_NAME)
        if not is_group_name(group):
            raise TableError(table.CONSUMER_INVALID_GROUP_NAME)
