"""What a stream's table is to whoever writes or reads it, whatever its format.

Invariant: a commit adds messages and moves the position in one step. So the table has every message that the stream
had up to the position, once, and none behind it, wherever a writer was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from slipstream.spark.lake.base import Wish

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LakeTable", "OpenTable"]


class LakeTable(Protocol):
    """The table of one stream."""

    place: str
    """For people: where it is."""

    def position(self) -> int:
        """Messages up to this sequence are in it; 0 for none. Sees what others have committed."""
        ...

    def append(self, batches: Iterator[pa.RecordBatch], after: int, upto: int) -> int | None:
        """Add messages behind `after`, and move the position to `upto`.

        Args:
            batches: columns `slipstream.spark.lake.files.COLUMNS`, in the order of sequences.
            after: the position that they follow.
            upto: the new one.

        Returns:
            How many there were; None if somebody else has written meanwhile, and nothing was added.
        """
        ...

    def compact(self, file_bytes: int, files: int) -> int:
        """Put small files together once there are so many; how many were replaced."""
        ...

    def expire(self, keep_seconds: float) -> int:
        """Forget versions that are older, and remove their files; how many files."""
        ...

    def read(self, wish: Wish, version: int | None) -> Iterator[pa.RecordBatch]:
        """Messages of a version, or of the newest, in the order of their sequences; columns as for `append`."""
        ...

    def is_explained(self, first: int, last: int) -> bool:
        """Whether messages that the table lacks were erased on purpose."""
        ...

    @property
    def identity(self) -> str:
        """Of the stream."""
        ...

    @property
    def table_id(self) -> str:
        """Tells it from every other table."""
        ...


OpenTable = Callable[[str, str | None], LakeTable]
"""By the name and the identity of a stream: its table, made if it is not there and the identity is known."""
