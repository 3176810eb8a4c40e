"""A progress bar on standard error for work that takes long; nothing where no terminal shows it.

A bar that ends well ends at 100%: a total that was an estimate is replaced by what was done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slipstream.cli.human import format_bytes, format_number

__all__ = ["Advance", "progress", "shows_progress"]


def shows_progress() -> bool:
    """Somebody watches."""
    return sys.stderr.isatty()


@contextmanager
def progress(description: str, total: int | None, *, unit: str = "msgs", shown: bool = True) -> Iterator[Advance]:
    """Show how far a piece of work is; that it goes on, when nobody knows how long it takes.

    Yields:
        A function to call with the number of units done since the last call.
    """
    if not (shown and shows_progress()):
        yield lambda _: None
        return
    from rich.console import Console

    if total is None:
        with Console(stderr=True).status(description):
            yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class SpeedColumn(ProgressColumn):
        """Bytes a second in the units of the bytes beside it."""

        def render(self, task: Task) -> Text:
            speed = task.speed or (task.completed / task.elapsed if task.elapsed else 0)
            return Text(f"{format_bytes(int(speed))}/s", style="progress.data.speed")

    class CountColumn(ProgressColumn):
        """1,315/5,000 msgs"""

        def render(self, task: Task) -> Text:
            done, wanted = format_number(int(task.completed)), format_number(int(task.total or 0))
            return Text(f"{done.rjust(len(wanted))}/{wanted} {unit}", style="progress.download")

    amount = [DownloadColumn(binary_units=True), SpeedColumn()] if unit == "bytes" else [CountColumn()]
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        *amount,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=False,
    )
    with bar:
        task = bar.add_task(description, total=total)
        yield lambda count: bar.advance(task, count)
        bar.update(task, total=bar.tasks[0].completed)


Advance = Callable[[int], None]
