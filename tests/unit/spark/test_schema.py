"""Columns of a read: defaults, choices, refusals."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from slipstream.bulk.arrow import DEFAULT_COLUMNS, message_schema
from slipstream.spark.runtime.errors import OptionError, SchemaError
from slipstream.spark.source.options import read_source_options
from slipstream.spark.source.schema import source_columns, source_ddl

STREAM = (
    StructType()
    .add("stream", StringType())
    .add("seq", LongType())
    .add("ts", TimestampType())
    .add("subject", StringType())
    .add("headers", MapType(StringType(), ArrayType(StringType())))
    .add("payload", BinaryType())
)


def options(**given: str):  # type: ignore[no-untyped-def]
    given = given if {"bucket", "objectStore"} & set(given) else {"stream": "ORDERS", **given}
    return read_source_options(given, streaming=False)


def test_default_columns() -> None:
    assert source_ddl(options()) == (
        "`stream` string, `seq` bigint, `ts` timestamp, `subject` string, "
        "`headers` map<string,array<string>>, `payload` binary"
    )
    assert "`hdr_raw` binary" in source_ddl(options(headers="raw"))
    assert "headers" not in source_ddl(options(headers="none"))
    assert source_ddl(options(bucket="b")).startswith("`key` string, `value` binary, `op` string, `revision` bigint")
    assert source_ddl(options(objectStore="b")).startswith("`name` string, `data` binary")


def test_spark_expects_what_the_kernel_builds() -> None:
    columns = source_columns(STREAM, options())
    assert columns.names == DEFAULT_COLUMNS
    assert columns.arrow.equals(message_schema(DEFAULT_COLUMNS))


def test_chosen_columns() -> None:
    assert source_ddl(options(columns="seq,size")) == "`seq` bigint, `size` int"
    with pytest.raises(OptionError, match="there are stream, seq"):
        source_ddl(options(columns="seq,colour"))


def test_payloads_as_text_and_json() -> None:
    assert "`payload` string" in source_ddl(options(payloadFormat="string"))
    json = options(payloadFormat="json", payloadSchema="id bigint, name string")
    assert "`payload` struct<id bigint, name string>" in source_ddl(json)
    struct = StructType().add("payload", StructType().add("id", LongType()))
    assert source_columns(struct, json).arrow.field("payload").type == pa.struct([pa.field("id", pa.int64())])


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (StructType(), "at least one column"),
        (StructType().add("colour", StringType()), "there is no column 'colour'"),
        (StructType().add("seq", IntegerType()), "is bigint, not int"),
        (StructType().add("payload", StringType()), "payloadFormat=string"),
        (StructType().add("payload", StructType().add("id", LongType())), "payloadFormat=json"),
    ],
)
def test_schemas_that_do_not_fit(schema: StructType, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        source_columns(schema, options())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (MapType(LongType(), StringType()), r"payload\.x is map<bigint,string>: JSON is read as"),
        (ArrayType(DayTimeIntervalType()), r"payload\.x\[\] is interval .*payloadFormat=string"),
    ],
)
def test_types_that_json_is_not_read_as_are_refused_before_a_task_runs(kind: DataType, words: str) -> None:
    schema = StructType().add("payload", StructType().add("x", kind))
    with pytest.raises(SchemaError, match=words):
        source_columns(schema, options(payloadFormat="json", payloadSchema="x int"))
    schema = StructType().add("payload", StructType().add("x", MapType(StringType(), ArrayType(TimestampType()))))
    assert source_columns(schema, options(payloadFormat="json", payloadSchema="x int")).names == ("payload",)
