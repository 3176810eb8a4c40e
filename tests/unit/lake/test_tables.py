"""Streams as Delta and Iceberg tables: written once, read back by others, and back into a stream."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from slipstream.bulk import BulkClient, ConnectOptions
from slipstream.lake import writing
from slipstream.lake.delta_table import open_delta
from slipstream.lake.erasing import erase
from slipstream.lake.iceberg_table import IcebergCatalogue, IcebergStreamTable
from slipstream.lake.replaying import replay
from slipstream.lake.service import LakeService, metrics_text
from slipstream.lake.tables import LakeTable
from slipstream.lake.writing import StreamWriter, WriteSettings
from slipstream.spark.lake import LakeError, Wish, open_lake
from slipstream.testing import ServerThread
from support.spark_streams import Streams

KINDS = ("delta", "iceberg")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streams]:
    with ServerThread(store_dir=str(tmp_path_factory.mktemp("lake"))) as server:
        yield Streams(server.url)


class Place:
    """Tables of one format in one directory."""

    def __init__(self, kind: str, directory: Path, partition: tuple[str, ...] = ()) -> None:
        self.kind, self.directory, self._partition = kind, directory, partition

    def open(self, stream: str, identity: str | None) -> LakeTable:
        if self.kind == "delta":
            return open_delta(str(self.directory), stream, identity)
        return IcebergCatalogue(str(self.directory), {}, "streams", self._partition).open(stream, identity)

    def rows(self, stream: str) -> list[dict[str, Any]]:
        """Through another library than the one that wrote them."""
        if self.kind == "delta":
            files = DeltaTable(str(self.directory / stream)).file_uris()
        else:
            table = IcebergCatalogue(str(self.directory), {}, "streams")._catalogue.load_table(("streams", stream))
            files = [row["file_path"].removeprefix("file://") for row in table.inspect.files().to_pylist()]
        if not files:
            return []
        with duckdb.connect() as engine:
            found: pa.Table = engine.read_parquet(files, hive_partitioning=False).order("seq").to_arrow_table()
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def sequences(self, stream: str) -> list[int]:
        return [row["seq"] for row in self.rows(stream)]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path / "lake")


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"S{abs(hash(request.node.nodeid)):x}"


def written(client: BulkClient, place: Place, name: str, **settings: Any) -> int:
    writer = StreamWriter(name, place.open, WriteSettings(**settings))
    try:
        return writer.turn(client).written
    finally:
        writer.release(client)


def test_a_stream_becomes_a_table(streams: Streams, client: BulkClient, place: Place, name: str) -> None:
    streams.create(name)
    streams.fill(name, 50)
    streams.publish([(f"{name}.x", b"\xff\x00")], b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n")
    assert written(client, place, name) == 51
    assert written(client, place, name) == 0
    streams.fill(name, 10)
    assert written(client, place, name) == 10
    columns = ("stream", "seq", "ts", "ts_ns", "subject", "headers", "hdr_raw", "payload")
    found = [{key: row[key] for key in columns} for row in place.rows(name)]
    for row in found:
        row["headers"] = row["headers"] and [(key, list(values)) for key, values in row["headers"]]
    assert found == streams.rows(name, *columns)


def test_files_are_cut_by_bytes_and_put_together(streams: Streams, client: BulkClient, place: Place, name: str) -> None:
    streams.create(name)
    streams.fill(name, 100)
    writer = StreamWriter(name, place.open, WriteSettings(file_bytes=1000, compact_files=0))
    found = writer.turn(client)
    assert found.written == 100 and found.commits > 3
    before = place.rows(name)
    table = place.open(name, None)
    assert table.compact(64 << 20, files=3) == found.commits
    assert place.rows(name) == before
    assert place.open(name, None).position() == 100
    assert table.compact(64 << 20, files=3) == 0
    streams.fill(name, 5)
    assert written(client, place, name) == 5
    assert place.sequences(name) == list(range(1, 106))


def test_old_versions_are_read_until_they_expire(streams: Streams, client: BulkClient, place: Place, name: str) -> None:
    streams.create(name)
    streams.fill(name, 10)
    written(client, place, name, compact_files=0)
    old = version_of(place, name)
    streams.fill(name, 10)
    written(client, place, name, compact_files=0)
    table = place.open(name, None)
    assert [row["seq"] for batch in table.read(Wish(), old) for row in batch.to_pylist()] == list(range(1, 11))
    assert table.compact(64 << 20, files=2) == 2
    assert place.open(name, None).expire(3600.0) == 0
    assert place.open(name, None).expire(0.0) >= 2
    table = place.open(name, None)
    assert place.sequences(name) == list(range(1, 21))
    assert table.position() == 20
    with pytest.raises(LakeError):
        list(table.read(Wish(), old))


def version_of(place: Place, name: str) -> int:
    if place.kind == "delta":
        return int(DeltaTable(str(place.directory / name)).version())
    table = IcebergCatalogue(str(place.directory), {}, "streams")._catalogue.load_table(("streams", name))
    return int(table.metadata.current_snapshot_id)


def test_two_writers_write_each_message_once(streams: Streams, client: BulkClient, place: Place, name: str) -> None:
    streams.create(name)
    streams.fill(name, 30)
    first = place.open(name, client.bulk_info(name)["identity"])
    second = place.open(name, None)
    assert first.position() == second.position() == 0

    def rows(begin: int, end: int) -> Iterator[pa.RecordBatch]:
        from slipstream.spark.lake.files import COLUMNS

        return iter(client.read(name, begin, end, columns=COLUMNS))

    assert first.append(rows(1, 20), 0, 20) == 20
    assert second.append(rows(1, 30), 0, 30) is None
    assert second.position() == 20
    assert second.append(rows(21, 30), 20, 30) == 10
    assert place.sequences(name) == list(range(1, 31))


def test_gaps_and_removed_messages(streams: Streams, client: BulkClient, place: Place, name: str) -> None:
    streams.create(name)
    streams.fill(name, 20)
    streams.api(f"STREAM.MSG.DELETE.{name}", {"seq": 7})
    written(client, place, name)
    streams.purge(name, seq=11)  # what is written stays
    streams.fill(name, 10)
    streams.purge(name, seq=26)  # 21 to 25 were never written
    with pytest.raises(LakeError, match=r"messages 21 to 25 of .* were removed before they were written"):
        written(client, place, name)
    assert written(client, place, name, accept_gap=True) == 5
    assert place.sequences(name) == [seq for seq in range(1, 31) if seq != 7 and not 21 <= seq <= 25]


def test_a_bucket_replaces_values_and_that_is_no_loss(
    streams: Streams, client: BulkClient, place: Place, name: str
) -> None:
    streams.create(name, max_msgs_per_subject=1)
    streams.fill(name, 20)
    written(client, place, name)
    streams.fill(name, 100)
    assert written(client, place, name) == 10
    assert place.sequences(name) == [*range(11, 21), *range(111, 121)]
    writer = StreamWriter(name, place.open, WriteSettings())
    writer.turn(client)
    streams.fill(name, 15)
    assert writer.turn(client).written == 15  # while it runs, it sees values that were replaced since
    writer.release(client)


def test_a_stream_that_is_made_anew_is_another_one(
    streams: Streams, client: BulkClient, place: Place, name: str
) -> None:
    streams.create(name)
    streams.fill(name, 5)
    writer = StreamWriter(name, place.open, WriteSettings())
    writer.turn(client)
    streams.delete(name)
    streams.create(name)
    streams.fill(name, 9)
    with pytest.raises(LakeError, match="deleted and made anew"):
        writer.turn(client)
    assert place.sequences(name) == list(range(1, 6))


def test_a_table_back_into_a_stream_is_equal_to_the_byte(
    streams: Streams, client: BulkClient, place: Place, name: str
) -> None:
    streams.create(name)
    streams.fill(name, 40)
    odd = b"NATS/1.0\r\nNats-Msg-Id: 1\r\nA:  two  \r\na:x\r\n\r\n"
    streams.publish([(f"{name}.odd", b"\x00\xff"), (f"{name}.empty", b"")], odd.replace(b"Id: 1", b"Id: 7"))
    streams.publish([(f"{name}.odd", b"second")], odd)
    written(client, place, name)
    columns = ("subject", "hdr_raw", "payload")
    before = streams.rows(name, *columns)
    times = [row["ts_ns"] for row in streams.rows(name, "ts_ns")]
    copy, marked = f"{name}C", f"{name}M"
    streams.delete(name)
    for target in (copy, marked):
        streams.create(target, subjects=[f"{name}.>"] if target == copy else [f"{marked}"], duplicate_window=10**9 * 60)
    table = place.open(name, None)
    done = replay(client, table, copy, Wish())
    assert (done.messages, done.left_out) == (len(before), 0)
    assert streams.rows(copy, *columns) == before
    again = replay(client, place.open(name, None), copy, Wish())
    assert (again.messages, again.before) == (0, len(times))
    assert streams.rows(copy, *columns) == before
    some = replay(client, table, copy, Wish(3, 20, None, None, (f"{name}.4",)), mark=True)
    assert some.messages == 2
    last = streams.rows(copy, "headers", "subject")[-1]
    marks = dict(last["headers"])
    assert last["subject"] == f"{name}.4"
    assert (marks["Nats-Orig-Stream"], marks["Nats-Orig-Sequence"]) == ([name], ["15"])
    assert marks["Nats-Orig-Time-Stamp"][0].endswith(f".{times[14] % 10**9:09d}Z")


def test_a_service_takes_in_what_comes(streams: Streams, place: Place, name: str) -> None:
    reach = ConnectOptions(streams.url)
    streams.create(f"{name}A")
    streams.fill(f"{name}A", 5)
    with LakeService(reach, place.open, [f"{name}*"], WriteSettings()) as service:
        assert service.turn().written == 5
        streams.create(f"{name}B")
        streams.fill(f"{name}B", 7)
        report = service.turn()
        assert [(one.stream, one.written, one.lag) for one in report.streams] == [
            (f"{name}A", 0, 0),
            (f"{name}B", 7, 0),
        ]
        assert f'slipstream_lake_lag_messages{{stream="{name}B"}} 0' in metrics_text(report, 1.5)
        streams.delete(f"{name}A")
        streams.create(f"{name}A")
        streams.fill(f"{name}B", 1)
        report = service.turn()
        assert report.written == 1 and list(report.failures) == [f"{name}A"]


def test_a_delta_table_is_an_archive(streams: Streams, client: BulkClient, tmp_path: Path, name: str) -> None:
    place = Place("delta", tmp_path)
    streams.create(name)
    streams.fill(name, 20)
    written(client, place, name)
    lake = open_lake(str(tmp_path / name))
    assert lake.facts.archived_upto == 20
    lake.check_content()


def test_files_of_dead_writers_are_swept(streams: Streams, client: BulkClient, tmp_path: Path, name: str) -> None:
    place = Place("delta", tmp_path)
    streams.create(name)
    streams.fill(name, 20)
    written(client, place, name)
    table = place.open(name, None)
    left = [tmp_path / name / f"part-{job * 16}-{'0' * 32}.parquet" for job in "ab"]
    leases = [tmp_path / name / "_work" / (job * 16) for job in "ab"]
    for path in (*left, *leases):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    long_ago = time.time() - 7200
    for path in (*left, leases[0]):
        os.utime(path, (long_ago, long_ago))
    before = version_of(place, name)
    assert table.expire(3600.0) == 1
    assert [path.exists() for path in left] == [False, True]  # the second writer still renews its lease
    assert version_of(place, name) == before + 1  # nobody builds on the version before
    assert place.sequences(name) == list(range(1, 21))
    assert table.position() == 20


@pytest.mark.parametrize("partition", [("day",), ("hour",), ("subject",), ("day", "subject")])
def test_partitions_of_iceberg(
    streams: Streams, client: BulkClient, tmp_path: Path, name: str, partition: tuple[str, ...]
) -> None:
    place = Place("iceberg", tmp_path, partition)
    streams.create(name)
    streams.fill(name, 30)
    written(client, place, name)
    streams.fill(name, 30)
    written(client, place, name, compact_files=0)
    table = place.open(name, None)
    fields = [field.name for field in table._table.spec().fields]  # type: ignore[attr-defined]
    assert len(fields) == len(partition)
    assert [row["seq"] for batch in table.read(Wish(), None) for row in batch.to_pylist()] == list(range(1, 61))
    assert table.compact(64 << 20, files=2) >= 2
    assert place.sequences(name) == list(range(1, 61))
    assert table.position() == 60


def test_secrets_are_not_taken_as_properties(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="PYICEBERG_CATALOG__SLIPSTREAM__S3__SECRET_ACCESS_KEY"):
        IcebergCatalogue(str(tmp_path), {"s3.secret-access-key": "x"}, "streams")
    with pytest.raises(LakeError, match="name the catalogue"):
        IcebergCatalogue("s3://bucket/lake", {}, "streams")
    with pytest.raises(LakeError, match="abfss://CONTAINER@ACCOUNT"):
        IcebergCatalogue("az://container/lake", {"uri": f"sqlite:///{tmp_path}/catalog.db"}, "streams")


def test_places_in_azure_as_others_name_them() -> None:
    from slipstream.lake.recorded_io import RecordedFileIO

    named = "abfss://tables@account.dfs.core.windows.net/a/b@c"
    assert RecordedFileIO.parse_location(named)[2] == "tables/a/b@c"
    assert RecordedFileIO.parse_location("abfss://tables/a/b")[2] == "tables/a/b"
    assert RecordedFileIO.parse_location("s3://bucket/a@b/c")[2] == "bucket/a@b/c"


class Killed(BaseException):
    """A writer ends here."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before the files", "before the commit", "after the commit"])
def test_a_writer_that_dies_anywhere_loses_and_doubles_nothing(
    streams: Streams,
    client: BulkClient,
    tmp_path: Path,
    name: str,
    kind: str,
    when: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    from slipstream.lake import delta_table
    from slipstream.spark.lake.delta import DeltaLake

    place = Place(kind, tmp_path)
    streams.create(name)
    streams.fill(name, 60)
    target, method = (DeltaLake, "commit") if kind == "delta" else (SqlCatalog, "commit_table")
    usual = getattr(target, method)
    calls = 0

    def dies(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2 and when == "before the commit":
            raise Killed
        done = usual(*args, **options)
        if calls == 2 and when == "after the commit":
            raise Killed
        return done

    with monkeypatch.context() as patch:
        if when != "before the files":
            patch.setattr(target, method, dies)
        elif kind == "delta":
            patch.setattr(delta_table, "write_file", _kill)
        else:
            patch.setattr(IcebergStreamTable, "_summary", _kill)
        with pytest.raises(Killed):
            written(client, place, name, file_bytes=1500, compact_files=0)
    written(client, place, name, file_bytes=1500)
    assert place.sequences(name) == list(range(1, 61))


def _kill(*_: Any, **__: Any) -> None:
    raise Killed


def test_versions_that_were_not_finished_go(streams: Streams, client: BulkClient, tmp_path: Path, name: str) -> None:
    place = Place("delta", tmp_path)
    streams.create(name)
    streams.fill(name, 20)
    written(client, place, name)
    log = tmp_path / name / "_delta_log"
    old, new = log / "00000000000000000002.json#1", log / "00000000000000000002.json#2"
    for path in (old, new):
        path.write_text("half a version that names subjects")
    os.utime(old, (1, 1))
    assert place.open(name, None).expire(3600.0) == 1
    assert (old.exists(), new.exists()) == (False, True)
    os.utime(new, (1, 1))
    erase(place.open(name, None), [f"{name}.3"], stream=name, reach=None)
    assert not [path for path in log.iterdir() if "#" in path.name]
    assert len(place.sequences(name)) == 18


def test_writers_that_die_again_and_again_leave_room(
    streams: Streams, client: BulkClient, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams.create(name)
    streams.fill(name, 5)

    def holds(place: Place) -> list[str]:
        """A writer begins and dies; who holds messages then."""
        StreamWriter(name, place.open, WriteSettings()).turn(client)
        return [one["by"] for one in client.bulk_info(name)["holds"]]

    first, other = Place("iceberg", tmp_path / "a"), Place("iceberg", tmp_path / "b")
    assert len(holds(first)) == 1
    assert len(holds(first)) == 2  # the other one may be alive
    monkeypatch.setattr(writing, "_RENEWED_SECONDS", 0.0)
    assert len(holds(first)) == len(holds(first)) == 2
    assert len(set(holds(other))) == 2  # another table of the same name needs its own
    monkeypatch.setattr(writing, "_RENEWED_SECONDS", 20.0)
    assert len(holds(other)) == 4
