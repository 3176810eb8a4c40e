"""How streams with copies are stored: each server compresses what it has, and memory is no place for them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.jetstream.config.enums import Compression, StorageType
from slipstream.jetstream.store.packed.codecs import Codec
from slipstream.jetstream.store.packed.disk import PackedDisk
from support.jetstream_world import World
from support.replica_world import Cluster, Node


def packed(cluster: Cluster, node: Node) -> int:
    """How many segments of a server are compressed."""
    store = node.replica.store
    assert store is not None
    found = [segment.header.codec for segment in store.log.segments]
    return found.count(Codec.ZSTD if cluster.config.metadata else Codec.S2)


@pytest.mark.parametrize("codec", ["s2", "zstd"])
def test_every_copy_is_compressed_and_survives_a_fail_over(codec: str) -> None:
    if codec == "zstd":
        pytest.importorskip("zstandard")
        config = {"metadata": {"slipstream.compression": "zstd"}}
    else:
        config = {"compression": Compression.S2}
    cluster = Cluster(seed=7, disk_over=lambda disk, _: PackedDisk(disk), **config)
    rows = [b"-%d " % n + b"abc" * 400 for n in range(100)]
    for row in rows:
        cluster.stored(row)
    cluster.until(lambda: all(packed(cluster, node) for node in cluster.up()), 600)
    old = cluster.leader
    assert cluster.call(old, "STREAM.MSG.DELETE.S", {"seq": 2})["success"]  # in a compressed one, everywhere
    cluster.kill(old, power=True)
    assert cluster.stored(b"more")["seq"] == 101
    for node in cluster.up():
        cluster.kill(node, power=True)
    assert [payload for _, _, payload in cluster.agree()] == [rows[0], *rows[2:], b"more"]
    for node in cluster.up():  # nothing is left of what was erased, when old files are gone
        cluster.until(lambda node=node: not any(rows[1] in data for data in _files(node)), 600)  # type: ignore[misc]


def _files(node: Node) -> list[bytes]:
    directory = f"{node.files.directory}/log"
    return [node.disk.read(f"{directory}/{name}", 0, 1 << 20) for name in node.disk.list_dir(directory)]


def test_who_was_away_gets_segments_that_are_compressed_where_they_come_from() -> None:
    cluster = Cluster(seed=5, disk_over=lambda disk, _: PackedDisk(disk), compression=Compression.S2)
    cluster.stored(b"first")
    leader = cluster.leader
    away = next(node for node in cluster.up() if node is not leader)
    cluster.kill(away)
    for n in range(120):
        cluster.stored(b"%d " % n + b"abc" * 300)
        cluster.steps(2)
    cluster.until(lambda: packed(cluster, leader) > 0 and leader.replica.log.first_index > 3, 600)
    away.start()
    cluster.until(lambda: away.replica.group is not None and away.member.applied == leader.member.applied, 600)
    assert len(cluster.agree()) == 121
    cluster.stored(b"more")
    cluster.until(lambda: packed(cluster, away) > 0, 600)


def test_a_stream_that_asks_for_memory_is_as_safe_as_any() -> None:
    cluster = Cluster(seed=9, storage=StorageType.MEMORY)
    for n in range(10):
        cluster.stored(b"%d" % n)
    cluster.kill(cluster.leader, power=True)
    assert cluster.stored(b"10")["seq"] == 11
    for node in cluster.up():
        cluster.kill(node, power=True)
    assert [payload for _, _, payload in cluster.agree()] == [b"%d" % n for n in range(11)]
    leader = cluster.leader
    assert cluster.call(leader, "STREAM.INFO.S")["config"]["storage"] == "memory"
    usage = cluster.call(leader, "INFO")
    assert usage["memory"] > 0 and usage["storage"] == 0


def test_memory_with_copies_holds_as_many_messages_as_one_copy_does() -> None:
    alone = World()
    alone.create("S", subjects=["s.>"], storage="memory", max_bytes=4_000)
    cluster = Cluster(seed=11, storage=StorageType.MEMORY, max_bytes=4_000)

    def publish(n: int) -> None:
        payload, id_ = b"x" * (n % 70), f"id-{n}" if n % 3 else ""
        assert alone.publish("s.a", payload, **({"Nats_Msg_Id": id_} if id_ else {}))["seq"] == n
        assert cluster.stored(payload, id_=id_)["seq"] == n

    def check() -> None:
        cluster.agree()
        store = alone.account.streams["S"].store
        expected = (store.messages, store.size_bytes)
        found = [node.replica.store for node in cluster.up()]
        assert [(copy.messages, copy.size_bytes) for copy in found if copy is not None] == [expected] * 3
        assert store.first_seq > 1

    for n in range(1, 101):
        publish(n)
    check()
    cluster.kill(cluster.leader)
    publish(101)  # whoever leads now counts as before
    check()
    for node in cluster.up():
        cluster.kill(node, power=True)
    check()  # and so do those who read all of it back
    publish(102)
    check()


def test_compression_that_is_asked_for_later_begins_everywhere() -> None:
    cluster = Cluster(seed=8, disk_over=lambda disk, _: PackedDisk(disk))
    for n in range(100):
        cluster.stored(b"%d " % n + b"abc" * 400)
    changed = replace(cluster.config, compression=Compression.S2)
    cluster.leader.world.account.change_stream(changed, lambda _: None)  # as the meta group has it done
    cluster.until(lambda: all(packed(cluster, node) for node in cluster.up()), 600)
    assert len(cluster.agree()) == 100
