"""BULK.STAGE, COMMIT and ABORT: all or nothing, once, and held to what a publish is held to."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from slipstream.jetstream.bulk.errors import PART_INVALID, PART_NOT_FOUND
from slipstream.jetstream.bulk.limits import BULK_SWEEP_NS
from slipstream.kernels.bulk.bulkscan import encode_message
from slipstream.kernels.log.record import StoredMessage, crc32c
from slipstream.limits import BULK_STAGE_IDLE_NS, BULK_STAGE_NS
from slipstream.units import SECOND_NS
from support.bulk_world import BulkWorld


@pytest.fixture(params=["file", "memory"])
def world(request: pytest.FixtureRequest) -> BulkWorld:
    """An account; the tests make streams of the kind they need."""
    made = BulkWorld()
    made.storage = request.param  # type: ignore[attr-defined]
    return made


def make(world: BulkWorld, **config: Any) -> None:
    world.create("S", **{"subjects": ["s.*"], "storage": world.storage, **config})  # type: ignore[attr-defined]


def plain(*payloads: bytes, subject: str = "s.1") -> list[tuple[str, bytes, bytes]]:
    return [(subject, b"", payload) for payload in payloads]


def headed(payload: bytes, subject: str = "s.1", **header: str) -> tuple[str, bytes, bytes]:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in header.items())
    return subject, f"NATS/1.0\r\n{lines}\r\n".encode(), payload


def test_parts_become_messages_in_order(world: BulkWorld) -> None:
    make(world)
    world.fill(2)
    one = world.stage(plain(b"a", b"b"), part=0)
    two = world.stage([headed(b"c", "s.2", Trace="1"), *plain(b"d")], part=1)
    assert world.state()["messages"] == 2
    done = world.commit(5, [two, one])
    assert (done["first_seq"], done["last_seq"], done["count"], done["duplicate"]) == (3, 6, 4, False)
    assert world.texts()[2:] == [b"c", b"d", b"a", b"b"]
    stored = world.account.streams["S"].store.get(3)
    assert (stored.subject, stored.headers) == (b"s.2", b"NATS/1.0\r\nTrace: 1\r\n\r\n")
    assert world.publish("s.1")["seq"] == 7
    world.account.streams["S"].check_invariants()


def test_a_batch_is_committed_once(world: BulkWorld) -> None:
    make(world)
    part = world.stage(plain(b"a"))
    first = world.commit(1, [part])
    again = world.commit(1, [part])
    assert again["duplicate"] and (again["first_seq"], again["last_seq"], again["count"]) == (1, 1, 1)
    other = world.stage(plain(b"b"))
    behind = world.commit(0, [other])
    assert behind["duplicate"] and (behind["first_seq"], behind["count"]) == (0, 0)
    assert world.commit(2, [world.stage(plain(b"c"))])["first_seq"] == first["last_seq"] + 1
    assert world.commit(1, [world.stage(plain(b"d"), "U")], "U")["count"] == 1, "other transactions are apart"
    assert world.texts() == [b"a", b"c", b"d"]


def test_an_empty_batch_moves_the_fence(world: BulkWorld) -> None:
    make(world)
    assert world.commit(3, [])["count"] == 0
    assert world.commit(3, [world.stage(plain(b"a"))])["duplicate"]
    assert world.commit(4, [world.stage([])])["count"] == 0
    assert world.texts() == []


def test_large_parts_come_in_slices(world: BulkWorld) -> None:
    """Records are cut by messages and by slices; publishes wait, and come behind in order."""
    make(world)
    rows = [(f"s.{n % 10}", b"", b"%d-" % n + bytes(n % 3000)) for n in range(600)]
    part = world.stage(rows)
    answers: list[dict[str, Any]] = []
    world.ports.subscribe(b"_INBOX.c", lambda _s, _r, _h, payload: answers.append(json.loads(payload)))
    world.ports.jobs_held = True
    body = json.dumps({"txn": "T", "batch_id": 1, "parts": [part]}).encode()
    world.ports.route(b"$JS.API.BULK.COMMIT.S", b"_INBOX.c", None, body)
    world.ports.settle()
    world.fill(3, payload=b"late")
    store = world.account.streams["S"].store
    assert (store.last_seq, answers) == (0, [])
    world.ports.jobs_held = False
    world.ports.settle()
    assert (answers[0]["first_seq"], answers[0]["last_seq"]) == (1, 600)
    assert world.texts() == [payload for _, _, payload in rows] + [b"late-0", b"late-1", b"late-2"]
    assert world.read().end["rows"] == 603


def test_consumers_are_told(world: BulkWorld) -> None:
    make(world)
    config = {"deliver_subject": "to.me", "ack_policy": "none"}
    got: list[bytes] = []
    world.ports.subscribe(b"to.me", lambda _s, _r, _h, payload: got.append(payload))
    made = world.api("CONSUMER.CREATE.S", {"stream_name": "S", "config": config})
    assert "error" not in made, made
    world.commit(1, [world.stage(plain(b"a", b"b"))])
    assert got == [b"a", b"b"]


def test_message_ids(world: BulkWorld) -> None:
    make(world)
    world.publish("s.1", b"first", Nats_Msg_Id="one")
    rows = [headed(b"again", Nats_Msg_Id="one"), headed(b"new", Nats_Msg_Id="two"), headed(b"twin", Nats_Msg_Id="two")]
    done = world.commit(1, [world.stage([*rows, *plain(b"plain")])])
    assert (done["first_seq"], done["last_seq"], done["count"], done["left_out"]) == (2, 3, 2, 2)
    assert world.texts() == [b"first", b"new", b"plain"]
    assert world.publish("s.1", b"x", Nats_Msg_Id="two")["duplicate"]
    nothing = world.commit(2, [world.stage(rows)])
    assert (nothing["first_seq"], nothing["count"], nothing["left_out"]) == (0, 0, 3)


def test_conditions(world: BulkWorld) -> None:
    make(world)
    world.fill(3, "s.1")
    good = [
        headed(b"a", Nats_Expected_Last_Subject_Sequence="3"),
        headed(b"b", Nats_Expected_Last_Subject_Sequence="4"),
        *plain(b"c", subject="s.2"),
        headed(b"d", "s.2", Nats_Expected_Last_Subject_Sequence="6"),
        headed(b"e", "s.3", Nats_Expected_Last_Subject_Sequence="0", Nats_Expected_Last_Sequence="7"),
    ]
    assert world.commit(1, [world.stage(good)])["last_seq"] == 8
    for bad in (
        headed(b"x", Nats_Expected_Last_Subject_Sequence="3"),
        headed(b"x", Nats_Expected_Last_Sequence="1"),
        headed(b"x", Nats_Expected_Stream="T"),
        headed(b"x", Nats_TTL="5"),
        headed(b"x", Nats_Rollup="sub"),
        headed(b"x", Nats_Batch_Id="b"),
    ):
        refused = world.commit(2, [world.stage([*plain(b"before"), bad])])
        assert "(row 1 of the part)" in refused["error"]["description"], refused
    assert world.state()["last_seq"] == 8
    world.account.streams["S"].check_invariants()


def test_life_times(world: BulkWorld) -> None:
    make(world, allow_msg_ttl=True)
    world.commit(1, [world.stage([headed(b"short", Nats_TTL="5"), *plain(b"long")])])
    assert world.commit(2, [world.stage([headed(b"x", Nats_TTL="soon")])])["error"]["err_code"] == 10165
    world.ports.advance(10 * SECOND_NS)
    assert world.texts() == [b"long"]


def test_life_times_where_removals_leave_markers(world: BulkWorld) -> None:
    make(world, allow_msg_ttl=True, allow_rollup_hdrs=True, subject_delete_marker_ttl=60 * SECOND_NS)
    world.commit(1, [world.stage([headed(b"x", Nats_TTL="5")])])
    assert b"Nats-TTL: 60" in world.account.streams["S"].store.get(1).headers


def test_counters_and_schedules(world: BulkWorld) -> None:
    make(world, allow_msg_counter=True)
    assert world.commit(1, [world.stage(plain(b"1"))])["error"]["err_code"] == 10169
    storage = world.storage  # type: ignore[attr-defined]
    world.create("T", subjects=["t.>"], storage=storage, allow_msg_schedules=True, allow_rollup_hdrs=True)
    when = {"Nats_Schedule": "@every 1s", "Nats_Schedule_Target": "t.out"}
    assert world.publish("t.plan", b"tick", **when)["seq"] == 1
    world.commit(1, [world.stage(plain(b"instead", subject="t.plan"), stream="T")], stream="T")
    world.ports.advance(5 * SECOND_NS)
    assert world.texts("T") == [b"tick", b"instead"], "a message ends the schedule on its subject"


def test_what_a_stream_does_not_take(world: BulkWorld) -> None:
    make(world, max_msg_size=20)
    cases = {
        "x.1": (30010, "does not take this subject"),
        "s.*": (30010, "bad subject"),
        "s..1": (30010, "bad subject"),
    }
    for subject, (number, text) in cases.items():
        begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 0})
        record = encode_message(StoredMessage(1, 0, subject.encode(), b"", b""))
        staged = world.api(f"BULK.STAGE.S.{begun['id']}.0", record)
        if "error" not in staged:
            end = {"count": 1, "crc": crc32c(record[:4]), "bytes": len(record)}
            part = world.api(f"BULK.STAGE.S.{begun['id']}.END", end)
            staged = world.commit(1, [{name: part[name] for name in ("name", "count", "crc", "bytes")}])
        assert staged["error"]["err_code"] == number and text in staged["error"]["description"]
    too_large = world.commit(1, [world.stage(plain(b"ok", b"x" * 21))])
    assert too_large["error"]["err_code"] == 10054
    assert world.texts() == []
    assert world.publish("s.1", b"y")["seq"] == 1


def test_no_message_is_larger_than_one_that_is_published() -> None:
    """`max_payload` counts headers and payload; a record is refused by what it says, before all of it came."""
    world = BulkWorld(max_payload_bytes=1000)
    world.create("S", subjects=["s.*"])
    head = b"NATS/1.0\r\nA: b\r\n\r\n"
    assert world.commit(1, [world.stage([("s.1", head, bytes(1000 - len(head)))])])["count"] == 1
    staged = world.stage([("s.1", b"", bytes(900))])
    for header, size in ((head, 1001 - len(head)), (b"", 1001), (b"", 1 << 20)):
        begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 0})
        record = encode_message(StoredMessage(1, 0, b"s.1", header, bytes(size)))
        answer = world.api(f"BULK.STAGE.S.{begun['id']}.0", record[:64])
        assert answer["error"]["err_code"] == 30010 and "too large" in answer["error"]["description"]
    world.account.shutdown()
    lower = BulkWorld(world.disk, max_payload_bytes=800)
    refused = lower.commit(2, [staged])
    assert refused["error"]["err_code"] == 10054, "what was staged before is held to it, too"
    assert len(lower.texts()) == 1


def test_limits_of_a_stream_that_drops_the_oldest(world: BulkWorld) -> None:
    make(world, max_msgs=5, max_msgs_per_subject=2)
    rows = [(f"s.{n % 4}", b"", b"%d" % n) for n in range(12)]
    assert world.commit(1, [world.stage(rows)])["last_seq"] == 12
    assert world.texts() == [b"7", b"8", b"9", b"10", b"11"]
    make_two = {"subjects": ["t"], "storage": world.storage, "max_bytes": 1000}  # type: ignore[attr-defined]
    world.create("T", **make_two)
    world.commit(1, [world.stage(plain(*(b"%02d" % n for n in range(99)), subject="t"), stream="T")], stream="T")
    assert world.state("T")["bytes"] <= 1000
    assert world.texts("T")[-1] == b"98"


def test_limits_of_a_stream_that_refuses_the_newest(world: BulkWorld) -> None:
    make(world, max_msgs=3, discard="new")
    assert world.commit(1, [world.stage(plain(b"a", b"b", b"c", b"d"))])["error"]["err_code"] == 10077
    assert world.commit(1, [world.stage(plain(b"a", b"b", b"c"))])["count"] == 3
    world.create("T", subjects=["t"], max_bytes=300, discard="new", storage=world.storage)  # type: ignore[attr-defined]
    rows = plain(*(b"%d" % n for n in range(20)), subject="t")
    refused = world.commit(1, [world.stage(rows, stream="T")], stream="T")
    assert "maximum bytes exceeded" in refused["error"]["description"]
    config = {"max_msgs_per_subject": 1, "discard_new_per_subject": True, "discard": "new"}
    world.create("U", subjects=["u"], storage=world.storage, **config)  # type: ignore[attr-defined]
    refused = world.commit(1, [world.stage(plain(b"1", b"2", subject="u"), stream="U")], stream="U")
    assert "per subject exceeded" in refused["error"]["description"]
    assert world.texts("T") == world.texts("U") == []


def test_interest_transform_and_republish(world: BulkWorld) -> None:
    make(world, retention="interest")
    config = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": "s.2"}
    world.api("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    done = world.commit(1, [world.stage([("s.1", b"", b"no"), ("s.2", b"", b"yes")])])
    assert (done["count"], done["left_out"]) == (1, 1)
    assert world.texts() == [b"yes"]
    world.create(
        "T",
        subjects=["t.*"],
        storage=world.storage,  # type: ignore[attr-defined]
        subject_transform={"src": "t.*", "dest": "moved.$1"},
        republish={"src": ">", "dest": "copy.>"},
    )
    copies: list[tuple[bytes, bytes | None]] = []
    world.ports.subscribe(b"copy.>", lambda subject, _r, header, _p: copies.append((subject, header)))
    world.commit(1, [world.stage([("t.1", b"", b"a"), ("t.1", b"", b"b")], stream="T")], stream="T")
    assert world.account.streams["T"].store.get(1).subject == b"moved.1"
    assert [subject for subject, _ in copies] == [b"copy.moved.1"] * 2
    assert b"Nats-Last-Sequence: 1\r\n" in (copies[1][1] or b"")


def test_a_transform_comes_before_all_questions(world: BulkWorld) -> None:
    transform = {"subject_transform": {"src": "t.*", "dest": "moved.$1"}, "storage": world.storage}  # type: ignore[attr-defined]
    world.create("T", subjects=["t.*"], **transform)
    rows = [("t.1", b"", b"a"), headed(b"b", "t.1", Nats_Expected_Last_Subject_Sequence="1")]
    assert world.commit(1, [world.stage(rows, stream="T")], stream="T")["count"] == 2
    assert [world.account.streams["T"].store.get(seq).subject for seq in (1, 2)] == [b"moved.1"] * 2
    world.create(
        "I",
        subjects=["i.*"],
        **{**transform, "subject_transform": {"src": "i.*", "dest": "went.$1"}},
        retention="interest",
    )
    config = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": "went.1"}
    world.api("CONSUMER.DURABLE.CREATE.I.C", {"stream_name": "I", "config": config})
    done = world.commit(1, [world.stage([("i.1", b"", b"yes"), ("i.2", b"", b"no")], stream="I")], stream="I")
    assert (done["count"], done["left_out"]) == (1, 1)


def test_closed_streams(world: BulkWorld) -> None:
    make(world)
    part = world.stage(plain(b"a"))
    config = world.api("STREAM.INFO.S")["config"]
    world.api("STREAM.UPDATE.S", {**config, "sealed": True})
    assert world.commit(1, [part])["error"]["err_code"] == 10109
    assert world.error("BULK.STAGE.S", {"txn": "T", "part": 0})[0] == 10109


# --- staging --------------------------------------------------------------------------------------------------------


def test_bytes_that_are_no_part(world: BulkWorld) -> None:
    make(world)
    record = encode_message(StoredMessage(1, 0, b"s.1", b"", b"x"))
    begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 0})["id"]
    assert world.error(f"BULK.STAGE.S.{begun}.8", record)[0] == 30010
    assert world.error(f"BULK.STAGE.S.{begun}.x", record)[0] == 30001
    assert world.error("BULK.STAGE.S.nobody.0", record)[0] == 30011
    damaged = record[:33] + bytes([record[33] ^ 1]) + record[34:]
    assert world.error(f"BULK.STAGE.S.{begun}.0", damaged)[0] == 30010
    assert world.error(f"BULK.STAGE.S.{begun}.END", {"count": 1, "crc": 0, "bytes": len(record)})[0] == 30010
    assert world.error(f"BULK.STAGE.S.{begun}.END", {"count": 1, "crc": 0, "bytes": len(record)})[0] == 30011
    begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 0})["id"]
    second = encode_message(StoredMessage(2, 0, b"s.1", b"", b"x"))
    assert world.error(f"BULK.STAGE.S.{begun}.0", second)[0] == 30010, "the first record must be number 1"
    begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 0})["id"]
    world.api(f"BULK.STAGE.S.{begun}.0", record)
    assert world.error(f"BULK.STAGE.S.{begun}.END", {"count": 1})[0] == 30001
    lying = {"count": 2, "crc": crc32c(record[:4]), "bytes": len(record)}
    assert world.error(f"BULK.STAGE.S.{begun}.END", lying)[0] == 30010


@pytest.mark.parametrize(
    "body", [{}, {"txn": "", "part": 0}, {"txn": "x" * 300, "part": 0}, {"txn": "T", "part": -1}, {"txn": 1, "part": 0}]
)
def test_bad_stages(world: BulkWorld, body: dict[str, Any]) -> None:
    make(world)
    assert world.error("BULK.STAGE.S", body)[0] == 30001


def test_bad_commits(world: BulkWorld) -> None:
    make(world)
    part = world.stage(plain(b"a"))
    foreign = world.stage(plain(b"a"), "U")
    for body, number in (
        ({"txn": "T", "batch_id": -1, "parts": []}, 30001),
        ({"txn": "T", "batch_id": 1}, 30001),
        ({"txn": "T", "batch_id": 1, "parts": [foreign]}, 30001),
        ({"txn": "T", "batch_id": 1, "parts": [part, part]}, 30001),
        ({"txn": "T", "batch_id": 1, "parts": [{**part, "name": "../../" + part["name"]}]}, 30001),
        ({"txn": "T", "batch_id": 1, "parts": [{**part, "name": part["name"] + "0"}]}, 30011),
        ({"txn": "T", "batch_id": 1, "parts": [{**part, "bytes": 8}]}, 30011),
        ({"txn": "T", "batch_id": 1, "parts": [{**part, "crc": part["crc"] ^ 1}]}, 30010),
        ({"txn": "T", "batch_id": 1, "parts": [part], "identity": "1/2"}, 30005),
    ):
        assert world.error("BULK.COMMIT.S", body)[0] == number, body
    assert world.texts() == []
    assert world.commit(1, [part])["count"] == 1


def test_abort(world: BulkWorld) -> None:
    make(world)
    part, other = world.stage(plain(b"a")), world.stage(plain(b"b"), "U")
    begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 1})["id"]
    assert world.api("BULK.ABORT.S", {"txn": "T"})["parts"] == 1
    assert world.error(f"BULK.STAGE.S.{begun}.0", b"x")[0] == 30011
    assert world.commit(1, [part])["error"]["err_code"] == 30011
    assert world.commit(1, [other], "U")["count"] == 1
    assert world.api("BULK.ABORT.S", {"txn": "T"})["parts"] == 0


def test_what_nobody_commits_is_swept(world: BulkWorld) -> None:
    make(world)
    part = world.stage(plain(b"a"))
    begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 1})["id"]
    world.ports.advance(BULK_STAGE_IDLE_NS + 2 * BULK_SWEEP_NS)
    assert world.error(f"BULK.STAGE.S.{begun}.0", b"x")[0] == 30011
    on_disk = any(part["name"] in path for path in world.disk.paths())
    assert on_disk is (world.storage == "file")  # type: ignore[attr-defined]
    world.ports.advance(BULK_STAGE_NS)
    assert world.commit(1, [part])["error"]["err_code"] == 30011
    assert not any("/staging/" in path for path in world.disk.paths())


def test_a_part_is_kept_as_long_as_its_writer_asks(world: BulkWorld) -> None:
    make(world)
    brief, usual = world.stage(plain(b"a"), part=0, keep_s=60), world.stage(plain(b"b"), part=1)
    world.ports.advance(60 * SECOND_NS)
    assert world.commit(1, [brief, usual])["count"] == 2, "its time is not over before the next sweep"
    brief, usual = world.stage(plain(b"c"), part=0, keep_s=60), world.stage(plain(b"d"), part=1)
    world.ports.advance(60 * SECOND_NS + 2 * BULK_SWEEP_NS)
    assert world.commit(2, [brief])["error"]["err_code"] == 30011
    assert world.commit(2, [usual])["count"] == 1
    assert not any("/staging/" in path for path in world.disk.paths())


def test_the_time_of_a_part_counts_from_when_it_is_whole(world: BulkWorld) -> None:
    make(world)
    begun = world.api("BULK.STAGE.S", {"txn": "T", "part": 0, "keep_s": 60})["id"]
    world.ports.advance(200 * SECOND_NS)
    part = world.api(f"BULK.STAGE.S.{begun}.END", {"count": 0, "crc": 0, "bytes": 0})
    world.ports.advance(50 * SECOND_NS)
    named = {name: part[name] for name in ("name", "count", "crc", "bytes")}
    assert world.commit(1, [named])["count"] == 0
    assert world.commit(1, [])["duplicate"]


def test_a_part_that_a_commit_names_is_kept_for_it(world: BulkWorld) -> None:
    """A commit may wait for others, or take long."""
    make(world)
    part = world.stage(plain(b"a"), keep_s=60)
    refused = world.api("BULK.COMMIT.S", {"txn": "T", "batch_id": 2, "parts": [part], "after": 1})
    assert refused["error"]["err_code"] == 30015, refused
    world.ports.advance(100 * SECOND_NS)
    assert world.commit(2, [part])["count"] == 1


@pytest.mark.parametrize("keep_s", [0, -1, 59, 86_401, 2**70])
def test_a_part_cannot_be_kept_for_any_time(world: BulkWorld, keep_s: int) -> None:
    make(world)
    code, text = world.error("BULK.STAGE.S", {"txn": "T", "part": 0, "keep_s": keep_s})
    assert code == 30001, text
    assert world.stage(plain(b"a"), keep_s=86_400)["count"] == 1


def test_a_stream_takes_its_parts_along(world: BulkWorld) -> None:
    make(world)
    world.stage(plain(b"a"))
    world.api("STREAM.DELETE.S")
    assert not any("/staging/" in path for path in world.disk.paths())
    make(world)
    assert world.commit(1, [world.stage(plain(b"a"))])["count"] == 1


# --- restarts, faults, power cuts -----------------------------------------------------------------------------------


def test_the_time_of_a_part_survives_a_restart() -> None:
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    brief, usual = world.stage(plain(b"a"), part=0, keep_s=60), world.stage(plain(b"b"), part=1)
    again = world.restart()
    again.ports.advance(40 * SECOND_NS)
    assert sum("/staging/" in path for path in again.disk.paths()) == 2
    again.ports.advance(20 * SECOND_NS + 2 * BULK_SWEEP_NS)
    assert again.commit(1, [brief])["error"]["err_code"] == 30011
    assert again.commit(1, [usual])["count"] == 1


def test_parts_and_fences_survive_a_restart() -> None:
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    done = world.commit(7, [world.stage(plain(b"a", b"b"))])
    part = world.stage(plain(b"c"))
    again = world.restart()
    repeated = again.commit(7, [])
    assert repeated["duplicate"]
    assert (repeated["first_seq"], repeated["last_seq"]) == (done["first_seq"], done["last_seq"])
    assert again.commit(8, [part])["first_seq"] == 3
    assert again.texts() == [b"a", b"b", b"c"]
    third = again.restart()
    assert third.commit(8, [part])["duplicate"]


def test_a_full_disk_refuses_and_recovers() -> None:
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    part = world.stage([("s.1", b"", bytes(5000)) for _ in range(100)])
    world.disk.capacity = world.disk.used() + 100_000
    refused = world.commit(1, [part])
    assert "error" in refused
    assert world.texts() == []
    world.disk.capacity = None
    world.ports.advance(10 * SECOND_NS)
    assert world.commit(1, [part])["count"] == 100
    assert world.publish("s.1")["seq"] == 101


@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_leaves_all_or_nothing(seed: int) -> None:
    """Cut at any call of the disk during a commit: batch and fence are both there, or neither.

    Parts are not synced: one that was spoilt refuses its commit, and is staged again.
    """
    rng = random.Random(seed)
    world = BulkWorld()
    world.create("S", subjects=["s.*"])
    world.publish("s.1", b"before")
    rows = [("s.1", b"", b"%d-" % n + bytes(2000)) for n in range(300)]
    part = world.stage(rows)
    images = []
    write = world.disk.write

    def noting(path: str, offset: int, data: bytes) -> None:
        write(path, offset, data)
        images.append(world.disk.crash(rng, keep=rng.random(), torn=True))

    world.disk.write = noting  # type: ignore[method-assign]
    assert world.commit(1, [part])["count"] == 300
    world.disk.write = write  # type: ignore[method-assign]
    images.append(world.disk.crash(rng, keep=0.0, torn=False))
    assert len(images) > 1
    spoilt: set[int] = set()
    for number, image in enumerate(images):
        again = BulkWorld(image)
        texts = again.texts()
        repeated = again.commit(1, [part])
        if len(texts) == 301:
            assert repeated["duplicate"]
        else:
            assert texts == [b"before"], number
            assert not repeated.get("duplicate", False)
            if "error" in repeated:
                spoilt.add(repeated["error"]["err_code"])
                assert again.texts() == [b"before"]
                assert again.commit(1, [again.stage(rows, attempt=1)])["count"] == 300
        assert again.texts() == [b"before", *(payload for _, _, payload in rows)]
    assert spoilt <= {PART_NOT_FOUND.err_code, PART_INVALID.err_code}
    assert len(BulkWorld(images[-1]).texts()) == 301, "what was answered is there"
