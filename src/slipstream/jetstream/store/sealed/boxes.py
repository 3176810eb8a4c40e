"""Small files that are written whole: sealed in one piece.

    0 magic   8 cipher   12 key id   16 wrapped key   80 seed   96 sealed content, tag

The key is made from the data key and the seed, which is random: it seals this box and nothing else. The name of the
file is bound as well, so that a box in the place of another is as good as none.
"""

from __future__ import annotations

import struct
from typing import Final

from cryptography.exceptions import InvalidTag

from slipstream.jetstream.store.sealed.keys import SEED_BYTES, TAG_BYTES, DataKey, KeyRing

__all__ = ["BOX_HEAD", "BOX_HEAD_BYTES", "BOX_MAGIC", "open_box", "read_box_head", "seal_box"]

BOX_MAGIC: Final = b"SLIPBOX1"
BOX_HEAD: Final = struct.Struct("<8sII64s16s")
BOX_HEAD_BYTES: Final = BOX_HEAD.size
_NONCE: Final = bytes(12)


def seal_box(key: DataKey, seed: bytes, name: str, content: bytes) -> bytes:
    """The file with this content."""
    head = BOX_HEAD.pack(BOX_MAGIC, key.cipher, key.key_id, key.wrapped, seed)
    return head + key.derive(b"box", seed).encrypt(_NONCE, content, head + name.encode())


def open_box(ring: KeyRing, name: str, data: bytes) -> bytes | None:
    """What a box holds; None if it is damaged, of another place, or of another key."""
    found = read_box_head(ring, data, BOX_MAGIC)
    if found is None or len(data) < BOX_HEAD_BYTES + TAG_BYTES:
        return None
    key, seed = found
    try:
        return key.derive(b"box", seed).decrypt(_NONCE, data[BOX_HEAD_BYTES:], data[:BOX_HEAD_BYTES] + name.encode())
    except InvalidTag:
        return None


def read_box_head(ring: KeyRing, data: bytes, magic: bytes) -> tuple[DataKey, bytes] | None:
    """Data key and seed that the head of a file names."""
    if len(data) < BOX_HEAD_BYTES or data[:8] != magic:
        return None
    _, cipher, key_id, wrapped, seed = BOX_HEAD.unpack_from(data)
    key = ring.open(cipher, key_id, wrapped)
    return (key, seed[:SEED_BYTES]) if key is not None else None
