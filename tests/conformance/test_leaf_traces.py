"""A server that logs all it does, and a message that is traced: both cross a link like any other."""

from __future__ import annotations

from pathlib import Path

import nats
import pytest

from support.leaf_world import LeafWorld, until, until_shown


@pytest.mark.parametrize("headers", [None, {"Nats-Trace-Dest": "traces"}], ids=["logged", "traced"])
async def test_what_is_traced_reaches_other_servers(headers: dict[str, str] | None, tmp_path: Path) -> None:
    """Plain subscribers and a queue group on both sides: each message comes once to each, and once to the group."""
    async with LeafWorld(tmp_path) as world:
        hub = await world.hub("o", more="" if headers else "trace: true")
        leaf = await world.leaf("o", hub)
        await until_shown(hub, "/leafz", lambda shown: shown["leafnodes"] == 1)
        there, here = await world.client(leaf), await world.client(hub)
        got: list[str] = []
        shared: list[bytes] = []

        def taking(name: str) -> object:
            async def take(_message: nats.aio.msg.Msg) -> None:
                got.append(name)

            return take

        async def share(message: nats.aio.msg.Msg) -> None:
            shared.append(message.data)

        for name, client in (("leaf", there), ("hub", here)):
            await client.subscribe("a", cb=taking(name))
            await client.subscribe("work", queue="workers", cb=share)
        await there.subscribe("last", cb=taking("last"))
        await until_shown(hub, "/subsz?subs=1", lambda shown: "last" in str(shown))
        for at in range(20):
            await here.publish("a", b"", headers=headers)
            await here.publish("work", b"%d" % at, headers=headers)
        await here.publish("last", b"")
        await until(lambda: "last" in got and got.count("hub") == 20)
        assert got.count("leaf") == 20
        await until(lambda: len(shared) >= 20)
        assert sorted(shared, key=int) == [b"%d" % at for at in range(20)]
