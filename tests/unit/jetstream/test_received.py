"""What was received before a question is committed before its answer, and shown in it; a fault leaves nothing of it."""

from __future__ import annotations

import errno
import json
from typing import Any

from slipstream.errors import StorageFault
from slipstream.testing.sim_disk import SimDisk
from support.disk_world import disk_world
from support.jetstream_world import World


def world_with_a_commit_in_flight(*streams: str) -> World:
    """One message in each stream is committed, a second one is not."""
    w = World(disk_like=True)
    for name in streams:
        w.create(name)
        w.publish(name, b"1")
    w.ports.jobs_held = True
    for name in streams:
        w.ports.route(name.encode(), b"r." + name.encode(), None, b"2")
    w.ports.settle()
    return w


def answers(w: World, reply: bytes) -> list[Any]:
    return [json.loads(sent[3]) for sent in w.ports.sent if sent[0] == reply]


def ask(w: World, call: str, body: bytes = b"") -> None:
    w.ports.route(b"$JS.API." + call.encode(), b"asked", None, body)
    w.ports.settle()


class TestListsWait:
    def test_a_list_of_streams(self) -> None:
        w = world_with_a_commit_in_flight("A", "B", "C")
        ask(w, "STREAM.LIST")
        assert answers(w, b"asked") == []
        w.ports.run_jobs()
        (listed,) = answers(w, b"asked")
        assert [stream["state"]["messages"] for stream in listed["streams"]] == [2, 2, 2]

    def test_a_list_waits_for_no_later_commit(self) -> None:
        w = world_with_a_commit_in_flight("A")
        ask(w, "STREAM.LIST")
        w.ports.route(b"A", None, None, b"3")
        w.ports.settle()
        w.ports.run_jobs()
        assert answers(w, b"asked")[0]["streams"][0]["state"]["messages"] in (2, 3)

    def test_a_list_shows_only_streams_that_are_asked_for(self) -> None:
        w = World(disk_like=True)
        w.create("A")
        w.create("B")
        w.ports.jobs_held = True
        w.ports.route(b"A", None, None, b"")
        w.ports.settle()
        ask(w, "STREAM.LIST", b'{"subject":"B"}')
        assert [stream["config"]["name"] for stream in answers(w, b"asked")[0]["streams"]] == ["B"]

    def test_a_stream_that_goes_meanwhile_is_not_listed(self) -> None:
        w = world_with_a_commit_in_flight("A", "B")
        ask(w, "STREAM.LIST")
        w.ports.route(b"$JS.API.STREAM.DELETE.A", b"deleted", None, b"")
        w.ports.settle()
        w.ports.jobs_held = False
        w.ports.settle()
        (listed,) = answers(w, b"asked")
        assert "error" not in listed
        assert "B" in [stream["config"]["name"] for stream in listed["streams"]]

    def test_a_fault_of_one_stream_does_not_fail_the_list(self) -> None:
        w = world_with_a_commit_in_flight("A", "B")
        w.stores.made["A"].fail_next = StorageFault("input/output error")
        ask(w, "STREAM.LIST")
        w.ports.run_jobs()
        w.ports.jobs_held = False
        w.ports.settle()
        (listed,) = answers(w, b"asked")
        assert [stream["state"]["messages"] for stream in listed["streams"]] == [1, 2]

    def test_a_change_is_not_listed_before_it_is_committed(self) -> None:
        w = World(disk_like=True)
        w.create("A")
        w.ports.jobs_held = True
        w.ports.route(b"$JS.API.STREAM.UPDATE.A", b"updated", None, b'{"name":"A","subjects":["A"],"max_msgs":7}')
        w.ports.settle()
        ask(w, "STREAM.LIST")
        assert answers(w, b"updated") == answers(w, b"asked") == []
        w.ports.run_jobs()
        assert answers(w, b"asked")[0]["streams"][0]["config"]["max_msgs"] == 7

    def test_the_account(self) -> None:
        w = world_with_a_commit_in_flight("A", "B", "C")
        ask(w, "INFO")
        assert answers(w, b"asked") == []
        w.ports.run_jobs()
        (info,) = answers(w, b"asked")
        stored = sum(stream.store.size_bytes for stream in w.account.streams.values())
        assert info["storage"] == stored > 0
        assert info["streams"] == 3

    def test_many_subjects_without_what_is_not_committed(self) -> None:
        w = World(disk_like=True)
        w.create("S", subjects=["s.>"])
        for number in range(5_100):
            w.ports.route(f"s.{number:05}".encode(), None, None, b"")
        w.ports.settle()
        w.ports.jobs_held = True
        w.ports.route(b"s.before", None, None, b"")
        w.ports.settle()
        ask(w, "STREAM.INFO.S", b'{"subjects_filter":">"}')
        w.ports.route(b"s.00001", None, None, b"")
        w.ports.route(b"s.later", None, None, b"")
        w.ports.run_jobs()
        w.ports.settle()
        w.ports.run_jobs()
        (info,) = answers(w, b"asked")
        subjects = info["state"]["subjects"]
        assert info["total"] == len(subjects) == info["state"]["num_subjects"] == 5_101
        assert subjects["s.00001"] == 1 and subjects["s.before"] == 1


class TestFaults:
    def test_nothing_that_was_judged_by_lost_messages_is_answered_by_them(self) -> None:
        """The repetition of a message that did not happen is no success."""
        w = World(disk_like=True)
        w.create("S", subjects=["s"])
        w.ports.jobs_held = True
        identified = b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n"
        w.ports.route(b"s", b"r1", identified, b"1")
        w.ports.route(b"s", b"r2", identified, b"1")
        w.ports.route(b"s", b"r3", b"NATS/1.0\r\nNats-Expected-Last-Sequence: 0\r\n\r\n", b"1")
        w.ports.settle()
        w.stores.made["S"].fail_next = StorageFault("input/output error")
        w.ports.run_jobs()
        for reply in (b"r1", b"r2", b"r3"):
            (answer,) = answers(w, reply)
            assert answer["error"]["err_code"] == 10077, answer

    def test_conditions_are_judged_by_what_happened(self) -> None:
        disk = SimDisk()
        w = disk_world(disk)
        w.create("S", subjects=["s.>"])
        assert w.publish("s.a", b"1")["seq"] == 1
        w.ports.jobs_held = True
        w.ports.route(b"s.a", b"lost", None, b"2")
        w.ports.settle()
        disk.faults = {disk.calls + n: errno.EIO for n in range(1, 10)}
        (write, end) = w.ports.jobs.pop()
        write()
        end()  # what repairs the store waits for its thread from here on
        store = w.account.streams["S"].store
        assert answers(w, b"lost")[0]["error"]["err_code"] == 10077 and store.fault is not None
        assert (store.assigned.last_seq_of(b"s.a"), store.assigned.messages) == (1, 1)
        for condition in ("Nats_Expected_Last_Subject_Sequence", "Nats_Expected_Last_Sequence"):
            assert w.publish("s.a", b"2", **{condition: "1"})["error"]["err_code"] == 10077
            refused = w.publish("s.a", b"2", **{condition: "2"})["error"]
            assert refused["description"] == "wrong last sequence: 1"
        disk.faults.clear()
        w.ports.jobs_held = False
        w.ports.settle()
        assert w.publish("s.a", b"2", Nats_Expected_Last_Subject_Sequence="1")["seq"] == 2
