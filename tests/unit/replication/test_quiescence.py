"""Who rests, who is told, and what wakes: without Raft."""

from __future__ import annotations

from collections.abc import Callable, Collection

from slipstream.replication.raft.groups import Batch, Groups
from slipstream.replication.raft.quiescence import RestPoint

POINT = RestPoint(2, 9)


class Idle:
    """A member that has nothing to do, and says so with every tick."""

    def __init__(self, server: Server, group: int, leader: int) -> None:
        self.server = server
        self.group = group
        self.leader = leader
        self.point: RestPoint | None = POINT
        self.ticks = 0
        self.rests = False

    def tick(self) -> None:
        self.ticks += 1

    def receive(self, message: bytes) -> bool:
        self.wake()
        return True

    def unreachable(self, node: int) -> None:
        pass

    def rest_point(self, without: Collection[int]) -> RestPoint | None:
        return self.point if self.server.id == self.leader else None

    def others(self) -> Collection[int]:
        return {1, 2, 3} - {self.server.id}

    def is_majority(self, nodes: Collection[int]) -> bool:
        return len(nodes) > 0

    def may_rest(self, leader: int, point: RestPoint) -> bool:
        return leader == self.leader and point == self.point

    def rest(self) -> None:
        self.rests = True

    def wake(self) -> None:
        if self.rests:
            self.rests = False
            self.server.groups.awake(self.group)


class Server:
    """One of three; what they send arrives when the test says so."""

    def __init__(self, world: dict[int, Server], id_: int) -> None:
        self.id = id_
        self.world = world
        self.down = False
        self.sent: list[tuple[int, Batch]] = []
        self.turn: list[Callable[[], None]] = []
        self.groups = Groups(self, self.turn.append)
        self.members: list[Idle] = []

    def send(self, to: int, batch: Batch) -> bool:
        self.sent.append((to, list(batch)))
        return True

    def add(self, group: int, leader: int) -> Idle:
        member = Idle(self, group, leader)
        self.groups.add(group, member, quiescent=member)
        self.members.append(member)
        return member


def three(groups: int = 1) -> dict[int, Server]:
    """Node 1 leads all of them."""
    world: dict[int, Server] = {}
    for id_ in (1, 2, 3):
        world[id_] = Server(world, id_)
    for group in range(10, 10 + groups):
        for server in world.values():
            server.add(group, leader=1)
    return world


def run(world: dict[int, Server]) -> int:
    """Until nothing is on its way; how many messages there were."""
    count = 0
    while any(server.turn or server.sent for server in world.values()):
        for server in world.values():
            while server.turn:
                server.turn.pop(0)()
            sent, server.sent = server.sent, []
            for to, batch in sent:
                count += len(batch)
                if not world[to].down and not server.down:
                    world[to].groups.received(server.id, batch)
    return count


def tick(world: dict[int, Server], times: int = 1) -> int:
    count = 0
    for _ in range(times):
        for server in world.values():
            if not server.down:
                server.groups.tick()
        count += run(world)
    return count


def resting(world: dict[int, Server]) -> list[int]:
    return [server.groups.resting for server in world.values()]


def test_idle_groups_rest_and_cost_one_beat_a_pair() -> None:
    world = three(groups=250)
    tick(world)
    assert resting(world) == [250, 250, 250]
    before = [member.ticks for server in world.values() for member in server.members]
    assert tick(world, 20) == 4 * 10  # node 1 and each of the others, both ways, every second tick
    assert before == [member.ticks for server in world.values() for member in server.members]


def test_one_that_is_not_there_yet_keeps_its_leader_awake() -> None:
    world = three()
    world[3].members[0].point = RestPoint(2, 8)
    tick(world)
    assert resting(world) == [0, 1, 0]  # the leader's next word wakes the second
    world[3].members[0].point = POINT
    tick(world)
    assert resting(world) == [1, 1, 1]


def test_an_answer_counts_only_for_what_was_asked() -> None:
    world = three()
    world[1].groups.tick()
    world[1].members[0].point = RestPoint(2, 10)  # something was published meanwhile
    run(world)
    assert world[1].groups.resting == 0


def test_a_message_wakes_its_group_alone() -> None:
    world = three(groups=2)
    tick(world)
    world[2].groups.received(1, [(10, b"\0x")])
    assert world[2].groups.resting == 1
    world[2].groups.tick()
    assert [member.ticks for member in world[2].members] == [2, 1]


def test_silence_wakes_and_so_does_a_broken_link() -> None:
    world = three()
    tick(world)
    world[1].down = True
    tick(world, 4)
    assert resting(world)[1:] == [1, 1]
    world[2].groups.peer_down(1)
    assert resting(world)[1:] == [0, 1]
    tick(world)
    assert resting(world)[1:] == [0, 0]


def test_a_group_rests_without_a_server_that_is_lost_and_wakes_when_it_is_back() -> None:
    world = three()
    world[3].down = True
    for id_ in (1, 2):
        world[id_].groups.peer_down(3)
    tick(world)
    assert resting(world)[:2] == [1, 1]
    tick(world, 10)
    assert resting(world)[:2] == [1, 1]
    world[1].groups.peer_up(3)
    assert world[1].groups.resting == 0


def test_nobody_rests_without_a_majority() -> None:
    world = three()
    for id_ in (2, 3):
        world[id_].down = True
        world[1].groups.peer_down(id_)
    tick(world)
    assert world[1].groups.resting == 0


def test_a_leader_that_ends_says_so() -> None:
    world = three()
    tick(world)
    world[1].groups.remove(10)
    run(world)
    assert resting(world) == [0, 0, 0]


def test_servers_that_disagree_about_who_rests_wake() -> None:
    world = three(groups=2)
    tick(world)
    world[1].groups.remove(10)
    world[1].turn.clear()  # ... and what it says about that is lost
    world[1].groups._out.clear()
    tick(world, 8)
    assert resting(world)[1:] == [2, 2]
    for member in world[1].members:
        member.point = None  # what is awake stays so
    tick(world, 4)
    assert resting(world) == [0, 0, 0]


def test_many_groups_are_ticked_in_slices() -> None:
    world = three(groups=250)
    server = world[2]
    for member in server.members:
        member.point = None
    server.groups.tick()
    assert sum(member.ticks for member in server.members) == 100
    server.groups.tick()  # the first one is not over: nothing is made up for
    while server.turn:
        server.turn.pop(0)()
    assert {member.ticks for member in server.members} == {1}
