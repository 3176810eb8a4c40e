"""A key-value bucket under many clients, with deaths: the short form of the campaign, its controls, and its checker."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns.kv_history import DELETE, KEYS, PUT, READ, Event, History
from campaigns.linearizable import Linearizable

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
async def test_one_order_explains_what_all_clients_saw(tmp_path: Path, encrypted: bool) -> None:
    tried = Linearizable(tmp_path, encrypted=encrypted)
    operations = 150 if encrypted else 400
    found = await tried.run(1, operations=operations)
    assert found.broken == []
    assert len(found.history.events) >= operations and found.watched > 0 and found.own_writes > 0
    assert bool(tried.readable()) is not encrypted


@pytest.mark.parametrize("eager", ["removals", pytest.param("reads", marks=pytest.mark.long)])
async def test_the_checks_find_a_server_that_breaks_it(tmp_path: Path, eager: str) -> None:
    for number in range(8):  # mostly the first or second finds it
        directory = tmp_path / str(number)
        directory.mkdir()
        if (await Linearizable(directory, eager=eager).run(1, operations=400, kill=False)).broken:
            return
    raise AssertionError("nothing was found")


def put(revision: int, began: int, ended: int, value: str = "", expected: int = -1) -> Event:
    return Event(PUT, "k", began, ended, revision, value or f"v{revision}", expected)


def read(revision: int, began: int, ended: int, value: str = "") -> Event:
    return Event(READ, "k", began, ended, revision, value)


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([put(1, 1, 2), read(0, 3, 4)], "found nothing after a put of 1"),
        ([put(1, 1, 2), put(2, 3, 4), read(1, 5, 6, "v1")], "found revision 1 after a put of 2"),
        ([put(1, 1, 2), put(2, 3, 9), read(2, 4, 5, "v2"), read(1, 6, 7, "v1")], "after a read of 2"),
        ([put(2, 5, 9), read(2, 1, 4, "v2")], "before it was written"),
        ([read(2, 1, 4, "other")], "which nobody wrote"),
        ([put(5, 1, 2), put(4, 3, 4)], "a put found revision 4 after a put of 5"),
        ([put(5, 1, 2), put(5, 3, 4, "w")], "given to a second write"),
        ([put(1, 1, 2), put(2, 3, 4), put(3, 5, 6, expected=1)], "came between"),
        ([put(1, 1, 2), Event(KEYS, "", 3, 4)], "is missing from the keys"),
        ([put(1, 1, 2), Event(DELETE, "k", 3, 4), Event(KEYS, "", 5, 6, found=frozenset("k"))], "was deleted"),
    ],
)
def test_the_checker_complains(events: list[Event], complaint: str) -> None:
    assert any(complaint in problem for problem in History(events).check())


@pytest.mark.parametrize(
    "events",
    [
        [put(1, 1, 2), put(2, 3, 0), read(1, 4, 5, "v1"), read(2, 6, 7, "v2")],
        [put(1, 1, 9), read(0, 2, 3), read(1, 4, 5, "v1")],
        [put(1, 1, 2), Event(DELETE, "k", 3, 0), Event(KEYS, "", 4, 5), Event(KEYS, "", 6, 7, found=frozenset("k"))],
        [put(1, 1, 2), put(2, 3, 4, expected=1), put(3, 1, 6)],
    ],
)
def test_the_checker_accepts(events: list[Event]) -> None:
    assert History(events).check() == []
