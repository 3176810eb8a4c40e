"""What a server says about a stream, and about a range of it: the answers that `connection` gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Measure", "Measured", "StreamState"]


@dataclass(frozen=True)
class StreamState:
    """What a server says about a stream."""

    name: str
    identity: str
    first: int  # sequence of the oldest message; last + 1 when there is none
    last: int


@dataclass(frozen=True)
class Measured:
    """A range cut to size."""

    last: int  # last sequence of the range
    messages: int
    bytes: int


class Measure(Protocol):
    """Counts what a range of a stream holds, and cuts it."""

    def __call__(
        self, stream: str, first: int, last: int, max_messages: int | None, max_bytes: int | None
    ) -> Measured: ...
