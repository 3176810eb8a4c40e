"""Messages for lake tables, made without a server."""

from __future__ import annotations

import pyarrow as pa

from slipstream.spark.lake import Archived
from slipstream.spark.lake.files import SCHEMA

JOB = "0123456789abcdef"
FACTS = Archived("ORDERS", "1790000000000000000/abc")


def messages(first: int, last: int, *, subjects: int = 5) -> pa.RecordBatch:
    rows = range(first, last + 1)
    columns = {
        "stream": ["ORDERS" for _ in rows],
        "seq": list(rows),
        "ts": pa.array([number * 1_000_000 for number in rows], pa.timestamp("us", "UTC")),
        "ts_ns": [number * 1_000_000_000 + 7 for number in rows],
        "subject": [f"orders.{number % subjects}" for number in rows],
        "headers": pa.array([[("X", ["1"])] if number % 3 else None for number in rows], SCHEMA.field("headers").type),
        "hdr_raw": pa.array([b"NATS/1.0\r\nX: 1\r\n\r\n" if number % 3 else None for number in rows], pa.binary()),
        "payload": [b"%d" % number for number in rows],
    }
    return pa.RecordBatch.from_pydict(columns, SCHEMA)
