"""Who a client is, beyond a password: nkey seeds and credentials files, and the signature that a server asks for.

A credentials file holds a user JWT and the seed that belongs to it, each between BEGIN and END lines; a seed file
holds the seed alone. The seed signs the nonce of INFO and goes nowhere else: not into `repr`, not into an error text.

libsodium is imported when something is signed.
"""

from __future__ import annotations

import re
from base64 import b32decode, b32encode, urlsafe_b64encode
from binascii import Error as Base32Error
from binascii import crc_hqx
from dataclasses import dataclass, field

from slipstream.auth.nkeys import KeyKind, encode_public_key
from slipstream.client.options import ClientError

__all__ = ["UserKey", "decode_seed", "encode_seed", "read_credentials", "read_seed"]

_SEED_MARK = 18 << 3  # the letter S
_SEED_LENGTH = 58
_SEED = re.compile(r"\bS[A-Z2-7]{57}\b")
_SECTION = re.compile(r"-{3,}BEGIN ([A-Z ]+?)-{3,}\s*(\S+)\s*-{3,}END \1-{3,}")


@dataclass(frozen=True)
class UserKey:
    """A user's private key, and the JWT that vouches for it if there is one."""

    public: str
    seed: bytes = field(repr=False)
    jwt: str = ""

    def sign(self, nonce: str) -> str:
        """The signature of a server's nonce, as CONNECT carries it."""
        from nacl.signing import SigningKey

        return urlsafe_b64encode(SigningKey(self.seed).sign(nonce.encode()).signature).rstrip(b"=").decode()


def encode_seed(kind: KeyKind, seed: bytes) -> str:
    """Write the secret half of a key as text."""
    body = bytes((_SEED_MARK | kind >> 5, (kind & 31) << 3)) + seed
    return b32encode(body + crc_hqx(body, 0).to_bytes(2, "little")).rstrip(b"=").decode()


def decode_seed(text: str) -> tuple[KeyKind, bytes]:
    """Find the seed in a text, which may be a whole seed file with comments, and say whose it is.

    Raises:
        ClientError: there is none, or it is damaged.
    """
    found = _SEED.search(text)
    if found is None:
        raise ClientError("no seed found: expected a line that begins with S, as SU for users")
    try:
        raw = b32decode(found[0] + "=" * (-_SEED_LENGTH % 8))
    except Base32Error as error:
        raise ClientError("the seed is not base32") from error
    body, checksum = raw[:-2], raw[-2:]
    if body[0] & 0xF8 != _SEED_MARK or crc_hqx(body, 0).to_bytes(2, "little") != checksum:
        raise ClientError("the seed is damaged: its checksum does not match")
    try:
        return KeyKind((body[0] & 7) << 5 | body[1] >> 3), body[2:]
    except ValueError as error:
        raise ClientError("the seed is of an unknown kind") from error


def read_seed(text: str, jwt: str = "") -> UserKey:
    """Find the user seed in a text, which may be a whole seed file with comments.

    Raises:
        ClientError: there is none, it is damaged, or it is not a user's.
    """
    kind, seed = decode_seed(text)
    if kind != KeyKind.USER:
        raise ClientError("the seed is not the seed of a user")
    from nacl.signing import SigningKey

    return UserKey(encode_public_key(KeyKind.USER, bytes(SigningKey(seed).verify_key)), seed, jwt)


def read_credentials(text: str) -> UserKey:
    """Read a credentials file.

    Raises:
        ClientError: a part is missing or damaged.
    """
    parts = dict(_SECTION.findall(text))
    jwt = parts.get("NATS USER JWT")
    if jwt is None:
        raise ClientError("no user JWT found in the credentials file")
    return read_seed(parts.get("USER NKEY SEED", ""), jwt)
