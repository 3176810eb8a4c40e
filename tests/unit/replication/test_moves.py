"""A stream on other servers: step by step, and what is left where it was."""

from __future__ import annotations

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from support.move_world import MovingCluster


@pytest.mark.parametrize(
    "peers",
    [(1, 2, 3, 4, 5), (3, 4, 5), (1, 2), (4, 5), (2, 3, 4), (1, 2, 3)],
    ids=lambda peers: "-".join(map(str, peers)),
)
def test_a_stream_gets_other_servers(peers: tuple[int, ...]) -> None:
    cluster = MovingCluster()
    for n in range(20):
        cluster.stored(b"%d" % n, id_=f"id-{n}")
    cluster.move(*peers)
    cluster.until(cluster.settled, 300)
    assert cluster.stored(b"again", id_="id-7") == {"stream": "S", "seq": 8, "duplicate": True}
    assert cluster.stored(b"20")["seq"] == 21
    assert [payload for _, _, payload in cluster.agree()] == [b"%d" % n for n in range(21)]
    assert {node.id for node in cluster.nodes.values() if "VOTE" in node.files} == set(peers)


@pytest.mark.parametrize(
    "peers", [(1, 2, 3), (1, 2, 3, 4, 5), (4,), (2, 3)], ids=lambda peers: "-".join(map(str, peers))
)
def test_one_copy_becomes_several_or_goes_elsewhere(peers: tuple[int, ...]) -> None:
    cluster = MovingCluster(copies=1)
    for n in range(20):
        cluster.stored(b"%d" % n, id_=f"id-{n}")
    old = cluster.leader
    config = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    assert cluster.call(old, "CONSUMER.CREATE.S.C", config)["name"] == "C"
    old.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"_INBOX.m", None, b'{"batch":4}')
    cluster.settle()
    handed = [message for message in old.ports.delivered if message[0] == b"_INBOX.m"]
    for message in handed[:3]:
        assert message[2] is not None
        old.ports.route(message[2], None, None, b"+ACK")
    cluster.steps(2)
    cluster.move(*peers)
    cluster.until(cluster.settled, 300)
    assert cluster.stored(b"again", id_="id-7") == {"stream": "S", "seq": 8, "duplicate": True}
    assert cluster.stored(b"20")["seq"] == 21
    info = cluster.call(cluster.leader, "CONSUMER.INFO.S.C")
    assert info["ack_floor"] == info["ack_floor"] | {"consumer_seq": 3, "stream_seq": 3}
    assert (info["num_ack_pending"], info["num_pending"]) == (1, 17)
    assert [payload for _, _, payload in cluster.agree()] == [b"%d" % n for n in range(21)]
    assert {node.id for node in cluster.nodes.values() if "VOTE" in node.files} == set(peers)
    cluster.move(5)  # ... and one again
    cluster.until(cluster.settled, 300)
    assert cluster.stored(b"21")["seq"] == 22 and cluster.nodes[5].leads
    cluster.kill(cluster.nodes[5], power=True)
    assert len(cluster.agree()) == 22


def test_a_second_wish_replaces_the_first_and_a_server_comes_back() -> None:
    cluster = MovingCluster()
    cluster.stored(b"one")
    cluster.move(3, 4, 5)
    cluster.steps(2)
    cluster.move(1, 2, 4)
    cluster.until(cluster.settled, 300)
    assert cluster.stored(b"two")["seq"] == 2
    cluster.move(1, 3, 5)  # what was there of 3 is removed, and it begins anew
    cluster.until(cluster.settled, 300)
    assert cluster.nodes[3].member.votes.floor_index and cluster.nodes[3].member.may_vote
    assert [payload for _, _, payload in cluster.agree()] == [b"one", b"two"]


def test_a_server_that_died_is_replaced_and_finds_out_when_it_is_back() -> None:
    cluster = MovingCluster()
    cluster.stored(b"one")
    dead = cluster.nodes[2]
    cluster.kill(dead)
    cluster.move(1, 3, 4)
    cluster.until(lambda: not cluster.assignment.is_moving, 300)
    assert cluster.assignment.left_at(2) and cluster.stored(b"two")["seq"] == 2
    dead.start()
    cluster.until(cluster.settled, 300)
    assert dead.files == ["LEFT"]


def test_who_forgot_what_it_had_votes_for_nobody() -> None:
    """A server that left and is a member again has an empty log: it would vote for whoever asks."""
    cluster = MovingCluster()
    cluster.stored(b"one")
    cluster.move(1, 2, 4)
    cluster.until(cluster.settled, 300)
    cluster.isolate([cluster.nodes[3], cluster.nodes[5]])
    cluster.move(1, 2, 3)
    back = cluster.nodes[3]
    cluster.until(lambda: back.replica is not None and back.replica.group is not None, 100)
    before = back.member.votes
    assert not back.member.may_vote and before.term == before.floor_term > 0
    cluster.steps(60)
    assert back.member.term == before.term  # it asks for no votes, however long it hears nothing
    back.member.campaign()
    assert back.member.term == before.term
    cluster.heal()
    cluster.until(cluster.settled, 300)
    assert back.member.may_vote
