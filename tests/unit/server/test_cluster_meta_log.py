"""What servers agree on, as it is kept: compacted, found again after a restart, copied to a server that has none."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nats
import pytest

pytest.importorskip("slipstream_raft")

from slipstream.replication.meta.entries import Assignment, Node
from slipstream.replication.replica import work as replica_work
from support.cluster_calls import call, create, published
from support.cluster_servers import Member, trio
from support.clusters import until

LOG = "jetstream/+cluster/log"
PADDING = {"padding": "x" * 60_000}  # a segment of the log has some sixteen of these
CHANGES = 100


def agreed(member: Member) -> dict[bytes, Node | Assignment]:
    """Streams, and servers that were not replaced."""
    found = member.coordinator.state.keys()
    return {key: entry for key, entry in found.items() if not (isinstance(entry, Node) and entry.removed)}


def log_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*.seg"))


def first_index(member: Member) -> int:
    assert member.cluster.meta is not None
    return member.cluster.meta.facts().first_index


def snapshot(member: Member) -> dict[str, Any]:
    block = member.coordinator.blocks.meta_block()
    assert block is not None
    return block["snapshot"]  # type: ignore[return-value]


def assigned(member: Member) -> dict[bytes, Assignment]:
    """The streams of it; what a server says of itself changes with its disk."""
    return {key: one for key, one in agreed(member).items() if isinstance(one, Assignment)}


def messages(member: Member) -> int:
    replica = member.coordinator.hosting.kept.replica("$G", "KEPT")
    return -1 if replica is None or replica.group is None else replica.messages


async def test_what_is_over_leaves_nothing_and_what_is_in_force_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_work, "STREAM_UPKEEP_INTERVAL_NS", 50_000_000)
    async with trio(tmp_path) as servers:
        client = await nats.connect(servers.members[0].url)
        await create(client, "KEPT")
        for number in range(5):
            await published(client, "KEPT.x", b"%d" % number)
        for number in range(CHANGES):
            name = f"S{number}"
            assert "error" not in await create(client, name, 1, metadata=PADDING)
            if number % 25:
                assert (await call(client, f"STREAM.DELETE.{name}"))["success"]
        names = {"KEPT", *(f"S{number}" for number in range(0, CHANGES, 25))}
        assert set((await call(client, "STREAM.NAMES"))["streams"]) == names
        await until(lambda: all(first_index(one) > CHANGES for one in servers.members), "the beginning is cut off")
        written = CHANGES * len(PADDING["padding"])
        for one in servers.members:
            await until(lambda one=one: snapshot(one)["last_time"] > "2000", "it is shown")  # type: ignore[misc]
            assert 0 < int(snapshot(one)["pending_entries"]) < CHANGES  # of some 200
        for one in servers.members:
            place = tmp_path / one.name / LOG
            await until(lambda place=place: 0 < log_bytes(place) < written * 3 // 4, "it is cut")  # type: ignore[misc]
        await client.close()

        def known(member: Member) -> set[str]:
            return {one.name for one in assigned(member).values()}

        await until(lambda: all(known(one) == names for one in servers.members), "followers know the end of it")
        before = assigned(servers.members[0])
        for one in servers.members:
            await one.stop()
        for one in servers.members:
            await one.start()
        await servers.leader()
        await until(lambda: all(assigned(one) == before for one in servers.members), "all know what they knew")
        await until(lambda: all(messages(one) == 5 for one in servers.members), "and have what they had")

        wiped = next(one for one in servers.members if not one.is_leader)
        await wiped.stop()
        shutil.rmtree(tmp_path / wiped.name)
        await wiped.start()
        others = [one for one in servers.members if one is not wiped]
        await until(lambda: agreed(wiped) == agreed(others[0]) == agreed(others[1]), "it knows what the others know")
        await until(lambda: messages(wiped) == 5, "and has its copy")
        assert {one.name for one in agreed(wiped).values() if isinstance(one, Assignment)} == names
        assert first_index(wiped) > CHANGES  # it got segments, not all entries from the first on
