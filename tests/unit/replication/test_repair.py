"""Replicas that have lost something, and get it from the others."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.replication.replica.repair import RepairLeader
from support.replica_world import Cluster, Node


def kinds(node: Node) -> dict[str, str]:
    """One file of each kind that a replica has, by what its name ends with."""
    paths = [path for path in node.disk.paths() if "/replicas/" in path and node.disk.size(path)]
    return {PurePosixPath(path).suffix or PurePosixPath(path).name: path for path in paths}


def filled(nodes: int = 3) -> Cluster:
    """With several segments, and consumers' states that are kept apart."""
    cluster = Cluster(nodes)
    for number in range(40):
        cluster.stored(b"%d" % number + bytes(2000))
    cluster.steps(30)
    return cluster


def spoil(node: Node) -> None:
    """Damage the third message on its disk, and have it read back."""
    store = node.replica.store
    assert store is not None
    for path in node.disk.paths():
        at = bytes(node.disk.content(path)).find(b"s.a2" + bytes(100)) if path.endswith(".seg") else -1
        if at >= 0:
            node.disk.content(path)[at + 50] ^= 1
    assert store.scrub_next()
    job = store.begin_upkeep()
    while job is not None:
        job.run()
        store.finish_upkeep(job)
        job = store.begin_upkeep()


def _lost_of(node: Node) -> list[int]:
    store = node.replica.store
    return store.lost().seqs if store is not None else [0]


@pytest.mark.parametrize("how", ["flip", "cut", "empty", "remove"])
@pytest.mark.parametrize("leads", [False, True])
def test_every_kind_of_file_is_made_good(how: str, leads: bool) -> None:
    cluster = filled()
    shown = cluster.agree()
    for kind in sorted(kinds(cluster.leader)):
        victim = next(node for node in cluster.up() if node.leads is leads)
        cluster.kill(victim)
        path = kinds(victim)[kind]
        content = victim.disk.content(path)
        if how == "flip":
            for at in (0, 4096) if kind == "VOTE" else (len(bytes(content).rstrip(b"\0")) // 2,):
                content[min(at + 20, len(content) - 1)] ^= 4
        elif how == "cut":
            del content[len(bytes(content).rstrip(b"\0")) * 3 // 4 :]
        elif how == "empty":
            del content[:]
        else:
            victim.disk.remove(path)
        victim.start()
        cluster.until(cluster.is_whole, 300)
        assert cluster.agree() == shown
        assert all(not node.replica.store.lost().seqs for node in cluster.up())  # type: ignore[union-attr]


@pytest.mark.parametrize("leads", [False, True])
def test_damage_that_is_found_while_it_runs_is_made_good(leads: bool) -> None:
    cluster = filled()
    victim = next(node for node in cluster.up() if node.leads is leads)
    others = [node for node in cluster.up() if node is not victim]
    store = victim.replica.store
    assert store is not None
    spoil(victim)
    assert store.lost().seqs == [3]
    cluster.until(lambda: isinstance(victim.replica.fault, Exception) and not victim.leads, 100)
    assert any(node.leads for node in others) or cluster.leader in others
    cluster.until(cluster.is_whole, 300)
    assert len(cluster.agree()) == 40 and victim.replica.store is not None
    assert not victim.replica.store.lost().seqs
    assert any("is repaired" in text for _, text in victim.ports.logged)
    aside = [path for path in victim.disk.paths() if "/log.damaged/" in path]
    assert aside and not [path for path in victim.disk.paths() if path.endswith("/REPAIR")]


def test_a_damaged_replica_says_nothing_before_it_is_a_learner() -> None:
    cluster = filled()
    victim, other = [node for node in cluster.up() if not node.leads]
    leader = cluster.leader
    cluster.kill(other)
    cluster.kill(victim)
    victim.disk.remove(kinds(victim)["VOTE"])
    victim.start()
    reply = cluster.publish(leader, b"nobody else has it")
    cluster.steps(60)
    assert leader.answer(reply) is None and victim.replica.group is None
    assert not any(node.leads for node in cluster.up())  # two of three are away
    other.start()
    cluster.until(cluster.is_whole, 300)
    cluster.agree()


def test_a_damaged_leader_hands_over_to_who_is_there() -> None:
    cluster = filled()
    leader = cluster.leader
    dead, other = [node for node in cluster.up() if not node.leads]
    cluster.kill(dead)
    cluster.steps(15)
    spoil(leader)
    cluster.until(lambda: other.leads, 100)
    handed = [text for _, text in leader.ports.logged if "another one is to lead" in text]
    assert len(handed) == 1
    for seq in range(41, 46):
        cluster.steps(15)
        assert cluster.stored(b"more")["seq"] == seq  # with the damaged one, which has all that is new
    dead.start()
    cluster.until(lambda: cluster.is_whole() and not _lost_of(leader), 300)
    assert len(cluster.agree()) == 45


def test_damage_that_all_have_keeps_nobody_from_going_on() -> None:
    cluster = filled()
    for node in cluster.up():
        spoil(node)
    for number in range(8):
        cluster.steps(20)
        cluster.stored(b"more %d" % number)
    cluster.until(cluster.is_whole, 300)


@pytest.mark.parametrize("leads", [True, False])
def test_a_full_disk_costs_one_server_and_nobody_is_refused(leads: bool) -> None:
    cluster = filled()
    full = next(node for node in cluster.up() if node.leads is leads)
    full.disk.capacity = full.disk.used()
    replies = []
    for number in range(20):
        leader = cluster.leader
        replies.append((leader, cluster.publish(leader, b"more %d" % number + bytes(3000))))
        cluster.steps(3)
    answers = [answer for node, reply in replies if (answer := node.answer(reply)) is not None]
    assert not [answer for answer in answers if "error" in answer] and len(answers) > 10
    assert "No space left" in str(full.replica.fault) and not full.leads
    assert len([text for level, text in full.ports.logged if level == "ERR"]) <= 2  # once, not each second
    full.disk.capacity = None
    cluster.until(cluster.is_whole, 300)
    cluster.agree()


def test_a_leader_helps_one_after_the_other() -> None:
    leader, three = RepairLeader(), Votes(voters=[1, 2, 3])
    assert leader.asked(3, b"x", three, 10, 10) == "demote"
    assert leader.asked(3, b"x", three, 10, 10) == "wait"
    two = Votes(voters=[1, 2], learners=[3], applied_conf=11)
    assert leader.asked(2, b"y", two, 11, 11) == "wait"  # one voter would be left
    assert leader.asked(3, b"x", two, 11, 11) == "offer"
    assert leader.asked(3, b"z", two, 11, 11) == "demote"  # it was damaged again: nothing of before counts
    assert not leader.is_back(3, 11) and leader.is_back(3, 12)
    assert leader.asked(3, b"z", Votes(voters=[1, 2], outgoing=[1, 2, 3]), 11, 11) == "wait"
