"""Encryption at rest on servers of a cluster: from the first start on, under a key of each, and never in between."""

from __future__ import annotations

from pathlib import Path

import nats
import pytest

pytest.importorskip("slipstream_raft")

from slipstream.config.validate import unsupported
from slipstream.server.errors import StartError
from support.cluster_calls import call, create, published
from support.cluster_servers import Member, trio
from support.clusters import until
from support.config_loading import loaded
from support.ports import free_port

SECRET = 'jetstream { key: "a main key for the servers of this test" }'


def words_in(directory: Path, words: list[bytes]) -> list[str]:
    """Files that hold one of these words."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert any(path.name == "PROMISE" for path in files)
    return [str(path) for path in files if any(word in path.read_bytes() for word in words)]


def _messages(member: Member) -> int:
    replica = member.coordinator.hosting.replica("$G", "SECRETS")
    return 0 if replica is None else replica.messages


async def test_no_file_tells_anything_and_a_restart_finds_all(tmp_path: Path) -> None:
    async with trio(tmp_path, SECRET) as servers:
        client = await nats.connect(servers.members[0].url)
        await create(client, "SECRETS")
        for number in range(20):
            await published(client, "SECRETS.x", b"plaintext %d" % number)
        for member in servers.members:
            assert words_in(tmp_path / member.name, [b"SECRETS", b"plaintext", b"subjects"]) == []
        again = servers.members[2]
        await again.stop()
        await again.start()
        await servers.leader()
        await published(client, "SECRETS.x", b"more")
        found = await call(client, "STREAM.INFO.SECRETS")
        await client.close()
        assert found["state"]["messages"] == 21
        await until(lambda: _messages(again) == 21, "the server that was started again has all of it")


async def test_a_server_that_was_plain_is_not_encrypted_in_place(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    plain = Member("n0", ports[0], ports, tmp_path)
    await plain.start()
    await plain.stop()
    sealed = Member("n0", ports[0], ports, tmp_path, SECRET)
    with pytest.raises(StartError, match="encrypted from its first start on, or never"):
        await sealed.start()
    await sealed.stop()


def test_encryption_is_not_turned_off_in_place() -> None:
    text = (
        'server_name: n, jetstream { store_dir: "d", key: "a main key for the servers of this test", decrypt: true }\n'
        'cluster { name: C, listen: "127.0.0.1:6222", routes: ["nats://127.0.0.1:6223"] }'
    )
    assert any("cannot be turned off in place" in str(one) for one in unsupported(loaded(text).options))
