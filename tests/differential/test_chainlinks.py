"""The kernel of the hash chain against the plain model, with libsodium's digest and with that of `hashlib`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.chain import CHAIN, leaf, links
from models.records import Record, encode_frame, encode_record
from slipstream.jetstream.store.file.chain import _find_blake2b, new_links
from slipstream.kernels.log.chainlinks import NO_LINK, ChainLinks, leaf_of, records_of
from slipstream.kernels.log.segscan import SegmentScan

UID, HEAD, SALT = bytes(range(16)), bytes(range(32)), 0x1234_5678_9ABC_DEF0

small = st.binary(max_size=200)
messages = st.builds(
    Record,
    seq=st.integers(1, 2**63),
    ts=st.integers(-(2**63), 2**63 - 1),
    subject=st.binary(min_size=1, max_size=20),
    headers=small,
    payload=small,
    expires=st.sampled_from((0, 0, 77)),
)
controls = st.builds(
    Record, seq=st.integers(0, 9), ts=st.just(1), subject=small, headers=st.just(b""), payload=small,
    kind=st.sampled_from((5, 12, 13)),
)  # fmt: skip
chained = st.just(Record(1, 1, b"", b"", NO_LINK, kind=CHAIN))
frames = st.lists(st.lists(st.one_of(messages, controls, chained), min_size=1, max_size=8), min_size=1, max_size=5)


def written(content: list[list[Record]]) -> bytes:
    return b"".join(encode_frame(records, no=no, salt=SALT) for no, records in enumerate(content, 1))


@pytest.mark.parametrize("digest", [_find_blake2b(), 0], ids=["libsodium", "hashlib"])
@pytest.mark.parametrize("many", [True, False])
@given(frames)
def test_links_are_those_of_the_model(digest: int, many: bool, content: list[list[Record]]) -> None:
    data = written(content)
    made = ChainLinks(HEAD, 7, UID, digest, many)
    made.seal(data, 0, SALT)
    expected = links((record for frame in content for record in frame), UID, HEAD, 7)
    places = records_of(data, 0, len(data), SALT)
    assert places is not None, "a record whose link was filled in has the right checksum"
    assert [data[at + 32 : at + 72] for at, kind, _ in places if kind == CHAIN] == expected
    assert (made.count, made.head) == (
        (int.from_bytes(expected[-1][:8], "little"), expected[-1][8:]) if expected else (7, HEAD)
    )
    # What was sealed is found to hold, and goes on where it ended.
    again = new_links(UID)
    if expected and content[0][0].kind == CHAIN:
        assert again.check(data, 0, len(data), SALT, {}) and (again.count, again.head) == (made.count, made.head)
    resumed = new_links(UID)
    assert resumed.resume(data, 0, len(data), SALT, {}) == bool(expected)
    if expected:
        assert (resumed.count, resumed.head, resumed.unlinked) == (made.count, made.head, made.unlinked)


@given(st.lists(st.sampled_from([0, 1, 91, 92, 93, 219, 220, 221, 348, 1000, 5000]), min_size=1, max_size=11))
def test_records_of_any_length_are_hashed_side_by_side(sizes: list[int]) -> None:
    """Around the ends of blocks of 128 bytes, with lanes that end at different times or have nothing to do."""
    records = [Record(seq, 1, b"s", b"", bytes([seq]) * size) for seq, size in enumerate(sizes, 1)]
    content = [[*records, Record(1, 1, b"", b"", NO_LINK, kind=CHAIN)]]
    made = new_links(UID, HEAD, 7)
    made.seal(written(content), 0, SALT)
    assert made.head == links(content[0], UID, HEAD, 7)[-1][8:]


@given(messages)
def test_a_leaf_does_not_depend_on_the_file(record: Record) -> None:
    for salt in (0, SALT):
        assert leaf_of(encode_record(record, salt), 0, salt) == leaf(record)
    assert leaf_of(b"", 0, 0) is None and leaf_of(bytes(100), 0, 0) is None


def test_a_scan_keeps_one_link_a_segment() -> None:
    """Every commit has one: an index file must not grow with their number."""
    frame = [Record(1, 1, b"", b"", n.to_bytes(40, "little"), kind=CHAIN) for n in range(1, 9)]
    data = encode_frame(frame, no=1, salt=SALT)
    scan = SegmentScan(data, 0, SALT, 1, 0)
    while scan.step(100):
        pass
    assert scan.controls == [(CHAIN, 1, 1, b"", (8).to_bytes(40, "little"))]
