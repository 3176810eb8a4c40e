"""The messages of a stream for a backup, a slice at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from slipstream.jetstream.backup.errors import UnreadableMessage
from slipstream.jetstream.backup.limits import BACKUP_SLICE_BYTES, BACKUP_SLICE_MSGS
from slipstream.jetstream.store.contract import StoreReads
from slipstream.jetstream.store.values import ALL, Damaged, StoredMessage
from slipstream.kernels.fastpath.handout import Batch

__all__ = ["Slice", "lengths", "slices"]

_CAREFUL_MSGS: Final = 256  # read as objects at a time, where a batch cannot be had
_LENGTHS: Final = 1_000_000  # messages whose lengths are looked at before others have their turn: a millisecond

Slice = Batch | list[StoredMessage]


def slices(store: StoreReads, last_seq: int) -> Iterator[Slice]:
    """Everything up to `last_seq`, in order.

    Raises:
        UnreadableMessage: a message cannot be read, so there is no complete backup.
    """
    seq = store.first_seq
    while seq <= last_seq:
        batch = store.gather(ALL, seq, max_msgs=BACKUP_SLICE_MSGS, max_bytes=BACKUP_SLICE_BYTES, up_to_seq=last_seq)
        if batch:
            seq = batch.seq(len(batch) - 1) + 1
            yield batch
            continue
        read = store.read_batch(ALL, seq, max_msgs=_CAREFUL_MSGS, max_bytes=BACKUP_SLICE_BYTES, up_to_seq=last_seq)
        if not read:
            return
        messages: list[StoredMessage] = []
        for message in read:
            if isinstance(message, Damaged):
                raise UnreadableMessage(f"couldn't load message {message.seq}: {message.reason}")
            messages.append(message)
        seq = read[-1].seq + 1
        yield messages


def lengths(store: StoreReads, last_seq: int) -> Iterator[int]:
    """Subject, headers and payload of the longest message of each of many slices, in bytes."""
    seq = store.first_seq
    while seq:
        longest, seq = store.longest_message(seq, last_seq, _LENGTHS)
        yield longest
