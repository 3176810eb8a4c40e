"""Kernels that choose messages from the index, against plain Python."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from models.logs import FILTERS, logs, passing
from models.records import Record, encode_record
from slipstream.kernels.bulk.bulkchoose import measure, name_places, pick
from slipstream.kernels.index.subjectindex import MessageIndex, Selection
from slipstream.kernels.log.logwriter import LogWriter

NO_LIMIT = 1 << 62
Place = tuple[int, int, int, int, int]


@given(
    logs(), FILTERS, st.integers(0, 20), st.integers(0, 40), st.integers(1, 300), st.integers(1, 20), st.integers(1, 8)
)
def test_measured(
    log: tuple[list[Record], bytes, MessageIndex, int],
    filters: list[bytes],
    first: int,
    last: int,
    every: int,
    scan_max: int,
    max_msgs: int,
) -> None:
    records, _data, index, _salt = log
    expected = passing(records, filters, first, last)
    sizes = {record.seq: len(encode_record(record, 0)) for record in expected}
    marks: list[tuple[int, int, int]] = []
    seq = first
    while seq <= last:
        seq, limited = measure(index, filters, seq, last, every, NO_LIMIT, NO_LIMIT, scan_max, marks, 1 << 30)
        assert not limited
    assert sum(mark[1] for mark in marks) == len(expected)
    begin = first
    for end, count, size in marks:
        inside = [sizes[seq] for seq in sizes if begin <= seq <= end]
        assert (count, size) == (len(inside), sum(inside))
        begin = end + 1
    marks = []
    following, limited = measure(index, filters, first, last, every, max_msgs, NO_LIMIT, 1 << 30, marks, 1 << 30)
    assert sum(mark[1] for mark in marks) == min(len(expected), max_msgs)
    if limited:
        assert following == expected[max_msgs].seq


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=400),
    st.sets(st.integers(1, 400), max_size=2),
    st.integers(1, 250),
    st.integers(1, 450),
    st.integers(50, 9_000),
    st.integers(1, 500),
    st.integers(1, 30_000),
    st.integers(1, 500),
)
def test_long_runs_are_measured_as_one_by_one(
    sizes: list[int],
    removed: set[int],
    first: int,
    last: int,
    every: int,
    max_msgs: int,
    max_bytes: int,
    scan_max: int,
) -> None:
    """Where all entries are messages they are measured in blocks, unless there is a filter."""
    index = MessageIndex(1)
    writer = LogWriter(index)
    writer.open_segment(1, 5, 0, 1 << 30, 0)
    for seq, size in enumerate(sizes, 1):
        assert writer.append(seq, seq, b"a", b"", bytes(size), 9 if size % 7 == 0 else 0)
    for gone in removed & set(range(1, len(sizes) + 1)):
        index.delete(gone)
    blocks: list[tuple[int, int, int]] = []
    singles: list[tuple[int, int, int]] = []
    limits = every, max_msgs, max_bytes, scan_max
    ends = [
        measure(index, filters, first, last, *limits, marks, 1 << 30)
        for filters, marks in (((), blocks), ((b"a", b"b"), singles))
    ]
    assert blocks == singles
    assert ends[0] == ends[1]


@given(
    logs(),
    FILTERS,
    st.integers(0, 30),
    st.integers(0, 40),
    st.integers(1, 5),
    st.integers(1, 400),
    st.integers(1, 20),
    st.integers(1, 300),
    st.integers(1, 4),
)
def test_places(
    log: tuple[list[Record], bytes, MessageIndex, int],
    filters: list[bytes],
    first: int,
    last: int,
    max_msgs: int,
    max_bytes: int,
    scan_max: int,
    place_max: int,
    places_max: int,
) -> None:
    """They hold the messages that pass, each of them once and nothing else, and are no shorter than they must be."""
    records, data, index, salt = log
    expected = passing(records, filters, first, last)
    encoded = {record.seq: encode_record(record, salt & 0xFFFFFFFF) for record in records}
    content, named, seq = b"", 0, first
    while seq <= last:
        places: list[Place] = []
        limits = max_msgs, max_bytes, scan_max
        following, rows = name_places(index, filters, seq, last, *limits, place_max, places_max, places)
        assert following > seq or following == last + 1
        assert rows == sum(place[3] for place in places) <= max_msgs and len(places) <= places_max
        assert rows <= 1 or sum(place[2] for place in places) <= max_bytes
        chosen = Selection()
        picked = pick(index, filters, seq, last, *limits, chosen)
        assert (following, rows) == (picked, len(chosen)) or (len(places) == places_max and rows < len(chosen))
        for _segment, offset, length, count, first_seq in places:
            assert first_seq == expected[named].seq
            assert length <= place_max or count == 1
            named += count
            content += data[offset : offset + length]
        for (_, at, length, _, _), (_, after, _, _, next_seq) in pairwise(places):
            assert at + length != after or length + len(encoded[next_seq]) > place_max
        seq = following
    assert named == len(expected)
    assert content == b"".join(encoded[record.seq] for record in expected)
