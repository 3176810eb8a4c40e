"""The meta group's log: it stays short, who is behind gets segments of it, and damage is made good while it runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from errno import EIO, ENOSPC

import msgspec
import pytest

pytest.importorskip("slipstream_raft", reason="the Raft core is not built here: tools/setup_raft.sh")

from slipstream.replication.meta.entries import Assignment, stream_key
from slipstream.testing.sim_disk import SimDisk
from support.meta import assignment
from support.meta_world import DIRECTORY, MetaServer, MetaWorld


def turnover(world: MetaWorld, rounds: int, *, ticks: int = 1) -> dict[str, Assignment]:
    """Streams come, change and go; some stay. What is there in the end."""
    there: dict[str, Assignment] = {}
    for number in range(rounds):
        leader = world.leader()
        name = f"S{number % 9}"
        if name in there and number % 2:
            leader.meta.propose([stream_key("A", name)], lambda _: None)
            del there[name]
        else:
            made = msgspec.structs.replace(assignment(name, max_msgs=number + 1), group=leader.meta.next_group)
            there[name] = made
            leader.meta.propose([made], lambda _: None)
        world.settle()
        for _ in range(ticks if number % 4 == 0 else 0):
            world.tick()
    return there


def segments(server: MetaServer) -> list[str]:
    return [path for path in server.disk.paths() if f"{DIRECTORY}/log/" in path and path.endswith(".seg")]


def streams_of(server: MetaServer) -> dict[str, Assignment]:
    return dict(server.meta.state.account("A").streams)


def test_the_log_does_not_grow_with_what_is_over() -> None:
    world = MetaWorld()
    counts: list[int] = []
    for _ in range(3):
        there = turnover(world, 100)
        for _ in range(40):
            world.tick()
        counts.append(max(len(segments(server)) for server in world.servers.values()))
    assert max(counts) <= 5, counts  # one that is written, two as they were written, and what is in force
    for server in world.servers.values():
        assert server.meta.facts().first_index > 100
        assert streams_of(server) == there
    for server in world.servers.values():
        server.lose_power()
    for server in world.servers.values():
        server.start()
    assert streams_of(world.leader()) == there


@pytest.mark.parametrize("joins", [False, True])
def test_who_is_behind_what_was_cut_gets_segments(joins: bool) -> None:
    world = MetaWorld(members_change=True)
    turnover(world, 20)
    late = next(server for server in world.servers.values() if not server.meta.is_leader)
    if not joins:
        late.kill()
    before = late.meta.facts().last_index
    there = turnover(world, 300)
    for _ in range(60):
        world.tick()
    leader = world.leader()
    assert leader.meta.facts().first_index > before
    if joins:
        late = world.join("d")
    else:
        late.start()
    world.until(lambda: streams_of(late) == there and late.id in leader.meta.votes.voters, 400)
    assert late.meta.facts().first_index > before or joins
    turnover(world, 20)
    world.until(lambda: late.meta.handed_seq == world.leader().meta.handed_seq)
    world.agree()


def crashes(calls: int) -> Iterator[tuple[int, bool]]:
    """After which call of the disk, and whether the power goes with the process."""
    for call in range(1, calls + 1):
        yield call, call % 2 == 0


def on_disks(disks: dict[str, SimDisk]) -> MetaWorld:
    """Servers that are started on copies of these."""
    world = MetaWorld(names=tuple(disks), starts=False)
    for name, disk in disks.items():
        world.servers[name].disk = disk.copy()
        world.servers[name].start()
    world.settle()
    return world


def test_a_crash_at_any_call_of_the_upkeep_costs_nothing() -> None:
    world = MetaWorld(names=("a",))
    there = turnover(world, 60, ticks=0)
    world.servers["a"].kill()
    disks = {"a": world.servers["a"].disk}

    def upkeep(call: int) -> tuple[MetaServer, int]:
        world = on_disks(disks)
        server = world.servers["a"]
        world.leader()
        before = server.disk.calls
        if call:
            server.disk.faults = dict.fromkeys(range(before + call, before + 100_000), EIO)
        for _ in range(25):
            world.tick()
            if call and server.disk.calls > before + call:
                break
        return server, server.disk.calls - before

    server, calls = upkeep(0)
    assert len(segments(server)) < len([path for path in disks["a"].paths() if path.endswith(".seg")])
    assert streams_of(server) == there and calls > 30
    for call, power in crashes(calls):
        server, _ = upkeep(call)
        server.disk.faults = {}
        (server.lose_power if power else server.kill)()
        server.start()
        server.world.leader()
        assert streams_of(server) == there, f"after call {call}"
        assert not any("damaged" in line for line in server.lines), server.lines


def test_a_crash_at_any_call_of_the_catching_up_costs_nothing() -> None:
    world = MetaWorld()
    turnover(world, 20)
    late = next(server for server in world.servers.values() if not server.meta.is_leader)
    late.kill()
    there = turnover(world, 200)
    for _ in range(60):
        world.tick()
    for server in world.servers.values():
        if server.is_up:
            server.kill()
    disks = {name: server.disk for name, server in world.servers.items()}

    def catch_up(call: int) -> tuple[MetaServer, int]:
        world = on_disks(disks)
        server = world.servers[late.name]
        before = server.disk.calls
        if call:
            server.disk.faults = dict.fromkeys(range(before + call, before + 100_000), EIO)
        for _ in range(60):
            world.tick()
            if call and server.disk.calls > before + call:
                break
        return server, server.disk.calls - before

    server, calls = catch_up(0)
    assert streams_of(server) == there and calls > 30
    for call, power in list(crashes(calls))[::5]:
        server, _ = catch_up(call)
        server.disk.faults = {}
        (server.lose_power if power else server.kill)()
        server.start()
        server.world.until(lambda server=server: streams_of(server) == there, 300)  # type: ignore[misc]
        assert not any("damaged" in line for line in server.lines), (call, server.lines)


def spoil(server: MetaServer) -> None:
    """Flip a bit of something that counts, in a segment that is closed."""
    for path in segments(server)[:-1]:
        at = bytes(server.disk.content(path)).find(b'"STAYS"')
        if at >= 0:
            server.disk.content(path)[at + 2] ^= 1
            return
    raise AssertionError("it is in no closed segment")


@pytest.mark.parametrize("leads", [False, True])
def test_damage_that_is_found_while_it_runs_is_made_good(leads: bool) -> None:
    world = MetaWorld(members_change=True)
    leader = world.leader()
    kept = msgspec.structs.replace(assignment("STAYS"), group=leader.meta.next_group)
    leader.meta.propose([kept], lambda _: None)
    there = {**turnover(world, 100), "STAYS": kept}
    for _ in range(60):
        world.tick()
    victim = next(server for server in world.servers.values() if server.meta.is_leader is leads)
    number, lives = victim.id, victim.lives
    spoil(victim)
    world.until(lambda: any("is repaired" in line for line in victim.lines), 3000)
    world.until(lambda: number in world.leader().meta.votes.voters and not world.leader().meta.votes.learners)
    assert victim.lives == lives and victim.id == number
    assert streams_of(victim) == there
    turnover(world, 12)
    world.until(lambda: victim.meta.handed_seq == world.leader().meta.handed_seq)
    assert any(path.startswith(f"{DIRECTORY}/log.damaged/") for path in victim.disk.paths())
    victim.lose_power()
    victim.start()
    world.until(lambda: victim.meta.handed_seq == world.leader().meta.handed_seq)
    assert victim.meta.state.find("A", "STAYS") == kept


@pytest.mark.parametrize("leads", [False, True])
def test_a_full_disk_costs_one_server_while_it_is_full(leads: bool) -> None:
    world = MetaWorld()
    leader = world.leader()
    victim = next(server for server in world.servers.values() if server.meta.is_leader is leads)
    lives = victim.lives
    victim.disk.faults = dict.fromkeys(range(victim.disk.calls, victim.disk.calls + 100_000), ENOSPC)
    if leads:
        leader.meta.propose([msgspec.structs.replace(assignment("S0"), group=leader.meta.next_group)], lambda _: None)
        world.until(lambda: not victim.meta.is_leader)
    world.until(lambda: any(server.meta.is_leader for server in world.servers.values() if server is not victim))
    second = next(server for server in world.servers.values() if server.meta.is_leader)
    done: list[bool] = []
    made = msgspec.structs.replace(assignment("T"), group=second.meta.next_group)
    second.meta.propose([made], done.append)
    world.until(lambda: done == [True])
    said = [line for line in victim.lines if "does not take part" in line]
    assert said and len(set(said)) == len(said)  # each reason once
    victim.disk.faults = {}
    world.until(lambda: victim.meta.state.find("A", "T") == made)
    assert victim.lives == lives


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_to_the_files_of_one_they_agree(seed: int) -> None:
    """Servers die, lose power and have files damaged, one at a time, while streams come and go and logs are cut."""
    world = MetaWorld(seed, members_change=True)
    rng = random.Random(seed)
    for _ in range(3):
        turnover(world, rng.randrange(60))
        world.loss = rng.choice((0.0, 0.05))
        victim = rng.choice([*world.servers.values()])
        (victim.kill if rng.random() < 0.5 else victim.lose_power)()
        turnover(world, rng.randrange(90))
        path = rng.choice([*segments(victim), f"{DIRECTORY}/VOTE", ""])
        if path and rng.random() < 0.3:
            victim.disk.remove(path)
        elif path:
            content = victim.disk.content(path)
            for at in (20, 4116) if path.endswith("VOTE") else (rng.randrange(len(content)),):
                content[at] ^= 1 << rng.randrange(8)
        victim.start()
        world.loss = 0.0
        world.until(
            lambda: all(
                server.meta.handed_seq == world.leader().meta.handed_seq
                and server.id in server.meta.votes.voters
                and not server.meta.votes.learners
                for server in world.servers.values()
            ),
            600,
        )
    there = turnover(world, 9)
    world.until(
        lambda: all(server.meta.handed_seq == world.leader().meta.handed_seq for server in world.servers.values())
    )
    world.agree()
    streams = streams_of(world.leader())
    assert all(streams[name] == made for name, made in there.items())
