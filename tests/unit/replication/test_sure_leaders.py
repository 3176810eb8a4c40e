"""A leader that may have been deposed without having heard of it delivers nothing before it has asked."""

from __future__ import annotations

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.replication.raft.groups import TICK_NS
from support.replica_world import Cluster, Node


def pulled(cluster: Cluster, node: Node, inbox: bytes, batch: int = 1) -> list[bytes]:
    """What a pull request gets at once."""
    node.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.C", inbox, None, b'{"batch":%d}' % batch)
    cluster.settle()
    return handed(node, inbox)


def handed(node: Node, inbox: bytes) -> list[bytes]:
    """Messages that can be acknowledged."""
    return [message[4] for message in node.ports.delivered if message[0] == inbox and message[2]]


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    for n in range(3):
        cluster.stored(b"%d" % n)
    config = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    assert cluster.call(cluster.leader, "CONSUMER.CREATE.S.C", config)["name"] == "C"
    return cluster


def test_a_leader_that_stood_still_asks_before_it_delivers(cluster: Cluster) -> None:
    old = cluster.leader
    assert pulled(cluster, old, b"_INBOX.a") == [b"0"]
    cluster.steps(5)  # the others know of it
    cluster.pause(old, 60)
    cluster.until(lambda: any(node.leads for node in cluster.awake() if node is not old))
    cluster.paused.clear()
    old.ports.clock_ns += 60 * TICK_NS  # it was not there meanwhile
    assert old.leads  # as far as it knows
    assert pulled(cluster, old, b"_INBOX.b") == []
    cluster.until(lambda: not old.leads)
    assert handed(old, b"_INBOX.b") == []
    assert pulled(cluster, cluster.leader, b"_INBOX.c") == [b"1"]


def test_a_leader_that_is_cut_off_delivers_for_half_a_second_at_most(cluster: Cluster) -> None:
    old = cluster.leader
    assert pulled(cluster, old, b"_INBOX.a") == [b"0"]
    cluster.isolate([old])
    cluster.steps(5)
    assert old.leads
    assert pulled(cluster, old, b"_INBOX.b") == []
    cluster.cut.clear()
    cluster.until(lambda: handed(old, b"_INBOX.b") == [b"1"])  # it was one all the time


def test_who_is_sure_is_not_asked_again(cluster: Cluster) -> None:
    leader = cluster.leader
    assert pulled(cluster, leader, b"_INBOX.a") == [b"0"]
    cluster.isolate([leader])  # so that no question would be answered
    assert pulled(cluster, leader, b"_INBOX.b") == [b"1"]
