"""How consumers come, change, pause, survive and go."""

import json
from typing import Any

import pytest

from slipstream.jetstream.consumer.limits import CONSUMER_COMMIT_DELAY_NS
from slipstream.jetstream.consumer.state import ConsumerState
from support.consumer_world import SECOND_NS, ConsumerWorld, status, tokens

MS = 1_000_000


def world(count: int = 0, **config: Any) -> ConsumerWorld:
    made = ConsumerWorld()
    made.stream(**config)
    made.fill(count)
    return made


def names(w: ConsumerWorld) -> list[str]:
    found: list[str] = w.api("CONSUMER.NAMES.S")["consumers"]
    return found


def test_an_unused_ephemeral_goes() -> None:
    w = world()
    w.add("E", durable=False)
    w.ports.advance(4 * SECOND_NS)
    assert names(w) == ["E"]
    w.ports.advance(3 * SECOND_NS)
    assert names(w) == []


def test_requests_keep_an_ephemeral_alive() -> None:
    w = world()
    w.add("E", durable=False)
    for _ in range(5):
        w.ports.advance(4 * SECOND_NS)
        w.pull({"batch": 1, "no_wait": True}, "E")
    waiting = w.pull({"batch": 1, "expires": 60 * SECOND_NS}, "E")
    w.ports.advance(30 * SECOND_NS)
    assert names(w) == ["E"]
    w.ports.gone.add(waiting.subject)
    w.ports.advance(15 * SECOND_NS)
    assert names(w) == []


def test_unacknowledged_messages_keep_it_too() -> None:
    w = world(1)
    w.add("E", durable=False, ack_wait=60 * SECOND_NS)
    w.pull(1, "E")
    w.ports.advance(30 * SECOND_NS)
    assert names(w) == ["E"]
    w.ports.advance(60 * SECOND_NS)
    assert names(w) == []


def test_a_push_ephemeral_lives_with_its_listener() -> None:
    w = world()
    inbox = w.listen()
    w.add("E", durable=False, deliver_subject="dlv", ack_policy="none")
    w.ports.advance(60 * SECOND_NS)
    assert names(w) == ["E"]
    inbox.subscription.close()
    w.ports.advance(3 * SECOND_NS)
    inbox = w.listen()
    w.ports.advance(60 * SECOND_NS)
    assert names(w) == ["E"], "it was only a reconnect"
    inbox.subscription.close()
    w.ports.advance(7 * SECOND_NS)
    assert names(w) == []


def test_a_chosen_threshold_of_a_push_ephemeral_is_exact() -> None:
    w = world()
    threshold_ns = 50_000_000
    inbox = w.listen()
    w.add("E", durable=False, deliver_subject="dlv", ack_policy="none", inactive_threshold=threshold_ns)
    inbox.subscription.close()
    w.ports.advance(threshold_ns - 1)
    assert names(w) == ["E"]
    w.ports.advance(1)
    assert names(w) == []


def test_a_durable_stays_unless_told_otherwise() -> None:
    w = world()
    w.add("D")
    w.add("T", inactive_threshold=2 * SECOND_NS)
    w.ports.advance(60 * SECOND_NS)
    assert names(w) == ["D"]


def test_unnamed_consumers_get_names() -> None:
    w = world()
    bodies = [w.api("CONSUMER.CREATE.S", {"stream_name": "S", "config": {}}) for _ in range(3)]
    made = {body["name"] for body in bodies}
    assert len(made) == 3 and all(len(name) == 8 for name in made)
    assert all("name" not in body["config"] for body in bodies)


def test_pause_and_resume() -> None:
    w = world()
    w.add("C")
    heard: list[Any] = []
    w.ports.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.C", lambda *m: heard.append(json.loads(m[3])["paused"]))
    until = "2025-11-15T02:22:27Z"  # ten seconds from the start of the fake clock
    answer = w.api("CONSUMER.PAUSE.S.C", {"pause_until": until})
    assert answer["paused"] and answer["pause_remaining"] == 10 * SECOND_NS
    inbox = w.pull({"batch": 2, "expires": 60 * SECOND_NS})
    w.fill(1)
    assert inbox.take() == [] and w.info()["paused"]
    w = w.restart()
    assert w.info()["paused"], "a pause survives a restart"
    inbox = w.pull({"batch": 2, "expires": 60 * SECOND_NS})
    w.ports.advance(11 * SECOND_NS)
    assert inbox.seqs() == [1] and "paused" not in w.info()
    assert heard == [True]


def test_resume_early() -> None:
    w = world(1)
    w.add("C", pause_until="2030-01-01T00:00:00Z")
    inbox = w.pull(1)
    assert inbox.take() == []
    assert not w.api("CONSUMER.PAUSE.S.C")["paused"]
    assert inbox.seqs() == [1]


def test_created_and_deleted_are_announced() -> None:
    w = world()
    heard: list[Any] = []
    w.ports.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.*.S.*", lambda *m: heard.append(json.loads(m[3])["action"]))
    w.add("C")
    w.add("C")
    w.api("CONSUMER.DELETE.S.C")
    assert heard == ["create", "delete"]


def test_state_survives_a_restart() -> None:
    w = world(6)
    w.add("C", max_deliver=2, ack_wait=SECOND_NS, filter_subjects=["s.a", "s.b"])
    messages = w.pull(4).messages()
    w.ack(messages[1], double=True)
    w.ports.advance(2 * SECOND_NS)
    w.pull(2)
    before = w.info()
    w = w.restart()
    after = w.info()
    for key in ("delivered", "ack_floor"):
        before[key].pop("last_active", None)
    assert {key: before[key] for key in before if key != "ts"} == {key: after[key] for key in after if key != "ts"}
    inbox = w.pull(10)
    w.ports.advance(2 * MS)
    assert sorted(tokens(message)[:2] for message in inbox.messages()) == [(1, 5), (1, 6), (2, 4)]


def test_memory_consumers_do_not_survive() -> None:
    w = world()
    w.add("M", mem_storage=True)
    w.add("F")
    assert names(w.restart()) == ["F"]


def test_deltas_are_folded_into_the_state() -> None:
    w = world(3_000)
    w.add("C", max_ack_pending=-1)
    for _ in range(300):
        for message in w.pull(10).messages():
            w.ack(message)
        w.ports.advance(CONSUMER_COMMIT_DELAY_NS // 7)
    w.ports.advance(CONSUMER_COMMIT_DELAY_NS)
    parts = w.stores.made["S"].journal.entries()[b"C"]
    assert sum(map(len, parts)) < 64 * 1024
    state = ConsumerState.decode(parts)
    assert state.next_seq == 3_001 and not state.acks.pending


def stored_state(w: ConsumerWorld) -> ConsumerState:
    return ConsumerState.decode(w.stores.made["S"].journal.entries()[b"C"])


def test_changes_nobody_waits_for_are_written_soon() -> None:
    w = world(5)
    w.add("C")
    (first, *_) = w.pull(3).messages()
    w.ack(first)
    assert stored_state(w).next_seq == 1, "held"
    w.ports.advance(CONSUMER_COMMIT_DELAY_NS)
    state = stored_state(w)
    assert state.next_seq == 4 and list(state.acks.pending) == [2, 3]


def test_a_confirmed_ack_takes_along_what_was_held() -> None:
    w = world(5)
    w.add("C")
    messages = w.pull(3).messages()
    w.ack(messages[0])
    assert w.ack(messages[1], double=True)
    assert list(stored_state(w).acks.pending) == [3]


def test_much_is_not_held() -> None:
    w = world(1_200)
    w.add("C", max_ack_pending=-1)
    for message in w.pull(1_200).messages():
        w.ack(message, b"+WPI")
    assert stored_state(w).next_seq == 1_201


def test_a_damaged_state_is_kept_and_reported() -> None:
    w = world()
    w.add("C")
    w.stores.made["S"].journal.put(b"C", b"\xc1garbage")
    w = w.restart()
    assert w.info()["error"]["err_code"] == 10195
    assert "C" in w.api("CONSUMER.LIST.S")["offline"]
    assert w.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C"}})["error"]["err_code"] == 10195
    assert w.api("CONSUMER.DELETE.S.C")["success"]
    assert names(w) == []


@pytest.mark.parametrize("state", [b"", b"\x90", b"\x98" + b"\x01" * 8, b"\x98\x02" + b"\x01" * 7])
def test_states_that_are_none(state: bytes) -> None:
    with pytest.raises(ValueError):
        ConsumerState.decode([state])


def test_last_per_subject_then_live() -> None:
    w = world()
    for subject in ("s.a", "s.b", "s.a", "s.c", "s.b"):
        w.publish(subject)
    created = w.add("C", deliver_policy="last_per_subject", filter_subject="s.*")
    assert created["num_pending"] == 3
    inbox = w.pull(10)
    assert [tokens(message)[1::3] for message in inbox.messages()] == [(3, 2), (4, 1), (5, 0)]
    w.publish("s.a")
    assert inbox.seqs() == [6]


def test_a_start_before_everything_is_the_first_sequence_also_of_an_empty_stream() -> None:
    w = world()
    w.fill(3)
    w.api("STREAM.PURGE.S")
    info = w.add("C", deliver_policy="by_start_sequence", opt_start_seq=2)
    assert info["delivered"]["stream_seq"] == info["ack_floor"]["stream_seq"] == 3


def test_last_per_subject_resumes_after_a_restart() -> None:
    w = world()
    for number in range(10):
        w.publish(f"s.{number % 5}")
    w.add("C", deliver_policy="last_per_subject", filter_subject="s.*")
    w.pull(2)
    w.publish("s.0")
    w = w.restart()
    assert w.info()["num_pending"] == 4
    assert w.pull(10).seqs() == [8, 9, 10, 11]


@pytest.mark.parametrize("change", ["update", "delete", "expire"])
def test_pending_is_exact_while_keys_change_under_a_watcher(change: str) -> None:
    """What a key-value watcher relies on: the last of the initial values says that nothing is pending."""
    w = world(max_msgs_per_subject=2, max_age=3_600 * SECOND_NS)
    for number in range(6):
        w.publish(f"s.{number}")
        w.publish(f"s.{number}")
    w.add("C", deliver_policy="last_per_subject", filter_subject="s.*", ack_policy="none")
    assert [tokens(message)[4] for message in w.pull(2).messages()] == [5, 4]
    if change == "update":
        w.publish("s.4")
        w.publish("s.4")  # the value in the snapshot is gone now
        expected = 5
    elif change == "delete":
        w.api("STREAM.MSG.DELETE.S", {"seq": 10})
        expected = 3
    else:
        w.ports.advance(3_601 * SECOND_NS)
        w.publish("s.9")
        expected = 1
    assert w.info()["num_pending"] == expected
    rest = [message for message in w.pull({"batch": 10, "no_wait": True}).take() if status(message) is None]
    assert [tokens(message)[4] for message in rest] == list(range(expected))[::-1]
    assert w.info()["num_pending"] == 0


def test_many_filters() -> None:
    w = world()
    w.add("C", filter_subjects=[f"s.{number}" for number in range(1_000)])
    for number in (0, 999, 1_000, 5):
        w.publish(f"s.{number}")
    assert w.pull(5).seqs() == [1, 2, 4]
    assert w.info()["num_pending"] == 0


def test_ordered_consumer_of_a_client() -> None:
    """What clients do: an ephemeral without acks in memory, made again behind the last message seen."""
    w = world(5)
    inbox = w.listen("_INBOX.ordered")
    common = {
        "deliver_subject": "_INBOX.ordered",
        "ack_policy": "none",
        "max_deliver": 1,
        "flow_control": True,
        "idle_heartbeat": 5 * SECOND_NS,
        "mem_storage": True,
        "num_replicas": 1,
    }
    w.add("O1", durable=False, **common)
    assert inbox.seqs() == [1, 2, 3, 4, 5]
    w.api("CONSUMER.DELETE.S.O1")
    w.add("O2", durable=False, deliver_policy="by_start_sequence", opt_start_seq=4, **common)
    messages = inbox.messages()
    assert [tokens(message)[1:3] for message in messages] == [(4, 1), (5, 2)]


def test_damaged_messages_are_reported_and_passed() -> None:
    w = world(3)
    store: Any = w.account.streams["S"].store
    plain = store.slabs.slice
    _, damaged_at, _ = store.state.index.locate(2)

    def flipped(*args: Any) -> tuple[bytes, int, int]:
        data, base, salt = plain(*args)
        at = damaged_at - base + 33
        return (data[:at] + b"\xff" + data[at + 1 :] if 0 <= at < len(data) else data), base, salt

    store.slabs.slice = flipped
    w.add("C")
    assert w.pull(3).seqs() == [1, 3]
    assert any(level == "ERR" and "message 2" in text for level, text in w.ports.logged)


def test_account_limits_apply() -> None:
    from slipstream.jetstream.ports import AccountLimits

    w = ConsumerWorld(limits=AccountLimits(max_consumers=1, max_ack_pending=10))
    w.stream()
    assert w.add("C")["config"]["max_ack_pending"] == 10
    body = {"stream_name": "S", "config": {"name": "D", "ack_policy": "explicit"}}
    assert w.api("CONSUMER.CREATE.S.D", body)["error"]["err_code"] == 10026


def test_filters_over_many_subjects_are_judged_a_slice_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream.jetstream.api.consumers.FILTER_SLICE_SUBJECTS", 10)
    w = world()
    for i in range(95):
        w.fill(1, f"s.{i}.x")
    judged: list[bool] = []
    store = w.consumers().stream.store
    prepare = store.prepare
    monkeypatch.setattr(store, "prepare", lambda filters, limit: judged.append(prepare(filters, limit)) or judged[-1])
    created = w.add("C", filter_subjects=["s.*.x", "s.7", "s.y.*"], deliver_policy="last_per_subject")
    assert created["num_pending"] == 95
    assert judged == [False] * 9 + [True]
    judged.clear()
    assert w.add("L", filter_subjects=[f"s.{i}.x" for i in range(40)])["num_pending"] == 40
    assert judged == [True]  # literal filters are looked up


def test_a_stream_that_goes_while_filters_are_judged_is_said_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream.jetstream.api.consumers.FILTER_SLICE_SUBJECTS", 10)
    w = world()
    for i in range(30):
        w.fill(1, f"s.{i}.x")
    body = json.dumps({"stream_name": "S", "config": {"name": "C", "filter_subject": "s.*.x"}}).encode()
    w.ports.route(b"$JS.API.CONSUMER.CREATE.S.C.s.*.x", b"_INBOX.create", None, body)
    w.ports.route(b"$JS.API.STREAM.DELETE.S", b"_INBOX.delete", None, b"")
    w.ports.settle()
    answers = {
        subject: json.loads(payload) for subject, _, _, payload in w.ports.sent if subject.startswith(b"_INBOX.")
    }
    assert answers[b"_INBOX.delete"]["success"]
    assert answers[b"_INBOX.create"]["error"]["err_code"] == 10059
