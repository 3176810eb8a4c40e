"""Frames in transit, compiled and in plain words; what every copy of a log makes of them."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from models.records import LOCAL, Record, encode_frame
from models.transit import opened, packed
from slipstream.kernels.log.segscan import SegmentScan
from slipstream.kernels.log.transit import frame_heads, pack_frame, unpack_frame

SALTS = st.integers(0, 2**64 - 1)
NUMBERS = st.integers(1, 2**48)
MESSAGES = st.builds(
    Record,
    st.integers(1, 2**64 - 2),
    st.integers(-(2**62), 2**62),
    st.binary(min_size=1, max_size=20),
    st.binary(max_size=12),
    st.binary(max_size=40),
    expires=st.sampled_from([0, 0, 2**62]),
)
FACTS = st.sampled_from(
    [
        Record(5, 2, b"", b"", struct.pack("<QQ", 1, 2), kind=2),
        Record(7, 2, b"", b"", b"", kind=3),
        Record(3, 2, b"", b"", (9).to_bytes(8, "little"), kind=4),
        Record(0, 2, b"", b"", b"{}", kind=5),
        Record(4, 2, b"", b"", bytes(range(20)), kind=7),
        Record(6, 2, b"", b"", b"noise", kind=8),
        Record(0, 2, b"c", b"", b"state", kind=9),
        Record(0, 2, b"c", b"", b"delta", kind=10),
        Record(0, 2, b"c", b"", b"", kind=11),
        Record(0, 2, b"", b"", b"", kind=12),
        Record(0, 2, b"key", b"", b"value", kind=13),
    ]
)
STRANGERS = st.sampled_from(
    [
        Record(0, 2, b"", b"", bytes(24), kind=6),
        Record(0, 2, b"", b"", b"noise", kind=8),
        Record(4, 2, b"s", b"", b"noise", kind=8),
        Record(1, 2, b"", b"", b"state", kind=9),
        Record(1, 2, b"", b"", b"delta", kind=10),
        Record(1, 2, b"c", b"", b"state", kind=11),
        Record(1, 2, b"c", b"h", b"state", kind=9),
        Record(0, 2, b"", b"", bytes(40), kind=14),
        Record(9, 2, b"", b"", (3).to_bytes(8, "little"), kind=4),
        Record(4, 2, b"", b"", b"short", kind=7),
        Record(5, 2, b"", b"", b"odd", kind=2),
        Record(0, 2, b"s", b"", b"", kind=1),
        Record(3, 2, b"", b"", b"", kind=1),
        Record(3, 2, b"k", b"h", b"", kind=13),
    ]
)
ROOMS = st.sampled_from([0, 24])
RECORDS = st.lists(st.one_of(MESSAGES, FACTS), min_size=1, max_size=5)


@given(RECORDS, NUMBERS, NUMBERS, SALTS, SALTS, st.sampled_from([0, 1, 3, 5, 7]), ROOMS, ROOMS)
def test_every_copy_seals_to_the_same_bytes(
    records: list[Record], no: int, epoch: int, one: int, other: int, flags: int, room_here: int, room_there: int
) -> None:
    here = encode_frame(records, no=no, salt=one, synced_upto=no - 1, epoch=epoch, flags=flags, room=room_here)
    travels = pack_frame(b"before.." + here + b"behind", 8, one)
    assert travels is not None and travels == packed(here, one)
    there = unpack_frame(travels, no, epoch, 3, other, room_there)
    assert there is not None and there == opened(travels, no, epoch, 3, other, room_there)
    assert pack_frame(there, 0, other) == travels and len(there) - room_there == len(here) - room_here
    if not any(record.kind in (7, 8) for record in records):
        assert there == encode_frame(
            records, no=no, salt=other, synced_upto=3, epoch=epoch, flags=flags, room=room_there
        )
    for wrong in ((no + 1, epoch), (no, epoch + 1)):
        assert unpack_frame(travels, *wrong, 3, other) is None


@given(RECORDS, SALTS, st.data())
def test_a_changed_byte_is_noticed(records: list[Record], salt: int, data: st.DataObject) -> None:
    travels = pack_frame(encode_frame(records, no=4, salt=salt, epoch=2), 0, salt)
    assert travels is not None
    at = data.draw(st.integers(0, len(travels) - 1))
    hurt = travels[:at] + bytes([travels[at] ^ data.draw(st.integers(1, 255))]) + travels[at + 1 :]
    there = unpack_frame(hurt, 4, 2, 0, 9)
    # Padding is not covered by a checksum, and is made anew.
    assert there is None or there == unpack_frame(travels, 4, 2, 0, 9)
    assert there == opened(hurt, 4, 2, 0, 9)
    cut = data.draw(st.integers(0, len(travels) - 1))
    assert unpack_frame(travels[:cut], 4, 2, 0, 9) is None is pack_frame(travels[:cut], 0, 0)


@given(st.lists(st.one_of(MESSAGES, FACTS), max_size=2), STRANGERS, SALTS)
def test_what_is_not_the_logs_does_not_travel(before: list[Record], stranger: Record, salt: int) -> None:
    here = encode_frame([*before, stranger], no=4, salt=salt)
    assert pack_frame(here, 0, salt) is None is packed(here, salt)
    crafted = encode_frame([*before, stranger], no=4, salt=0)
    assert unpack_frame(crafted, 4, 0, 0, salt) is None is opened(crafted, 4, 0, 0, salt)


def test_local_frames_do_not_travel() -> None:
    records = [Record(1, 2, b"s", b"", b"x")]
    assert pack_frame(encode_frame(records, no=4, salt=5, flags=LOCAL), 0, 5) is None
    for flags in (2, 4, 6, LOCAL, LOCAL | 1, 16, 2**31):
        assert unpack_frame(encode_frame(records, no=4, salt=0, flags=flags), 4, 0, 0, 5) is None
    assert unpack_frame(encode_frame(records, no=4, salt=0, synced_upto=1), 4, 0, 0, 5) is None


@given(st.lists(RECORDS, min_size=1, max_size=4), SALTS)
def test_heads_say_where_frames_are(frames: list[list[Record]], salt: int) -> None:
    parts = [encode_frame(records, no=no, salt=salt, epoch=7) for no, records in enumerate(frames, 1)]
    parts.insert(1, encode_frame([Record(0, 1, b"", b"", b"", kind=12)], no=1, salt=salt, flags=LOCAL))
    whole = bytes(16) + b"".join(parts) + bytes(64)
    found = frame_heads(whole, 16, salt)
    assert [whole[at : at + length] for *_, at, length in found] == parts
    assert [no for no, _, flags, *_ in found if not flags & LOCAL] == list(range(1, len(frames) + 1))
    assert found[0][1] == 7 and frame_heads(whole, 0, salt) == [] == frame_heads(whole, len(whole) + 5, salt)
    scan = SegmentScan(whole, 16, salt, 1, 0)
    while scan.step(100):
        pass
    assert scan.last_frame_no == len(frames)
