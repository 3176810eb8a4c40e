"""Nkeys: Ed25519 and X25519 keys as text with a prefix and a checksum.

    base32( prefix byte | 32 key bytes | CRC-16 of both, little endian )      56 letters, no padding

The first letter shows the kind: `U` user, `A` account, `O` operator, `N` server, `C` cluster, `X` curve key. Length,
prefix and checksum are verified before a key reaches any cryptography.

What it is not: a key store. Seeds (`S...`) are never read here; the server holds only the public keys of others.
libsodium is imported when first needed: a server without nkey users does not pay for it at each connection.
"""

from __future__ import annotations

from base64 import b32decode, b32encode, b64decode, urlsafe_b64decode
from binascii import Error as Base64Error
from binascii import crc_hqx
from enum import IntEnum

__all__ = [
    "KeyKind",
    "decode_public_key",
    "decode_signature",
    "encode_public_key",
    "is_public_key",
    "payload_of",
    "verify",
    "verify_raw",
]

_KEY_BYTES = 32
_SIGNATURE_BYTES = 64
_TEXT_LENGTH = 56  # (1 + 32 + 2) bytes are exactly 56 base32 letters, so there is one spelling of a key


class KeyKind(IntEnum):
    """The prefix byte of a public key."""

    ACCOUNT = 0
    CLUSTER = 2 << 3
    SERVER = 13 << 3
    OPERATOR = 14 << 3
    USER = 20 << 3
    CURVE = 23 << 3


_PREFIXES = frozenset(KeyKind)


def encode_public_key(kind: KeyKind, key: bytes) -> str:
    """Write a public key as text."""
    assert len(key) == _KEY_BYTES
    body = bytes((kind,)) + key
    return b32encode(body + crc_hqx(body, 0).to_bytes(2, "little")).decode()


def decode_public_key(text: str, kind: KeyKind | None = None) -> bytes | None:
    """Read a public key, of the wanted kind if one is given; None when the text is anything else."""
    if len(text) != _TEXT_LENGTH:
        return None
    try:
        decoded = b32decode(text)
    except ValueError:
        return None
    body, checksum = decoded[:-2], int.from_bytes(decoded[-2:], "little")
    if crc_hqx(body, 0) != checksum or body[0] not in _PREFIXES or (kind is not None and body[0] != kind):
        return None
    return body[1:]


def is_public_key(text: str, kind: KeyKind | None = None) -> bool:
    """Tell whether the text is a public key, of this kind if one is given."""
    return decode_public_key(text, kind) is not None


def decode_signature(text: str) -> bytes | None:
    """Read a signature as clients send it: base64url without padding, or standard base64; None when it is neither."""
    try:
        raw = text.encode("ascii")
        if raw.endswith(b"=") or b"+" in raw or b"/" in raw:
            signature = b64decode(raw, validate=True)
        else:
            # The library's decoder skips letters that are not in the alphabet, so they are looked for first.
            signature = urlsafe_b64decode(raw + b"=" * (-len(raw) % 4)) if _is_base64url(raw) else b""
    except (UnicodeEncodeError, Base64Error):
        return None
    return signature if len(signature) == _SIGNATURE_BYTES else None


def verify(public_key: str, kind: KeyKind | None, message: bytes, signature: str) -> bool:
    """Tell whether `signature` (as text) over `message` was made with the private half of `public_key`."""
    raw = decode_signature(signature)
    return raw is not None and verify_raw(public_key, kind, message, raw)


def verify_raw(public_key: str, kind: KeyKind | None, message: bytes, signature: bytes) -> bool:
    """The same for the bytes of a signature."""
    key = decode_public_key(public_key, kind)
    if key is None or len(signature) != _SIGNATURE_BYTES:
        return False
    from nacl.bindings import crypto_sign_open
    from nacl.exceptions import BadSignatureError

    try:
        crypto_sign_open(signature + message, key)
    except BadSignatureError:
        return False
    return True


def payload_of(token: str) -> bytes:
    """The claims of a token that was checked before, as JSON."""
    part = token.split(".")[1]
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _is_base64url(text: bytes) -> bool:
    return not text.translate(None, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
