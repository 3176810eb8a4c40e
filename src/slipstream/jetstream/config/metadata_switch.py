"""Features of streams that are asked for by metadata, so that any client can: one key, one value."""

from __future__ import annotations

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import invalid_config

__all__ = ["MetadataSwitch"]


class MetadataSwitch:
    """On in a stream whose metadata have the key, with the only value there is."""

    __slots__ = ("_value", "key")

    def __init__(self, key: str, value: str) -> None:
        self.key = key
        self._value = value

    def is_on(self, config: StreamConfig) -> bool:
        """Whether a stream has the feature."""
        return config.metadata.get(self.key) == self._value

    def is_asked(self, config: StreamConfig) -> bool:
        """Whether a stream asks for the feature in the one way there is; False: not at all.

        Raises:
            TableError: 10052, it asks for something else.
        """
        if self.key in config.metadata and not self.is_on(config):
            raise invalid_config(f"{self.key} must be {self._value}")
        return self.is_on(config)

    def check_unchanged(self, old: StreamConfig, new: StreamConfig) -> None:
        """For what a stream has from its first message to its last, or never.

        Raises:
            TableError: 10052, an update begins or ends it.
        """
        if self.is_on(old) != self.is_on(new):
            raise invalid_config(f"stream configuration update can not change {self.key}")
