"""Parts of writes that are not committed yet, as whoever commits them sees them.

A name says what a part is of and until when it is kept, so that nothing else has to be kept about it.

What this is not: the content. Bytes are checked by whoever commits them. All calls block and are made in threads, those
for one part one after the other.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["StageArea"]


class StageArea(Protocol):
    """Staged parts of one stream."""

    def create(self, name: str) -> None:
        """Begin a part; what was begun under the same name is replaced."""
        ...

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Add bytes to a part that was begun.

        Raises:
            StorageFault: the disk refused.
        """
        ...

    def finish(self, name: str) -> None:
        """Make a part whole. It survives the end of the process; after a power cut it may be spoilt, or gone.

        Raises:
            StorageFault: the disk refused.
        """
        ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Bytes of a whole part; none behind its end.

        Raises:
            StorageFault: there is no such part, or the disk failed.
        """
        ...

    def remove(self, name: str) -> None:
        """Forget a part, whole or not; nothing happens when there is none."""
        ...

    def names(self) -> list[tuple[str, int]]:
        """Whole parts and their sizes. What was left open by an earlier run is removed."""
        ...

    def is_used(self) -> bool:
        """Whether there may be any parts: quick enough for the loop."""
        ...

    def destroy(self) -> None:
        """Remove everything."""
        ...
