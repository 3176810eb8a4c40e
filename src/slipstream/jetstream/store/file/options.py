"""What a file store needs from outside."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.dataclass import dataclass
from slipstream.jetstream.store.file.disk.reserve import Reserve
from slipstream.jetstream.store.limits import (
    STORE_PACKED_SEGMENT_BYTES,
    STORE_SEGMENT_BYTES,
    STORE_SEGMENT_BYTES_MIN,
    STORE_SEGMENTS_PER_STREAM_MIN,
)
from slipstream.jetstream.store.packed.codecs import Codec

__all__ = ["FileStoreOptions", "segment_bytes_for"]


@dataclass(frozen=True, slots=True)
class FileStoreOptions:
    """Sources of randomness and time, and sizes."""

    random64: Callable[[], int]
    """Random 64-bit numbers: salts and hash keys."""
    noise: Callable[[int], bytes]
    """That many random bytes, to overwrite erased messages."""
    now_ns: Callable[[], int]
    """Wall clock, for the age of segments."""
    segment_bytes: int = STORE_SEGMENT_BYTES
    reserve: Reserve | None = None
    codec: Codec = Codec.NONE
    """What closed segments are packed with."""
    replicated: bool = False
    """A commit that is on this disk is not committed yet: a majority says when (`FileStore.commit_frames`)."""


def segment_bytes_for(max_bytes: int, codec: Codec = Codec.NONE) -> int:
    """Segment size of a stream: smaller ones for a small `max_bytes`, so that space comes back in small pieces.

    And for a packed one, because the segment that is written is not packed yet.
    """
    most = STORE_SEGMENT_BYTES if codec is Codec.NONE else STORE_PACKED_SEGMENT_BYTES
    if max_bytes <= 0:
        return most
    return min(max(max_bytes // STORE_SEGMENTS_PER_STREAM_MIN, STORE_SEGMENT_BYTES_MIN), most)
