"""Messages that have headers, read in batches: how ids, schedules and origins are found again in a log.

Most messages of most streams have no headers, and what has none is not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from slipstream.jetstream.store.contract import StoreMessages
from slipstream.jetstream.store.values import ALL, StoredMessage
from slipstream.jetstream.stream.limits import HEADER_SCAN_BATCH_BYTES, HEADER_SCAN_BATCH_MSGS

__all__ = ["messages_with_headers"]


def messages_with_headers(store: StoreMessages, first_seq: int, last_seq: int) -> Iterator[StoredMessage]:
    """The readable ones between two sequences, both included, in order."""
    seq = first_seq
    while (seq := store.next_with_headers(seq)) and seq <= last_seq:
        batch = store.read_batch(
            ALL, seq, max_msgs=HEADER_SCAN_BATCH_MSGS, max_bytes=HEADER_SCAN_BATCH_BYTES, up_to_seq=last_seq
        )
        for message in batch:
            if isinstance(message, StoredMessage) and message.headers:
                yield message
        if not batch:
            return
        seq = batch[-1].seq + 1
