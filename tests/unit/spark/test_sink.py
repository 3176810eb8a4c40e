"""Columns and options of a write, rows that cannot be messages, and headers of plain publishes."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, MapType, StringType, StructField, StructType

from slipstream.bulk import BulkError
from slipstream.bulk.encode import encode_batch
from slipstream.kernels.bulk.rowrecords import RowEncoder
from slipstream.spark.runtime.connection import Connection
from slipstream.spark.runtime.errors import OptionError, SchemaError, SparkSideError
from slipstream.spark.sink import commits
from slipstream.spark.sink.checks import BadRow, Room
from slipstream.spark.sink.dead_letters import DeadLetterRows
from slipstream.spark.sink.headers import header_block, header_bytes_bound
from slipstream.spark.sink.options import read_sink_options
from slipstream.spark.sink.rows import RowRules, row_rules

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
        ({"onChangedBatch": "ignore"}, "fail, skip"),
        ({"maxInFlight": "0"}, "whole number"),
        ({"stageTimeout": "59s"}, "'59s' is not from 1m to 24h"),
        ({"stageTimeout": "24h1s"}, "from 1m to 24h"),
        ({"stageTimeout": "soon"}, "is not a duration"),
        ({"subjects": "a"}, "did you mean 'subject'"),
        ({"password": "x"}, "passwordEnv"),
        ({"streams": "A,B"}, "is unknown"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        read_sink_options({"stream": "ORDERS", **options})


def test_how_long_staged_rows_are_kept() -> None:
    times = {None: None, "1m": 60, "90500ms": 91, "24h": 86_400}
    found = {
        text: read_sink_options({"stream": "ORDERS", **({"stageTimeout": text} if text else {})}).stage_keep_s
        for text in times
    }
    assert found == times


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
    assert bad(rules(schema, bucket="prices"), wrong) == [BadRow(1, "its op is 'DROP', not PUT, DEL or PURGE")]


def bad(one: RowRules, batch: pa.RecordBatch, max_bytes: int = 1 << 20, added: int = 0) -> list[BadRow]:
    accepts = (f"$KV.{one.name}.>",) if one.kind == "bucket" else ("orders.>",)
    return one.bad_rows(batch, one.messages(batch), Room("S", accepts, max_bytes, added))


def test_bad_rows() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "subject": ["orders.eu", None, "orders.*", "other", "orders.us", "orders..x", "", "orders.", "orders.a*b"],
            "payload": [b"", b"", b"", b"", b"x" * 5000, b"", b"", b"", b""],
        }
    )
    found = bad(rules(MESSAGE), batch, 4096)
    assert [one.row for one in found] == [1, 2, 3, 4, 5, 6, 7]
    reasons = " | ".join(one.reason for one in found)
    for words in ("no subject", "no subject to publish to", r"'other' is not among the subjects", "5000 bytes", "4096"):
        assert words in reasons


@pytest.mark.parametrize("accepts", ["orders.>", ">", "orders.*.a", "b orders.>", "orders.x.a", "*.>"])
@pytest.mark.parametrize(
    "subject", ["orders.x.a", "orders.", "orders", "b", "orders. ", ".", "orders.>", "ordersx.a", ""]
)
def test_judging_many_subjects_at_once_is_as_judging_each(accepts: str, subject: str) -> None:
    def is_bad(*subjects: str) -> bool:
        batch = pa.RecordBatch.from_pydict({"subject": list(subjects), "payload": [b""] * len(subjects)})
        one = rules(MESSAGE)
        found = one.bad_rows(batch.slice(1), one.messages(batch.slice(1)), Room("S", tuple(accepts.split()), 4096))
        return any(bad.row == 0 for bad in found)

    assert is_bad("skipped", subject) == is_bad("skipped", subject, "a..b", "orders.*")


def test_bad_keys() -> None:
    one = rules(ENTRY, bucket="b")
    batch = pa.RecordBatch.from_pydict({"key": ["ok", "no blanks", "no.*", "", None, "a.", "a.b"], "value": [b""] * 7})
    assert [found.row for found in bad(one, batch)] == [1, 2, 3, 4, 5]
    assert bad(one, batch.slice(6)) == []


def test_sizes_are_those_of_messages() -> None:
    """As a server counts: the payload and the header block, and no byte more."""
    batch = pa.RecordBatch.from_pydict({"subject": ["orders.a"] * 2, "payload": [b"x" * 200, b"x" * 201]})
    assert [one.row for one in bad(rules(MESSAGE), batch, 200)] == [1]
    block = header_block({"headers": [("Kind", "new")], "msg_id": "17"})
    headers = pa.array([[("Kind", "new")], None], pa.map_(pa.string(), pa.string()))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["orders.a"] * 2), pa.array([b"x" * 100] * 2), headers, pa.array(["17", None])],
        names=["subject", "payload", "headers", "msg_id"],
    )
    one = rules(StructType([*MESSAGE_WITH_HEADERS, StructField("msg_id", StringType())]))
    assert bad(one, batch, 100 + len(block)) == []
    found = bad(one, batch, 100 + len(block) - 1)
    assert [(this.row, f"{len(block)} of headers" in this.reason) for this in found] == [(0, True)]
    assert [this.row for this in bad(one, batch, 99)] == [0, 1]
    assert [this.row for this in bad(one, batch, 111, added=5)] == [0, 1], "a block for what is added to the second row"
    assert bad(one, batch, 100 + len(block) + 5, added=5) == []


LISTS = pa.map_(pa.string(), pa.list_(pa.string()))
TEXTS = pa.map_(pa.string(), pa.string())


@pytest.mark.parametrize(
    ("kind", "headers", "words"),
    [
        (LISTS, [("A", None)], "its header 'A' has null in the place of a list"),
        (LISTS, [("", ["1"])], "'' is no name"),
        (LISTS, [("A:", ["1"])], "'A:' is no name"),
        (LISTS, [("A", ["1", "2\r\nInjected: 3"])], "'A' has a value with a line end"),
        (TEXTS, [("A\n", "1")], "no name"),
        (TEXTS, [("A", "\r")], "line end"),
        (TEXTS, [("A", "x" * 65_535)], "its headers have 65552 bytes, more than 65535"),
    ],
)
def test_bad_headers(kind: pa.DataType, headers: list[tuple[str, object]], words: str) -> None:
    fine: list[object] = [
        None,
        [],
        [("B", [] if kind is LISTS else None)],
        [("B", ["1", None] if kind is LISTS else "1")],
    ]
    arrays = [pa.array(["orders.a"] * 5), pa.array([b""] * 5), pa.array([*fine, headers], kind)]
    batch = pa.RecordBatch.from_arrays(arrays, names=["subject", "payload", "headers"])
    one = rules(MESSAGE_WITH_HEADERS)
    found = bad(one, batch)
    assert [this.row for this in found] == [4] and words in found[0].reason
    assert bad(one, batch.slice(0, 4)) == []
    assert [this.row for this in bad(one, batch.slice(3))] == [1]


def test_headers_that_no_check_refuses_are_encoded() -> None:
    fine: list[object] = [None, [], [("B", [])], [("B", ["1", None]), ("C d", ["ä"])]]
    arrays = [pa.array(["a"] * 4), pa.array([b""] * 4), pa.array(fine, LISTS), pa.array(["x", None, "y", None])]
    batch = pa.RecordBatch.from_arrays(arrays, names=["subject", "payload", "headers", "msg_id"])
    staged = b"".join(encode_batch(RowEncoder(), batch))
    for row in batch.to_pylist():
        assert header_block(row) in staged
    assert header_bytes_bound(batch) >= max(len(header_block(row)) for row in batch.to_pylist())


def test_blocks_that_are_none() -> None:
    schema = StructType([*MESSAGE, StructField("hdr_raw", BinaryType())])
    blocks = [None, b"", b"NATS/1.0\r\nA: 1\r\n\r\n", b"NATS/1.0\r\nA: 1\r\n", b"A: 1\r\n\r\n"]
    batch = pa.RecordBatch.from_pydict({"subject": ["orders.a"] * 5, "payload": [b""] * 5, "hdr_raw": blocks})
    assert [one.row for one in bad(rules(schema), batch)] == [3, 4]


def test_rows_without_an_id() -> None:
    schema = StructType([*MESSAGE, StructField("msg_id", StringType())])
    batch = pa.RecordBatch.from_pydict({"subject": ["orders.a"] * 3, "payload": [b""] * 3, "msg_id": ["1", None, ""]})
    found = bad(rules(schema, mode="msgid"), batch)
    assert [one.row for one in found] == [1, 2] and "its 'msg_id' is empty" in found[0].reason
    assert bad(rules(schema), batch) == [], "a transaction needs none"
    entries = pa.RecordBatch.from_pydict({"key": ["a"], "value": [b""], "id": ["7"]})
    one = rules(StructType([*ENTRY, StructField("id", StringType())]), bucket="b", mode="msgid", idColumn="id")
    assert one.messages(entries).column("msg_id").to_pylist() == ["7"]


def test_dead_letters_have_ids_of_their_rows() -> None:
    columns = {
        "subject": ["a", "a", "b", None],
        "payload": [b"1", b"1", b"1", b"2"],
        "msg_id": [None, None, "x", "\r\n"],
    }
    rows = [BadRow(row, "wrong\r\nInjected: 1") for row in range(4)]

    def ids(partition: int) -> list[str]:
        letters = DeadLetterRows("dead", partition, with_ids=True).batch(pa.RecordBatch.from_pydict(columns), rows)
        assert all(len(block.splitlines()) == 5 for block in letters.column("hdr_raw").to_pylist())
        return letters.column("msg_id").to_pylist()  # type: ignore[no-any-return]

    assert ids(0) == ids(0) and len(set(ids(0))) == 4
    assert set(ids(0)) & set(ids(1)) == {"dead:x"}
    without = DeadLetterRows("dead", 0, with_ids=False).batch(pa.RecordBatch.from_pydict(columns), rows)
    assert "msg_id" not in without.schema.names


def test_headers_of_plain_publishes() -> None:
    row = {"headers": [("A", ["1", "2"]), ("B", "3")], "msg_id": "x", "ttl": 5, "expected_last_subject_seq": None}
    assert header_block(row) == b"NATS/1.0\r\nA: 1\r\nA: 2\r\nB: 3\r\nNats-Msg-Id: x\r\nNats-TTL: 5\r\n\r\n"
    assert header_block({"headers": None}) == b""
    raw = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"
    assert header_block({"hdr_raw": raw, "ttl": "1"}) == b"NATS/1.0\r\nKV-Operation: DEL\r\nNats-TTL: 1\r\n\r\n"


@pytest.mark.parametrize("headers", [[("A", "1\r\nInjected: 2")], [("A\r\n", "1")], [("", "1")], [("A:b", "1")]])
def test_headers_cannot_be_smuggled_in(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(SparkSideError, match="cannot be a header"):
        header_block({"headers": headers})


@pytest.mark.parametrize(
    ("err_code", "text", "words"),
    [
        (10077, "maximum messages exceeded", "is full and refuses new messages"),
        (30014, "8192 transactions have written", "leave out txnId"),
        (10077, "the disk failed", None),
        (30012, "no room to stage", None),
    ],
)
def test_refusals_that_do_not_pass(
    monkeypatch: pytest.MonkeyPatch, err_code: int, text: str, words: str | None
) -> None:
    """What trying again does not help is an error of its own at once; the rest is left to the retries."""

    class Client:
        def commit(self, *_: object, **__: object) -> None:
            raise BulkError(text, retryable=True, err_code=err_code)

    monkeypatch.setattr(commits, "retrying", lambda _reach, _timeout, call: call(Connection(Client())))  # type: ignore[arg-type]
    with pytest.raises(SparkSideError if words else BulkError, match=words or text):
        commits.commit_stream(read_sink_options({"stream": "S"}), "S", "t", 0, [], brief=False)


def test_map_types_of_headers() -> None:
    assert "headers" in rules(MESSAGE_WITH_HEADERS).names


MESSAGE_WITH_HEADERS = (
    StructType()
    .add("subject", StringType())
    .add("payload", BinaryType())
    .add("headers", MapType(StringType(), StringType()))
)
