"""Message ids over restarts: an id counts for its window, whatever became of the message meanwhile."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from slipstream.jetstream.store.limits import STORE_REMOVED_KEPT_SEGMENTS
from slipstream.testing.sim_disk import SimDisk
from slipstream.units import SECOND_NS
from support.disk_world import disk_world
from support.jetstream_world import FakePorts

SEGMENT = 1 << 16


class Restarting:
    """One stream on a disk, in a server that is started again and again."""

    def __init__(self, **config: Any) -> None:
        self.disk = SimDisk()
        self.world = disk_world(self.disk)
        self.world.create("S", subjects=["s.>"], duplicate_window=120 * SECOND_NS, **config)

    def publish(self, message_id: str, subject: str = "s.a", size: int = 1, **extra: str) -> dict[str, Any]:
        lines = {"Nats-Msg-Id": message_id, **extra}
        block = "NATS/1.0\r\n" + "".join(f"{key}: {value}\r\n" for key, value in lines.items()) + "\r\n"
        answer = self.world.request(subject, b"x" * size, block.encode())
        assert answer is not None
        found: dict[str, Any] = json.loads(answer[1])
        return found

    def is_duplicate(self, message_id: str) -> bool:
        return bool(self.publish(message_id).get("duplicate"))

    def restart(self) -> None:
        self.world.account.shutdown()
        self.world = disk_world(self.disk, self.fresh_ports())

    def crash(self) -> None:
        self.disk = self.disk.crash(random.Random(1), keep=0.0, torn=False)
        self.world = disk_world(self.disk, self.fresh_ports())

    def fresh_ports(self) -> FakePorts:
        ports = FakePorts()
        ports.clock_ns = self.world.ports.clock_ns
        return ports

    def later(self, seconds: int) -> None:
        self.world.ports.advance(seconds * SECOND_NS)

    @property
    def segments(self) -> int:
        return sum(name.endswith(".seg") for name in self.disk.list_dir(self.directory))

    @property
    def directory(self) -> str:
        return str(self.store.directory)

    @property
    def store(self) -> Any:
        return self.world.account.streams["S"].store


def delete(streams: Restarting) -> None:
    assert streams.world.api("STREAM.MSG.DELETE.S", {"seq": 1, "no_erase": True})["success"]


def purge(streams: Restarting) -> None:
    assert streams.world.api("STREAM.PURGE.S")["purged"] == 1


def roll_up(streams: Restarting) -> None:
    streams.publish("other", **{"Nats-Rollup": "sub"})


def replace(streams: Restarting) -> None:
    streams.publish("other")


@pytest.mark.parametrize("remove", [delete, purge, roll_up, replace])
@pytest.mark.parametrize("end", [Restarting.restart, Restarting.crash])
def test_the_id_of_a_removed_message_survives(remove: Any, end: Any) -> None:
    streams = Restarting(allow_rollup_hdrs=True, max_msgs_per_subject=1)
    assert "duplicate" not in streams.publish("a")
    remove(streams)
    end(streams)
    assert streams.is_duplicate("a")
    assert streams.publish("a")["seq"] == 1
    assert not streams.is_duplicate("new")
    streams.world.account.streams["S"].check_invariants()


def test_it_leaves_the_window_as_others_do() -> None:
    streams = Restarting(max_msgs_per_subject=1)
    streams.publish("a")
    streams.later(60)
    streams.publish("b")
    streams.restart()
    streams.later(61)
    assert not streams.is_duplicate("a")
    assert streams.is_duplicate("b")


def test_an_erased_message_leaves_no_id() -> None:
    streams = Restarting()
    streams.publish("a")
    assert streams.world.api("STREAM.MSG.DELETE.S", {"seq": 1})["success"]
    streams.restart()
    assert not streams.is_duplicate("a")


def test_segments_stay_until_the_window_has_passed() -> None:
    streams = Restarting(max_msgs=1)
    for number in range(20):
        streams.publish(f"id-{number}", size=SEGMENT // 8)
        streams.later(1)
    kept = streams.segments
    assert kept > 2
    streams.restart()
    assert streams.is_duplicate("id-0")
    streams.later(600)
    streams.publish("last")
    streams.later(600)
    assert streams.segments < kept


def test_they_do_not_stay_in_any_number() -> None:
    streams = Restarting(max_msgs=1)
    for number in range(150):
        streams.publish(f"id-{number}", size=SEGMENT // 8)
        streams.later(0 if number % 10 else 1)
    streams.later(60)
    assert streams.segments <= STORE_REMOVED_KEPT_SEGMENTS + 2


def test_without_ids_space_comes_back_at_once() -> None:
    streams = Restarting(max_msgs=1)
    for _ in range(20):
        streams.world.request("s.a", b"x" * (SEGMENT // 8))
    streams.later(10)
    assert streams.segments <= 2
