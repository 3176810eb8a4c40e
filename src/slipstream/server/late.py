"""What a server process loads when it is ready: modules that nobody needs before the first client comes.

A thread imports them, so that the loop has its turns meanwhile. Who needs one earlier imports it, or waits until the
thread has it. See docs/adr/0022-jetstream-opens-after-the-server-is-ready.md.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from slipstream.server.jetstream_door import JetStreamDoor

__all__ = ["load_the_rest"]


def load_the_rest(loop: asyncio.AbstractEventLoop, door: JetStreamDoor | None) -> None:
    """Load what reads and writes JSON, and behind a door JetStream, which opens then."""

    def load() -> None:
        import slipstream.protocol.info

        if door is not None:
            import slipstream.server.jetstream  # noqa: F401  # who opens it imports it again, at once

            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(door.open)

    threading.Thread(target=load, name="slipstream-start", daemon=True).start()
