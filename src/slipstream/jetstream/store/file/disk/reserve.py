"""Space set aside beside the streams, so that a full disk can still log what frees space.

The file is made at start, given up when a store runs out of space, and made again when there is room.
"""

from __future__ import annotations

from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.limits import STORE_RESERVE_BYTES

__all__ = ["Reserve"]

_NAME = ".reserve"  # no directory of an account begins with a dot


class Reserve:
    """One reserve file, shared by the stores of a server. Safe to call from their threads: each call is one step."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Remember where it lies; `fill` makes it."""
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{_NAME}"
        self.is_given_up = False
        """It was there, and its space is used now: before more messages are taken it has to come back."""

    def fill(self) -> bool:
        """Set the space aside if it is not; False when there is not enough."""
        try:
            if _NAME not in self._disk.list_dir(self._directory):
                self._disk.create(self._path)
            if self._disk.size(self._path) < STORE_RESERVE_BYTES:
                self._disk.allocate(self._path, STORE_RESERVE_BYTES)
        except OSError:
            return False
        self.is_given_up = False
        return True

    def release(self) -> None:
        """Give the space up; nothing happens when it is given up already."""
        if _NAME in self._disk.list_dir(self._directory) and self._disk.size(self._path):
            self._disk.truncate(self._path, 0)
            self.is_given_up = True
