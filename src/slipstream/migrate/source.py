"""What a migration reads from, whatever that is: streams one after the other, each in the order of its sequences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.migrate.blocks import Record
from slipstream.migrate.consumers import SourceConsumer

__all__ = ["Findings", "SourceStream"]


@dataclass(slots=True)
class Findings:
    """What a person should know about a stream that was read."""

    notes: list[str] = field(default_factory=list)
    """Differences that lose nothing."""
    damage: list[str] = field(default_factory=list)
    """What cannot be read, each with its place and extent."""


class SourceStream(Protocol):
    """One stream to migrate."""

    account: str
    name: str

    @property
    def findings(self) -> Findings:
        """Filled while it is read."""
        ...

    @property
    def size_bytes(self) -> int:
        """About how much there is to read, for a progress bar."""
        ...

    @property
    def config(self) -> StreamConfig:
        """As the source has it."""
        ...

    @property
    def created_ns(self) -> int:
        """When it was made."""
        ...

    def fingerprint(self) -> str:
        """Changes when the source does."""
        ...

    def messages(self) -> Iterator[tuple[list[Record], int]]:
        """All messages in ascending order, in batches, each with the bytes read for it."""
        ...

    # Known when all messages were read:

    @property
    def last_seq(self) -> int:
        """The highest sequence ever given out."""
        ...

    @property
    def last_ts_ns(self) -> int:
        """When it was, as far as that is known."""
        ...

    @property
    def limits_due(self) -> bool:
        """Whether messages may be among them that a limit had removed."""
        ...

    @property
    def subjects(self) -> dict[bytes, int] | None:
        """How many messages the source counts for each subject, if it says so."""
        ...

    def positions(self) -> tuple[int, dict[str, int]]:
        """How far the stream's own sources were read, and up to which of its sequences that is known."""
        ...

    def consumers(self) -> Iterator[SourceConsumer]:
        """Its consumers."""
        ...

    def close(self) -> None:
        """Nothing more will be read."""
        ...
