"""What streams promise beside keeping messages, with copies and across a fail-over: as on a single server."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from msgspec.structs import replace

from slipstream.jetstream.config.structs import ConsumerLimits, RepublishConfig
from support.replica_world import Cluster, Node


def publish(cluster: Cluster, subject: str, payload: bytes = b"", **lines: str) -> Any:
    """Publish with headers at the server that leads; the ack."""
    leader, reply = cluster.leader, b"_INBOX.h.%d" % cluster.now
    block = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    leader.ports.route(subject.encode(), reply, f"NATS/1.0\r\n{block}\r\n".encode(), payload)
    cluster.until(lambda: leader.answer(reply) is not None)
    cluster.step()
    return leader.answer(reply)


def fail_over(cluster: Cluster) -> Node:
    """The leader loses its power; who leads next."""
    old = cluster.leader
    cluster.kill(old, power=True)
    assert cluster.leader is not old
    return cluster.leader


def test_schedules_go_on_where_they_were() -> None:
    cluster = Cluster(allow_msg_schedules=True, allow_msg_ttl=True)
    assert publish(cluster, "s.every", b"it", Nats_Schedule="@every 5s", Nats_Schedule_Target="s.t")["seq"] == 1
    cluster.steps(120)  # 12 s
    before = len([row for row in cluster.leader.shown() if row[1] == b"s.t"])
    assert before == 2
    fail_over(cluster)
    cluster.steps(100)
    after = len([row for row in cluster.leader.shown() if row[1] == b"s.t"])
    assert after - before in (2, 3)  # what was due while nobody led comes once
    rows = cluster.agree()
    assert [row[1] for row in rows].count(b"s.every") == 1


def test_a_schedule_that_has_done_its_work_does_it_once() -> None:
    cluster = Cluster(allow_msg_schedules=True, allow_msg_ttl=True)
    due = "2025-11-15T02:24:00Z"
    publish(cluster, "s.at", b"it", Nats_Schedule=f"@at {due}", Nats_Schedule_Target="s.t")
    fail_over(cluster)
    cluster.steps(2000)
    assert [row[1] for row in cluster.agree()] == [b"s.t"]


def test_counters_count_on() -> None:
    cluster = Cluster(allow_msg_counter=True, allow_direct=True)
    assert publish(cluster, "s.n", Nats_Incr="5")["val"] == "5"
    fail_over(cluster)
    assert publish(cluster, "s.n", Nats_Incr="+3")["val"] == "8"
    assert publish(cluster, "s.n", Nats_Incr="-10")["val"] == "-2"
    assert [json.loads(row[2])["val"] for row in cluster.agree()] == ["5", "8", "-2"]


def test_what_is_published_again_leaves_when_a_majority_has_it_and_not_twice() -> None:
    cluster = Cluster(republish=RepublishConfig(src="s.>", dest="r.>"))
    old = cluster.leader

    def republished(node: Node) -> list[bytes]:
        return [sent[3] for sent in node.ports.sent if sent[0].startswith(b"r.")]

    cluster.stored(b"one")
    assert republished(old) == [b"one"]
    cluster.isolate([old])
    cluster.publish(old, b"two")
    cluster.settle()
    assert republished(old) == [b"one"]  # nobody knows yet whether it will be
    cluster.until(lambda: not old.leads and any(node.leads for node in cluster.up()))
    assert cluster.stored(b"three")["seq"] == 2
    assert republished(cluster.leader) == [b"three"]
    assert [row[2] for row in cluster.agree()] == [b"one", b"three"]
    assert republished(old) == [b"one"]


def dead_letters(node: Node) -> list[bytes]:
    return [sent[3] for sent in node.ports.sent if sent[0] == b"dead.s"]


def test_a_dead_letter_is_published_until_it_is_stored() -> None:
    """By a stream that another server leads: it is told by its ack."""
    cluster = Cluster()
    for node in cluster.up():
        node.world.account.stored_elsewhere.append(lambda subject: subject == b"dead.s")
    config = {"durable_name": "C", "ack_policy": "explicit", "metadata": {"slipstream.dlq": "dead.s"}}
    cluster.stored(b"poison")
    leader = cluster.leader
    assert cluster.call(leader, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})["name"] == "C"
    leader.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"_INBOX.m", None, b'{"batch":1}')
    cluster.settle()
    (handed,) = [message for message in leader.ports.delivered if message[0] == b"_INBOX.m"]
    assert handed[2] is not None
    leader.ports.route(handed[2], None, None, b"+TERM no good")
    cluster.until(lambda: dead_letters(leader) == [b"poison"])
    new = fail_over(cluster)
    for node in cluster.up():
        node.world.account.stored_elsewhere.append(lambda subject: subject == b"dead.s")
    cluster.until(lambda: bool(dead_letters(new)))  # nobody had confirmed it
    letter = next(sent for sent in new.ports.sent if sent[0] == b"dead.s")
    assert letter[2] is not None and b"Nats-Msg-Id: dlq.S.C." in letter[2] and letter[1] is not None
    new.ports.route(letter[1], None, None, b'{"stream":"D","seq":1}')
    count = len(dead_letters(new))
    cluster.steps(300)
    assert len(dead_letters(new)) == count  # it is buried
    heir = fail_over_to_any(cluster)
    cluster.steps(100)
    assert not dead_letters(heir)


def fail_over_to_any(cluster: Cluster) -> Node:
    """As `fail_over`, with all others up."""
    for node in cluster.nodes.values():
        if not node.is_up:
            node.start()
    cluster.steps(30)
    return fail_over(cluster)


def test_limits_of_consumers_are_those_of_the_stream_whoever_leads() -> None:
    cluster = Cluster()
    changed = replace(cluster.config, consumer_limits=ConsumerLimits(max_ack_pending=10))
    cluster.leader.world.account.change_stream(changed, lambda _: None)
    cluster.steps(3)
    new = fail_over(cluster)
    config = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": 100}
    refused = cluster.call(new, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    assert "max ack pending" in refused["error"]["description"]
    config["max_ack_pending"] = 5
    assert cluster.call(new, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})["name"] == "C"
