"""What may be made in one account: configurations against its limits, and against what is there."""

from __future__ import annotations

from collections.abc import Callable, Collection

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.account.holdings import Holdings
from slipstream.jetstream.account.resources import check_limits
from slipstream.jetstream.account.running import RunningStreams
from slipstream.jetstream.account.server import JetStreamServer
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.config.precheck import Prechecked, with_level
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.validate import ConfigContext, checked
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import ONE_REPLICA, AccountLimits
from slipstream.jetstream.stream.stream import Stream

__all__ = ["StreamChecks"]


class StreamChecks:
    """Judges configurations. Changes nothing."""

    def __init__(
        self,
        limits: AccountLimits,
        server: JetStreamServer,
        running: RunningStreams,
        holdings: Holdings,
        creating: Collection[str],
    ) -> None:
        """`creating`: names of streams that are not there yet, and count."""
        self.limits = limits
        self._server = server
        self._running = running
        self._holdings = holdings
        self._creating = creating

    def use(self, limits: AccountLimits) -> None:
        """Judge by these from now on."""
        self.limits = limits

    def context(self, find: Callable[[str], StreamConfig | None] | None = None) -> ConfigContext:
        """What a configuration of this account is checked against."""

        def ceiling(storage: StorageType) -> int:
            limits = self.limits
            memory = storage is StorageType.MEMORY
            return limits.memory_max_stream_bytes if memory else limits.storage_max_stream_bytes

        return ConfigContext(
            find_stream=find or self._running.config_of,
            duplicate_window_max_ns=self._server.facts.duplicate_window_max_ns,
            max_bytes_required=self.limits.max_bytes_required,
            stream_bytes_max=ceiling,
        )

    def precheck(self, config: StreamConfig, *, pedantic: bool) -> Prechecked:
        """Judge a configuration before its turn, perhaps in a thread."""
        asked = with_level(config)
        seen: dict[str, StreamConfig | None] = {}

        def find(name: str) -> StreamConfig | None:
            seen[name] = self._running.config_of(name)
            return seen[name]

        context = self.context(find)
        outcome: StreamConfig | ApiError
        try:
            outcome = checked(asked, context, pedantic=pedantic)
        except ApiError as error:
            outcome = error
        return Prechecked(asked, context.limits_of(asked), seen, outcome)

    def checked(self, config: StreamConfig, prechecked: Prechecked | None, *, pedantic: bool) -> StreamConfig:
        """A configuration with its defaults, if it is right; what a thread found still holds, or it is looked at now.

        Raises:
            ApiError: what is wrong with it.
        """
        context = self.context()
        if prechecked is None or not prechecked.holds_for(config, context):
            return checked(config, context, pedantic=pedantic)
        return prechecked.result()

    def check_room(self, config: StreamConfig, *, new: bool) -> None:
        """Whether the limits let a stream be made, or stay if it is there.

        Raises:
            ApiError: they do not.
        """
        if self.limits.tiers and ONE_REPLICA not in self.limits.tiers:
            raise TableError(table.NO_LIMITS)
        if new and 0 < self.limits.max_streams <= len(self._running.by_name) + len(self._creating):
            raise TableError(table.MAXIMUM_STREAMS_LIMIT)
        check_limits(
            config,
            self.limits,
            self._server.budgets[config.storage],
            reserved_bytes=self._holdings.reserved_besides(config),
            extra_bytes=config.max_bytes,
            released_bytes=self._holdings.reserved_by(config),
        )

    def check_growth(self, old: StreamConfig, config: StreamConfig) -> None:
        """Whether the limits let a stream become larger.

        Raises:
            ApiError: they do not.
        """
        growth = max(max(config.max_bytes, 0) - max(old.max_bytes, 0), 0)
        check_limits(
            config,
            self.limits,
            self._server.budgets[config.storage],
            reserved_bytes=self._holdings.reserved_besides(config) + max(config.max_bytes, 0) - growth,
            extra_bytes=growth,
        )

    def check_consumers(self, stream: Stream, config: StreamConfig) -> None:
        """Whether the consumers of a stream are within the limits that it is to have for them.

        Raises:
            ApiError: some are not.
        """
        if config.consumer_limits == stream.config.consumer_limits:
            return
        names = stream.interest.beyond(config.consumer_limits)
        if names:
            text = f"change to limits violates consumers: {', '.join(names)}"
            raise TableError(table.STREAM_UPDATE, err=text)
