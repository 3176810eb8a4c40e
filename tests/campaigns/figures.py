"""What a campaign is, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Figures:
    """What a campaign found. `broken` empty: every promise was kept."""

    counts: dict[str, int | float | str]
    """Whole numbers are counts, others the worst that was seen."""
    broken: list[str] = field(default_factory=list)
    control: str = ""
    """What the same checks found where the promise is broken on purpose."""
    control_found: bool = False


@dataclass(frozen=True)
class Parts:
    """How a campaign is run in parts: today some cases, tomorrow the next."""

    run: Callable[[range], Figures]
    """Takes the numbers of the cases."""
    control: Callable[[], Figures]
    sources: tuple[str, ...]
    """Files and directories of the repository: figures add up as long as nothing in them changes."""


@dataclass(frozen=True)
class Campaign:
    """One proof."""

    title: str
    promise: str
    run: Callable[[int], Figures]
    """Takes the number of cases."""
    cases: int
    """Of the long form."""
    parts: Parts | None = None


def added(one: Figures, other: Figures) -> Figures:
    """What two parts of a campaign found together."""
    counts = dict(one.counts)
    for name, value in other.counts.items():
        counts[name] = _together(counts[name], value) if name in counts else value
    return Figures(
        counts,
        one.broken + other.broken,
        one.control or other.control,
        one.control_found or other.control_found,
    )


def _together(one: float | str, other: float | str) -> int | float | str:
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    if isinstance(one, float) and isinstance(other, float):
        return max(one, other)
    if one != other:
        raise ValueError(f"{one!r} and {other!r} do not add up")
    return one


def in_one(part: Callable[[range], Figures], control: Callable[[], Figures]) -> Callable[[int], Figures]:
    """A campaign of parts as one that runs so many cases at once."""
    return lambda count: added(part(range(count)), control())
