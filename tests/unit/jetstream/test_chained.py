"""Tamper-evident streams over the API: asked for by metadata, checked while they are in use."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest

import slipstream
from slipstream.jetstream.store.file.chain_check import check_directory
from slipstream.jetstream.store.file.disk.real_disk import RealDisk

CONFIG: dict[str, Any] = {"name": "LEDGER", "subjects": ["ledger.>"], "metadata": {"slipstream.chain": "blake2b"}}


async def ask(client: Any, verb: str, body: object = None) -> dict[str, Any]:
    answer = await client.request(f"$JS.API.{verb}", json.dumps(body).encode() if body is not None else b"", timeout=10)
    found: dict[str, Any] = json.loads(answer.data)
    return found


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"metadata": {"slipstream.chain": "md5"}}, "slipstream.chain must be blake2b"),
        ({"storage": "memory"}, "slipstream.chain needs file storage"),
    ],
)
async def test_what_cannot_be_is_refused(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        answer = await ask(client, "STREAM.CREATE.LEDGER", {"storage": "file", **CONFIG, **change})
        assert complaint in answer["error"]["description"]
        await client.close()


async def test_a_stream_is_chained_for_its_whole_life(tmp_path: Path) -> None:
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        for name, before, after in (("A", CONFIG["metadata"], {}), ("B", {}, CONFIG["metadata"])):
            config = {"name": name, "subjects": [name], "storage": "file", "metadata": before}
            assert "error" not in await ask(client, f"STREAM.CREATE.{name}", config)
            answer = await ask(client, f"STREAM.UPDATE.{name}", {**config, "metadata": after})
            assert "can not change slipstream.chain" in answer["error"]["description"]
        await client.close()


async def test_verified_while_it_is_written_to_and_erased_in(tmp_path: Path) -> None:
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        await ask(client, "STREAM.CREATE.LEDGER", {"storage": "file", **CONFIG})
        js = client.jetstream()
        stop = asyncio.Event()

        async def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                await js.publish(f"ledger.{number % 3}", b"entry %d" % number)
                if number % 10 == 0:
                    await js.delete_msg("LEDGER", number - 5)
                if number % 25 == 0:
                    await js.purge_stream("LEDGER", subject="ledger.1", keep=3)

        writer = asyncio.create_task(write())
        for _ in range(5):
            found = await ask(client, "STREAM.VERIFY.LEDGER")
            assert found["chained"] and found["intact"], found
            assert "unlinked" not in found
        stop.set()
        await writer
        place = {key: found[key] for key in ("records", "link", "last_seq")}
        assert (await ask(client, "STREAM.VERIFY.LEDGER", {"checkpoint": place}))["intact"]
        place["link"] = "00" * 32
        broken = await ask(client, "STREAM.VERIFY.LEDGER", {"checkpoint": place})
        assert not broken["intact"] and "checkpoint" in broken["broken"]["problem"]
        wrong = ({"link": "no"}, {"records": -1}, {"records": 2**64}, {"last_seq": -1})
        for body in ({"checkpoint": 1}, *({"checkpoint": {**place, **change}} for change in wrong)):
            assert (await ask(client, "STREAM.VERIFY.LEDGER", body))["error"]["err_code"] == 10025
        assert (await ask(client, "STREAM.VERIFY.NONE"))["error"]["err_code"] == 10059
        await client.close()
    (directory,) = (path.parent for path in tmp_path.rglob("0000000001.*.seg"))
    assert check_directory(RealDisk(), str(directory)).intact


async def test_a_file_that_is_changed_under_a_running_server(tmp_path: Path) -> None:
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        await ask(client, "STREAM.CREATE.LEDGER", {"storage": "file", **CONFIG})
        js = client.jetstream()
        for number in range(20):
            await js.publish("ledger.a", b"entry %d" % number)
        (path,) = tmp_path.rglob("0000000001.*.seg")
        data = path.read_bytes()
        with path.open("r+b") as file:
            file.seek(data.index(b"entry 7"))
            file.write(b"ENTRY 7")
        found = await ask(client, "STREAM.VERIFY.LEDGER")
        assert not found["intact"] and found["broken"]["first_seq"] == 8
        await client.close()


async def test_a_stream_without_a_chain_says_so(tmp_path: Path) -> None:
    async with slipstream.Server(port=0, store_dir=str(tmp_path)) as server:
        client = await nats.connect(server.url)
        for storage in ("file", "memory"):
            await ask(client, f"STREAM.CREATE.{storage}", {"name": storage, "storage": storage})
            found = await ask(client, f"STREAM.VERIFY.{storage}")
            assert (found["chained"], found["intact"]) == (False, False)
        await client.close()
