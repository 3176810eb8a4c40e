"""The tables of docs/internals/format.md against the files of a real stream: the page alone is enough to read them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from models.records import crc32c
from slipstream.jetstream.store.file import FileStore
from slipstream.testing.sim_disk import SimDisk
from support.stores import DIRECTORY, UID, commit, new_file_store, upkeep

PAGE = (Path(__file__).parents[2] / "docs/internals/format.md").read_text()
_ROW = re.compile(r"^\| (\d+) \| (\d+) \| ([^|]+?) \|", re.MULTILINE)


def table(name: str) -> dict[str, tuple[int, int]]:
    """Offset and length of every field of a table; they lie without gaps."""
    _, found, rest = PAGE.partition(f"| at | bytes | {name} field |")
    assert found, name
    rows = [(int(at), int(length), field) for at, length, field in _ROW.findall(rest.split("\n\n")[0])]
    assert [at for at, _, _ in rows] == [sum(length for _, length, _ in rows[:i]) for i in range(len(rows))]
    return {field: (at, length) for at, length, field in rows}


HEADER, FRAME, RECORD, INDEX = table("header"), table("frame"), table("record"), table("index")
KINDS = {name: int(number) for number, name in re.findall(r"^\| (\d+) ([A-Z]+) \|", PAGE, re.MULTILINE)}


class Fields:
    """A struct as a table draws it."""

    def __init__(self, data: bytes, fields: dict[str, tuple[int, int]], at: int = 0) -> None:
        self.data, self.fields, self.at = data, fields, at

    def raw(self, name: str) -> bytes:
        at, length = self.fields[name]
        return self.data[self.at + at : self.at + at + length]

    def __getitem__(self, name: str) -> int:
        return int.from_bytes(self.raw(name), "little")


def read_records(data: bytes, at: int, stop: int, salt: int) -> list[tuple[int, int, bytes, bytes, bytes, int]]:
    """Kind, sequence, subject, headers, payload and expiry of every record from `at` on."""
    out = []
    while at < stop:
        head = Fields(data, RECORD, at)
        body = at + sum(RECORD["payload length"])
        expires = 0
        if head["flags"] & 16:
            expires, body = int.from_bytes(data[body : body + 8], "little"), body + 8
        headers = body + head["subject length"]
        payload = headers + head["headers length"]
        end = payload + head["payload length"]
        assert head["checksum"] == crc32c(data[at + 4 : end], salt & 0xFFFFFFFF)
        parts = (data[body:headers], data[headers:payload], data[payload:end])
        out.append((head["flags"] & 15, head["sequence"], *parts, expires))
        at = end + (at - end) % 8
    assert at == stop
    return out


def read_frames(data: bytes, at: int, stop: int, salt: int) -> list[tuple[Fields, list[Any]]]:
    """Every frame and its records."""
    out, low = [], salt & 0xFFFFFFFF
    while at < stop:
        head = Fields(data, FRAME, at)
        if head["magic"] != int.from_bytes(b"SFR1", "little") ^ low:
            break
        assert head["checksum"] == crc32c(data[at : at + FRAME["checksum"][0]], low)
        records = read_records(data, at + sum(FRAME["checksum"]), at + head["length"], salt)
        assert head["records"] == len(records) and head["first_seq"] == records[0][1]
        out.append((head, records))
        at += head["length"]
    assert not data[at:stop].strip(b"\0")
    return out


def read_header(data: bytes) -> Fields:
    """The header of a segment, which is there twice."""
    header = Fields(data, HEADER)
    assert data[:2048] == data[2048:4096]
    assert header["checksum"] == crc32c(data[: HEADER["checksum"][0]])
    assert header.raw("magic") == b"SLIPSEG1" and header["version"] == 1 and header.raw("stream id") == UID
    return header


def filled(disk: SimDisk) -> FileStore:
    """A stream with a record of every kind, in two segments."""
    store = new_file_store(disk)
    for seq in range(1, 6):
        store.append(seq, 100 + seq, b"a.%d" % (seq % 2), b"NATS/1.0\r\n\r\n" if seq == 2 else b"", b"p%d" % seq)
    store.append(6, 106, b"a.0", b"", b"expires", 10**18)
    store.skip_to(8)
    store.put_note(b"key", b"value")
    store.journal.put(b"C", b"state")
    store.journal.add(b"C", b"delta")
    commit(store)
    store.delete(3)
    store.erase(4)
    store.trim_to(2)
    store.journal.remove(b"C")
    commit(store)
    store.begin_atomic()
    store.append_atomic(9, 109, b"u", b"", b"one")
    commit(store)
    store.append_atomic(10, 110, b"u", b"", b"two")
    store.end_atomic()
    commit(store)
    store.log.roll()
    store.append(11, 111, b"a.1", b"", b"last")
    commit(store)
    upkeep(store)
    return store


def test_the_page_reads_a_stream() -> None:
    disk = SimDisk()
    store = filled(disk)
    first, second = store.log.segments
    data = bytes(disk.content(first.path))
    header = read_header(data)
    assert (header["no"], header["first_seq"], header["prev_no"], header["frame_no"]) == (1, 1, 0, 0)
    frames = read_frames(data, 4096, len(data), header["salt"])
    numbered = [frame for frame, _ in frames if not frame["flags"] & 8]
    assert [frame["number"] for frame in numbered] == list(range(1, len(numbered) + 1))
    assert all(frame["synced_upto"] < frame["number"] for frame in numbered)
    assert [(frame["number"], at) for at, (frame, _) in enumerate(frames) if frame["flags"] & 8] == [(0, 0)]
    assert [record[0] for record in frames[0][1]] == [KINDS["STATE"], KINDS["CONFIG"]]
    records = [record for _, in_frame in frames for record in in_frame]
    assert [record[1:] for record in records if record[0] == KINDS["MSG"]] == [
        (1, b"a.1", b"", b"p1", 0),
        (2, b"a.0", b"NATS/1.0\r\n\r\n", b"p2", 0),
        (3, b"a.1", b"", b"p3", 0),
        (5, b"a.1", b"", b"p5", 0),
        (6, b"a.0", b"", b"expires", 10**18),
        (9, b"u", b"", b"one", 0),
        (10, b"u", b"", b"two", 0),
    ]
    by_kind = {name: [record for record in records if record[0] == kind] for name, kind in KINDS.items()}
    assert [record[1] for record in by_kind["ERASED"]] == [4]
    assert [int.from_bytes(record[4], "little") for record in by_kind["TOMBS"]] == [3]
    assert [record[1] for record in by_kind["TRIM"]] == [2]
    assert [(record[1], int.from_bytes(record[4], "little")) for record in by_kind["SKIP"]] == [(7, 8)]
    assert [(record[2], record[4]) for record in by_kind["NOTE"]] == [(b"key", b"value")]
    assert [record[4] for record in by_kind["CONFIG"]] == [store.config]
    assert [len(record[4]) for record in by_kind["STATE"]] == [24]
    (intent,) = by_kind["ERASE"]
    assert len(intent[4]) == 20 and int.from_bytes(intent[4][:8], "little") == 1
    erased_at = int.from_bytes(intent[4][12:16], "little")
    assert Fields(data, RECORD, erased_at)["sequence"] == 4
    units = [(frame["flags"], in_frame) for frame, in_frame in frames if frame["flags"] & 1]
    assert units[0][0] == 1 | 2 | 4 and units[-1][0] == 1

    following = read_header(bytes(disk.content(second.path)))
    assert (following["no"], following["prev_no"], following["prev_end"]) == (2, 1, first.end)
    assert following["frame_no"] == frames[-1][0]["number"] and following["first_seq"] == 11
    end = bytes(disk.content(second.path))
    head, *_, mark = read_frames(end, 4096, len(end), following["salt"])
    assert (head[0]["number"], head[0]["flags"]) == (following["frame_no"], 8)
    assert (mark[0]["number"], mark[0]["synced_upto"], mark[0]["flags"]) == (following["frame_no"] + 1,) * 2 + (8,)
    assert [record[0] for record in mark[1]] == [KINDS["MARK"]]


def test_the_page_reads_what_lies_beside_it() -> None:
    disk = SimDisk()
    store = filled(disk)
    first = store.log.segments[0]
    data = bytes(disk.content(first.path.removesuffix(".seg") + ".sdx"))
    index, at = Fields(data, INDEX), sum(INDEX["room"])
    assert index.raw("magic") == b"SLPSDX01" and index["salt"] == first.header.salt
    assert (index["form"], index["base_seq"], index["messages"], index["end"]) == (0, 1, 8, first.end)

    def numbers(count: int, size: int) -> list[int]:
        nonlocal at
        out = [int.from_bytes(data[at + i * size : at + (i + 1) * size], "little") for i in range(count)]
        at += count * size
        return out

    n, m = index["messages"], index["subjects"]
    seqs = [index["base_seq"] + distance for distance in numbers(n, 4)]
    assert seqs == [1, 2, 3, 4, 5, 6, 9, 10]
    offsets, lengths, subjects, ends = numbers(n, 4), numbers(n, 4), numbers(n, 4), numbers(m, 4)
    segment = bytes(disk.content(first.path))
    assert [Fields(segment, RECORD, offset)["sequence"] for offset in offsets] == seqs
    assert all(length & 0x3FFFFFFF >= sum(RECORD["payload length"]) for length in lengths)
    names = data[at : at + index["name bytes"]]
    at += len(names)
    of = [names[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert subjects.pop(seqs.index(4)) == 0xFFFFFFFF, "an erased message has none"
    assert [of[subject] for subject in subjects] == [b"a.1", b"a.0", b"a.1", b"a.1", b"a.0", b"u", b"u"]
    assert numbers(2 * index["expiries"], 8) == [6, 10**18]
    assert numbers(2 * index["holes"], 8) == []
    controls = read_frames(data, at, at + index["control bytes"], 0)
    assert {record[0] for _, in_frame in controls for record in in_frame} >= {KINDS["STATE"], KINDS["TRIM"]}
    at += index["control bytes"]
    assert numbers(1, 4) == [crc32c(data[:-4], first.header.salt & 0xFFFFFFFF)] and at == len(data)

    manifest = bytes(disk.content(f"{DIRECTORY}/MANIFEST.1"))
    body = manifest[16:]
    assert manifest[:8] == b"SLIPMAN1" and int.from_bytes(manifest[8:12], "little") == len(body)
    assert int.from_bytes(manifest[12:16], "little") == crc32c(body)
    said = msgspec.msgpack.decode(body)
    named = re.findall(r"`(\w+)`", PAGE.partition("a msgpack map of")[2].partition("The\nslot")[0])
    assert list(said) == [name for name in named if name in said] and said["version"] == 1
    assert said["segments"][0] == [1, 0, 1, 10, first.header.salt]

    journal = bytes(disk.content(f"{DIRECTORY}/consumers.log"))
    header = read_header(journal)
    frames = read_frames(journal, 4096, len(journal), header["salt"])
    kinds = [record[0] for _, in_frame in frames for record in in_frame]
    assert header["no"] == 0 and kinds[-1] == KINDS["MARK"] and kinds[:2] == [KINDS["PUT"], KINDS["ADD"]]
    assert KINDS["REMOVE"] in kinds
