"""JetStream of two servers by their domains."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
from nats.js.api import ExternalStream

__all__ = ["external", "jetstream", "stored"]

PATIENCE = 80.0  # nats-server notices after 10 s that an origin is silent, and waits longer after each failure


def jetstream(directory: Path, domain: str) -> str:
    """The block of a server."""
    return f'jetstream {{ domain: {domain}, store_dir: "{directory / domain}", max_file: 1G, max_mem: 64M }}'


def external(domain: str) -> ExternalStream:
    """Where the streams of a domain are."""
    return ExternalStream(api=f"$JS.{domain}.API", deliver=f"deliver.{domain}")


async def stored(js: nats.js.JetStreamContext, stream: str, count: int, patience: float = PATIENCE) -> list[bytes]:
    """The messages of a stream, when there are as many."""
    async with asyncio.timeout(patience):
        while (await js.stream_info(stream)).state.messages < count:
            await asyncio.sleep(0.05)
    state = (await js.stream_info(stream)).state
    found = [await js.get_msg(stream, seq) for seq in range(state.first_seq, state.last_seq + 1)]
    return [message.data or b"" for message in found]
