"""Jobs that share a table, die on the way, or find it damaged: nothing is lost, and nothing comes back.

What happens at the same time is put there: the functions through which a job gives work to Spark do something more.
"""

from __future__ import annotations

import importlib
import json
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from slipstream.bulk import BulkClient
from slipstream.spark import jobs, table
from slipstream.spark.lake import LakeError, open_lake
from slipstream.spark.lake.work import LEASE_SECONDS
from slipstream.spark.runtime.target import Reach
from support.server_process import ServerProcess
from support.spark_streams import Streams

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

FORMATS = pytest.mark.parametrize("kind", ["delta", "parquet"])


class Meanwhile:
    """Does something once, before or after the tasks of a job."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def after_tasks(self, job: str, act: Callable[[], object], number: int = 1) -> None:
        module = importlib.import_module(f"slipstream.spark.jobs.{job}")
        run, calls = module.run_tasks, iter(range(1, 1000))

        def run_tasks(*args: Any) -> list[dict[str, Any]]:
            results: list[dict[str, Any]] = run(*args)
            if next(calls) == number:
                act()
            return results

        self._patch.setattr(module, "run_tasks", run_tasks)

    def one_task_a_commit(self, job: str) -> None:
        module = importlib.import_module(f"slipstream.spark.jobs.{job}")
        self._patch.setattr(module, "waves", lambda _, items: [[item] for item in items])


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return Meanwhile(monkeypatch)


def die() -> None:
    raise RuntimeError("killed")


def payloads(spark: SparkSession, location: str) -> list[bytes]:
    """What a reader of the table sees."""
    found = open_lake(location)
    paths = [found.path_of(file) for file in found.files()]
    if not paths:
        return []
    return [bytes(row.payload) for row in spark.read.parquet(*paths).orderBy("seq").select("payload").collect()]


def bytes_below(directory: str, secret: bytes) -> list[str]:
    return [path.name for path in Path(directory).rglob("*") if path.is_file() and secret in path.read_bytes()]


@FORMATS
def test_vacuum_leaves_the_files_of_an_archive_in_flight(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, kind: str, meanwhile: Meanwhile
) -> None:
    streams.create(name)
    expected = streams.fill(name, 60)
    jobs.archive(spark, name, lake, reach=reach, format=kind, upto=20)

    def others() -> None:
        assert jobs.erase(spark, ["nobody.here"], location=lake)["files_in_flight"] == 1
        assert jobs.compact(spark, lake, vacuum=True)["files_in_flight"] == 1

    meanwhile.after_tasks("archive", others)
    report = jobs.archive(spark, name, lake, reach=reach, drop=True)
    assert (report["archived_upto"], report["dropped"]) == (60, 60)
    assert payloads(spark, lake) == expected
    assert len(list(Path(lake).glob("*.parquet"))) == 2  # what was read before the erasure is not left behind


@FORMATS
def test_an_archive_in_flight_does_not_bring_back_what_is_erased(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, kind: str, meanwhile: Meanwhile
) -> None:
    secret = b"a secret that nobody may ever read again"
    streams.create(name)
    jobs.archive(spark, name, lake, reach=reach, format=kind)  # empty, so that an erasure finds a table
    expected = streams.fill(name, 20)
    streams.publish([(f"{name}.customer.7", secret)] * 2)

    def erase() -> None:
        found = jobs.erase(spark, [f"{name}.customer.7"], stream=name, location=lake, reach=reach)
        assert (found["stream_messages"], found["archive_messages"]) == (2, 0)

    meanwhile.after_tasks("archive", erase)
    report = jobs.archive(spark, name, lake, reach=reach, codec="none")
    assert (report["messages"], report["archived_upto"]) == (20, 22)
    assert payloads(spark, lake) == expected
    assert bytes_below(lake, secret) == []


@FORMATS
def test_an_erasure_finds_what_is_archived_meanwhile(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, kind: str, meanwhile: Meanwhile
) -> None:
    streams.create(name)
    streams.fill(name, 20)
    jobs.archive(spark, name, lake, reach=reach, format=kind, upto=10)
    meanwhile.after_tasks("erase", lambda: jobs.archive(spark, name, lake, reach=reach))
    report = jobs.erase(spark, [f"{name}.3"], location=lake)
    assert (report["archive_messages"], report["archive_files"]) == (2, 2)
    assert payloads(spark, lake) == [b"%06d" % number for number in range(20) if number % 10 != 3]
    assert open_lake(lake).facts.erased == 2


def test_compact_goes_with_an_archive_but_not_with_an_erasure(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, meanwhile: Meanwhile
) -> None:
    streams.create(name)
    expected = streams.fill(name, 30)
    for upto in (10, 20):
        jobs.archive(spark, name, lake, reach=reach, upto=upto)
    meanwhile.after_tasks("compact", lambda: jobs.archive(spark, name, lake, reach=reach))
    jobs.compact(spark, lake)
    assert [file.rows for file in open_lake(lake).files()] == [20, 10]
    assert payloads(spark, lake) == expected
    meanwhile.after_tasks("compact", lambda: jobs.erase(spark, [f"{name}.3"], location=lake))
    with pytest.raises(LakeError, match="meanwhile"):
        jobs.compact(spark, lake)
    assert payloads(spark, lake) == [one for number, one in enumerate(expected) if number % 10 != 3]
    assert len(list(Path(lake).glob("*.parquet"))) == 2


def test_two_archives_of_one_stream_archive_each_message_once(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, meanwhile: Meanwhile
) -> None:
    streams.create(name)
    expected = streams.fill(name, 30)
    jobs.archive(spark, name, lake, reach=reach, upto=10)
    meanwhile.after_tasks("archive", lambda: jobs.archive(spark, name, lake, reach=reach, upto=20, drop=True))
    report = jobs.archive(spark, name, lake, reach=reach, drop=True)
    assert (report["messages"], report["archived_upto"], report["dropped"]) == (10, 30, 10)
    assert payloads(spark, lake) == expected


@FORMATS
@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_nothing_is_dropped_unless_the_table_is_whole(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, kind: str, damage: str
) -> None:
    streams.create(name)
    streams.fill(name, 20)

    def say(text: str) -> None:
        if text.startswith("archived up to"):
            (path,) = Path(lake).glob("*.parquet")
            if damage == "gone":
                path.unlink()
            else:
                os.truncate(path, path.stat().st_size - 1)

    with pytest.raises(LakeError, match=r"is gone|bytes instead of"):
        jobs.archive(spark, name, lake, reach=reach, format=kind, drop=True, say=say)
    assert streams.state(name)["messages"] == 20


@FORMATS
def test_an_archive_that_dies_between_commits_is_continued(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, kind: str, meanwhile: Meanwhile
) -> None:
    streams.create(name)
    expected = streams.fill(name, 400)
    meanwhile.one_task_a_commit("archive")
    meanwhile.after_tasks("archive", die, number=2)
    with pytest.raises(RuntimeError, match="killed"):
        jobs.archive(spark, name, lake, reach=reach, format=kind, target_bytes=4096)
    assert 0 < open_lake(lake).facts.archived_upto < 400
    report = jobs.archive(spark, name, lake, reach=reach, target_bytes=4096, drop=True)
    assert report["archived_upto"] == 400 and streams.state(name)["messages"] == 0
    assert payloads(spark, lake) == expected


def test_what_a_dead_driver_left_goes_with_the_next_vacuum(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, meanwhile: Meanwhile, tmp_path: Path
) -> None:
    streams.create(name)
    streams.fill(name, 20)
    jobs.archive(spark, name, lake, reach=reach, upto=10)
    left = tmp_path / "left"

    def killed() -> None:
        """A driver that is killed cleans nothing up: keep its files aside."""
        for path in [*Path(lake).glob("*.parquet"), *Path(lake, "_work").iterdir()]:
            copy = left / path.relative_to(lake)
            copy.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, copy)
        die()

    meanwhile.after_tasks("archive", killed)
    with pytest.raises(RuntimeError, match="killed"):
        jobs.archive(spark, name, lake, reach=reach)
    named = {path.name for path in Path(lake).glob("*.parquet")}
    for path in left.rglob("*"):
        if path.is_file() and path.name not in named:
            os.link(path, Path(lake) / path.relative_to(left))
    (lease,) = Path(lake, "_work").iterdir()
    assert jobs.compact(spark, lake, vacuum=True)["files_in_flight"] == 1
    moment = time.time() - LEASE_SECONDS - 1
    os.utime(lease, (moment, moment))
    assert jobs.compact(spark, lake, vacuum=True)["files_removed"] == 1
    assert {path.name for path in Path(lake).glob("*.parquet")} == named


def test_an_archive_that_dies_before_it_drops_drops_the_next_time(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams.create(name)
    expected = streams.fill(name, 20)
    with monkeypatch.context() as patch:
        patch.setattr(importlib.import_module("slipstream.spark.jobs.archive"), "_drop", lambda *_: die())
        with pytest.raises(RuntimeError, match="killed"):
            jobs.archive(spark, name, lake, reach=reach, drop=True)
    assert streams.state(name)["messages"] == 20
    report = jobs.archive(spark, name, lake, reach=reach, drop=True)
    assert (report["messages"], report["dropped"]) == (0, 20)
    assert payloads(spark, lake) == expected


def test_the_server_is_killed_while_a_stream_is_archived(
    spark: SparkSession, own_node: ServerProcess, name: str, lake: str, meanwhile: Meanwhile
) -> None:
    streams = Streams(own_node.url)
    streams.create(name)
    expected = streams.fill(name, 400)

    def kill() -> None:
        own_node.kill()
        own_node.start()

    meanwhile.one_task_a_commit("archive")
    meanwhile.after_tasks("archive", kill)
    reach = Reach(servers=own_node.url)
    report = jobs.archive(spark, name, lake, reach=reach, target_bytes=4096, drop=True)
    assert (report["archived_upto"], report["dropped"]) == (400, 400)
    assert payloads(spark, lake) == expected


def test_a_compaction_that_dies_changes_nothing(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, meanwhile: Meanwhile
) -> None:
    streams.create(name)
    expected = streams.fill(name, 20)
    for upto in (10, 20):
        jobs.archive(spark, name, lake, reach=reach, upto=upto)
    meanwhile.after_tasks("compact", die)
    with pytest.raises(RuntimeError, match="killed"):
        jobs.compact(spark, lake, vacuum=True)
    assert payloads(spark, lake) == expected
    assert jobs.compact(spark, lake, vacuum=True)["files_after"] == 1
    assert payloads(spark, lake) == expected


def test_a_bucket_that_dies_on_its_way_into_a_table_leaves_the_old_one(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams.create(f"KV_{name}", subjects=[f"$KV.{name}.>"], max_msgs_per_subject=1)
    streams.publish([(f"$KV.{name}.key", b"old")])
    place = tmp_path / "table"
    jobs.materialize(spark, name, str(place), reach=reach)
    streams.publish([(f"$KV.{name}.key", b"new")])
    with monkeypatch.context() as patch:
        patch.setattr("deltalake.write_deltalake", lambda *_, **__: die())
        with pytest.raises(RuntimeError, match="killed"):
            jobs.materialize(spark, name, str(place), reach=reach)
    assert [path.name for path in tmp_path.iterdir()] == ["table"]
    for expected in (b"old", b"new"):
        assert [row["value"] for row in DeltaTable(place).to_pyarrow_table().to_pylist()] == [expected]
        jobs.materialize(spark, name, str(place), reach=reach)


@FORMATS
def test_an_erasure_that_dies_is_finished_by_the_same_call(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, kind: str, meanwhile: Meanwhile
) -> None:
    secret = b"a secret that nobody may ever read again"
    streams.create(name)
    expected = streams.fill(name, 20)
    streams.publish([(f"{name}.customer.7", secret)] * 2)
    jobs.archive(spark, name, lake, reach=reach, format=kind, codec="none")
    meanwhile.after_tasks("erase", die)
    wish = [f"{name}.customer.7"]
    with pytest.raises(RuntimeError, match="killed"):
        jobs.erase(spark, wish, stream=name, location=lake, reach=reach)
    (intent,) = Path(lake, "_erasures").glob("*.intent.json")
    report = jobs.erase(spark, wish, stream=name, location=lake, reach=reach)
    assert (report["archive_messages"], intent.exists()) == (2, False)
    assert payloads(spark, lake) == expected and bytes_below(lake, secret) == []


def test_the_hold_of_an_archive_is_renewed_while_it_runs(
    spark: SparkSession,
    streams: Streams,
    reach: Reach,
    name: str,
    lake: str,
    meanwhile: Meanwhile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams.create(name)
    streams.fill(name, 20)
    holds: list[str] = []
    renewed = threading.Event()
    hold = BulkClient.hold

    def noted(client: BulkClient, *args: Any, **options: Any) -> str:
        found = hold(client, *args, **options)
        holds.append(found)
        if len(holds) >= 3:
            renewed.set()
        return found

    monkeypatch.setattr(BulkClient, "hold", noted)
    monkeypatch.setattr("slipstream.spark.jobs.held._HOLD_SECONDS", 1.0)
    meanwhile.after_tasks("archive", lambda: renewed.wait(60))
    assert jobs.archive(spark, name, lake, reach=reach)["messages"] == 20
    assert renewed.is_set() and len(set(holds)) == 1


def test_messages_that_were_purged_before_they_were_archived_are_an_error(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str
) -> None:
    streams.create(name)
    streams.fill(name, 10)
    jobs.archive(spark, name, lake, reach=reach)
    streams.fill(name, 10, begin=10)
    streams.purge(name)
    with pytest.raises(jobs.JobError, match=r"messages 11 to 20 of \w+ were removed .*--accept-gap"):
        jobs.archive(spark, name, lake, reach=reach)
    accepted = jobs.archive(spark, name, lake, reach=reach, accept_gap=True)
    assert (accepted["messages"], accepted["archived_upto"], accepted["missing"]) == (0, 20, "11-20")
    streams.fill(name, 5, begin=20)
    assert jobs.archive(spark, name, lake, reach=reach)["messages"] == 5


def test_materialize_replaces_nothing_but_its_own_tables(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, tmp_path: Path
) -> None:
    for bucket in (name, f"{name}B"):
        streams.create(f"KV_{bucket}", subjects=[f"$KV.{bucket}.>"], max_msgs_per_subject=1)
        streams.publish([(f"$KV.{bucket}.key", b"value")])
    jobs.archive(spark, f"KV_{name}", lake, reach=reach)
    with pytest.raises(
        jobs.JobError, match=r"holds another table \(Messages of the stream KV_\w+ .*name another place"
    ):
        jobs.materialize(spark, name, lake, reach=reach)
    assert jobs.audit(spark, f"KV_{name}", location=lake, reach=reach)["equal"]
    plain = str(tmp_path / "plain")
    jobs.archive(spark, f"KV_{name}", plain, reach=reach, format="parquet")
    with pytest.raises(jobs.JobError, match="is no table of a bucket"):
        jobs.materialize(spark, name, plain, reach=reach)
    place = str(tmp_path / "bucket")
    for _ in range(2):
        assert jobs.materialize(spark, name, place, reach=reach)["rows"] == 1
    with pytest.raises(jobs.JobError, match="holds another table"):
        jobs.materialize(spark, f"{name}B", place, reach=reach)
    with pytest.raises(LakeError, match="was not made by an archive"):
        jobs.audit(spark, location=place)
    (row,) = DeltaTable(place).to_pyarrow_table().to_pylist()
    assert abs(row["ts"] - datetime.now(UTC)) < timedelta(minutes=10)


def test_an_archive_that_was_replaced_by_another_table_says_so(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str
) -> None:
    streams.create(name)
    streams.fill(name, 10)
    jobs.archive(spark, name, lake, reach=reach)
    other = pa.table({"key": ["a"], "value": [b"1"]})
    write_deltalake(lake, other, mode="overwrite", schema_mode="overwrite")
    said = "was an archive and was replaced: it has the columns key, value"
    with pytest.raises(LakeError, match=said):
        jobs.audit(spark, location=lake)
    with pytest.raises(LakeError, match=said):
        jobs.archive(spark, name, lake, reach=reach)


def test_what_is_erased_before_it_is_archived_is_no_loss(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, tmp_path: Path
) -> None:
    streams.create(name)
    streams.fill(name, 10)
    jobs.archive(spark, name, lake, reach=reach, drop=True)
    streams.publish([(f"{name}.customer", b"")] * 3 + [(f"{name}.other", b"")] * 2)
    jobs.erase(spark, [f"{name}.customer"], stream=name, location=lake, reach=reach, record=str(tmp_path / "records"))
    assert table(spark, name, archive=lake, reach=reach).count() == 12
    assert jobs.archive(spark, name, lake, reach=reach, drop=True)["messages"] == 2
    streams.publish([(f"{name}.customer", b"")] * 3)
    jobs.erase(spark, [f"{name}.customer"], stream=name, location=lake, reach=reach)
    assert jobs.archive(spark, name, lake, reach=reach)["archived_upto"] == 18
    streams.publish([(f"{name}.customer", b"")] * 2)
    streams.purge(name)
    with pytest.raises(jobs.JobError, match="messages 19 to 20"):
        jobs.archive(spark, name, lake, reach=reach)


def test_an_erasure_in_a_stream_alone_has_a_record(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    streams.create(name)
    streams.fill(name, 20)
    report = jobs.erase(spark, [f"{name}.3"], stream=name, reach=reach, reason="asked to")
    assert Path(report["record"]).parent == Path("erasures")
    record = json.loads(Path(report["record"]).read_text())
    assert (record["reason"], record["stream_sequences"], record["archive"]) == ("asked to", [[4, 4], [14, 14]], None)
    report = jobs.erase(spark, [f"{name}.4"], stream=name, reach=reach, record=str(tmp_path / "kept" / "here"))
    assert Path(report["record"]).parent == tmp_path / "kept" / "here"


@FORMATS
def test_an_erased_subject_is_in_no_log(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, kind: str, tmp_path: Path
) -> None:
    streams.create(name)
    streams.fill(name, 20)
    streams.publish([(f"{name}.zz-customer-7", b"x")])
    jobs.archive(spark, name, lake, reach=reach, format=kind)
    assert bytes_below(lake, b"zz-customer-7")
    jobs.erase(spark, [f"{name}.zz-customer-7"], location=lake, record=str(tmp_path / "records"))
    assert bytes_below(lake, b"zz-customer-7") == []
    assert len(payloads(spark, lake)) == 20


def test_a_stream_that_denies_deletions_is_told_not_passed_over(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, tmp_path: Path
) -> None:
    streams.create(name, deny_delete=True)
    streams.fill(name, 20)
    with pytest.raises(jobs.JobError, match=r"2 messages of .* could not be erased: message delete not permitted"):
        jobs.erase(spark, [f"{name}.3"], stream=name, reach=reach, record=str(tmp_path))
    assert streams.state(name)["messages"] == 20


def test_erasing_thousands_does_not_wait_for_each(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, tmp_path: Path
) -> None:
    streams.create(name)
    streams.publish((f"{name}.gone", b"%d" % number) for number in range(2000))
    streams.publish([(f"{name}.kept", b"")])
    report = jobs.erase(spark, [f"{name}.gone"], stream=name, reach=reach, record=str(tmp_path))
    assert report["stream_messages"] == 2000 and streams.state(name)["messages"] == 1
