"""JSON payloads as structs of a given schema.

Two ways that agree: Arrow's parser for a whole batch, and a parser for one row. Whatever the first accepts, the second
reads as the same values; so what becomes of a row never depends on its neighbours, and only the few rows around a bad
one take the slow way.

Strict where JSON and types disagree: a number with a fraction, or out of range, is no integer; a number is no text.
Times are texts (ISO 8601, UTC unless they say otherwise, cut to microseconds) or, as in Spark's `from_json`, whole
seconds since 1970; dates are texts.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from slipstream.spark.runtime.errors import SparkSideError

__all__ = ["PayloadError", "structs_of"]

_BLOCK_BYTES: Final = 1 << 30  # larger than any batch, so that Arrow parses a batch in one piece
_PIECE_ROWS: Final = 256  # around a bad row so many are parsed one by one
_BLANKS: Final = b" \t\r\n"
_NOT_A_NUMBER: Final = re.compile(rb"[:,\[\s]-?(?:Inf|NaN)")  # Arrow knows more spellings of these than Python
_WHOLE: Final = re.compile(r"-?[0-9]+")
_EPOCH_SECONDS_MAX: Final = 253_402_300_799  # the end of the year 9999
_SHOWN_BYTES: Final = 200  # of a bad payload in an error


class PayloadError(SparkSideError):
    """A payload is not what `payloadFormat` says."""


class _Unfit(ValueError):
    """A value of one row does not fit its type."""


class _Number(str):
    """A number as it was written: no digit is lost before its type is known."""

    __slots__ = ()


def structs_of(array: pa.Array, wanted: pa.StructType, errors_fail: bool) -> pa.Array:
    """Payloads as structs; missing payloads stay null.

    Args:
        array: payloads, binary.
        wanted: the schema.
        errors_fail: whether a payload that does not fit is an error; otherwise its row is null.

    Raises:
        PayloadError: a payload does not fit, and that is an error.
    """
    whole = _usual(array, wanted)
    if whole is not None:
        return whole
    pieces = [array.slice(start, _PIECE_ROWS) for start in range(0, len(array), _PIECE_ROWS)]
    parsed = [_piece(piece, wanted, errors_fail) for piece in pieces]
    return pa.concat_arrays(parsed) if parsed else pa.array([], wanted)


def _piece(array: pa.Array, wanted: pa.StructType, errors_fail: bool) -> pa.Array:
    found = _usual(array, wanted)
    if found is not None:
        return found
    rows = [_row(payload, wanted, errors_fail) for payload in array.to_pylist()]
    return pa.array(rows, wanted)


# --- a batch at a time ----------------------------------------------------------------------------------------------


def _usual(array: pa.Array, wanted: pa.StructType) -> pa.Array | None:
    """The whole batch by Arrow, or None if anything in it is unusual. Times are all texts, or all numbers."""
    if not len(array) or _holds(wanted, pa.types.is_map):
        return None
    found = _fast(array, wanted)
    return _fast(array, wanted, seconds=True) if found is None and _holds(wanted, _is_moment) else found


def _fast(array: pa.Array, wanted: pa.StructType, *, seconds: bool = False) -> pa.Array | None:
    missing = array.is_null() if array.null_count else None
    try:
        array.cast(pa.string())  # Arrow's JSON parser takes bytes that are no text
        lines = _lines(pc.fill_null(array, b"{}") if missing is not None else array)
        if lines is None or ((b"NaN" in lines or b"Inf" in lines) and _NOT_A_NUMBER.search(lines)):
            return None
        table = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema([field.with_type(_read_as(field.type, seconds)) for field in wanted]),
                unexpected_field_behavior="ignore",
            ),
        )
        if table.num_rows != len(array):
            return None  # two objects in one payload
        columns = [_cast(table.column(field.name).combine_chunks(), field.type) for field in wanted]
    except pa.ArrowException:
        return None
    if not all(_fits(column, field, missing) for column, field in zip(columns, wanted, strict=True)):
        return None
    return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=missing)


def _lines(array: pa.Array) -> bytes | None:
    """The payloads, one a line; None if some are no objects.

    `}` and `{` around every line end make sure that each payload is at least one whole object: nothing in JSON allows
    them next to each other inside a value.
    """
    payloads = array.to_pylist()
    lines = b"\n".join(payloads)
    if not _one_a_line(lines, len(payloads)):
        # A return is a blank to the parser, as a line end is, and just as wrong inside a text.
        lines = b"\n".join([payload.strip(_BLANKS).replace(b"\n", b"\r") for payload in payloads])
    return lines if _one_a_line(lines, len(payloads)) else None


def _one_a_line(lines: bytes, count: int) -> bool:
    return (
        lines.startswith(b"{")
        and lines.endswith(b"}")
        and lines.count(b"\n") == count - 1
        and lines.count(b"}\n{") == count - 1
    )


def _read_as(kind: pa.DataType, seconds: bool) -> pa.DataType:
    """The type with texts, or numbers, for times: Arrow would take both, and numbers in its own unit."""
    if seconds and _is_moment(kind):
        return pa.int64()
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_read_as(field.type, seconds)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_read_as(kind.value_type, seconds)))
    return kind


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """What was read as `_read_as(kind)` as that type."""
    if array.type.equals(kind):
        return array
    if pa.types.is_int64(array.type):
        return _moments(array, kind)
    if pa.types.is_timestamp(kind):
        return _times(array, kind)
    if pa.types.is_struct(kind):
        children = [_cast(child, field.type) for child, field in zip(array.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        values = _cast(array.values, kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=array.is_null())
    return array.cast(kind)


def _moments(seconds: pa.Array, kind: pa.TimestampType) -> pa.Array:
    bounds = pc.min_max(seconds)
    if not all(abs(bound.as_py() or 0) <= _EPOCH_SECONDS_MAX for bound in bounds.values()):
        raise pa.ArrowInvalid("a time is out of range")
    return pc.multiply(seconds, 1_000_000).cast(kind)


def _times(texts: pa.Array, kind: pa.TimestampType) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        pass
    texts = pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]+", r"\1")
    if kind.tz is not None:
        texts = pc.replace_substring_regex(texts, r"^([0-9]{4}-[0-9]{2}-[0-9]{2})$", r"\1T00")
        texts = pc.replace_substring_regex(texts, r"^([0-9-]{10}[T ][0-9:.]+)$", r"\1Z")
    return texts.cast(kind)


def _fits(array: pa.Array, field: pa.Field, missing: pa.Array | None) -> bool:
    """Whether nothing is null that must not be, and no number became infinite."""
    kind = array.type
    if not field.nullable and array.null_count:
        here = array.is_null() if missing is None else pc.and_not(array.is_null(), missing)
        if pc.any(here).as_py():
            return False
    if pa.types.is_float32(kind):
        return not pc.any(pc.is_inf(array)).as_py()
    if pa.types.is_struct(kind):
        present = array.drop_null() if array.null_count else array
        return all(_fits(child, part, None) for child, part in zip(present.flatten(), kind, strict=True))
    if pa.types.is_list(kind):
        return _fits(array.flatten(), kind.value_field, None)
    return True


def _is_moment(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _holds(kind: pa.DataType, what: Callable[[pa.DataType], bool]) -> bool:
    return what(kind) or any(_holds(kind.field(number).type, what) for number in range(kind.num_fields))


# --- a row at a time ------------------------------------------------------------------------------------------------


def _row(payload: bytes | None, wanted: pa.StructType, errors_fail: bool) -> dict[str, Any] | pa.StructScalar | None:
    if payload is None:
        return None
    try:
        value = json.loads(payload.decode(), parse_int=_Number, parse_float=_Number)
        if not isinstance(value, dict):
            raise _Unfit("it is no object")
        return _reader(wanted)(value)
    except RecursionError:
        # Deeper than Python goes. Arrow's parser has no such limit.
        alone = _usual(pa.array([payload], pa.binary()), wanted)
        if alone is not None:
            return alone[0]
        error: Exception = _Unfit("it is nested too deeply")
    except (ValueError, pa.ArrowException) as found:
        error = found
    if errors_fail:
        raise PayloadError(f"a payload is not JSON of the given schema: {payload[:_SHOWN_BYTES]!r}: {error}") from error
    return None


@functools.lru_cache(maxsize=64)
def _reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """What turns a parsed JSON value that is not null into what `pa.array` takes for the type."""
    types = pa.types
    if types.is_struct(kind):
        return _struct_reader(kind)
    if types.is_map(kind):
        item = _nullable(kind.item_field)
        return lambda value: [(_text(name), item(each)) for name, each in _is(value, dict, "an object").items()]
    if types.is_list(kind):
        element = _nullable(kind.value_field)
        return lambda value: [element(each) for each in _is(value, list, "an array")]
    if types.is_boolean(kind):
        return lambda value: _is(value, bool, "true or false")
    if types.is_integer(kind):
        return _whole_reader(kind)
    if types.is_float64(kind):
        return _double
    if types.is_float32(kind):
        return lambda value: value if isinstance(value, float) else _finite(_one(_number(value), kind).as_py())
    if types.is_decimal(kind):
        return lambda value: _one(value if isinstance(value, _Number) else _text(value), kind).as_py()
    if types.is_timestamp(kind):
        return lambda value: _time(value, kind)
    if types.is_date(kind):
        return lambda value: _one(_text(value), kind).value
    if types.is_binary(kind):
        return lambda value: _text(value).encode()
    return _text


def _struct_reader(kind: pa.StructType) -> Callable[[Any], Any]:
    members = [(field.name, _nullable(field)) for field in kind]

    def read(value: Any) -> dict[str, Any]:
        found = _is(value, dict, "an object")
        return {name: convert(found.get(name)) for name, convert in members}

    return read


def _nullable(field: pa.Field) -> Callable[[Any], Any]:
    read = _reader(field.type)
    if field.nullable:
        return lambda value: None if value is None else read(value)

    def required(value: Any) -> Any:
        if value is None:
            raise _Unfit(f"{field.name!r} is missing")
        return read(value)

    return required


def _whole_reader(kind: pa.DataType) -> Callable[[Any], int]:
    most = 1 << (kind.bit_width - 1)

    def read(value: Any) -> int:
        text = _number(value)
        if not _WHOLE.fullmatch(text) or not -most <= (number := int(text)) < most:
            raise _Unfit(f"{text[:40]} is no {kind}")
        return number

    return read


def _double(value: Any) -> float:
    return value if isinstance(value, float) else _finite(float(_number(value)))


def _time(value: Any, kind: pa.TimestampType) -> Any:
    if isinstance(value, _Number) and kind.tz is not None:
        if not _WHOLE.fullmatch(value) or abs(seconds := int(value)) > _EPOCH_SECONDS_MAX:
            raise _Unfit(f"{value[:40]} is no time in whole seconds since 1970")
        return seconds * 1_000_000
    return _times(pa.array([_text(value)], pa.string()), kind)[0].value


def _one(text: str, kind: pa.DataType) -> Any:
    return pa.array([str(text)], pa.string()).cast(kind)[0]


def _finite(number: float) -> float:
    if math.isinf(number):
        raise _Unfit("a number is too large for its type")
    return number


def _number(value: Any) -> str:
    return _is(value, _Number, "a number")  # type: ignore[no-any-return]


def _text(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, _Number):
        raise _Unfit(f"{str(value)[:40]!r} is no text")
    value.encode()  # halves of pairs cannot be stored
    return value


def _is(value: Any, kind: type, words: str) -> Any:
    if not isinstance(value, kind):
        raise _Unfit(f"{str(value)[:40]!r} is not {words}")
    return value
