"""Staged parts, which are written from the beginning to the end: sealed in pieces of one size.

    0 head as of a box, with another magic     96 piece 0, tag     piece 1, tag     ...     the last one, shorter

Piece i has i as its nonce, under a key made for this file alone. A piece is sealed when it is full, the last one when
the file is synced or gets its name; then nothing more can be added.
"""

from __future__ import annotations

import errno
from typing import Final

from cryptography.exceptions import InvalidTag

from slipstream.jetstream.store.sealed.boxes import BOX_HEAD, BOX_HEAD_BYTES, read_box_head
from slipstream.jetstream.store.sealed.keys import TAG_BYTES, Aead, DataKey, KeyRing

__all__ = ["PART_MAGIC", "PartReader", "PartWriter", "part_size"]

PART_MAGIC: Final = b"SLIPPRT1"
_PIECE: Final = 65536
_STEP: Final = _PIECE + TAG_BYTES


class PartWriter:
    """One part being written."""

    def __init__(self, key: DataKey, seed: bytes) -> None:
        """Nothing was added."""
        self._head = BOX_HEAD.pack(PART_MAGIC, key.cipher, key.key_id, key.wrapped, seed)
        self._key = key.derive(b"part", seed)
        self._waiting = bytearray()
        self._pieces = 0
        self._length = 0
        self._ended = False

    def add(self, offset: int, data: bytes) -> tuple[int, bytes]:
        """Where to write what, now that these bytes were added behind the ones before."""
        if self._ended or offset != self._length:
            raise OSError(errno.EINVAL, "a sealed part is written from its beginning to its end")
        at = 0 if not self._length else BOX_HEAD_BYTES + self._pieces * _STEP
        out = [] if self._length else [self._head]
        self._length += len(data)
        self._waiting += data
        done = 0
        while len(self._waiting) - done >= _PIECE:
            out.append(self._seal(bytes(self._waiting[done : done + _PIECE])))
            done += _PIECE
        del self._waiting[:done]
        return at, b"".join(out)

    def end(self) -> tuple[int, bytes]:
        """The same for the last piece. Afterwards nothing can be added."""
        if self._ended:
            return 0, b""
        self._ended = True
        at = BOX_HEAD_BYTES + self._pieces * _STEP if self._length else 0
        out = b"" if self._length else self._head
        return at, out + (self._seal(bytes(self._waiting)) if self._waiting else b"")

    def _seal(self, piece: bytes) -> bytes:
        nonce = self._pieces.to_bytes(12, "little")
        self._pieces += 1
        return self._key.encrypt(nonce, piece, None)


class PartReader:
    """A part that is whole."""

    def __init__(self, key: Aead) -> None:
        """Pieces under this key."""
        self._key = key

    @classmethod
    def of(cls, ring: KeyRing, head: bytes) -> PartReader | None:
        """For the part with this head; None if it cannot be read."""
        found = read_box_head(ring, head, PART_MAGIC)
        return cls(found[0].derive(b"part", found[1])) if found is not None else None

    def place(self, offset: int, length: int) -> tuple[int, int]:
        """Which stretch of the file holds this stretch of the part."""
        first, last = offset // _PIECE, (offset + max(length, 1) - 1) // _PIECE
        return BOX_HEAD_BYTES + first * _STEP, (last - first + 1) * _STEP

    def open(self, offset: int, length: int, sealed: bytes) -> bytes:
        """The bytes of the part in what `place` named.

        Raises:
            OSError: they were changed.
        """
        first, out = offset // _PIECE, []
        try:
            for number, at in enumerate(range(0, len(sealed), _STEP), first):
                out.append(self._key.decrypt(number.to_bytes(12, "little"), sealed[at : at + _STEP], None))
        except InvalidTag as error:
            raise OSError(errno.EIO, "a staged part does not check out") from error
        begin = offset - first * _PIECE
        return b"".join(out)[begin : begin + length]


def part_size(size: int) -> int:
    """Bytes of a part whose file has this size."""
    sealed = max(size - BOX_HEAD_BYTES, 0)
    pieces, rest = divmod(sealed, _STEP)
    return pieces * _PIECE + max(rest - TAG_BYTES, 0)
