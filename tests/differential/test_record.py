"""The compiled codec against the drawn layout, and its scan against hostile bytes."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from models.records import LOCAL, Record, crc32c, encode_frame
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log import record as kernel
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.segindex import decode_index, encode_index
from slipstream.kernels.log.segload import load_into
from slipstream.kernels.log.segscan import SegmentScan

SALTS = st.integers(0, 2**64 - 1)
PARTS = st.tuples(
    st.integers(-(2**62), 2**62),
    st.binary(min_size=1, max_size=30),
    st.binary(max_size=20),
    st.binary(max_size=60),
    st.sampled_from([0, 0, 1, 2**62]),
)


def scanned(data: bytes, salt: int, first_seq: int = 1) -> SegmentScan:
    scan = SegmentScan(data, 0, salt, first_seq, 0)
    while scan.step(7):
        pass
    return scan


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_checksum(data: bytes, start: int) -> None:
    assert kernel.crc32c(data, start) == kernel.crc32c_table(data, start) == crc32c(data, start)


@given(st.integers(0, 9_000), st.integers(0, 7), st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_checksum_of_long_data(size: int, begin: int, start: int, rng: random.Random) -> None:
    """Which is done in blocks side by side."""
    data = rng.randbytes(begin + size)[begin:]
    assert kernel.crc32c(data, start) == kernel.crc32c_table(data, start)


@given(st.binary(max_size=100), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_checksums_of_a_copy(data: bytes, first: int, second: int) -> None:
    assert kernel.crc32c_copy(data, first, second) == (data, crc32c(data, first), crc32c(data, second))


ROOMS = st.sampled_from([0, 8, 24])  # at the end of every frame


@given(st.lists(st.sampled_from([3, 700, 65_000, 150_000, 400_000]), min_size=1, max_size=8), st.data())
def test_what_is_taken_is_what_was_appended_however_much(sizes: list[int], data: st.DataObject) -> None:
    """Little is copied, much changes hands, and neither disturbs what comes next; in units as well."""
    index = MessageIndex(1)
    writer = LogWriter(index)
    writer.open_segment(3, 7, 0, 1 << 30, 0, data.draw(ROOMS), data.draw(st.sampled_from([1, 32_768, 262_144])))
    in_unit = data.draw(st.booleans())
    if in_unit:
        writer.begin_unit()
    taken: list[bytes] = []
    for seq, size in enumerate(sizes, 1):
        assert writer.append(seq, 5, b"s", b"", bytes([seq]) * size)
        if data.draw(st.booleans()):
            before = list(taken)
            taken.append(writer.take())
            assert taken[:-1] == before
    if in_unit:
        writer.end_unit()
    taken.append(writer.take())
    whole = b"".join(taken)
    assert writer.position == len(whole)
    for seq, size in enumerate(sizes, 1):
        message = kernel.read_message(whole, index.locate(seq)[1], 7, seq)
        assert message is not None and message.payload == bytes([seq]) * size


@given(st.lists(PARTS, min_size=1, max_size=6), SALTS, ROOMS)
def test_writer_follows_the_layout_and_scan_reads_it(parts: list[tuple], salt: int, room: int) -> None:
    records = [Record(i + 1, ts, s, h, p, expires=e) for i, (ts, s, h, p, e) in enumerate(parts)]
    index = MessageIndex(1)
    writer = LogWriter(index)
    writer.open_segment(3, salt, 0, 1 << 30, 6, room)
    writer.synced_upto, writer.epoch = 5, 9
    for r in records:
        assert writer.append(r.seq, r.ts, r.subject, r.headers, r.payload, r.expires)
    data = writer.take()
    assert data == encode_frame(records, no=7, salt=salt, synced_upto=5, epoch=9, room=room)
    scan = scanned(data + bytes(64), salt)
    assert (len(scan), scan.regions, scan.holes, scan.good_end) == (len(records), [], [], len(data))
    assert (scan.last_seq, scan.synced_upto, scan.epoch, scan.last_frame_no) == (len(records), 5, 9, 7)
    loaded = MessageIndex(2)
    load_into(scan, loaded, 3)
    loaded.check()
    for r in records:
        assert loaded.locate(r.seq) == index.locate(r.seq)
        message = kernel.read_message(data, index.locate(r.seq)[1], salt, r.seq)
        assert (message.ts_ns, message.subject, message.headers) == (r.ts, r.subject, r.headers)
        assert (message.payload, message.expires_ns) == (r.payload, r.expires)
        assert kernel.read_message(data, index.locate(r.seq)[1], salt ^ 1, r.seq) is None
        assert kernel.read_message(data, index.locate(r.seq)[1], salt, r.seq + 1) is None


@given(st.lists(PARTS, min_size=2, max_size=6), SALTS, st.data())
def test_index_file_is_the_scan(parts: list[tuple], salt: int, data: st.DataObject) -> None:
    records = [Record(2 * i + 1, ts, s, h, p, expires=e) for i, (ts, s, h, p, e) in enumerate(parts)]
    scan = scanned(encode_frame(records, no=1, salt=salt), salt)
    packed = encode_index(scan, b"controls")
    again, controls = decode_index(packed, salt)
    assert controls == b"controls"
    assert (again.holes, again.expiries, again.last_seq) == (scan.holes, scan.expiries, scan.last_seq)
    one, two = MessageIndex(1), MessageIndex(2)
    load_into(scan, one, 1)
    load_into(again, two, 1)
    two.check()
    for r in records:
        assert one.locate(r.seq) == two.locate(r.seq)
    assert decode_index(packed, salt ^ 1) is None
    at = data.draw(st.integers(0, len(packed) - 1))
    assert decode_index(packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :], salt) is None
    assert decode_index(packed[:at], salt) is None


@given(st.lists(PARTS, min_size=3, max_size=6), SALTS, st.data())
def test_one_changed_byte_costs_one_record_at_most(parts: list[tuple], salt: int, data: st.DataObject) -> None:
    records = [Record(i + 1, ts, s, h, p, expires=e) for i, (ts, s, h, p, e) in enumerate(parts)]
    whole = encode_frame(records[:2], no=1, salt=salt) + encode_frame(records[2:], no=2, salt=salt, synced_upto=1)
    at = data.draw(st.integers(0, len(whole) - 1))
    hurt = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    scan = scanned(hurt, salt)
    assert len(scan) >= len(records) - 1
    lost = sum(hi - lo + 1 for lo, hi in scan.holes)
    assert len(scan) + lost + (len(records) - scan.last_seq) == len(records)


@given(st.binary(max_size=400), SALTS)
def test_scan_of_any_bytes_ends(data: bytes, salt: int) -> None:
    scan = scanned(data, salt)
    assert len(scan) == 0 or kernel.record_kind(data, 0, salt) or scan.first_frame_no


@given(st.binary(max_size=200), SALTS)
def test_any_index_file_is_read_or_refused(data: bytes, salt: int) -> None:
    assert decode_index(data, salt) is None


@given(st.lists(PARTS, min_size=2, max_size=6), SALTS, st.data())
def test_local_frames_take_no_number_and_are_no_part_of_a_unit(
    parts: list[tuple], salt: int, data: st.DataObject
) -> None:
    """Wherever they lie: the numbered frames are those of a log without them."""
    records = [Record(i + 1, ts, s, h, p, expires=e) for i, (ts, s, h, p, e) in enumerate(parts)]
    index = MessageIndex(1)
    writer = LogWriter(index)
    writer.open_segment(3, salt, 0, 1 << 30, 6)
    in_unit = data.draw(st.booleans())
    expected = whole = b""
    if in_unit:
        writer.begin_unit()
    for r in records:
        kind = data.draw(st.sampled_from([0, 12, 13]))
        if kind:
            writer.begin_local()
            writer.control(kind, r.seq - 1, 4, b"", b"")
            writer.end_local()
            fact = Record(r.seq - 1, 4, b"", b"", b"", kind=kind)
            expected += encode_frame([fact], no=5 + r.seq, salt=salt, flags=LOCAL)
        assert writer.append(r.seq, r.ts, r.subject, r.headers, r.payload, r.expires)
        if r is not records[-1]:
            whole += writer.take()
        flags = 0 if not in_unit else 7 if r is records[0] else 3 if r is not records[-1] else 1
        expected += encode_frame([r], no=6 + r.seq, salt=salt, flags=flags)
    if in_unit:
        writer.end_unit()
    whole += writer.take()
    assert whole == expected and (writer.frame_no, writer.position) == (6 + len(records), len(whole))
    scan = SegmentScan(whole, 0, salt, 1, 6)
    while scan.step(1):
        pass
    assert (len(scan), scan.regions, scan.good_end) == (len(records), [], len(whole))
    assert (scan.first_frame_no, scan.last_frame_no) == (7, 6 + len(records))
    assert scan.open_unit() is None and not scan.unit_continues


def test_who_vouches_for_what_is_local() -> None:
    """What follows it with a number and was synced, or a mark; not the frame whose number it repeats."""
    fact, mark = Record(0, 4, b"k", b"", b"v", kind=13), Record(0, 4, b"", b"", b"", kind=12)
    message = Record(1, 5, b"s", b"", b"")
    head = encode_frame([fact], no=6, salt=7, synced_upto=6, flags=LOCAL)
    marked = encode_frame([mark], no=6, salt=7, synced_upto=6, flags=LOCAL)
    first = encode_frame([message], no=7, salt=7, synced_upto=6)
    second = encode_frame([Record(2, 5, b"s", b"", b"")], no=8, salt=7, synced_upto=7)

    def said(data: bytes) -> tuple[int, int, int]:
        scan = SegmentScan(data, 0, 7, 1, 6)
        while scan.step(1):
            pass
        return scan.said_frame_no, scan.synced_upto, scan.vouched_end

    assert said(head) == (7, 6, 0)
    assert said(head + marked) == (6, 6, len(head))
    assert said(head + first) == (7, 6, 0)
    assert said(head + first + second) == (8, 7, 0)
    scan = SegmentScan(head[:-8] + b"broken! " + first, 0, 7, 1, 6)
    while scan.step(1):
        pass
    assert [region.frame_no for region in scan.regions] == [7]
