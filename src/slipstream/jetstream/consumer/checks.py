"""What is asked of a consumer, held against its stream and account: what may be made, and where it begins.

What this is not: the consumers that there are (`consumers`), or the rules of a configuration by itself (`config`).
Nothing in here changes anything.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.config.enums import DeliverPolicy
from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.config.templated import is_template
from slipstream.jetstream.config.validate import is_valid_asset_name
from slipstream.jetstream.config.versioning import consumer_level, with_required_level
from slipstream.jetstream.consumer.acks import AckEngine
from slipstream.jetstream.consumer.config import ConsumerContext, checked
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.deadletters import check_dead_letters
from slipstream.jetstream.consumer.filters import Filters, subjects_of
from slipstream.jetstream.consumer.limits import CONSUMER_INACTIVE_NS
from slipstream.jetstream.consumer.ordering import check_ordering, ordering_of
from slipstream.jetstream.consumer.start import first_position
from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.errors import TableError, invalid_config
from slipstream.jetstream.gojson.times import ZERO_TIME_NS
from slipstream.jetstream.limits import ASSET_NAME_BYTES_MAX
from slipstream.jetstream.stream.stream import Stream

__all__ = ["ConsumerChecks", "leveled"]

_EPHEMERAL_NAME_LENGTH = 8


class ConsumerChecks:
    """Of the consumers of one stream."""

    def __init__(self, stream: Stream, account: JetStreamAccount) -> None:
        """Hold requests against these two as they are then."""
        self._stream = stream
        self._account = account

    def checked_config(
        self, config: ConsumerConfig, existing: ConsumerConfig | None, *, pedantic: bool
    ) -> ConsumerConfig:
        """A copy of what is asked for, as it is kept; of a consumer that is there, a pause goes on.

        Raises:
            ApiError: what the request itself breaks.
        """
        config = msgspec.structs.replace(config)
        if existing is not None:
            config.pause_until_ns = existing.pause_until_ns
        config.metadata = leveled(config)
        stream_config = self._stream.config
        if is_template(stream_config):
            raise invalid_config("a template stores no messages: consumers belong to the streams that it makes")
        limits, facts = self._account.limits, self._account.facts
        context = ConsumerContext(stream_config, facts.max_ack_pending, facts.max_request_batch, limits.max_ack_pending)
        config = checked(config, context, pedantic=pedantic)
        check_ordering(config)
        check_dead_letters(config, stream_config, Filters(subjects_of(config), self._stream.known_subjects))
        return config

    def check_room(self, config: ConsumerConfig, visible_count: int) -> None:
        """Whether one more may be made where so many are shown.

        Raises:
            ApiError: 10026.
        """
        limit, account_limit = self._stream.config.max_consumers, self._account.limits.max_consumers
        if limit <= 0 or 0 < account_limit < limit:
            limit = account_limit
        if limit <= 0:
            limit = self._account.facts.default_max_consumers
        if 0 < limit <= visible_count and not config.direct:
            raise TableError(table.MAXIMUM_CONSUMERS_LIMIT)

    def name(self, config: ConsumerConfig, taken: Container[str]) -> str:
        """What a new consumer is called; one without a name gets one that nobody has.

        Raises:
            ApiError: 10102, 10103.
        """
        name = config.durable_name or config.name
        if len(name.encode()) > ASSET_NAME_BYTES_MAX:
            raise TableError(table.CONSUMER_NAME_TOO_LONG, max=ASSET_NAME_BYTES_MAX)
        if name and not is_valid_asset_name(name):
            raise TableError(table.CONSUMER_BAD_DURABLE_NAME)
        while not name or (name in taken and not (config.durable_name or config.name)):
            name = self._account.ports.new_nuid()[-_EPHEMERAL_NAME_LENGTH:]
        return name

    def first_state(self, config: ConsumerConfig) -> ConsumerState:
        """Of a new consumer: where it begins, with nothing delivered."""
        stream = self._stream
        if not config.durable_name and not config.inactive_threshold_ns:
            config.inactive_threshold_ns = CONSUMER_INACTIVE_NS
        filters = Filters(subjects_of(config), stream.known_subjects)
        one_per_subject = stream.config.max_msgs_per_subject == 1
        next_seq, resume_seq = first_position(config, stream.store, filters, one_per_subject=one_per_subject)
        return ConsumerState(
            config=config,
            created_ns=self._account.ports.now_ns(),
            next_seq=next_seq,
            acks=AckEngine(next_seq, is_straight=ordering_of(config.metadata) is None),
            resume_seq=resume_seq,
            trusted_from=next_seq,
        )

    def reset_position(self, consumer: Consumer, seq: int) -> int:
        """Where it begins again if it is reset to `seq`: behind the ack floor if that is 0.

        Raises:
            ApiError: 10204.
        """
        config = consumer.config
        if seq == 0:
            return consumer.state.acks.floor[1] + 1
        if config.deliver_policy is DeliverPolicy.BY_START_SEQUENCE:
            if seq < config.opt_start_seq:
                raise TableError(table.CONSUMER_INVALID_RESET, err="below start seq")
        elif config.deliver_policy is DeliverPolicy.BY_START_TIME:
            assert config.opt_start_time_ns is not None
            if seq < self._stream.store.seq_for_time(config.opt_start_time_ns):
                raise TableError(table.CONSUMER_INVALID_RESET, err="below start time")
        elif config.deliver_policy is not DeliverPolicy.ALL:
            raise TableError(table.CONSUMER_INVALID_RESET, err="not allowed")
        return seq


def leveled(config: ConsumerConfig) -> dict[str, str]:
    """The metadata with the API level the consumer needs; a pause until the zero time is none."""
    level = config
    if config.pause_until_ns == ZERO_TIME_NS:
        level = msgspec.structs.replace(config, pause_until_ns=None)
    return with_required_level(config.metadata, consumer_level(level))
