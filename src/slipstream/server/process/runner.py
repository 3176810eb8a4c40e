"""Which event loop a server runs on: uvloop where it is installed, asyncio's own otherwise.

`SLIPSTREAM_LOOP` chooses one by name, `asyncio` or `uvloop`; the suite's core part runs on both.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

__all__ = ["LOOP_VARIABLE", "event_loop_type", "new_event_loop"]

LOOP_VARIABLE: Final = "SLIPSTREAM_LOOP"


def event_loop_type() -> type[asyncio.AbstractEventLoop]:
    """The kind of event loop that was chosen, or the fastest there is.

    Raises:
        ValueError: the environment names one that is not known, or not installed.
    """
    name = os.environ.get(LOOP_VARIABLE, "")
    if name not in ("", "asyncio", "uvloop"):
        raise ValueError(f"{LOOP_VARIABLE} must be asyncio or uvloop, not {name!r}")
    if name == "asyncio":
        return asyncio.SelectorEventLoop
    try:
        import uvloop
    except ImportError:
        if name:
            raise ValueError(f"{LOOP_VARIABLE} is {name}, which is not installed") from None
        return asyncio.SelectorEventLoop
    return uvloop.Loop


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop of that kind.

    Raises:
        ValueError: see `event_loop_type`.
    """
    return event_loop_type()()
