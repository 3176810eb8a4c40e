"""What a server process loads when it is ready: modules that nobody needs before the first client comes.

A thread imports them, so that the loop has its turns meanwhile. Who needs one earlier imports it, or waits until the
thread has it. See docs/adr/0022-jetstream-opens-after-the-server-is-ready.md.
"""

from __future__ import annotations

import gc
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from slipstream.server.process.stand_ins import load_put_off

if TYPE_CHECKING:
    import asyncio

    from slipstream.server.jetstream.door import JetStreamDoor

__all__ = ["load_the_rest"]


def load_the_rest(
    loop: asyncio.AbstractEventLoop, door: JetStreamDoor | None, *, has_jetstream: bool, answers_http: bool
) -> None:
    """Load what reads and writes JSON; JetStream behind a door, which opens then; what backs up or answers HTTP.

    Garbage is collected from then on: a collection that looked at what is there by then would hold up everybody.
    """

    def load() -> None:
        try:
            load_modules()
        finally:
            gc.freeze()
            gc.enable()

    def load_modules() -> None:
        import slipstream.protocol.info
        import slipstream.routing.greetings
        import slipstream.server.clients.listener
        from slipstream.protocol import connection  # noqa: F401

        if door is not None:
            import slipstream.server.jetstream.jetstream  # who opens it imports it again, at once

            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(door.open)
        if has_jetstream:
            import slipstream.jetstream.api.restoring
            import slipstream.jetstream.backup.content
            import slipstream.jetstream.backup.snapshot
        if answers_http:
            import slipstream.monitoring.endpoints.table
            import slipstream.monitoring.exchange  # noqa: F401  # the first request imports them, at once
        load_put_off()

    threading.Thread(target=load, name="slipstream-start", daemon=True).start()
