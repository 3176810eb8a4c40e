"""The table of a comparison as Markdown: medians, spread, ratio, bar, verdict, and where it was measured."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from benchmarks import machine
from benchmarks.ceiling import Ceiling
from benchmarks.scenario import Row

__all__ = ["Circumstances", "Measured", "render"]


@dataclass
class Measured:
    """All values of one row."""

    row: Row
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # of our server, one text for each failed run

    def verdict(self) -> str:
        """`pass`, `FAIL`, or empty where there is no bar or nothing to compare."""
        if self.failures:
            return "FAIL"
        if self.row.bar is None or not self.ours or not self.theirs:
            return ""
        return "pass" if self.row.bar.cleared(median(self.ours), median(self.theirs)) else "FAIL"


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """How it was measured."""

    ours: str  # what our server says about its version
    theirs: str
    repeats: int
    scale: str
    foreign_share: float  # the most that other processes took of the machine during a run, from 0 to 1


def render(measured: Sequence[Measured], where: Circumstances, ceiling: Ceiling) -> str:
    """The whole page."""
    python = f"{platform.python_implementation()} {platform.python_version()}{machine.how_built()}"
    lines = [
        "# Slipstream beside nats-server",
        "",
        "Written by `python -m benchmarks.compare`; run it again instead of editing.",
        f"Medians of {where.repeats} interleaved runs ({where.scale}), each on a freshly started and warmed-up server;",
        "128-byte payloads unless a row says otherwise; clients and server share the machine.",
        "",
        "| | unit | Slipstream | nats-server | ratio | bar | |",
        "|---|---|---:|---:|---:|---|---|",
        *(_line(one) for one in measured),
        "",
        "In brackets: lowest and highest run.",
        "",
        f"- machine: {machine.description()}",
        f"- Slipstream: {where.ours}, commit {machine.commit()}, {python}",
        f"- nats-server: {where.theirs}",
        f"- measured: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; other processes took up to {where.foreign_share:.0%} "
        "of the machine during a run",
        f"- load generator alone, one process each: publishes {ceiling.publish_rate / 1e6:.1f} M msg/s into a socket "
        f"nobody parses, counts {ceiling.receive_rate / 1e6:.1f} M msg/s",
    ]
    failures = [
        f"- {one.row.title}: {text} ({count} of {where.repeats} runs)"
        for one in measured
        for text, count in Counter(one.failures).items()
    ]
    if failures:
        lines += ["", "## Failed runs", "", *failures]
    return "\n".join(lines) + "\n"


def _line(one: Measured) -> str:
    ratio = f"{median(one.ours) / median(one.theirs):.2f}" if one.ours and one.theirs and median(one.theirs) else "-"
    bar = str(one.row.bar) if one.row.bar else ""
    cells = (one.row.title, one.row.unit, _spread(one.ours), _spread(one.theirs), ratio, bar, one.verdict())
    return f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{_number(median(values))} ({_number(min(values))}..{_number(max(values))})"


def _number(value: float) -> str:
    """Three significant digits, or all digits before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
