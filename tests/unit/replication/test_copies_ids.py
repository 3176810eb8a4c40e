"""Message ids of removed messages, whoever leads: a publish that is repeated is not stored a second time."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.jetstream.config.enums import RetentionPolicy
from support.replica_world import Cluster, Node


def work_off(cluster: Cluster, leader: Node) -> None:
    """Take everything and acknowledge it."""
    config = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    assert cluster.call(leader, "CONSUMER.CREATE.S.C", config)["name"] == "C"
    leader.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"_INBOX.m", None, b'{"batch":100}')
    cluster.settle()
    for message in [message for message in leader.ports.delivered if message[0] == b"_INBOX.m"]:
        assert message[2] is not None
        leader.ports.route(message[2], None, None, b"+ACK")


@pytest.mark.parametrize("how", ["deleted", "purged", "limited", "worked off"])
@pytest.mark.parametrize("power", [False, True])
def test_ids_of_removed_messages_survive_a_fail_over(how: str, power: bool) -> None:
    options: dict[str, dict[str, Any]] = {
        "limited": {"max_msgs": 1},
        "worked off": {"retention": RetentionPolicy.WORK_QUEUE},
    }
    cluster = Cluster(seed=4, **options.get(how, {}))
    for n in range(40):  # several segments
        cluster.stored(b"%d " % n + bytes(1000), id_=f"id-{n}")
    old = cluster.leader
    if how == "deleted":
        for seq in range(1, 41):
            cluster.call(old, "STREAM.MSG.DELETE.S", {"seq": seq, "no_erase": True})
    elif how == "purged":
        cluster.call(old, "STREAM.PURGE.S")
    elif how == "worked off":
        work_off(cluster, old)
    cluster.steps(60)  # upkeep, everywhere
    assert len(cluster.agree()) == (how == "limited")
    cluster.kill(old, power=power)
    for n in (0, 20, 39):
        assert cluster.stored(b"again", id_=f"id-{n}") == {"stream": "S", "seq": n + 1, "duplicate": True}
    cluster.steps(1300)  # the window is over
    assert cluster.stored(b"anew", id_="id-39")["seq"] == 41
    cluster.steps(100)
    closed = [len(node.replica.store.log.segments) for node in cluster.up() if node.replica.store is not None]
    assert max(closed) <= 4  # what was kept for the ids goes when they do


def test_ids_of_removed_messages_come_with_whole_segments() -> None:
    cluster = Cluster(max_msgs=5, seed=5)
    cluster.stored(b"first")
    leader = cluster.leader
    away = next(node for node in cluster.up() if node is not leader)
    cluster.kill(away)
    for n in range(120):
        cluster.stored(b"%d " % n + bytes(1000), id_=f"id-{n}")
        cluster.steps(3)
    away.start()
    cluster.until(lambda: away.replica.group is not None and away.member.applied == leader.member.applied, 600)
    cluster.steps(20)  # until its leader knows
    leader.member.transfer(away.id)
    cluster.until(lambda: away.leads)
    assert cluster.stored(b"again", id_="id-100") == {"stream": "S", "seq": 102, "duplicate": True}
