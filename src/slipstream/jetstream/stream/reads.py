"""Reads that show only what is committed. A message that could still be lost is not there yet."""

from __future__ import annotations

from slipstream.jetstream.store.contract import StoreReads
from slipstream.jetstream.store.values import ALL, Damaged, Read, StoredMessage

__all__ = ["at", "count_from", "following", "last"]


def at(store: StoreReads, seq: int) -> StoredMessage | None:
    """The message at a sequence."""
    return _readable(store.get(seq)) if seq <= store.committed_seq else None


def following(store: StoreReads, subject: bytes, from_seq: int) -> StoredMessage | None:
    """The first message at or above `from_seq` under a subject or wildcard (`b""`: any subject)."""
    filters = [subject] if subject else ALL
    seq = store.next_seq(filters, from_seq)
    while seq and seq <= store.committed_seq:
        message = _readable(store.get(seq))
        if message is not None:
            return message
        seq = store.next_seq(filters, seq + 1)
    return None


def last(store: StoreReads, subject: bytes) -> StoredMessage | None:
    """The newest message under a subject or wildcard."""
    return _readable(store.load_last(subject))


def count_from(store: StoreReads, subject: bytes, from_seq: int) -> int:
    """Messages under a subject or wildcard (`b""`: any) at or above `from_seq`."""
    filters = [subject] if subject else ALL
    return store.count_matching(filters, from_seq, store.committed_seq)


def _readable(found: Read | None) -> StoredMessage | None:
    return None if found is None or isinstance(found, Damaged) else found
