"""The states of the consumers of a stream in memory."""

from __future__ import annotations

__all__ = ["MemoryJournal"]


class MemoryJournal:
    """Implements `StoreJournal`."""

    def __init__(self) -> None:
        """No consumer has a state."""
        self._entries: dict[bytes, list[bytes]] = {}
        self.is_changed = False
        """Whether the next commit has something to do here."""

    def put(self, key: bytes, state: bytes) -> None:
        """See `StoreJournal.put`."""
        self._entries[key] = [state]
        self.is_changed = True

    def add(self, key: bytes, delta: bytes) -> None:
        """See `StoreJournal.add`."""
        self._entries[key].append(delta)
        self.is_changed = True

    def remove(self, key: bytes) -> None:
        """See `StoreJournal.remove`."""
        self._entries.pop(key, None)
        self.is_changed = True

    def entries(self) -> dict[bytes, list[bytes]]:
        """See `StoreJournal.entries`."""
        return {key: list(parts) for key, parts in self._entries.items()}
