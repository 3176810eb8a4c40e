"""Graphs in a terminal: a few values that change, each a field of bars that moves to the left.

A bar has eight heights in a line, so a graph of four lines shows thirty-two.
"""

from __future__ import annotations

import shutil
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import click

from slipstream.cli.connection import Failure
from slipstream.units import SECOND_NS

__all__ = ["draw_bars", "level_bars", "show_graphs"]

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_AXIS: Final = 12  # columns left of the bars
_LEVEL_WIDTH: Final = 30  # columns of the longest bar beside a name
_SAMPLES_MAX: Final = 1000
_LINES_MIN: Final = 2
_LINES_MAX: Final = 10

Sample = Mapping[str, float]


def draw_bars(values: Sequence[float], width: int, height: int) -> list[str]:
    """The newest values as lines of bars, the largest as high as there is room; the scale stands at the left."""
    shown = list(values)[-width:]
    top = max(shown, default=0)
    eighths = [round(value / top * height * 8) if top > 0 else 0 for value in shown]
    lines = []
    for row in range(height - 1, -1, -1):
        label = "0" if row == 0 else f"{top:,.0f}" if row == height - 1 and top else ""
        bars = "".join(_BLOCKS[min(max(each - row * 8, 0), 8)] for each in eighths)
        lines.append(f"{label:>{_AXIS - 2}} ┤{bars}")
    return lines


def level_bars(values: Sequence[tuple[str, float]], shown: Callable[[float], str]) -> list[str]:
    """A line for each value with a name: a bar that is as long as its share of the largest."""
    top = max((value for _, value in values), default=0)
    room = max((len(name) for name, _ in values), default=0)
    bars = ("█" * round(value / top * _LEVEL_WIDTH) if top > 0 else "" for _, value in values)
    return [f"{name:>{room}}: {bar or '▏'} ({shown(value)})" for (name, value), bar in zip(values, bars, strict=True)]


def show_graphs(
    title: str, sample: Callable[[], Sample], pause: Callable[[float], None], *, interval_ns: int, count: int
) -> None:
    """Draw values as they are now and were, until somebody stops it or `count` screens were shown.

    Args:
        title: stands above.
        sample: the values now, each with its title.
        pause: waits for so many seconds.
        interval_ns: from one sample to the next.
        count: so many screens; 0 for no end, which needs a terminal.

    Raises:
        Failure: it would never end and nobody sees it.
    """
    if not sys.stdout.isatty() and not count:
        raise Failure("graphs are for terminals; elsewhere give --count")
    if interval_ns <= 0:
        raise Failure("--interval is a time longer than nothing")
    series: dict[str, deque[float]] = {}

    def screen() -> str:
        for name, value in sample().items():
            series.setdefault(name, deque(maxlen=_SAMPLES_MAX)).append(value)
        return _screen(title, series)

    if not sys.stdout.isatty():
        for number in range(count):
            if number:
                pause(interval_ns / SECOND_NS)
            click.echo(screen())
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    with Live(Text(screen()), console=console, screen=count == 0, auto_refresh=False) as live:
        live.refresh()
        shown = 1
        while not count or shown < count:
            pause(interval_ns / SECOND_NS)
            live.update(Text(screen()), refresh=True)
            shown += 1


def _screen(title: str, series: Mapping[str, Sequence[float]]) -> str:
    columns, lines = shutil.get_terminal_size()
    height = min(max((lines - 3) // len(series) - 2, _LINES_MIN), _LINES_MAX)
    parts = [title]
    for name, values in series.items():
        parts += ["", f"{name}: {values[-1]:,.0f}", *draw_bars(values, columns - _AXIS, height)]
    return "\n".join(parts)
