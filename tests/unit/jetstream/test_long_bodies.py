"""Calls with long bodies are read and judged in a thread; when it is their turn, the verdict is that of now."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from slipstream.jetstream.api.dispatch import LONG_BODIES_AT_ONCE, LONG_BODY_BYTES
from slipstream.jetstream.config import precheck
from slipstream.jetstream.config.structs import STREAM_CONFIG_REQUEST, StreamConfig
from support.consumer_world import ConsumerWorld

SUBJECTS = [f"long.{number}.*" for number in range(3_000)]


@pytest.fixture
def world() -> ConsumerWorld:
    world = ConsumerWorld()
    world.stream("S", ["s.>"])
    return world


def _ask(world: ConsumerWorld, subject: str, body: object) -> dict[str, Any]:
    encoded = json.dumps(body).encode()
    assert len(encoded) > LONG_BODY_BYTES
    reply = world.request(f"$JS.API.{subject}", encoded)
    assert reply is not None
    answer: dict[str, Any] = json.loads(reply[1])
    return answer


def test_a_stream_with_many_subjects_comes_changes_and_goes(world: ConsumerWorld) -> None:
    config = {"name": "L", "subjects": SUBJECTS, "storage": "memory"}
    assert _ask(world, "STREAM.CREATE.L", config)["config"]["subjects"] == SUBJECTS
    world.publish("long.2999.a")
    changed = [f"other.{number}" for number in range(3_000)] + SUBJECTS[:10]
    assert _ask(world, "STREAM.UPDATE.L", {**config, "subjects": changed})["config"]["subjects"] == changed
    world.publish("long.9.a")
    world.publish("other.2999")
    assert world.api("STREAM.INFO.L")["state"]["messages"] == 3
    stream = world.account.streams["L"]
    assert list(stream._subscriptions) == [*SUBJECTS[:10], *changed[:-10]]
    assert world.api("STREAM.DELETE.L")["success"]
    assert not stream._subscriptions
    assert not [one for one in world.ports.subscriptions if one.subject.startswith((b"long.", b"other."))]


@pytest.mark.parametrize(
    ("subject", "body", "code"),
    [
        ("STREAM.CREATE.L", {"name": "L", "subjects": [*SUBJECTS, "long.7.*"]}, 10052),
        ("STREAM.CREATE.L", {"name": "L", "subjects": SUBJECTS, "nonsense": 1}, 10025),
        ("STREAM.CREATE.M", {"name": "L", "subjects": SUBJECTS}, 10056),
        ("STREAM.UPDATE.S", {"name": "S", "subjects": [*SUBJECTS, "long.7.*"]}, 10052),
        ("STREAM.UPDATE.L", {"name": "L", "subjects": SUBJECTS}, 10059),
        ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"filter_subjects": SUBJECTS, "x": 1}}, 10025),
        ("STREAM.MSG.GET.S", {"multi_last": SUBJECTS}, 10003),
        ("STREAM.PURGE.S", {"filter": "x" * LONG_BODY_BYTES, "seq": 1, "keep": 1}, 10003),
    ],
)
def test_what_is_wrong_with_them_is_said(world: ConsumerWorld, subject: str, body: object, code: int) -> None:
    assert _ask(world, subject, body)["error"]["err_code"] == code
    assert world.api("INFO")["streams"] == 1


def test_a_verdict_that_has_gone_out_of_date_is_not_used(world: ConsumerWorld) -> None:
    """Between the thread and its turn the origin of a mirror becomes another."""
    account = world.account
    body = json.dumps({"name": "M", "mirror": {"name": "S"}, "max_msg_size": 10}).encode()
    asked = STREAM_CONFIG_REQUEST.decode(body).config()
    verdict = account.checks.precheck(asked, pedantic=False)
    now = precheck.with_level(asked)
    assert verdict.holds_for(now, account.checks.context())
    assert isinstance(verdict.result(), StreamConfig)
    assert not verdict.holds_for(msgspec.structs.replace(now, max_msg_size=11), account.checks.context())
    changed = {**world.api("STREAM.INFO.S")["config"], "max_msg_size": 100}
    assert world.api("STREAM.UPDATE.S", changed)["config"]["max_msg_size"] == 100
    assert not verdict.holds_for(now, account.checks.context())
    outcome: list[object] = []
    with pytest.raises(Exception, match="max message size"):
        account.create_stream(asked, outcome.append, prechecked=verdict)


def test_preparing_may_fail(world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(type(world.account.checks), "precheck", fail)
    assert "error" not in _ask(world, "STREAM.CREATE.L", {"name": "L", "subjects": SUBJECTS, "storage": "memory"})


@pytest.mark.parametrize("subject", ["STREAM.MSG.GET.S", "DIRECT.GET.S"])
def test_they_do_not_pile_up(subject: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends them faster than they are read has to wait for his turn, as for any other work."""
    world = ConsumerWorld()
    world.stream("S", ["s.>"], allow_direct=True)
    jobs: list[tuple[Any, Any]] = []
    monkeypatch.setattr(world.ports, "run_blocking", lambda job, then: jobs.append((job, then)))
    body = json.dumps({"multi_last": SUBJECTS}).encode()
    for _ in range(2):
        world.ports.sent.clear()
        for _ in range(LONG_BODIES_AT_ONCE + 3):
            world.ports.route(f"$JS.API.{subject}".encode(), b"_INBOX.long", None, body)
        world.ports.settle()
        assert len(jobs) == LONG_BODIES_AT_ONCE and len(world.ports.sent) == 3
        for job, then in jobs:
            job()
            then()
        world.ports.settle()
        assert len(world.ports.sent) == LONG_BODIES_AT_ONCE + 3
        jobs.clear()
