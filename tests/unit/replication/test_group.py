"""A member of a group keeps its promises to Raft: what is saved, written and sent, and in which order."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Sequence
from weakref import ref

import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.replica.log import Entry
from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.replication.raft.group import Group

HEARTBEAT_BYTES = 12


class MemoryLog:
    """Entries in a list; `sync` is the disk."""

    def __init__(self) -> None:
        self.held: list[Entry] = []
        self.synced_index = 0
        self.error: StorageFault | None = None
        self.first_index = 1
        self.wanted = 0

    @property
    def last_index(self) -> int:
        return len(self.held)

    def terms(self) -> list[tuple[int, int]]:
        runs = [(0, 0)]
        for index, term, _, _ in self.held:
            if runs[-1][1] != term:
                runs.append((index, term))
        return runs

    def entries(self, low: int, high: int, max_bytes: int) -> Sequence[Entry]:
        return self.held[low - 1 : high - 1]

    def hold(self, index: int) -> None:
        self.wanted = index

    def write(self, entries: Sequence[Entry]) -> None:
        if self.error is not None:
            raise self.error
        for entry in entries:
            del self.held[entry[0] - 1 :]
            self.synced_index = min(self.synced_index, entry[0] - 1)
            self.held.append(entry)

    def sync(self) -> None:
        self.synced_index = self.last_index


class Member:
    """A group with its ports; `happened` is what it did, in order."""

    def __init__(self, world: dict[int, Member], id_: int, voters: Sequence[int], *, saves: bool = True) -> None:
        self.world = world
        self.id = id_
        self.saves = saves  # votes, at once
        self.reopens = False  # its log, in its own time
        self.loses_for = 0  # all for this node but heartbeats
        self.log = MemoryLog()
        self.happened: list[str] = []
        self.sent: deque[tuple[int, bytes]] = deque()
        self.saved: list[Votes] = []
        self.error: Exception | None = None
        world[id_] = self
        self.group = Group(id_, self.log, Votes(voters=list(voters)), self, lambda _: 0, applied=0)

    def send(self, to: int, message: bytes) -> None:
        self.happened.append("sent")
        if to != self.loses_for or len(message) <= HEARTBEAT_BYTES:
            self.sent.append((to, message))

    def save_votes(self, votes: Votes) -> None:
        self.happened.append(f"votes {votes.term} {votes.vote}")
        self.saved.append(votes)
        if self.saves:
            self.group.votes_saved(votes.version)

    def sync_log(self) -> None:
        self.happened.append("sync")

    def committed(self, entries: Sequence[Entry]) -> None:
        self.happened.append(f"committed {entries[-1][0]}")

    def leads(self, term: int) -> None:
        self.happened.append(f"leads {term}")

    def steps_down(self) -> None:
        self.happened.append("steps down")
        if self.reopens:
            self.group.hold()

    def behind(self, to: int) -> None:
        self.happened.append(f"behind {to}")

    def stopped(self, error: Exception) -> None:
        self.error = error

    def rests(self) -> None:
        self.happened.append("rests")

    def wakes(self) -> None:
        self.happened.append("wakes")

    def disk(self) -> None:
        self.log.sync()
        self.group.persisted()


def three() -> dict[int, Member]:
    world: dict[int, Member] = {}
    for id_ in (1, 2, 3):
        Member(world, id_, (1, 2, 3))
    return world


def run(world: dict[int, Member], *, without: Sequence[int] = ()) -> None:
    """Until nobody has anything to say; disks are quick."""
    moved = True
    while moved:
        moved = False
        for member in world.values():
            if member.id not in without and member.log.synced_index < member.log.last_index:
                member.disk()
                moved = True
            while member.sent:
                to, message = member.sent.popleft()
                if to not in without and member.id not in without:
                    moved = True
                    world[to].group.receive(message)


def elect(world: dict[int, Member], id_: int) -> None:
    world[id_].group.campaign()
    run(world)
    assert world[id_].group.is_leader


def test_a_vote_is_saved_before_it_is_asked_for_or_given() -> None:
    world = three()
    one, two = world[1], world[2]
    one.saves = two.saves = False
    one.group.campaign()
    run(world)  # the round that changes nothing needs no disk
    assert one.happened[-1] == "votes 1 1"
    asked = list(one.sent)
    one.group.votes_saved(one.saved[-1].version)
    assert not asked and len(one.sent) == 2
    run(world, without=[3])
    assert two.happened[-1] == "votes 1 1" and not one.group.is_leader
    two.group.votes_saved(two.saved[-1].version)
    run(world)
    assert one.group.is_leader


def test_the_version_of_older_votes_says_nothing() -> None:
    world = three()
    one = world[1]
    one.saves = False
    one.group.campaign()
    run(world)
    one.group.votes_saved(one.saved[-1].version - 1)
    assert not one.sent and not one.group.is_settled


def test_a_leader_begins_when_all_it_has_is_applied() -> None:
    world = three()
    elect(world, 1)
    one = world[1]
    assert one.happened.index("committed 1") < one.happened.index("leads 1")
    assert one.happened.count("leads 1") == 1
    assert not world[2].group.is_leader and world[2].group.leader == 1


def test_a_follower_answers_when_it_is_on_its_disk() -> None:
    world = three()
    elect(world, 1)
    assert world[1].group.propose([b"a", b"b"])
    two = world[2]
    while world[1].sent:
        to, message = world[1].sent.popleft()
        world[to].group.receive(message)
    assert two.log.last_index == 3 and not two.sent and two.happened[-1] == "sync"
    two.disk()
    assert len(two.sent) == 1
    run(world)
    assert {member.group.applied for member in world.values()} == {3}


def test_a_leader_needs_no_disk_of_its_own_to_commit_but_to_apply() -> None:
    world = three()
    elect(world, 1)
    one = world[1]
    one.group.propose([b"a"])
    for member in (world[2], world[3]):
        while one.sent:
            to, message = one.sent.popleft()
            world[to].group.receive(message)
        member.disk()
    for member in (world[2], world[3]):
        while member.sent:
            to, message = member.sent.popleft()
            if to == 1:
                one.group.receive(message)
    assert one.group.applied == 1
    one.disk()
    assert one.group.applied == 2


def test_others_miss_what_is_committed_and_not_what_is_on_its_way() -> None:
    world = three()
    elect(world, 1)
    leader = world[1].group
    assert leader.lags() == {2: 0, 3: 0}
    leader.propose([b"a"])
    assert leader.lags() == {2: 0, 3: 0}
    run(world, without=[3])
    assert leader.lags() == {2: 0, 3: 1}
    assert world[2].group.lags() == {}


def test_who_does_not_lead_cannot_propose() -> None:
    world = three()
    elect(world, 1)
    assert not world[2].group.propose([b"a"])
    assert world[2].log.last_index == 1


def test_a_deposed_leader_lets_go_before_anything_of_another_is_written() -> None:
    world = three()
    elect(world, 1)
    one = world[1]
    one.group.propose([b"lost"])
    one.sent.clear()
    one.disk()
    for _ in range(10):  # the others hear nothing of it any more
        world[2].group.tick()
        world[3].group.tick()
    run(world, without=[1])
    world[2].group.campaign()
    run(world, without=[1])
    assert world[2].group.is_leader and one.log.held[-1][3] == b"lost"
    again = MemoryLog()
    again.held, again.synced_index = list(one.log.held), one.log.last_index
    one.happened.clear()
    one.reopens = True
    world[2].group.tick()
    world[2].group.tick()
    run(world)
    assert "steps down" in one.happened and one.log.held[-1][3] == b"lost"
    one.log = again
    one.group.resume(again)
    run(world)
    assert again.held == world[2].log.held and b"lost" not in [entry[3] for entry in again.held]
    assert one.group.applied == world[2].group.applied


def test_a_transfer_that_fails_ends_and_it_leads_again() -> None:
    world = three()
    elect(world, 1)
    one = world[1]
    one.group.transfer(2)
    assert "steps down" in one.happened and not one.group.propose([b"a"])
    one.sent.clear()  # the other never hears of it
    for _ in range(one.group.settings.election_ticks):
        one.group.tick()
        run(world)
    assert one.happened.count("leads 1") == 1
    one.group.tick()
    assert one.happened.count("leads 1") == 2 and one.group.propose([b"a"])


def test_a_transfer_makes_the_other_lead() -> None:
    world = three()
    elect(world, 1)
    world[1].group.transfer(3)
    run(world)
    assert world[3].group.is_leader and "steps down" in world[1].happened


def test_a_cut_off_leader_steps_down() -> None:
    world = three()
    elect(world, 1)
    for _ in range(40):
        world[1].group.tick()
        world[1].sent.clear()
    assert not world[1].group.is_leader and world[1].happened.count("steps down") == 1


def test_bytes_that_are_no_message_are_dropped() -> None:
    world = three()
    assert not world[1].group.receive(b"\xff" * 20)
    elect(world, 1)


def test_a_log_that_cannot_be_written_stops_the_group() -> None:
    world = three()
    world[2].log.error = StorageFault("broken")
    world[1].group.campaign()
    run(world)
    assert isinstance(world[2].error, StorageFault) and world[2].group.is_stopped
    assert world[1].group.is_leader and world[3].group.leader == 1
    assert not world[2].group.receive(b"") and not world[2].group.propose([b"a"])


def test_files_that_contradict_each_other_are_refused() -> None:
    member = three()[1]
    with pytest.raises(StorageFault, match="contradict"):
        Group(1, member.log, Votes(term=1, commit=5, voters=[1]), member, lambda _: 0, applied=5)


def test_a_membership_is_saved_before_anything_is_said_under_it() -> None:
    world = three()
    elect(world, 1)
    four = Member(world, 4, (1, 2, 3))  # as the group was founded: the rest is in the log
    one = world[1]
    assert one.group.change([("learner", 4)])
    run(world)
    assert one.saved[-1].learners == [4] and one.saved[-1].applied_conf == 2
    assert four.log.held == one.log.held
    assert one.group.change([("voter", 4), ("gone", 3)])
    run(world)
    assert one.saved[-1].outgoing == [1, 2, 3] and sorted(one.saved[-1].voters) == [1, 2, 4]
    assert one.group.change([])
    run(world)
    assert one.saved[-1].outgoing == [] and sorted(four.saved[-1].voters) == [1, 2, 4]


def test_a_leader_keeps_what_members_lack_and_the_core_asks_for_nothing_that_is_gone() -> None:
    world = three()
    elect(world, 1)
    leader = world[1]
    leader.group.propose([b"one", b"two", b"three"])
    run(world, without=[3])
    world[3].sent.clear()
    for member in world.values():
        member.log.wanted = 0
    for _ in range(leader.group.settings.election_ticks):
        leader.group.tick()
        run(world, without=[3])
    assert leader.log.wanted == 2, "the third has the entry of the election, and was heard of lately"
    assert world[2].log.wanted == 0, "a follower does not know"
    leader.log.first_index = 4  # it was not heeded
    leader.log.held[:3] = [(0, 0, 0, b"")] * 3
    for _ in range(2 * leader.group.settings.heartbeat_ticks):
        leader.group.tick()
        run(world)
    assert leader.error is None and "behind 3" in leader.happened
    assert leader.group.propose([b"four"])
    run(world)
    assert world[2].log.last_index == 5


def test_who_got_whole_segments_goes_on_though_the_question_about_it_is_lost() -> None:
    world = three()
    elect(world, 1)
    leader = world[1]
    leader.group.propose([b"one", b"two", b"three"])
    run(world, without=[3])
    leader.log.first_index = 4
    leader.log.held[:3] = [(0, 0, 0, b"")] * 3
    for _ in range(2 * leader.group.settings.heartbeat_ticks):
        leader.group.tick()
        run(world)
    assert "behind 3" in leader.happened and world[3].log.last_index == 1
    world[3].group.stop()
    taker = Member(world, 3, (1, 2, 3))
    taker.log.held = list(world[2].log.held[:4])
    taker.log.first_index = 4
    taker.log.terms = lambda: [(3, 1)]
    taker.log.sync()
    taker.group = Group(3, taker.log, Votes(1, 1, 1, 4, [1, 2, 3]), taker, lambda _: 0, applied=4)
    leader.group.has_taken(3, 4, 1)
    leader.loses_for = 3
    for _ in range(2 * leader.group.settings.heartbeat_ticks):
        leader.group.tick()
        run(world)
    leader.loses_for = 0
    assert leader.group.propose([b"four"])
    for _ in range(2 * leader.group.settings.heartbeat_ticks):
        leader.group.tick()
        run(world)
    assert taker.log.last_index == 5 and taker.error is None


def started_again(world: dict[int, Member], id_: int) -> Member:
    """As a process that finds what the one before has left."""
    old = world[id_]
    again = Member(world, id_, (1, 2, 3))
    again.log = old.log
    again.group = Group(id_, old.log, old.saved[-1], again, lambda _: 0, applied=0)
    return again


def ticks(world: dict[int, Member], count: int, *, without: Sequence[int] = ()) -> None:
    for _ in range(count):
        for member in world.values():
            if member.id not in without:
                member.group.tick()
        run(world, without=without)


def test_who_led_last_asks_first_after_a_start_of_all() -> None:
    world = three()
    elect(world, 1)
    for id_ in (1, 2, 3):
        started_again(world, id_)
    ticks(world, 2)
    assert world[1].group.is_leader


def test_who_led_last_does_not_disturb_another_leader() -> None:
    world = three()
    elect(world, 1)
    world[3].group._random_below = lambda below: below - 1  # the second asks first
    world[3].group._roll()
    ticks(world, 25, without=(1,))
    leader = world[2]
    term = leader.group.term
    assert leader.group.is_leader
    again = started_again(world, 1)
    ticks(world, 8)
    assert leader.group.is_leader and leader.group.term == term and again.group.leader == leader.id


def test_a_group_that_nobody_needs_is_freed() -> None:
    world = three()
    elect(world, 1)
    groups = [ref(member.group) for member in world.values()]
    for member in world.values():
        member.group.stop()
    world.clear()
    del member
    gc.collect()
    assert [group() for group in groups] == [None, None, None]
