"""Exceptions that nobody expected: whatever raises, the stream goes on, everybody is answered, nothing leaks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipstream.errors import ApiError
from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.api.api import open_api
from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.api.subjects import API_SUBSCRIPTIONS
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.ports import AccountLimits
from slipstream.testing.sim_disk import SimDisk
from slipstream.units import SECOND_NS
from support.disk_world import disk_world
from support.jetstream_world import FakePorts, FakeStores, World


def a_world(**facts: Any) -> World:
    """A stream S on a simulated disk, among ports that take exceptions as a server does."""
    w = disk_world(SimDisk(), **facts)
    w.ports.tolerant = True
    w.create("S", subjects=["s.>"])
    return w


def raising(*_args: object, **_kwargs: object) -> Any:
    raise ZeroDivisionError("somebody's mistake")


def is_well(w: World, name: str = "S") -> bool:
    """Whether a stream takes messages and answers, and nothing is left over."""
    ack = w.publish("s.well")
    w.ports.advance(3 * SECOND_NS)
    info = w.api(f"STREAM.INFO.{name}")
    assert ack is not None and "error" not in ack, ack
    assert info["state"]["last_seq"] >= ack["seq"], info
    assert w.dispatcher.load.waiting == 0
    return True


def test_a_callback_that_waited_for_a_commit() -> None:
    w = a_world()
    stream = w.account.streams["S"]
    seen: list[ApiError | None] = []
    stream.after_commit(raising)
    stream.after_commit(seen.append)
    w.ports.settle()
    assert seen == [None]
    assert is_well(w)


@pytest.mark.parametrize("name", ["on_committed", "on_settled", "on_upkeep"])
def test_a_listener_of_the_committer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    w = a_world()
    monkeypatch.setattr(w.account.streams["S"], name, raising)
    assert w.publish("s.a")["seq"] == 1
    w.ports.advance(3 * SECOND_NS)
    assert is_well(w)
    assert all(isinstance(error, ZeroDivisionError) for _, error in w.ports.reported)


@pytest.mark.parametrize("name", ["begin_commit", "finish_commit", "begin_upkeep", "finish_upkeep"])
@pytest.mark.parametrize("sync", [True, False])
def test_a_store_that_raises_is_repaired(name: str, sync: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    w = a_world(sync_always=sync)
    store = w.account.streams["S"].store
    assert w.publish("s.a")["seq"] == 1
    with monkeypatch.context() as patch:
        patch.setattr(type(store), name, raising)
        w.publish("s.b")
        w.ports.advance(3 * SECOND_NS)
    w.ports.advance(3 * SECOND_NS)
    assert is_well(w)
    assert w.state()["messages"] >= 2


def test_an_api_handler_is_answered_for() -> None:
    w = a_world()
    w.dispatcher.register("BROKEN", "broken_response", raising)
    assert w.api("BROKEN")["error"] == {"code": 500, "err_code": 10051, "description": "internal error"}
    assert any("BROKEN" in what for what, _ in w.ports.reported)
    assert is_well(w)


def test_a_call_whose_answer_cannot_be_written() -> None:
    w = a_world()
    w.dispatcher.register("ODD", "odd_response", lambda _: {"what": object()})
    assert w.api("ODD")["error"]["err_code"] == 10051
    assert is_well(w)


def test_a_call_that_nothing_answers_any_more() -> None:
    w = a_world()
    kept: list[ApiRequest] = []
    w.dispatcher.register("LATER", "later_response", lambda request: kept.append(request))
    w.ports.route(b"$JS.API.LATER", b"answer", None, b"")
    w.ports.advance(2 * SECOND_NS)
    assert w.dispatcher.load.waiting == 1  # somebody may still answer
    kept.clear()
    w.ports.advance(2 * SECOND_NS)
    answers = [json.loads(sent[3]) for sent in w.ports.sent if sent[0] == b"answer"]
    assert [answer["error"]["err_code"] for answer in answers] == [10051]
    assert is_well(w)


def test_calls_that_wait_for_a_deleted_stream_free_their_place() -> None:
    w = a_world()
    w.ports.jobs_held = True
    w.ports.route(b"s.a", None, None, b"x")
    w.ports.settle()
    w.ports.route(b"$JS.API.STREAM.DELETE.S", b"gone", None, b"")
    for _ in range(5):
        w.ports.route(b"$JS.API.STREAM.PURGE.S", b"purged", None, b"")
    w.ports.jobs_held = False
    w.ports.settle()
    answers = [sent[0] for sent in w.ports.sent]
    assert answers.count(b"gone") == 1 and answers.count(b"purged") == 5
    assert w.dispatcher.load.waiting == 0


def test_calls_of_one_account_do_not_take_the_places_of_another() -> None:
    w = World(request_queue_limit=3, disk_like=True)
    w.create("S", subjects=["s"])
    other_ports = FakePorts()
    other = JetStreamAccount("B", other_ports, w.account.server, FakeStores(), AccountLimits())
    api = open_api(other)
    for subject in API_SUBSCRIPTIONS:
        other_ports.subscribe(subject.encode(), api.handle)
    w.ports.jobs_held = True
    for number in range(5):
        w.ports.route(b"$JS.API.STREAM.CREATE.N%d" % number, b"made", None, b'{"name":"N%d"}' % number)
    assert w.dispatcher.load.waiting == 3
    other_ports.route(b"$JS.API.STREAM.CREATE.B", b"made", None, b'{"name":"B"}')
    other_ports.settle()
    assert [sent[0] for sent in other_ports.sent] == [b"made"]


def test_a_hook_that_raises_when_a_stream_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    w = a_world()
    w.account.on_stopped.insert(0, raising)
    monkeypatch.setattr(w.account.streams["S"].ingest.batches, "stop", raising)
    assert w.api("STREAM.DELETE.S")["success"] is True
    w.create("S", subjects=["s.>"])
    assert is_well(w)


def test_a_creation_that_breaks_frees_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    w = a_world()
    with monkeypatch.context() as patch:
        patch.setattr(w.account._running, "make", raising)
        assert w.api("STREAM.CREATE.T", {"name": "T", "subjects": ["t"]})["error"]["code"] == 503
    w.create("T", subjects=["t"])
    assert is_well(w, "S")


def test_a_consumer_whose_start_breaks_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    w = a_world()
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    with monkeypatch.context() as patch:
        patch.setattr(Consumer, "start", raising)
        assert w.api("CONSUMER.DURABLE.CREATE.S.C", body)["error"]["err_code"] == 10051
    assert w.api("CONSUMER.INFO.S.C")["error"]["err_code"] == 10014
    assert "error" not in w.api("CONSUMER.DURABLE.CREATE.S.C", body)
    assert is_well(w)
