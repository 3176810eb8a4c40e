"""Direct gets in a cluster of three: every server that has the stream answers, with what was acknowledged before."""

from __future__ import annotations

import json
from pathlib import Path

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

pytest.importorskip("slipstream_raft")

from support.cluster_calls import create, published
from support.cluster_servers import Trio, trio
from support.clusters import until


async def got(client: Client, stream: str, **body: object) -> Msg:
    return await client.request(f"$JS.API.DIRECT.GET.{stream}", json.dumps(body).encode(), timeout=1)


def answering(servers: Trio, stream: str) -> list[str]:
    """Servers that answer from a copy which they do not lead."""
    kept = [(member.name, member.coordinator.hosting.kept.direct("$G", stream)) for member in servers.running]
    return [name for name, direct in kept if direct is not None]


async def test_every_server_answers_with_what_was_acknowledged(tmp_path: Path) -> None:
    async with trio(tmp_path) as servers:
        clients = {member.name: await nats.connect(member.url) for member in servers.members}
        client = clients["n0"]
        await create(client, "LATEST", allow_direct=True)
        await create(client, "LOCAL", allow_direct=True, metadata={"slipstream.direct_get": "local"})
        await create(client, "OTHER")
        bad = await create(client, "BAD", metadata={"slipstream.direct_get": "some"})
        assert bad["error"]["err_code"] == 10052
        for name in ("LATEST", "LOCAL"):
            await until(lambda name=name: len(answering(servers, name)) == 2, "both others answer")
        assert answering(servers, "OTHER") == []
        for number in range(8):
            await published(client, "LATEST.x", b"%d" % number)
            for one in clients.values():
                found = await got(one, "LATEST", last_by_subj="LATEST.x")
                assert found.data == b"%d" % number and found.headers is not None
                assert (found.headers["Nats-Stream"], found.headers["Nats-Sequence"]) == ("LATEST", str(number + 1))
        for one in clients.values():
            by_subject = await one.request("$JS.API.DIRECT.GET.LATEST.LATEST.x", timeout=3)
            assert by_subject.data == b"7"
            missing = await got(one, "LATEST", seq=99)
            assert missing.headers is not None and missing.headers["Status"] == "404"
        await published(client, "LOCAL.x", b"once")
        await until(
            lambda: all(_messages(servers, member.name, "LOCAL") == 1 for member in servers.members), "all have it"
        )
        for one in clients.values():
            await one.close()
        # Two of three are gone: nobody can say what is true, and only who asks for less is answered.
        for name in ("n0", "n1"):
            await servers.named(name).stop()
        alone = await nats.connect(servers.named("n2").url)
        await until(lambda: answering(servers, "LOCAL") == ["n2"], "the last one answers")
        assert (await got(alone, "LOCAL", seq=1)).data == b"once"
        with pytest.raises(nats.errors.TimeoutError):
            await got(alone, "LATEST", seq=1)
        await alone.close()


def _messages(servers: Trio, server: str, stream: str) -> int:
    replica = servers.named(server).coordinator.hosting.kept.replica("$G", stream)
    return -1 if replica is None else replica.messages
