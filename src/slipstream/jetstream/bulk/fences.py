"""The last batch each transaction has committed to a stream: a note in its log, written by the unit of the batch.

So a batch and its fence are on disk together or not at all, and a commit that is repeated, however late, adds nothing.

A stream keeps so many of them. A transaction that says it is brief has one batch, which is repeated soon or never: of
those the oldest are forgotten. Others are forgotten only when they were idle for a month and another needs the place;
if there is none to be had, a new transaction is refused.
"""

from __future__ import annotations

import msgspec

from slipstream.jetstream.bulk import errors
from slipstream.jetstream.bulk.limits import BULK_BRIEF_FENCES_MAX, BULK_FENCE_NS, BULK_FENCES_MAX
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.store.contract import StoreFacts

__all__ = ["StoredFence", "fence_notes", "find_fence"]

_KEY = b"bulk.txn:"


class StoredFence(msgspec.Struct, array_like=True, frozen=True):
    """What a transaction committed last."""

    batch_id: int
    first_seq: int
    last_seq: int
    count: int
    ts_ns: int
    offered: int | None = None
    """Messages of its parts, with those that were left out."""
    brief: bool = False


def find_fence(store: StoreFacts, txn: str) -> StoredFence | None:
    """The fence of a transaction; None when it has committed nothing, or was forgotten."""
    value = store.notes().get(_KEY + txn.encode())
    return _decode(value) if value is not None else None


def fence_notes(store: StoreFacts, txn: str, fence: StoredFence) -> dict[bytes, bytes]:
    """The notes that set a fence, and forget others if there are too many.

    Raises:
        TableError: there are too many that must not be forgotten.
    """
    key = _KEY + txn.encode()
    notes = {key: msgspec.json.encode(fence)}
    others = [
        (known.ts_ns, name)
        for name, value in store.notes().items()
        if name.startswith(_KEY) and name != key and (known := _decode(value)).brief == fence.brief
    ]
    most = BULK_BRIEF_FENCES_MAX if fence.brief else BULK_FENCES_MAX
    for ts_ns, name in sorted(others)[: max(len(others) - most + 1, 0)]:
        if not fence.brief and fence.ts_ns - ts_ns < BULK_FENCE_NS:
            raise TableError(errors.TOO_MANY_TXNS, count=most)
        notes[name] = b""
    return notes


def _decode(value: bytes) -> StoredFence:
    return msgspec.json.decode(value, type=StoredFence)
