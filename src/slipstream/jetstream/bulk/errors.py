"""API errors of bulk calls. nats-server has no such calls, so the numbers are this project's own, from 30001 on."""

from __future__ import annotations

from typing import Final

from slipstream.jetstream.errors_table import ErrorSpec
from slipstream.jetstream.stream.admission.rules import PART_INVALID

__all__ = [
    "COMMIT_RUNNING",
    "FENCE_MOVED",
    "HOLD_NOT_FOUND",
    "INVALID_REQUEST",
    "NOT_COMMITTED",
    "NO_REPLY",
    "PART_INVALID",
    "PART_NOT_FOUND",
    "READ_FAILED",
    "STAGE_FULL",
    "STREAM_CHANGED",
    "STREAM_GONE",
    "TOO_MANY_HOLDS",
    "TOO_MANY_READERS",
    "TOO_MANY_TXNS",
]

INVALID_REQUEST: Final = ErrorSpec(400, 30001, "bulk request invalid: {err}")
NO_REPLY: Final = ErrorSpec(400, 30002, "bulk read needs a reply subject")
TOO_MANY_READERS: Final = ErrorSpec(429, 30003, "too many bulk readers")
NOT_COMMITTED: Final = ErrorSpec(503, 30004, "sequence {seq} is not committed here, the last one is {last}")
STREAM_CHANGED: Final = ErrorSpec(409, 30005, "stream is not the one asked for: it is {identity}")
# Of a stream with copies, that another server may lead now: CLUSTER_NOT_AVAIL, and whoever asked asks again.
STREAM_GONE: Final = ErrorSpec(404, 30006, "stream was removed during the read")
READ_FAILED: Final = ErrorSpec(503, 30007, "bulk read failed: {err}")
TOO_MANY_HOLDS: Final = ErrorSpec(429, 30008, "too many holds on this stream")
HOLD_NOT_FOUND: Final = ErrorSpec(404, 30009, "hold not found: it was released, expired, or did not outlive the server")
PART_NOT_FOUND: Final = ErrorSpec(404, 30011, "staged part not found: {part}")
STAGE_FULL: Final = ErrorSpec(429, 30012, "no room to stage: {err}")
COMMIT_RUNNING: Final = ErrorSpec(409, 30013, "the transaction is being committed")
TOO_MANY_TXNS: Final = ErrorSpec(
    429, 30014, "{count} transactions have written to this stream within a month: it cannot remember more"
)
FENCE_MOVED: Final = ErrorSpec(409, 30015, "the last batch of the transaction is {batch}, not the one expected")
