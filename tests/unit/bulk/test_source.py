"""The client's half of a bulk read against a server that says anything: a read is complete or an error."""

from __future__ import annotations

import errno
import json
import struct
import subprocess
import sys
from collections import deque
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from models.bulk_rows import checksum_of  # noqa: E402
from models.records import Record, encode_record  # noqa: E402
from slipstream.bulk.errors import BulkError  # noqa: E402
from slipstream.bulk.lent import LentFiles, LentPlace  # noqa: E402
from slipstream.bulk.link import Inbox  # noqa: E402
from slipstream.bulk.options import ConnectOptions  # noqa: E402
from slipstream.bulk.reading import ArrowReader, WantedRange  # noqa: E402
from slipstream.bulk.source import BulkSource  # noqa: E402
from slipstream.bulk.values import StreamIdentity  # noqa: E402
from slipstream.limits import BULK_PAUSE_NS_MAX  # noqa: E402

RECORDS = [Record(seq, seq * 1000, b"s.%d" % seq, b"", b"payload-%d" % seq) for seq in range(1, 11)]
EOB = b"NATS/1.0 204 EOB\r\n\r\n"


class Reply:
    """What the wire client gives for a message."""

    def __init__(self, payload: bytes, header: bytes = b"") -> None:
        self.payload = payload
        self.header = header


class FakeLink:
    """A connection whose server has said everything in advance."""

    prefix = "$JS.API."
    may_pause = True

    def __init__(self, *replies: Reply) -> None:
        self.replies = deque(replies)
        self.may_share_memory = False
        self.may_read_files = True
        self.published: list[tuple[str, bytes]] = []
        self.closed = 0

    def open_inbox(self) -> Inbox:
        return Inbox("_INBOX.x", 1)

    def close_inbox(self, _inbox: Inbox) -> None:
        self.closed += 1

    def publish(self, subject: str, payload: bytes, *, reply: str = "") -> None:
        self.published.append((subject, payload))

    def next(self, _inbox: Inbox) -> Reply:
        if not self.replies:
            raise BulkError("the server did not answer in time", retryable=True)
        return self.replies.popleft()


def begun() -> Reply:
    return Reply(b'{"type":"x","id":"ID","credit":4}')


def chunk(*records: Record) -> Reply:
    return Reply(b"".join(encode_record(record, 0) for record in records))


def end(records: list[Record], **changes: Any) -> Reply:
    fields = {"rows": len(records), "crc": checksum_of(records), "last": 10, "bytes": 1, **changes}
    return Reply(json.dumps(fields).encode(), EOB)


def read(*replies: Reply, **options: Any) -> tuple[list[int], ArrowReader, FakeLink]:
    link = FakeLink(*replies)
    wanted = WantedRange("S", 1, 10, **options)
    reader = ArrowReader(BulkSource(link, wanted), wanted, ("seq",), batch_rows=3, batch_bytes=1 << 20)  # type: ignore[arg-type]
    return [seq for batch in reader for seq in batch.column(0).to_pylist()], reader, link


def test_a_whole_read() -> None:
    seqs, reader, link = read(begun(), chunk(*RECORDS[:4]), chunk(*RECORDS[4:7]), chunk(*RECORDS[7:]), end(RECORDS))
    assert seqs == list(range(1, 11))
    assert (reader.rows, reader.crc, reader.damaged) == (10, checksum_of(RECORDS), [])
    asked = json.loads(link.published[0][1])
    assert (link.published[0][0], asked["first"], asked["last"]) == ("$JS.API.BULK.READ.S", 1, 10)
    assert link.published[1] == ("$JS.API.BULK.CREDIT.S.ID", b"2")
    assert link.closed == 1


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        ((begun(), chunk(*RECORDS[:4]), end(RECORDS)), "4 records of S came, 10 were sent"),
        ((begun(), chunk(*RECORDS), end(RECORDS, crc=1)), "10 records"),
        ((begun(), chunk(*RECORDS), chunk(*RECORDS), end(RECORDS)), "not above 10"),
        ((begun(), chunk(RECORDS[1]), chunk(RECORDS[0])), "not above 2"),
        ((begun(), chunk(*RECORDS)), "did not answer in time"),
        ((begun(), Reply(b"noise, not records"), end(RECORDS)), "no records"),
        ((begun(), Reply(chunk(*RECORDS).payload[:-9]), end(RECORDS)), "no records"),
        ((begun(), chunk(*RECORDS), Reply(b"{}", EOB)), "end mark"),
        ((), "did not answer in time"),
    ],
)
def test_a_short_read_is_an_error_that_may_pass(replies: tuple[Reply, ...], said: str) -> None:
    with pytest.raises(BulkError, match=said) as caught:
        read(*replies)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("replies", "number", "retryable"),
    [
        ((Reply(b'{"error":{"code":404,"err_code":10059,"description":"stream not found"}}'),), 10059, False),
        ((Reply(b'{"error":{"code":429,"err_code":30003,"description":"too many bulk readers"}}'),), 30003, True),
        ((begun(), Reply(b'{"error":{"code":404,"err_code":30006}}', b"NATS/1.0 500 Failed\r\n\r\n")), 30006, False),
        ((Reply(b"no json"),), 0, False),
        ((Reply(b"[]"),), 0, False),
    ],
)
def test_what_the_server_refuses(replies: tuple[Reply, ...], number: int, retryable: bool) -> None:
    with pytest.raises(BulkError) as caught:
        read(*replies)
    assert (caught.value.err_code, caught.value.retryable) == (number, retryable)


def test_damaged_messages_are_named_or_skipped() -> None:
    damaged = bytearray(chunk(*RECORDS).payload)
    damaged[40] ^= 1  # in the payload of the first
    replies = begun(), Reply(bytes(damaged)), end(RECORDS)
    with pytest.raises(BulkError, match="message 1 of S is damaged") as caught:
        read(*replies)
    assert caught.value.seqs == (1,) and not caught.value.retryable
    seqs, reader, _ = read(*replies, fail_on_data_loss=False)
    assert seqs == list(range(2, 11)) and reader.damaged == [1]


def test_lost_messages_are_named_or_skipped() -> None:
    replies = begun(), chunk(*RECORDS[1:]), end(RECORDS[1:], lost=[1], lost_count=1)
    with pytest.raises(BulkError, match="the first is 1") as caught:
        read(*replies)
    assert caught.value.seqs == (1,)
    assert read(*replies, fail_on_data_loss=False)[0] == list(range(2, 11))


def test_the_number_a_plan_promised() -> None:
    replies = begun(), chunk(*RECORDS), end(RECORDS)
    assert len(read(*replies, expect_messages=10)[0]) == 10
    with pytest.raises(BulkError, match="where 11 were planned"):
        read(*replies, expect_messages=11)
    assert len(read(*replies, expect_messages=11, fail_on_data_loss=False)[0]) == 10


def test_values() -> None:
    assert StreamIdentity.parse("12/ab") == StreamIdentity(12, "ab")
    assert str(StreamIdentity(12, "")) == "12/"
    with pytest.raises(ValueError, match="no stream identity"):
        StreamIdentity.parse("12")
    options = ConnectOptions()
    assert (options.prefix, options.timeout_ns) == ("$JS.API.", 10_000_000_000)
    assert ConnectOptions(domain="hub").prefix == "$JS.hub.API."
    assert ConnectOptions(api_prefix="lake.").prefix == "lake."


def test_pyarrow_is_imported_when_rows_are() -> None:
    """The server, the client and everything about them come without the extra."""
    code = """
import sys
sys.modules["pyarrow"] = None
import slipstream, slipstream.bulk, slipstream.server.server, slipstream.cli.main
from slipstream.bulk import ConnectOptions, BulkError
slipstream.read_arrow
assert not any(name.startswith("pyarrow.") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def in_memory(at: int, size: int) -> Reply:
    return Reply(b"%d %d" % (at, size), b"NATS/1.0 100 Chunk\r\n\r\n")


def read_shared(
    monkeypatch: pytest.MonkeyPatch, room: memoryview | None, *replies: Reply
) -> tuple[list[int], FakeLink]:
    monkeypatch.setattr("slipstream.bulk.source.attach", lambda offer: room if offer == {"path": "P"} else None)
    link = FakeLink(Reply(b'{"type":"x","id":"ID","credit":4,"memory":{"path":"P"}}'), *replies)
    link.may_share_memory = True
    wanted = WantedRange("S", 1, 10)
    reader = ArrowReader(BulkSource(link, wanted, files=True), wanted, ("seq",), batch_rows=3, batch_bytes=1 << 20)  # type: ignore[arg-type]
    return [seq for batch in reader for seq in batch.column(0).to_pylist()], link


def test_chunks_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (chunk(*part).payload for part in (RECORDS[:4], RECORDS[6:]))
    room = memoryview(b"-" * 8 + first + second)
    seqs, link = read_shared(
        monkeypatch,
        room,
        in_memory(8, len(first)),
        chunk(*RECORDS[4:6]),
        in_memory(8 + len(first), len(second)),
        end(RECORDS),
    )
    assert seqs == list(range(1, 11))
    assert json.loads(link.published[0][1])["memory"] is True
    assert [payload for _, payload in link.published[1:]] == [b"4", b"2"]
    assert link.may_share_memory


def test_memory_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    seqs, link = read_shared(monkeypatch, None, chunk(*RECORDS), end(RECORDS))
    assert seqs == list(range(1, 11))
    assert link.published[1] == ("$JS.API.BULK.CREDIT.S.ID", b"4 messages")
    assert not link.may_share_memory, "the next read does not try again"


@pytest.mark.parametrize("said", [b"", b"0", b"0 9", b"9 1", b"-1 1", b"0 x", b"0 1 2"])
def test_chunks_outside_of_the_memory(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    with pytest.raises(BulkError, match="outside of its memory") as caught:
        read_shared(monkeypatch, memoryview(b"12345678"), Reply(said, b"NATS/1.0 100 Chunk\r\n\r\n"))
    assert caught.value.retryable


PLACES = {"last": 4, "rows": 4, "places": [["P", 1, 2, 0, 100, 7, 1, 1], ["P", 1, 2, 200, 100, 7, 3, 2]]}


def in_files(said: Any = PLACES) -> Reply:
    """Says where in the memory that `pausing` makes places are named."""
    return Reply(b"8 %d" % len(json.dumps(said)), b"NATS/1.0 101 Places\r\n\r\n")


def test_chunks_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream.bulk.source.LentFiles.look", found)
    replies = in_files(), chunk(*RECORDS[4:]), end(RECORDS, crc=None)
    seqs, link = read_shared(monkeypatch, pausing(0), *replies)
    assert seqs == list(range(1, 11))
    assert json.loads(link.published[0][1])["files"] is True
    assert link.published[-1][1] == b"2", "the server keeps the files until it is told"


def test_a_reader_that_is_to_pause_takes_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("slipstream.bulk.source.LentFiles.look", found)
    monkeypatch.setattr("slipstream.bulk.source.time.sleep", slept.append)
    monkeypatch.setattr("slipstream.bulk.source.BULK_PAUSE_BYTES", 2 * len(encode_record(RECORDS[1], 7)))
    replies = in_files(), chunk(*RECORDS[4:]), end(RECORDS, crc=None)
    seqs, _link = read_shared(monkeypatch, pausing(300_000), *replies)
    assert seqs == list(range(1, 11))
    assert slept == [0.0003] * 3, "one step for the first place, two for the three messages of the second"
    slept.clear()
    read_shared(monkeypatch, pausing(10**18), *replies)
    assert slept == [BULK_PAUSE_NS_MAX / 1e9] * 3, "no server can make it wait for ever"
    slept.clear()
    seqs, _link = read_shared(monkeypatch, pausing(-1), *replies)
    assert seqs == list(range(1, 11)) and slept == []
    monkeypatch.setattr(FakeLink, "may_pause", False)
    seqs, _link = read_shared(monkeypatch, pausing(300_000), *replies)
    assert seqs == list(range(1, 11)) and slept == []


def pausing(pause_ns: int, said: Any = PLACES) -> memoryview:
    """Memory as a server shares it: chunks, or where they are in files, and behind them how long to pause."""
    return memoryview(b"12345678" + json.dumps(said).encode() + struct.pack("<q", pause_ns))


def found(_files: LentFiles, place: LentPlace, last: int) -> memoryview:
    assert last == 4
    records = RECORDS[place.first - 1 : place.first - 1 + place.rows]
    return memoryview(b"".join(encode_record(record, 7) for record in records))


@pytest.mark.parametrize("left", [4, 3])
@pytest.mark.parametrize("first", [1, 2])
def test_what_is_not_in_the_file_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, left: int, first: int) -> None:
    """Also when a message was removed meanwhile: then fewer come than were promised."""

    def look(files: LentFiles, place: LentPlace, last: int) -> memoryview | None:
        return found(files, place, last) if place.first < first else None

    monkeypatch.setattr("slipstream.bulk.source.LentFiles.look", look)
    again = RECORDS[first - 1 : left]
    replies = in_files(), begun(), chunk(*again), end(again), chunk(*RECORDS[4:]), end(RECORDS, crc=None)
    seqs, link = read_shared(monkeypatch, pausing(0), *replies)
    assert seqs == [*range(1, left + 1), *range(5, 11)]
    asked = [json.loads(body) for subject, body in link.published if subject.endswith("READ.S")][1]
    assert (asked["first"], asked["last"], asked.get("memory")) == (first, 4, None)
    assert link.may_read_files, "the next read tries again"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EACCES])
def test_files_that_can_never_be_read_are_tried_once(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """An older kernel cannot bring pages in safely; or the files are not for us, though the memory is."""

    def refused(_files: LentFiles, _place: LentPlace) -> memoryview:
        raise OSError(number, "refused")

    monkeypatch.setattr("slipstream.bulk.source.LentFiles._records", refused)
    again = RECORDS[:4]
    replies = in_files(), begun(), chunk(*again), end(again), chunk(*RECORDS[4:]), end(RECORDS, crc=None)
    seqs, link = read_shared(monkeypatch, pausing(0), *replies)
    assert seqs == list(range(1, 11))
    assert not link.may_read_files


def test_damage_that_shows_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream.bulk.source.LentFiles.look", lambda *_: None)
    again = RECORDS[:3]
    replies = in_files(), begun(), chunk(*again), end(again, lost=[4]), chunk(*RECORDS[4:]), end(RECORDS, crc=None)
    with pytest.raises(BulkError, match="the first is 4"):
        read_shared(monkeypatch, pausing(0), *replies)


def test_places_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BulkError, match="places that are none") as caught:
        read_shared(monkeypatch, pausing(0, none := {**PLACES, "places": [["P", 1]]}), in_files(none))
    assert caught.value.retryable
