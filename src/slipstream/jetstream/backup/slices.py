"""The messages of a stream for a backup, a slice at a time."""

from __future__ import annotations

from collections.abc import Iterator

from slipstream.jetstream.backup.errors import UnreadableMessage
from slipstream.jetstream.store.base import ALL, Damaged, Store, StoredMessage
from slipstream.limits import BACKUP_SLICE_BYTES, BACKUP_SLICE_MSGS

__all__ = ["slices"]


def slices(store: Store, last_seq: int) -> Iterator[list[StoredMessage]]:
    """Everything up to `last_seq`, in order.

    Raises:
        UnreadableMessage: a message cannot be read, so there is no complete backup.
    """
    seq = store.first_seq
    while seq <= last_seq:
        batch = store.read_batch(ALL, seq, max_msgs=BACKUP_SLICE_MSGS, max_bytes=BACKUP_SLICE_BYTES, up_to_seq=last_seq)
        if not batch:
            return
        messages: list[StoredMessage] = []
        for message in batch:
            if isinstance(message, Damaged):
                raise UnreadableMessage(f"couldn't load message {message.seq}: {message.reason}")
            messages.append(message)
        yield messages
        seq = batch[-1].seq + 1
