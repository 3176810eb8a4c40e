"""JSON payloads as columns of a table; what does not fit is a dead letter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from slipstream.bulk import BulkClient
from slipstream.lake.erasing import erase
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


@pytest.fixture(params=["iceberg", "delta"])
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> TablePlan:
    return TablePlan(str(tmp_path / "lake"), request.param)


def write(
    client: BulkClient, plan: TablePlan, columns: str, letters: str = "", **settings: Any
) -> tuple[int, list[dict[str, Any]]]:
    payloads = TypedPayloads(read_columns(columns), client.options, letters)
    open_table = plan.opener(lambda: read_columns(columns))
    written = StreamWriter("ORDERS", open_table, WriteSettings(**settings), payloads).turn(client).written
    return written, rows_of(plan, "seq", *read_columns(columns).names)


def rows_of(plan: TablePlan, *columns: str) -> list[dict[str, Any]]:
    """Rows of the table as other programs see it."""
    if plan.format == "delta":
        table = pa.table(DeltaTable(f"{plan.location}/ORDERS").to_pyarrow_table(columns=list(columns)))
    else:
        opened: Any = plan.opener()("ORDERS", None)
        table = opened._table.scan().select(*columns).to_arrow()
    rows: list[dict[str, Any]] = table.sort_by("seq").to_pylist()
    return rows


def test_letters_are_published_and_rows_are_typed(streams: Streams, client: BulkClient, plan: TablePlan) -> None:
    streams.create("LETTERS", subjects=["dead.>"])
    written, rows = write(client, plan, "id bigint, name string", "dead.orders")
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
    assert write(client, plan, "id bigint, name string", "dead.orders")[0] == 0
    assert len(streams.rows("LETTERS", "payload")) == 3


def test_only_bad_rows_move_the_position_too(streams: Streams, client: BulkClient, plan: TablePlan) -> None:
    streams.create("LETTERS", subjects=["dead.>"], duplicate_window=100_000_000)
    write(client, plan, "id bigint", "dead.orders")
    streams.publish([("ORDERS.x", b"bad"), ("ORDERS.y", b"worse")])
    assert write(client, plan, "id bigint", "dead.orders")[0] == 0
    assert plan.opener()("ORDERS", None).position() == 8


def test_without_letters_rows_have_no_values(client: BulkClient, streams: Streams, plan: TablePlan) -> None:
    written, rows = write(client, plan, "id bigint", file_bytes=200, compact_files=2)
    assert written == 6
    assert [row["id"] for row in rows] == [1, None, None, 2, None, None]
    again, rows = write(client, plan, "id bigint, name string")  # the table gets a column
    assert again == 0 and set(rows[0]) == {"seq", "id", "name"}
    streams.publish([("ORDERS.z", b'{"id": 9, "name": "new"}')])
    assert write(client, plan, "id bigint, name string")[1][-1] == {"seq": 7, "id": 9, "name": "new"}
    table = plan.opener()("ORDERS", None)
    assert [row["payload"] for batch in table.read(Wish(), None) for row in batch.to_pylist()][:6] == PAYLOADS
    with pytest.raises(LakeError, match=r"do not fit the table|types of a Delta table stay"):
        write(client, plan, "id date")


def test_letters_need_a_stream_of_their_own(client: BulkClient, streams: Streams, plan: TablePlan) -> None:
    with pytest.raises(LakeError, match="dead letters need another stream"):
        write(client, plan, "id bigint", "ORDERS.dead")
    with pytest.raises(SparkSideError, match="no stream takes a message"):
        write(client, plan, "id bigint", "nobody.dead")
    assert plan.opener()("ORDERS", None).position() == 0
    assert streams.state("ORDERS")["messages"] == len(PAYLOADS)


@pytest.mark.parametrize("text", ["", "id", "id bigint,", "id blob", "seq bigint", "a int, a int", "a b c"])
def test_columns_that_are_none(text: str) -> None:
    with pytest.raises(LakeError):
        read_columns(text)


def test_columns() -> None:
    assert read_columns("a int, b TIMESTAMP") == pa.schema([("a", pa.int32()), ("b", pa.timestamp("us", "UTC"))])


def test_columns_of_the_registered_schema(streams: Streams, client: BulkClient, plan: TablePlan) -> None:
    order = {"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"items": {"type": "string"}}}}
    order["properties"]["tags"]["type"] = "array"  # type: ignore[index]
    schema = {"subjects": ["ORDERS.>"], "format": "json", "versions": [json.dumps(order)]}
    plan = replace(plan, columns="schema")
    with pytest.raises(LakeError, match="has 0 schemas"):
        plan.payloads(client.options, ["ORDERS"])
    config = client.stream_info("ORDERS")["config"]
    streams.api("STREAM.UPDATE.ORDERS", {**config, "metadata": {"slipstream.schema.order": json.dumps(schema)}})
    streams.publish([("ORDERS.9", b'{"id": 9, "tags": ["a"]}')])
    payloads = plan.payloads(client.options, ["ORDERS"])
    assert payloads is not None and payloads.columns.names == ["id", "tags"]
    open_table = plan.opener(lambda: payloads.columns)
    StreamWriter("ORDERS", open_table, WriteSettings(), payloads).turn(client)
    rows = rows_of(plan, "seq", "id", "tags")
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
        replace(plan, columns="schema other").payloads(client.options, ["ORDERS"])


def test_what_is_put_together_or_erased_keeps_its_columns(streams: Streams, client: BulkClient, tmp_path: Path) -> None:
    plan = TablePlan(str(tmp_path / "lake"), "delta")
    write(client, plan, "id bigint", file_bytes=60, compact_files=0)
    streams.publish([("ORDERS.z", b'{"id": 9, "name": "new"}')])
    write(client, plan, "name string, id bigint", compact_files=0)
    table = plan.opener()("ORDERS", None)
    before = rows_of(plan, "seq", "subject", "id", "name")
    assert [row["id"] for row in before] == [1, None, None, 2, None, None, 9]
    assert [row["name"] for row in before] == [None] * 6 + ["new"]
    assert table.compact(1 << 20, 2) > 1
    assert rows_of(plan, "seq", "subject", "id", "name") == before
    erase(table, ["ORDERS.3"], stream="ORDERS", reach=None)
    left = rows_of(plan, "seq", "subject", "id", "name")
    assert left == [row for row in before if row["subject"] != "ORDERS.3"] != before
    # A writer that does not know of columns leaves them empty, as in an Iceberg table.
    streams.publish([("ORDERS.w", b'{"id": 10}')])
    StreamWriter("ORDERS", plan.opener(), WriteSettings()).turn(client)
    assert rows_of(plan, "seq", "id")[-1] == {"seq": 8, "id": None}


def test_types_that_delta_has_not(tmp_path: Path) -> None:
    columns = pa.schema([("at", pa.time64("us"))])
    open_table = TablePlan(str(tmp_path / "lake"), "delta").opener(lambda: columns)
    with pytest.raises(LakeError, match="column at: a Delta table has no type for time64"):
        open_table("ORDERS", "identity")
    assert not (tmp_path / "lake").exists()
