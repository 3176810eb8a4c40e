"""Encryption at rest on servers of a cluster: from the first start on, under a key of each, and never in between."""

from __future__ import annotations

import shutil
from pathlib import Path

import nats
import pytest

pytest.importorskip("slipstream_raft")

from slipstream.config.validate import unsupported
from slipstream.server.errors import StartError
from support.cluster_calls import call, create, published
from support.cluster_servers import Member, Trio, trio
from support.clusters import until
from support.config_loading import loaded
from support.ports import free_port

SECRET = 'jetstream { key: "a main key for the servers of this test" }'
OTHER = 'jetstream { key: "another key for the servers of this test" }'
CHANGED = OTHER.replace(" }", ', prev_key: "a main key for the servers of this test" }')
WORDS = [b"SECRETS", b"plaintext", b"subjects"]


def words_in(directory: Path, words: list[bytes]) -> list[str]:
    """Files that hold one of these words."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert any(path.name == "PROMISE" for path in files)
    return [str(path) for path in files if any(word in path.read_bytes() for word in words)]


def _messages(member: Member) -> int:
    replica = member.coordinator.hosting.kept.replica("$G", "SECRETS")
    return 0 if replica is None else replica.messages


async def test_no_file_tells_anything_and_a_restart_finds_all(tmp_path: Path) -> None:
    async with trio(tmp_path, SECRET) as servers:
        client = await nats.connect(servers.members[0].url)
        await create(client, "SECRETS")
        for number in range(20):
            await published(client, "SECRETS.x", b"plaintext %d" % number)
        for member in servers.members:
            assert words_in(tmp_path / member.name, WORDS) == []
        again = servers.members[2]
        await again.stop()
        await again.start()
        await servers.leader()
        await published(client, "SECRETS.x", b"more")
        found = await call(client, "STREAM.INFO.SECRETS")
        await client.close()
        assert found["state"]["messages"] == 21
        await until(lambda: _messages(again) == 21, "the server that was started again has all of it")


async def started_anew(servers: Trio, number: int, extra: str, directory: Path | None = None) -> Member:
    """Start a server again with another configuration, and without its files if `directory` has them."""
    before = servers.members[number]
    await before.stop()
    if directory is not None:
        shutil.rmtree(directory / before.name)
    after = servers.members[number] = before.with_text(extra)
    await after.start()
    return after


def takes_part(member: Member, servers: Trio, count: int) -> bool:
    """Whether a server votes in both groups, with all messages, and nobody takes it for another one."""
    replica, meta = member.coordinator.hosting.kept.replica("$G", "SECRETS"), member.cluster.meta
    group = replica.group if replica is not None else None
    if replica is None or group is None or meta is None or replica.messages != count:
        return False
    everybody = {one.cluster.node.id for one in servers.members}
    return all(set(one.voters) == everybody and not one.outgoing for one in (group.votes, meta.votes))


@pytest.mark.parametrize("turned_on", [True, False])
async def test_encryption_comes_and_goes_server_by_server(tmp_path: Path, turned_on: bool) -> None:
    """Each is emptied, and gets its copies from the others: nothing is lost, and publishing goes on."""
    first, then = ("", SECRET) if turned_on else (SECRET, "")
    async with trio(tmp_path, first) as servers:
        client = await nats.connect(servers.members[0].url)
        await create(client, "SECRETS")
        count = 0
        for _ in range(10):
            count = await published(client, "SECRETS.x", b"plaintext")
        await client.close()
        for number in range(3):
            changed = await started_anew(servers, number, then, tmp_path)
            client = await nats.connect(servers.members[number - 1].url)
            count = await published(client, "SECRETS.x", b"plaintext")
            await client.close()
            await until(lambda one=changed, count=count: takes_part(one, servers, count), "it has all")  # type: ignore[misc]
        for member in servers.members:
            assert bool(words_in(tmp_path / member.name, WORDS)) is not turned_on
        await until(lambda: all(takes_part(one, servers, count) for one in servers.members), "all have all")


async def test_keys_change_server_by_server(tmp_path: Path) -> None:
    async with trio(tmp_path, SECRET) as servers:
        client = await nats.connect(servers.members[0].url)
        await create(client, "SECRETS")
        count = 0
        for _ in range(10):
            count = await published(client, "SECRETS.x", b"plaintext")
        await client.close()
        for text in (CHANGED, OTHER):
            for number in range(3):
                before = servers.members[number].cluster.node.id
                changed = await started_anew(servers, number, text)
                assert changed.cluster.node.id == before  # the same member, with what it has promised
                client = await nats.connect(servers.members[number - 1].url)
                count = await published(client, "SECRETS.x", b"plaintext")
                await client.close()
                await until(lambda one=changed, count=count: takes_part(one, servers, count), "it has all")  # type: ignore[misc]
        for member in servers.members:
            assert words_in(tmp_path / member.name, WORDS) == []
            assert not member.coordinator.hosting.kept.faults()
        late = servers.members[0]
        await late.stop()
        with pytest.raises(StartError):
            await late.with_text(SECRET).start()


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
