"""A progress bar on standard error for work that takes long; nothing where no terminal shows it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]


@contextmanager
def progress(description: str, total: int | None, *, unit: str = "msgs", shown: bool = True) -> Iterator[Advance]:
    """Show how far a piece of work is; that it goes on, when nobody knows how long it takes.

    Yields:
        A function to call with the number of units done since the last call.
    """
    if not (shown and sys.stderr.isatty()):
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
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    amount = [DownloadColumn(binary_units=True), TransferSpeedColumn()] if unit == "bytes" else [MofNCompleteColumn()]
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


Advance = Callable[[int], None]
