"""The hash chain as docs/internals/format.md describes it, over records in plain Python."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from .records import Record, encode_record

CHAIN, MARK = 14, 12


def leaf(record: Record) -> bytes:
    """Digest of a record without its checksum and padding."""
    whole = encode_record(record, 0)
    extra = 8 if record.expires else 0
    size = 32 + extra + len(record.subject) + len(record.headers) + len(record.payload)
    return hashlib.blake2b(whole[4:size], digest_size=32, person=b"slipstream.leaf").digest()


def links(records: Iterable[Record], uid: bytes, head: bytes, count: int) -> list[bytes]:
    """Payloads of the CHAIN records."""
    made, leaves = [], []
    for record in records:
        if record.kind == CHAIN:
            if leaves:
                together = b"".join(leaves) + head
                head = hashlib.blake2b(together, digest_size=32, salt=uid, person=b"slipstream.link").digest()
                count += len(leaves)
                leaves = []
            made.append(count.to_bytes(8, "little") + head)
        elif record.kind != MARK:
            leaves.append(leaf(record))
    return made
