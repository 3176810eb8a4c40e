"""How far a batch goes over an archive and its stream: real files, a model of the stream behind them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.spark.archive.measure import first_at, measure_both, measure_files, within_bytes
from slipstream.spark.lake import Lake, create_lake
from slipstream.spark.lake.files import SCHEMA, write_file
from slipstream.spark.runtime.stream_state import Measured, StreamState
from slipstream.spark.source.admission import BatchAdmission
from slipstream.spark.source.offsets import StreamPosition
from slipstream.spark.source.options import ReadLimits
from support.lake_tables import FACTS, JOB, messages

RECORD = 48  # bytes of a message with the subject "a.b" and 9 bytes of payload in the stream: 32 + 3 + 9, by eights


def message_rows(sequences: list[int], sizes: dict[int, int] | None = None) -> pa.RecordBatch:
    """Messages "a.b", every third "c"; 9 bytes unless `sizes` says otherwise."""
    rows = [
        {
            "stream": "ORDERS",
            "seq": seq,
            "ts": None,
            "ts_ns": seq * 10,
            "subject": "a.b" if seq % 3 else "c",
            "headers": None,
            "hdr_raw": None,
            "payload": b"x" * (sizes or {}).get(seq, 9),
        }
        for seq in sequences
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def filled(place: Path, *files: list[int], sizes: dict[int, int] | None = None) -> Lake:
    lake = create_lake(str(place), FACTS, "parquet")
    added = [write_file(lake.location, [message_rows(one, sizes)], job=JOB) for one in files]
    lake.commit(FACTS.upto(files[-1][-1]), add=[one for one in added if one is not None], operation="archive")
    return lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Three files with a gap inside the second and one between it and the third."""
    place = tmp_path_factory.mktemp("lakes") / "table"
    return filled(place, list(range(1, 11)), [11, 12, 17, 18], list(range(31, 41)))


def count(lake: Lake, first: int, last: int, messages: int | None = None, size: int | None = None) -> Measured:
    return measure_files(lake, first, last, (), messages, size)


def test_messages_are_counted_and_cut_exactly(lake: Lake) -> None:
    assert count(lake, 1, 40) == Measured(40, 24, 0)
    assert count(lake, 4, 30) == Measured(30, 11, 0)
    assert count(lake, 4, 30, 11) == Measured(30, 11, 0)
    assert count(lake, 4, 30, 10) == Measured(17, 10, 0)
    assert count(lake, 4, 30, 9) == Measured(12, 9, 0)
    assert count(lake, 4, 40, 7) == Measured(10, 7, 0)
    assert count(lake, 1, 40, 10) == Measured(10, 10, 0)
    assert count(lake, 5, 40, 1) == Measured(5, 1, 0)
    assert count(lake, 19, 30, 1) == Measured(30, 0, 0)
    assert count(lake, 41, 50, 1) == Measured(50, 0, 0)


def test_files_that_are_counted_whole_are_not_opened(tmp_path: Path) -> None:
    lake = filled(tmp_path / "table", list(range(1, 11)), list(range(11, 21)), list(range(21, 31)))
    for file in lake.files()[:2]:
        Path(lake.path_of(file)).unlink()
    assert count(lake, 1, 30, 25) == Measured(25, 25, 0)
    with pytest.raises(FileNotFoundError):
        count(lake, 1, 30, 15)


def test_bytes_are_those_of_records_in_the_stream(lake: Lake, tmp_path: Path) -> None:
    assert count(lake, 1, 40, None, 10**9) == Measured(40, 24, 24 * RECORD)
    assert count(lake, 4, 40, None, 8 * RECORD) == Measured(11, 8, 8 * RECORD)
    assert count(lake, 4, 40, None, 9 * RECORD - 1) == Measured(11, 8, 8 * RECORD)
    assert count(lake, 4, 40, 3, 9 * RECORD) == Measured(6, 3, 3 * RECORD)
    large = filled(tmp_path / "table", [1, 2, 3], sizes={1: 1000, 3: 1000})
    assert count(large, 1, 3, None, 100) == Measured(1, 1, 1040), "one is always taken"
    assert count(large, 2, 3, None, 100) == Measured(2, 1, RECORD), "and no more than fits"


def test_only_wanted_subjects_count(lake: Lake) -> None:
    assert measure_files(lake, 1, 40, ("c",), None, None) == Measured(40, 8, 0)  # 3 6 9 12 18 33 36 39
    assert measure_files(lake, 1, 40, ("c",), 4, None) == Measured(12, 4, 0)
    assert measure_files(lake, 4, 40, ("*.b",), 3, None) == Measured(7, 3, 0)
    assert measure_files(lake, 1, 40, ("d.>",), 1, None) == Measured(40, 0, 0)


def test_the_first_message_at_or_after_a_time(lake: Lake) -> None:
    assert [first_at(lake, time, 40) for time in (0, 10, 11, 120, 121, 181, 311, 400, 401)] == [
        *(1, 1, 2, 12, 17, 31, 32, 40, None)
    ]
    assert first_at(lake, 181, 30) is None
    assert first_at(lake, 121, 17) == 17


def test_headers_are_bytes_too(tmp_path: Path) -> None:
    lake = create_lake(str(tmp_path / "table"), FACTS, "parquet")
    file = write_file(lake.location, [messages(1, 2)], job=JOB)
    assert file is not None
    lake.commit(FACTS.upto(2), add=[file], operation="archive")
    # 32 + "orders.1" + 20 of headers + 1 of payload, by eights
    assert count(lake, 1, 2, None, 10**6) == Measured(2, 2, 2 * 64)


class Both:
    """An archive up to a border and a stream from there on; the sizes of the stream's records are known by sequence."""

    def __init__(self, lake: Lake, border: int, live: dict[int, int]) -> None:
        self.lake, self.live = lake, live
        self.state = StreamState("ORDERS", FACTS.identity, border, max(live, default=border - 1))

    def in_stream(
        self, stream: str, first: int, last: int, max_messages: int | None, max_bytes: int | None
    ) -> Measured:
        assert first >= self.state.first
        messages = size = 0
        for seq in (seq for seq in sorted(self.live) if first <= seq <= last):
            over = messages and max_bytes is not None and size + self.live[seq] > max_bytes
            if over or (max_messages is not None and messages == max_messages):
                return Measured(seq - 1, messages, size)
            messages, size = messages + 1, size + self.live[seq]
        return Measured(last, messages, size)

    def measure(self, stream: str, first: int, last: int, max_messages: int | None, max_bytes: int | None) -> Measured:
        def archived(_: StreamState, *how: int | None) -> Measured:
            low, high, most, bytes_most = how
            assert low is not None and high is not None and high < self.state.first
            return measure_files(self.lake, low, high, (), most, bytes_most)

        return measure_both(
            archived, self.in_stream, self.state, first, last, max_messages=max_messages, max_bytes=max_bytes
        )


def test_a_range_begins_in_the_archive_and_ends_in_the_stream(lake: Lake) -> None:
    both = Both(lake, 41, dict.fromkeys(range(41, 61), RECORD))
    assert both.measure("ORDERS", 35, 60, None, None) == Measured(60, 26, 20 * RECORD)
    assert both.measure("ORDERS", 35, 60, 10, None) == Measured(44, 10, 4 * RECORD)
    assert both.measure("ORDERS", 35, 60, 6, None) == Measured(40, 6, 0)
    assert both.measure("ORDERS", 35, 60, 5, None) == Measured(39, 5, 0)
    assert both.measure("ORDERS", 35, 38, 50, None) == Measured(38, 4, 0)
    assert both.measure("ORDERS", 45, 60, 5, None) == Measured(49, 5, 5 * RECORD)
    assert both.measure("ORDERS", 35, 60, None, 8 * RECORD) == Measured(42, 8, 8 * RECORD)
    large = Both(lake, 41, {41: 10_000})
    assert large.measure("ORDERS", 35, 41, None, 8 * RECORD) == Measured(40, 6, 6 * RECORD), "it waits for its turn"
    assert large.measure("ORDERS", 41, 41, None, 8 * RECORD) == Measured(41, 1, 10_000)


def test_the_border_is_the_streams_first_message_also_where_the_archive_has_more(lake: Lake) -> None:
    both = Both(lake, 8, dict.fromkeys(range(8, 41), RECORD))
    assert both.measure("ORDERS", 1, 40, 9, None) == Measured(9, 9, 2 * RECORD)


@given(
    border=st.sampled_from([1, 5, 11, 15, 31, 41]),
    max_messages=st.none() | st.integers(1, 15),
    max_bytes=st.none() | st.integers(1, 12 * RECORD),
    min_messages=st.none() | st.integers(1, 30),
    live=st.lists(st.integers(1, 20 * RECORD), max_size=15),
)
def test_batches_cover_both_once_and_keep_to_the_limits(
    lake: Lake,
    border: int,
    max_messages: int | None,
    max_bytes: int | None,
    min_messages: int | None,
    live: list[int],
) -> None:
    in_files = {*range(1, 11), 11, 12, 17, 18, *range(31, 41)}
    sizes = dict.fromkeys(in_files, RECORD)
    stream = {seq: RECORD for seq in in_files if seq >= border} | dict(enumerate(live, 41))
    sizes |= stream
    both = Both(lake, border, stream)
    states = {"ORDERS": both.state}
    limits = ReadLimits(max_messages=max_messages, max_bytes=max_bytes, min_messages=min_messages)
    admission = BatchAdmission(limits, filtered=False, now_ns=0)
    measure = within_bytes(both.measure, limits)
    at = StreamPosition(1, FACTS.identity)
    for _ in range(len(sizes) + 2):
        end = admission.next_end({"ORDERS": at}, states, measure, now_ns=0).positions["ORDERS"]
        if end == at:
            break
        taken = [sizes[seq] for seq in range(at.seq, end.seq) if seq in sizes]
        assert taken, "every batch is progress"
        assert max_messages is None or len(taken) <= max_messages
        assert max_bytes is None or sum(taken) <= max_bytes or len(taken) == 1
        at = end
    assert len([seq for seq in sizes if seq >= at.seq]) < (min_messages or 1)
