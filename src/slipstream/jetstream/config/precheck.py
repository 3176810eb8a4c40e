"""A configuration that was judged before its turn, in a thread, because that takes long: is the verdict still true?

A verdict depends on the configuration itself, on limits of the account, and on the streams that it names. When it is
the configuration's turn, all of these are compared with what was seen; if one differs, it is judged again.
"""

from __future__ import annotations

import msgspec

from slipstream.dataclass import dataclass
from slipstream.errors import ApiError
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.validate import ConfigContext
from slipstream.jetstream.config.versioning import stream_level, with_required_level

__all__ = ["Prechecked", "with_level"]


def with_level(config: StreamConfig) -> StreamConfig:
    """The same with the API level that it needs in its metadata."""
    return msgspec.structs.replace(config, metadata=with_required_level(config.metadata, stream_level(config)))


@dataclass(frozen=True, slots=True)
class Prechecked:
    """What was judged, what was seen, and the verdict."""

    asked: StreamConfig
    limits: tuple[object, ...]
    streams: dict[str, StreamConfig | None]
    outcome: StreamConfig | ApiError

    def holds_for(self, config: StreamConfig, context: ConfigContext) -> bool:
        """Whether it would be judged the same now."""
        return (
            self.asked == config
            and self.limits == context.limits_of(config)
            and all(context.find_stream(name) is found for name, found in self.streams.items())
        )

    def result(self) -> StreamConfig:
        """The configuration with defaults filled in.

        Raises:
            ApiError: the first rule it breaks.
        """
        if isinstance(self.outcome, ApiError):
            raise self.outcome
        return self.outcome
