"""What a running server does to its directory: the reserve, and segments that fit the stream."""

from __future__ import annotations

from pathlib import Path

import nats

import slipstream
from slipstream.jetstream.store.limits import STORE_RESERVE_BYTES
from slipstream.units import MIB


async def test_space_is_set_aside(tmp_path: Path) -> None:
    async with slipstream.Server(port=0, jetstream=True, store_dir=str(tmp_path)):
        assert (tmp_path / "jetstream" / ".reserve").stat().st_size == STORE_RESERVE_BYTES


async def test_a_small_stream_has_small_segments_also_after_a_restart(tmp_path: Path) -> None:
    def segments() -> int:
        return len(list(tmp_path.glob("jetstream/*/streams/*/*.seg")))

    async with slipstream.Server(port=0, jetstream=True, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        stream = client.jetstream()
        await stream.add_stream(name="SMALL", max_bytes=4 * MIB)
        for _ in range(4):
            await stream.publish("SMALL", bytes(MIB // 2 - 100))
        await client.close()
        before = segments()
        assert before >= 3
    async with slipstream.Server(port=0, jetstream=True, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        stream = client.jetstream()
        for _ in range(4):
            await stream.publish("SMALL", bytes(MIB // 2 - 100))
        await client.close()
        assert segments() >= before + 3
