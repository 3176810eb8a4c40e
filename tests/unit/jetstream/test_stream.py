"""The stream machine over time: commits, faults, expiry, markers, duplicates, republish, restart."""

import json
from typing import Any

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.ports import Recovered
from slipstream.jetstream.store.values import StoreUnavailable
from slipstream.limits import STREAM_MAX_BUFFERED_MSGS
from slipstream.testing.sim_disk import SimDisk
from slipstream.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS
from support.disk_world import disk_world
from support.jetstream_world import FakePorts, FakeStores, World


def world(**options: Any) -> World:
    return World(**options)


def sent_to(w: World, subject: bytes) -> list[tuple[bytes | None, bytes]]:
    return [(header, payload) for to, _, header, payload in w.ports.sent if to == subject]


class TestCommit:
    """Nothing that depends on the disk leaves before the disk has it."""

    def test_acks_wait_for_the_commit(self) -> None:
        w = world(disk_like=True)
        w.create("S", subjects=["s"])
        w.ports.jobs_held = True
        w.ports.route(b"s", b"r1", None, b"1")
        w.ports.settle()
        w.ports.route(b"s", b"r2", None, b"2")
        w.ports.settle()
        assert sent_to(w, b"r1") == sent_to(w, b"r2") == []
        w.ports.run_jobs()
        assert sent_to(w, b"r1") == [(None, b'{"stream":"S","seq":1}')]
        assert sent_to(w, b"r2") == [(None, b'{"stream":"S","seq":2}')]

    def test_one_commit_takes_what_arrived_during_the_other(self) -> None:
        w = world(disk_like=True)
        w.create("S", subjects=["s"])
        w.ports.jobs_held = True
        for _ in range(3):
            w.ports.route(b"s", b"r", None, b"x")
        w.ports.settle()
        for _ in range(5):
            w.ports.route(b"s", b"r", None, b"x")
        w.ports.settle()
        assert len(w.ports.jobs) == 1
        job, done = w.ports.jobs.pop()
        job()
        done()
        assert len(sent_to(w, b"r")) == 3
        assert len(w.ports.jobs) == 1
        w.ports.run_jobs()
        assert [json.loads(payload)["seq"] for _, payload in sent_to(w, b"r")] == list(range(1, 9))

    def test_the_fast_path_stays_open_over_commits(self) -> None:
        w = world(disk_like=True)
        w.create("S", subjects=["s"])
        intake = w.account.streams["S"].ingest.intake
        assert w.publish("s", b"1")["seq"] == 1 and intake.is_open
        w.ports.jobs_held = True
        for reply in (b"r2", b"r3"):  # one is in flight when the other comes
            w.ports.route(b"s", reply, None, b"x")
            w.ports.settle()
            assert intake.is_open
        assert sent_to(w, b"r2") == sent_to(w, b"r3") == []
        w.ports.run_jobs()
        assert sent_to(w, b"r2") == [(None, b'{"stream":"S","seq":2}')]
        assert sent_to(w, b"r3") == [(None, b'{"stream":"S","seq":3}')]
        w.ports.jobs_held = False
        assert w.publish("s", b"4")["seq"] == 4 and intake.is_open
        w.account.streams["S"].check_invariants()

    def test_the_fast_path_is_closed_by_a_fault_and_by_settings(self) -> None:
        w = world(disk_like=True)
        w.create("S", subjects=["s"])
        intake = w.account.streams["S"].ingest.intake
        w.publish("s", b"1")
        w.stores.made["S"].fail_next = StorageFault("input/output error")
        assert w.publish("s", b"lost")["error"]["err_code"] == 10077
        assert not intake.is_open
        assert w.publish("s", b"2") == {"stream": "S", "seq": 2} and intake.is_open
        w.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s"], "sealed": True})
        assert not intake.is_open
        assert w.publish("s", b"3")["error"]["err_code"] == 10109
        assert not intake.is_open

    def test_duplicates_and_refusals_wait_too(self) -> None:
        w = world(disk_like=True)
        w.create("S", subjects=["s"])
        w.ports.jobs_held = True
        header = b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n"
        w.ports.route(b"s", b"r1", header, b"1")
        w.ports.route(b"s", b"r2", header, b"1")
        w.ports.route(b"s", b"r3", b"NATS/1.0\r\nNats-Expected-Last-Sequence: 7\r\n\r\n", b"1")
        w.ports.settle()
        assert sent_to(w, b"r2") == sent_to(w, b"r3") == []
        w.ports.run_jobs()
        assert sent_to(w, b"r2") == [(None, b'{"stream":"S","seq":1,"duplicate": true}')]
        assert b"wrong last sequence: 1" in sent_to(w, b"r3")[0][1]

    def test_reads_do_not_show_what_is_not_committed(self) -> None:
        w = world(disk_like=True)
        w.create("S", subjects=["s"], allow_direct=True)
        w.publish("s", b"old")
        w.ports.jobs_held = True
        w.ports.route(b"s", b"r", None, b"new")
        w.ports.settle()
        for call, body in (("MSG.GET.S", b'{"last_by_subj":"s"}'), ("MSG.GET.S", b'{"seq":2}'), ("INFO.S", b"")):
            w.ports.route(b"$JS.API.STREAM." + call.encode(), b"waits." + call.encode(), None, body)
        w.ports.route(b"$JS.API.DIRECT.GET.S.s", b"waits.direct", None, b"")
        w.ports.route(b"$JS.API.DIRECT.GET.S", b"waits.direct", None, b'{"seq":2}')
        w.ports.settle()
        assert not [sent for sent in w.ports.sent if sent[0].startswith(b"waits.")]
        w.ports.run_jobs()
        found = [json.loads(payload)["message"]["seq"] for _, payload in sent_to(w, b"waits.MSG.GET.S")]
        assert found == [2, 2]
        assert [payload for _, payload in sent_to(w, b"waits.direct")] == [b"new", b"new"]
        assert json.loads(sent_to(w, b"waits.INFO.S")[0][1])["state"]["messages"] == 2

    def test_a_reader_finds_the_old_message_until_the_new_one_is_there(self) -> None:
        """Whatever waits for its commit was not there when the earlier reader asked."""
        w = world(disk_like=True)
        w.create("S", subjects=["s"], allow_direct=True, max_msgs_per_subject=1)
        w.publish("s", b"1")
        w.ports.jobs_held = True
        w.ports.route(b"s", b"r", None, b"2")
        w.ports.settle()
        w.ports.route(b"$JS.API.DIRECT.GET.S.s", b"reader", None, b"")
        w.ports.route(b"s", b"r", None, b"3")
        w.ports.settle()
        assert sent_to(w, b"reader") == []
        job, on_done = w.ports.jobs.pop(0)
        job()
        on_done()
        assert [payload for _, payload in sent_to(w, b"reader")] == [b"2"]
        assert w.account.streams["S"].store.messages == 1
        w.ports.run_jobs()
        assert w.account.streams["S"].store.messages == 1

    def test_a_failed_commit_undoes_everything_since(self) -> None:
        w = world(disk_like=True)
        w.create("S", subjects=["s"])
        w.publish("s", b"safe", Nats_Msg_Id="a")
        w.ports.jobs_held = True
        w.ports.route(b"s", b"r1", b"NATS/1.0\r\nNats-Msg-Id: b\r\n\r\n", b"lost")
        w.ports.settle()
        w.ports.route(b"s", b"r2", None, b"lost too")
        w.stores.made["S"].fail_next = StorageFault("input/output error")
        w.ports.jobs_held = False
        w.ports.settle()
        for reply in (b"r1", b"r2"):
            ((_, payload),) = sent_to(w, reply)
            error = json.loads(payload)["error"]
            assert (error["err_code"], error["description"]) == (10077, "input/output error")
        w.account.streams["S"].check_invariants()
        assert w.publish("s", b"again", Nats_Msg_Id="b") == {"stream": "S", "seq": 2}
        assert w.publish("s", b"again", Nats_Msg_Id="a")["duplicate"] is True
        assert any(level == "ERR" for level, _ in w.ports.logged)

    @pytest.mark.parametrize(("full", "number"), [(True, 10047), (False, 10077)])
    def test_a_store_that_refuses(self, full: bool, number: int) -> None:
        w = world(disk_like=True)
        w.create("S", subjects=["s"])
        w.stores.made["S"].refuse = StoreUnavailable("no space left on device", full=full)
        assert w.publish("s")["error"]["err_code"] == number
        assert w.publish("s", Nats_Msg_Id="a")["error"]["err_code"] == number
        w.stores.made["S"].refuse = None
        assert w.publish("s", Nats_Msg_Id="a") == {"stream": "S", "seq": 1}

    def test_too_much_waiting_is_refused_at_once(self) -> None:
        w = world(disk_like=True)
        w.create("S", subjects=["s"])
        w.ports.jobs_held = True
        for _ in range(STREAM_MAX_BUFFERED_MSGS + 1):
            w.ports.route(b"s", b"r", None, b"")
        w.ports.route(b"s", b"over", None, b"")
        ((header, payload),) = sent_to(w, b"over")
        assert header == b"NATS/1.0 429 Too Many Requests\r\n\r\n"
        assert json.loads(payload)["error"]["err_code"] == 10167
        w.ports.jobs_held = False
        w.ports.settle()
        assert w.publish("s")["seq"] == STREAM_MAX_BUFFERED_MSGS + 2

    def test_without_a_reply_it_is_stored_silently(self) -> None:
        w = world()
        w.create("S", subjects=["s"])
        w.ports.route(b"s", None, None, b"x")
        w.ports.settle()
        assert w.state()["messages"] == 1

    def test_no_ack_never_answers(self) -> None:
        w = world()
        w.create("S", subjects=["s"], no_ack=True, max_msg_size=3)
        assert w.publish("s") is None
        assert w.publish("s", b"too long") is None
        assert w.publish("s", Nats_Expected_Last_Sequence="9") is None
        assert w.state()["messages"] == 1

    def test_interval_policy_syncs_later(self) -> None:
        w = world(disk_like=True, sync_always=False, sync_interval_ns=SECOND_NS)
        w.create("S", subjects=["s"])
        assert w.publish("s") == {"stream": "S", "seq": 1}
        w.ports.advance(3 * SECOND_NS)
        assert w.publish("s") == {"stream": "S", "seq": 2}


class TestExpiry:
    """Messages go when their time has come, and not before."""

    def test_max_age(self) -> None:
        w = world()
        w.create("S", subjects=["s"], max_age=10 * SECOND_NS)
        for _ in range(3):
            w.publish("s")
            w.ports.advance(4 * SECOND_NS)
        assert w.seqs() == [2, 3]
        w.ports.advance(20 * SECOND_NS)
        assert w.seqs() == []
        state = w.state()
        assert (state["first_seq"], state["last_seq"], state["messages"]) == (4, 3, 0)
        w.publish("s")
        w.ports.advance(11 * SECOND_NS)
        assert w.seqs() == []

    def test_message_ttl(self) -> None:
        w = world()
        w.create("S", subjects=["s"], allow_msg_ttl=True)
        w.publish("s", Nats_TTL="5")
        w.publish("s", Nats_TTL="2s")
        w.publish("s")
        w.ports.advance(2 * SECOND_NS + 100 * MILLISECOND_NS)
        assert w.seqs() == [1, 3]
        w.ports.advance(3 * SECOND_NS)
        assert w.seqs() == [3]

    def test_never_outlives_max_age(self) -> None:
        w = world()
        w.create("S", subjects=["s"], allow_msg_ttl=True, max_age=5 * SECOND_NS)
        w.publish("s", Nats_TTL="never")
        w.publish("s")
        w.publish("s", Nats_TTL="1h")
        w.ports.advance(6 * SECOND_NS)
        assert w.seqs() == [1]
        w.publish("s")
        w.ports.advance(6 * SECOND_NS)
        assert w.seqs() == [1]

    def test_many_short_lives(self) -> None:
        w = world()
        w.create("S", subjects=["s"], allow_msg_ttl=True)
        for _ in range(2_500):
            w.ports.route(b"s", None, b"NATS/1.0\r\nNats-TTL: 1\r\n\r\n", b"")
        w.ports.settle()
        assert w.state()["messages"] == 2_500
        w.ports.advance(2 * SECOND_NS)
        assert w.state()["messages"] == 0

    def test_the_last_of_a_subject_leaves_a_marker(self) -> None:
        w = world()
        w.create("S", subjects=["s.*"], max_age=5 * SECOND_NS, subject_delete_marker_ttl=60 * SECOND_NS)
        w.publish("s.a")
        w.publish("s.b")
        w.publish("s.b")
        w.ports.advance(6 * SECOND_NS)
        store = w.account.streams["S"].store
        assert w.seqs() == [4, 5]
        marker = store.get(4)
        assert marker is not None
        assert (marker.subject, marker.payload) == (b"s.a", b"")
        assert marker.headers == b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 1m0s\r\nNats-Rollup: sub\r\n\r\n"
        # Markers are not exempt from max_age, and leave nothing behind.
        w.ports.advance(6 * SECOND_NS)
        assert w.seqs() == []

    def test_a_ttl_leaves_a_marker_too(self) -> None:
        w = world()
        w.create("S", subjects=["s"], subject_delete_marker_ttl=2 * SECOND_NS, max_msgs_per_subject=1)
        w.publish("s", Nats_TTL="1")
        w.ports.advance(1500 * MILLISECOND_NS)
        assert w.seqs() == [2]
        w.ports.advance(3 * SECOND_NS)
        assert w.seqs() == []

    def test_sealed_streams_keep_everything(self) -> None:
        w = world()
        base = {"name": "S", "subjects": ["s"], "allow_msg_ttl": True, "max_age": 5 * SECOND_NS}
        w.create(**base)
        w.publish("s")
        w.publish("s", Nats_TTL="1")
        assert "error" not in w.api("STREAM.UPDATE.S", {**base, "sealed": True})
        w.ports.advance(MINUTE_NS)
        assert w.seqs() == [1, 2]

    def test_a_clock_that_jumps_back_does_not_reorder_times(self) -> None:
        w = world()
        w.create("S", subjects=["s"])
        w.publish("s")
        w.ports.clock_ns -= 100 * SECOND_NS
        w.publish("s")
        store = w.account.streams["S"].store
        first, second = store.get(1), store.get(2)
        assert first is not None and second is not None
        assert first.ts_ns == second.ts_ns


class TestUpdates:
    """Tighter limits bite at once."""

    @pytest.mark.parametrize(
        ("limits", "left"),
        [
            ({"max_msgs": 2}, [5, 6]),
            ({"max_msgs_per_subject": 1}, [5, 6]),
            ({"max_msgs_per_subject": 2}, [3, 4, 5, 6]),
            ({"max_bytes": 3 * 20}, [4, 5, 6]),
            ({"max_msgs_per_subject": 2, "max_msgs": 3}, [4, 5, 6]),
            ({"max_msgs": 2, "discard": "new"}, [1, 2, 3, 4, 5, 6]),
        ],
    )
    def test_lowered_limits(self, limits: dict[str, Any], left: list[int]) -> None:
        w = world()
        base = {"name": "S", "subjects": ["s.*"], "storage": "memory", "max_msgs_per_subject": 5}
        w.create(**base)
        for index in range(6):
            w.publish(f"s.{index % 2}")
        assert "error" not in w.api("STREAM.UPDATE.S", {**base, **limits})
        assert w.seqs() == left

    def test_upkeep_sleeps_while_nothing_happens(self) -> None:
        w = world()
        w.create("S", subjects=["s"])
        calls = 0
        store = w.account.streams["S"].store
        real = store.begin_upkeep

        def counted() -> Any:
            nonlocal calls
            calls += 1
            return real()

        store.begin_upkeep = counted  # type: ignore[method-assign]
        w.ports.advance(10 * MINUTE_NS)
        idle = calls
        assert idle < 20
        w.publish("s")
        w.ports.advance(5 * SECOND_NS)
        assert calls > idle

    def test_upkeep_vouches_for_a_commit_that_none_follows(self) -> None:
        w = disk_world(SimDisk())
        w.create("S", subjects=["s"])
        store: Any = w.account.streams["S"].store
        w.ports.advance(5 * SECOND_NS)
        frames, end = store.log.writer.frame_no, store.log.writer.position
        for _ in range(30):
            w.publish("s")
            w.ports.advance(200 * MILLISECOND_NS)
        length = (store.log.writer.position - end) // 30
        assert store.log.writer.position == end + 30 * length  # the next commit vouched each time
        w.ports.advance(2 * SECOND_NS)
        marked = store.log.writer.position
        assert end + 30 * length < marked < end + 31 * length
        w.ports.advance(MINUTE_NS)
        assert store.log.writer.position == marked
        assert store.log.writer.frame_no == frames + 30  # a mark takes no number


class TestDuplicates:
    """A message id counts within its window."""

    def test_the_window_ends(self) -> None:
        w = world()
        w.create("S", subjects=["s"], duplicate_window=2 * SECOND_NS)
        assert w.publish("s", Nats_Msg_Id="a")["seq"] == 1
        w.ports.advance(1900 * MILLISECOND_NS)
        assert w.publish("s", Nats_Msg_Id="a")["duplicate"] is True
        w.ports.advance(200 * MILLISECOND_NS)
        assert w.publish("s", Nats_Msg_Id="a") == {"stream": "S", "seq": 2}

    def test_ids_are_forgotten_without_traffic(self) -> None:
        w = world()
        w.create("S", subjects=["s"], duplicate_window=2 * SECOND_NS)
        for index in range(10):
            w.publish("s", Nats_Msg_Id=str(index))
        ids = w.account.streams["S"].appends.ids
        assert len(ids) == 10
        w.ports.advance(3 * SECOND_NS)
        assert len(ids) == 0

    def test_a_purge_does_not_free_ids(self) -> None:
        w = world()
        w.create("S", subjects=["s"])
        w.publish("s", Nats_Msg_Id="a")
        w.api("STREAM.PURGE.S")
        assert w.publish("s", Nats_Msg_Id="a")["duplicate"] is True

    def test_a_refused_message_does_not_use_up_its_id(self) -> None:
        w = world()
        w.create("S", subjects=["s"], max_msgs=1, discard="new")
        w.publish("s")
        assert w.publish("s", Nats_Msg_Id="a")["error"]["err_code"] == 10077
        w.api("STREAM.PURGE.S")
        assert w.publish("s", Nats_Msg_Id="a") == {"stream": "S", "seq": 2}


def restarted(w: World, name: str = "S") -> World:
    """A new account over the stores of the old one."""
    stream = w.account.streams[name]
    stores = FakeStores()
    stores.recoverable = [Recovered(stream.store, stream.created_ns, stream.config)]
    ports = FakePorts()
    ports.clock_ns = w.ports.clock_ns
    stream.stop(deleted=False)
    return World(stores=stores, ports=ports)


class TestRestart:
    """Everything that counts is in the store."""

    def test_ids_and_last_id_come_back(self) -> None:
        w = world()
        w.create("S", subjects=["s"], duplicate_window=10 * SECOND_NS)
        w.publish("s", Nats_Msg_Id="old")
        w.ports.advance(8 * SECOND_NS)
        w.publish("s", Nats_Msg_Id="new")
        w.ports.clock_ns += 5 * SECOND_NS
        w = restarted(w)
        assert w.publish("s", Nats_Msg_Id="new")["duplicate"] is True
        assert w.publish("s", Nats_Expected_Last_Msg_Id="new")["seq"] == 3
        assert w.publish("s", Nats_Msg_Id="old") == {"stream": "S", "seq": 4}

    def test_deadlines_come_back(self) -> None:
        w = world(disk_like=True)
        w.create("S", subjects=["s"], allow_msg_ttl=True)
        w.publish("s", Nats_TTL="5")
        w.publish("s", Nats_TTL="60")
        w = restarted(w)
        w.ports.advance(6 * SECOND_NS)
        assert w.seqs() == [2]

    def test_what_expired_meanwhile_goes_at_start(self) -> None:
        w = world()
        w.create("S", subjects=["s"], max_age=5 * SECOND_NS)
        w.publish("s")
        w.ports.clock_ns += MINUTE_NS
        w = restarted(w)
        w.ports.settle()
        assert w.seqs() == []
        assert w.publish("s")["seq"] == 2

    def test_an_asset_of_a_newer_server_stays_offline(self) -> None:
        w = world()
        w.create("S", subjects=["s"])
        w.account.streams["S"].config.metadata["_nats.req.level"] = "99"
        w = restarted(w)
        assert w.api("STREAM.INFO.S")["error"]["err_code"] == 10194
        assert w.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})["error"]["err_code"] == 10194
        assert not w.account.snapshot().healthy


class TestRepublish:
    """Copies go out after the commit, with where they came from."""

    def test_headers_and_body(self) -> None:
        w = world()
        w.create("S", subjects=["s.*"], republish={"src": "s.*", "dest": "r.{{wildcard(1)}}"})
        w.publish("s.a", b"one")
        w.publish("s.a", b"two", A="b")
        (first, second) = sent_to(w, b"r.a")
        assert first == (
            b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: s.a\r\nNats-Sequence: 1\r\n"
            b"Nats-Time-Stamp: 2025-11-15T02:22:17Z\r\nNats-Last-Sequence: 0\r\n\r\n",
            b"one",
        )
        assert second[0] is not None
        assert second[0].startswith(b"NATS/1.0\r\nA: b\r\nNats-Stream: S\r\n")
        assert b"Nats-Last-Sequence: 1\r\n" in second[0]

    def test_headers_only(self) -> None:
        w = world()
        w.create("S", subjects=["s"], republish={"dest": "r.>", "headers_only": True})
        w.publish("s", b"12345")
        ((header, payload),) = sent_to(w, b"r.s")
        assert payload == b""
        assert header is not None
        assert header.endswith(b"Nats-Msg-Size: 5\r\n\r\n")

    def test_only_what_matches_and_only_after_the_commit(self) -> None:
        w = world(disk_like=True)
        w.create("S", subjects=["s.*"], republish={"src": "s.a", "dest": "r"})
        w.publish("s.b")
        w.ports.jobs_held = True
        w.ports.route(b"s.a", b"ack", None, b"x")
        w.ports.settle()
        assert sent_to(w, b"r") == []
        w.ports.run_jobs()
        order = [to for to, _, _, _ in w.ports.sent if to in (b"r", b"ack")]
        assert order == [b"r", b"ack"]


class TestInterest:
    """What a stream tells and asks its consumers."""

    class Watcher:
        """Consumers that remember what they were told."""

        consumer_count = 1

        def __init__(self) -> None:
            self.told: list[tuple[Any, ...]] = []

        def has_interest(self, subject: bytes) -> bool:
            return subject == b"s.wanted"

        def on_committed(self, first_seq: int, last_seq: int) -> None:
            self.told.append(("committed", first_seq, last_seq))

        def on_removed(self, seqs: Any) -> None:
            self.told.append(("removed", *seqs))

        def on_purged(self, subject: bytes) -> None:
            self.told.append(("purged", subject))

        def on_config(self, old: Any, new: Any) -> None:
            self.told.append(("config", old.description, new.description))

        def beyond(self, limits: Any) -> list[str]:
            return ["c1"] if limits.max_ack_pending == 1 else []

        def stop(self, *, deleted: bool) -> None:
            self.told.append(("stop", deleted))

    def test_notices(self) -> None:
        w = world()
        base = {"name": "S", "subjects": ["s.*"], "max_msgs": 2, "retention": "interest"}
        w.create(**base)
        watcher = self.Watcher()
        w.account.streams["S"].serve(watcher)
        for subject in ("s.wanted", "s.other", "s.wanted", "s.wanted"):
            w.publish(subject)
        w.api("STREAM.MSG.DELETE.S", {"seq": 3})
        w.api("STREAM.PURGE.S", {"filter": "s.wanted"})
        w.api("STREAM.UPDATE.S", {**base, "description": "d"})
        refused = w.api("STREAM.UPDATE.S", {**base, "consumer_limits": {"max_ack_pending": 1}})
        assert refused["error"]["description"] == "change to limits violates consumers: c1"
        w.api("STREAM.DELETE.S")
        assert watcher.told == [
            ("committed", 1, 1),
            ("committed", 2, 2),
            ("committed", 3, 3),
            ("removed", 1),
            ("committed", 4, 4),
            ("removed", 3),
            ("purged", b"s.wanted"),
            ("config", "", "d"),
            ("stop", True),
        ]
