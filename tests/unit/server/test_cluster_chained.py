"""A hash chain for a stream with copies: a mirror with one copy has it (ADR 85)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
import pytest

pytest.importorskip("slipstream_raft")

from support.cluster_calls import call, create, published
from support.cluster_servers import trio
from support.clusters import DEADLINE

CHAIN = {"slipstream.chain": "blake2b"}


async def test_a_mirror_has_the_chain_of_a_stream_with_copies(tmp_path: Path) -> None:
    async with trio(tmp_path) as servers:
        client = await nats.connect(servers.members[0].url)
        refused = await create(client, "NO", 3, metadata=CHAIN)
        assert refused["error"]["err_code"] == 10052 and "slipstream.chain" in refused["error"]["description"]
        assert "error" not in await create(client, "S", 3)
        mirror = {"name": "LEDGER", "mirror": {"name": "S"}, "metadata": CHAIN, "deny_delete": True, "deny_purge": True}
        made = await call(client, "STREAM.CREATE.LEDGER", **mirror)
        assert "error" not in made, made
        origins: list[int] = []
        for round_ in range(2):  # the second time another server leads
            origins += [await published(client, "S.x", b"%d %d" % (round_, number)) for number in range(10)]
            assert (await call(client, "STREAM.LEADER.STEPDOWN.S"))["success"]

        async with asyncio.timeout(DEADLINE):
            while (await call(client, "STREAM.INFO.LEDGER"))["state"]["last_seq"] < origins[-1]:
                pass
        for asked in servers.members:
            other = await nats.connect(asked.url)
            found = await call(other, "STREAM.VERIFY.LEDGER")
            assert found["intact"] is True and found["last_seq"] == origins[-1], found
            for seq in origins[::5]:
                one, copy = [await call(other, f"STREAM.MSG.GET.{name}", seq=seq) for name in ("S", "LEDGER")]
                assert one["message"] == copy["message"]
            await other.close()
        await client.close()
