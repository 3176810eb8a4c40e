"""The private halves of a server's id and xkey: it signs what it asks an auth callout, and may seal it.

A sealed text is a box of X25519, XSalsa20 and Poly1305, as the official library makes it:

    "xkv1" | nonce of 24 bytes | box

Random bytes come from outside, once each: a nonce is used for one box only.
"""

from __future__ import annotations

from typing import Final

from nacl.bindings import (
    crypto_box,
    crypto_box_open,
    crypto_scalarmult_base,
    crypto_sign,
    crypto_sign_seed_keypair,
)
from nacl.exceptions import CryptoError

from slipstream.auth.nkeys import KeyKind, decode_public_key, encode_public_key
from slipstream.errors import SlipstreamError

__all__ = ["NONCE_BYTES", "SEED_BYTES", "SealError", "ServerKeys"]

SEED_BYTES: Final = 32
NONCE_BYTES: Final = 24
_VERSION: Final = b"xkv1"
_SIGNATURE_BYTES: Final = 64


class SealError(SlipstreamError):
    """What came cannot be opened, or there is no such receiver; in the words of the official library."""


class ServerKeys:
    """Keys of one server."""

    __slots__ = ("_curve", "_signing", "id", "xkey")

    def __init__(self, signing_seed: bytes, curve_seed: bytes) -> None:
        assert len(signing_seed) == len(curve_seed) == SEED_BYTES
        public, self._signing = crypto_sign_seed_keypair(signing_seed)
        self._curve = curve_seed
        self.id = encode_public_key(KeyKind.SERVER, public)
        self.xkey = encode_public_key(KeyKind.CURVE, crypto_scalarmult_base(curve_seed))

    def sign(self, data: bytes) -> bytes:
        """The signature of the server."""
        return crypto_sign(data, self._signing)[:_SIGNATURE_BYTES]

    def seal(self, data: bytes, recipient: str, nonce: bytes) -> bytes:
        """What only the owner of an xkey can read.

        Raises:
            SealError: the recipient is no xkey.
        """
        key = decode_public_key(recipient, KeyKind.CURVE)
        if key is None:
            raise SealError("nkeys: not a valid recipient public curve key")
        try:
            return _VERSION + nonce + crypto_box(data, nonce, key, self._curve)
        except CryptoError:
            raise SealError("nkeys: not a valid recipient public curve key") from None

    def open(self, sealed: bytes, sender: str) -> bytes:
        """What the owner of an xkey has sealed for this server.

        Raises:
            SealError: it is not sealed, or by somebody else, or was changed.
        """
        start = len(_VERSION) + NONCE_BYTES
        if len(sealed) <= start:
            raise SealError("nkeys: encrypted input is not valid")
        if not sealed.startswith(_VERSION):
            raise SealError("nkeys: encrypted input wrong version")
        key = decode_public_key(sender, KeyKind.CURVE)
        if key is None:
            raise SealError("nkeys: not a valid sender public curve key")
        try:
            return crypto_box_open(sealed[start:], sealed[len(_VERSION) : start], key, self._curve)
        except (CryptoError, ValueError):
            raise SealError("nkeys: could not decrypt input") from None
