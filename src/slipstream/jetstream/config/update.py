"""What an update may change, and what sealing a stream implies.

What this is not: the rules a configuration obeys on its own (`validate.checked`, which runs first).
"""

from __future__ import annotations

import msgspec

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.chained import check_still_chained
from slipstream.jetstream.config.enums import DiscardPolicy, RetentionPolicy
from slipstream.jetstream.config.previewed import check_still_preview
from slipstream.jetstream.config.schemed import check_schemas_follow
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.templated import check_still_template
from slipstream.jetstream.config.validate import check_discard_new_per_subject
from slipstream.jetstream.errors import TableError, invalid_config

__all__ = ["updated"]


def updated(old: StreamConfig, new: StreamConfig, *, clustered: bool = False) -> StreamConfig:
    """The configuration a stream has after an update from `old` to the checked `new`.

    Args:
        old: the stream's, until now.
        new: what it is to be.
        clustered: whether streams may have copies on other servers.

    Raises:
        TableError: the first change that is not allowed.
    """
    if new.name != old.name:
        raise invalid_config("stream configuration name must match original")
    if new.num_replicas > 1 and not clustered:
        raise TableError(table.STREAM_REPLICAS_NOT_SUPPORTED)
    if new.storage is not old.storage:
        raise invalid_config("stream configuration update can not change storage type")
    retentions = (old.retention, new.retention)
    if retentions[0] is not retentions[1] and RetentionPolicy.WORK_QUEUE in retentions:
        raise invalid_config("stream configuration update can not change retention policy to/from workqueue")
    for flag, complaint in _ONE_WAY:
        if getattr(old, flag) and not getattr(new, flag):
            raise invalid_config(complaint)
    if new.mirror is not None and new.mirror != old.mirror:
        raise TableError(table.STREAM_MIRROR_NOT_UPDATABLE)
    if new.discard_new_per_subject:
        check_discard_new_per_subject(new)
    if old.allow_msg_ttl and not new.allow_msg_ttl:
        raise invalid_config("message TTL status can not be disabled")
    if old.allow_msg_counter != new.allow_msg_counter:
        raise invalid_config("stream configuration update can not change message counter setting")
    if old.allow_msg_schedules and not new.allow_msg_schedules:
        raise invalid_config("message schedules can not be disabled")
    if old.persist_mode is not new.persist_mode:
        raise invalid_config("stream configuration update can not change persist mode")
    check_still_chained(old, new)
    check_still_preview(old, new)
    check_still_template(old, new)
    check_schemas_follow(old, new)
    return sealed(new) if new.sealed else new


_ONE_WAY = (
    ("sealed", "stream configuration update can not unseal a sealed stream"),
    ("deny_delete", "stream configuration update can not cancel deny message deletes"),
    ("deny_purge", "stream configuration update can not cancel deny purge"),
)


def sealed(config: StreamConfig) -> StreamConfig:
    """The settings a sealed stream has whatever was asked for: nothing expires, is removed or comes in."""
    return msgspec.structs.replace(
        config, max_age_ns=0, discard=DiscardPolicy.NEW, deny_delete=True, deny_purge=True, allow_rollup_hdrs=False
    )
