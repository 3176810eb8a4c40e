"""Files whose checksums hold and whose content cannot be: nothing is used that was not checked, and no more is lost."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.index_files import IndexFile, messages_of, put_together, take_apart
from models.records import FRAME, MAGIC, Record, crc32c, encode_frame, encode_record
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.manifest import Manifest, SegmentEntry, write_manifest
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader, encode_header
from slipstream.jetstream.store.values import ALL
from slipstream.kernels.bulk import stagedrows
from slipstream.kernels.bulk.bulkscan import are_messages, records_end
from slipstream.kernels.bulk.stagedrows import StagedRows
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.segindex import decode_index, encode_index
from slipstream.kernels.log.segload import load_into
from slipstream.kernels.log.segscan import SegmentScan
from slipstream.testing.sim_disk import SimDisk
from support.stores import DIRECTORY, UID, commit, fill, new_file_store, reopen, upkeep

TOP = 2**64 - 1
NUMBERS = st.sampled_from([0, 1, 2, 7, 31, 32, 33, 63, 4096, 2**16, 2**31, 2**32 - 17, 2**32 - 1, 2**32, 2**40])
LARGE = st.sampled_from([2**62, 2**63 - 1, 2**63, TOP - 2**32, TOP - 2, TOP - 1, TOP])
SEQS = st.one_of(st.integers(1, 40), NUMBERS, LARGE)
SALT = 0x1234567_89ABCDEF
MSG, TOMBS, TRIM, SKIP, STATE, ERASE, ERASED, MARK = 1, 2, 3, 4, 6, 7, 8, 12


def scanned(data: bytes, first_seq: int = 1) -> SegmentScan:
    scan = SegmentScan(data, 0, SALT, first_seq, 0)
    while scan.step(5):
        pass
    return scan


# --- index files ----------------------------------------------------------------------------------------------------


@st.composite
def index_files(draw: st.DrawFn) -> tuple[bytes, IndexFile]:
    """A good one: dense, with gaps, or wide."""
    records, seq = [], 0
    for gap in draw(st.lists(st.sampled_from([1, 1, 1, 2, 3, 2**32 - 16, 2**33]), min_size=1, max_size=6)):
        seq += gap
        subject = draw(st.sampled_from([b"a", b"b.c", b"long." * 9 + b"x"]))
        kind, expires = draw(st.sampled_from([(MSG, 0), (MSG, 9), (ERASED, 0)]))
        records.append(Record(seq, 5, subject, b"", b"pay", kind=kind, expires=expires))
    packed = encode_index(scanned(encode_frame(records, no=1, salt=SALT)), b"controls")
    return packed, take_apart(packed)


@given(index_files())
def test_the_model_reads_what_is_written(made: tuple[bytes, IndexFile]) -> None:
    packed, file = made
    assert put_together(file, SALT) == packed
    assert messages_of(packed, SALT) is not None and decode_index(packed, SALT) is not None


@given(index_files(), st.data())
def test_an_index_file_that_says_anything(made: tuple[bytes, IndexFile], data: st.DataObject) -> None:
    _packed, file = made
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from(["words", "seqs", "offs", "lens", "sids", "ends", "pairs", "sizes"]))
        if part == "sizes":  # arrays that are longer or shorter than the head says, or as it says and not as they were
            array = data.draw(st.sampled_from([file.seqs, file.offs, file.lens, file.sids, file.ends]))
            array[:] = array * 2 if data.draw(st.booleans()) else array[:-1]
            file.words[4] = data.draw(st.sampled_from([file.words[4], len(file.offs)]))
            file.words[5] = data.draw(st.sampled_from([file.words[5], len(file.ends)]))
            continue
        array = getattr(file, part)
        if not array:
            continue
        at = data.draw(st.integers(0, len(array) - 1))
        wide = part == "words" or (part == "seqs" and file.words[2] == 2)
        near = st.sampled_from([-1, 1, 8]).map(lambda by, was=array[at]: was + by if isinstance(was, int) else was)
        value = data.draw(st.one_of(near, NUMBERS, LARGE) if wide else st.one_of(near, NUMBERS))
        array[at] = (data.draw(SEQS), data.draw(SEQS)) if part == "pairs" else value % (2**64 if wide else 2**32)
    crafted = put_together(file, SALT)
    expected = messages_of(crafted, SALT)
    found = decode_index(crafted, SALT)
    assert (found is None) == (expected is None)
    if found is None or expected is None:
        return
    scan, _controls = found
    index = MessageIndex(1)
    load_into(scan, index, 1)
    index.check()
    for seq, off, length, subject in expected:
        assert index.locate(seq) == (None if subject is None else (1, off, length & 0x3FFFFFFF))
        assert scan.place(seq) == off
    assert index.messages == sum(subject is not None for *_, subject in expected)


# --- segments -------------------------------------------------------------------------------------------------------


@st.composite
def strange_records(draw: st.DrawFn) -> Record:
    kind = draw(st.sampled_from([MSG, MSG, MSG, ERASED, TOMBS, TRIM, SKIP, STATE, ERASE, MARK, 5, 9, 13]))
    payload = draw(st.one_of(st.binary(max_size=30), st.lists(SEQS, max_size=3).map(packed_numbers)))
    if kind == ERASE and draw(st.booleans()):
        payload = struct.pack("<QIII", *(draw(NUMBERS) % 2**32 for _ in range(4)))
    subject = draw(st.sampled_from([b"", b"s", b"s.t"]))
    return Record(draw(SEQS), draw(st.sampled_from([0, -(2**63), 2**63 - 1])), subject, b"", payload, kind=kind)


def packed_numbers(numbers: list[int]) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def accepted(records: list[Record]) -> list[Record]:
    """The messages and erased ones that count, in plain words: each is above all that was accounted for before."""
    out, expect = [], 1
    for record in records:
        if record.kind in (MSG, ERASED):
            if expect <= record.seq < TOP and (record.subject or record.kind == ERASED):
                out.append(record)
                expect = record.seq + 1
        elif record.kind == SKIP and len(record.payload) == 8:
            to = int.from_bytes(record.payload, "little")
            expect = to + 1 if max(record.seq, expect) <= to < TOP else expect
        elif record.kind == TRIM:
            expect = max(expect, record.seq)
        elif record.kind == STATE and len(record.payload) == 24:
            first, last = struct.unpack("<QQ", record.payload[:16])
            expect = max(expect, last + 1) if last < TOP and first <= TOP else expect
    return out


@given(st.lists(st.lists(strange_records(), min_size=1, max_size=5), min_size=1, max_size=4))
def test_a_segment_that_says_anything(frames: list[list[Record]]) -> None:
    data = b"".join(encode_frame(records, no=no, salt=SALT) for no, records in enumerate(frames, 1))
    expected = accepted([record for records in frames for record in records])
    scan = scanned(data)
    index = MessageIndex(1)
    load_into(scan, index, 7)
    index.check()
    assert len(scan) == len(expected)
    assert [record.seq for record in expected if scan.place(record.seq) is None] == []
    assert index.messages == sum(record.kind == MSG for record in expected)
    if not scan.regions:
        again = decode_index(encode_index(scan, b""), SALT)
        assert again is not None and len(again[0]) == len(scan)


@given(
    st.lists(strange_records(), min_size=1, max_size=4),
    st.tuples(*(st.one_of(NUMBERS, LARGE) for _ in range(8))),
    st.integers(0, 3),
)
def test_a_frame_that_says_anything(records: list[Record], fields: tuple[int, ...], extra: int) -> None:
    """Lengths, counts, numbers: records are found whatever is said about them."""
    body = b"".join(encode_record(record, SALT) for record in records)
    length, no, first, count, flags, synced, epoch, ts = fields
    low = SALT & 0xFFFFFFFF
    head = FRAME.pack(
        MAGIC ^ low, length % 2**32, no, first, count % 2**32, flags % 2**32, synced, epoch, ts % 2**63, 0
    )
    data = head + struct.pack("<I", crc32c(head, low)) + body + bytes(extra * 8)
    scan = scanned(data)
    assert len(scan) <= len(accepted(records)) and 0 <= scan.good_end <= len(data)
    index = MessageIndex(1)
    load_into(scan, index, 7)
    index.check()


@pytest.mark.parametrize(("count", "regions"), [(1, []), (2, [(136, 136)])])
def test_a_record_that_reaches_beyond_its_frame(count: int, regions: list[tuple[int, int]]) -> None:
    """It is read once, and a region never ends before it begins."""
    low = SALT & 0xFFFFFFFF
    head = FRAME.pack(MAGIC ^ low, 72, 1, 1, count, 0, 0, 0, 5, 0)
    note = encode_record(Record(0, 1, b"key", b"", b"value" * 7, kind=13), SALT)
    scan = scanned(head + struct.pack("<I", crc32c(head, low)) + note)
    assert [(region.start, region.end) for region in scan.regions] == regions
    assert len(scan.controls) == 1


# --- a whole directory ----------------------------------------------------------------------------------------------


def looked_at() -> SimDisk:
    disk = SimDisk()
    store = new_file_store(disk, segment_bytes=8192)
    fill(store, 200)
    store.delete(7)
    commit(store)
    upkeep(store)
    return disk


WHOLE = looked_at()
HEADER = ("no", "last_no", "generation", "first_seq", "prev_no", "prev_generation", "prev_end", "frame_no", "salt")


@given(st.sampled_from([1, 2, 3]), st.dictionaries(st.sampled_from(HEADER), st.one_of(NUMBERS, LARGE), max_size=3))
def test_a_header_that_says_anything(no: int, changes: dict[str, int]) -> None:
    disk = WHOLE.copy()
    path = f"{DIRECTORY}/{no:010d}.0000.seg"
    fields = {"uid": UID, "no": no, "last_no": no, "generation": 0, "first_seq": 1, "created_ns": 1, "prev_no": no - 1}
    fields |= {"prev_generation": 0, "prev_end": 4096, "frame_no": 0, "salt": 5, **changes}
    for name in ("generation", "prev_generation"):
        fields[name] = int(fields[name]) % 2**32
    disk.content(path)[:HEADER_BYTES] = encode_header(SegmentHeader(**fields))  # type: ignore[arg-type]
    opens(disk)


@given(st.data())
def test_a_manifest_that_says_anything(data: st.DataObject) -> None:
    disk = WHOLE.copy()
    numbers = st.one_of(NUMBERS, LARGE)
    small = numbers.map(lambda number: number % 2**63)
    entries = st.builds(SegmentEntry, numbers, small, numbers, numbers, numbers)
    manifest = Manifest(
        version=data.draw(small),
        uid=data.draw(st.sampled_from([UID, UID, b"", b"another"])),
        config=b"{}",
        first_seq=data.draw(numbers),
        last_seq=data.draw(numbers),
        last_ts_ns=data.draw(small) - 1,
        segments=data.draw(st.lists(entries, max_size=3)),
        lost=data.draw(st.lists(st.tuples(numbers, numbers), max_size=2)),
    )
    for path in (DIRECTORY + "/MANIFEST.0", DIRECTORY + "/MANIFEST.1"):
        if path in disk.paths():
            disk.remove(path)
    write_manifest(disk, DIRECTORY, manifest)
    if data.draw(st.booleans()):
        del disk.content(DIRECTORY + "/0000000002.0000.seg")[: HEADER_BYTES // 2]
    opens(disk)


@given(st.lists(strange_records(), min_size=1, max_size=4), st.booleans())
def test_records_behind_the_others_that_say_anything(records: list[Record], closed: bool) -> None:
    """Erasures of places that are none, trims and states beyond the end, tombs that are cut."""
    disk = WHOLE.copy()
    segments = [path for path in disk.paths() if path.endswith(".seg")]
    path = segments[0 if closed else -1]
    content = disk.content(path)
    salt = reopen(WHOLE.copy(), segment_bytes=8192).log.segments[0 if closed else -1].header.salt
    end = len(bytes(content).rstrip(b"\0"))
    end += -end % 8
    frame = encode_frame(records, no=10**6, salt=salt)
    content[end : end + len(frame)] = frame
    for name in disk.paths():
        if name.endswith(".sdx"):
            disk.remove(name)
    opens(disk)


def opens(disk: SimDisk) -> None:
    """A stream opens, or a fault says why not; what it has can be read, and it goes on."""
    try:
        store = reopen(disk, segment_bytes=8192)
    except StorageFault:
        return
    store.state.index.check()
    store.read_batch(ALL, 0, max_msgs=1000, max_bytes=1 << 30, up_to_seq=max(store.last_seq, 1))
    upkeep(store, turns=20)
    if store.last_seq < TOP - 1:
        store.append(store.last_seq + 1, 1, b"s.1", b"", b"goes on")
        done = commit(store)
        assert done is not None and done.fault is None
        store.state.index.check()
        again = reopen(disk, segment_bytes=8192)
        assert again.last_seq == store.last_seq and again.get(store.last_seq) == store.get(store.last_seq)


# --- records of others ----------------------------------------------------------------------------------------------


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    """Records keyed by 0 whose lengths may lie, and whose checksums hold as far as there are bytes."""
    sizes = st.sampled_from([0, 1, 2, 3, 5, 8, 40, 65535, 2**31, 2**32 - 1])
    hlen, plen, slen = draw(sizes), draw(sizes), draw(st.sampled_from([0, 1, 3, 65535]))
    body = draw(st.binary(max_size=60))
    flags = draw(st.sampled_from([1, 1, 1, 17, 2, 0, 15, 33, 0xFFFF]))
    covered = struct.pack("<IQqHHI", hlen, draw(SEQS), 0, slen, flags, plen) + body
    total = 32 + hlen + plen + slen + (8 if flags & 16 else 0)
    covered = covered[: total - 4] if total <= len(covered) + 4 else covered
    whole = struct.pack("<I", crc32c(covered)) + covered
    return whole + bytes(-len(whole) % 8)


@given(st.lists(heads(), max_size=4), st.integers(0, TOP), st.integers(0, TOP), st.integers(0, 4))
def test_records_in_a_file_that_changed(records: list[bytes], first: int, last: int, rows: int) -> None:
    data = b"".join(records)
    at, seqs = 0, []
    while len(data) - at >= 32:
        hlen, seq, _ts, slen, flags, plen = struct.unpack_from("<IQqHHI", data, at + 4)
        total = 32 + hlen + slen + plen + (8 if flags & 16 else 0)
        if flags & 15 != MSG or total > len(data) - at:
            break
        seqs.append(seq)
        at += total + -total % 8
    whole = at == len(data) and seqs == sorted(set(seqs)) and all(first <= seq <= last for seq in seqs)
    assert are_messages(data, rows, first, last) == (whole and len(seqs) == rows)
    if data:
        assert 0 < records_end(data, 0, 40) <= len(data)


@given(st.lists(heads(), min_size=1, max_size=4), st.lists(st.integers(1, 90), max_size=6))
def test_staged_bytes_that_say_anything(records: list[bytes], cuts: list[int]) -> None:
    """However they are cut: nothing passes that is not a whole record in its turn."""
    data, rows, words = b"".join(records), StagedRows((b">",), 100), []
    for size in [*cuts, len(data)]:
        rows.feed(data[:size])
        data = data[size:]
        words.append(rows.check())
        if words[-1] != stagedrows.MORE:
            break
    passed = 0
    for number, record in enumerate(records, 1):
        hlen, seq, _ts, slen, flags, plen = struct.unpack_from("<IQqHHI", record, 4)
        total = 32 + hlen + slen + plen
        good = (
            flags == MSG
            and seq == number
            and total <= len(record) < total + 8
            and crc32c(record[4:total]) == (int.from_bytes(record[:4], "little"))
        )
        if not good:
            break
        passed += 1
    assert rows.rows <= passed


@pytest.mark.parametrize("seqs", [[TOP], [TOP - 1, TOP], [TOP, 5]])
def test_a_sequence_without_a_successor(seqs: list[int]) -> None:
    """The next one would be 0, and below all others."""
    scan = scanned(encode_frame([Record(seq, 1, b"s", b"", b"") for seq in seqs], no=1, salt=SALT))
    index = MessageIndex(1)
    load_into(scan, index, 1)
    index.check()
    assert index.locate(TOP) is None and index.last_seq in (0, 5, TOP - 1)
