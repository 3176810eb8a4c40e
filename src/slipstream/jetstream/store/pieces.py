"""What one piece of a long purge removes: found in bounded time, whatever the filter and the size of the stream."""

from __future__ import annotations

from slipstream.jetstream.store.assigned import Assigned
from slipstream.jetstream.store.limits import PURGE_SLICE_SEQS

__all__ = ["last_packed", "purge_piece"]


def purge_piece(assigned: Assigned, subject: bytes, *, from_seq: int, up_to_seq: int, limit: int) -> tuple[bytes, int]:
    """The oldest sequences that match, packed in 64 bits each, and where the next piece begins; see `Store.purge_some`.

    Sequences that do not match cost time as well, so a piece is bounded by what it looks at, too.
    """
    start = max(from_seq, assigned.first_seq)
    stop = min(up_to_seq, start + PURGE_SLICE_SEQS - 1)
    gone = assigned.removals.oldest_matching((subject,) if subject else (), start, stop, limit)
    following = last_packed(gone) + 1 if len(gone) // 8 == limit else stop + 1
    return gone, following if following <= up_to_seq else 0


def last_packed(seqs: bytes) -> int:
    """The last of some packed sequences; 0 if there is none."""
    return memoryview(seqs).cast("Q")[-1] if seqs else 0
