"""From claims to a token: the counterpart of `token`, for whoever holds keys.

That is the command line; a server makes only the requests of auth callouts, with a key of its own.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

__all__ = ["make_token"]

_HEADER: Final = {"typ": "JWT", "alg": "ed25519-nkey"}
# In the order of the official library; whatever else claims hold follows.
_FIRST: Final = ("aud", "exp", "jti", "iat", "iss", "name", "nbf", "sub", "nats")


def make_token(claims: Mapping[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """Sign claims as they are, with an id that is made from all of them.

    Args:
        claims: the whole payload; its `jti` is replaced.
        sign: gives the Ed25519 signature of the issuer that the claims name.
    """
    unnamed = {key: value for key, value in claims.items() if key != "jti"}
    # Resolvers take two tokens with the same id for the same token.
    number = hashlib.new("sha512_256", msgspec.json.encode(unnamed, order="sorted")).digest()
    named = {**unnamed, "jti": b32encode(number).rstrip(b"=").decode()}
    ordered = {key: named[key] for key in (*_FIRST, *(key for key in named if key not in _FIRST)) if key in named}
    signed = b".".join(_base64(msgspec.json.encode(part)) for part in (_HEADER, ordered))
    return b".".join((signed, _base64(sign(signed)))).decode()


def _base64(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")
