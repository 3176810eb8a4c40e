"""Dead letters of a write: rows that cannot be messages, on the subject `dlqSubject`, with the reason in headers.

| header | value |
|---|---|
| `Slipstream-Error` | what is wrong |
| `Slipstream-Subject` | the subject it was for |
| `Slipstream-Size` | bytes of its payload, of which a letter has the first 64 KiB |
| the row's own | except `Nats-*`, which would mean something to the stream of the letters |
| `Slipstream-Headers` | `lost`, if the row's own cannot be headers or are too many |
| `Nats-Msg-Id` | where letters are not part of a transaction: made of the row, so a write that is repeated makes one |
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipstream.spark.runtime.connection import Connection
from slipstream.spark.runtime.errors import OptionError, SparkSideError
from slipstream.spark.sink.checks import BadRow
from slipstream.spark.sink.headers import header_block

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DeadLetterRows", "dead_stream"]

_PAYLOAD_MAX = 64 << 10  # bytes of a letter's payload; the rest is cut off
_LOST = b"Slipstream-Headers: lost\r\n"
_LINE_MAX = 1_000  # characters of a header value
_HEADERS_MAX = 32 << 10  # bytes of a row's own headers; so many leave room for those of the letter
_ID_MAX = 256  # characters of a row's id that becomes part of the letter's


def dead_stream(connection: Connection, subject: str) -> str:
    """The stream that takes dead letters.

    Raises:
        OptionError: there is none.
    """
    found = connection.request("STREAM.NAMES", {"subject": subject}).get("streams") or []
    if len(found) != 1:
        raise OptionError("dlqSubject", f"{subject!r} is not a subject of exactly one stream; create one that takes it")
    return str(found[0])


class DeadLetterRows:
    """Makes the letters of one task."""

    def __init__(self, subject: str, partition: int, *, with_ids: bool) -> None:
        """Begin.

        Args:
            subject: of all letters.
            partition: of the task; equal rows of two partitions are two letters.
            with_ids: whether letters have message ids.
        """
        self._subject = subject
        self._partition = partition
        self._with_ids = with_ids
        self._seen: Counter[str] = Counter()

    def batch(self, messages: pa.RecordBatch, bad: Sequence[BadRow]) -> pa.RecordBatch:
        """The bad rows of a batch as messages that say what is wrong with them."""
        import pyarrow as pa

        subjects, payloads = messages.column("subject"), messages.column("payload")
        own = messages.column("msg_id") if "msg_id" in messages.schema.names else None
        contents, blocks, ids = [], [], []
        for one in bad:
            payload, subject = payloads[one.row].as_py() or b"", subjects[one.row].as_py() or ""
            data = payload.encode() if isinstance(payload, str) else payload
            contents.append(data[:_PAYLOAD_MAX])
            lines = {
                "Slipstream-Error": one.reason,
                "Slipstream-Subject": subject,
                "Slipstream-Size": str(len(data)),
            }
            text = "".join(f"{name}: {_one_line(value)}\r\n" for name, value in lines.items())
            blocks.append(b"NATS/1.0\r\n" + text.encode() + _own_headers(messages, one.row) + b"\r\n")
            ids.append(self._id(own[one.row].as_py() if own is not None else None, subject, data, one.reason))
        columns = {
            "subject": pa.repeat(pa.scalar(self._subject), len(bad)),
            "payload": pa.array(contents, pa.binary()),
            "hdr_raw": pa.array(blocks, pa.binary()),
        }
        if self._with_ids:
            columns["msg_id"] = pa.array(ids)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _id(self, own: str | None, subject: str, data: bytes, reason: str) -> str:
        """The same for the same row of a write; another one for each of several equal rows."""
        if own and len(own) <= _ID_MAX and own.isprintable():
            return f"dead:{own}"
        digest = hashlib.blake2b(digest_size=16)
        for part in (subject.encode(), reason.encode(), data):
            digest.update(b"%d:" % len(part) + part)
        name = digest.hexdigest()
        self._seen[name] += 1
        return f"dead:{name}:{self._partition}:{self._seen[name]}"


def _own_headers(messages: pa.RecordBatch, row: int) -> bytes:
    """The headers of a row as lines of its letter."""
    names = [name for name in ("headers", "hdr_raw") if name in messages.schema.names]
    try:
        block = header_block({name: messages.column(name)[row].as_py() for name in names})
    except (SparkSideError, TypeError, AttributeError):
        return _LOST
    if not block:
        return b""
    if len(block) > _HEADERS_MAX or not (block.startswith(b"NATS/1.0") and block.endswith(b"\r\n\r\n")):
        return _LOST
    kept = [line for line in block.split(b"\r\n")[1:-2] if not line.lower().startswith((b"nats-", b"slipstream-"))]
    return b"".join(line + b"\r\n" for line in kept)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LINE_MAX]
