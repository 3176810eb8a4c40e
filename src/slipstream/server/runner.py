"""Which event loop a server runs on: uvloop where it is installed, asyncio's own otherwise."""

from __future__ import annotations

import asyncio

__all__ = ["event_loop_type", "new_event_loop"]


def event_loop_type() -> type[asyncio.AbstractEventLoop]:
    """The fastest kind of event loop there is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.SelectorEventLoop
    return uvloop.Loop


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop of the fastest kind there is."""
    return event_loop_type()()
