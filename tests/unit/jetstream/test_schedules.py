"""Schedules over time: repeated, replaced, lost, held up, and found again after a restart."""

from __future__ import annotations

import pytest

from slipstream.jetstream.ports import Recovered
from slipstream.jetstream.stream.retention.interest import NoConsumers
from slipstream.units import HOUR_NS, MINUTE_NS, SECOND_NS
from support.jetstream_world import START_NS, FakePorts, FakeStores, World

ALLOWED = {"subjects": ["s.>"], "allow_msg_schedules": True, "allow_msg_ttl": True}


def world_with(**config: object) -> World:
    world = World()
    world.create(**{**ALLOWED, **config})
    return world


def schedule(
    world: World, pattern: str, subject: str = "s.a", payload: bytes = b"it", **more: str
) -> dict[str, object]:
    answer: dict[str, object] = world.publish(
        subject, payload, Nats_Schedule=pattern, **{"Nats_Schedule_Target": "s.t", **more}
    )
    return answer


def published(world: World, subject: bytes = b"s.t") -> list[tuple[int, bytes, dict[str, str]]]:
    """Time, body and headers of what is under a subject."""
    store = world.account.streams["S"].store
    found = []
    for seq in world.seqs():
        message = store.get(seq)
        if message.subject == subject:
            lines = message.headers.decode().split("\r\n")[1:] if message.headers else []
            found.append((message.ts_ns, message.payload, dict(line.split(": ", 1) for line in lines if line)))
    return found


def restarted(world: World, after_ns: int = 0) -> World:
    """The same stores in a new process, some time later."""
    stream = world.account.streams["S"]
    world.account.shutdown()
    ports, stores = FakePorts(), FakeStores()
    ports.clock_ns = world.ports.clock_ns + after_ns
    stores.recoverable = [Recovered(stream.store, stream.created_ns, stream.config)]
    return World(ports=ports, stores=stores)


def test_at_a_time() -> None:
    world = world_with()
    assert schedule(world, "@at 2025-11-15T03:00:00Z", A="b", Nats_Schedule_TTL="5m") == {"stream": "S", "seq": 1}
    due_ns = 1_763_175_600 * SECOND_NS
    world.ports.advance(due_ns - START_NS - 1)
    assert published(world) == []
    world.ports.advance(2)
    assert published(world) == [
        (due_ns, b"it", {"A": "b", "Nats-Scheduler": "s.a", "Nats-Schedule-Next": "purge", "Nats-TTL": "5m"})
    ]
    assert published(world, b"s.a") == [], "the schedule has done its work"
    world.ports.advance(10 * MINUTE_NS)
    assert world.state()["last_seq"] == 2


def test_every_so_often() -> None:
    world = world_with()
    schedule(world, "@every 10s")
    world.ports.advance(35 * SECOND_NS)
    assert [ts_ns - START_NS for ts_ns, _, _ in published(world)] == [10 * SECOND_NS, 20 * SECOND_NS, 30 * SECOND_NS]
    assert published(world)[-1][2]["Nats-Schedule-Next"] == "2025-11-15T02:22:57Z"
    assert len(published(world, b"s.a")) == 1


def test_a_zone_decides_when_a_day_begins() -> None:
    world = world_with()
    schedule(world, "@daily", Nats_Schedule_Time_Zone="Asia/Tokyo")
    world.ports.advance(24 * HOUR_NS)
    ((ts_ns, _, lines),) = published(world)
    assert (ts_ns // SECOND_NS) % 86_400 == 15 * 3600
    assert lines["Nats-Schedule-Next"] == "2025-11-17T00:00:00+09:00"


def test_times_in_between_come_from_the_last_message_of_a_source() -> None:
    world = world_with()
    schedule(world, "@every 1s", Nats_Schedule_Source="s.sensor", Nats_Schedule_Rollup="sub")
    world.ports.advance(1500 * 1_000_000)
    world.publish("s.sensor", b"20 degrees", Unit="C", Nats_Msg_Id="x")
    world.ports.advance(SECOND_NS)
    ((_, payload, lines),) = published(world)
    assert payload == b"20 degrees"
    assert set(lines) == {"Unit", "Nats-Scheduler", "Nats-Schedule-Next", "Nats-Rollup"}


@pytest.mark.parametrize("how", ["replaced", "overwritten", "deleted", "purged", "cancelled"])
def test_what_ends_a_schedule(how: str) -> None:
    world = world_with()
    schedule(world, "@every 1m")
    match how:
        case "replaced":
            schedule(world, "@every 1h", payload=b"other")
        case "overwritten":
            world.publish("s.a", b"no schedule")
        case "deleted":
            world.api("STREAM.MSG.DELETE.S", {"seq": 1})
        case "purged":
            world.api("STREAM.PURGE.S", {"filter": "s.>"})
        case "cancelled":
            world.publish("s.x", b"", Nats_Scheduler="s.a", Nats_Schedule_Next="purge")
    world.ports.advance(10 * MINUTE_NS)
    assert published(world) == []


@pytest.mark.parametrize(("pattern", "down_ns", "fires_ns"), [
    ("@every 10m", 0, 10 * MINUTE_NS),
    ("@every 10m", 4 * MINUTE_NS, 10 * MINUTE_NS),
    ("@every 10m", 35 * MINUTE_NS, 45 * MINUTE_NS),  # what was missed is not made up for
    ("@at 2025-11-15T03:00:00Z", 10 * HOUR_NS, 10 * HOUR_NS + SECOND_NS // 4),  # but a single time is
])  # fmt: skip
def test_restarts(pattern: str, down_ns: int, fires_ns: int) -> None:
    world = world_with()
    schedule(world, pattern)
    world = restarted(world, down_ns)
    world.ports.advance(20 * HOUR_NS)
    assert published(world)[0][0] - START_NS == fires_ns


def test_a_restart_between_two_times() -> None:
    world = world_with()
    schedule(world, "@every 10s")
    world.ports.advance(25 * SECOND_NS)
    world = restarted(world)
    world.ports.advance(20 * SECOND_NS)
    assert [(ts_ns - START_NS) // SECOND_NS for ts_ns, _, _ in published(world)] == [10, 20, 30, 40]


def test_what_cannot_be_stored_is_tried_again() -> None:
    world = world_with(max_msg_size=200)
    schedule(world, "@at 2020-01-01T00:00:00Z", Nats_Schedule_Source="s.big")
    stream = world.account.streams["S"]
    stream.store.append(2, START_NS, b"s.big", b"", bytes(300))
    stream.appends.take_over(b"")
    stream.committer.wake()
    world.ports.advance(5 * SECOND_NS)
    assert published(world) == []
    world.publish("s.big", b"small")
    world.ports.advance(2 * SECOND_NS)
    assert [payload for _, payload, _ in published(world)] == [b"small"]


def test_many_at_once_keep_their_order() -> None:
    world = world_with()
    for number in range(2500):
        schedule(world, "@at 2020-01-01T00:00:00Z", f"s.n.{number}", b"%d" % number)
    world.ports.advance(10 * SECOND_NS)
    assert [int(payload) for _, payload, _ in published(world)] == list(range(2500))
    assert len(world.account.streams["S"]._schedules) == 0


def test_schedules_whose_messages_went_are_forgotten() -> None:
    world = world_with()
    schedules = world.account.streams["S"]._schedules
    for number in range(3000):
        schedule(world, "@at 2120-01-01T00:00:00Z", f"s.n.{number}")
        if number % 1000 == 999:
            world.api("STREAM.PURGE.S", {})
    assert len(schedules) < 2100


class OnlySchedules(NoConsumers):
    """Somebody reads the schedules, nobody what they publish."""

    def has_interest(self, subject: bytes) -> bool:
        return subject == b"s.a"


def test_interest_retention_does_not_stop_a_schedule() -> None:
    world = world_with(retention="interest")
    world.account.streams["S"].serve(OnlySchedules())
    schedule(world, "@every 1s")
    world.ports.advance(3500 * 1_000_000)
    assert published(world) == [], "nobody wants what it publishes"
    assert world.state()["last_seq"] == 4


def test_schedules_can_be_switched_on_later() -> None:
    world = World()
    world.create(subjects=["s.>"])
    answer = world.api("STREAM.UPDATE.S", {"name": "S", **ALLOWED})
    assert "error" not in answer
    schedule(world, "@every 1s")
    world.ports.advance(1500 * 1_000_000)
    assert len(published(world)) == 1


def test_a_deleted_stream_schedules_nothing() -> None:
    world = world_with()
    schedule(world, "@every 1s")
    world.api("STREAM.DELETE.S")
    world.ports.sent.clear()
    world.ports.advance(10 * SECOND_NS)
    assert world.ports.sent == []
