"""Bodies of bulk requests, and the ranges they mean on a stream."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from slipstream.dataclass import dataclass
from slipstream.errors import UNREADABLE
from slipstream.jetstream.bulk import errors
from slipstream.jetstream.bulk.limits import BULK_FILTERS_MAX, BULK_TXN_BYTES_MAX
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.store.values import Filters
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels.subjects.subject import is_valid_subscription
from slipstream.limits import BULK_STAGE_NS
from slipstream.units import SECOND_NS

__all__ = [
    "AbortRequest",
    "CommitRequest",
    "HoldRequest",
    "PartRequest",
    "PlanRequest",
    "Range",
    "RangeRequest",
    "ReadRequest",
    "ReleaseRequest",
    "StageRequest",
    "checked_txn",
    "decode",
    "identity_of",
    "range_of",
]

StructT = TypeVar("StructT", bound=msgspec.Struct)
_SEQ_MAX = 2**63 - 1


class RangeRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which messages are meant: all conditions hold. Times are nanoseconds; the end time itself is outside."""

    first: int = 1
    last: int | None = None
    subjects: list[str] = []
    start_time_ns: int | None = None
    end_time_ns: int | None = None
    identity: str | None = None


class ReadRequest(RangeRequest, kw_only=True, forbid_unknown_fields=True):
    """BULK.READ."""

    credit: int = 0
    chunk_bytes: int = 0
    memory: bool = False
    """Whether the reader is on this machine, as far as it knows."""
    files: bool = False
    """Whether it would read files itself."""


class PlanRequest(RangeRequest, kw_only=True, forbid_unknown_fields=True):
    """BULK.PLAN."""

    max_msgs: int | None = None
    max_bytes: int | None = None
    partitions: int | None = None
    target_bytes: int = 128 << 20
    min_rows: int = 50_000


class StageRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """BULK.STAGE.<stream>: begin a part."""

    txn: str
    part: int
    attempt: int = 0
    memory: bool = False
    """Whether the writer is on this machine, as far as it knows."""
    keep_s: int = BULK_STAGE_NS // SECOND_NS
    """How long the part is kept, once it is whole, if nobody commits or aborts it."""


class PartRequest(msgspec.Struct, kw_only=True):
    """BULK.STAGE.<stream>.<id>.END, and a part that a commit names; more members may be there."""

    count: int
    crc: int
    bytes: int
    name: str = ""


class CommitRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """BULK.COMMIT."""

    txn: str
    batch_id: int
    parts: list[PartRequest]
    identity: str | None = None
    brief: bool = False
    """Whether the transaction has this batch only, and repeats it soon or never."""
    after: int | None = None
    """Refuse unless this is the transaction's last batch so far; -1 for none."""
    copied: bool = False
    """Whether another stream has taken the messages before: what headers asked of it is not asked again."""


class FenceRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """BULK.FENCE."""

    txn: str


class AbortRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """BULK.ABORT."""

    txn: str


class HoldRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """BULK.HOLD; with `id` one that exists is renewed or moved."""

    first: int
    ttl_s: float = 600
    id: str = ""
    by: str = ""  # who holds, for those who look; a renewal without it leaves it as it was


class ReleaseRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """BULK.RELEASE."""

    id: str


@dataclass(frozen=True, slots=True)
class Range:
    """Committed sequences `first` to `last` whose subject passes; empty when `first > last`."""

    first: int
    last: int
    filters: Filters


def decode(kind: type[StructT], body: bytes) -> StructT:
    """Read a body.

    Raises:
        TableError: it is not what it should be.
    """
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except UNREADABLE as error:
        raise TableError(errors.INVALID_REQUEST, err=error) from None


def checked_txn(txn: str) -> str:
    """The name of a transaction.

    Raises:
        TableError: it is empty or too long.
    """
    if not 0 < len(txn.encode("utf-8", "surrogatepass")) <= BULK_TXN_BYTES_MAX:
        raise TableError(errors.INVALID_REQUEST, err=f"txn must have 1 to {BULK_TXN_BYTES_MAX} bytes")
    return txn


def identity_of(stream: Stream) -> str:
    """`<created-ns>/<uid>`: tells a stream from an earlier one of the same name."""
    return f"{stream.created_ns}/{stream.store.bulk.uid}"


def range_of(stream: Stream, asked: RangeRequest) -> Range:
    """The sequences a request means now.

    Raises:
        TableError: the request is not valid, the stream is another one, or the end is not committed yet.
    """
    if asked.identity is not None and asked.identity != identity_of(stream):
        raise TableError(errors.STREAM_CHANGED, identity=identity_of(stream))
    store, committed = stream.store, stream.store.committed_seq
    if not 0 <= asked.first <= _SEQ_MAX or not 0 <= (asked.last or 0) <= _SEQ_MAX:
        raise TableError(errors.INVALID_REQUEST, err="a sequence is out of range")
    if asked.last is not None and asked.last > committed:
        raise TableError(errors.NOT_COMMITTED, seq=asked.last, last=committed)
    first, last = max(asked.first, 1), committed if asked.last is None else asked.last
    if asked.start_time_ns is not None:
        first = max(first, store.seq_for_time(asked.start_time_ns))
    if asked.end_time_ns is not None:
        last = min(last, store.seq_for_time(asked.end_time_ns) - 1)
    return Range(first, last, _filters(asked.subjects))


def _filters(subjects: list[str]) -> Filters:
    if len(subjects) > BULK_FILTERS_MAX:
        raise TableError(errors.INVALID_REQUEST, err=f"more than {BULK_FILTERS_MAX} subjects")
    filters = tuple(dict.fromkeys(subject.encode("utf-8", "surrogatepass") for subject in subjects))
    for subject in filters:
        if not is_valid_subscription(subject):
            raise TableError(errors.INVALID_REQUEST, err="a subject is not valid")
    return () if b">" in filters else filters
