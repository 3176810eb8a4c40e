"""The program `slipstream-server`: nats-server's command line around a `Server`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from slipstream.server.process.watchdog import Watchdog

__all__ = ["main"]

# Freed memory the process keeps for the next burst instead of returning it page by page.
_REUSED_MEMORY_BYTES = 64 * 1024 * 1024
# 700 took a quarter of the processor time of commits over 1,000 streams, 20,000 an eighth over 3,000: while
# thousands of commits wait for one sync, all that is new is in use. More than 50,000 at once would hold up everybody.
_NEW_OBJECTS_BEFORE_LOOK = 50_000
_LOOKS_BEFORE_OLDER = (8, 20)


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal; returns the exit code."""
    import gc

    gc.disable()  # nothing that is made at the start is garbage, and there may be much
    from slipstream.server.process.stand_ins import put_off

    put_off()
    from slipstream.server.process.configure import Exit, configure

    outcome = configure(sys.argv[1:] if arguments is None else arguments, os.environ)
    if isinstance(outcome, Exit):
        gc.enable()
        sys.stdout.write(outcome.stdout)
        sys.stderr.write(outcome.stderr)
        return outcome.code
    sys.stderr.write(outcome.warning_text())

    import asyncio
    import signal

    from slipstream.kernels.wire.outbox import reuse_freed_memory
    from slipstream.server.process.process import Process

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the server listens for signals, one just ends the process: there is nothing to take back yet.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    reuse_freed_memory(_REUSED_MEMORY_BYTES)
    _allow_descriptors()
    _collect_garbage_less()
    try:
        loop, watchdog = _event_loop()
    except ValueError as error:
        sys.stderr.write(f"slipstream-server: {error}\n")
        return 1
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(Process(outcome, watchdog).run())


def _collect_garbage_less() -> None:
    """Cycles are rare here, and looking for them among the objects of thousands of streams held up everybody."""
    import gc

    gc.set_threshold(_NEW_OBJECTS_BEFORE_LOOK, *_LOOKS_BEFORE_OLDER)


def _event_loop() -> tuple[asyncio.AbstractEventLoop, Watchdog | None]:
    """The loop to run on, and what finds slow events on it, if that was asked for."""
    from slipstream.server.process.runner import new_event_loop

    limit = os.environ.get("SLIPSTREAM_SLOW_EVENT_MS", "")
    if not limit:
        return new_event_loop(), None
    from slipstream.server.process.watchdog import Watchdog, limit_ns_of, watched_event_loop

    limit_ns = limit_ns_of(limit)
    if not limit_ns:
        return new_event_loop(), None
    watchdog = Watchdog(limit_ns)
    return watched_event_loop(watchdog), watchdog


def _allow_descriptors() -> None:
    """Use as many descriptors as the administrator allows; the soft limit is for programs that use select."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
