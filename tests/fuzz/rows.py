"""Records to Arrow and back: columns are what the records hold, and buffers that lie are refused."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise
from typing import Any

from fuzz import checksums
from fuzz.target import Target, option
from models.bulk_rows import row_of
from models.records import Record, encode_record
from slipstream.kernels.bulk.arrowrows import COLUMNS, RowDecoder
from slipstream.kernels.bulk.rowrecords import RowEncoder
from slipstream.kernels.bulk.stagedrows import BAD_RECORD, StagedRows

ROWS_MAX = 5
COMPARED = ("stream", "seq", "ts", "ts_ns", "subject", "headers", "payload", "reply", "size", "hdr_raw")

# --- records to Arrow -----------------------------------------------------------------------------------------------


def arrow_rows(data: bytes) -> None:
    """The rows are those of the model, record for record; bytes that cannot be records raise ValueError."""
    flags, body = option(data)
    content, salt = bytearray(body), 77 if flags & 2 else 0
    if not flags & 1:
        checksums.records(content, salt)
    whole = bytes(content)
    filters = (b"a.>", b"*") if flags & 4 else ()
    decoder = RowDecoder(COLUMNS, b"S", ROWS_MAX, 2000, filters=filters, salt=salt)
    rows, at = [], 0
    with suppress(ValueError):
        while at < len(whole):
            at = decoder.feed(whole, at)
            rows += _rows(*decoder.take())
    rows += _rows(*decoder.take())
    assert decoder.records <= len(whole) // 32 and len(decoder.damaged) <= decoder.records
    if not filters and not flags & 1:
        assert rows == _expected(whole)[: len(rows)]
        assert len(rows) == decoder.records - len(decoder.damaged)


def _expected(data: bytes) -> list[dict[str, Any]]:
    """Rows of the records at the beginning that are whole and in order."""
    found: list[dict[str, Any]] = []
    at = 0
    while len(data) - at >= 32:
        _, headers, seq, ts, subject, flags, payload = struct.unpack_from("<IIQqHHI", data, at)
        start = at + 32 + (8 if flags & 16 else 0)
        end = start + subject + headers + payload
        if flags & 15 != 1 or flags > 31 or end > len(data) or (found and seq <= found[-1]["seq"] % 2**64):
            break
        parts = data[start : start + subject], data[start + subject : end - payload], data[end - payload : end]
        found.append(row_of(Record(seq if seq < 2**63 else seq - 2**64, ts, *parts), "S"))
        at = end + -(end - at) % 8
    return found


def _rows(count: int, columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """The buffers taken apart, every offset checked."""
    found: dict[str, list[Any]] = {}
    for name in ("seq", "ts", "ts_ns"):
        found[name] = list(struct.unpack(f"<{count}q", bytes(columns[name][1])[: 8 * count]))
    found["size"] = list(struct.unpack(f"<{count}i", bytes(columns["size"][1])[: 4 * count]))
    for name in ("stream", "subject"):
        found[name] = [text.decode() for text in _texts(columns[name], count)]
    found["payload"] = _texts(columns["payload"], count)
    found["hdr_raw"] = _nullable(columns["hdr_raw"][0], _texts(columns["hdr_raw"], count))
    found["reply"] = _nullable(columns["reply"][0], _texts(columns["reply"], count))
    valid, map_offsets, key_offsets, keys, list_offsets, value_offsets, values, n_keys, n_values = columns["headers"]
    names = [text.decode() for text in _texts([None, key_offsets, keys], n_keys)]
    texts = [text.decode() for text in _texts([None, value_offsets, values], n_values)]
    lists = [texts[a:b] for a, b in _spans(list_offsets, n_keys, n_values)]
    maps = [list(zip(names[a:b], lists[a:b], strict=True)) for a, b in _spans(map_offsets, count, n_keys)]
    found["headers"] = _nullable(valid, maps)
    return [{name: found[name][row] for name in COMPARED} for row in range(count)]


def _spans(offsets: Any, count: int, size: int) -> list[tuple[int, int]]:
    numbers = struct.unpack(f"<{count + 1}i", bytes(offsets)[: 4 * (count + 1)]) if count else (0,)
    assert list(numbers) == sorted(numbers) and numbers[0] >= 0 and numbers[-1] <= size
    return list(pairwise(numbers))


def _texts(column: list[Any], count: int) -> list[bytes]:
    data = bytes(column[2]) if column[2] is not None else b""
    return [data[a:b] for a, b in _spans(column[1], count, len(data))]


def _nullable(valid: Any, values: list[Any]) -> list[Any]:
    bits = bytes(valid) if valid is not None else b"\xff" * len(values)
    return [value if bits[row >> 3] >> (row & 7) & 1 else None for row, value in enumerate(values)]


def arrow_seeds() -> list[bytes]:
    block = b"NATS/1.0\r\nA: 1\r\nB:2\r\nA:  3 \r\nno colon\r\n: none\r\n\xff: \xfe\r\n\r\n"
    records = [
        Record(1, 5, b"a.b", block, b"pay"),
        Record(3, -(10**12), b"\xc3\xa9", b"", b"", expires=9),
        Record(2**40, 2**62, b"a", b"NATS/1.0 503 No\r\n\r\n", b"z" * 60),
    ]
    return [
        bytes([flags]) + b"".join(encode_record(one, 77 if flags & 2 else 0) for one in records * (1 + (flags == 0)))
        for flags in (0, 2, 4)
    ]


# --- Arrow to records -----------------------------------------------------------------------------------------------


class _Source:
    """Numbers and buffers out of the input, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def buffer(self, count: int, width: int) -> bytes | None:
        """As many items as are needed, or a few less, or none."""
        what = self.byte()
        if what == 255:
            return None
        size = max(count - (what & 3) * (what >> 6 == 3), 0) * width
        self._at += size
        return self._data[self._at - size : self._at].ljust(size, b"\0") if self._at <= len(self._data) else bytes(size)

    def offsets(self, count: int) -> bytes | None:
        """Offsets that mostly grow; a step of more than 31 is taken as it is, little endian."""
        steps = self.buffer(count, 1)
        if steps is None:
            return None
        total, found = 0, []
        for step in steps:
            total += step if step < 32 else (step - 32) * 0x01010101
            found.append(total % 2**32)
        return struct.pack(f"<{len(found)}I", *found)

    def text(self, rows: int) -> tuple[Any, ...]:
        shift = self.byte() & 7
        valid = None if self.byte() & 1 else self.buffer((shift + rows + 7) // 8, 1)
        offsets = self.offsets(shift + rows + 1)
        return valid, offsets, self.buffer(self.byte() & 63, 1), shift, rows

    def map(self, rows: int) -> tuple[Any, ...]:
        keys = self.byte() & 7
        shift = self.byte() & 3
        valid = None if self.byte() & 1 else self.buffer((shift + rows + 7) // 8, 1)
        lists = self.offsets(keys + 1) if self.byte() & 1 else None
        values = self.byte() & 7 if lists is not None else keys
        edge = self.byte()
        far = (2**40, 2**61, 2**63 - 1)[edge % 3] if edge > 250 else 0
        return valid, shift, self.offsets(rows + 1), far, self.text(keys), lists, 0, self.text(values)


def row_records(data: bytes) -> None:
    """What is encoded is records that follow each other; buffers that lie raise ValueError."""
    source = _Source(data)
    flags, rows = source.byte(), source.byte() % 9
    options: dict[str, Any] = {}
    if flags & 1:
        options["fixed_subject"] = b"fixed.one"
    subject = None if flags & 1 else source.text(rows)
    payload = source.text(rows) if flags & 2 else None
    if flags & 4:
        options["msg_id"] = source.text(rows)
    if flags & 8:
        options["ttl"] = source.text(rows)
    if flags & 16:
        options["headers"] = source.map(rows)
    if flags & 32:
        options["raw_headers"] = source.text(rows)
    encoder, given = RowEncoder(), RowEncoder()
    pieces = bytearray()
    try:
        encoder.begin(rows, subject, payload, **options)
        while (piece := encoder.next_piece()) is not None:
            pieces += piece
    except ValueError:
        return
    room, used = bytearray(len(pieces) + 7), 0
    given.begin(rows, subject, payload, **options)
    used = given.fill(room)
    assert room[:used] == pieces[:used] and (used == len(pieces) or given.left)
    assert encoder.rows == rows and encoder.size == len(pieces)
    decoder, staged = RowDecoder(("seq", "subject")), StagedRows()
    assert decoder.feed(bytes(pieces)) == len(pieces) and decoder.rows == rows and not decoder.damaged
    staged.feed(bytes(pieces))
    assert staged.check() != BAD_RECORD
    assert decoder.crc == encoder.crc


def row_seeds() -> list[bytes]:
    text = b"\0\1" + b"\0" + bytes([0, 2, 2, 2]) + b"\x10\0" + b"abcdef0123456789"
    maps = b"\2\0\1\1" + b"\0\0\1\1" + b"\2\0" + b"\0\0\1\1\1" + text + text
    return [
        b"\2\3" + text * 2,
        b"\x0e\3" + text * 4,
        b"\x11\3" + maps,
        b"\x12\3" + text * 2 + maps,
        b"\x22\3" + text * 3,
    ]


TARGETS = (
    Target("arrow-rows", arrow_rows, arrow_seeds, (b"NATS/1.0\r\n", b"\r\n", b": ", b"\xff")),
    Target("row-records", row_records, row_seeds, (b"NATS/1.0\r\n\r\n", b"\r\n\r\n", b":")),
)
