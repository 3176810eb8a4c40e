"""Lake tables without Spark: both formats hold the same contract."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slipstream.spark.lake import Lake, LakeConflict, LakeError, LakeFile, NoLake, Wish, create_lake, files, open_lake
from slipstream.spark.lake.files import COLUMNS, filtered, read_file, write_file
from support.lake_tables import FACTS, JOB, messages


def written(lake: Lake, first: int, last: int, job: str = JOB) -> LakeFile:
    file = write_file(lake.location, [messages(first, last)], job=job)
    assert file is not None
    return file


@pytest.fixture(params=["delta", "parquet"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return create_lake(str(tmp_path / "table"), FACTS, request.param)


def sequences(lake: Lake, wish: Wish) -> list[int]:
    return [
        sequence
        for file in lake.select(wish)
        for batch in read_file(lake.path_of(file), ["seq"], wish)
        for sequence in batch.column("seq").to_pylist()
    ]


def test_a_commit_is_there_after_opening_again(lake: Lake) -> None:
    first, second = written(lake, 1, 10), written(lake, 11, 25)
    version = lake.commit(FACTS.upto(25), add=[second, first], operation="archive")
    again = open_lake(lake.location)
    assert (again.format, again.version, again.facts) == (lake.format, version, FACTS.upto(25))
    assert again.files() == [first, second]
    assert (first.first_seq, first.last_seq, first.rows, first.first_subject, first.last_subject) == (
        (1, 10, 10, "orders.0", "orders.4")
    )


def test_files_are_replaced_in_one_version_and_old_versions_stay(lake: Lake) -> None:
    small = [written(lake, 1, 5), written(lake, 6, 10)]
    before = lake.commit(FACTS.upto(10), add=small, operation="archive")
    large = written(lake, 1, 10)
    lake.commit(lake.facts, add=[large], remove=small, operation="compact", changes_data=False)
    assert lake.files() == [large]
    assert lake.files(before) == small
    assert lake.facts.archived_upto == 10
    with pytest.raises(LakeError, match="no version 99"):
        lake.files(99)


def test_two_writers_one_is_told(lake: Lake) -> None:
    other = open_lake(lake.location)
    lake.commit(FACTS.upto(5), add=[written(lake, 1, 5)], operation="archive")
    late = written(other, 1, 5)
    with pytest.raises(LakeConflict, match="meanwhile"):
        other.commit(FACTS.upto(5), add=[late], operation="archive")
    assert sequences(open_lake(lake.location), Wish()) == [1, 2, 3, 4, 5]


def test_wishes_select_files_and_rows(lake: Lake) -> None:
    files = [written(lake, start, start + 9) for start in (1, 11, 21)]
    lake.commit(FACTS.upto(30), add=files, operation="archive")
    assert sequences(lake, Wish(first_seq=8, last_seq=12)) == [8, 9, 10, 11, 12]
    assert lake.select(Wish(first_seq=8, last_seq=12)) == files[:2]
    assert sequences(lake, Wish(start_ns=29 * 10**9, end_ns=30 * 10**9)) == [29]
    assert sequences(lake, Wish(subjects=("orders.3",))) == [3, 8, 13, 18, 23, 28]
    assert sequences(lake, Wish(subjects=("orders.*",), last_seq=2)) == [1, 2]
    assert lake.select(Wish(subjects=("invoices.>",))) == []


def test_a_file_holds_exactly_what_was_written(tmp_path: Path) -> None:
    batches = [messages(1, 3), messages(4, 4), messages(5, 200)]
    file = write_file(str(tmp_path), batches, job=JOB)
    assert file is not None
    found = pa.Table.from_batches(list(read_file(str(tmp_path / file.path), COLUMNS)))
    assert found.equals(pa.Table.from_batches(batches))


def test_a_reader_skips_row_groups_by_their_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_ROW_GROUP_ROWS", 10)
    file = write_file(str(tmp_path), [messages(1, 10), messages(11, 20), messages(25, 34)], job=JOB)
    assert file is not None
    path = str(tmp_path / file.path)
    read: list[list[int]] = []
    iter_batches = pq.ParquetFile.iter_batches

    def noting(self: pq.ParquetFile, *args: Any, **options: Any) -> Any:
        read.append(options["row_groups"])
        return iter_batches(self, *args, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noting)
    wishes = [Wish(12, 15), Wish(10, 11), Wish(26), Wish(last_seq=3), Wish(subjects=("orders.3",))]
    found = [
        [row for batch in read_file(path, ["seq"], wish) for row in batch.column(0).to_pylist()] for wish in wishes
    ]
    assert found == [[12, 13, 14, 15], [10, 11], list(range(26, 35)), [1, 2, 3], [3, 8, 13, 18, 28, 33]]
    assert read == [[1], [0, 1], [2], [0], [0, 1, 2]]
    assert list(read_file(path, ["seq"], Wish(21, 24))) == []


def test_a_file_knows_the_bounds_of_what_is_looked_for(tmp_path: Path) -> None:
    """Readers skip by sequence, time and subject; bounds of payloads and headers would be of no use to them."""
    file = write_file(str(tmp_path), [messages(1, 200)], job=JOB)
    assert file is not None
    with pq.ParquetFile(tmp_path / file.path) as written_file:
        group = written_file.metadata.row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
    bounded = {
        one.path_in_schema
        for one in columns
        if one.is_stats_set and one.statistics is not None and one.statistics.has_min_max
    }
    assert bounded == {"seq", "ts", "ts_ns", "subject"}


def test_no_messages_no_file(tmp_path: Path) -> None:
    assert write_file(str(tmp_path), [], job=JOB) is None
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield messages(1, 3)
        raise ValueError("connection lost")

    with pytest.raises(ValueError, match="connection lost"):
        write_file(str(tmp_path), broken(), job=JOB)
    assert list(tmp_path.iterdir()) == []


def test_a_table_of_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "precious.csv").write_text("1")
    with pytest.raises(LakeError, match="no table of ours"):
        create_lake(str(tmp_path / "table"), FACTS)
    with pytest.raises(LakeError, match="there is no table"):
        open_lake(str(tmp_path / "table"))
    with pytest.raises(LakeError, match="no format"):
        create_lake(str(tmp_path / "other"), FACTS, "orc")


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_of_two_who_make_a_table_one_is_told(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(tmp_path / "table")
    create_lake(place, FACTS, kind)
    looked = "slipstream.spark.lake.opening._is_free"
    monkeypatch.setattr(looked, lambda _: True)  # it was made just after the other had looked
    with pytest.raises(LakeConflict, match="just now"):
        create_lake(place, FACTS, kind)


@pytest.mark.parametrize("kind", ["delta", "parquet"])
@pytest.mark.parametrize("log", ["_delta_log", "_slipstream"])
def test_a_table_whose_maker_died_is_made_again(tmp_path: Path, kind: str, log: str) -> None:
    place = tmp_path / "table"
    (place / log).mkdir(parents=True)
    (place / log / ".unfinished").write_text("{")
    with pytest.raises(NoLake):
        open_lake(str(place))
    create_lake(str(place), FACTS, kind)
    assert open_lake(str(place)).format == kind


def test_filters_look_at_each_bound() -> None:
    batch = messages(1, 20)
    for first, last in itertools.product((None, 5), (None, 9)):
        found = filtered(batch, Wish(first_seq=first, last_seq=last)).column("seq").to_pylist()
        assert found == list(range(first or 1, (last or 20) + 1))
