"""What a campaign is, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Figures:
    """What a campaign found. `broken` empty: every promise was kept."""

    counts: dict[str, int | str]
    broken: list[str] = field(default_factory=list)
    control: str = ""
    """What the same checks found where the promise is broken on purpose."""
    control_found: bool = False


@dataclass(frozen=True)
class Campaign:
    """One proof."""

    title: str
    promise: str
    run: Callable[[int], Figures]
    """Takes the number of cases."""
    cases: int
    """Of the long form."""
