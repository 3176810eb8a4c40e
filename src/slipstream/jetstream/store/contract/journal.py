"""The states of a stream's consumers, as their store keeps them."""

from __future__ import annotations

from typing import Protocol

__all__ = ["StoreJournal"]


class StoreJournal(Protocol):
    """For each consumer a whole state and the changes since; durable with the next commit of the store."""

    def put(self, key: bytes, state: bytes) -> None:
        """Set the whole state of one consumer; forgets its earlier states and deltas."""
        ...

    def add(self, key: bytes, delta: bytes) -> None:
        """Add one change to the state of a consumer. The owner puts a whole state now and then to bound the list."""
        ...

    def remove(self, key: bytes) -> None:
        """Forget a consumer; nothing happens when there is none."""
        ...

    def entries(self) -> dict[bytes, list[bytes]]:
        """For each consumer the last whole state (first) and the deltas since, in order."""
        ...
