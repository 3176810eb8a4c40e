"""A backup is written by whoever sends it: what is in it is judged as if it were published."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from typing import Any

import pytest

from slipstream.jetstream.backup.archive import MAGIC, ArchiveEntry, encode_entry
from slipstream.jetstream.backup.s2 import S2Writer
from slipstream.jetstream.ports import AccountLimits
from support.consumer_world import ConsumerWorld

KIB = 1024
FORGED = b"s.x 1 0\r\n\r\nMSG secret 1 5\r\nevil!\r\nMSG s.x"
YEAR_2200_NS = 7_258_118_400 * 10**9


def compressed(content: bytes) -> bytes:
    writer = S2Writer()
    return writer.write(content) + writer.close()


def archive(
    *messages: ArchiveEntry, state: dict[str, Any] | None = None, consumers: dict[str, Any] | None = None
) -> bytes:
    consumers = consumers or {}
    body = {"consumer_count": len(consumers), **(state or {})}
    entries = [ArchiveEntry(b"state.json", 1, payload=json.dumps(body).encode())]
    entries += [
        ArchiveEntry(b"consumers/" + name.encode(), 1, payload=json.dumps(content).encode())
        for name, content in consumers.items()
    ]
    return compressed(MAGIC + b"".join(map(encode_entry, [*entries, *messages, ArchiveEntry()])))


def old_backup(*messages: ArchiveEntry, files: dict[str, bytes] | None = None, name: str = "S") -> bytes:
    """A tar of files, as nats-server wrote it before 2.15."""
    block = b""
    for entry in messages:
        flag = 1 << 31 if entry.headers else 0
        body = entry.name + (struct.pack("<I", len(entry.headers)) + entry.headers if entry.headers else b"")
        body += entry.payload
        length = 22 + len(body) + 8
        block += struct.pack("<IQqH", length | flag, entry.seq, entry.ts_ns, len(entry.name)) + body + bytes(8)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        content = {"meta.inf": json.dumps({"name": name}).encode(), "msgs/1.blk": block, **(files or {})}
        for path, data in content.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return compressed(out.getvalue())


# Who calls from another account has no rights in this one.
FOREIGN = b'NATS/1.0\r\nNats-Request-Info: {"acc":"B"}\r\n\r\n'


def restore(
    world: ConsumerWorld,
    backup: bytes,
    config: dict[str, Any] | None = None,
    stream: str = "S",
    header: bytes | None = None,
) -> Any:
    asked = {"config": {"name": stream, "subjects": ["s.>"], "storage": "memory", **(config or {})}, "state": {}}
    begun = world.api(f"STREAM.RESTORE.{stream}", asked, header)
    if "error" in begun:
        return begun
    for at in range(0, len(backup), 64 * KIB):
        world.request(begun["deliver_subject"], backup[at : at + 64 * KIB])
    reply = world.request(begun["deliver_subject"], b"")
    assert reply is not None
    return json.loads(reply[1])


def refusal(
    world: ConsumerWorld, backup: bytes, config: dict[str, Any] | None = None, header: bytes | None = None
) -> str:
    """Why a backup was not restored; nothing of it is there."""
    answer = restore(world, backup, config, header=header)
    assert "error" in answer, answer
    assert world.api("STREAM.NAMES")["streams"] is None
    assert answer["error"]["code"] < 600 and answer["error"]["err_code"] > 10_000
    return str(answer["error"]["description"])


BOTH = pytest.mark.parametrize("packed", [archive, old_backup], ids=["archive", "tar"])


@BOTH
@pytest.mark.parametrize(
    "subject",
    [FORGED, b"s.a\r\nb", b"s.a b", b"s.a\tb", b"s.a\x00b", b"s.a\x0cb", b"s..b", b"s.", b"", b"s." + b"x" * 5000],
)
def test_subjects_that_nobody_could_publish(packed: Any, subject: bytes) -> None:
    """Advisory 2026-22, the way in that is no publish: a subject of a backup may break lines of other connections."""
    assert "valid subject" in refusal(ConsumerWorld(), packed(ArchiveEntry(subject, 1, 1, b"", b"x")))


@BOTH
def test_subjects_that_whoever_restores_may_not_publish_to(packed: Any) -> None:
    backup = packed(ArchiveEntry(b"t.x", 1, 1, b"", b"x"))
    assert "not one of the stream's" in refusal(ConsumerWorld(), backup, header=FOREIGN)


@BOTH
def test_a_stream_that_had_other_subjects_before(packed: Any) -> None:
    """Its messages are its own, and its consumers get them."""
    world = ConsumerWorld()
    answer = restore(world, packed(ArchiveEntry(b"t.x", 1, 1, b"", b"x"), ArchiveEntry(b"s.x", 1, 2, b"", b"y")))
    assert "error" not in answer, answer
    assert answer["state"]["messages"] == 2
    world.api(
        "CONSUMER.CREATE.S.C",
        {"stream_name": "S", "config": {"name": "C", "durable_name": "C", "filter_subject": "s.>"}},
    )
    assert world.api("CONSUMER.INFO.S.C")["num_pending"] == 1


@pytest.mark.parametrize(
    "config",
    [
        {"subject_transform": {"src": "s.>", "dest": "t.>"}},
        {"subjects": [], "mirror": {"name": "ORIGIN"}},
        {"sources": [{"name": "ORIGIN"}]},
    ],
)
def test_what_was_copied_or_transformed_has_other_subjects(config: dict[str, Any]) -> None:
    answer = restore(ConsumerWorld(), archive(ArchiveEntry(b"t.x", 1, 1, b"", b"x")), config)
    assert "error" not in answer, answer
    assert answer["state"]["messages"] == 1


@BOTH
def test_sizes(packed: Any) -> None:
    world = ConsumerWorld(max_payload_bytes=10 * KIB)
    assert "maximum payload" in refusal(world, packed(ArchiveEntry(b"s.x", 1, 1, b"", bytes(10 * KIB + 1))))
    assert "maximum header" in refusal(
        world, packed(ArchiveEntry(b"s.x", 1, 1, b"NATS/1.0\r\n" + bytes(70 * KIB), b""))
    )
    small = {"max_msg_size": 100}
    assert "maximum message size" in refusal(world, packed(ArchiveEntry(b"s.x", 1, 1, b"", bytes(101))), small)
    assert restore(world, packed(ArchiveEntry(b"s.x", 1, 1, b"", bytes(10 * KIB))))["state"]["messages"] == 1


@pytest.mark.parametrize("seq", [(1 << 62) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_sequences_beyond_all_bounds(seq: int) -> None:
    assert refusal(ConsumerWorld(), archive(ArchiveEntry(b"s.x", 1, seq, b"", b"x")))


@pytest.mark.parametrize(
    "state",
    [
        {"first_seq": -1},
        {"first_seq": 1 << 63},
        {"last_seq": 1 << 64},
        {"last_seq": 1 << 70},
        {"consumer_count": -1},
    ],
)
def test_states_that_no_stream_has(state: dict[str, int]) -> None:
    assert "state.json" in refusal(ConsumerWorld(), archive(state=state))


@BOTH
def test_times_do_not_run_ahead(packed: Any) -> None:
    world = ConsumerWorld()
    assert restore(world, packed(ArchiveEntry(b"s.x", YEAR_2200_NS, 1, b"", b"x")))["state"]["messages"] == 1
    world.publish("s.y", b"later")
    message = world.api("STREAM.MSG.GET.S", {"seq": 2})["message"]
    assert not message["time"].startswith("2200")


@pytest.mark.parametrize("ts_ns", [-1, -(1 << 62), 1 << 62, 1 << 64])
def test_times_that_are_none(ts_ns: int) -> None:
    """The future is cut off; a number that fits nowhere must not end anything but the restore."""
    answer = restore(ConsumerWorld(), archive(ArchiveEntry(b"s.x", ts_ns, 1, b"", b"x")))
    assert ("error" in answer) == (ts_ns < 0)


@BOTH
def test_headers_do_not_speak_for_the_server(packed: Any) -> None:
    """Advisories 2026-08 and 2026-09, the way in that is no publish; nor may a message pass for a status."""
    world = ConsumerWorld()
    header = b'NATS/1.0 409 Consumer Deleted\r\nNats-Request-Info: {"acc":"SYS"}\r\nOwn: 1\r\n\r\n'
    restore(world, packed(ArchiveEntry(b"s.x", 1, 1, header, b"x")))
    stored = world.account.streams["S"].store.get(1)
    assert stored is not None and stored.headers == b"NATS/1.0\r\nOwn: 1\r\n\r\n"


@pytest.mark.parametrize("number", [-1, 1 << 63, 1 << 64, 1 << 70])
@pytest.mark.parametrize("field", ["delivered", "pending", "redelivered", "time"])
def test_numbers_of_consumers(field: str, number: int) -> None:
    state: dict[str, Any] = {"delivered": {"consumer_seq": 1, "stream_seq": 1}, "ack_floor": {}}
    if field == "delivered":
        state["delivered"]["stream_seq"] = number
    elif field == "redelivered":
        state["redelivered"] = {"1": number}
    else:
        pending = {"Sequence": 1, "Timestamp": number} if field == "time" else {"Sequence": number, "Timestamp": 1}
        state["pending"] = {"1": pending}
    consumer = {"config": {"durable_name": "C", "ack_policy": "explicit"}, "state": state}
    backup = archive(ArchiveEntry(b"s.x", 1, 1, b"", b"x"), consumers={"C": consumer})
    assert "consumer" in refusal(ConsumerWorld(), backup)


def test_more_consumers_than_may_be() -> None:
    consumers = {
        f"C{n}": {"config": {"durable_name": f"C{n}", "ack_policy": "explicit"}, "state": {}} for n in range(3)
    }
    backup = archive(consumers=consumers)
    assert "consumers limit" in refusal(ConsumerWorld(), backup, {"max_consumers": 2})
    assert "consumers limit" in refusal(ConsumerWorld(limits=AccountLimits(max_consumers=2)), backup)
    assert restore(ConsumerWorld(), backup)["state"]["consumer_count"] == 3


def test_consumers_beyond_the_account_s_storage() -> None:
    """What consumers remember is on disk like messages."""
    pending = {str(n): {"Sequence": n, "Timestamp": 1} for n in range(1, 20_000)}
    state = {"delivered": {"consumer_seq": 20_000, "stream_seq": 20_000}, "ack_floor": {}, "pending": pending}
    consumer = {"config": {"durable_name": "C", "ack_policy": "explicit"}, "state": state}
    world = ConsumerWorld(limits=AccountLimits(max_memory=100 * KIB))
    assert "insufficient" in refusal(world, archive(consumers={"C": consumer}))


def test_what_waits_in_memory_is_counted() -> None:
    """An entry that is announced and does not end is held in memory, within what the account may have."""
    world = ConsumerWorld(limits=AccountLimits(max_memory=256 * KIB))
    start = MAGIC + encode_entry(ArchiveEntry(b"state.json", 1, payload=b"{}"))
    start += encode_entry(ArchiveEntry(b"s.x", 1, 1, b"", bytes(4096 * KIB)))[: 2048 * KIB]
    assert "insufficient" in refusal(world, compressed(start))


def test_restores_side_by_side_share_the_account_s_limit() -> None:
    world = ConsumerWorld(limits=AccountLimits(max_memory=300 * KIB))
    begun = []
    for name in ("A", "B", "C"):
        asked = {"config": {"name": name, "subjects": [f"{name}.>"], "storage": "memory"}, "state": {}}
        begun.append(world.api(f"STREAM.RESTORE.{name}", asked)["deliver_subject"])
    answers = []
    for name, subject in zip("ABC", begun, strict=True):
        messages = [ArchiveEntry(f"{name}.x".encode(), 1, seq, b"", bytes(10 * KIB)) for seq in range(1, 16)]
        world.request(subject, archive(*messages))
    for subject in begun:
        reply = world.request(subject, b"")
        assert reply is not None
        answers.append("error" in json.loads(reply[1]))
    assert answers == [False, True, True]


@pytest.mark.parametrize(
    "path",
    [
        "../../escape",
        "/etc/escape",
        "msgs/../../escape.blk",
        "obs/../../escape/meta.inf",
        "obs/a/b/meta.inf",
        "obs/..\\x/meta.inf",
        "obs/" + "x" * 5000 + "/meta.inf",
    ],
)
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_no_name_in_an_archive_is_a_path(path: str, kind: bytes, tmp_path: Any, monkeypatch: Any) -> None:
    """Advisory CVE-2022-26652: files of a backup are read, never written; whatever they are called or claim to be."""
    monkeypatch.chdir(tmp_path)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        meta = json.dumps({"name": "S"}).encode()
        first = tarfile.TarInfo("meta.inf")
        first.size = len(meta)
        tar.addfile(first, io.BytesIO(meta))
        info = tarfile.TarInfo(path)
        info.type = kind
        info.linkname = "/etc/passwd"
        content = b"{}" if kind == tarfile.REGTYPE else b""
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    world = ConsumerWorld()
    answer = restore(world, compressed(out.getvalue()))
    assert not list(tmp_path.rglob("*"))
    if "error" not in answer:
        assert answer["state"]["messages"] == 0 and answer["state"]["consumer_count"] == 0


@pytest.mark.parametrize(
    "name", ["../evil", "a/b", "a\\b", "..", ".", "a b", "a.b", "a*", ">", "", "x" * 300, "a\nb", "\x00"]
)
def test_names_of_consumers_are_names(name: str) -> None:
    """Advisory CVE-2022-26652 and fix S8, in the format of today: a consumer of a backup is called like any other."""
    consumer = {"config": {"ack_policy": "explicit"}, "state": {}}
    assert "name" in refusal(ConsumerWorld(), archive(consumers={name: consumer}))


def test_the_name_inside_is_the_name_asked_for() -> None:
    """Advisory 2026-12: a backup of one stream is not restored as another, in whichever of the places it is named."""
    world = ConsumerWorld()
    other = world.api("STREAM.RESTORE.S", {"config": {"name": "T", "subjects": ["s.>"]}, "state": {}})
    assert other["error"]["err_code"] == 10056
    assert "names do not match" in refusal(world, old_backup(name="T"))
    for asked, inside in (("C", "D"), ("D", "")):
        consumer = {"config": {"durable_name": inside, "ack_policy": "explicit"}, "state": {}}
        answer = restore(ConsumerWorld(), archive(consumers={asked: consumer}))
        assert "error" in answer if inside else answer["state"]["consumer_count"] == 1
