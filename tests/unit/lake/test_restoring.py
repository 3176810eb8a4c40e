"""A golden round trip: stream → table → stream, equal to the byte in all that a message has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slipstream.bulk import BulkClient, BulkError
from slipstream.lake import restoring
from slipstream.lake.opening import TablePlan
from slipstream.lake.restoring import restore
from slipstream.lake.writing import StreamWriter, WriteSettings
from slipstream.spark.lake import LakeError, Wish
from support.cli import Cli
from support.spark_streams import Streams

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
EVERYTHING = ("seq", "ts_ns", "subject", "hdr_raw", "payload")
ODD_HEADERS = [
    b"NATS/1.0\r\nNats-Msg-Id: 1\r\nA:  two  \r\na:x\r\n\r\n",
    b"NATS/1.0\r\nEmpty:\r\nTwice: 1\r\nTwice: 2\r\n\r\n",
    "NATS/1.0\r\nUmlaut: größer\r\n\r\n".encode(),
]
ODD_PAYLOADS = [b"", b"\x00\xff\xfe", b"\r\n", bytes(range(256)) * 300]


@pytest.fixture(params=["iceberg", "delta"])
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> TablePlan:
    return TablePlan(str(tmp_path / "lake"), request.param)


def write(client: BulkClient, plan: TablePlan, name: str = "ORDERS") -> None:
    writer = StreamWriter(name, plan.opener(), WriteSettings(file_bytes=150_000, compact_files=0))
    writer.turn(client)
    writer.release(client)


def test_everything_is_what_it_was(streams: Streams, client: BulkClient, plan: TablePlan) -> None:
    streams.create("ORDERS", duplicate_window=0)
    streams.fill("ORDERS", 40)
    for number, header in enumerate(ODD_HEADERS):
        for payload in ODD_PAYLOADS:
            unlike = header.replace(b"Id: 1", b"Id: %d" % len(payload))
            streams.publish([(f"ORDERS.é.{number}", payload), (f"ORDERS.$x.{number}", payload)], unlike)
    for gone in (1, 2, 17, 18):
        streams.api("STREAM.MSG.DELETE.ORDERS", {"seq": gone})
    write(client, plan)
    streams.fill("ORDERS", 3)
    last = streams.state("ORDERS")["last_seq"]
    write(client, plan)
    streams.api("STREAM.MSG.DELETE.ORDERS", {"seq": last})
    table = plan.opener()("ORDERS", None)
    assert table.compact(64 << 20, 2) > 1
    golden = streams.rows("ORDERS", *EVERYTHING)
    config = client.stream_info("ORDERS")["config"]
    with pytest.raises(BulkError, match="stream name already in use"):
        restore(client, table, config)
    streams.delete("ORDERS")
    done = restore(client, plan.opener()("ORDERS", None), config)
    assert (done.first_seq, done.last_seq) == (3, last)
    found = streams.rows("ORDERS", *EVERYTHING)
    assert found[:-1] == golden and found[-1]["seq"] == last  # the table had it before it was deleted
    streams.fill("ORDERS", 1)
    assert streams.state("ORDERS")["last_seq"] == last + 1


def test_what_was_removed_at_the_end_is_not_given_out_again(
    streams: Streams, client: BulkClient, plan: TablePlan
) -> None:
    streams.create("ORDERS")
    streams.fill("ORDERS", 9)
    streams.api("STREAM.MSG.DELETE.ORDERS", {"seq": 9})
    streams.fill("ORDERS", 1)
    streams.api("STREAM.MSG.DELETE.ORDERS", {"seq": 10})
    streams.fill("ORDERS", 1)
    write(client, plan)
    streams.delete("ORDERS")
    done = restore(client, plan.opener()("ORDERS", None), {"name": "AGAIN", "subjects": ["ORDERS.>"]})
    assert (done.messages, done.first_seq, done.last_seq) == (9, 1, 11)


def test_a_version_of_the_table(streams: Streams, client: BulkClient, plan: TablePlan) -> None:
    streams.create("ORDERS")
    streams.fill("ORDERS", 5)
    write(client, plan)
    opened: Any = plan.opener()("ORDERS", None)
    old = opened._lake.version if plan.format == "delta" else opened._table.metadata.current_snapshot_id
    golden = streams.rows("ORDERS", *EVERYTHING)
    streams.fill("ORDERS", 5)
    write(client, plan)
    streams.delete("ORDERS")
    done = restore(client, plan.opener()("ORDERS", None), {"name": "AGAIN", "subjects": ["ORDERS.>"]}, version=old)
    assert (done.messages, done.last_seq) == (5, 5)
    assert streams.rows("AGAIN", *EVERYTHING) == golden


class Slow:
    """A table that takes its time, and breaks if it is told to."""

    place = "slow"

    def __init__(self, table: Any, batches: int, error: Exception | None = None) -> None:
        self._table, self._batches, self._error = table, batches, error

    def position(self) -> int:
        return int(self._table.position())

    def read(self, wish: Wish, version: int | None) -> Iterator[pa.RecordBatch]:
        for batch in self._table.read(wish, version):
            for begin in range(0, batch.num_rows, self._batches):
                yield batch.slice(begin, self._batches)
                if self._error is not None:
                    raise self._error


def test_a_slow_table_is_waited_for_and_a_broken_one_leaves_nothing(
    streams: Streams, client: BulkClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = TablePlan(str(tmp_path / "lake"), "delta")
    streams.create("ORDERS")
    streams.fill("ORDERS", 10)
    write(client, plan)
    golden = streams.rows("ORDERS", *EVERYTHING)
    streams.delete("ORDERS")
    config = {"name": "ORDERS", "subjects": ["ORDERS.>"]}
    monkeypatch.setattr(restoring, "_SILENCE_SECONDS", 0.0)  # padding wherever there could be any
    slow: Any = Slow(plan.opener()("ORDERS", None), 3)
    assert restore(client, slow, config).messages == 10
    assert streams.rows("ORDERS", *EVERYTHING) == golden
    streams.delete("ORDERS")
    broken: Any = Slow(plan.opener()("ORDERS", None), 3, OSError("no more files"))
    with pytest.raises(OSError, match="no more files"):
        restore(client, broken, config)
    with pytest.raises(BulkError, match="stream not found"):
        client.stream_info("ORDERS")


def test_a_message_that_the_stream_refuses(streams: Streams, client: BulkClient, plan: TablePlan) -> None:
    streams.create("ORDERS")
    with pytest.raises(LakeError, match="no messages"):
        identity = client.bulk_info("ORDERS")["identity"]
        restore(client, plan.opener()("ORDERS", identity), {"name": "AGAIN", "subjects": ["x"]})
    streams.fill("ORDERS", 5)
    write(client, plan)
    with pytest.raises(BulkError, match="exceeds maximum message size"):
        restore(client, plan.opener()("ORDERS", None), {"name": "AGAIN", "subjects": ["x"], "max_msg_size": 1})
    with pytest.raises(BulkError, match="stream not found"):
        client.stream_info("AGAIN")


def test_by_the_command_line(streams: Streams, client: BulkClient, plan: TablePlan, tmp_path: Path) -> None:
    cli = Cli(tmp_path, streams.url)
    streams.create("ORDERS")
    streams.fill("ORDERS", 5)
    write(client, plan)
    golden = streams.rows("ORDERS", *EVERYTHING)
    command = ("lake", "restore", plan.location, "ORDERS")
    kind = ("--format", plan.format)
    refused = cli.call(*command, *kind, status=2)
    assert "name the subjects" in refused.stderr
    streams.delete("ORDERS")
    done = cli.json(*command, *kind, "--subjects", "ORDERS.>", "--json")
    assert done == {"messages": 5, "first_seq": 1, "last_seq": 5}
    assert streams.rows("ORDERS", *EVERYTHING) == golden
    streams.delete("ORDERS")
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"name": "X", "subjects": ["ORDERS.>"], "max_msgs": 3}))
    assert "Messages: 3" in cli.call(*command, "COPY", *kind, "--config", str(file)).stdout
    assert streams.rows("COPY", *EVERYTHING) == golden[2:]
