"""Something done now and then beside a job's own work: leases and holds that have to be renewed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["repeating"]


@contextmanager
def repeating(seconds: float, call: Callable[[], None], name: str) -> Iterator[None]:
    """Call in a thread of its own, every so many seconds, until the block ends.

    Args:
        seconds: between calls.
        call: must not raise, and must not use what the block uses: connections, above all.
        name: of the thread.
    """
    over = threading.Event()

    def run() -> None:
        while not over.wait(seconds):
            call()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
