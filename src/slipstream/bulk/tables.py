"""A stream as an Arrow table, in one call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from slipstream.bulk.client import BulkClient
from slipstream.bulk.options import ConnectOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_arrow"]

_PLANNED = ("subjects", "start_time_ns", "end_time_ns", "max_msgs", "max_bytes", "identity", "transport")


def read_arrow(
    url: str | ConnectOptions, stream: str, *, first: int = 1, last: int | None = None, **options: Any
) -> pa.RecordBatchReader:
    """Read a stream as it is now, or a part of it, batch by batch.

    The connection is closed when the last batch was read, or when the reader is closed.

    Args:
        url: of the server, or options with more in them.
        stream: its name.
        first: first sequence.
        last: last sequence; None for the last one committed when this is called.
        options: what `BulkClient.read` takes, and `max_msgs` and `max_bytes` as for `BulkClient.plan`.

    Raises:
        BulkError: the stream cannot be read; also while batches are read.
    """
    import pyarrow as pa

    client = BulkClient(url if isinstance(url, ConnectOptions) else ConnectOptions(url))
    try:
        plan = client.plan(
            stream, first, last, **{name: options[name] for name in _PLANNED if name in options}, partitions=1
        )
        for name in ("max_msgs", "max_bytes"):
            options.pop(name, None)
        reader = client.read(stream, plan.first, plan.last, **options)
    except BaseException:
        client.close()
        raise

    def batches() -> Iterator[pa.RecordBatch]:
        with client, reader:
            yield from reader

    return pa.RecordBatchReader.from_batches(reader.schema, batches())
