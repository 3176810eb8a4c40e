"""Batches as Spark expects them: text, JSON, and the entries of buckets."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from slipstream.bulk.arrow import message_schema
from slipstream.spark.source import json_payloads
from slipstream.spark.source.rows import PayloadError, Shaper
from slipstream.spark.source.schema import SourceColumns


def shaped(payloads: list[bytes], kind: pa.DataType, payload_format: str, *, errors_fail: bool = False) -> list[object]:
    columns = SourceColumns(("payload",), pa.schema([pa.field("payload", kind)]), "payload")
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


TIMED = pa.struct(
    [
        pa.field("id", pa.int64()),
        pa.field("t", pa.timestamp("us", "UTC")),
        pa.field("day", pa.date32()),
        pa.field("f", pa.float32()),
    ]
)
NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        b'"2024-01-31T12:00:00Z"',
        b'"2024-01-31 12:00:00"',
        b'"2024-01-31T13:00:00+01:00"',
        b'"2024-01-31T12:00:00.000000999Z"',
        b"1706702400",
    ],
)
def test_times_are_read_the_same_beside_a_bad_payload(text: bytes) -> None:
    row = b'{"id": 1, "t": %s, "day": "2024-01-31"}' % text
    good = {"id": 1, "t": NOON, "day": date(2024, 1, 31), "f": None}
    assert shaped([row, row], TIMED, "json") == [good, good]
    assert shaped([row, b"oops", row], TIMED, "json") == [good, None, good]


@pytest.mark.parametrize(
    "bad",
    [
        b'{"id": 1.5}',
        b'{"id": 1e20}',
        b'{"id": 99999999999999999999}',
        b'{"id": %s}' % (b"9" * 5000),
        b'{"t": 1.5}',
        b'{"t": 1e12}',
        b'{"t": 999999999999999}',
        b'{"day": 19000}',
        b'{"day": "2024-02-30"}',
        b'{"f": 1e39}',
        b"[" * 50_000,
        b'{"id": 1}{"id": 2}',
    ],
)
def test_what_does_not_fit_is_the_error_of_its_own_row(bad: bytes) -> None:
    row, good = b'{"id": 2}', {"id": 2, "t": None, "day": None, "f": None}
    assert shaped([row, bad, row], TIMED, "json") == [good, None, good]
    assert shaped([bad, b""], TIMED, "json") == [None, None]
    with pytest.raises(PayloadError, match="not JSON of the given schema"):
        shaped([row, bad], TIMED, "json", errors_fail=True)


def test_maps_from_json() -> None:
    kind = pa.struct([pa.field("m", pa.map_(pa.string(), pa.timestamp("us", "UTC")))])
    rows = [b'{"m": {"a": 1706702400, "b": null}}', b'{"m": {}}', b'{"m": {"a": true}}', b"{}"]
    assert shaped(rows, kind, "json") == [{"m": [("a", NOON), ("b", None)]}, {"m": []}, None, {"m": None}]


def test_only_the_rows_around_a_bad_one_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    slow: list[bytes] = []
    read = json_payloads._row

    def counted(payload: bytes, *more: Any) -> Any:
        slow.append(payload)
        return read(payload, *more)

    monkeypatch.setattr(json_payloads, "_row", counted)
    rows = [b'{"id": %d}' % number for number in range(2000)]
    rows[777] = b"oops"
    found = shaped(rows, STRUCT, "json")
    assert [row["id"] for row in found if isinstance(row, dict)] == [*range(777), *range(778, 2000)]
    assert len(slow) == json_payloads._PIECE_ROWS


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
    shaper = Shaper(SourceColumns(tuple(wanted.names), wanted, "value"), True, "raw", False)
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
