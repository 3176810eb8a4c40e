"""The kernels between records and Arrow against rows in plain Python, and against hostile bytes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from models.bulk_rows import checksum_of, header_block, row_of  # noqa: E402
from models.records import Record, encode_record  # noqa: E402
from slipstream.bulk.arrow import ALL_COLUMNS, message_schema, record_batch  # noqa: E402
from slipstream.bulk.encode import encode_batch  # noqa: E402
from slipstream.bulk.errors import BulkError  # noqa: E402
from slipstream.kernels.bulk.arrowrows import RowDecoder  # noqa: E402
from slipstream.kernels.bulk.rowrecords import RowEncoder  # noqa: E402
from slipstream.kernels.subjects.subject import matches  # noqa: E402

NAMES = st.sampled_from(["A", "B", "Trace-Id", "Nats-Msg-Id", "ä", "x" * 40])
LINES = st.lists(
    st.one_of(
        st.tuples(NAMES, st.text("ab \t:ü", max_size=12)).map(lambda pair: f"{pair[0]}: {pair[1]}".encode()),
        st.sampled_from(
            [b"no colon", b": no name", b"  Spaced  :  value  ", b"A:\xff\xfe", b"\xff: x", b"odd\rline: 1"]
        ),
    ),
    max_size=30,
)
BLOCKS = st.one_of(
    st.just(b""),
    LINES.map(lambda lines: b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"),
    st.binary(min_size=1, max_size=40),
    st.just(b"NATS/1.0 503 No Responders\r\n\r\n"),
)
SUBJECTS = st.one_of(
    st.sampled_from([b"a", b"a.b", b"a.b.c", b"orders.eu.1", "grün".encode(), b"\xff.\xfe"]),
    st.binary(min_size=1, max_size=20),
)
TIMES = st.one_of(st.integers(-(2**40), 2**40), st.integers(1_700_000_000_000_000_000, 1_800_000_000_000_000_000))
PARTS = st.tuples(SUBJECTS, BLOCKS, st.binary(max_size=60), TIMES, st.sampled_from([0, 0, 7]))


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    """Messages with growing sequences."""
    seq, out = 0, []
    for subject, block, payload, ts, expires in draw(st.lists(PARTS, max_size=12)):
        seq += draw(st.integers(1, 3))
        out.append(Record(seq, ts, subject, block, payload, expires=expires))
    return out


def rows_of(batch: Any) -> list[dict[str, Any]]:
    columns = [batch.column(name) for name in batch.schema.names]
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in columns]
    batch.validate(full=True)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()


def decoded(decoder: RowDecoder, chunks: list[bytes], columns: tuple[str, ...]) -> list[Any]:
    schema, batches = message_schema(columns), []
    for chunk in chunks:
        at = 0
        while (at := decoder.feed(chunk, at)) < len(chunk):
            batches.append(record_batch(decoder, schema))
    if decoder.rows:
        batches.append(record_batch(decoder, schema))
    return batches


@given(record_lists(), st.integers(1, 5), st.integers(1, 400), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_every_column(records: list[Record], max_rows: int, max_bytes: int, split: int, salt: int) -> None:
    chunks = [
        b"".join(encode_record(record, salt) for record in records[at : at + split])
        for at in range(0, len(records), split)
    ]
    decoder = RowDecoder(ALL_COLUMNS, b"ORDERS", max_rows, max_bytes, salt=salt)
    batches = decoded(decoder, chunks, ALL_COLUMNS)
    assert [row for batch in batches for row in rows_of(batch)] == [row_of(record, "ORDERS") for record in records]
    assert all(batch.num_rows <= max_rows for batch in batches)
    assert decoder.records == len(records) and decoder.damaged == []
    assert decoder.crc == checksum_of(records), "whatever the key"


@given(record_lists(), st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=3))
def test_keys_that_change(records: list[Record], salts: list[int]) -> None:
    decoder = RowDecoder(("seq",), b"S")
    for number, record in enumerate(records):
        decoder.salt = salts[number % len(salts)]
        data = encode_record(record, decoder.salt)
        assert decoder.feed(data) == len(data)
    assert (decoder.crc, decoder.damaged) == (checksum_of(records), [])


@given(record_lists(), st.sets(st.sampled_from(ALL_COLUMNS), min_size=1))
def test_only_wanted_columns(records: list[Record], wanted: set[str]) -> None:
    columns = tuple(sorted(wanted))
    data = b"".join(encode_record(record, 0) for record in records)
    batches = decoded(RowDecoder(columns, b"S"), [data], columns)
    expected = [{name: row_of(record, "S")[name] for name in columns} for record in records]
    assert [row for batch in batches for row in rows_of(batch)] == expected


@given(
    record_lists(),
    st.integers(0, 10),
    st.integers(0, 20),
    st.integers(-(2**40), 2**40),
    st.integers(-(2**40), 2**40),
    st.lists(st.sampled_from([b">", b"*", b"a.>", b"a.*", b"*.b", b"a.b", b"orders.*.1"]), max_size=2),
)
def test_row_filter(records: list[Record], first: int, last: int, start: int, end: int, filters: list[bytes]) -> None:
    data = b"".join(encode_record(record, 0) for record in records)
    limits = {"first_seq": first, "last_seq": last, "start_ns": start, "end_ns": end, "filters": filters}
    batches = decoded(RowDecoder(("seq",), **limits), [data], ("seq",))
    assert [seq for batch in batches for seq in batch.column(0).to_pylist()] == [
        record.seq
        for record in records
        if first <= record.seq <= last
        and start <= record.ts < end
        and (not filters or any(matches(pattern, record.subject) for pattern in filters))
    ]


def test_many_header_lines_are_grouped() -> None:
    lines = b"".join(b"H%d: %d\r\n" % (k % 300, k) for k in range(1000))
    record = Record(1, 0, b"s", b"NATS/1.0\r\n" + lines + b"\r\n", b"")
    (batch,) = decoded(RowDecoder(("headers",)), [encode_record(record, 0)], ("headers",))
    assert rows_of(batch)[0] == {"headers": row_of(record, "")["headers"]}


@given(record_lists().filter(bool), st.data())
def test_changed_bytes_are_found(records: list[Record], data: st.DataObject) -> None:
    """One changed byte never changes what is delivered; what is missing shows: named, or in the count of the end mark.

    Lengths that were changed may swallow records behind them; padding does not matter.
    """
    encoded = [encode_record(record, 0) for record in records]
    whole = b"".join(encoded)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    decoder = RowDecoder(("seq", "payload", "headers", "subject"))
    try:
        batches = decoded(decoder, [changed], ("seq", "payload", "headers", "subject"))
    except ValueError:
        return
    rows = [row for batch in batches for row in rows_of(batch)]
    originals = {record.seq: record for record in records}
    for row in rows:
        assert row["payload"] == originals[row["seq"]].payload
    assert len(rows) == len(records) or decoder.damaged or decoder.records != len(records)


@given(record_lists().filter(bool), st.data())
def test_truncated_bytes_are_no_records(records: list[Record], data: st.DataObject) -> None:
    whole = b"".join(encode_record(record, 0) for record in records)
    cut = data.draw(st.integers(0, len(whole)))
    decoder = RowDecoder(("seq", "payload"))
    try:
        batches = decoded(decoder, [whole[:cut]], ("seq", "payload"))
    except ValueError:
        return
    rows = [row["seq"] for batch in batches for row in rows_of(batch)]
    assert rows == [record.seq for record in records][: len(rows)]


@given(st.binary(max_size=200), st.integers(0, 250))
def test_noise_never_crashes(noise: bytes, at: int) -> None:
    decoder = RowDecoder(ALL_COLUMNS, b"S")
    with suppress(ValueError):
        decoder.feed(noise, at)
    decoder.take()


def test_sequences_must_grow() -> None:
    one, two = (encode_record(Record(seq, 0, b"s", b"", b""), 0) for seq in (1, 2))
    decoder = RowDecoder(("seq",))
    with pytest.raises(ValueError, match="not above 2"):
        decoder.feed(one + two + two)


# --- rows to records ------------------------------------------------------------------------------------------------

VALUES = st.text("abc ü", max_size=5)
WRITTEN = st.fixed_dictionaries(
    {
        "subject": st.text("ab.ü", min_size=1, max_size=8),
        "payload": st.one_of(st.none(), st.binary(max_size=30)),
        "headers": st.one_of(
            st.none(),
            st.lists(
                st.tuples(st.text("ABc-", min_size=1, max_size=4), st.lists(st.one_of(st.none(), VALUES), max_size=3))
            ),
        ),
        "msg_id": st.one_of(st.none(), VALUES),
        "ttl": st.one_of(st.none(), st.integers(1, 99)),
        "expected_last_subject_seq": st.one_of(st.none(), st.integers(0, 2**40)),
    }
)
TYPES = {
    "subject": pa.string(),
    "payload": pa.binary(),
    "headers": pa.map_(pa.string(), pa.list_(pa.string())),
    "msg_id": pa.string(),
    "ttl": pa.int32(),
    "expected_last_subject_seq": pa.int64(),
}


def encoded_model(rows: list[dict[str, Any]]) -> list[Record]:
    out = []
    for number, row in enumerate(rows, 1):
        own = [
            ("Nats-Msg-Id", row.get("msg_id")),
            ("Nats-TTL", None if row.get("ttl") is None else str(row["ttl"])),
            (
                "Nats-Expected-Last-Subject-Sequence",
                None if row.get("expected_last_subject_seq") is None else str(row["expected_last_subject_seq"]),
            ),
        ]
        block = header_block(row.get("headers"), own)
        out.append(Record(number, 0, row["subject"].encode(), block, row["payload"] or b""))
    return out


def batch_of(rows: list[dict[str, Any]], columns: list[str]) -> Any:
    return pa.RecordBatch.from_arrays(
        [pa.array([row[name] for row in rows], TYPES[name]) for name in columns], names=columns
    )


@given(st.lists(WRITTEN, max_size=8), st.sets(st.sampled_from(list(TYPES))), st.integers(0, 3), st.integers(0, 3))
def test_written_rows(rows: list[dict[str, Any]], chosen: set[str], skip: int, drop: int) -> None:
    columns = sorted(chosen | {"subject", "payload"})
    batch = batch_of(rows, columns)
    kept = slice(min(skip, len(rows)), max(len(rows) - drop, 0))
    batch = batch.slice(kept.start, max(kept.stop - kept.start, 0))
    shown = [{name: row[name] for name in columns} for row in rows[kept]]
    encoder = RowEncoder()
    data = b"".join(encode_batch(encoder, batch))
    records = encoded_model(shown)
    assert data == b"".join(encode_record(record, 0) for record in records)
    assert (encoder.rows, encoder.size, encoder.crc) == (len(shown), len(data), checksum_of(records))


def test_other_forms_of_columns() -> None:
    texts = pa.array(["a.b", "c.d"])
    batch = pa.RecordBatch.from_arrays(
        [
            texts.dictionary_encode(),
            pa.array(["one", None], pa.large_string()),
            pa.array([[("K", "1")], None], pa.map_(pa.string(), pa.string())),
            pa.array(["1h", None]),
        ],
        names=["subject", "payload", "headers", "ttl"],
    )
    rows = [
        {"subject": "a.b", "payload": b"one", "headers": [("K", "1")], "ttl": "1h"},
        {"subject": "c.d", "payload": b"", "headers": None, "ttl": None},
    ]
    expected = b"".join(encode_record(record, 0) for record in encoded_model(rows))
    assert b"".join(encode_batch(RowEncoder(), batch)) == expected


def test_what_was_read_can_be_written() -> None:
    block = b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"
    record = Record(1, 5, b"a", block, b"p")
    for name in ("headers", "hdr_raw"):
        columns = ("stream", "seq", "ts", "subject", name, "payload", "size")
        (batch,) = decoded(RowDecoder(columns, b"S"), [encode_record(record, 0)], columns)
        written = b"".join(encode_batch(RowEncoder(), batch))
        assert written == encode_record(Record(1, 0, b"a", block, b"p"), 0)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"subject": None, "payload": b""}], "row 0 has no subject"),
        ([{"subject": "a", "payload": b""}, {"subject": "", "payload": b""}], "row 1 has no subject"),
        ([{"subject": "a" * 65_536, "payload": b""}], "more than 65535"),
        ([{"subject": "a", "payload": b"", "headers": [("a:b", ["x"])]}], "header name"),
        ([{"subject": "a", "payload": b"", "headers": [("", ["x"])]}], "header name"),
        ([{"subject": "a", "payload": b"", "headers": [("a", ["x\r\ny: 1"])]}], "line end"),
        ([{"subject": "a", "payload": b"", "msg_id": "x\ny"}], "line end"),
        ([{"subject": "a", "payload": b"", "headers": [("a", ["x" * 70_000])]}], "headers of more than 65535"),
    ],
)
def test_rows_that_cannot_be_messages(rows: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(BulkError, match=said):
        list(encode_batch(RowEncoder(), batch_of(rows, list(rows[0]))))


def test_columns_that_cannot_be_written() -> None:
    with pytest.raises(BulkError, match="column subject"):
        list(encode_batch(RowEncoder(), pa.RecordBatch.from_pydict({"payload": [b"x"]})))
    with pytest.raises(BulkError, match="must be a map"):
        list(encode_batch(RowEncoder(), pa.RecordBatch.from_pydict({"subject": ["a"], "headers": ["x"]})))
    with pytest.raises(BulkError, match="cannot be written"):
        list(encode_batch(RowEncoder(), pa.RecordBatch.from_pydict({"subject": ["a"], "payload": [[1]]})))


def test_buffers_that_lie_are_refused() -> None:
    four = (4).to_bytes(4, "little")
    good = (None, bytes(4) + four, b"abcd", 0, 1)
    RowEncoder().begin(1, good, good)
    for bad in (
        (None, bytes(4), b"abcd", 0, 1),
        (None, bytes(4) + four, b"abcd", 1, 1),
        (b"", bytes(4) + four, b"abcd", 0, 1),
        (None, None, b"abcd", 0, 1),
        (None, bytes(4) + four, b"abcd", -1, 1),
        (None, bytes(4) + four, b"abcd", 0, 2),
    ):
        with pytest.raises(ValueError, match=r"."):
            RowEncoder().begin(1, good, bad)
    encoder = RowEncoder()
    encoder.begin(1, good, (None, bytes(4) + four, b"abc", 0, 1))
    with pytest.raises(ValueError, match="row 0 has offsets outside"):
        encoder.next_piece()
