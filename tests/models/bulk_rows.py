"""Rows of messages in plain Python: what a record becomes as a row, and a row as a record."""

from __future__ import annotations

from typing import Any

from models.records import Record, crc32c, encode_record


def header_map(block: bytes) -> list[tuple[str, list[str]]] | None:
    """Names in the order of first appearance, with their values; None without headers."""
    if not block:
        return None
    found: dict[bytes, list[str]] = {}
    for line in block.split(b"\r\n")[1:]:
        if not line:
            break
        name, colon, value = line.partition(b":")
        name = name.strip(b" \t")
        if colon and name:
            found.setdefault(name, []).append(value.strip(b" \t").decode("utf-8", "replace"))
    return [(name.decode("utf-8", "replace"), values) for name, values in found.items()]


def row_of(record: Record, stream: str) -> dict[str, Any]:
    """All columns of one message; the time in microseconds."""
    return {
        "stream": stream,
        "seq": record.seq,
        "ts": record.ts // 1000,
        "ts_ns": record.ts,
        "subject": record.subject.decode("utf-8", "replace"),
        "headers": header_map(record.headers),
        "payload": record.payload,
        "reply": None,
        "size": len(record.payload),
        "hdr_raw": record.headers or None,
    }


def checksum_of(records: list[Record]) -> int:
    """The checksum over the checksums of records keyed by 0."""
    crc = 0
    for record in records:
        crc = crc32c(encode_record(record, 0)[:4], crc)
    return crc


def header_block(
    headers: list[tuple[str, list[str | None] | str | None]] | None, own: list[tuple[str, str | None]]
) -> bytes:
    """The header block of a row that is written; `own` are the headers with columns of their own."""
    lines: list[tuple[str, str | None]] = []
    for name, values in headers or []:
        lines += [(name, value) for value in (values if isinstance(values, list) else [values])]
    text = "".join(f"{name}: {value}\r\n" for name, value in [*lines, *own] if value is not None)
    return f"NATS/1.0\r\n{text}\r\n".encode() if text else b""
