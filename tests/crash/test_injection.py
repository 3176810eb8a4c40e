"""Raise inside every function of JetStream in turn: no stream stands still, everybody is answered, nothing leaks.

The short form takes some functions of each scenario, spread over all of them; the long one all, several times each.
"""

from __future__ import annotations

from types import CodeType
from unittest.mock import patch

import pytest

from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.stream.commit import committer as commit
from support.injection import Injector, points
from support.injection_world import SCENARIOS, Client, complaints

SHORT_POINTS = 8
CALLS_OF_EACH_LONG = 4


def run(name: str, at: int = -1) -> tuple[Injector, list[str], Client]:
    """A scenario in which one call raises, and what is wrong afterwards."""
    client, injector = Client(), Injector(at)
    injector.run(lambda: SCENARIOS[name](client))
    return injector, complaints(client), client


def calls_of(name: str) -> list[CodeType]:
    """The calls of a scenario, counted when everything that is remembered for a whole process is."""
    run(name)
    return run(name)[0].calls


def failures(name: str, numbers: list[int]) -> list[str]:
    """What went wrong at which call."""
    found = []
    for number in numbers:
        injector, wrong, _ = run(name, number)
        assert injector.raised, f"{name} has no call {number}"
        found += [f"{name}, call {number}, {injector.raised}: {one}" for one in wrong]
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_without_exceptions(name: str) -> None:
    _, wrong, client = run(name)
    assert wrong == []
    assert client.ports.reported == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_exception_in_some_functions(name: str) -> None:
    chosen = points(calls_of(name), 1)
    assert failures(name, chosen[:: max(len(chosen) // SHORT_POINTS, 1)]) == []


def test_an_exception_while_messages_are_being_erased() -> None:
    """Who waits for an erasure is answered although the store counts anew after its repair."""
    calls = calls_of("management")
    numbers = [at for at, code in enumerate(calls) if code is SegmentedLog.drop_caches.__code__]
    assert numbers and failures("management", numbers) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENARIOS)
def test_an_exception_in_every_function(name: str) -> None:
    assert failures(name, points(calls_of(name), CALLS_OF_EACH_LONG)) == []


def without_guard() -> list[str]:
    """What is wrong after an exception in a committer that has no guard."""
    calls = calls_of("publishes")
    number = next(at for at, code in enumerate(calls) if code is commit.Committer._commit.__code__)
    assert failures("publishes", [number]) == []
    with patch.object(commit, "guarded", lambda callback, _failed: callback):
        return failures("publishes", [number])


def test_a_committer_without_its_guard_is_found_out() -> None:
    """The control: what these tests look for is seen when it is there."""
    assert without_guard() != []
