"""Erased messages are nowhere: not in the stream, not in a file, a snapshot or a manifest of the table."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException

from slipstream.bulk import BulkClient, ConnectOptions
from slipstream.lake.erasing import erase
from slipstream.lake.iceberg_table import IcebergStreamTable
from slipstream.lake.opening import TablePlan
from slipstream.lake.writing import StreamWriter, WriteSettings
from slipstream.spark.lake import LakeError, Wish
from slipstream.testing import ServerThread
from support.cli import Cli
from support.spark_streams import Streams

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
SECRET = "of-anna"


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streams]:
    with ServerThread(store_dir=str(tmp_path_factory.mktemp("erasing"))) as server:
        yield Streams(server.url)


def publish(streams: Streams, name: str, count: int = 30) -> None:
    who = ("ben", SECRET, "cleo")
    streams.publish(
        (f"{name}.{who[number % 3]}.x", b"%d %b" % (number, who[number % 3].encode())) for number in range(count)
    )


def turn(client: BulkClient, plan: TablePlan, name: str) -> None:
    writer = StreamWriter(name, plan.opener(), WriteSettings(file_bytes=800, compact_files=0))
    writer.turn(client)
    writer.release(client)


def check_clean(directory: Path, plan: TablePlan, name: str) -> None:
    """Look at every byte and every row below a directory."""
    for path in directory.rglob("*"):
        if path.suffix == ".parquet":
            assert not [row for row in pq.read_table(path).to_pylist() if SECRET in str(row)], path
        elif path.is_file() and "_erasures" not in path.parts and "metadata.json" not in path.name:
            assert SECRET.encode() not in path.read_bytes(), path
    if plan.format == "iceberg":
        table: Any = plan.opener()(name, None)
        for snapshot in table._table.snapshots():
            for manifest in snapshot.manifests(table._table.io):
                for entry in manifest.fetch_manifest_entry(table._table.io, discard_deleted=False):
                    bounds = [
                        *(entry.data_file.lower_bounds or {}).values(),
                        *(entry.data_file.upper_bounds or {}).values(),
                    ]
                    assert not [one for one in bounds if SECRET.encode() in one]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_erased_messages_are_nowhere(streams: Streams, client: BulkClient, tmp_path: Path, kind: str) -> None:
    name, lake = f"E{kind}", tmp_path / "lake"
    streams.create(name)
    plan = TablePlan(str(lake), kind)
    publish(streams, name)
    turn(client, plan, name)
    plan.opener()(name, None).compact(64 << 20, 2)
    publish(streams, name)
    turn(client, plan, name)
    publish(streams, name, 6)  # not written yet
    done = erase(
        plan.opener()(name, None),
        [f"{name}.{SECRET}.>"],
        stream=name,
        reach=ConnectOptions(streams.url),
        reason="asked",
        record=str(tmp_path / "records"),
    )
    assert (done["stream_messages"], done["table_messages"]) == (22, 20)
    assert json.loads(Path(done["record"]).read_text())["reason"] == "asked"
    check_clean(lake, plan, name)
    turn(client, plan, name)
    rows = [row for batch in plan.opener()(name, None).read(Wish(), None) for row in batch.to_pylist()]
    kept = streams.rows(name, "seq", "payload")
    assert [{key: row[key] for key in ("seq", "payload")} for row in rows] == kept and len(kept) == 44
    check_clean(lake, plan, name)
    table = plan.opener()(name, None)
    again = erase(table, [f"{name}.{SECRET}.>"], stream=name, reach=None, record=str(tmp_path / "records"))
    assert (again["stream_messages"], again["table_messages"]) == (0, 0)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_front_that_was_erased_is_no_gap(streams: Streams, client: BulkClient, tmp_path: Path, kind: str) -> None:
    """What follows the table was erased before it was written: the writer goes on. Other removals stop it."""
    name = f"F{kind}"
    streams.create(name)
    plan = TablePlan(str(tmp_path / "lake"), kind)
    streams.publish([(f"{name}.ben.x", b"1"), (f"{name}.ben.x", b"2")])
    turn(client, plan, name)
    streams.purge(name)
    streams.publish([(f"{name}.{SECRET}.x", b"3"), (f"{name}.{SECRET}.y", b"4"), (f"{name}.ben.x", b"5")])
    for last in "yx":  # two erasures explain a gap together
        table = plan.opener()(name, None)
        record = str(tmp_path / "records")
        done = erase(table, [f"{name}.{SECRET}.{last}"], stream=name, reach=client.options, record=record)
        assert done["stream_messages"] == 1
    assert streams.state(name)["first_seq"] == 5
    assert plan.opener()(name, None).is_explained(3, 4)
    turn(client, plan, name)
    rows = [row for batch in plan.opener()(name, None).read(Wish(), None) for row in batch.to_pylist()]
    assert [row["seq"] for row in rows] == [1, 2, 5]
    streams.publish([(f"{name}.ben.x", b"6"), (f"{name}.{SECRET}.x", b"7"), (f"{name}.ben.x", b"8")])
    streams.purge(name, seq=7)  # not an erasure
    erase(plan.opener()(name, None), [f"{name}.{SECRET}.x"], stream=name, reach=client.options, record=record)
    streams.purge(name, seq=8)
    with pytest.raises(LakeError, match=r"messages 6 to 7 .* were removed before they were written"):
        turn(client, plan, name)


def test_a_note_of_an_erasure_is_as_short_as_can_be(
    streams: Streams, client: BulkClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "NOTE"
    streams.create(name)
    streams.fill(name, 5)
    plan = TablePlan(str(tmp_path / "lake"), "iceberg")
    turn(client, plan, name)
    table: Any = plan.opener()(name, None)

    def noted() -> list[list[int]]:
        known: Any = plan.opener()(name, None)
        notes = [text for one, text in known._table.properties.items() if one.startswith("slipstream.erased.")]
        return sorted(one for text in notes for one in json.loads(text))

    table.note_erased([[1, 3], [5, 7], [9, 9], [20, 30]])
    assert noted() == [[6, 7], [9, 9], [20, 30]]  # what is written needs none
    table.note_erased([[8, 8], [10, 11], [12, 12]])
    assert noted() == [[6, 7], [8, 8], [9, 9], [10, 12], [20, 30]]
    assert table.is_explained(6, 12) and not table.is_explained(6, 13) and not table.is_explained(5, 9)

    other: Any = plan.opener()(name, None)
    usual, calls = table._table.transaction, []

    def disturbed() -> Any:
        calls.append(1)
        if len(calls) == 1:
            other.note_erased([[13, 13]])
        return usual()

    with monkeypatch.context() as patch:
        patch.setattr(table._table, "transaction", disturbed)
        table.note_erased([[14, 14]])
    assert plan.opener()(name, None).is_explained(6, 14)  # neither note is lost

    streams.fill(name, 20, 5)
    turn(client, plan, name)
    monkeypatch.setattr("slipstream.lake.iceberg_table._ERASED_RANGES", 2)
    table.note_erased([[50, 50], [60, 60], [70, 70]])
    assert noted() == [[6, 7], [9, 9], [20, 30], [50, 50], [60, 60]]  # the rest was written, or is too much


def test_a_writer_that_read_before_brings_nothing_back(streams: Streams, client: BulkClient, tmp_path: Path) -> None:
    name = "LATE"
    streams.create(name)
    publish(streams, name)
    plan = TablePlan(str(tmp_path / "lake"), "iceberg")
    identity = client.bulk_info(name)["identity"]
    slow = plan.opener()(name, identity)
    assert slow.position() == 0
    from slipstream.spark.lake.files import COLUMNS

    read = list(client.read(name, 1, 30, columns=COLUMNS))
    turn(client, plan, name)
    erase(plan.opener()(name, None), [f"*.{SECRET}.x"], stream=name, reach=client.options, record=str(tmp_path / "r"))
    assert slow.append(iter(read), 0, 30) is None
    check_clean(tmp_path / "lake", plan, name)


def test_a_writer_in_between_is_looked_at(
    streams: Streams, client: BulkClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "BETWEEN"
    streams.create(name)
    publish(streams, name, 9)
    plan = TablePlan(str(tmp_path / "lake"), "iceberg")
    turn(client, plan, name)
    table: Any = plan.opener()(name, None)
    usual, calls = table._table.delete, []

    def disturbed(*args: Any, **options: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            publish(streams, name, 9)
            turn(client, plan, name)
        usual(*args, **options)

    monkeypatch.setattr(table._table, "delete", disturbed)
    assert table.erase([f"{name}.{SECRET}.x"]) == 6 and len(calls) == 2
    check_clean(tmp_path / "lake", plan, name)

    def never(*_: Any, **__: Any) -> None:
        raise CommitFailedException("always somebody else")

    monkeypatch.setattr(table._table, "append", never)
    with pytest.raises(LakeError, match="changed all the time"):
        table.erase(["x"])


def test_files_of_dead_writers_go(streams: Streams, client: BulkClient, tmp_path: Path) -> None:
    name = "ORPHANS"
    streams.create(name)
    publish(streams, name, 6)
    plan = TablePlan(str(tmp_path / "lake"), "iceberg")
    turn(client, plan, name)
    table: Any = plan.opener()(name, None)
    assert isinstance(table, IcebergStreamTable)
    data = Path(table._table.location().removeprefix("file://")) / "data"
    old, new = data / "old.parquet", data / "new.parquet"
    for path in (old, new):
        pq.write_table(pq.read_table(next(data.glob("*.parquet"))), path)
    before = time.time() - 7200
    for path in data.glob("*.parquet"):
        if path != new:
            os.utime(path, (before, before))
    assert table.expire(3600.0) == 1
    assert (old.exists(), new.exists()) == (False, True)
    assert len([row for batch in table.read(Wish(), None) for row in batch.to_pylist()]) == 6


def test_by_the_command_line(streams: Streams, client: BulkClient, tmp_path: Path) -> None:
    cli = Cli(tmp_path, streams.url)
    for kind in ("delta", "iceberg"):
        name, lake = f"C{kind}", str(tmp_path / kind)
        streams.create(name)
        publish(streams, name, 6)
        turn(client, TablePlan(lake, kind), name)
        command = (
            "lake",
            "erase",
            lake,
            name,
            f"{name}.{SECRET}.*",
            "--format",
            kind,
            "--force",
            "--record",
            str(tmp_path / "records"),
        )
        assert "Messages of the table: 2" in cli.call(*command).stdout
        done = cli.json(*command, "--table-only", "--json")
        assert (done["stream_messages"], done["table_messages"]) == (0, 0)
        check_clean(Path(lake), TablePlan(lake, kind), name)
