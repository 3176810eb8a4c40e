"""Tokens that are made here: claims to text, signed by whoever has the key."""

from __future__ import annotations

import hashlib
from base64 import b32encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

__all__ = ["signed_token"]

_HEADER: Final = b'{"typ":"JWT","alg":"ed25519-nkey"}'


def signed_token(claims: Mapping[str, object], *, issuer: str, issued_s: int, sign: Callable[[bytes], bytes]) -> str:
    """A token that says `claims`; id, issuer and time of issue are filled in.

    Args:
        claims: the registered claims and `nats`, without those that are filled in.
        issuer: the public key of whoever signs.
        issued_s: now, seconds since 1970.
        sign: makes the signature with the private key of the issuer.
    """
    body = {"iat": issued_s, "iss": issuer, **claims}
    # The id is a digest of what is said, as the official library makes it.
    digest = hashlib.new("sha512_256", msgspec.json.encode(body)).digest()
    body = {"jti": b32encode(digest).decode().rstrip("="), **body}
    signed = f"{_base64(_HEADER)}.{_base64(msgspec.json.encode(body))}"
    return f"{signed}.{_base64(sign(signed.encode()))}"


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
