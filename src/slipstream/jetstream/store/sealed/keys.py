"""Keys of encryption at rest: the main key, and data keys that it wraps.

    secret from outside --HMAC--> main key --wraps--> data key of a file --HMAC--> key of one purpose or run
                                           '--HMAC--> names of directories

Every derivation is HMAC-SHA256 with a word of its own. A data key is 32 random bytes; each sealed file carries its
own, wrapped, so that a file is readable with the main key alone, there is no list of keys to lose, and the key goes
with the file (`key_erasure`).

No nonce is used twice under one key, by construction: what is sealed once (a wrapped key, a box) is sealed under a key
of its own, made from 16 random bytes that are stored beside it; what is sealed piece by piece has numbers as
nonces that only grow (`frames`, `parts`).

What this is not: where the secret comes from (`slipstream.server.jetstream.at_rest`), or any file.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

__all__ = ["SEED_BYTES", "TAG_BYTES", "WRAPPED_BYTES", "Aead", "AtRestCipher", "DataKey", "KeyRing", "MainKey"]

Aead = AESGCM | ChaCha20Poly1305

SEED_BYTES: Final = 16
TAG_BYTES: Final = 16
WRAPPED_BYTES: Final = 64
"""A wrapped data key: seed, 32 bytes, tag."""
_KEY_BYTES: Final = 32
_ONLY_NONCE: Final = bytes(12)  # of a key that seals once


class AtRestCipher(IntEnum):
    """Ciphers, as files name them."""

    AES = 1
    CHACHA = 2


class DataKey:
    """The key of one file."""

    __slots__ = ("_secret", "cipher", "key_id", "wrapped")

    def __init__(self, secret: bytes, cipher: AtRestCipher, key_id: int, wrapped: bytes) -> None:
        """A key that was made, or unwrapped."""
        self._secret = secret
        self.cipher = cipher
        self.key_id = key_id
        """Of the main key that wraps it."""
        self.wrapped = wrapped

    def derive(self, word: bytes, *parts: bytes) -> Aead:
        """The key of one purpose. Parts have fixed lengths, or there is one."""
        return _aead(self.cipher, hmac.digest(self._secret, word + b"\0" + b"".join(parts), "sha256"))

    def wrapped_by(self, main: MainKey, seed: bytes) -> DataKey:
        """The same key, wrapped by another main key."""
        return DataKey(self._secret, self.cipher, main.id, main.wrap(self._secret, seed, self.cipher))


class MainKey:
    """What wraps the data keys; made from a secret of any length."""

    __slots__ = ("_names", "_wrapping", "cipher", "id")

    def __init__(self, secret: bytes, cipher: AtRestCipher) -> None:
        """Derive what is needed; the secret itself is not kept."""
        root = hmac.digest(b"slipstream at rest 1", secret, "sha256")
        self.cipher = cipher
        self.id = int.from_bytes(hmac.digest(root, b"id", "sha256")[:4], "little") or 1
        """Tells which main key a file was written under; nothing about the key itself."""
        self._wrapping = hmac.digest(root, b"wrapping", "sha256")
        self._names = hmac.digest(root, b"names", "sha256")

    def wrap(self, secret: bytes, seed: bytes, cipher: AtRestCipher) -> bytes:
        """A data key of this cipher as files carry it."""
        key = _aead(cipher, hmac.digest(self._wrapping, seed, "sha256"))
        return seed + key.encrypt(_ONLY_NONCE, secret, cipher.to_bytes(4, "little"))

    def unwrap(self, cipher: AtRestCipher, wrapped: bytes) -> bytes | None:
        """The data key in there; None if it was not wrapped by this key, or is damaged."""
        seed, sealed = wrapped[:SEED_BYTES], wrapped[SEED_BYTES:]
        key = _aead(cipher, hmac.digest(self._wrapping, seed, "sha256"))
        try:
            return key.decrypt(_ONLY_NONCE, sealed, cipher.to_bytes(4, "little"))
        except InvalidTag:
            return None

    def directory_name(self, name: str) -> str:
        """What a directory is called that is not to say whose it is."""
        return hmac.digest(self._names, name.encode(), "sha256")[:16].hex()


class KeyRing:
    """The main key that new files are written under, and those that old ones may have been."""

    def __init__(
        self,
        current: MainKey | None,
        previous: MainKey | None,
        noise: Callable[[int], bytes],
        *,
        accepts_plain: bool = False,
    ) -> None:
        """Without a current key new files are plain.

        Args:
            current: for new files, and old ones.
            previous: for old ones.
            noise: random bytes fit for keys.
            accepts_plain: whether a file that is not encrypted is believed: while a store is converted.
        """
        self.current = current
        self.noise = noise
        self.accepts_plain = accepts_plain or current is None
        """Whether a file that is not encrypted is believed."""
        self.is_converting = accepts_plain or (current is None and previous is not None)
        self._keys = {key.id: key for key in (previous, current) if key is not None}
        self._opened: dict[bytes, DataKey] = {}

    def refuse_plain(self) -> None:
        """Everything is encrypted now: what is not was put there by somebody else."""
        self.accepts_plain = self.current is None

    def make(self) -> DataKey:
        """A new data key. There must be a current main key."""
        assert self.current is not None
        secret = self.noise(_KEY_BYTES)
        wrapped = self.current.wrap(secret, self.noise(SEED_BYTES), self.current.cipher)
        return DataKey(secret, self.current.cipher, self.current.id, wrapped)

    def open(self, cipher: int, key_id: int, wrapped: bytes) -> DataKey | None:
        """The data key that a file carries; None if no main key at hand has wrapped it."""
        known = self._opened.get(wrapped)
        if known is not None and known.key_id == key_id and known.cipher == cipher:
            return known
        main = self._keys.get(key_id)
        if main is None or cipher not in (AtRestCipher.AES, AtRestCipher.CHACHA) or len(wrapped) != WRAPPED_BYTES:
            return None
        secret = main.unwrap(AtRestCipher(cipher), wrapped)
        if secret is None:
            return None
        if len(self._opened) > _OPENED_MAX:
            self._opened.clear()
        opened = self._opened[wrapped] = DataKey(secret, AtRestCipher(cipher), key_id, wrapped)
        return opened

    def forget(self, wrapped: bytes) -> None:
        """Nothing that was sealed under this data key is needed any more."""
        self._opened.pop(wrapped, None)


_OPENED_MAX: Final = 10_000  # data keys held besides those in use


def _aead(cipher: AtRestCipher, key: bytes) -> Aead:
    return AESGCM(key) if cipher == AtRestCipher.AES else ChaCha20Poly1305(key)
