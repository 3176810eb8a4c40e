"""The first members of a cluster: agreed on once, whatever happens."""

from __future__ import annotations

import pytest

from support.founding_world import Founder, FoundingWorld

THREE = ["a", "b", "c"]


def troubled(seed: int, *, size: int, forgetful: bool = False, steps: int = 250) -> FoundingWorld:
    """Servers that meet in any order, one more than there should be."""
    world = FoundingWorld(seed, ["a", "b", "c", "d"][: size + 1], size, forgetful=forgetful)
    world.loss = world.rng.choice((0.0, 0.1, 0.4))
    for one in world.founders.values():
        for other in world.founders.values():
            if one.name < other.name and world.rng.random() < 0.5:
                world.part(one, other)
        one.meet_all()
    for _ in range(steps):
        world.step()
    return world


def test_servers_that_see_each_other_found_a_cluster() -> None:
    world = FoundingWorld(1, THREE, 3)
    world.settle()
    charters = [one.charters for one in world.founders.values()]
    assert charters[0] and charters.count(charters[0]) == 3
    assert charters[0][0].members == THREE


def test_nobody_founds_before_all_are_there() -> None:
    world = FoundingWorld(1, ["a", "b"], 3)
    world.settle()
    assert all(not one.charters and not one.troubles for one in world.founders.values())


@pytest.mark.parametrize("size", [2, 3])
def test_no_server_is_ever_in_two_clusters(size: int) -> None:
    for seed in range(300):
        assert not troubled(seed, size=size).conflicts(), seed


def test_whatever_happened_before_three_servers_get_together() -> None:
    for seed in range(150):
        world = FoundingWorld(seed, THREE, 3)
        world.loss = 0.3
        for one in world.founders.values():
            one.meet_all()
        for _ in range(120):
            world.step()
        world.settle()
        assert all(one.charters for one in world.founders.values()), seed
        assert not world.conflicts(), seed


def test_a_promise_that_is_not_kept_on_disk_is_noticed() -> None:
    assert any(troubled(seed, size=2, forgetful=True).conflicts() for seed in range(300))


def test_a_founded_server_goes_on_alone() -> None:
    world = FoundingWorld(1, THREE, 3)
    world.settle()
    one = next(iter(world.founders.values()))
    one.charters.clear()
    one.restart()
    assert [charter.members for charter in one.charters] == [THREE]


@pytest.mark.parametrize("name", THREE)
def test_a_server_that_lost_its_store_is_another_member(name: str) -> None:
    world = FoundingWorld(1, THREE, 3)
    world.settle()
    wiped = world.founders[name]
    before, founded = wiped.node.id, wiped.charters
    wiped.disk, wiped.charters = None, []
    wiped.restart()
    world.settle()
    assert wiped.charters == founded and before in founded[0].voters
    assert wiped.node.id not in founded[0].voters and not wiped.troubles


def test_a_server_that_lost_its_store_before_the_cluster_was_founded_is_told() -> None:
    world = FoundingWorld(1, THREE, 3)
    for one in world.founders.values():
        one.meet_all()
    wiped = world.founders["c"]
    while world.founders["a"].founding.charter is None:
        for sender, to, message in [world.mail.pop(0) for _ in range(len(world.mail))]:
            world.founders[to].founding.receive(sender, message)
        world.founders["a"].founding.tick(1)
    world.founders["a"].sync()
    wiped.disk = None
    wiped.restart()
    world.settle()
    assert not any(one.charters for one in world.founders.values()) and "empty the stores" in wiped.troubles[-1]


def test_a_server_that_comes_later_takes_the_charter_over() -> None:
    world = FoundingWorld(1, THREE, 3)
    world.settle()
    world.founders["d"] = Founder(world, "d")
    world.settle()
    assert world.founders["d"].charters == world.founders["a"].charters
    assert world.founders["d"].node.id not in world.founders["a"].charters[0].voters


def test_more_servers_than_configured_are_refused() -> None:
    world = FoundingWorld(1, ["a", "b", "c", "d"], 3)
    world.settle()
    assert all(not one.charters and "same routes" in one.troubles[-1] for one in world.founders.values())


def test_what_makes_no_sense_is_dropped() -> None:
    world = FoundingWorld(1, THREE, 3)
    one, two = list(world.founders.values())[:2]
    for data in (b"", b"\x93\x00\x01", b"\xff" * 20):
        one.founding.receive(two.name, data)
    assert not one.founding.near
    two.founding.peer_up(one.name)
    _, _, hello = world.mail[-1]
    one.founding.receive("d", hello)  # from somebody else than it says
    assert not one.founding.near
