"""Bulk kernels on copies of records and on staged bytes, against plain Python."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bulk_rows import checksum_of
from models.logs import FILTERS, SUBJECTS, logs, passing
from models.records import Record, crc32c, encode_record
from slipstream.kernels.bulk import stagedrows
from slipstream.kernels.bulk.bulkchoose import pick
from slipstream.kernels.bulk.bulkscan import Chunk, are_messages, crc_shift, encode_message, records_end
from slipstream.kernels.bulk.stagedrows import StagedRows
from slipstream.kernels.index.subjectindex import MessageIndex, Selection
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.record import StoredMessage
from slipstream.kernels.subjects.subject import is_valid_publish, matches


@given(st.integers(0, 2**32 - 1), st.one_of(st.integers(0, 300), st.integers(0, 2**20)))
def test_the_key_of_a_checksum_is_exchanged_without_the_bytes(salt: int, size: int) -> None:
    if size <= 300:
        assert crc_shift(salt, size) == crc32c(bytes(size), salt) ^ crc32c(bytes(size), 0)
    assert crc_shift(crc_shift(salt, size), 77) == crc_shift(salt, size + 77)


def read_one_by_one(chunk: Chunk, log: bytes, salt: int, max_stretches: int) -> None:
    """As a store does it: everything that is chosen is read to where it belongs, and then looked at."""
    space = chunk.space()
    first = place = 0
    read = []
    while (found := chunk.stretches(first, max_stretches)) is not None:
        _segment, stretches, length, stop = found
        done = 0
        for offset, size in struct.iter_unpack("=QQ", stretches):
            there = log[offset : offset + size]
            space[place + done : place + done + len(there)] = there
            done += len(there)
            if len(there) < size:
                break
        assert len(stretches) // 16 <= max_stretches and done <= length
        read.append((first, stop, place, done))
        first, place = stop, place + length
    assert place == len(space)
    for first, stop, place, done in read:
        chunk.settle(first, stop, place, done, salt)


@given(
    logs(),
    FILTERS,
    st.integers(0, 30),
    st.integers(0, 40),
    st.integers(1, 5),
    st.integers(1, 300),
    st.integers(1, 20),
    st.integers(0, 200),
    st.sampled_from([0, 100, 1000]),
    st.booleans(),
    st.integers(1, 5),
)
def test_chunks(
    log: tuple[list[Record], bytes, MessageIndex, int],
    filters: list[bytes],
    first: int,
    last: int,
    max_msgs: int,
    max_bytes: int,
    scan_max: int,
    gap_max: int,
    room_bytes: int,
    one_by_one: bool,
    max_stretches: int,
) -> None:
    records, data, index, salt = log
    expected = passing(records, filters, first, last)
    out, crc, seq, turns = b"", 0, first, 0
    chosen = Selection()
    while seq <= last:
        following = pick(index, filters, seq, last, max_msgs, max_bytes, scan_max, chosen)
        assert following > seq or following == last + 1
        seq = following
        assert len(chosen) <= max_msgs
        room = bytearray(room_bytes)
        chunk = Chunk(chosen, 0, crc, room)
        if one_by_one:
            read_one_by_one(chunk, data, salt, max_stretches)
        else:
            at = 0
            while (extent := chunk.extent(at, gap_max, 1 << 20)) is not None:
                _segment, offset, length, stop = extent
                chunk.fill(at, stop, data[offset : offset + length], offset, salt)
                at = stop
        assert chunk.missing == [] and chunk.rows == len(chosen)
        crc = chunk.crc
        assert len(room) == room_bytes
        out += room[: chunk.used] if chunk.in_given else chunk.take()
        turns += 1
        assert turns < 1000
    assert out == b"".join(encode_record(record, 0) for record in expected)
    assert crc == checksum_of(expected)


@given(logs().filter(lambda log: bool(log[0])), st.data())
def test_records_that_are_not_what_the_index_says_are_left_out(
    log: tuple[list[Record], bytes, MessageIndex, int], data: st.DataObject
) -> None:
    records, content, index, salt = log
    target = data.draw(st.sampled_from(records))
    place = index.locate(target.seq)
    assert place is not None
    at = place[1] + data.draw(st.sampled_from([4, 8, 15, 24, 26, 28]))
    broken = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    cut = data.draw(st.integers(place[1], len(content)))
    for damaged in (broken, content[:cut]):
        chosen = Selection()
        pick(index, (), 0, 1 << 40, 1 << 30, 1 << 30, 1 << 30, chosen)
        chunk = Chunk(chosen)
        chunk.fill(0, len(chosen), damaged, 0, salt)
        assert chunk.rows + len(chunk.missing) == len(records)
        if damaged is broken:
            assert chunk.missing == [target.seq]
        kept = [record for record in records if record.seq not in chunk.missing]
        expected = b"".join(encode_record(record, 0) for record in kept)
        assert chunk.take() == expected
        # In place: what follows a record that is left out moves up.
        room = bytearray(len(content))
        settled = Chunk(chosen, room=room)
        read_one_by_one(settled, damaged, salt, data.draw(st.integers(1, 5)))
        assert (settled.missing, settled.crc) == (chunk.missing, chunk.crc)
        assert room[: settled.used] == expected


@given(
    st.lists(st.tuples(SUBJECTS, st.sampled_from([b"", b"head"]), st.binary(max_size=40)), max_size=8),
    st.integers(1, 90),
)
def test_staged_rows_in_any_pieces(rows: list[tuple[bytes, bytes, bytes]], step: int) -> None:
    records = [Record(number, 0, *row) for number, row in enumerate(rows, 1)]
    data = b"".join(encode_record(record, 0) for record in records)
    index = MessageIndex(1)
    writer = LogWriter(index)
    writer.open_segment(1, 5, 0, 1 << 30, 0)
    staged, seq = StagedRows((b">",)), 1
    for at in range(0, len(data), step):
        staged.feed(data[at : at + step])
        done, reason = staged.append_to(writer, seq, 77, 1 << 30)
        seq += done
        assert reason == stagedrows.MORE
    assert (staged.rows, staged.size, staged.crc, staged.unused) == (len(rows), len(data), checksum_of(records), 0)
    content = writer.take()
    for record in records:
        place = index.locate(record.seq)
        assert place is not None
        stored = Record(record.seq, 77, record.subject, record.headers, record.payload)
        expected = encode_record(stored, 5)
        assert content[place[1] : place[1] + len(expected)] == expected


@given(st.binary(max_size=120))
def test_noise_is_never_staged(noise: bytes) -> None:
    staged = StagedRows()
    staged.feed(noise)
    done, reason = staged.append_to(None, 0, 0, 10)
    assert done == 0 and reason in (stagedrows.MORE, stagedrows.BAD_RECORD)
    with pytest.raises(ValueError, match="no whole record"):
        staged.current()


@given(st.binary(min_size=1, max_size=12))
def test_subjects_of_staged_rows(subject: bytes) -> None:
    staged = StagedRows((b"a.>", b"b"))
    staged.feed(encode_record(Record(1, 0, subject, b"", b""), 0))
    done, reason = staged.append_to(None, 0, 0, 10)
    if not is_valid_publish(subject):
        assert reason == stagedrows.BAD_SUBJECT
    elif not (matches(b"a.>", subject) or subject == b"b"):
        assert reason == stagedrows.OTHER_SUBJECT
    else:
        assert (done, reason) == (1, stagedrows.MORE)


def test_what_stops_staged_rows() -> None:
    def stopped(record: Record, **limits: int) -> str:
        staged = StagedRows((), **limits)
        staged.feed(encode_record(record, 0))
        return staged.append_to(None, 0, 0, 10)[1]

    plain = Record(1, 0, b"a", b"", b"12345")
    assert stopped(plain, size_max=5) == stagedrows.MORE
    assert stopped(plain, size_max=4) == stagedrows.TOO_LARGE
    assert stopped(Record(1, 0, b"a", b"hhh", b""), headers_max=2) == stagedrows.HEADERS_TOO_LARGE
    assert stopped(Record(1, 0, b"a", b"NATS/1.0\r\nNats-TTL: 1\r\n\r\n", b"")) == stagedrows.SPECIAL
    assert stopped(Record(1, 0, b"a", b"NATS/1.0\r\nNat: Nats\r\n\r\n", b"")) == stagedrows.MORE
    assert stopped(Record(2, 0, b"a", b"", b"")) == stagedrows.BAD_RECORD
    assert stopped(Record(1, 0, b"a", b"", b"", kind=2)) == stagedrows.BAD_RECORD
    message = StoredMessage(1, 0, b"a", b"", b"12345")
    assert encode_message(message) == encode_record(plain, 0)


@given(logs(), st.data())
def test_are_messages(log: tuple[list[Record], bytes, MessageIndex, int], data: st.DataObject) -> None:
    records = log[0]
    content = b"".join(encode_record(record, 5) for record in records)
    first, last = (records[0].seq, records[-1].seq) if records else (0, 0)
    assert are_messages(content, len(records), first, last)
    assert not are_messages(content, len(records) + 1, first, last)
    if not records:
        return
    assert not are_messages(content, len(records) - 1, first, last)
    assert not are_messages(content, len(records), first + 1, last)
    assert not are_messages(content, len(records), first, last - 1)
    cut = data.draw(st.integers(0, len(content) - 1))
    assert not are_messages(content[:cut], len(records), first, last)
    place = data.draw(st.integers(0, len(records) - 1))
    at = len(b"".join(encode_record(record, 5) for record in records[:place]))
    other_kind = bytearray(content)
    other_kind[at + 26] ^= 3  # as an erased one has it
    assert not are_messages(bytes(other_kind), len(records), first, last)
    noise = bytearray(content)
    noise[at + 8 : at + 16] = bytes(8)
    assert not are_messages(bytes(noise), len(records), max(first, 1), last)
    if len(records) > 1:
        twice = content + content
        assert not are_messages(twice, 2 * len(records), first, last), "sequences grow"


@given(logs(), st.data(), st.integers(0, 400))
def test_whole_records_of_so_many_bytes(
    log: tuple[list[Record], bytes, MessageIndex, int], data: st.DataObject, most: int
) -> None:
    encoded = [encode_record(record, 5) for record in log[0]]
    content = b"".join(encoded)
    first = data.draw(st.integers(0, len(encoded)))
    start = end = len(b"".join(encoded[:first]))
    for record in encoded[first:]:
        if end + len(record) - start > most and end > start:
            break
        end += len(record)
    assert records_end(content, start, most) == end
    with pytest.raises(IndexError):
        records_end(content, len(content) + 1, most)
    with pytest.raises(IndexError):
        records_end(content, -1, most)


def test_the_end_of_what_is_no_record() -> None:
    """Nobody asks for it, but nobody waits for ever or reads beyond the data either."""
    assert records_end(b"x" * 10, 2, 5) == 10
    assert records_end(b"\xff" * 100, 0, 5) == 100
