"""What the Spark measurements found, and the page of results: every bar with its value, whether it was held, and how.

The page is written anew after every case, so that a run that is cut short leaves what it has; bars that were not
reached are on it and say so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final, Literal

from benchmarks.machine import CALM_SHARE, commit, description

__all__ = ["BARS", "Found", "Results", "Timed", "TreeClock"]

_TICKS = os.sysconf("SC_CLK_TCK")
Verdict = Literal["held", "held by processor time", "**missed**", "**missed** by processor time", "shown"]

# What has to be reached, in the order of the page: a name for the code, the words, the bar.
BARS: Final = {
    "source-128": ("batch source / Spark's Parquet scan, 128 B", ">= 0.80"),
    "source-1024": ("batch source / Spark's Parquet scan, 1 KiB", ">= 1.10"),
    "source-16384": ("batch source / Spark's Parquet scan, 16 KiB", ">= 1.50"),
    "server": ("through the server / the same records from files", ">= 0.90"),
    "pushed": ("one of 1,000 subjects, pushed down / Spark's Parquet", ">= 2.00"),
    "counted": ("the same, only counted: Parquet reads one column", ""),
    "streaming": ("streaming, 1 M messages a trigger / batch", ">= 0.80"),
    "floor": ("micro-batch of 1,000 messages", "<= 120 ms"),
    "latency": ("publish to sink at 50,000 messages/s, p50", "<= 400 ms"),
    "sink-parquet": ("Arrow sink / Spark's own Parquet write of the same rows", ">= 0.50"),
    "sink": ("Arrow sink, exactly once", ">= 0.80 M rows/s"),
    "archive": ("archive job / the same by rows", ">= 2.50"),
    "publish": ("publish p99 during bulk reads / without", "<= 2.00"),
}


@dataclass
class Timed:
    """Repeats of one case."""

    name: str
    rows: int = 0
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / median(self.wall_s)

    @property
    def cpu_us(self) -> float:
        """Processor time a row, in microseconds."""
        return median(self.cpu_s) / self.rows * 1e6


@dataclass(frozen=True)
class Found:
    """What came out for one bar."""

    text: str
    verdict: Verdict

    @classmethod
    def of_ratio(cls, ours: Timed, theirs: Timed, least: float, foreign: float) -> Found:
        """Of rows a second, with that of processor time beside it.

        Where other processes took part of the machine, processor time is the judge: who has more processes then gets a
        larger share, and rates say little.
        """
        wall, cpu = ours.rate / theirs.rate, theirs.cpu_us / ours.cpu_us
        text = f"{wall:.2f} (processor time {cpu:.2f})"
        if foreign <= CALM_SHARE:
            return cls.of(text, wall >= least)
        return cls(text, "held by processor time" if cpu >= least else "**missed** by processor time")

    def unjudged(self) -> Found:
        """The same for a number without a bar."""
        return Found(self.text, "shown")

    @classmethod
    def of(cls, text: str, holds: bool) -> Found:
        """Of anything else."""
        return cls(text, "held" if holds else "**missed**")


class Results:
    """Everything found so far, and the page."""

    def __init__(self, messages: int, repeat: int, output: Path | None) -> None:
        self.messages = messages
        self.repeat = repeat
        self.timed: list[Timed] = []
        self.found: dict[str, Found] = {}
        self.foreign: dict[str, float] = {}  # by case: what other processes took of the machine
        self._output = output

    def add(self, bar: str, found: Found) -> None:
        """Keep what was found for a bar, and write the page."""
        assert bar in BARS, bar
        self.found[bar] = found
        self.write()

    def write(self) -> None:
        """Write the page, if it is to be written; by renaming, so whole."""
        if self._output is not None:
            part = self._output.with_suffix(".part")
            part.write_text(self.page())
            part.replace(self._output)

    @property
    def held(self) -> bool:
        """Whether no bar that was measured was missed."""
        return not any("missed" in one.verdict for one in self.found.values())

    def page(self) -> str:
        """The results as Markdown."""
        lines = [
            "# Spark source and sink",
            "",
            "Written by `python -m benchmarks.spark`; run it again instead of editing.",
            f"{self.messages:,} messages of 128 bytes, fewer of larger ones; medians of {self.repeat} runs in which",
            "the compared cases take turns, after one that warms up (ten times as often for the short queries of one",
            "subject). Ratios are of rows a second. In brackets is the",
            "ratio of processor time, in which the server, the Java machine and all Python processes count; it is the",
            f"judge of a ratio when other processes took more than {CALM_SHARE:.0%} of the machine meanwhile.",
            "Batches for Python have no limit in bytes (`spark.sql.execution.arrow.maxBytesPerBatch`): rows are small.",
            "",
            "| bar | measured | wanted | |",
            "|---|---|---|---|",
            *(self._bar(name) for name in BARS),
            "",
            "| case | rows | seconds | M rows/s | processor us a row |",
            "|---|---:|---:|---:|---:|",
            *map(_row, self.timed),
            "",
            "- other processes took: " + ", ".join(f"{name} {share:.0%}" for name, share in self.foreign.items()),
            f"- machine: {description()}",
            f"- commit {commit()}; measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        ]
        return "\n".join(lines) + "\n"

    def _bar(self, name: str) -> str:
        words, wanted = BARS[name]
        found = self.found.get(name)
        measured, verdict = (found.text, found.verdict) if found else ("", "not measured")
        return f"| {words} | {measured} | {wanted} | {verdict} |"


def _row(one: Timed) -> str:
    spread = f"{median(one.wall_s):.2f} ({min(one.wall_s):.2f}..{max(one.wall_s):.2f})"
    return f"| {one.name} | {one.rows:,} | {spread} | {one.rate / 1e6:.2f} | {one.cpu_us:.2f} |"


class TreeClock:
    """Processor time of this process and everything below it.

    Workers end at any time, some without anybody waiting for them; what they had used when last seen stays counted.
    """

    def __init__(self) -> None:
        self._root = os.getpid()
        self._seen: dict[tuple[int, str], int] = {}  # process id and start time, to ticks

    def seconds(self) -> float:
        """Used so far."""
        parents: dict[int, int] = {}
        found: dict[int, tuple[str, int]] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            found[int(entry.name)] = fields[19], int(fields[11]) + int(fields[12])
        for pid, (started, ticks) in found.items():
            above = pid
            while above not in (self._root, 0, 1) and above in parents:
                above = parents[above]
            if above == self._root:
                self._seen[pid, started] = ticks
        return sum(self._seen.values()) / _TICKS
