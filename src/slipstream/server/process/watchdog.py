"""How long single events hold the event loop: while one runs, every client waits.

An event is a call that the loop makes: a read of a connection, a timer, the end of work in a thread, a step of a
coroutine. What it takes is measured in processor time of the loop's thread, not by the clock, so that a busy machine
does not count. Measuring costs two system calls an event; without a limit there is no watchdog and no cost.

`SLIPSTREAM_SLOW_EVENT_MS` gives the limit. A slow event is a warning in the log; tests fail because of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import thread_time_ns
from typing import Any, Final

from slipstream.server.process.runner import event_loop_type

__all__ = ["LIMIT_VARIABLE", "SLOW_EVENT", "Watchdog", "limit_ns_of", "watched_event_loop"]

LIMIT_VARIABLE: Final = "SLIPSTREAM_SLOW_EVENT_MS"
SLOW_EVENT: Final = "held the event loop for"  # in the log line, for whoever looks for it
_MS_NS: Final = 1_000_000
_MEASURED: Final = "measured"  # an attribute of calls that are measured already: asyncio's `call_later` uses `call_at`

_Report = Callable[[str], None]
_PROTOCOL_EVENTS: Final = (
    "connection_made",
    "connection_lost",
    "data_received",
    "get_buffer",
    "buffer_updated",
    "eof_received",
    "pause_writing",
    "resume_writing",
)


def limit_ns_of(text: str) -> int:
    """The limit from an environment variable; 0 for none, also if it makes no sense."""
    try:
        return max(int(float(text) * _MS_NS), 0)
    except (ValueError, OverflowError):
        return 0


class Watchdog:
    """Measures events, and reports slow ones from `begin` on.

    Args:
        limit_ns: what is longer is slow.
    """

    def __init__(self, limit_ns: int) -> None:
        self._limit_ns = limit_ns
        self._protocols: dict[type, type] = {}
        self._report: _Report = _nobody

    def begin(self, report: _Report) -> None:
        """Tell of slow events from now on."""
        self._report = report

    def watched(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, measured."""
        if hasattr(callback, _MEASURED):
            return callback

        def event(*args: Any) -> Any:
            began = thread_time_ns()
            try:
                return callback(*args)
            finally:
                took = thread_time_ns() - began
                if took > self._limit_ns:
                    self._slow(callback, took)

        setattr(event, _MEASURED, True)
        return event

    def watch_protocol(self, protocol: Any) -> Any:
        """The same protocol; each of its events is measured."""
        kind = type(protocol)
        if kind not in self._protocols:
            self._protocols[kind] = type(f"Watched{kind.__name__}", (kind,), {"__slots__": (), **self._events(kind)})
        protocol.__class__ = self._protocols[kind]
        return protocol

    def _events(self, kind: type) -> dict[str, Callable[..., Any]]:
        return {name: self._method(getattr(kind, name)) for name in _PROTOCOL_EVENTS if hasattr(kind, name)}

    def _method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        event = self.watched(method)
        return lambda protocol, *args: event(protocol, *args)

    def _slow(self, callback: Callable[..., Any], took_ns: int) -> None:
        self._report(f"{_name_of(callback)} {SLOW_EVENT} {took_ns / _MS_NS:.0f} ms of processor time")


def watched_event_loop(watchdog: Watchdog) -> asyncio.AbstractEventLoop:
    """A new event loop whose events are measured."""
    base: Any = event_loop_type()

    def wrapped(name: str, at: int) -> Callable[..., Any]:
        plain = getattr(base, name)

        def call(loop: Any, *args: Any, **named: Any) -> Any:
            return plain(loop, *args[:at], watchdog.watched(args[at]), *args[at + 1 :], **named)

        return call

    def served(name: str) -> Callable[..., Any]:
        plain = getattr(base, name)

        def call(loop: Any, factory: Callable[[], Any], *args: Any, **named: Any) -> Any:
            return plain(loop, lambda: watchdog.watch_protocol(factory()), *args, **named)

        return call

    members: dict[str, Any] = {name: wrapped(name, 0) for name in ("call_soon", "call_soon_threadsafe")}
    members |= {name: wrapped(name, 1) for name in ("call_later", "call_at", "add_reader", "add_writer")}
    members |= {name: served(name) for name in ("create_server", "create_unix_server", "connect_accepted_socket")}
    loop: asyncio.AbstractEventLoop = type("WatchedLoop", (base,), members)()
    return loop


def _nobody(_text: str) -> None:
    """Listens as long as nobody else does."""


def _name_of(callback: Callable[..., Any]) -> str:
    while isinstance(callback, partial):
        callback = callback.func
    name = getattr(callback, "__qualname__", None)
    if name is None:
        return repr(callback)
    owner = getattr(callback, "__self__", None)
    return f"{name} of {owner!r}" if isinstance(owner, asyncio.Task) else name
