"""What an update of a consumer may change.

What this is not: the rules a configuration obeys on its own (`config.checked`, which runs first).
"""

from __future__ import annotations

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.consumer.config import check_backoff
from slipstream.jetstream.consumer.ordering import DELIVERY_KEY, order_keys
from slipstream.jetstream.errors import TableError

__all__ = ["check_update"]

# In nats-server's order; the first difference is reported.
_FIXED = (
    ("deliver_policy", "deliver policy"),
    ("mem_storage", "storage type"),
    ("direct", "direct"),
    ("sourcing", "sourcing"),
    ("opt_start_seq", "start sequence"),
    ("opt_start_time_ns", "start time"),
    ("ack_policy", "ack policy"),
    ("replay_policy", "replay policy"),
    ("idle_heartbeat_ns", "heart beats"),
    ("flow_control", "flow control"),
)


def check_update(old: ConsumerConfig, new: ConsumerConfig, *, bound: bool) -> None:
    """Whether a consumer may become `new`.

    Args:
        old: its configuration.
        new: the checked wish.
        bound: whether somebody listens on the present deliver subject.

    Raises:
        TableError: the first change that is not allowed.
    """
    if old == new:
        return
    for attribute, name in _FIXED:
        if getattr(old, attribute) != getattr(new, attribute):
            raise _refused(f"{name} can not be updated")
    if old.deliver_subject != new.deliver_subject:
        if not old.deliver_subject:
            raise _refused("can not update pull consumer to push based")
        if not new.deliver_subject:
            raise _refused("can not update push consumer to pull based")
        if bound:
            raise TableError(table.CONSUMER_NAME_EXIST)
    if old.max_waiting != new.max_waiting:
        raise _refused("max waiting can not be updated")
    if order_keys(old.metadata) != order_keys(new.metadata):
        raise _refused(f"{DELIVERY_KEY} can not be updated")
    check_backoff(new)


def _refused(text: str) -> TableError:
    return TableError(table.CONSUMER_CREATE, err=text)
