"""Key pairs, and the directory in which `nsc` and `nats` keep their seeds.

keys/keys/A/BC/ABC….nk      one seed a file, by kind and the first letters of its public key
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from slipstream.auth.nkeys import KeyKind, encode_public_key, is_public_key
from slipstream.cli.auth.files import make_directory, read_text, write_secret
from slipstream.cli.connection import Failure
from slipstream.client.credentials import decode_seed, encode_seed

__all__ = ["KeyPair", "Keyring"]

_IGNORED: Final = "# seeds and credentials do not belong into a repository\n*.nk\n*.creds\n"


class KeyPair:
    """A key pair. Its seed goes into files alone, never into a text for people."""

    def __init__(self, kind: KeyKind, secret: bytes) -> None:
        self.kind = kind
        self._secret = secret
        self.public = encode_public_key(kind, _public_half(kind, secret))

    @classmethod
    def new(cls, kind: KeyKind) -> KeyPair:
        """Make one."""
        return cls(kind, os.urandom(32))

    @classmethod
    def read(cls, text: str) -> KeyPair:
        """The key of a seed, which may stand in a file with comments.

        Raises:
            ClientError: there is none.
        """
        return cls(*decode_seed(text))

    @property
    def seed(self) -> str:
        """The secret half as text."""
        return encode_seed(self.kind, self._secret)

    def sign(self, data: bytes) -> bytes:
        """The signature of some bytes."""
        from nacl.signing import SigningKey

        return SigningKey(self._secret).sign(data).signature

    def seal(self, data: bytes, recipient: bytes) -> bytes:
        """Encrypt for a curve key, as `nkeys` does."""
        from nacl.public import Box, PrivateKey, PublicKey

        nonce = os.urandom(Box.NONCE_SIZE)
        box = Box(PrivateKey(self._secret), PublicKey(recipient))
        return _SEALED + nonce + box.encrypt(data, nonce).ciphertext

    def unseal(self, sealed: bytes, sender: bytes) -> bytes:
        """Decrypt what a curve key sealed for this one.

        Raises:
            Failure: it is not that.
        """
        from nacl.exceptions import CryptoError
        from nacl.public import Box, PrivateKey, PublicKey

        start = len(_SEALED) + Box.NONCE_SIZE
        if not sealed.startswith(_SEALED) or len(sealed) < start:
            raise Failure("this was not sealed with a curve key")
        try:
            box = Box(PrivateKey(self._secret), PublicKey(sender))
            return bytes(box.decrypt(sealed[start:], sealed[len(_SEALED) : start]))
        except CryptoError as error:
            raise Failure("it cannot be opened: another key, or it was changed") from error


_SEALED: Final = b"xkv1"


def _public_half(kind: KeyKind, secret: bytes) -> bytes:
    if kind == KeyKind.CURVE:
        from nacl.public import PrivateKey

        return bytes(PrivateKey(secret).public_key)
    from nacl.signing import SigningKey

    return bytes(SigningKey(secret).verify_key)


class Keyring:
    """The seeds that are here."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def get(self, public: str) -> KeyPair | None:
        """The key pair of a public key, if its seed is here.

        Raises:
            Failure: the file holds another key.
        """
        path = self._path(public)
        if path is None or not path.is_file():
            return None
        key = KeyPair.read(read_text(path))
        if key.public != public:
            raise Failure(f"{path} holds another key")
        return key

    def add(self, key: KeyPair) -> None:
        """Keep a seed."""
        path = self._path(key.public)
        assert path is not None
        make_directory(path.parent)
        ignored = self.directory / ".gitignore"
        if not ignored.exists():
            write_secret(ignored, _IGNORED)
        write_secret(path, key.seed)

    def remove(self, public: str) -> None:
        """Forget a seed for ever."""
        path = self._path(public)
        if path is not None:
            path.unlink(missing_ok=True)

    def _path(self, public: str) -> Path | None:
        if not is_public_key(public):
            return None
        return self.directory / "keys" / public[0] / public[1:3] / f"{public}.nk"
