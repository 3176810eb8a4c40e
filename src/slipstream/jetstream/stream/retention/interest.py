"""What a stream tells its consumers and asks of them. The consumer layer provides it; without one nobody listens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slipstream.jetstream.config.structs import ConsumerLimits, StreamConfig

__all__ = ["ConsumerInterest", "NoConsumers"]


class ConsumerInterest(Protocol):
    """All consumers of one stream."""

    @property
    def consumer_count(self) -> int:
        """Consumers that a user made and sees."""
        ...

    @property
    def reader_count(self) -> int:
        """The same, and those of mirrors and sources."""
        ...

    def has_interest(self, subject: bytes) -> bool:
        """Whether some consumer would be given a message on this subject. Asked per publish by interest retention."""
        ...

    def on_committed(self, first_seq: int, last_seq: int) -> None:
        """Everything in this range that is still stored may be delivered."""
        ...

    def on_removed(self, seqs: Sequence[int]) -> None:
        """These messages are gone: expired, deleted or pushed out by a limit."""
        ...

    def on_purged(self, subject: bytes) -> None:
        """Many messages are gone, all of them matching `subject` (`b""`: any). Look at the store again."""
        ...

    def on_config(self, old: StreamConfig, new: StreamConfig) -> None:
        """The stream's configuration has changed."""
        ...

    def beyond(self, limits: ConsumerLimits) -> list[str]:
        """Names of the consumers whose settings exceed these limits: such an update is refused."""
        ...

    def delivered_from(self, seq: int) -> list[str]:
        """Names of the consumers that have delivered a message at or above this sequence, or may have."""
        ...

    def stop(self, *, deleted: bool) -> None:
        """The stream is going: end all deliveries. `deleted`: for good, tell waiting clients."""
        ...


class NoConsumers:
    """The answers of a stream that has no consumers."""

    consumer_count = reader_count = 0

    def has_interest(self, subject: bytes) -> bool:
        """Nobody."""
        return False

    def on_committed(self, first_seq: int, last_seq: int) -> None:
        """Nobody to wake."""

    def on_removed(self, seqs: Sequence[int]) -> None:
        """Nobody to tell."""

    def on_purged(self, subject: bytes) -> None:
        """Nobody to tell."""

    def on_config(self, old: StreamConfig, new: StreamConfig) -> None:
        """Nobody to tell."""

    def beyond(self, limits: ConsumerLimits) -> list[str]:
        """None exceeds anything."""
        return []

    def delivered_from(self, seq: int) -> list[str]:
        """None has."""
        return []

    def stop(self, *, deleted: bool) -> None:
        """Nothing runs."""
