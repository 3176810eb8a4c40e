"""The consumers of a work queue: each message is for one of them, so their filters are disjoint.

Consumers of a stream with another retention, and those that copy, share everything with everybody: they are no part.
"""

from __future__ import annotations

from collections.abc import Sized

from slipstream.jetstream import errors_table as table
from slipstream.jetstream.config.enums import AckPolicy, DeliverPolicy, RetentionPolicy
from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.filters import subjects_of
from slipstream.jetstream.consumer.partition import Partition
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.stream.stream import Stream

__all__ = ["WorkQueueParts"]


class WorkQueueParts:
    """Which consumer has which subjects of one stream."""

    def __init__(self, stream: Stream, consumers: Sized) -> None:
        """`consumers`: all that the stream has, as they are at any time."""
        self._stream = stream
        self._consumers = consumers
        self._partition = Partition()

    def check_new(self, config: ConsumerConfig, name: str) -> None:
        """Whether one more consumer fits in.

        Raises:
            ApiError: it does not.
        """
        if not self._counts(config):
            return
        if config.ack_policy not in (AckPolicy.EXPLICIT, AckPolicy.FLOW_CONTROL):
            raise TableError(table.CONSUMER_WQ_REQUIRES_EXPLICIT_ACK)
        if config.deliver_policy is not DeliverPolicy.ALL:
            raise TableError(table.CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL)
        if self._consumers and not subjects_of(config):
            raise TableError(table.CONSUMER_WQ_MULTIPLE_UNFILTERED)
        self.check_free(config, name)

    def check_free(self, config: ConsumerConfig, name: str) -> None:
        """Whether no other consumer has some of its subjects.

        Raises:
            ApiError: one has.
        """
        if not self._partition.is_free(name, [subject.encode() for subject in subjects_of(config)]):
            raise TableError(table.CONSUMER_WQ_CONSUMER_NOT_UNIQUE)

    def take(self, consumer: Consumer) -> None:
        """Its subjects are its own from now on."""
        if self._counts(consumer.config):
            self._partition.set(consumer.name, consumer.filters.subjects)

    def drop(self, name: str) -> None:
        """They are free again."""
        self._partition.drop(name)

    def _counts(self, config: ConsumerConfig) -> bool:
        return self._stream.config.retention is RetentionPolicy.WORK_QUEUE and not (config.direct or config.sourcing)
