"""Long removals take many turns, and in each of them others are served. Turns are counted, not timed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.stream import slices, stream
from slipstream.jetstream.stream.retention import expirer, limit_keeper
from slipstream.jetstream.stream.slices import Slices
from slipstream.units import SECOND_NS
from support.jetstream_world import FakePorts, FakeStores, World

SLICE = 50
MESSAGES = 1_000


class Turns:
    """A world whose turns can be told apart."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.taken = 0

    def one(self) -> None:
        """One turn: a message for the other stream comes in, and everything due at the end of the turn is done."""
        ports = self.world.ports
        ports.route(b"other", b"_INBOX.other.%d" % self.taken, None, b"x")
        soon, ports._soon = ports._soon, []
        for callback in soon:
            callback()
        self.taken += 1
        assert self.answer(f"_INBOX.other.{self.taken - 1}") == {"stream": "OTHER", "seq": self.taken}

    def answer(self, inbox: str) -> Any:
        """What came to an inbox, or None."""
        found = [sent[3] for sent in self.world.ports.sent if sent[0] == inbox.encode()]
        return json.loads(found[0]) if found else None

    def ask(self, subject: str, body: dict[str, Any]) -> Any:
        """Ask, and take turns until the answer is there."""
        self.world.ports.route(f"$JS.API.{subject}".encode(), b"_INBOX.ask", None, json.dumps(body).encode())
        while (answer := self.answer("_INBOX.ask")) is None:
            assert self.taken < 2 * MESSAGES, "it never ends"
            self.one()
        return answer


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Turns]:
    for module in (slices, limit_keeper, expirer):
        monkeypatch.setattr(module, "PURGE_SLICE_MSGS", SLICE)
    monkeypatch.setattr(limit_keeper, "LIMIT_SLICE_MSGS", SLICE)
    monkeypatch.setattr(limit_keeper, "LIMIT_SLICE_SUBJECTS", SLICE)
    world = World()
    world.create("LONG", subjects=["long.*"], storage="memory")
    world.create("OTHER", subjects=["other"], storage="memory")
    for number in range(MESSAGES):
        world.ports.route(f"long.{number % 400}".encode(), None, None, b"x" * 10)
    world.ports.settle()
    yield Turns(world)
    world.account.streams["LONG"].check_invariants()


@pytest.mark.parametrize(
    ("request_body", "left"),
    [
        ({"filter": "long.*"}, 0),
        ({"filter": "long.*", "keep": 7}, 7),
        ({"keep": 3}, 3),
        ({"seq": 900}, 101),
        ({"filter": "long.*", "seq": 900}, 101),
    ],
    ids=str,
)
def test_a_long_purge_lets_others_through(turns: Turns, request_body: dict[str, Any], left: int) -> None:
    answer = turns.ask("STREAM.PURGE.LONG", request_body)
    assert answer["success"] and answer["purged"] == MESSAGES - left
    assert turns.taken >= (MESSAGES - left) // SLICE - 1
    assert turns.world.seqs("LONG") == list(range(MESSAGES - left + 1, MESSAGES + 1))


def test_what_arrives_meanwhile_stays(turns: Turns) -> None:
    world = turns.world
    world.ports.route(b"$JS.API.STREAM.PURGE.LONG", b"_INBOX.purge", None, b'{"filter":"long.*"}')
    turns.one()
    world.ports.route(b"long.1", None, None, b"new")
    world.ports.settle()
    assert turns.answer("_INBOX.purge")["purged"] == MESSAGES
    assert world.seqs("LONG") == [MESSAGES + 1]


def test_a_second_purge_waits_for_the_first(turns: Turns) -> None:
    world = turns.world
    world.ports.route(b"$JS.API.STREAM.PURGE.LONG", b"_INBOX.first", None, b'{"filter":"long.*","keep":100}')
    world.ports.route(b"$JS.API.STREAM.PURGE.LONG", b"_INBOX.second", None, b'{"seq":950}')
    world.ports.settle()
    assert turns.answer("_INBOX.first")["purged"] == 900
    assert turns.answer("_INBOX.second")["purged"] == 49
    assert world.seqs("LONG") == list(range(950, 1001))


@pytest.mark.parametrize(
    ("limit", "left"), [({"max_msgs": 5}, 5), ({"max_bytes": 1000}, 29), ({"max_msgs_per_subject": 1}, 400)], ids=str
)
def test_tighter_limits_are_answered_when_they_hold(turns: Turns, limit: dict[str, int], left: int) -> None:
    config = {"name": "LONG", "subjects": ["long.*"], "storage": "memory", **limit}
    state = turns.ask("STREAM.UPDATE.LONG", config)["state"]
    assert state["messages"] == left == turns.world.state("LONG")["messages"]
    assert turns.taken >= 7


def test_age_is_enforced_in_slices(turns: Turns) -> None:
    world = turns.world
    world.ports.advance(10 * SECOND_NS)
    config = {"name": "LONG", "subjects": ["long.*"], "storage": "memory", "max_age": SECOND_NS}
    world.ports.route(b"$JS.API.STREAM.UPDATE.LONG", None, None, json.dumps(config).encode())
    while world.account.streams["LONG"].store.messages:
        assert turns.taken < MESSAGES
        turns.one()
    assert turns.taken >= MESSAGES // SLICE - 1


def test_a_stream_that_goes_answers_the_purge(turns: Turns) -> None:
    world = turns.world
    world.ports.route(b"$JS.API.STREAM.PURGE.LONG", b"_INBOX.purge", None, b'{"filter":"long.*"}')
    assert world.api("STREAM.DELETE.LONG")["success"]
    assert turns.answer("_INBOX.purge") is not None
    world.create("LONG", subjects=["long.*"])


def test_a_purge_does_not_run_ahead_of_its_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one commit removes leaves the index in one go: that must not be everything."""
    monkeypatch.setattr(slices, "PURGE_SLICE_MSGS", SLICE)
    monkeypatch.setattr(stream, "PURGE_WAITING_MSGS", 2 * SLICE)
    world = World(stores=FakeStores(disk_like=True))
    world.create("LONG", subjects=["long.*"])
    for number in range(MESSAGES):
        world.ports.route(b"long.%d" % number, None, None, b"x")
    world.ports.settle()
    store, ports = world.account.streams["LONG"].store, world.ports
    ports.route(b"$JS.API.STREAM.PURGE.LONG", b"_INBOX.purge", None, b'{"filter":"long.*"}')
    most = 0
    while not [sent for sent in ports.sent if sent[0] == b"_INBOX.purge"]:
        for _ in range(5):  # turns that a sync takes
            soon, ports._soon = ports._soon, []
            for callback in soon:
                callback()
            most = max(most, store.assigned.removals.messages)
        before = store.messages
        assert before - store.assigned.removals.messages == store.assigned.messages
        ports.run_jobs()
        assert before - store.messages <= 3 * SLICE
    assert 2 * SLICE <= most <= 3 * SLICE
    assert store.messages == 0


class TestSlices:
    """The runner itself."""

    def test_a_fault_later_on_ends_the_work_and_is_told(self) -> None:
        ports: Ports = FakePorts()  # type: ignore[assignment]
        told: list[StorageFault | None] = []
        pieces = iter([False, StorageFault("broken")])

        def work() -> bool:
            piece = next(pieces)
            if isinstance(piece, StorageFault):
                raise piece
            return piece

        runner = Slices(ports)
        runner.run(work, told.append)
        order: list[str] = []
        runner.after(lambda: order.append("after"))
        assert runner.busy and not order
        ports.settle()  # type: ignore[attr-defined]
        assert not runner.busy and order == ["after"]
        (fault,) = told
        assert fault is not None and fault.text == "broken"

    def test_a_fault_in_the_first_slice_is_the_callers(self) -> None:
        def work() -> bool:
            raise StorageFault("broken")

        runner = Slices(FakePorts())  # type: ignore[arg-type]
        with pytest.raises(StorageFault):
            runner.run(work, lambda _: None)
        assert not runner.busy
