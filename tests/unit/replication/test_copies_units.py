"""Messages that are stored together, in streams with copies: all of them or none, whoever leads."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.kernels.bulk.bulkscan import encode_message
from slipstream.kernels.log.record import StoredMessage, crc32c
from support.replica_world import Cluster, Node


def batch(node: Node, id_: str, payloads: list[bytes]) -> bytes:
    """Publish an atomic batch; where its ack will be."""
    for number, payload in enumerate(payloads, 1):
        header = f"NATS/1.0\r\nNats-Batch-Id: {id_}\r\nNats-Batch-Sequence: {number}\r\n"
        if number == len(payloads):
            header += "Nats-Batch-Commit: 1\r\n"
        node.ports.route(b"s.a", b"_INBOX.batch." + id_.encode(), f"{header}\r\n".encode(), payload)
    return b"_INBOX.batch." + id_.encode()


def payloads(cluster: Cluster) -> list[bytes]:
    return [payload for _, _, payload in cluster.agree()]


@pytest.mark.parametrize("size", [10, 100_000])  # one frame, and several
def test_a_batch_is_on_a_majority_before_its_ack_and_survives_a_fail_over(size: int) -> None:
    cluster = Cluster(allow_atomic=True)
    cluster.stored(b"before")
    old = cluster.leader
    rows = [b"%d " % n + bytes(size) for n in range(5)]
    reply = batch(old, "b", rows)
    cluster.until(lambda: any(sent[0] == reply and sent[3] for sent in old.ports.sent))
    cluster.kill(old, power=True)
    assert cluster.stored(b"behind")["seq"] == 7
    assert payloads(cluster) == [b"before", *rows, b"behind"]


def test_a_unit_that_a_leader_leaves_open_is_none_anywhere() -> None:
    cluster = Cluster(allow_atomic=True)
    cluster.stored(b"one")
    old = cluster.leader
    stream = old.replica.stream
    assert stream is not None
    stream.store.begin_atomic()
    for n in range(40):  # more than a segment
        stream.store.append_atomic(2 + n, n, b"s.a", b"NATS/1.0\r\nNats-Msg-Id: half\r\n\r\n", bytes(500))
    stream.committer.wake()
    cluster.settle()
    last = old.replica.log.last_index
    cluster.until(lambda: all(node.member.applied == last for node in cluster.up()))
    assert all(node.shown() == [(1, b"s.a", b"one")] for node in cluster.up())
    cluster.kill(old, power=True)
    # What nobody ever saw is not remembered by its id, either; its sequences are used.
    assert cluster.stored(b"two", id_="half") == {"stream": "S", "seq": 42}
    assert payloads(cluster) == [b"one", b"two"]
    state = cluster.call(cluster.leader, "STREAM.INFO.S")["state"]
    assert (state["messages"], state["last_seq"], state["num_deleted"]) == (2, 42, 40)
    for node in cluster.up():
        cluster.kill(node, power=True)
    assert payloads(cluster) == [b"one", b"two"]  # and no start thinks otherwise


def test_a_unit_that_its_leader_gives_up_is_none_anywhere() -> None:
    cluster = Cluster(allow_atomic=True)
    cluster.stored(b"one")
    leader = cluster.leader
    stream = leader.replica.stream
    assert stream is not None
    for part in (False, True):  # nothing of it has left, and a part has
        stream.store.begin_atomic()
        first = stream.store.last_seq + 1
        for n in range(40 if part else 10):
            stream.store.append_atomic(first + n, n, b"s.a", b"", bytes(500))
            if part and n == 20:
                stream.committer.wake()
                cluster.settle()
        stream.store.abort_atomic()
        stream.appends.take_over(b"")
        stream.committer.wake()
        cluster.settle()
        assert cluster.stored(b"more")["seq"] == (24 if part else 2)
    assert payloads(cluster) == [b"one", b"more", b"more"]
    heir = next(node for node in cluster.up() if node is not leader)
    leader.member.transfer(heir.id)
    cluster.until(lambda: heir.leads)
    assert cluster.stored(b"last")["seq"] == 25


# --- bulk commits ---------------------------------------------------------------------------------------------------


def stage(cluster: Cluster, node: Node, rows: list[bytes]) -> dict[str, Any]:
    """Stage messages of one part at the server that leads."""
    records = [encode_message(StoredMessage(n, 0, b"s.a", b"", row)) for n, row in enumerate(rows, 1)]
    crc = 0
    for record in records:
        crc = crc32c(record[:4], crc)
    data = b"".join(records)
    begun = cluster.call(node, "BULK.STAGE.S", {"txn": "T", "part": 0, "attempt": 0})
    reply = b"_INBOX.stage"
    node.ports.route(f"$JS.API.BULK.STAGE.S.{begun['id']}.0".encode(), reply, None, data)
    cluster.until(lambda: node.answer(reply) is not None)
    node.ports.sent = [sent for sent in node.ports.sent if sent[0] != reply]
    end = {"count": len(rows), "crc": crc, "bytes": len(data)}
    staged = cluster.call(node, f"BULK.STAGE.S.{begun['id']}.END", end)
    return {name: staged[name] for name in ("name", "count", "crc", "bytes")}


@pytest.mark.parametrize("power", [False, True])
def test_a_bulk_commit_is_there_once_across_a_fail_over(power: bool) -> None:
    cluster = Cluster(seed=11)
    cluster.stored(b"one")
    rows = [b"%d " % n + bytes(700) for n in range(100)]  # several segments
    old = cluster.leader
    part = stage(cluster, old, rows)
    done = cluster.call(old, "BULK.COMMIT.S", {"txn": "T", "batch_id": 1, "parts": [part]})
    assert (done["first_seq"], done["last_seq"], done["duplicate"]) == (2, 101, False)
    cluster.kill(old, power=power)
    new = cluster.leader
    # The writer has not heard of it, and asks again: what was staged is gone with the server, the fence is not.
    again = cluster.call(new, "BULK.COMMIT.S", {"txn": "T", "batch_id": 1, "parts": [part]})
    assert again["duplicate"] and (again["first_seq"], again["last_seq"]) == (2, 101)
    missing = cluster.call(new, "BULK.COMMIT.S", {"txn": "T", "batch_id": 2, "parts": [part]})
    assert "not" in missing["error"]["description"]
    more = stage(cluster, new, rows[:3])
    assert cluster.call(new, "BULK.COMMIT.S", {"txn": "T", "batch_id": 2, "parts": [more]})["last_seq"] == 104
    assert payloads(cluster) == [b"one", *rows, *rows[:3]]


def test_a_bulk_commit_that_dies_with_its_leader_is_repeated_at_the_next() -> None:
    cluster = Cluster(seed=12)
    cluster.stored(b"one")
    rows = [b"%d " % n + bytes(700) for n in range(100)]
    old = cluster.leader
    part = stage(cluster, old, rows)
    cluster.isolate([old])
    reply = cluster.ask(old, "BULK.COMMIT.S", {"txn": "T", "batch_id": 1, "parts": [part]})
    cluster.settle()
    assert old.answer(reply) is None
    cluster.until(lambda: not old.leads and any(node.leads for node in cluster.up()))
    assert old.answer(reply)["error"]["err_code"] == 10008  # it may have happened: the same call tells
    new = cluster.leader
    assert new is not old
    fresh = stage(cluster, new, rows)
    assert cluster.call(new, "BULK.COMMIT.S", {"txn": "T", "batch_id": 1, "parts": [fresh]})["last_seq"] == 101
    assert payloads(cluster) == [b"one", *rows]
