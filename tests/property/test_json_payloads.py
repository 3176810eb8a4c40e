"""JSON payloads: a batch parsed together is each of its rows parsed alone, and both parsers agree."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from slipstream.spark.source.json_payloads import _row, _usual, structs_of

INNER = pa.struct([pa.field("a", pa.int32()), pa.field("when", pa.timestamp("us", "UTC"))])
WANTED = pa.struct(
    [
        pa.field("id", pa.int64()),
        pa.field("small", pa.int8()),
        pa.field("d", pa.float64()),
        pa.field("f", pa.float32()),
        pa.field("b", pa.bool_()),
        pa.field("s", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("n", pa.decimal128(5, 2)),
        pa.field("t", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("day", pa.date32()),
        pa.field("list", pa.list_(pa.field("element", pa.timestamp("us", "UTC")))),
        pa.field("inner", INNER),
        pa.field("inners", pa.list_(pa.field("element", INNER))),
    ]
)
REQUIRED = pa.struct([pa.field("id", pa.int64(), nullable=False), pa.field("inner", INNER)])
MAPPED = pa.struct([pa.field("id", pa.int64()), pa.field("t", pa.map_(pa.string(), pa.int64()))])

NAMES = [field.name for field in WANTED] + ["a", "when", "other"]
TIMES = [
    "2024-02-29",
    "2024-01-01T00:00:00",
    "2024-01-01 10:00:00Z",
    "2024-01-01T00:00:00.123456789+02:00",
    "2024-01-01T00:00:00.1234567",
    "0000-01-01",
    "9999-12-31T23:59:59.999999Z",
    "2024-13-01",
    "20240101",
]
NUMBERS = [
    *("0", "-0", "1", "-1", "127", "128", "1.5", "1.0", "1e2", "1e20", "9223372036854775807", "9223372036854775808"),
    *("99999999999999999999", "1700000000", "0.1", "16777217.0000001", "1e39", "1e400", "1e-400", "NaN", "-Infinity"),
    *("Inf", "-NaN", "01", "1.", "123.45", "123.456", "9" * 5000),
]
tokens = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(
        ["null", "true", "false", '"\\ud800"', '"\\u0000"', '"a\nb"', '"Inf"', '"12.5"', '" 1"', '"1e1"', "-"]
    ),
    st.sampled_from(TIMES).map(json.dumps),
    st.text(max_size=5).map(json.dumps),
    st.text(max_size=5).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)


def _object(members: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}:{value}" for name, value in members) + "}"


values = st.recursive(
    tokens,
    lambda inside: st.one_of(
        st.lists(inside, max_size=3).map(lambda parts: "[" + ",".join(parts) + "]"),
        st.lists(st.tuples(st.sampled_from(NAMES), inside), max_size=3).map(_object),
    ),
    max_leaves=5,
)
RIGHT = {
    "id": st.integers(-(2**63), 2**63 - 1).map(str),
    "small": st.integers(-128, 127).map(str),
    "d": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "f": st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    "b": st.sampled_from(["true", "false"]),
    "s": st.text(max_size=5).map(json.dumps),
    "raw": st.text(max_size=5).map(json.dumps),
    "n": st.sampled_from(["1", "1.25", '"3.5"']),
    "t": st.one_of(st.sampled_from(TIMES).map(json.dumps), st.integers(-(10**12), 10**12).map(str)),
    "local": st.sampled_from(TIMES).map(json.dumps),
    "day": st.dates().map(lambda day: json.dumps(day.isoformat())),
    "list": st.one_of(st.lists(st.sampled_from(TIMES)), st.lists(st.integers(0, 10**10))).map(json.dumps),
    "inner": st.just('{"a": 1, "when": "2024-01-01T00:00:00Z"}'),
    "inners": st.sampled_from(["[]", "[null]", '[{"when": "2024-01-01"}]']),
}
members = st.one_of(
    *(st.tuples(st.just(name), st.one_of(strategy, st.just("null"))) for name, strategy in RIGHT.items())
)
payloads = st.one_of(
    st.none(),
    st.lists(members, max_size=4, unique_by=lambda member: member[0]).map(lambda found: _object(found).encode()),
    st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=4).map(lambda found: _object(found).encode()),
    st.sampled_from([b"", b"null", b" ", b"oops", b'{"id":1}{"id":2}', b'{"id":1', b"}", b"\xff", b'{"s":"\xff"}']),
    st.sampled_from(
        [b'{\n"id": 1\n}\n', b'{"id":1}\n{"id":2}', b"[" * 5000, b'{"other":%s}' % (b"[" * 3000 + b"]" * 3000)]
    ),
    st.binary(max_size=6),
)


def together(rows: list[bytes | None], wanted: pa.StructType) -> pa.Array:
    return structs_of(pa.array(rows, pa.binary()), wanted, False)


def plain(scalar: Any) -> object:
    """A value that can be compared: Python has no year 0, and not-a-number is not equal to itself."""
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(scalar.type):
        return {name: plain(scalar[name]) for name in scalar}
    if pa.types.is_nested(scalar.type):
        return [plain(one) for one in scalar.values]
    if pa.types.is_temporal(scalar.type):
        return scalar.value
    return repr(scalar.as_py())


@given(st.lists(payloads, max_size=6), st.sampled_from([WANTED, REQUIRED, MAPPED]))
@example([b'{"id":1}{"id":2}', b""], WANTED)
@example([b'{"t":"2024-01-01T00:00:00Z"}', b"oops"], WANTED)
@example([b'{"id":1.5}', b'{"id":99999999999999999999}', b'{"t":1700000000}'], WANTED)
def test_a_row_does_not_depend_on_its_neighbours(rows: list[bytes | None], wanted: pa.StructType) -> None:
    found = together(rows, wanted)
    found.validate(full=True)
    alone = [together([row], wanted) for row in rows]
    assert [plain(row) for row in found] == [plain(one[0]) for one in alone]


@given(payloads, st.sampled_from([WANTED, REQUIRED]))
def test_what_the_parser_of_batches_accepts_the_parser_of_rows_reads_the_same(
    row: bytes | None, wanted: pa.StructType
) -> None:
    fast = _usual(pa.array([row], pa.binary()), wanted)
    if fast is not None:
        slow = pa.array([_row(row, wanted, True)], wanted)
        assert fast.equals(slow)
