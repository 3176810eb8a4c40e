"""Where a new consumer begins."""

from __future__ import annotations

from slipstream.jetstream.config.enums import DeliverPolicy
from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.consumer.filters import Filters
from slipstream.jetstream.store.contract import StoreReads

__all__ = ["first_position"]


def first_position(
    config: ConsumerConfig, store: StoreReads, filters: Filters, *, one_per_subject: bool
) -> tuple[int, int]:
    """`(next_seq, resume_seq)` of a consumer that is made now, of what is committed.

    Args:
        config: checked.
        store: of its stream.
        filters: the consumer's.
        one_per_subject: the stream keeps one message per subject, so that "last per subject" is simply "all".
    """
    policy, last_seq = config.deliver_policy, store.committed_seq
    resume_seq = 0
    if policy is DeliverPolicy.BY_START_SEQUENCE:
        return max(config.opt_start_seq, store.first_seq, 1), 0
    if policy is DeliverPolicy.NEW:
        next_seq = last_seq + 1
    elif policy is DeliverPolicy.LAST:
        next_seq = store.filtered_state(filters.for_store, 0).last_seq
    elif policy is DeliverPolicy.BY_START_TIME:
        assert config.opt_start_time_ns is not None
        next_seq = store.seq_for_time(config.opt_start_time_ns)
    elif policy is DeliverPolicy.LAST_PER_SUBJECT and not one_per_subject:
        newest = store.last_per_subject(filters.for_store, last_seq) if last_seq else []
        next_seq = newest[0] if newest else last_seq
        resume_seq = last_seq if newest else 0
    else:
        next_seq = store.first_seq
    return max(min(next_seq, last_seq + 1), store.first_seq, 1), resume_seq
