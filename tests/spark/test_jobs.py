"""The jobs of the pipeline on a real server and a real session: each result is compared with the input."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import slipstream.spark
from slipstream.spark import jobs
from slipstream.spark.jobs.tasks import JobError, run_tasks
from slipstream.spark.lake import LakeError, Wish, open_lake
from slipstream.spark.runtime.target import Reach
from support.server_process import ServerProcess
from support.spark_streams import Streams

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

HEADER = b"NATS/1.0\r\nX: 1\r\nX: two words\r\n\r\n"
CONTENT = ("subject", "headers", "payload")


def fill(streams: Streams, name: str, count: int, begin: int = 0) -> None:
    streams.fill(name, count, begin)
    streams.publish([(f"{name}.with.headers", b"\x00\xff" * 9)], HEADER)


def same_subjects(streams: Streams, name: str, other: str) -> None:
    """A second stream that takes the subjects of the first, which gives them up."""
    config = streams.api(f"STREAM.INFO.{name}")["config"]
    streams.api(f"STREAM.UPDATE.{name}", {**config, "subjects": [f"gone.{name}"]})
    streams.create(other, subjects=[f"{name}.>"])


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_archive_goes_on_where_it_stopped(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, kind: str
) -> None:
    streams.create(name)
    fill(streams, name, 400)
    streams.api(f"STREAM.MSG.DELETE.{name}", {"seq": 17})
    first = jobs.archive(spark, name, lake, reach=reach, format=kind, target_bytes=4096, upto=300)
    assert (first["messages"], first["archived_upto"], first["format"]) == (299, 300, kind)
    fill(streams, name, 100, begin=400)
    second = jobs.archive(spark, name, lake, reach=reach)
    assert (second["first_seq"], second["messages"], second["archived_upto"]) == (301, 202, 502)
    assert jobs.archive(spark, name, lake, reach=reach)["messages"] == 0
    files = open_lake(lake)
    frame = spark.read.parquet(*(files.path_of(file) for file in files.files())).orderBy("seq")
    found = [(row.seq, row.subject, row.headers, bytes(row.payload)) for row in frame.collect()]
    rows = streams.rows(name, "seq", *CONTENT)
    assert found == [(row["seq"], row["subject"], dict(row["headers"] or ()) or None, row["payload"]) for row in rows]


def test_what_goes_wrong_in_a_task_is_told_without_its_traceback(spark: SparkSession) -> None:
    def work(item: int) -> dict[str, Any]:
        from slipstream.bulk.errors import BulkError

        raise BulkError(f"no room for {item}")

    with pytest.raises(JobError, match=r"^a task failed: no room for 7$"):
        run_tasks(spark, [7], work)


def test_archive_of_another_stream_is_refused(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str
) -> None:
    streams.create(name)
    fill(streams, name, 10)
    jobs.archive(spark, name, lake, reach=reach)
    streams.delete(name)
    streams.create(name)
    with pytest.raises(LakeError, match="not this one"):
        jobs.archive(spark, name, lake, reach=reach)


def test_messages_removed_before_they_were_archived_are_an_error(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str
) -> None:
    streams.create(name)
    fill(streams, name, 10)
    jobs.archive(spark, name, lake, reach=reach)
    fill(streams, name, 10, begin=10)
    streams.purge(name, seq=15)
    with pytest.raises(jobs.JobError, match=r"messages 12 to 14 of \w+ were removed"):
        jobs.archive(spark, name, lake, reach=reach)


def test_tiering_and_one_table_of_both(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str
) -> None:
    streams.create(name)
    fill(streams, name, 299)
    report = jobs.archive(spark, name, lake, reach=reach, drop=True, keep=50)
    assert report["dropped"] == 250 and streams.state(name)["messages"] == 50
    fill(streams, name, 99, begin=299)
    table = slipstream.spark.table(spark, name, archive=lake, reach=reach)
    rows = [(row.seq, row.subject) for row in table.orderBy("seq").collect()]
    assert [seq for seq, _ in rows] == list(range(1, 401))
    assert rows[299] == (300, f"{name}.with.headers")
    as_of = slipstream.spark.table(spark, name, archive=lake, reach=reach, as_of=310)
    assert as_of.selectExpr("count(*)", "max(seq)").first() == (310, 310)
    moment = table.where("seq = 305").first()
    assert moment is not None
    before = slipstream.spark.table(spark, name, archive=lake, reach=reach, as_of=moment.ts.astimezone())
    assert before.count() <= 304
    streams.purge(name, seq=320)
    with pytest.raises(jobs.JobError, match="neither archived nor in the stream"):
        slipstream.spark.table(spark, name, archive=lake, reach=reach)


def test_archive_replay_audit_is_equal_to_the_byte(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, tmp_path: Path
) -> None:
    streams.create(name)
    fill(streams, name, 500)
    jobs.archive(spark, name, lake, reach=reach, target_bytes=8192)
    before = jobs.audit(spark, name, location=lake, reach=reach)
    assert before.ok and before["equal"] and before["stream_messages"] == 501
    same_subjects(streams, name, f"{name}_BACK")
    assert jobs.replay(spark, lake, f"{name}_BACK", reach=reach)["messages"] == 501
    again = jobs.replay(spark, lake, f"{name}_BACK", reach=reach)
    assert (again["messages"], again["copied_before"], again["batches"]) == (0, 501, 0)
    assert streams.rows(f"{name}_BACK", *CONTENT) == streams.rows(name, *CONTENT)
    raw = [row["hdr_raw"] for row in streams.rows(f"{name}_BACK", "hdr_raw")]
    assert raw[-1] == HEADER
    copy = str(tmp_path / "copy")
    jobs.archive(spark, f"{name}_BACK", copy, reach=reach)
    digests = [
        jobs.audit.__globals__["archive_blocks"](spark, open_lake(at), Wish(), places=False) for at in (lake, copy)
    ]
    assert [block.digest for block in digests[0]] == [block.digest for block in digests[1]]


def test_audit_finds_what_differs(spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str) -> None:
    streams.create(name)
    fill(streams, name, 100)
    jobs.archive(spark, name, lake, reach=reach)
    streams.api(f"STREAM.MSG.DELETE.{name}", {"seq": 40})
    report = jobs.audit(spark, name, location=lake, reach=reach)
    assert not report.ok and not report["equal"]
    assert report["differences"] == [
        {"first_seq": 0, "last_seq": 99_999, "stream_messages": 100, "archive_messages": 101}
    ]
    assert (report["stream_gaps"], report["archive_gaps"]) == (1, 0)


def test_replay_of_a_selection_with_marks(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str
) -> None:
    streams.create(name)
    fill(streams, name, 50)
    jobs.archive(spark, name, lake, reach=reach)
    same_subjects(streams, name, f"{name}_BACK")
    wish = Wish(first_seq=11, last_seq=40, subjects=(f"{name}.3", f"{name}.4"))
    report = jobs.replay(spark, lake, f"{name}_BACK", reach=reach, wish=wish, mark=True)
    rows = streams.rows(f"{name}_BACK", *CONTENT)
    assert report["messages"] == len(rows) == 6
    assert [row["payload"] for row in rows] == [b"%06d" % n for n in (13, 14, 23, 24, 33, 34)]
    headers = dict(rows[0]["headers"])
    assert (headers["Nats-Orig-Stream"], headers["Nats-Orig-Sequence"]) == ([name], ["14"])


def test_compact_keeps_every_row(spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str) -> None:
    streams.create(name)
    for begin in range(0, 60, 20):
        fill(streams, name, 20, begin)
        jobs.archive(spark, name, lake, reach=reach)
    before = jobs.audit(spark, location=lake)["archive_digest"]
    report = jobs.compact(spark, lake, vacuum=True)
    assert (report["files_before"], report["files_after"], report["rows_moved"]) == (3, 1, 63)
    assert jobs.audit(spark, location=lake)["archive_digest"] == before
    assert len(list(Path(lake).glob("*.parquet"))) == 1
    assert jobs.compact(spark, lake)["rows_moved"] == 0


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_erase_leaves_no_byte(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str, kind: str, node: ServerProcess
) -> None:
    secret = b"a secret that nobody may ever read again"
    streams.create(name)
    fill(streams, name, 30)
    streams.publish([(f"{name}.customer.7", secret)] * 3)
    jobs.archive(spark, name, lake, reach=reach, format=kind, codec="none")
    assert any(secret in path.read_bytes() for path in Path(lake).rglob("*.parquet"))
    report = jobs.erase(spark, [f"{name}.customer.7"], stream=name, location=lake, reach=reach, reason="asked to")
    assert (report["stream_messages"], report["archive_messages"]) == (3, 3)
    assert not any(secret in path.read_bytes() for path in Path(lake).rglob("*") if path.is_file())
    assert not any(secret in path.read_bytes() for path in node.directory.rglob("*.seg"))
    record = json.loads(Path(report["record"]).read_text())
    assert record["reason"] == "asked to" and record["stream_sequences"] == [[32, 34]]
    again = jobs.erase(spark, [f"{name}.customer.7"], stream=name, location=lake, reach=reach)
    assert (again["stream_messages"], again["archive_messages"]) == (0, 0)
    assert jobs.audit(spark, name, location=lake, reach=reach)["equal"]


def test_materialize_newest_and_history(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, lake: str
) -> None:
    config: dict[str, Any] = {"subjects": [f"$KV.{name}.>"], "max_msgs_per_subject": 5, "allow_rollup_hdrs": True}
    streams.create(f"KV_{name}", **config)
    streams.publish((f"$KV.{name}.key.{number % 7}", b"%d" % number) for number in range(20))
    streams.publish([(f"$KV.{name}.key.3", b"")], b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n")
    report = jobs.materialize(spark, name, lake, reach=reach)
    assert (report["rows"], report["revision"]) == (6, 21)
    rows = DeltaTable(lake).to_pyarrow_table().to_pylist()
    assert {row["key"]: row["value"] for row in rows} == {
        f"key.{n % 7}": b"%d" % n for n in range(13, 20) if n % 7 != 3
    }
    streams.publish([(f"$KV.{name}.key.3", b"back")])
    assert jobs.materialize(spark, name, lake, reach=reach, mode="history")["rows"] == 22
    history = DeltaTable(lake).to_pyarrow_table().to_pylist()
    assert [row["op"] for row in sorted(history, key=lambda row: row["revision"])[-2:]] == ["DEL", "PUT"]


def test_stats_and_their_picture(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, tmp_path: Path
) -> None:
    from slipstream.spark.jobs.chart import write_chart

    streams.create(name)
    sent = str(time.time_ns() - 5_000_000_000).encode()
    streams.publish([(f"{name}.<b>", b"x" * 100)] * 30, b"NATS/1.0\r\nSent-At: " + sent + b"\r\n\r\n")
    streams.publish([(f"{name}.rare", b"y" * 10)] * 3)
    for odd in (b"99999999999999999999", "²".encode()):
        streams.publish([(f"{name}.rare", b"y" * 10)], b"NATS/1.0\r\nSent-At: " + odd + b"\r\n\r\n")
    report = jobs.stats(spark, name, reach=reach, latency_header="Sent-At", window_ns=10**9)
    assert (report["messages"], report["subjects"], report["latency_samples"]) == (35, 2, 30)
    assert report["top_subjects"][0]["subject"] == f"{name}.<b>" and report["top_subjects"][0]["messages"] == 30
    assert report["latency_odd"] == 2
    assert 4_900 < report["latency_ms_p50"] < 60_000
    assert sum(window["messages"] for window in report["windows"]) == 35
    page = tmp_path / "stats.html"
    write_chart(report, str(page))
    assert "<svg" in page.read_text() and "<b>" not in page.read_text()
    assert jobs.stats(spark, name, reach=reach, subjects=[f"{name}.rare"])["messages"] == 5


def test_dead_letters_by_cause_and_back(spark: SparkSession, streams: Streams, reach: Reach, name: str) -> None:
    streams.create(name)
    streams.create(f"{name}_DEAD")
    for reason, count in (("max_deliver", 3), ("terminated", 2)):
        header = (
            f"NATS/1.0\r\nNats-Msg-Id: dlq.{reason}\r\nSlipstream-Dlq-Stream: {name}\r\n"
            f"Slipstream-Dlq-Reason: {reason}\r\nSlipstream-Dlq-Consumer: C\r\n"
            f"Slipstream-Dlq-Subject: {name}.jobs\r\nKept: yes\r\n\r\n"
        )
        for number in range(count):
            own = header.replace(f"dlq.{reason}", f"dlq.{reason}.{number}").encode()
            streams.publish([(f"{name}_DEAD.x", reason.encode())], own)
    report = jobs.dlq(spark, f"{name}_DEAD", reach=reach)
    assert report["letters"] == 5
    assert [(row["reason"], row["letters"]) for row in report["by_cause"]] == [("max_deliver", 3), ("terminated", 2)]
    driven = jobs.dlq(spark, f"{name}_DEAD", reach=reach, redrive=name, delete=True)
    assert (driven["redriven"], driven["deleted"]) == (5, 5)
    rows = streams.rows(name, *CONTENT)
    assert [row["subject"] for row in rows] == [f"{name}.jobs"] * 5
    assert rows[0]["headers"] == [("Kept", ["yes"])]
    assert streams.state(f"{name}_DEAD")["messages"] == 0


def test_mirror_between_servers_is_verified(
    spark: SparkSession, streams: Streams, reach: Reach, name: str, plain_node: ServerProcess
) -> None:
    source = Streams(plain_node.url)
    source.create(name)
    fill(source, name, 200)
    streams.create(f"{name}_COPY", subjects=[f"{name}.>"])
    report = jobs.mirror(spark, name, f"{name}_COPY", reach=Reach(servers=source.url), target_reach=reach)
    assert (report["messages"], report["verified"], report["equal"]) == (201, 201, True)
    assert streams.payloads(f"{name}_COPY") == source.payloads(name)
    with pytest.raises(jobs.JobError, match="into itself"):
        jobs.mirror(spark, f"{name}_COPY", f"{name}_COPY", reach=reach)


def test_a_stream_that_is_not_there(spark: SparkSession, reach: Reach, lake: str) -> None:
    with pytest.raises(jobs.JobError, match="there is no stream 'NOPE' on nats://127"):
        jobs.archive(spark, "NOPE", lake, reach=reach)
    assert not Path(lake).exists()
    with pytest.raises(jobs.JobError, match="cannot connect"):
        jobs.stats(spark, "NOPE", reach=Reach(servers="nats://127.0.0.1:1"))
