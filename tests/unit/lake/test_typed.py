"""JSON payloads as columns of an Iceberg table; what does not fit is a dead letter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slipstream.bulk import BulkClient, ConnectOptions, connect
from slipstream.lake.iceberg_table import IcebergCatalogue
from slipstream.lake.opening import TablePlan
from slipstream.lake.typed import TypedPayloads, read_columns
from slipstream.lake.writing import StreamWriter, WriteSettings
from slipstream.spark.lake import LakeError, Wish
from slipstream.spark.runtime.errors import SparkSideError
from slipstream.testing import ServerThread
from support.spark_streams import Streams

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
PAYLOADS = [b'{"id": 1, "name": "a"}', b'{"id": "one"}', b"no json", b'{"id": 2}', b"", b'{"id": null, "name": "z"}']


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Streams]:
    with ServerThread(store_dir=str(tmp_path / "server")) as server:
        streams = Streams(server.url)
        streams.create("ORDERS")
        streams.publish((f"ORDERS.{number}", payload) for number, payload in enumerate(PAYLOADS))
        yield streams


@pytest.fixture
def client(streams: Streams) -> Iterator[BulkClient]:
    with connect(ConnectOptions(streams.url)) as client:
        yield client


def write(
    client: BulkClient, directory: Path, columns: str, letters: str = "", **settings: Any
) -> tuple[int, list[dict[str, Any]]]:
    payloads = TypedPayloads(read_columns(columns), client.options, letters)
    catalogue = IcebergCatalogue(str(directory / "lake"), {}, "streams", (), read_columns(columns))
    written = StreamWriter("ORDERS", catalogue.open, WriteSettings(**settings), payloads).turn(client).written
    table: Any = catalogue.open("ORDERS", None)
    rows = table._table.scan().select("seq", *read_columns(columns).names).to_arrow().sort_by("seq").to_pylist()
    return written, rows


def test_letters_are_published_and_rows_are_typed(streams: Streams, client: BulkClient, tmp_path: Path) -> None:
    streams.create("LETTERS", subjects=["dead.>"])
    written, rows = write(client, tmp_path, "id bigint, name string", "dead.orders")
    assert written == 3
    assert rows == [
        {"seq": 1, "id": 1, "name": "a"},
        {"seq": 4, "id": 2, "name": None},
        {"seq": 6, "id": None, "name": "z"},
    ]
    letters = streams.rows("LETTERS", "headers", "payload")
    assert [letter["payload"] for letter in letters] == [PAYLOADS[1], PAYLOADS[2], PAYLOADS[4]]
    marks = dict(letters[0]["headers"])
    assert (marks["Slipstream-Subject"], marks["Slipstream-Sequence"]) == (["ORDERS.1"], ["2"])
    assert "does not fit" in marks["Slipstream-Error"][0]
    assert write(client, tmp_path, "id bigint, name string", "dead.orders")[0] == 0
    assert len(streams.rows("LETTERS", "payload")) == 3


def test_only_bad_rows_move_the_position_too(streams: Streams, client: BulkClient, tmp_path: Path) -> None:
    streams.create("LETTERS", subjects=["dead.>"], duplicate_window=100_000_000)
    write(client, tmp_path, "id bigint", "dead.orders")
    streams.publish([("ORDERS.x", b"bad"), ("ORDERS.y", b"worse")])
    assert write(client, tmp_path, "id bigint", "dead.orders")[0] == 0
    catalogue = IcebergCatalogue(str(tmp_path / "lake"), {}, "streams")
    assert catalogue.open("ORDERS", None).position() == 8


def test_without_letters_rows_have_no_values(client: BulkClient, streams: Streams, tmp_path: Path) -> None:
    written, rows = write(client, tmp_path, "id bigint", file_bytes=200, compact_files=2)
    assert written == 6
    assert [row["id"] for row in rows] == [1, None, None, 2, None, None]
    again, rows = write(client, tmp_path, "id bigint, name string")  # the table gets a column
    assert again == 0 and set(rows[0]) == {"seq", "id", "name"}
    streams.publish([("ORDERS.z", b'{"id": 9, "name": "new"}')])
    assert write(client, tmp_path, "id bigint, name string")[1][-1] == {"seq": 7, "id": 9, "name": "new"}
    table = IcebergCatalogue(str(tmp_path / "lake"), {}, "streams").open("ORDERS", None)
    assert [row["payload"] for batch in table.read(Wish(), None) for row in batch.to_pylist()][:6] == PAYLOADS
    with pytest.raises(LakeError, match="do not fit the table"):
        write(client, tmp_path, "id date")


def test_letters_need_a_stream_of_their_own(client: BulkClient, streams: Streams, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="dead letters need another stream"):
        write(client, tmp_path, "id bigint", "ORDERS.dead")
    with pytest.raises(SparkSideError, match="no stream takes a message"):
        write(client, tmp_path, "id bigint", "nobody.dead")
    assert IcebergCatalogue(str(tmp_path / "lake"), {}, "streams").open("ORDERS", None).position() == 0
    assert streams.state("ORDERS")["messages"] == len(PAYLOADS)


@pytest.mark.parametrize("text", ["", "id", "id bigint,", "id blob", "seq bigint", "a int, a int", "a b c"])
def test_columns_that_are_none(text: str) -> None:
    with pytest.raises(LakeError):
        read_columns(text)


def test_columns() -> None:
    assert read_columns("a int, b TIMESTAMP") == pa.schema([("a", pa.int32()), ("b", pa.timestamp("us", "UTC"))])


def test_columns_of_the_registered_schema(streams: Streams, client: BulkClient, tmp_path: Path) -> None:
    order = {"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"items": {"type": "string"}}}}
    order["properties"]["tags"]["type"] = "array"  # type: ignore[index]
    schema = {"subjects": ["ORDERS.>"], "format": "json", "versions": [json.dumps(order)]}
    plan = TablePlan(str(tmp_path / "lake"), "iceberg", columns="schema")
    with pytest.raises(LakeError, match="has 0 schemas"):
        plan.payloads(client.options, ["ORDERS"])
    config = client.stream_info("ORDERS")["config"]
    streams.api("STREAM.UPDATE.ORDERS", {**config, "metadata": {"slipstream.schema.order": json.dumps(schema)}})
    streams.publish([("ORDERS.9", b'{"id": 9, "tags": ["a"]}')])
    payloads = plan.payloads(client.options, ["ORDERS"])
    assert payloads is not None and payloads.columns.names == ["id", "tags"]
    open_table = plan.opener(payloads.columns)
    StreamWriter("ORDERS", open_table, WriteSettings(), payloads).turn(client)
    table: Any = open_table("ORDERS", None)
    rows = table._table.scan().select("seq", "id", "tags").to_arrow().sort_by("seq").to_pylist()
    assert [(row["seq"], row["id"], row["tags"]) for row in rows] == [
        (1, 1, None),
        (2, None, None),
        (3, None, None),
        (4, 2, None),
        (5, None, None),
        (6, None, None),
        (7, 9, ["a"]),
    ]
    with pytest.raises(LakeError, match="no schema other"):
        TablePlan("x", "iceberg", columns="schema other").payloads(client.options, ["ORDERS"])
