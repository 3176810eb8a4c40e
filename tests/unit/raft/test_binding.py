"""The binding of the Raft core: one node, three in a row, and what happens when something breaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

raft = pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")


class Reader:
    """What was appended, in a list; index 1 is the first."""

    def __init__(self) -> None:
        self.log: list[tuple[int, int, int, bytes]] = []
        self.asked: list[tuple[int, int]] = []
        self.error: Exception | None = None
        self.given: Any = None

    def append(self, entries: Sequence[tuple[int, int, int, bytes]]) -> None:
        for entry in entries:
            del self.log[entry[0] - 1 :]
            self.log.append(entry)

    def entries(self, low: int, high: int, max_bytes: int) -> list[tuple[int, int, int, bytes]]:
        self.asked.append((low, high))
        if self.error is not None:
            raise self.error
        return self.log[low - 1 : high - 1]

    def snapshot(self, request_index: int, to: int) -> Any:
        return self.given


def make_node(id_: int, voters: Sequence[int], reader: Any = None, **facts: Any) -> Any:
    defaults: dict[str, Any] = {
        "hard_state": (0, 0, 0),
        "conf_state": (list(voters), [], [], [], False),
        "first_index": 1,
        "last_index": 0,
        "terms": [(0, 0)],
        "applied": 0,
        "election_tick": 10,
        "heartbeat_tick": 1,
        "max_size_per_msg": 1 << 20,
        "max_inflight_msgs": 64,
        "max_uncommitted_size": 1 << 24,
        "max_committed_size_per_ready": 1 << 20,
        "window_bytes": 1 << 20,
    }
    return raft.RawNode(id_, reader or Reader(), **{**defaults, **facts})


class Group:
    """Nodes whose messages arrive at once and whose disks never fail."""

    def __init__(self, *ids: int, **facts: Any) -> None:
        self.readers = {id_: Reader() for id_ in ids}
        self.nodes = {id_: make_node(id_, ids, self.readers[id_], **facts) for id_ in ids}
        self.applied: dict[int, list[bytes]] = {id_: [] for id_ in ids}
        self.reads: list[tuple[int, bytes]] = []
        self.cut_off: set[int] = set()

    def settle(self) -> None:
        busy = True
        while busy:
            busy = False
            for id_, node in list(self.nodes.items()):
                ready = node.ready()
                if ready is None:
                    continue
                busy = True
                self.readers[id_].append(ready.entries)
                node.on_persist_ready(ready.number)
                self.reads += ready.read_states
                for index, _term, kind, data in ready.committed:
                    if kind:
                        node.apply_conf_change(kind, data)
                    elif data:
                        self.applied[id_].append(data)
                    node.advance_apply_to(index)
                for to, _kind, message in [*ready.messages, *ready.persisted_messages]:
                    if to in self.nodes and not self.cut_off & {id_, to}:
                        try:
                            self.nodes[to].step(message)
                        except raft.RaftError as error:  # of one that is no longer a member
                            assert "peer not found" in str(error)


def test_one_node_elects_itself_and_commits() -> None:
    reader = Reader()
    node = make_node(1, [1], reader)
    node.campaign()
    ready = node.ready()
    assert ready.must_sync and ready.hard_state[:2] == (1, 1)
    assert ready.soft_state == (1, "leader")
    reader.append(ready.entries)
    assert reader.log == [(1, 1, 0, b"")] and ready.committed == []
    node.on_persist_ready(ready.number)
    assert node.ready().committed == [(1, 1, 0, b"")]
    assert node.propose([b"a", b"b"]) == 2
    ready = node.ready()
    assert ready.entries == [(2, 1, 0, b"a"), (3, 1, 0, b"b")]
    assert ready.committed == []  # nothing is committed before a sync
    node.on_persist_ready(ready.number)
    ready = node.ready()
    assert ready.committed == [(2, 1, 0, b"a"), (3, 1, 0, b"b")] and ready.hard_state == (1, 1, 3)
    node.advance_apply_to(3)
    assert node.status().applied == 3
    node.on_persist_ready(ready.number)
    assert node.ready() is None


def test_syncs_may_be_reported_late_and_together() -> None:
    node = make_node(1, [1])
    node.campaign()
    while ready := node.ready():
        node.on_persist_ready(ready.number)
    numbers = []
    for data in (b"a", b"b", b"c"):
        node.propose([data])
        ready = node.ready()
        assert [entry[3] for entry in ready.entries] == [data] and ready.committed == []
        numbers.append(ready.number)
    node.on_persist_ready(numbers[1])
    assert [entry[3] for entry in node.ready().committed] == [b"a", b"b"]
    with pytest.raises(raft.RaftError, match="no ready with the number"):
        node.on_persist_ready(numbers[0])


def test_three_nodes_agree_and_answer_linearizable_reads() -> None:
    group = Group(1, 2, 3)
    group.nodes[1].campaign()
    group.settle()
    assert [node.status().role for node in group.nodes.values()] == ["leader", "follower", "follower"]
    group.nodes[1].propose([b"a", b"b"])
    group.settle()
    assert group.applied == {1: [b"a", b"b"], 2: [b"a", b"b"], 3: [b"a", b"b"]}
    group.nodes[1].read_index(b"who")
    group.settle()
    assert group.reads == [(3, b"who")]
    status = group.nodes[1].status()
    assert status.voters == [1, 2, 3]
    assert [(id_, one[0]) for id_, one in status.progress] == [(1, 3), (2, 3), (3, 3)]


def test_only_a_leader_takes_proposals_and_leadership_moves() -> None:
    group = Group(1, 2, 3)
    group.nodes[1].campaign()
    group.settle()
    with pytest.raises(raft.ProposalDropped, match="does not lead"):
        group.nodes[2].propose([b"x"])
    group.nodes[1].transfer_leader(2)
    group.settle()
    assert group.nodes[2].status().role == "leader"
    assert group.nodes[2].propose([b"x"]) == 3
    group.settle()
    assert group.applied[1] == [b"x"]


def test_membership_changes_in_two_steps() -> None:
    group = Group(1, 2, 3)
    group.nodes[1].campaign()
    group.settle()
    group.readers[4], group.applied[4] = Reader(), []
    group.nodes[4] = make_node(4, [], group.readers[4], conf_state=([1, 2, 3], [4], [], [], False))
    group.nodes[1].propose_conf_change([(2, 4)])
    group.settle()
    assert group.nodes[1].status().voters == [1, 2, 3]
    group.nodes[1].propose_conf_change([(0, 4), (1, 2)])  # joint, and left by itself
    group.settle()
    assert group.nodes[1].status().voters == [1, 2, 3, 4]
    for _ in range(3):  # the end of it travels with the next heartbeat
        group.nodes[1].tick()
        group.settle()
    assert group.nodes[1].status().voters == [1, 3, 4]
    group.nodes[1].propose([b"x"])
    group.settle()
    assert group.applied[4] == [b"x"] and group.applied[2] == []


def test_old_entries_are_read_back_and_only_those_that_are_on_disk_leave_memory() -> None:
    group = Group(1, 2, 3, window_bytes=0)
    group.nodes[1].campaign()
    group.settle()
    group.cut_off = {3}
    for number in range(5):
        group.nodes[1].propose([b"m%d" % number])
        group.settle()
    group.cut_off = set()
    for _ in range(3):
        group.nodes[1].tick()
        group.settle()
    assert group.applied[3] == [b"m%d" % number for number in range(5)]
    assert group.readers[1].asked


def test_a_follower_too_far_behind_gets_a_snapshot() -> None:
    group = Group(1, 2, 3)
    group.nodes[1].campaign()
    group.settle()
    group.cut_off = {3}
    group.nodes[1].propose([b"a"])
    group.nodes[1].propose([b"b"])
    group.settle()
    group.nodes[1].compact(3)
    assert group.nodes[1].status().first_index == 4
    group.readers[1].given = (3, 1, ([1, 2, 3], [], [], [], False), b"the whole state")
    group.cut_off = set()
    snapshot = None
    for _ in range(3):
        group.nodes[1].tick()
        while ready := group.nodes[1].ready():
            group.nodes[1].on_persist_ready(ready.number)
            for to, _kind, message in ready.messages:
                if to == 3:
                    group.nodes[3].step(message)
                    while third := group.nodes[3].ready():
                        snapshot = third.snapshot or snapshot
                        group.nodes[3].on_persist_ready(third.number)
                        for _to, _kind, answer in third.persisted_messages:
                            group.nodes[1].step(answer)
    assert snapshot == (3, 1, ([1, 2, 3], [], [], [], False), b"the whole state")
    assert group.nodes[3].status().first_index == 4


def test_an_election_timeout_that_was_set_holds() -> None:
    for ticks in (10, 14, 19):
        node = make_node(1, [1, 2, 3])
        node.set_randomized_election_timeout(ticks)
        for _ in range(ticks - 1):
            node.tick()
        assert node.status().role == "follower"
        node.tick()
        assert node.status().role == "pre-candidate"
    with pytest.raises(raft.RaftError, match="between 10 and 19"):
        node.set_randomized_election_timeout(20)


@pytest.mark.parametrize(
    "message",
    [
        b"\xff\xff\xff",
        b"",  # of kind "hup", for nobody
        b"\x08\x63\x10\x01\x18\x02",  # kind 99
        b"\x08\x03\x10\x02\x18\x02",  # for node 2
        b"\x08\x03\x10\x01\x18\x01",  # from this node
        b"\x08\x03\x10\x01\x18\x02\x20\x01\x30\x05\x3a\x04\x10\x01\x18\x09",  # entry 9 behind entry 5
        b"\x08\x03\x10\x01\x18\x02\x20\x01\x3a\x04\x10\x07\x18\x01",  # entry of term 7 in term 1
        b"\x08\x02\x10\x01\x18\x02",  # a proposal
    ],
)
def test_what_is_not_a_message_is_refused_and_the_group_goes_on(message: bytes) -> None:
    node = make_node(1, [1, 2, 3])
    with pytest.raises(raft.RaftError):
        node.step(message)
    assert node.status().role == "follower"


def test_a_panic_stops_one_group_and_nothing_else() -> None:
    node, other = make_node(1, [1, 2, 3]), make_node(1, [1, 2, 3])
    # A heartbeat of term 1 that says index 50 is committed, to a node whose log is empty.
    with pytest.raises(raft.GroupStopped, match="out of range"):
        node.step(b"\x08\x08\x10\x01\x18\x02\x20\x01\x40\x32")
    for call in (node.tick, node.ready, node.status, node.campaign):
        with pytest.raises(raft.GroupStopped, match=r"was stopped: .*out of range"):
            call()
    assert other.status().role == "follower"


def test_a_log_that_cannot_be_read_stops_the_group_with_the_reason() -> None:
    reader = Reader()
    reader.error = OSError("bad sector")
    node = make_node(1, [1], reader, hard_state=(1, 1, 2), last_index=2, terms=[(0, 0), (1, 1)])
    with pytest.raises(raft.GroupStopped, match="bad sector") as stopped:
        node.ready()  # the engine itself takes this for "nothing is committed"
    assert isinstance(stopped.value.__cause__, OSError)
    with pytest.raises(raft.GroupStopped, match="bad sector"):
        node.tick()


@pytest.mark.parametrize("given", [[], [(1, 1, 0, b"a")], [(1, 9, 0, b"a"), (2, 1, 0, b"b")], [(2, 1, 0, b"b")]])
def test_a_reader_that_gives_other_entries_stops_the_group(given: list[Any]) -> None:
    reader = Reader()
    reader.log = given
    facts: dict[str, Any] = {"hard_state": (1, 1, 2), "last_index": 2, "terms": [(0, 0), (1, 1)]}
    node = make_node(1, [1], reader, **facts)
    if given == [(1, 1, 0, b"a")]:  # fewer than asked for are fine
        assert node.ready().committed == given
        return
    with pytest.raises(raft.GroupStopped, match="gave others"):
        node.ready()


def test_a_reader_that_calls_its_own_node_fails_loudly() -> None:
    reader = Reader()
    facts: dict[str, Any] = {"hard_state": (1, 1, 2), "last_index": 2, "terms": [(0, 0), (1, 1)]}
    node = make_node(1, [1], reader, **facts)
    reader.entries = lambda *_: node.status()  # type: ignore[method-assign]
    with pytest.raises(raft.GroupStopped, match="borrowed"):
        node.ready()


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"first_index": 0}, "do not fit together"),
        ({"terms": []}, "do not fit together"),
        ({"last_index": 3, "terms": [(0, 0), (2, 2), (3, 1)], "hard_state": (2, 0, 0)}, "do not fit together"),
        ({"last_index": 3, "terms": [(0, 0), (1, 2)], "hard_state": (1, 0, 0)}, "later term"),
        ({"hard_state": (1, 0, 5)}, "does not reach"),
        ({"applied": 5}, "does not reach"),
        ({"election_tick": 1}, "election tick"),
        ({"id_": 0}, "node id"),
    ],
)
def test_a_log_that_contradicts_itself_is_refused(facts: dict[str, Any], why: str) -> None:
    with pytest.raises(raft.RaftError, match=why):
        make_node(facts.pop("id_", 1), [1], **facts)


def test_what_is_not_committed_cannot_be_applied_or_compacted() -> None:
    node = make_node(1, [1])
    for call in (lambda: node.advance_apply_to(1), lambda: node.compact(1)):
        with pytest.raises(raft.RaftError):
            call()
