"""Staged parts of streams in memory."""

from __future__ import annotations

from slipstream.errors import StorageFault

__all__ = ["MemoryStage"]


class MemoryStage:
    """Parts as bytes; they go with the process, as the stream does."""

    def __init__(self) -> None:
        """Start empty."""
        self._open: dict[str, bytearray] = {}
        self._whole: dict[str, bytes] = {}

    def create(self, name: str) -> None:
        """See `StageArea.create`."""
        self._open[name] = bytearray()

    def write(self, name: str, offset: int, data: bytes) -> None:
        """See `StageArea.write`."""
        self._open[name][offset:] = data

    def finish(self, name: str) -> None:
        """See `StageArea.finish`."""
        self._whole[name] = bytes(self._open.pop(name))

    def read(self, name: str, offset: int, length: int) -> bytes:
        """See `StageArea.read`."""
        if name not in self._whole:
            raise StorageFault("no such part")
        return self._whole[name][offset : offset + length]

    def remove(self, name: str) -> None:
        """See `StageArea.remove`."""
        self._open.pop(name, None)
        self._whole.pop(name, None)

    def names(self) -> list[tuple[str, int]]:
        """See `StageArea.names`."""
        return [(name, len(data)) for name, data in self._whole.items()]

    def is_used(self) -> bool:
        """See `StageArea.is_used`."""
        return bool(self._open or self._whole)

    def destroy(self) -> None:
        """See `StageArea.destroy`."""
        self._open.clear()
        self._whole.clear()
