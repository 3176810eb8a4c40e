"""Bulk access to streams from Python: Arrow in and out, over an ordinary client connection.

pyarrow is imported when rows are read or written, not before; it comes with the extra `spark`.
"""

from slipstream.bulk.client import BulkClient, connect
from slipstream.bulk.errors import BulkError
from slipstream.bulk.options import ConnectOptions
from slipstream.bulk.reading import ArrowReader
from slipstream.bulk.values import Fence, Plan, Split, StreamIdentity
from slipstream.bulk.writing import CommitResult, StagedPart, StageWriter

__all__ = [
    "ArrowReader",
    "BulkClient",
    "BulkError",
    "CommitResult",
    "ConnectOptions",
    "Fence",
    "Plan",
    "Split",
    "StageWriter",
    "StagedPart",
    "StreamIdentity",
    "connect",
]
