"""A server as an object in somebody's program."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nats

import slipstream
from slipstream.server.logs import NullLog


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


async def test_compression_is_kept_and_said_to_be_without_effect_once(tmp_path: Path) -> None:
    """Clients set it for buckets and object stores, which have to work."""
    warnings: list[str] = []

    class Log(NullLog):
        def __call__(self, level: str, text: str) -> None:
            if level == "WRN":
                warnings.append(text)

    for _ in range(2):  # also for streams that are found at a start
        async with slipstream.Server(port=0, store_dir=str(tmp_path), log=Log()) as server:
            client = await nats.connect(server.url)
            for name in ("A", "B"):
                config = {"name": name, "subjects": [name], "compression": "s2"}
                answer = await client.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())
                assert json.loads(answer.data)["config"]["compression"] == "s2"
            await client.close()
        (warning,) = warnings
        assert re.fullmatch('Stored data is not compressed yet: "compression" of stream "[AB]" has no effect', warning)
        warnings.clear()
