"""Encryption at rest of streams with copies: each server has its own key, and no file tells anything."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.jetstream.config.enums import Compression
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header
from slipstream.jetstream.store.packed.disk import PackedDisk
from slipstream.jetstream.store.sealed.disk import SealedDisk
from slipstream.jetstream.store.sealed.keys import AtRestCipher, KeyRing, MainKey
from slipstream.testing.sim_disk import SimDisk
from support.replica_world import Cluster, Node

_SEEDS = iter(range(1, 1 << 62))


def sealed(disk: SimDisk, node: int) -> Disk:
    """The disk of a server, as one process sees it: another key and, on every second one, another cipher."""
    cipher = AtRestCipher.AES if node % 2 else AtRestCipher.CHACHA
    main = MainKey(b"the key of server %d, which is long enough" % node, cipher)
    return PackedDisk(SealedDisk(disk, KeyRing(main, None, random.Random(next(_SEEDS)).randbytes)))


def one_of_each(disk: SimDisk, node: int) -> Disk:
    """Some servers are encrypted, others are not."""
    return sealed(disk, node) if node % 2 else PackedDisk(disk)


def files(node: Node) -> dict[str, bytes]:
    """All files of a replica, as they lie on the disk."""
    found: dict[str, bytes] = {}
    waiting = [node.files.directory]
    while waiting:
        directory = waiting.pop()
        for name in node.disk.list_dir(directory):
            path = f"{directory}/{name}"
            if node.disk.is_dir(path):
                waiting.append(path)
            else:
                found[path] = node.disk.read(path, 0, node.disk.size(path))
    return found


@pytest.mark.parametrize("compression", list(Compression))
def test_nothing_can_be_read_and_nothing_is_lost(compression: Compression) -> None:
    cluster = Cluster(seed=3, disk_over=sealed, allow_atomic=True, compression=compression)
    rows = [b"plaintext %d " % n + bytes(900) for n in range(60)]
    for n, row in enumerate(rows):
        cluster.stored(row, subject="s.secret", id_=f"identity-{n}")
    config = {"stream_name": "S", "config": {"durable_name": "reader", "ack_policy": "explicit"}}
    assert cluster.call(cluster.leader, "CONSUMER.CREATE.S.reader", config)["name"] == "reader"
    old = cluster.leader
    cluster.kill(old, power=True)
    assert cluster.stored(b"more", id_="identity-7") == {"stream": "S", "seq": 8, "duplicate": True}
    assert cluster.stored(b"more")["seq"] == 61
    for node in cluster.up():
        cluster.kill(node, power=True)
    assert [payload for _, _, payload in cluster.agree()] == [*rows, b"more"]
    cluster.steps(200)
    assert cluster.call(cluster.leader, "CONSUMER.INFO.S.reader")["num_pending"] == 61
    for node in cluster.up():
        found = files(node)
        assert any(path.endswith("/APPLIED") for path in found)
        for word in (b"plaintext", b"secret", b"identity", b"reader", b"subjects"):
            assert not [path for path, data in found.items() if word in data]


@pytest.mark.parametrize("disks", [sealed, one_of_each])
def test_who_was_away_gets_segments_and_seals_them_with_its_own_key(disks: object) -> None:
    for seed in (5, 6):  # who is away is not always the same
        cluster = Cluster(max_msgs=5, seed=seed, disk_over=disks)  # type: ignore[arg-type]
        cluster.stored(b"first")
        leader = cluster.leader
        away = next(node for node in cluster.up() if node is not leader)
        cluster.kill(away)
        for n in range(120):
            cluster.stored(b"plaintext %d " % n + bytes(1000))
            cluster.steps(3)
        away.start()
        cluster.until(lambda: away.replica.group is not None and away.member.applied == leader.member.applied, 600)  # noqa: B023
        cluster.steps(20)
        leader.member.transfer(away.id)
        cluster.until(lambda: away.leads)  # noqa: B023
        assert cluster.stored(b"on")["seq"] == 122
        cluster.kill(away, power=True)
        assert len(cluster.agree()) == 5
        if disks is sealed:
            assert not any(b"plaintext" in data for data in files(away).values())


@pytest.mark.parametrize("road", ["purge", "filtered"])
def test_each_copy_loses_its_keys_when_all_is_purged(road: str) -> None:
    """Leader and followers: the segment that held it goes, though nobody publishes any more."""
    cluster = Cluster(seed=4, disk_over=sealed, duplicate_window_ns=2 * 10**9)
    for n in range(5):
        cluster.stored(b"plaintext %d" % n)
    cluster.steps(30)
    keys = {node.id: _keys(node) for node in cluster.up()}
    assert all(keys.values())
    leader = cluster.leader
    cluster.call(leader, "STREAM.PURGE.S", {"filter": "s.>"} if road == "filtered" else {})
    for node in cluster.up():
        cluster.until(lambda: not _keys(node) & keys[node.id], 4000)  # noqa: B023
    assert cluster.stored(b"on")["seq"] == 6
    for node in cluster.up():
        cluster.kill(node, power=True)
    assert [payload for _, _, payload in cluster.agree()] == [b"on"]


def _keys(node: Node) -> set[bytes]:
    """The wrapped data keys of its segments."""
    pages = [data[:HEADER_BYTES] for path, data in files(node).items() if path.endswith(".seg")]
    return {header.wrapped for page in pages if (header := decode_header(page)) is not None}
