"""STREAM.TRUNCATE: the newest messages go, their sequences with them; refused where somebody has seen them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipstream.jetstream.stream.retention import truncation
from slipstream.jetstream.stream.retention.holds import Hold
from slipstream.testing.sim_disk import SimDisk
from support.consumer_world import SECOND_NS, ConsumerWorld
from support.disk_world import disk_world


def world(count: int = 10, **config: Any) -> ConsumerWorld:
    made = ConsumerWorld()
    made.stream(**config)
    made.fill(count)
    return made


def truncate(w: Any, **body: Any) -> Any:
    answer = w.api("STREAM.TRUNCATE.S", body)
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_truncate_response"
    return answer


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ({"after_seq": 4}, [1, 2, 3, 4]),
        ({"after_seq": 0}, []),
        ({"newest": 3}, [1, 2, 3, 4, 5, 6, 7]),
        ({"newest": 99}, []),
    ],
)
def test_what_goes(body: dict[str, int], left: list[int]) -> None:
    w = world()
    answer = truncate(w, **body)
    assert answer["success"] and answer["truncated"] == 10 - len(left)
    assert (answer["first_seq"], answer["last_seq"]) == (len(left) + 1, 10)
    assert w.seqs() == left
    state = w.state()
    assert state["last_seq"] == 10 and state["messages"] == len(left)
    w.fill(1)
    assert w.seqs() == [*left, 11]
    w.check()


@pytest.mark.parametrize(
    "body", [{"after_seq": 10}, {"after_seq": 99}, {"newest": 0}, {"after_time": "2100-01-01T00:00:00Z"}]
)
def test_nothing_goes(body: dict[str, Any]) -> None:
    w = world()
    assert truncate(w, **body)["truncated"] == 0
    assert len(w.seqs()) == 10


def test_after_a_time() -> None:
    w = world(3)
    at = w.api("STREAM.MSG.GET.S", {"seq": 3})["message"]["time"]
    w.ports.advance(SECOND_NS)
    w.fill(2)
    assert truncate(w, after_time=at)["truncated"] == 2
    assert w.seqs() == [1, 2, 3]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, 30102),
        ({"newest": 1, "after_seq": 1}, 30102),
        ({"newest": -1}, 30102),
        ({"newest": 1, "colour": "red"}, 10025),
        ({"after_time": "noon"}, 10025),
        ({"after_seq": "1"}, 10025),
    ],
)
def test_what_is_not_understood_is_refused(body: dict[str, Any], code: int) -> None:
    w = world()
    assert truncate(w, **body)["error"]["err_code"] == code
    assert len(w.seqs()) == 10


def test_a_stream_that_denies_purges_is_left_alone() -> None:
    w = world(deny_purge=True)
    assert truncate(w, newest=1)["error"]["description"] == "stream purge not permitted"


def test_what_was_delivered_stays_unless_forced() -> None:
    w = world()
    w.add()
    messages = w.pull(5).messages()
    assert truncate(w, after_seq=5)["truncated"] == 5
    answer = truncate(w, after_seq=4)
    assert answer["error"]["err_code"] == 30103 and answer["error"]["description"].endswith("delivered: by C")
    w.ack(messages[4])
    assert truncate(w, after_seq=4)["error"]["err_code"] == 30103
    assert truncate(w, after_seq=3, force=True)["truncated"] == 2
    assert w.numbers()[2:] == (3, 0, 0)
    w.fill(1)
    assert w.pull(1).seqs() == [11]
    w.check()


def test_a_consumer_of_other_subjects_does_not_mind() -> None:
    w = world(3)
    w.fill(1, "s.b")
    w.fill(2)
    w.add(filter_subject="s.b")
    w.pull(1)
    assert truncate(w, after_seq=4)["truncated"] == 2
    assert truncate(w, after_seq=3)["error"]["err_code"] == 30103


def test_who_is_offline_may_have_delivered() -> None:
    w = world()
    w.consumers().offline["old"] = "unsupported"
    assert "by old" in truncate(w, newest=1)["error"]["description"]


def test_a_hold_is_respected() -> None:
    w = world()
    w.account.streams["S"].holds.put(Hold("reader", 1, w.ports.now_ns() + 60 * SECOND_NS))
    assert truncate(w, newest=1)["error"]["err_code"] == 30104
    assert truncate(w, newest=1, force=True)["truncated"] == 1


def test_an_advisory_follows() -> None:
    w = world()
    heard: list[Any] = []
    w.ports.subscribe(b"$JS.EVENT.ADVISORY.STREAM.TRUNCATED.S", lambda *message: heard.append(json.loads(message[3])))
    truncate(w, newest=2)
    w.ports.settle()
    (advisory,) = heard
    assert advisory["type"] == "io.nats.jetstream.advisory.v1.stream_truncated"
    assert {key: advisory[key] for key in ("stream", "first_seq", "last_seq", "messages", "forced")} == {
        "stream": "S",
        "first_seq": 9,
        "last_seq": 10,
        "messages": 2,
        "forced": False,
    }


def test_the_answer_waits_for_the_disk() -> None:
    w = ConsumerWorld(disk_like=True)
    w.stream(storage="file")
    w.fill(3)
    w.ports.jobs_held = True
    w.ports.route(b"$JS.API.STREAM.TRUNCATE.S", b"_INBOX.t", None, b'{"newest":1}')
    w.ports.settle()
    assert not [sent for sent in w.ports.sent if sent[0] == b"_INBOX.t"]
    assert w.seqs() == [1, 2, 3]
    w.ports.run_jobs()
    w.ports.settle()
    w.ports.jobs_held = False
    assert [sent for sent in w.ports.sent if sent[0] == b"_INBOX.t"]


def test_many_go_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncation, "TRUNCATE_COMMIT_MSGS", 4)
    w = world()
    w.api("STREAM.MSG.DELETE.S", {"seq": 8})
    steps: list[list[int]] = []
    work = truncation.TruncateSlices(w.account.streams["S"].store, 3, 10, lambda: steps.append([]))
    while not work():
        w.account.streams["S"].committer.wake()
        w.ports.settle()
        steps[-1].extend(w.seqs())
    assert steps[:2] == [[1, 2, 3, 4, 5], []] and work.removed == 7


def test_sequences_do_not_go_back_after_a_restart() -> None:
    disk = SimDisk()
    w = disk_world(disk)
    w.create("S", subjects=["s"])
    for _ in range(5):
        w.publish("s")
    assert truncate(w, after_seq=2)["truncated"] == 3
    w.account.shutdown()
    again = disk_world(disk)
    assert again.seqs() == [1, 2] and again.state()["last_seq"] == 5
    assert again.publish("s")["seq"] == 6
