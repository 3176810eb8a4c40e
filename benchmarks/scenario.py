"""What a benchmark is: a scenario gives one number for each of its rows in the table, and a row has a bar to clear.

Invariant: a scenario raises when a message is missing, so a number in a table stands for work that was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from benchmarks.servers import Server

__all__ = ["Bar", "Claim", "Latency", "MessagesMissing", "Row", "Scale", "Scenario", "Throughput"]


class MessagesMissing(Exception):
    """The server delivered another number of messages than it had to."""


class Scale(Enum):
    """How much work: a full run, or a tenth of it for a quick look."""

    FULL = 1
    QUICK = 10

    def of(self, count: int) -> int:
        """The count at this scale, at least 1."""
        return max(count // self.value, 1)


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Messages through the server: delivered ones where there are subscribers, accepted ones otherwise."""

    messages: int
    payload_bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Round trips, one after the other."""

    requests: int
    p50_ns: int
    p99_ns: int


class Claim(Enum):
    """What a bar speaks about."""

    RATIO_AT_LEAST = "ours / theirs >= {:g}"
    RATIO_AT_MOST = "ours / theirs <= {:g}"
    OURS_AT_LEAST = "ours >= {:g}"
    OURS_AT_MOST = "ours <= {:g}"
    AT_MOST_OR_TWICE = "ours <= {:g} or 2 x theirs"


@dataclass(frozen=True)
class Bar:
    """The number a row must clear."""

    claim: Claim
    limit: float

    def __str__(self) -> str:
        return self.claim.value.format(self.limit)

    def cleared(self, ours: float, theirs: float) -> bool:
        """Whether these medians clear it."""
        match self.claim:
            case Claim.RATIO_AT_LEAST:
                return ours >= self.limit * theirs
            case Claim.RATIO_AT_MOST:
                return ours <= self.limit * theirs
            case Claim.OURS_AT_LEAST:
                return ours >= self.limit
            case Claim.OURS_AT_MOST:
                return ours <= self.limit
            case Claim.AT_MOST_OR_TWICE:
                return ours <= max(self.limit, 2 * theirs)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    title: str
    unit: str
    bar: Bar | None  # None: for information


@dataclass(frozen=True)
class Scenario:
    """Something to measure on a server that was started for it alone."""

    name: str
    rows: tuple[Row, ...]
    run: Callable[[Server, Scale], Sequence[float]]  # one number for each row
    flags: tuple[str, ...] = ()  # for the server; relative paths lie in a directory that is deleted afterwards
