"""Consumers as a store has them: what a server knows of those that another one leads."""

from __future__ import annotations

from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.store.file import FileStore

__all__ = ["stored_consumers"]


def stored_consumers(store: FileStore) -> dict[str, ConsumerState]:
    """By their names. One that cannot be read is its leader's to report: here it is not there."""
    found = {}
    for key, parts in store.journal.entries().items():
        try:
            found[key.decode("utf-8", "replace")] = ConsumerState.decode(parts)
        except ValueError:
            continue
    return found
