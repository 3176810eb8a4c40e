"""Every state a power cut could leave, at every call to the disk, over all that a store does to its files.

Short form: a few images a call, and of sealed files not at every call. Long form (`-m long`): many more, over many
seeds.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import store as store_module
from slipstream.jetstream.store.file.repair import Repair
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES
from slipstream.testing.sim_disk import SimDisk
from support.sealing import both_forms, is_sealed
from support.store_history import Broken, Driver, reopen, watch

at_rest = both_forms()


def appending(driver: Driver) -> None:
    """Commits of different sizes, over several segments."""
    for count in (1, 3, 1, 40, 2, 80, 1):
        driver.append(count)
        driver.commit()
        driver.upkeep()


def rolling(driver: Driver) -> None:
    """One commit that fills several segments at once."""
    driver.append(2)
    driver.commit()
    driver.append(300)
    driver.commit()
    driver.upkeep()
    driver.append(1)
    driver.commit()


def compacting(driver: Driver) -> None:
    """Deletes until segments are rewritten and merged."""
    for _ in range(3):
        driver.append(100)
        driver.commit()
    for seq in range(1, 290):
        if seq % 9:
            driver.delete(seq)
    driver.commit()
    driver.upkeep()
    driver.commit()
    driver.upkeep()
    driver.append(5)
    driver.delete(9)
    driver.commit()
    driver.upkeep()
    assert any(".0001.seg" in path for path in driver.disk.paths()), "the scenario must rewrite a segment"


def purging(driver: Driver) -> None:
    """Purge by filter, by sequence and of everything, and going on."""
    driver.append(150)
    driver.commit()
    driver.purge(b"s.1")
    driver.commit()
    driver.purge(b"s.2", keep=2)
    driver.append(5)
    driver.commit()
    driver.trim(60)
    driver.commit()
    driver.upkeep()
    driver.purge()
    driver.commit()
    driver.upkeep()
    driver.append(5)
    driver.commit()
    driver.upkeep()
    assert not any("0000000001." in path for path in driver.disk.paths()), "the scenario must remove a segment"


def emptying(driver: Driver) -> None:
    """A few messages are purged, with what is published beside it in the same commit, and again: sealed keys go."""
    driver.append(4)
    driver.journal(lambda store: store.journal.put(b"c1", b"state"))
    driver.commit()
    driver.purge()
    driver.append(2)
    driver.commit()
    driver.upkeep()
    driver.purge()
    driver.commit()
    driver.upkeep()
    driver.append(1)
    driver.commit()
    driver.upkeep()
    segments = [path for path in driver.disk.paths() if path.endswith(".seg")]
    assert not is_sealed() or (len(segments) == 1 and "0000000001." not in segments[0])


def erasing(driver: Driver) -> None:
    """Overwriting in the open segment, in closed ones, and in the commit that stored the message."""
    driver.append(120)
    driver.commit()
    driver.upkeep()
    driver.erase(3)
    driver.erase(119)
    driver.append(2)
    driver.erase(122)
    driver.commit()
    driver.upkeep()
    driver.erase(50)
    driver.commit()
    driver.append(1)
    driver.commit()
    driver.upkeep()


def configuring(driver: Driver) -> None:
    """New configurations and consumer states between messages."""
    driver.journal(lambda store: store.journal.put(b"c1", b"first"))
    driver.append(3)
    driver.commit()
    driver.set_config(b"second configuration")
    driver.journal(lambda store: store.journal.add(b"c1", b"+1"))
    driver.commit()
    driver.upkeep()
    driver.journal(lambda store: store.journal.put(b"c2", b"x" * 200))
    driver.set_config(b"third configuration")
    driver.append(60)
    driver.commit()
    driver.journal(lambda store: store.journal.remove(b"c1"))
    driver.commit()
    driver.upkeep()


def uniting(driver: Driver) -> None:
    """Units that survive whole or not at all."""
    driver.append(2)
    driver.commit()
    driver.unit(5)
    driver.commit()
    driver.append(1)
    driver.unit(30)
    driver.append(1)
    driver.commit()
    driver.unit(3)
    driver.unit(3)
    driver.commit()


def uniting_over_segments(driver: Driver) -> None:
    """Units written in several commits, over several segments, with other changes between; one is given up."""
    driver.append(30)
    driver.unit(20, 90, 150, 10)
    driver.commit()
    driver.upkeep()
    driver.append(3)
    driver.unit(5, 200, aborted=True)
    driver.append(4)
    driver.commit()
    driver.upkeep()
    numbers = sorted({int(path.split("/")[-1][:10]) for path in driver.disk.paths() if path.endswith(".seg")})
    assert numbers != list(range(1, numbers[-1] + 1)), "the scenario must drop a segment"
    driver.unit(100, 100, between=lambda: driver.delete(7))
    driver.delete(8)
    driver.unit(2)
    driver.commit()
    driver.upkeep()
    driver.unit(3, 3)
    driver.set_config(b"another")
    driver.append(80)
    driver.unit(3, aborted=True)
    driver.append(1)
    driver.commit()
    driver.upkeep()


def interleaving(driver: Driver) -> None:
    """Removals, erasures and messages while segments are indexed, rewritten and removed."""
    driver.append(160)
    driver.commit()
    for seq in range(1, 150):
        if seq % 3:
            driver.delete(seq)
    driver.commit()
    driver.upkeep_around(lambda: driver.append(1), turns=5)
    doomed = iter(range(3, 150, 3))

    def change() -> None:
        driver.delete(next(doomed))
        driver.erase(next(doomed))
        driver.append(2)

    driver.upkeep_around(change, turns=12)
    driver.commit()
    driver.upkeep()
    driver.commit()
    assert driver.store.erasing == 0 and len(driver.erased) == 24
    assert any(".0001.seg" in path for path in driver.disk.paths()), "the scenario must rewrite a segment"


SCENARIOS: dict[str, Callable[[Driver], None]] = {
    f.__name__: f
    for f in (
        appending,
        rolling,
        compacting,
        purging,
        emptying,
        erasing,
        configuring,
        uniting,
        uniting_over_segments,
        interleaving,
    )
}


def enumerate_states(
    scenario: Callable[[Driver], None],
    *,
    images: int,
    seed: int,
    drops_syncs: bool = False,
    double_faults: float = 0.1,
    chained: bool = False,
    calls: float = 1.0,
) -> int:
    """Run a scenario and check the states; how many there were."""
    disk = SimDisk()
    driver: Driver | None = None
    checked = watch(lambda: driver, disk, images=images, seed=seed, double_faults=double_faults, calls=calls)
    driver = Driver(disk, chained=chained)
    disk.drops_syncs = drops_syncs  # from here on, so that the stream itself is there to lose something from
    scenario(driver)
    for state in (disk.crash(random.Random(seed), keep=k, torn=True) for k in (0.0, 0.5, 1.0)):
        driver.check(state)
        checked[0] += 1
    return checked[0]


SEALED = {"compacting": 0.5, "erasing": 0.6, "purging": 0.6, "uniting_over_segments": 0.3, "interleaving": 0.2}
"""Of the calls that are looked at in the short form where frames are sealed: an erasure has ten calls more there."""

CHAINED = {"compacting": 0.5, "uniting_over_segments": 0.4, "interleaving": 0.4}
"""The same where messages are chained, which makes each look longer."""


def share_of_calls(name: str, *, chained: bool) -> float:
    return (SEALED.get(name, 1.0) if is_sealed() else 1.0) * (CHAINED.get(name, 1.0) if chained else 1.0)


@pytest.mark.parametrize("name", SCENARIOS)
def test_crash_states(name: str) -> None:
    assert enumerate_states(SCENARIOS[name], images=1, seed=1, calls=share_of_calls(name, chained=False)) > 20


@pytest.mark.parametrize("name", SCENARIOS)
def test_crash_states_of_a_chained_stream(name: str) -> None:
    """A power cut is never taken for tampering, and what was committed is in the chain."""
    calls = share_of_calls(name, chained=True)
    assert enumerate_states(SCENARIOS[name], images=1, seed=2, chained=True, calls=calls) > 20


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", range(10))
def test_crash_states_of_a_chained_stream_long(name: str, seed: int) -> None:
    assert enumerate_states(SCENARIOS[name], images=12, seed=seed, double_faults=0.5, chained=True) > 100


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", range(10))
def test_crash_states_long(name: str, seed: int) -> None:
    assert enumerate_states(SCENARIOS[name], images=12, seed=seed, double_faults=0.5) > 100


def test_a_unit_whose_end_is_torn_in_front_of_something_whole() -> None:
    """The rest of the unit begins a segment and is lost, what came after it in the same commit is there."""
    disk = SimDisk()
    driver = Driver(disk)
    driver.append(1)
    driver.commit()
    driver.append(1)
    driver.unit(40)
    driver.append(1)
    driver.commit()
    first, second = sorted(path for path in disk.paths() if path.endswith(".seg"))
    assert int(first.split("/")[-1][:10]) + 1 == int(second.split("/")[-1][:10]), "the scenario must fill a segment"
    content = disk.content(second)
    rest = HEADER_BYTES + int.from_bytes(content[HEADER_BYTES + 4 : HEADER_BYTES + 8], "little")  # after what is local
    behind = rest + int.from_bytes(content[rest + 4 : rest + 8], "little")
    content[HEADER_BYTES:behind] = bytes(behind - HEADER_BYTES)
    store = reopen(disk, segment_bytes=driver.segment_bytes)
    assert driver.present(store) == {1, 2}


@pytest.mark.parametrize("name", ["appending", "rolling", "uniting", "configuring"])
def test_the_checker_notices_syncs_that_do_nothing(name: str) -> None:
    """The control: on a disk that only pretends to sync, the same checks must find the loss itself."""
    with pytest.raises(Broken, match="acknowledged and lost"):
        enumerate_states(SCENARIOS[name], images=2, seed=3, drops_syncs=True, double_faults=0)


@pytest.mark.parametrize("name", ["appending", "configuring"])
def test_the_checker_notices_what_is_served_before_it_is_safe(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of double faults: a start that does not make sure of what it read."""
    monkeypatch.setattr(Repair, "_make_durable", lambda *_: None)
    with pytest.raises(Broken, match="served after a start"):
        enumerate_states(SCENARIOS[name], images=0, seed=3, double_faults=1)


def test_the_checker_notices_directories_that_are_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of volatile directories: a stream in a directory that nobody made sure of."""
    monkeypatch.setattr(store_module, "make_dirs", lambda disk, path, **_: disk.make_dir(path))
    with pytest.raises(StorageFault, match="neither a manifest nor a segment"):
        enumerate_states(appending, images=0, seed=3, double_faults=0)


CHANGES: dict[str, tuple[Callable[[Driver], None], str]] = {
    "delete": (lambda driver: driver.delete(7), "removed and back again"),
    "purge": (lambda driver: driver.purge(), "removed and back again"),
    "erase": (lambda driver: driver.erase(7), "removed and back again"),
    "config": (lambda driver: driver.set_config(b"second"), "configuration lost"),
    "journal": (lambda driver: driver.journal(lambda store: store.journal.put(b"c", b"s")), "consumer state lost"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_checker_notices_a_change_that_was_not_synced(name: str) -> None:
    """The control for everything that is not a message: the messages are safe, the commit of the change is not."""
    change, found = CHANGES[name]
    disk = SimDisk()
    driver = Driver(disk)
    driver.append(30)
    driver.commit()
    disk.drops_syncs = True
    change(driver)
    driver.commit()
    with pytest.raises(Broken, match=found):
        driver.check(disk.crash(random.Random(1), keep=0.0, torn=False))
