"""`compression` of streams, buckets and object stores in a running server: less on the disk, nothing else changes."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig

import slipstream
from slipstream.jetstream.config.packing import COMPRESSION_KEY
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header
from slipstream.jetstream.store.packed import codecs
from slipstream.jetstream.store.packed.codecs import Codec

LINE = b"the reading of this sensor is as it was yesterday and the day before; " * 112
MESSAGES = 2_500  # over two segments


def segments(root: Path) -> list[tuple[int, int]]:
    """Codec and size on the disk of every segment."""
    found = []
    for path in sorted(root.rglob("*.seg")):
        with suppress(FileNotFoundError):  # it was removed meanwhile
            header = decode_header(path.read_bytes()[:HEADER_BYTES])
            if header is not None:
                found.append((header.codec, path.stat().st_blocks * 512))
    return found


async def until_packed(root: Path, *wanted: Codec) -> None:
    """Until every closed segment has one of these."""
    for _ in range(600):
        found = segments(root)
        if len(found) > 2 and all(codec in wanted for codec, _ in found[:-1]):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(segments(root))


async def published(client: Client) -> None:
    jetstream = client.jetstream(publish_async_max_pending=500)
    for number in range(MESSAGES):
        await jetstream.publish_async("readings", LINE + b"%d" % number)
    await jetstream.publish_async_completed()


async def check(client: Client) -> None:
    jetstream = client.jetstream()
    subscription = await jetstream.pull_subscribe("readings", stream="S")
    seen = 0
    while seen < MESSAGES:
        for message in await subscription.fetch(500, timeout=10):
            assert message.data == LINE + b"%d" % seen
            seen += 1
            await message.ack()
    for seq in (1, 700, MESSAGES):
        assert (await jetstream.get_msg("S", seq)).data == LINE + b"%d" % (seq - 1)


async def test_a_compressed_stream_takes_a_tenth_and_reads_the_same(tmp_path: Path) -> None:
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        config = {"name": "S", "subjects": ["readings"], "compression": "s2"}
        answer = await client.request("$JS.API.STREAM.CREATE.S", json.dumps(config).encode())
        assert json.loads(answer.data)["config"]["compression"] == "s2"
        await published(client)
        await until_packed(tmp_path, Codec.S2)
        closed = segments(tmp_path)[:-1]
        assert sum(size for _, size in closed) * 10 < len(closed) * 8 * 1024 * 1024
        await check(client)
        assert await client.jetstream().delete_msg("S", 9)
        await client.close()
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        answer = await client.request("$JS.API.STREAM.UPDATE.S", json.dumps(config | {"compression": "none"}).encode())
        assert "error" not in json.loads(answer.data)
        await until_packed(tmp_path, Codec.NONE, Codec.STORED)
        jetstream = client.jetstream()
        assert (await jetstream.get_msg("S", 10)).data == LINE + b"9"
        assert (await jetstream.stream_info("S")).state.messages == MESSAGES - 1
        await client.close()


async def test_buckets_and_object_stores_are_compressed(tmp_path: Path) -> None:
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        jetstream = client.jetstream()
        config = StreamConfig(name="OBJ_o", subjects=["$O.o.C.>", "$O.o.M.>"], storage=StorageType.FILE)
        fields = config.as_dict() | {
            "compression": "s2",
            "allow_rollup_hdrs": True,
            "discard": "new",
            "allow_direct": True,
        }
        answer = await client.request("$JS.API.STREAM.CREATE.OBJ_o", json.dumps(fields).encode())
        assert "error" not in json.loads(answer.data)
        objects = await jetstream.object_store("o")
        content = LINE * 2_500
        await objects.put("big", content)
        await until_packed(tmp_path, Codec.S2)
        assert (await objects.get("big")).data == content
        await client.close()


async def test_what_cannot_be_compressed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)

        async def asked(how: str, **fields: object) -> str:
            config = {"name": "S", "subjects": ["s"], "metadata": {COMPRESSION_KEY: how}, **fields}
            answer = await client.request("$JS.API.STREAM.CREATE.S", json.dumps(config).encode())
            return str(json.loads(answer.data).get("error", {}).get("description", ""))

        assert "must be zstd" in await asked("lzma")
        assert "needs file storage" in await asked("zstd", storage="memory")
        monkeypatch.setattr(codecs, "_zstandard", lambda: None)
        assert "needs the package zstandard" in await asked("zstd")
        monkeypatch.undo()
        assert await asked("zstd") == ""
        await client.close()
