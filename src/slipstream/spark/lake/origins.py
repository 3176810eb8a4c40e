"""Where archived messages came from, told in their headers when they are published again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from slipstream.jetstream import headers

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CONTENT", "MARKED", "with_origins"]

CONTENT: Final = ("subject", "hdr_raw", "payload")
"""What a message is made of, as columns."""
MARKED: Final = ("stream", "seq", "ts_ns", *CONTENT)
"""... with where it came from."""


def with_origins(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The messages of a batch of `MARKED` columns, as `CONTENT`, with the place of each in its headers."""
    import pyarrow as pa

    columns = batch.select(["stream", "seq", "ts_ns", "hdr_raw"]).to_pydict()
    blocks = []
    for stream, sequence, time_ns, block in zip(*columns.values(), strict=True):
        block = headers.append(block or b"", b"Nats-Orig-Stream", stream.encode())
        block = headers.append(block, b"Nats-Orig-Sequence", b"%d" % sequence)
        blocks.append(headers.append(block, b"Nats-Orig-Time-Stamp", _rfc3339(time_ns).encode()))
    arrays = [batch.column("subject"), pa.array(blocks, pa.binary()), batch.column("payload")]
    return pa.RecordBatch.from_arrays(arrays, names=list(CONTENT))


def _rfc3339(time_ns: int) -> str:
    """With all nine digits of its nanoseconds."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
