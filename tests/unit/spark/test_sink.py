"""Columns and options of a write, rows that cannot be messages, and headers of plain publishes."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, MapType, StringType, StructField, StructType

from slipstream.spark.errors import OptionError, SchemaError
from slipstream.spark.publish import PublishError, header_block
from slipstream.spark.sink_options import read_sink_options
from slipstream.spark.sink_rows import RowRules, row_rules

MESSAGE = StructType().add("subject", StringType()).add("payload", BinaryType())
ENTRY = StructType().add("key", StringType()).add("value", BinaryType())


def rules(schema: StructType, **options: str) -> RowRules:
    target = options if {"bucket", "objectStore"} & set(options) else {"stream": "ORDERS", **options}
    return pickle.loads(pickle.dumps(row_rules(schema, read_sink_options(target))))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "best"}, "auto, transaction, atomic, msgid, append"),
        ({"onError": "dlq"}, "goes together"),
        ({"dlqSubject": "dead"}, "goes together"),
        ({"txnId": "a b"}, "letters"),
        ({"maxInFlight": "0"}, "whole number"),
        ({"subjects": "a"}, "did you mean 'subject'"),
        ({"password": "x"}, "passwordEnv"),
        ({"streams": "A,B"}, "is unknown"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_sink_options({"stream": "ORDERS", **options})


def test_targets_and_what_goes_with_them() -> None:
    for options in (
        {"bucket": "b", "subject": "x"},
        {"objectStore": "b", "mode": "msgid"},
        {"bucket": "b", "createStream": "true"},
    ):
        with pytest.raises(OptionError):
            read_sink_options(options)


def test_a_batch_has_its_own_transaction_unless_told() -> None:
    one, other = (read_sink_options({"stream": "A"}).txn_id for _ in range(2))
    assert one != other
    assert read_sink_options({"stream": "A", "txnId": "nightly-7"}).txn_id == "nightly-7"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (StructType().add("payload", BinaryType()), "column 'subject' is missing.*takes subject, payload"),
        (StructType().add("subject", StringType()), "column 'payload' is missing"),
        (
            StructType().add("subject", StringType()).add("payload", IntegerType()),
            "'payload' is int, not string or binary",
        ),
        (StructType([*MESSAGE, StructField("headers", StringType())]), "'headers' is string, not map"),
    ],
)
def test_columns_that_do_not_fit(schema: StructType, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        rules(schema)


def test_one_subject_for_all() -> None:
    one = rules(StructType().add("payload", BinaryType()), subject="orders.all")
    batch = pa.RecordBatch.from_pydict({"payload": [b"a", b"b"]})
    assert one.messages(batch).to_pydict() == {"payload": [b"a", b"b"], "subject": ["orders.all"] * 2}


def test_ids() -> None:
    schema = StructType().add("subject", StringType()).add("payload", BinaryType()).add("order", LongType())
    batch = pa.RecordBatch.from_pydict({"subject": ["a"], "payload": [b"p"], "order": [7]})
    assert rules(schema, idColumn="order").messages(batch).column("msg_id").to_pylist() == ["7"]
    with pytest.raises(SchemaError, match="idColumn 'colour'"):
        rules(schema, idColumn="colour")


def test_ids_of_what_was_read() -> None:
    schema = StructType().add("stream", StringType()).add("seq", LongType()).add("subject", StringType())
    one = rules(StructType([*schema, MESSAGE["payload"]]), mode="msgid")
    batch = pa.RecordBatch.from_pydict({"stream": ["A"], "seq": [5], "subject": ["a"], "payload": [b"p"]})
    assert one.messages(batch).column("msg_id").to_pylist() == ["A:5"]


def test_entries_of_a_bucket() -> None:
    schema = (
        StructType()
        .add("key", StringType())
        .add("value", StringType())
        .add("op", StringType())
        .add("revision", LongType())
    )
    batch = pa.RecordBatch.from_pydict(
        {
            "key": ["a", "b.c", "d"],
            "value": ["1", None, "x"],
            "op": [None, "del", "PURGE"],
            "revision": [None, 4, None],
        },
        schema=pa.schema([("key", pa.string()), ("value", pa.string()), ("op", pa.string()), ("revision", pa.int64())]),
    )
    found = rules(schema, bucket="prices").messages(batch).to_pydict()
    assert found["subject"] == ["$KV.prices.a", "$KV.prices.b.c", "$KV.prices.d"]
    assert found["payload"] == ["1", "", ""]
    assert found["hdr_raw"][0] is None and b"KV-Operation: DEL" in found["hdr_raw"][1]
    assert b"KV-Operation: PURGE" in found["hdr_raw"][2]
    assert rules(schema, bucket="prices").purged(batch) == ["$KV.prices.d"]
    assert found["expected_last_subject_seq"] == [None, 4, None]
    wrong = batch.set_column(2, "op", pa.array(["PUT", "DROP", "PUT"]))
    with pytest.raises(SchemaError, match="'DROP'"):
        rules(schema, bucket="prices").messages(wrong)


def test_bad_rows() -> None:
    messages = pa.RecordBatch.from_pydict(
        {
            "subject": ["orders.eu", None, "orders.*", "other", "orders.us", "orders..x"],
            "payload": [b"", b"", b"", b"", b"x" * 5000, b""],
        }
    )
    found = rules(MESSAGE).bad_rows(messages, 4096, ("orders.>",))
    assert [one.row for one in found] == [1, 2, 3, 4, 5]
    reasons = " | ".join(one.reason for one in found)
    for words in ("no subject", "no subject to publish to", "not among the subjects", "5000 bytes", "4096"):
        assert words in reasons
    assert [one.row for one in rules(MESSAGE).bad_rows(messages, 4096)] == [1, 4]


def test_bad_keys() -> None:
    one = rules(ENTRY, bucket="b")
    batch = pa.RecordBatch.from_pydict({"key": ["ok", "no blanks", "no.*", ""], "value": [b""] * 4})
    assert [bad.row for bad in one.bad_rows(one.messages(batch), 4096, ("$KV.b.>",))] == [1, 2, 3]


def test_headers_of_plain_publishes() -> None:
    row = {"headers": [("A", ["1", "2"]), ("B", "3")], "msg_id": "x", "ttl": 5, "expected_last_subject_seq": None}
    assert header_block(row) == b"NATS/1.0\r\nA: 1\r\nA: 2\r\nB: 3\r\nNats-Msg-Id: x\r\nNats-TTL: 5\r\n\r\n"
    assert header_block({"headers": None}) == b""
    raw = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"
    assert header_block({"hdr_raw": raw}, {"N": "1"}) == b"NATS/1.0\r\nKV-Operation: DEL\r\nN: 1\r\n\r\n"


@pytest.mark.parametrize("headers", [[("A", "1\r\nInjected: 2")], [("A\r\n", "1")], [("", "1")], [("A b", "1")]])
def test_headers_cannot_be_smuggled_in(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(PublishError, match="cannot be a header"):
        header_block({"headers": headers})


def test_map_types_of_headers() -> None:
    assert "headers" in rules(MESSAGE_WITH_HEADERS).names


MESSAGE_WITH_HEADERS = (
    StructType()
    .add("subject", StringType())
    .add("payload", BinaryType())
    .add("headers", MapType(StringType(), StringType()))
)
