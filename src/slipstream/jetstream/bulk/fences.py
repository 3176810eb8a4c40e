"""The last batch each transaction has committed to a stream: a note in its log, written by the unit of the batch.

So a batch and its fence are on disk together or not at all, and a commit that is repeated, however late, adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from slipstream.jetstream.store.base import Store
from slipstream.limits import BULK_FENCES_MAX

__all__ = ["Fence", "fence_notes", "find_fence"]

_KEY = b"bulk.txn:"


@dataclass(frozen=True, slots=True)
class Fence:
    """What a transaction committed last."""

    batch_id: int
    first_seq: int
    last_seq: int
    count: int
    ts_ns: int


def find_fence(store: Store, txn: str) -> Fence | None:
    """The fence of a transaction; None when it has committed nothing, or was forgotten."""
    value = store.notes().get(_KEY + txn.encode())
    return _decode(value) if value is not None else None


def fence_notes(store: Store, txn: str, fence: Fence) -> dict[bytes, bytes]:
    """The notes that set a fence, and forget the oldest of the others if there are too many."""
    key = _KEY + txn.encode()
    others = [(name, value) for name, value in store.notes().items() if name.startswith(_KEY) and name != key]
    notes = {key: msgspec.json.encode([fence.batch_id, fence.first_seq, fence.last_seq, fence.count, fence.ts_ns])}
    while len(others) >= BULK_FENCES_MAX:
        oldest = min(others, key=lambda note: _decode(note[1]).ts_ns)
        others.remove(oldest)
        notes[oldest[0]] = b""
    return notes


def _decode(value: bytes) -> Fence:
    return Fence(*msgspec.json.decode(value, type=tuple[int, int, int, int, int]))
