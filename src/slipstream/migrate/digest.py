"""One number over all messages of a stream: the same on both sides if every byte of every message is."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from slipstream.migrate.blocks import Record

__all__ = ["MessageDigest"]

_LENGTHS = struct.Struct("<QqHII")


class MessageDigest:
    """BLAKE2b over sequence, time, subject, headers and payload of messages in their order."""

    __slots__ = ("_hash", "messages")

    def __init__(self) -> None:
        """No message yet."""
        self._hash = hashlib.blake2b(digest_size=16)
        self.messages = 0

    def update(self, records: Iterable[Record]) -> None:
        """Add messages."""
        parts: list[bytes] = []
        for seq, ts_ns, subject, headers, payload in records:
            parts += (
                _LENGTHS.pack(seq, ts_ns, len(subject), len(headers), len(payload)),
                subject,
                headers,
                payload,
            )
            self.messages += 1
        self._hash.update(b"".join(parts))

    def hex(self) -> str:
        """The number so far."""
        return self._hash.hexdigest()
