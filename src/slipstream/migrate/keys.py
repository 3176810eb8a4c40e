"""Encrypted stores of nats-server: what the one key of a server leads to.

    server's key ──HMAC-SHA256(account + context)──► key of an asset's key file ──► seed ──► configuration, state, block

    key file    nonce, seed (32) sealed
    sealed      XChaCha20-Poly1305 with 24 bytes of nonce, or AES-256-GCM with 16; the nonce stands before it
    block       seed and the nonce of the key file: a stream of XChaCha20 or AES-CTR, from its first byte

    context     `stream`, `stream:block number`, `stream.consumer`

Which cipher it was is found out by trying: only the right one opens a sealed text. So stores that changed their cipher
or their key half way are read like any other.
"""

from __future__ import annotations

import hmac
import importlib.util
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slipstream.migrate.errors import MigrationError, WrongKey

__all__ = ["AES", "CHACHA", "AssetKey", "Keys"]

CHACHA: Final = "chacha"
AES: Final = "aes"
_NONCE_BYTES: Final = {CHACHA: 24, AES: 16}
_SEED_BYTES: Final = 32
_TAG_BYTES: Final = 16
_MISSING: Final = "encrypted streams need the package `cryptography`: pip install slipstream-server[migrate]"


class Keys:
    """The keys of a server, as one account uses them."""

    def __init__(self, secrets: Sequence[str], account: str) -> None:
        """Try these, the present one first."""
        self._secrets = [secret.encode() for secret in secrets]
        self._account = account.encode()

    def open(self, sealed: bytes, context: str) -> AssetKey:
        """The key in a key file.

        Raises:
            WrongKey: no key opens it, or none was given.
        """
        if not self._secrets:
            raise WrongKey("it is encrypted: give the server's key with --key-file or --key")
        for secret in self._secrets:
            derived = hmac.digest(secret, self._account + context.encode(), "sha256")
            for cipher, size in _NONCE_BYTES.items():
                if len(sealed) != size + _SEED_BYTES + _TAG_BYTES:
                    continue
                seed = AssetKey(cipher, derived, b"").open(sealed)
                if seed is not None:
                    return AssetKey(cipher, seed, sealed[:size])
        raise WrongKey("the key does not fit")


@dataclass(frozen=True, slots=True, repr=False)
class AssetKey:
    """The key of a stream, a consumer or a block."""

    cipher: str
    seed: bytes
    nonce: bytes

    def open(self, data: bytes) -> bytes | None:
        """What was sealed; None if this is not its key, or it was changed."""
        _need_library()
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

        size = _NONCE_BYTES[self.cipher]
        nonce, content = data[:size], data[size:]
        if len(nonce) < size or len(content) < _TAG_BYTES:
            return None
        cipher: AESGCM | ChaCha20Poly1305
        if self.cipher == CHACHA:
            cipher = ChaCha20Poly1305(_hchacha20(self.seed, nonce[:16]))
            nonce = bytes(4) + nonce[16:]
        else:
            cipher = AESGCM(self.seed)
        try:
            return cipher.decrypt(nonce, content, None)
        except InvalidTag:
            return None

    def decrypt_block(self, data: bytes) -> bytes:
        """The content of a block."""
        _need_library()
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        if self.cipher == CHACHA:
            # A counter of four bytes, then the nonce.
            nonce = bytes(4) + bytes(4) + self.nonce[16:]
            chacha = algorithms.ChaCha20(_hchacha20(self.seed, self.nonce[:16]), nonce)
            return Cipher(chacha, mode=None).decryptor().update(data)
        return Cipher(algorithms.AES(self.seed), modes.CTR(self.nonce)).decryptor().update(data)


def _need_library() -> None:
    if importlib.util.find_spec("cryptography") is None:
        raise MigrationError(_MISSING)


def _hchacha20(key: bytes, nonce: bytes) -> bytes:
    """The key that XChaCha20 derives from a key and the first 16 bytes of a long nonce."""
    words = list(struct.unpack("<16I", b"expand 32-byte k" + key + nonce))
    for _ in range(10):
        for a, b, c, d in _QUARTERS:
            words[a] = words[a] + words[b] & 0xFFFFFFFF
            words[d] = _rotated(words[d] ^ words[a], 16)
            words[c] = words[c] + words[d] & 0xFFFFFFFF
            words[b] = _rotated(words[b] ^ words[c], 12)
            words[a] = words[a] + words[b] & 0xFFFFFFFF
            words[d] = _rotated(words[d] ^ words[a], 8)
            words[c] = words[c] + words[d] & 0xFFFFFFFF
            words[b] = _rotated(words[b] ^ words[c], 7)
    return struct.pack("<8I", *words[:4], *words[12:])


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & 0xFFFFFFFF


_QUARTERS: Final = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)
