"""Batches as Spark expects them: text, JSON, and the entries of buckets."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from slipstream.bulk.arrow import message_schema
from slipstream.spark.rows import PayloadError, Shaper
from slipstream.spark.schema import Columns


def shaped(payloads: list[bytes], kind: pa.DataType, payload_format: str, *, errors_fail: bool = False) -> list[object]:
    columns = Columns(("payload",), pa.schema([pa.field("payload", kind)]), "payload")
    batch = pa.RecordBatch.from_arrays([pa.array(payloads, pa.binary())], schema=message_schema(["payload"]))
    shaper = pickle.loads(pickle.dumps(Shaper(columns, False, payload_format, errors_fail)))
    result = shaper.shape(batch)
    assert result.schema.equals(columns.arrow)
    return result.column("payload").to_pylist()  # type: ignore[no-any-return]


def test_text() -> None:
    assert shaped([b"a", "ä".encode()], pa.string(), "string") == ["a", "ä"]
    assert shaped([b"a", b"\xff"], pa.string(), "string") == ["a", None]
    with pytest.raises(PayloadError, match="not UTF-8"):
        shaped([b"a", b"\xff"], pa.string(), "string", errors_fail=True)


STRUCT = pa.struct([pa.field("id", pa.int64()), pa.field("tags", pa.list_(pa.field("element", pa.string())))])


def test_json_objects() -> None:
    rows = [b'{"id": 1, "tags": ["x"], "more": {"a": 1}}', b'{"tags": null}', b'{"id": 3}']
    assert shaped(rows, STRUCT, "json") == [
        {"id": 1, "tags": ["x"]},
        {"id": None, "tags": None},
        {"id": 3, "tags": None},
    ]


def test_json_over_several_lines_or_empty() -> None:
    assert shaped([b'{\n"id": 1}', b"", b'{"id": 2}'], STRUCT, "json") == [
        {"id": 1, "tags": None},
        None,
        {"id": 2, "tags": None},
    ]


@pytest.mark.parametrize("bad", [b"{", b"[1]", b'{"id": "many"}', b"\xff", b"1", b"null"])
def test_bad_json_becomes_null_or_fails(bad: bytes) -> None:
    assert shaped([b'{"id": 1}', bad, b'{"id": 2}'], STRUCT, "json") == [
        {"id": 1, "tags": None},
        None,
        {"id": 2, "tags": None},
    ]
    with pytest.raises(PayloadError, match="not JSON"):
        shaped([b'{"id": 1}', bad], STRUCT, "json", errors_fail=True)


def test_entries_of_a_bucket() -> None:
    wanted = pa.schema(
        [
            pa.field("key", pa.string()),
            pa.field("value", pa.binary()),
            pa.field("op", pa.string()),
            pa.field("revision", pa.int64()),
            pa.field("bucket", pa.string()),
        ]
    )
    shaper = Shaper(Columns(tuple(wanted.names), wanted, "value"), True, "raw", False)
    assert set(shaper.stream_columns) == {"subject", "payload", "hdr_raw", "seq", "stream"}
    rows = [
        ("$KV.prices.apple", b"1", None),
        ("$KV.prices.pear.green", b"2", b"NATS/1.0\r\nX: y\r\n\r\n"),
        ("$KV.prices.apple", b"", b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"),
        ("$KV.prices.plum", b"", b"NATS/1.0\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n\r\n"),
        ("$KV.prices.fig", b"", b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\n\r\n"),
    ]
    names = list(shaper.stream_columns)
    columns = {
        "subject": [row[0] for row in rows],
        "payload": [row[1] for row in rows],
        "hdr_raw": [row[2] for row in rows],
        "seq": list(range(1, 6)),
        "stream": ["KV_prices"] * 5,
    }
    schema = message_schema(names)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(columns[name], schema.field(name).type) for name in names], schema=schema
    )
    assert shaper.shape(batch).to_pylist() == [
        {"key": "apple", "value": b"1", "op": "PUT", "revision": 1, "bucket": "prices"},
        {"key": "pear.green", "value": b"2", "op": "PUT", "revision": 2, "bucket": "prices"},
        {"key": "apple", "value": None, "op": "DEL", "revision": 3, "bucket": "prices"},
        {"key": "plum", "value": None, "op": "PURGE", "revision": 4, "bucket": "prices"},
        {"key": "fig", "value": None, "op": "PURGE", "revision": 5, "bucket": "prices"},
    ]
