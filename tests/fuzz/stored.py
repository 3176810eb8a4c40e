"""What the server reads from its own files, and from parts that clients have staged: nothing in them is believed."""

from __future__ import annotations

from functools import cache
from typing import Any

from fuzz import checksums
from fuzz.target import Target, cut, option
from models.index_files import messages_of
from models.records import LOCAL, Record, encode_frame, encode_record
from slipstream.jetstream.store.file.chain import new_links
from slipstream.kernels.bulk import stagedrows
from slipstream.kernels.bulk.bulkscan import are_messages, records_end
from slipstream.kernels.bulk.stagedrows import StagedRows
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.chainlinks import leaf_of, records_of
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.record import read_message, record_kind
from slipstream.kernels.log.segindex import decode_index, encode_index
from slipstream.kernels.log.segload import load_into, replace_in
from slipstream.kernels.log.segscan import SegmentScan
from slipstream.kernels.subjects.subject import is_valid_publish, matches

SALT = 0x1234567_89ABCDEF
MSG, TOMBS, TRIM, SKIP, CONFIG, STATE, ERASE, ERASED, PUT, MARK, CHAIN = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14
TOP = 2**64 - 1
HEAD_BYTES = 18 * 8 + 4  # of the smallest index file

# --- segments -------------------------------------------------------------------------------------------------------


def segment(data: bytes) -> None:
    """Scanned in any steps, packed, unpacked, loaded and rewritten, a segment says the same."""
    flags, body = option(data)
    content = bytearray(body)
    if not flags & 1:
        checksums.records(content, SALT, with_frames=True)
    whole = bytes(content)
    scan, slow = _scanned(whole, 1 << 30), _scanned(whole, 1)
    shown = _shown(scan)
    assert shown == _shown(slow)
    index = _loaded(scan)
    assert index.messages <= len(scan) <= len(whole) // 32
    assert 0 <= scan.good_end <= max(len(whole), 0)
    for region in scan.regions:
        assert 0 <= region.start <= region.end <= len(whole) + 2**32
    again = decode_index(encode_index(scan, b"controls"), SALT)
    assert again is not None or scan.regions  # the last frame may go on where nothing is any more
    if again is not None:
        assert (len(again[0]), again[0].holes, again[0].expiries) == (len(scan), scan.holes, scan.expiries)
        assert again[1] == b"controls" and _state(_loaded(again[0])) == _state(index)
    if scan.last_seq < TOP - 1 and len(scan):
        replace_in(slow, index, {1}, 2)
        index.check()
        assert index.messages == _loaded(scan).messages
    _read(whole)
    for region in list(slow.regions):
        slow.cut(region)
        _loaded(slow)


def _scanned(data: bytes, step: int) -> SegmentScan:
    scan = SegmentScan(data, 0, SALT, 1, 0)
    while scan.step(step):
        pass
    return scan


def _loaded(scan: SegmentScan) -> MessageIndex:
    index = MessageIndex(1)
    load_into(scan, index, 1)
    index.check()
    return index


def _shown(scan: SegmentScan) -> tuple[Any, ...]:
    regions = [(r.start, r.end, r.frame_no, r.messages, r.controls, r.unit) for r in scan.regions]
    numbers = (len(scan), scan.base_seq, scan.first_seq, scan.last_seq, scan.first_ts, scan.last_ts, scan.good_end)
    frames = (
        scan.first_frame_no,
        scan.last_frame_no,
        scan.said_frame_no,
        scan.synced_upto,
        scan.epoch,
        scan.vouched_end,
    )
    return numbers, frames, scan.controls, scan.expiries, scan.holes, regions, scan.unit_ended, scan.unit_continues


def _state(index: MessageIndex) -> tuple[Any, ...]:
    return index.messages, index.first_seq, index.last_seq, index.size_bytes, index.subjects_matching([b">"])


def _read(data: bytes) -> None:
    """Records where some are, and where none can be."""
    for at in (-8, 0, 64, len(data) - 8, len(data), len(data) + 8):
        kind = record_kind(data, at, SALT)
        message = read_message(data, at, SALT, 1)
        assert message is None or kind == MSG


def segment_seeds() -> list[bytes]:
    number = (9).to_bytes(8, "little")
    plain = [Record(seq, 5, b"s.%d" % (seq % 3), b"", b"pay" * seq, expires=9 * (seq == 2)) for seq in range(1, 6)]
    facts = [
        Record(0, 1, b"", b"", number * 2 + number, kind=STATE),
        Record(10, 2, b"a", b"NATS/1.0\r\n\r\n", b""),
        Record(11, 2, b"", b"", b"noise", kind=ERASED),
        Record(12, 2, b"", b"", (14).to_bytes(8, "little"), kind=SKIP),
        Record(0, 2, b"", b"", number * 2, kind=TOMBS),
        Record(15, 2, b"", b"", b"", kind=TRIM),
        Record(3, 2, b"", b"", bytes(20), kind=ERASE),
        Record(0, 2, b"key", b"", b"{}", kind=PUT),
        Record(0, 2, b"", b"", b"", kind=MARK),
        Record(2**33, 2, b"far", b"", b""),
    ]
    frames = [encode_frame(plain, no=1, salt=0), encode_frame(facts, no=2, salt=0)]
    unit = bytearray(encode_frame(plain[:2], no=1, salt=0) + encode_frame(plain[2:], no=2, salt=0))
    unit[28], unit[len(encode_frame(plain[:2], no=1, salt=0)) + 28] = 7, 1
    head = encode_frame(facts[:1], no=0, salt=0, flags=LOCAL)
    mark = encode_frame(facts[8:9], no=2, salt=0, synced_upto=2, flags=LOCAL)
    split = len(encode_frame(plain[:2], no=1, salt=0))
    amid = encode_frame(facts[:1], no=1, salt=0, flags=LOCAL)
    local = head + bytes(unit[:split]) + amid + bytes(unit[split:]) + mark
    whole = [frames[0], b"".join(frames) + bytes(64), frames[1], bytes(unit), head + frames[0] + mark, local]
    return [b"\0" + one for one in whole]


# --- hash chains ----------------------------------------------------------------------------------------------------


def chain(data: bytes) -> None:
    """Any bytes hold or break at a place; what holds is what goes on from its end."""
    flags, body = option(data)
    content = bytearray(body)
    if not flags & 1:
        checksums.records(content, SALT, with_frames=True)
    whole = bytes(content)
    erased = {3: bytes(32), 11: bytes(32), 12: b"short"}
    checked, resumed = new_links(bytes(16)), new_links(bytes(16))
    holds = checked.check(whole, 0, len(whole), SALT, erased, 1)
    assert holds == (checked.broken is None) and checked.unlinked * 32 <= 2 * len(whole)
    assert holds or all(isinstance(seq, int) for seq in checked.broken[:2])
    if resumed.resume(whole, 0, len(whole), SALT, erased) and holds:
        assert (resumed.count, resumed.head, resumed.unlinked) == (checked.count, checked.head, checked.unlinked)
    places = records_of(whole, 0, len(whole), SALT)
    for at, kind, _ in places or ():
        assert record_kind(whole, at, SALT) == kind and leaf_of(whole, at, SALT) is not None


def chain_seeds() -> list[bytes]:
    link = Record(1, 1, b"", b"", bytes(40), kind=CHAIN)
    skip = Record(20, 2, bytes(64), b"", (21).to_bytes(8, "little"), kind=SKIP)
    erased = Record(11, 2, b"", b"", b"noise", kind=ERASED)
    messages = [Record(seq, 5, b"s", b"", b"pay", expires=9 * (seq == 2)) for seq in range(1, 4)]
    frames = [[link, *messages, link], [link, erased, skip, link], [link, link, Record(0, 2, b"", b"", b"", kind=MARK)]]
    return [b"\0" + encode_frame(records, no=no, salt=0) for no, records in enumerate(frames, 1)]


# --- index files ----------------------------------------------------------------------------------------------------


def index_file(data: bytes) -> None:
    """Read as the model reads it, or refused as by it; what is read can be loaded."""
    flags, body = option(data)
    salted = body[:8] + SALT.to_bytes(8, "little") + body[16:] if len(body) >= HEAD_BYTES else body
    crafted = salted if flags & 1 else checksums.last_word(salted, SALT) if len(salted) >= 4 else salted
    found = decode_index(crafted, SALT)
    if flags & 1 or len(crafted) < HEAD_BYTES:
        assert found is None or found[0] is not None
    else:
        expected = messages_of(crafted, SALT)
        assert (found is None) == (expected is None)
        if expected is not None:
            assert found is not None and len(found[0]) == len(expected)
            index = MessageIndex(1)
            load_into(found[0], index, 1)
            index.check()
            for seq, off, length, subject in expected:
                assert index.locate(seq) == (None if subject is None else (1, off, length & 0x3FFFFFFF))
                assert found[0].place(seq) == off


@cache
def index_seeds() -> list[bytes]:
    seeds = []
    for gaps in ((1, 1, 1, 1), (1, 2, 3), (1, 2**33), ()):
        records, seq = [], 0
        for gap in gaps:
            seq += gap
            records.append(Record(seq, 5, b"s.%d" % (seq % 2), b"", b"pay", expires=9 * (gap == 2)))
        data = encode_frame(records, no=1, salt=SALT) if records else b""
        seeds.append(b"\0" + encode_index(_scanned(data, 1 << 30), b"controls"))
    return seeds


# --- staged records -------------------------------------------------------------------------------------------------

SIZE_MAX = 600


def staged(data: bytes) -> None:
    """What passes is a whole record in its turn that the stream takes, and is committed as it was staged."""
    flags, body = option(data)
    content = bytearray(body)
    places = checksums.records(content, 0) if not flags & 1 else []
    whole = bytes(content)
    takes = (b"a.>", b"b") if flags & 2 else ()
    checked, fed, kept = (StagedRows(takes, SIZE_MAX, 200) for _ in range(3))
    checked.feed(whole)
    word = checked.check()
    last = stagedrows.MORE
    for piece in cut(whole):
        fed.feed(piece)
        last = fed.check()
        assert fed.unused <= len(whole)
        if last != stagedrows.MORE:
            break
    assert (fed.rows, fed.crc, fed.size, last) == (checked.rows, checked.crc, checked.size, word)
    if places:
        assert checked.rows == _passable(whole, takes)
    index = MessageIndex(1)
    writer = LogWriter(index)
    writer.open_segment(1, SALT, 0, 1 << 20, 0)
    kept.feed(whole)
    seq = 1
    while True:
        done, why = kept.append_to(writer, seq, 7, 100)
        seq += done
        if why != stagedrows.SPECIAL:
            break
        assert b"Nats-" in kept.current()[1]
        kept.skip()
    assert kept.rows <= checked.rows and index.messages == seq - 1
    index.check()
    scan = SegmentScan(writer.take(), 0, SALT, 1, 0)
    while scan.step(1 << 30):
        pass
    assert len(scan) == seq - 1 and not scan.regions
    if whole:
        assert 0 < records_end(whole, 0, 40) <= len(whole)
    are_messages(whole, len(places), 0, TOP)


def _passable(data: bytes, takes: tuple[bytes, ...]) -> int:
    """How many records at the beginning may pass, in plain words."""
    rows = at = 0
    while len(data) - at >= 32:
        headers, subject, flags, payload = checksums._LENGTHS.unpack_from(data, at + 4)
        total = 32 + headers + subject + payload
        name = data[at + 32 : at + 32 + subject]
        if total + -total % 8 > len(data) - at or flags != MSG or not is_valid_publish(name):
            break
        if int.from_bytes(data[at + 8 : at + 16], "little") != rows + 1:
            break
        if (takes and not any(matches(one, name) for one in takes)) or headers + payload > SIZE_MAX or headers > 200:
            break
        rows += 1
        at += total + -total % 8
    return rows


def staged_seeds() -> list[bytes]:
    block = b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"
    rows = [
        (b"a.b", b"", b"x"),
        (b"b", block, b"y" * 40),
        (b"a.c", b"NATS/1.0\r\nA: b\r\n\r\n", b""),
        (b"a.b", b"", b"z"),
    ]
    whole = b"".join(encode_record(Record(number, 0, *row), 0) for number, row in enumerate(rows, 1))
    return [b"\2" + whole, b"\0" + whole, b"\0" + encode_record(Record(1, 0, b"s" * 300, b"", b"p" * 500), 0)]


TARGETS = (
    Target("segment", segment, segment_seeds, (b"SFR1",)),
    Target("chain", chain, chain_seeds, (b"SFR1",)),
    Target("index-file", index_file, index_seeds, (b"SLPSDX01",)),
    Target("staged-rows", staged, staged_seeds, (b"Nats-", b"a.b", b"NATS/1.0\r\n")),
)
