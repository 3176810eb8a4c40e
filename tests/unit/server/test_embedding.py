"""A server as an object in somebody's program."""

from __future__ import annotations

from pathlib import Path

import nats

import slipstream


async def test_jetstream_true_needs_no_directory_and_leaves_none() -> None:
    async with slipstream.Server(port=0, jetstream=True) as server:
        directory = Path(server.options.jetstream.store_dir)
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        assert (await client.jetstream().publish("orders.us", b"42")).seq == 1
        await client.close()
        assert directory.is_dir()
    assert not directory.exists()


async def test_jetstream_true_with_a_directory_keeps_it(tmp_path: Path) -> None:
    async with slipstream.Server(port=0, jetstream=True, store_dir=str(tmp_path / "kept")):
        pass
    assert (tmp_path / "kept").is_dir()


async def test_jetstream_false_is_off() -> None:
    async with slipstream.Server(port=0, jetstream=False) as server:
        assert server.jetstream is None
