"""A replicated stream in clusters of three and five: what an ack promises, who leads, what becomes of a leader."""

from __future__ import annotations

from errno import EIO

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.replication.raft.groups import Batch
from support.replica_world import Cluster


def test_one_leads_and_the_others_have_no_stream() -> None:
    cluster = Cluster()
    leader = cluster.leader
    assert [node.leads for node in cluster.up()].count(True) == 1
    assert "S" in leader.world.account.streams
    assert all("S" not in node.world.account.streams for node in cluster.up() if node is not leader)


@pytest.mark.parametrize("nodes", [1, 3, 5])
def test_what_is_acknowledged_is_on_a_majority(nodes: int) -> None:
    cluster = Cluster(nodes)
    leader = cluster.leader
    assert cluster.stored(b"one") == {"stream": "S", "seq": 1}
    assert cluster.stored(b"two") == {"stream": "S", "seq": 2}
    have = [node for node in cluster.up() if node.replica.log.last_index >= leader.replica.log.last_index]
    assert len(have) > nodes // 2
    assert cluster.agree() == [(1, b"s.a", b"one"), (2, b"s.a", b"two")]


def test_a_lone_publish_is_one_message_to_each_follower_and_one_back() -> None:
    cluster = Cluster()
    leader = cluster.leader
    cluster.stored(b"one")
    cluster.steps(2)
    for node in cluster.up():
        node.ports.alone = True
    sent: list[tuple[int, int]] = []
    send = cluster.send

    def watched(sender: int, to: int, batch: Batch) -> bool:
        sent.extend((sender, to) for _ in batch)
        return send(sender, to, batch)

    cluster.send = watched  # type: ignore[method-assign]
    reply = cluster.publish(leader, b"two")
    cluster.settle()
    assert leader.answer(reply) == {"stream": "S", "seq": 2}
    others = [node.id for node in cluster.up() if node is not leader]
    assert sorted(sent) == sorted([(leader.id, id_) for id_ in others] + [(id_, leader.id) for id_ in others])
    followers = [node for node in cluster.up() if node is not leader]
    assert [len(node.shown()) for node in followers] == [1, 1]
    cluster.steps(3)  # a heartbeat tells them
    assert [len(node.shown()) for node in followers] == [2, 2]


def test_a_replica_that_rests_has_no_copies_of_what_its_files_have() -> None:
    cluster = Cluster()
    assert cluster.stored(b"one") == {"stream": "S", "seq": 1}
    assert all(node.replica.store.log.tail for node in cluster.up() if node.replica.store is not None)
    cluster.until(lambda: all(node.groups.resting for node in cluster.up()), 90)
    assert [node.replica.store.log.tail for node in cluster.up() if node.replica.store is not None] == [[], [], []]
    assert cluster.agree() == [(1, b"s.a", b"one")]


def test_nobody_is_answered_and_nothing_is_read_before_a_majority_has_it() -> None:
    cluster = Cluster()
    leader = cluster.leader
    cluster.stored(b"one")
    cluster.isolate([leader])
    reply = cluster.publish(leader, b"two")
    cluster.settle()
    assert leader.answer(reply) is None
    store = leader.world.account.streams["S"].store
    assert store.last_seq == 2 and store.committed_seq == 1
    assert [payload for _, _, payload in leader.shown()] == [b"one"]


def test_a_leader_that_is_cut_off_lets_go_and_another_goes_on() -> None:
    cluster = Cluster()
    old = cluster.leader
    cluster.stored(b"one")
    cluster.isolate([old])
    reply = cluster.publish(old, b"never acknowledged")
    cluster.until(lambda: not old.leads and any(node.leads for node in cluster.up()))
    assert "S" not in old.world.account.streams
    new = cluster.leader
    assert new is not old
    assert cluster.stored(b"two") == {"stream": "S", "seq": 2}
    assert cluster.agree() == [(1, b"s.a", b"one"), (2, b"s.a", b"two")]
    assert old.answer(reply) is None


def test_what_a_deposed_leader_wrote_may_still_be_committed() -> None:
    cluster = Cluster()
    old = cluster.leader
    others = [node for node in cluster.up() if node is not old]
    cluster.cut = {(other.id, old.id) for other in others}  # it is heard, and hears nothing
    reply = cluster.publish(old, b"one")
    cluster.until(lambda: not old.leads)
    cluster.cut.clear()
    assert cluster.agree() == [(1, b"s.a", b"one")]
    assert old.answer(reply) is None


@pytest.mark.parametrize("power", [False, True])
def test_fail_over_loses_nothing_and_remembers_ids(power: bool) -> None:
    cluster = Cluster(seed=3)
    for n in range(20):
        assert cluster.stored(b"%d" % n, id_=f"id-{n}")["seq"] == n + 1
    old = cluster.leader
    cluster.kill(old, power=power)
    assert cluster.stored(b"again", id_="id-7") == {"stream": "S", "seq": 8, "duplicate": True}
    assert cluster.stored(b"20", id_="id-20") == {"stream": "S", "seq": 21}
    assert cluster.leader is not old
    assert [payload for _, _, payload in cluster.agree()] == [b"%d" % n for n in range(21)]
    assert cluster.call(cluster.leader, "STREAM.INFO.S")["state"]["messages"] == 21


def test_without_a_majority_nothing_is_acknowledged_and_with_one_all_goes_on() -> None:
    cluster = Cluster()
    cluster.stored(b"one")
    leader = cluster.leader
    others = [node for node in cluster.up() if node is not leader]
    for node in others:
        cluster.kill(node)
    reply = cluster.publish(leader, b"two")
    cluster.steps(50)
    assert leader.answer(reply) is None and not leader.leads
    others[0].start()
    assert cluster.stored(b"three")["seq"] in (2, 3)
    assert cluster.agree()[0] == (1, b"s.a", b"one")


def test_all_lose_power_and_come_back() -> None:
    cluster = Cluster()
    for n in range(10):
        cluster.stored(b"%d" % n)
    for node in cluster.up():
        cluster.kill(node, power=True)
    assert [payload for _, _, payload in cluster.agree()] == [b"%d" % n for n in range(10)]
    assert cluster.stored(b"10")["seq"] == 11


def test_removals_and_limits_are_the_leaders_and_the_same_everywhere() -> None:
    cluster = Cluster()
    for n in range(10):
        cluster.stored(b"%d" % n, subject=f"s.{n % 2}")
    leader = cluster.leader
    assert cluster.call(leader, "STREAM.MSG.DELETE.S", {"seq": 4})["success"]
    assert cluster.call(leader, "STREAM.PURGE.S", {"filter": "s.0", "keep": 2})["purged"] == 3
    kept = cluster.agree()
    assert [seq for seq, _, _ in kept] == [2, 6, 7, 8, 9, 10]
    cluster.kill(leader)
    assert cluster.stored(b"more")["seq"] == 11
    assert [seq for seq, _, _ in cluster.agree()] == [2, 6, 7, 8, 9, 10, 11]


def test_consumers_go_on_where_they_were() -> None:
    cluster = Cluster()
    for n in range(6):
        cluster.stored(b"%d" % n)
    old = cluster.leader
    config = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    assert cluster.call(old, "CONSUMER.CREATE.S.C", config)["name"] == "C"
    old.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"_INBOX.m", None, b'{"batch":4}')
    cluster.settle()
    handed = [message for message in old.ports.delivered if message[0] == b"_INBOX.m"]
    assert [message[4] for message in handed] == [b"0", b"1", b"2", b"3"]
    for message in handed[:3]:
        assert message[2] is not None
        old.ports.route(message[2], None, None, b"+ACK")
    cluster.steps(2)
    cluster.kill(old, power=True)
    new = cluster.leader
    info = cluster.call(new, "CONSUMER.INFO.S.C")
    assert info["ack_floor"] == info["ack_floor"] | {"consumer_seq": 3, "stream_seq": 3}
    assert info["num_ack_pending"] == 1 and info["num_pending"] == 2
    new.ports.route(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"_INBOX.n", None, b'{"batch":3}')
    cluster.steps(400)  # until its ack is no longer waited for
    assert [m[4] for m in new.ports.delivered if m[0] == b"_INBOX.n" and m[2]] == [b"4", b"5", b"3"]


def test_a_disk_that_fails_costs_the_lead_and_nobody_is_told_no() -> None:
    cluster = Cluster()
    cluster.stored(b"one")
    old = cluster.leader
    old.disk.faults = dict.fromkeys(range(old.disk.calls + 1, old.disk.calls + 20), EIO)
    reply = cluster.publish(old, b"two")
    cluster.settle()
    assert not old.leads and old.replica.fault is not None and "S" not in old.world.account.streams
    assert [level for level, _ in old.ports.logged] == ["ERR"]
    cluster.until(lambda: any(node.leads for node in cluster.up()))
    assert cluster.leader is not old and cluster.stored(b"three")["seq"] == 3  # the others had the second
    assert [payload for _, _, payload in cluster.agree()] == [b"one", b"two", b"three"]
    assert old.replica.fault is None and old.answer(reply) is None


def test_a_follower_whose_disk_fails_does_not_stop_the_others() -> None:
    cluster = Cluster()
    leader = cluster.leader
    broken = next(node for node in cluster.up() if node is not leader)
    broken.disk.faults = dict.fromkeys(range(broken.disk.calls + 1, broken.disk.calls + 10), EIO)
    assert cluster.stored(b"one")["seq"] == 1
    assert broken.replica.fault is not None
    assert cluster.agree() == [(1, b"s.a", b"one")]


def test_a_replica_whose_votes_are_gone_does_not_take_part_before_it_is_repaired() -> None:
    cluster = Cluster()
    cluster.stored(b"one")
    wiped = next(node for node in cluster.up() if not node.leads)
    cluster.kill(wiped)
    wiped.start()
    wiped.disk.remove(f"{wiped.files.directory}/VOTE")
    cluster.step()
    assert "votes are gone" in str(wiped.replica.fault) and wiped.replica.group is None
    assert cluster.stored(b"two")["seq"] == 2
    cluster.until(cluster.is_whole)


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("STREAM.MSG.GET.S", {"last_by_subj": "s.a"}),
        ("DIRECT.GET.S.s.a", {}),
        ("DIRECT.GET.S", {"seq": 1}),
        ("STREAM.INFO.S", {}),
    ],
)
def test_a_leader_reads_for_others_only_while_it_is_sure_to_be_one(subject: str, body: dict[str, object]) -> None:
    cluster = Cluster(allow_direct=True)
    leader = cluster.leader
    cluster.stored(b"one")
    reply = cluster.ask(leader, subject, body)
    cluster.settle()
    assert [sent for sent in leader.ports.sent if sent[0] == reply]
    cluster.isolate([leader])
    reply = cluster.ask(leader, subject, body)
    cluster.until(lambda: not leader.leads)
    cluster.agree()
    said = [sent[3] for sent in leader.ports.sent if sent[0] == reply]
    assert not said or (len(said) == 1 and b'"err_code":10008' in said[0])


def test_a_leader_that_stood_still_does_not_read_what_was_true_once() -> None:
    cluster = Cluster()
    old = cluster.leader
    cluster.stored(b"one")
    cluster.pause(old, 100)
    cluster.until(lambda: any(node.leads for node in cluster.awake()))
    reply = cluster.publish(next(node for node in cluster.awake() if node.leads), b"two")
    cluster.settle()
    assert old.leads and old.world.account.streams["S"].store.is_settled  # it has not heard of it
    cluster.paused.clear()
    asked = cluster.ask(old, "STREAM.MSG.GET.S", {"last_by_subj": "s.a"})
    old.settle()
    assert old.answer(asked) is None
    cluster.settle()
    assert old.answer(asked)["error"]["err_code"] == 10008
    assert [payload for _, _, payload in cluster.agree()] == [b"one", b"two"] and old.answer(reply) is None


def test_another_server_joins_and_one_leaves() -> None:
    cluster = Cluster()
    for n in range(30):
        cluster.stored(b"%d" % n)
    leader = cluster.leader
    gone = next(node for node in cluster.up() if node is not leader)
    new = cluster.join()
    leader.replica.commits.change([("learner", new.id)])
    cluster.until(lambda: new.member.applied == leader.member.applied > 30)
    cluster.publish(leader, b"30")  # a commit is about to begin
    leader.replica.commits.change([("voter", new.id), ("gone", gone.id)])
    cluster.until(lambda: bool(leader.member.votes.outgoing))
    leader.replica.commits.change([])
    cluster.until(lambda: not leader.member.votes.outgoing)
    assert sorted(leader.member.votes.voters) == sorted(node.id for node in cluster.up() if node is not gone)
    cluster.kill(gone)
    cluster.kill(leader, power=True)
    assert cluster.stored(b"31")["seq"] == 32
    leader.start()
    cluster.settle()
    cluster.until(lambda: leader.member.applied == cluster.leader.member.applied)
    assert [payload for _, _, payload in new.shown()] == [b"%d" % n for n in range(32)]
    assert sorted(leader.member.votes.voters) == sorted(new.member.votes.voters)


def fill(cluster: Cluster, count: int) -> None:
    """So many messages of some size, with the time for what is dead to go."""
    for n in range(count):
        cluster.stored(b"%d " % n + bytes(1000))
        cluster.steps(3)


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_who_was_away_for_long_gets_whole_segments(loss: float) -> None:
    cluster = Cluster(max_msgs=5, seed=5)
    cluster.stored(b"first")
    leader = cluster.leader
    away = next(node for node in cluster.up() if node is not leader)
    last = away.replica.log.last_index
    cluster.kill(away)
    fill(cluster, 120)
    assert leader.replica.log.first_index > last + 1  # frames do not reach back to where it was
    config = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    cluster.call(cluster.leader, "CONSUMER.CREATE.S.C", config)
    away.start()
    cluster.settle()
    cluster.loss = loss
    cluster.until(lambda: away.replica.group is not None and away.member.applied == leader.member.applied, 600)
    assert away.replica.log.first_index > last
    shown = cluster.agree()
    assert len(shown) == 5 and away.shown() == shown
    cluster.kill(leader)
    assert cluster.stored(b"on")["seq"] == 122
    assert cluster.call(cluster.leader, "CONSUMER.INFO.S.C")["num_pending"] == 5


def test_a_new_member_gets_whole_segments_and_the_membership() -> None:
    cluster = Cluster(max_msgs=5, seed=6)
    fill(cluster, 120)
    leader = cluster.leader
    new = cluster.join()
    leader.replica.commits.change([("learner", new.id)])
    cluster.until(lambda: new.replica.group is not None and new.member.applied == leader.member.applied, 600)
    assert new.member.votes.learners == [new.id]
    leader.replica.commits.change([("voter", new.id)])
    cluster.until(lambda: new.id in new.member.votes.voters)
    assert len(cluster.agree()) == 5


def test_a_power_cut_while_segments_come_in_costs_nothing() -> None:
    for seed in range(4):
        cluster = Cluster(max_msgs=5, seed=seed)
        cluster.stored(b"first")
        leader = cluster.leader
        away = next(node for node in cluster.up() if node is not leader)
        cluster.kill(away)
        fill(cluster, 100)
        away.start()
        cluster.delay = 2
        for step in range(2, 14, 3):
            cluster.steps(step)
            cluster.kill(away, power=True)
            away.start()
        assert len(cluster.agree()) == 5


def test_a_stream_is_handed_over() -> None:
    cluster = Cluster()
    cluster.stored(b"one")
    old = cluster.leader
    heir = next(node for node in cluster.up() if node is not old)
    assert old.replica.group is not None
    store = old.replica.store
    old.replica.group.transfer(heir.id)
    cluster.until(lambda: heir.leads, 5)
    assert old.replica.store is store  # nothing was ahead of the others, so nothing had to be read back
    assert cluster.stored(b"two")["seq"] == 2
    assert len(cluster.agree()) == 2
    heir.member.transfer(old.id)
    cluster.until(lambda: old.leads, 5)
    assert cluster.stored(b"three")["seq"] == 3
    assert [payload for _, _, payload in cluster.agree()] == [b"one", b"two", b"three"]


def test_messages_that_end_do_so_whoever_leads() -> None:
    cluster = Cluster(allow_msg_ttl=True)
    old = cluster.leader
    reply = b"_INBOX.ttl"
    old.ports.route(b"s.a", reply, b"NATS/1.0\r\nNats-TTL: 20s\r\n\r\n", b"one")
    cluster.settle()
    assert old.answer(reply)["seq"] == 1
    heir = next(node for node in cluster.up() if node is not old)
    old.member.transfer(heir.id)
    cluster.until(lambda: heir.leads)
    heir.member.transfer(old.id)
    cluster.until(lambda: old.leads)
    assert len(cluster.agree()) == 1
    cluster.steps(220)
    assert cluster.agree() == []


def test_a_replica_stops_and_its_files_can_go() -> None:
    cluster = Cluster()
    cluster.stored(b"one")
    for node in cluster.up():
        ended: list[bool] = []
        node.replica.stop(lambda ended=ended: ended.append(True))  # type: ignore[misc]
        node.settle()
        assert ended == [True] and not len(node.groups)
        node.files.destroy()
        assert not node.files.is_there and not node.disk.is_dir(node.files.directory)
