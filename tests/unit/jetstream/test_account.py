"""An account: limits, names, overlaps, work in progress, advisories, facts."""

import json
from typing import Any

import pytest

from slipstream.errors import StorageFault
from slipstream.jetstream.api.limits import API_LIST_MAX, API_NAMES_MAX
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.ports import AccountLimits
from slipstream.jetstream.stream.stream import Stream
from slipstream.testing.sim_disk import SimDisk
from slipstream.units import SECOND_NS
from slipstream.version import API_LEVEL
from support.disk_world import disk_world
from support.jetstream_world import FakeStores, World


def error_of(answer: Any) -> int:
    number: int = answer["error"]["err_code"]
    return number


class TestLimits:
    """What the account and the server allow."""

    def test_number_of_streams(self) -> None:
        w = World(limits=AccountLimits(max_streams=1))
        w.create("A")
        assert error_of(w.api("STREAM.CREATE.B", {"name": "B"})) == 10027
        assert w.create("A")["did_create"] is True
        w.api("STREAM.DELETE.A")
        w.create("B")

    @pytest.mark.parametrize(("storage", "number"), [("memory", 10028), ("file", 10047)])
    def test_reservations_of_the_account(self, storage: str, number: int) -> None:
        w = World(limits=AccountLimits(max_memory=1000, max_storage=1000))
        w.create("A", storage=storage, max_bytes=600)
        assert error_of(w.api("STREAM.CREATE.B", {"name": "B", "storage": storage, "max_bytes": 500})) == number
        w.create("B", storage=storage, max_bytes=400)
        assert error_of(w.api("STREAM.CREATE.C", {"name": "C", "storage": storage})) == number
        assert error_of(w.api("STREAM.UPDATE.B", {"name": "B", "storage": storage, "max_bytes": 401})) == number
        assert "error" not in w.api("STREAM.UPDATE.B", {"name": "B", "storage": storage, "max_bytes": 100})
        assert "error" not in w.api("STREAM.UPDATE.A", {"name": "A", "storage": storage, "max_bytes": 900})
        info = w.api("INFO")
        assert info["reserved_memory" if storage == "memory" else "reserved_storage"] == 1000

    def test_reservations_of_the_server(self) -> None:
        w = World(max_storage=1000)
        w.create("A", max_bytes=900)
        assert error_of(w.api("STREAM.CREATE.B", {"name": "B", "max_bytes": 101})) == 10047
        w.api("STREAM.DELETE.A")
        w.create("B", max_bytes=1000)

    def test_consumers_of_a_stream(self) -> None:
        w = World(limits=AccountLimits(max_consumers=5))
        assert error_of(w.api("STREAM.CREATE.A", {"name": "A", "max_consumers": 6})) == 10026

    def test_a_full_account_refuses_publishes(self) -> None:
        w = World(limits=AccountLimits(max_memory=150))
        w.create("A", storage="memory")
        assert w.publish("A", b"x" * 90)["seq"] == 1
        assert error_of(w.publish("A", b"x" * 90)) == 10002
        assert error_of(w.publish("A", b"x" * 90, Nats_Msg_Id="a")) == 10002
        w.api("STREAM.PURGE.A")
        assert w.publish("A", b"x" * 90, Nats_Msg_Id="a")["seq"] == 2

    def test_a_full_server_refuses_publishes(self) -> None:
        w = World(max_memory=50)
        w.create("A", storage="memory")
        assert w.publish("A", b"x" * 40)["seq"] == 1
        assert error_of(w.publish("A", b"x")) == 10023
        w.api("STREAM.DELETE.A")
        w.create("B", storage="memory")
        assert w.publish("B", b"x")["seq"] == 1

    def test_new_limits_hold_at_once(self) -> None:
        w = World()
        w.create("A", storage="memory")
        w.account.set_limits(AccountLimits(max_memory=10, max_streams=1))
        assert error_of(w.publish("A", b"x")) == 10002
        assert error_of(w.api("STREAM.CREATE.B", {"name": "B"})) == 10027
        w.account.set_limits(AccountLimits())
        assert w.publish("A", b"x")["seq"] == 1

    def test_account_rules_about_max_bytes(self) -> None:
        w = World(limits=AccountLimits(max_bytes_required=True, storage_max_stream_bytes=100))
        assert error_of(w.api("STREAM.CREATE.A", {"name": "A"})) == 10113
        assert error_of(w.api("STREAM.CREATE.A", {"name": "A", "max_bytes": 101})) == 10122

    def test_usage_in_info(self) -> None:
        w = World(domain="hub")
        w.create("A", storage="memory")
        w.publish("A", b"12345")
        info = w.api("INFO")
        assert (info["memory"], info["storage"], info["streams"], info["domain"]) == (1 + 5 + 16, 0, 1, "hub")
        assert info["api"] == {"level": API_LEVEL, "total": 1, "errors": 0}


class TestNames:
    """Names and subjects belong to one stream."""

    @pytest.mark.parametrize("subject", ["a.b", "a.*", "a.>", ">", "*.b"])
    def test_overlapping_subjects(self, subject: str) -> None:
        w = World()
        w.create("A", subjects=["a.b"])
        answer = w.api("STREAM.CREATE.B", {"name": "B", "subjects": [subject], "no_ack": True})
        assert error_of(answer) == 10065
        w.create("C", subjects=["c"])
        answer = w.api("STREAM.UPDATE.C", {"name": "C", "subjects": [subject], "no_ack": True})
        assert error_of(answer) == 10065
        assert w.account.streams["C"].config.subjects == ["c"]

    def test_overlap_with_a_stream_in_the_making(self) -> None:
        w = World()
        w.ports.jobs_held = True
        assert w.api("STREAM.CREATE.A", {"name": "A", "subjects": ["x"]}) is None
        assert error_of(w.api("STREAM.CREATE.B", {"name": "B", "subjects": ["x"]})) == 10065

    def test_requests_for_a_busy_name_wait(self) -> None:
        w = World()
        w.ports.jobs_held = True
        for reply, body in ((b"r1", {}), (b"r2", {}), (b"r3", {"description": "other"})):
            payload = json.dumps({"name": "A", **body}).encode()
            w.ports.route(b"$JS.API.STREAM.CREATE.A", reply, None, payload)
        w.ports.route(b"$JS.API.STREAM.DELETE.A", b"r4", None, b"")
        w.ports.route(b"$JS.API.STREAM.UPDATE.A", b"r5", None, b'{"name":"A"}')
        w.ports.settle()
        assert w.ports.sent == []
        w.ports.jobs_held = False
        w.ports.settle()
        answers = {to: json.loads(payload) for to, _, _, payload in w.ports.sent}
        assert answers[b"r1"]["did_create"] is answers[b"r2"]["did_create"] is True
        assert error_of(answers[b"r3"]) == 10058
        assert answers[b"r4"]["success"] is True
        assert error_of(answers[b"r5"]) == 10059

    def test_a_name_can_be_used_again_at_once(self) -> None:
        w = World()
        for _ in range(3):
            w.create("A", subjects=["x"])
            w.publish("x")
            assert w.api("STREAM.DELETE.A") == {
                "type": "io.nats.jetstream.api.v1.stream_delete_response",
                "success": True,
            }
        assert w.ports.route(b"x", None, None, b"") == 0

    def test_a_disk_that_refuses_a_new_stream(self) -> None:
        stores = FakeStores()
        stores.fail_create = StorageFault("read-only file system")
        w = World(stores=stores)
        answer = w.api("STREAM.CREATE.A", {"name": "A", "max_bytes": 100})
        assert (error_of(answer), answer["error"]["description"]) == (10077, "read-only file system")
        assert w.account.streams == {}
        assert w.account.server.budgets[next(iter(w.account.budgets))].reserved_bytes == 0
        stores.fail_create = None
        w.create("A")

    def test_a_bug_in_file_work_is_an_answer_and_a_line_in_the_log(self) -> None:
        stores = FakeStores()
        stores.fail_create = stores.fail_destroy = RuntimeError("odd")
        w = World(stores=stores)
        answer = w.api("STREAM.CREATE.A", {"name": "A", "max_bytes": 100})
        assert (error_of(answer), answer["error"]["description"]) == (10077, "RuntimeError: odd")
        stores.fail_create = None
        w.create("A")
        answer = w.api("STREAM.DELETE.A")
        assert (error_of(answer), answer["error"]["description"]) == (10050, "RuntimeError: odd")
        assert [text for level, text in w.ports.logged if level == "ERR"] == [
            "Stream '$G > A' could not be created: RuntimeError: odd",
            "Stream '$G > A' could not be removed: RuntimeError: odd",
        ]
        w.create("A")

    @pytest.mark.parametrize("where", ["_allow_schedules", "start"])
    def test_a_bug_in_the_stream_itself_leaves_nothing_behind(
        self, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        def fails(*_: object) -> None:
            raise RuntimeError("odd")

        w = World()
        with monkeypatch.context() as patch:
            patch.setattr(Stream, where, fails)
            answer = w.api("STREAM.CREATE.A", {"name": "A", "subjects": ["a"], "max_bytes": 100})
        assert (error_of(answer), answer["error"]["description"]) == (10077, "RuntimeError: odd")
        assert w.account.streams == {} and w.publish("a") is None
        assert w.account.server.budgets[StorageType.FILE].reserved_bytes == 0
        w.create("A", subjects=["a"])
        assert w.publish("a") == {"stream": "A", "seq": 1}

    def test_a_stream_that_cannot_be_started_does_not_stop_the_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        disk = SimDisk()
        w = disk_world(disk)
        w.create("A")
        w.create("B")
        w.publish("B")
        w.account.shutdown()
        start = Stream.start

        def fails(stream: Stream) -> None:
            if stream.name == "A":
                raise RuntimeError("odd")
            start(stream)

        with monkeypatch.context() as patch:
            patch.setattr(Stream, "start", fails)
            w = disk_world(disk)
        assert w.api("STREAM.INFO.A")["error"]["description"] == "stream is offline: RuntimeError: odd"
        assert w.state("B")["messages"] == 1
        assert ("ERR", "Stream '$G > A' could not be started: RuntimeError: odd") in w.ports.logged
        assert "A" in disk_world(disk).account.streams

    def test_updates_move_the_subscriptions(self) -> None:
        w = World()
        w.create("A", subjects=["x", "y"])
        w.api("STREAM.UPDATE.A", {"name": "A", "subjects": ["y", "z"]})
        assert w.publish("x") is None
        assert w.publish("y")["seq"] == 1
        assert w.publish("z")["seq"] == 2


class TestPages:
    """Long lists come in pages."""

    def test_names_and_lists(self) -> None:
        w = World()
        for index in range(API_NAMES_MAX + 6):
            w.create(f"S{index:05d}")
        first = w.api("STREAM.NAMES")
        assert (first["total"], len(first["streams"])) == (API_NAMES_MAX + 6, API_NAMES_MAX)
        second = w.api("STREAM.NAMES", {"offset": API_NAMES_MAX})
        assert (second["offset"], len(second["streams"])) == (API_NAMES_MAX, 6)
        assert first["streams"] + second["streams"] == sorted(w.account.streams)
        page = w.api("STREAM.LIST", {"offset": 10})
        assert len(page["streams"]) == API_LIST_MAX
        assert page["streams"][0]["config"]["name"] == "S00010"
        beyond = w.api("STREAM.NAMES", {"offset": 10**6})
        assert (beyond["offset"], beyond["streams"]) == (API_NAMES_MAX + 6, None)


class TestAdvisories:
    """Events are published when somebody listens."""

    def test_nobody_listens(self) -> None:
        w = World()
        w.create("A")
        assert not [to for to, _, _, _ in w.ports.sent if to.startswith(b"$JS.EVENT")]

    def test_life_of_a_stream(self) -> None:
        w = World(domain="hub")
        seen: list[tuple[bytes, Any]] = []
        w.ports.subscribe(b"$JS.EVENT.ADVISORY.STREAM.>", lambda to, _r, _h, body: seen.append((to, json.loads(body))))
        w.create("A")
        w.api("STREAM.UPDATE.A", {"name": "A", "description": "d"})
        w.api("STREAM.UPDATE.A", {"name": "A", "storage": "memory"})
        w.api("STREAM.DELETE.A")
        assert [(to.decode(), event["action"]) for to, event in seen] == [
            ("$JS.EVENT.ADVISORY.STREAM.CREATED.A", "create"),
            ("$JS.EVENT.ADVISORY.STREAM.UPDATED.A", "modify"),
            ("$JS.EVENT.ADVISORY.STREAM.DELETED.A", "delete"),
        ]
        event = seen[0][1]
        assert list(event) == ["type", "id", "timestamp", "stream", "action", "domain"]
        assert event["type"] == "io.nats.jetstream.advisory.v1.stream_action"

    def test_audit(self) -> None:
        w = World()
        seen: list[Any] = []
        w.ports.subscribe(b"$JS.EVENT.ADVISORY.API", lambda _t, _r, _h, body: seen.append(json.loads(body)))
        w.create("A")
        w.publish("A")
        w.api("STREAM.MSG.GET.A", {"seq": 1})
        w.api("STREAM.INFO.NONE")
        w.dispatcher.handle(b"$JS.API.INFO", b"r", None, b"", {"user": "u"})
        assert [event["subject"] for event in seen] == [
            "$JS.API.STREAM.CREATE.A",
            "$JS.API.STREAM.INFO.NONE",
            "$JS.API.INFO",
        ]
        assert json.loads(seen[1]["response"])["error"]["err_code"] == 10059
        assert seen[2]["client"] == {"user": "u"}


class TestDispatch:
    """Which requests are answered at all."""

    @pytest.mark.parametrize(
        "subject",
        [
            "$JS.API.BLA",
            "$JS.API.STREAM.BLA.A",
            "$JS.API.STREAM.INFO",
            "$JS.API.STREAM.INFO.A.B",
            "$JS.API.STREAM.INFO.",
        ],
    )
    def test_unknown_subjects_are_silent(self, subject: str) -> None:
        w = World()
        assert w.request(subject) is None
        assert w.dispatcher.counters.total == 0

    def test_a_request_without_reply_is_carried_out(self) -> None:
        w = World()
        w.ports.route(b"$JS.API.STREAM.CREATE.A", None, None, b'{"name":"A"}')
        w.ports.settle()
        assert list(w.account.streams) == ["A"]

    def test_counters(self) -> None:
        w = World()
        w.create("A")
        w.publish("A")
        w.api("STREAM.MSG.GET.A", {"seq": 1})
        w.api("STREAM.MSG.GET.A", {"seq": 9})
        w.api("STREAM.INFO.NONE")
        assert w.api("INFO")["api"] == {"level": API_LEVEL, "total": 3, "errors": 2}

    def test_an_account_switched_off(self) -> None:
        w = World()
        w.dispatcher.enabled = False
        assert error_of(w.api("INFO")) == 10039
        assert error_of(w.api("STREAM.CREATE.A", {"name": "A"})) == 10039

    def test_handlers_of_other_layers(self) -> None:
        w = World()
        seen: list[list[str]] = []

        def handler(request: Any) -> dict[str, object]:
            seen.append(request.names)
            return {"ok": True}

        for pattern in ("STREAM.NEW.*", "STREAM.NEW.*.*", "STREAM.NEW.*.*.>"):
            w.dispatcher.register(pattern, "new_response", handler)
        for tail in ("S", "S.c", "S.c.a.b"):
            assert w.api(f"STREAM.NEW.{tail}") == {"type": "io.nats.jetstream.api.v1.new_response", "ok": True}
        assert seen == [["S"], ["S", "c"], ["S", "c", "a", "b"]]

    def test_direct_get_comes_and_goes(self) -> None:
        w = World()
        w.create("A")
        w.publish("A")
        assert w.request("$JS.API.DIRECT.GET.A", {"seq": 1}) is None
        w.api("STREAM.UPDATE.A", {"name": "A", "allow_direct": True})
        assert w.request("$JS.API.DIRECT.GET.A", {"seq": 1}) is not None
        w.api("STREAM.UPDATE.A", {"name": "A"})
        assert w.request("$JS.API.DIRECT.GET.A", {"seq": 1}) is None


def test_facts_for_monitoring() -> None:
    w = World()
    w.create("A", storage="memory", max_bytes=500)
    w.publish("A", b"12345")
    facts = w.account.snapshot()
    assert facts.healthy
    assert (facts.name, facts.memory_bytes, facts.reserved_memory_bytes) == ("$G", 22, 500)
    (stream,) = facts.streams
    assert (stream.name, stream.messages, stream.size_bytes, stream.last_seq, stream.fault) == ("A", 1, 22, 1, "")


def test_quarantined_directories_are_reported() -> None:
    stores = FakeStores()
    stores.aside = ["/x/quarantine/1"]
    w = World(stores=stores)
    assert not w.account.snapshot().healthy
    assert any("/x/quarantine/1" in text for _, text in w.ports.logged)


def test_shutdown_stops_listening() -> None:
    w = World()
    w.create("A")
    w.account.shutdown()
    assert w.publish("A") is None
    assert error_of(w.api("STREAM.INFO.A")) == 10059


class TestManySubjects:
    """More subjects than are listed at once: copied, sorted in a thread, read in pages."""

    def _world(self) -> World:
        w = World()
        w.create("S", subjects=["s.>"], storage="memory")
        for number in reversed(range(6_000)):
            w.ports.route(f"s.{number % 5_500:05}".encode(), None, None, b"")
        w.ports.settle()
        return w

    def test_all_of_them_sorted(self) -> None:
        answer = self._world().api("STREAM.INFO.S", {"subjects_filter": ">"})
        subjects = answer["state"]["subjects"]
        assert list(subjects) == sorted(subjects)
        assert answer["total"] == len(subjects) == 5_500
        assert sum(subjects.values()) == answer["state"]["messages"] == 6_000
        assert list(answer["state"]).index("subjects") == list(answer["state"]).index("num_subjects") + 1

    def test_the_end_of_them(self) -> None:
        answer = self._world().api("STREAM.INFO.S", {"subjects_filter": "s.*", "offset": 5_499})
        assert (answer["total"], answer["offset"], answer["state"]["subjects"]) == (5_500, 5_499, {"s.05499": 1})
        answer = self._world().api("STREAM.INFO.S", {"subjects_filter": "s.*", "offset": 5_500})
        assert answer["total"] == 5_500
        assert "subjects" not in answer["state"]

    def test_none_of_them(self) -> None:
        answer = self._world().api("STREAM.INFO.S", {"subjects_filter": "t.*"})
        assert (answer["total"], answer["limit"]) == (0, 0)
        assert "subjects" not in answer["state"]

    def test_a_page_shows_what_was_stored_before_it_was_asked_for(self) -> None:
        w = self._world()
        assert w.api("STREAM.INFO.S", {"subjects_filter": ">"})["total"] == 5_500
        w.ports.route(b"s.zz", None, None, b"")
        w.ports.settle()
        answer = w.api("STREAM.INFO.S", {"subjects_filter": ">", "offset": 5_500})
        assert answer["state"]["subjects"] == {"s.zz": 1}

    def test_a_copy_is_kept_for_the_next_page_and_not_for_long(self, monkeypatch: pytest.MonkeyPatch) -> None:
        w = self._world()
        store = w.account.streams["S"].store
        copies: list[bytes] = []
        take = store.subject_pages

        def copied(pattern: bytes) -> Any:
            copies.append(pattern)
            return take(pattern)

        monkeypatch.setattr(store, "subject_pages", copied)
        for _ in range(3):
            w.api("STREAM.INFO.S", {"subjects_filter": ">"})
        assert copies == [b">"]
        w.ports.advance(10 * SECOND_NS)
        w.api("STREAM.INFO.S", {"subjects_filter": ">"})
        assert copies == [b">", b">"]
