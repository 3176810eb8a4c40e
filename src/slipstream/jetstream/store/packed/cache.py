"""Blocks that were unpacked last: so many bytes of them at most, whatever is read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

__all__ = ["BlockCache"]

CACHE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of all files of a disk together: some hundred blocks, for readers that come by the same ones."""


class BlockCache:
    """Plain blocks by file and number. Safe to call from several threads."""

    def __init__(self, most: int = CACHE_BYTES_MAX) -> None:
        """Hold `most` bytes."""
        self._most = most
        self._lock = threading.Lock()
        self._blocks: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._bytes = 0
        self._next = 0

    def new_owner(self) -> int:
        """A number for a file."""
        with self._lock:
            self._next += 1
            return self._next

    def get(self, owner: int, index: int) -> bytes | None:
        """A block, if it is here."""
        with self._lock:
            found = self._blocks.get((owner, index))
            if found is not None:
                self._blocks.move_to_end((owner, index))
            return found

    def put(self, owner: int, index: int, block: bytes) -> None:
        """Keep a block for a while."""
        with self._lock:
            before = self._blocks.pop((owner, index), b"")
            self._blocks[owner, index] = block
            self._bytes += len(block) - len(before)
            while self._bytes > self._most:
                self._bytes -= len(self._blocks.popitem(last=False)[1])

    def drop(self, owner: int) -> None:
        """Forget what a file has here."""
        with self._lock:
            for key in [key for key in self._blocks if key[0] == owner]:
                self._bytes -= len(self._blocks.pop(key))
