"""A registered schema gets versions while its stream is written to a table: columns follow, no row is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from slipstream.bulk import BulkClient, ConnectOptions
from slipstream.lake.opening import TablePlan
from slipstream.lake.replaying import replay
from slipstream.lake.service import LakeService
from slipstream.lake.writing import WriteSettings
from slipstream.schemas.protobuf import message_class
from slipstream.spark.lake import Wish
from slipstream.testing import ServerThread
from support.spark_streams import Streams
from unit.schemas.test_payloads import datum, proto

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@dataclass(frozen=True)
class Language:
    """How one language writes three versions of an order: with an id, with a note as well, and without the note."""

    format: str
    versions: tuple[str, ...]
    message: str = ""

    def payload(self, version: int, members: dict[str, Any]) -> bytes:
        definition = self.versions[version]
        if self.format == "json":
            return json.dumps(members).encode()
        if self.format == "avro":
            return datum(json.loads(definition), members)
        return bytes(message_class(definition, self.message)(**members).SerializeToString())


def json_schema(**properties: str) -> str:
    return json.dumps({"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}})


def avro_schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


ID, NOTE = {"name": "id", "type": "long", "default": 0}, {"name": "note", "type": ["null", "string"], "default": None}
LANGUAGES = [
    Language(
        "json",
        (json_schema(id="integer"), json_schema(id="integer", note="string"), json_schema(id="integer", way="string")),
    ),
    Language(
        "avro",
        (avro_schema(ID), avro_schema(ID, NOTE), avro_schema(ID, {**NOTE, "name": "way"})),
    ),
    Language(
        "protobuf",
        (
            proto(("id", 1, Field.TYPE_INT64)),
            proto(("id", 1, Field.TYPE_INT64), ("note", 2, Field.TYPE_STRING)),
            proto(("id", 1, Field.TYPE_INT64), ("way", 3, Field.TYPE_STRING)),
        ),
        "shop.Order",
    ),
]


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Streams]:
    with ServerThread(store_dir=str(tmp_path / "server")) as server:
        streams = Streams(server.url)
        streams.create("ORDERS")
        streams.create("LETTERS", subjects=["dead.>"])
        yield streams


def register(streams: Streams, client: BulkClient, language: Language, versions: int) -> None:
    schema: dict[str, Any] = {
        "subjects": ["ORDERS.>"],
        "format": language.format,
        "versions": language.versions[:versions],
        "evolution": "none",
    }
    if language.message:
        schema["message"] = language.message
    config = client.stream_info("ORDERS")["config"]
    streams.api("STREAM.UPDATE.ORDERS", {**config, "metadata": {"slipstream.schema.order": json.dumps(schema)}})


def rows_of(plan: TablePlan) -> list[dict[str, Any]]:
    """Rows as other programs see them."""
    if plan.format == "delta":
        table = pa.table(DeltaTable(f"{plan.location}/ORDERS").to_pyarrow_table())
    else:
        opened: Any = plan.opener()("ORDERS", None)
        table = opened._table.scan().to_arrow()
    names = [name for name in ("id", "note", "way") if name in table.column_names]
    rows: list[dict[str, Any]] = table.sort_by("seq").select(names).to_pylist()
    return rows


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.format)
def test_columns_follow_the_newest_version(
    streams: Streams, client: BulkClient, tmp_path: Path, language: Language, kind: str
) -> None:
    plan = TablePlan(str(tmp_path / "lake"), kind, columns="schema", dead_letters="dead.orders")
    register(streams, client, language, 1)
    reach = ConnectOptions(streams.url)
    payloads = plan.payloads(reach, ["ORDERS"])
    assert payloads is not None

    def publish(version: int, **members: Any) -> None:
        streams.publish([("ORDERS.x", language.payload(version, members))])

    with LakeService(
        reach, plan.opener(lambda: payloads.columns), ["ORDERS"], WriteSettings(compact_files=2), payloads
    ) as service:

        def turn() -> None:
            report = service.turn()
            assert not report.failures and not report.streams[0].lag

        publish(0, id=1)
        turn()
        assert rows_of(plan) == [{"id": 1}]
        publish(0, id=2)  # of the version before, and not written when the next one comes
        register(streams, client, language, 2)
        publish(1, id=3, note="three")
        streams.publish([("ORDERS.x", b"\xff\xff")])  # of no version
        turn()
        assert rows_of(plan) == [{"id": 1, "note": None}, {"id": 2, "note": None}, {"id": 3, "note": "three"}]
        register(streams, client, language, 3)
        publish(2, id=4, way="post")
        turn()
        assert rows_of(plan)[2:] == [
            {"id": 3, "note": "three", "way": None},
            {"id": 4, "note": None, "way": "post"},
        ]
    assert streams.payloads("LETTERS") == [b"\xff\xff"]
    stored = [one for one in streams.payloads("ORDERS") if one != b"\xff\xff"]
    streams.delete("ORDERS")
    streams.create("COPY", subjects=["ORDERS.>"])
    assert replay(client, plan.opener()("ORDERS", None), "COPY", Wish()).messages == 4
    assert streams.payloads("COPY") == stored


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_wider_type_is_taken_or_told(streams: Streams, client: BulkClient, tmp_path: Path, kind: str) -> None:
    narrow, wide = avro_schema({**ID, "type": "int"}), avro_schema(ID)
    language = Language("avro", (narrow, wide))
    plan = TablePlan(str(tmp_path / "lake"), kind, columns="schema")
    register(streams, client, language, 1)
    reach = ConnectOptions(streams.url)
    payloads = plan.payloads(reach, ["ORDERS"])
    assert payloads is not None
    open_table = plan.opener(lambda: payloads.columns)
    with LakeService(reach, open_table, ["ORDERS"], WriteSettings(), payloads) as service:
        streams.publish([("ORDERS.x", language.payload(0, {"id": 1}))])
        assert not service.turn().failures
        register(streams, client, language, 2)
        streams.publish([("ORDERS.x", language.payload(1, {"id": 2**40}))])
        for _ in range(2):
            report = service.turn()
            if kind == "iceberg":
                assert not report.failures and rows_of(plan) == [{"id": 1}, {"id": 2**40}]
            else:  # nothing is written in a type that cannot hold it
                assert "types of a Delta table stay" in report.failures["ORDERS"]
                assert rows_of(plan) == [{"id": 1}]


def test_a_fingerprint_says_the_version(streams: Streams, client: BulkClient, tmp_path: Path) -> None:
    language = LANGUAGES[1]
    plan = TablePlan(str(tmp_path / "lake"), "iceberg", columns="schema", dead_letters="dead.orders")
    register(streams, client, language, 1)
    reach = ConnectOptions(streams.url)
    payloads = plan.payloads(reach, ["ORDERS"])
    assert payloads is not None

    def marked(version: int, **members: Any) -> bytes:
        canonical = fastavro.schema.to_parsing_canonical_form(json.loads(language.versions[version]))
        mark = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
        return b"\xc3\x01" + mark + language.payload(version, members)

    register(streams, client, language, 3)
    streams.publish(
        [
            ("ORDERS.x", marked(0, id=1)),
            ("ORDERS.x", marked(1, id=2, note="gone")),
            ("ORDERS.x", marked(2, id=3, way="post")),
        ]
    )
    open_table = plan.opener(lambda: payloads.columns)
    with LakeService(reach, open_table, ["ORDERS"], WriteSettings(), payloads) as service:
        assert not service.turn().failures
    assert rows_of(plan) == [{"id": 1, "way": None}, {"id": 2, "way": None}, {"id": 3, "way": "post"}]
    assert streams.state("LETTERS")["messages"] == 0
