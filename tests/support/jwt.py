"""JSON web tokens of operator mode, made by hand so that any claim can be wrong.

Keys come from fixed texts: the same test makes the same tokens every time.
"""

from __future__ import annotations

import hashlib
import json

import nkeys  # type: ignore[import-untyped]  # the package ships no types

from support.keys import url_base64
from support.normalise import Json

OPERATOR, ACCOUNT, USER = nkeys.PREFIX_BYTE_OPERATOR, nkeys.PREFIX_BYTE_ACCOUNT, nkeys.PREFIX_BYTE_USER
ISSUED_AT = 1_700_000_000
HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}


class Key:
    """A key pair derived from a name."""

    def __init__(self, kind: int, name: str) -> None:
        self.name = name
        self.seed: bytes = nkeys.encode_seed(hashlib.sha256(f"{kind} {name}".encode()).digest(), kind)
        self._pair = nkeys.from_seed(bytearray(self.seed))

    @property
    def public(self) -> str:
        """The public key as text."""
        text: bytes = self._pair.public_key
        return text.decode()

    def sign(self, data: bytes) -> bytes:
        """The raw signature."""
        signed: bytes = self._pair.sign(data)
        return signed


def token(issuer: Key, subject: Key, claims: dict[str, Json], **top: Json) -> str:
    """A signed token about `subject`; `claims` is its `nats` part, `top` overrides the registered claims."""
    typed: dict[str, Json] = {"type": {"O": "operator", "A": "account", "U": "user"}[subject.public[0]], "version": 2}
    body: dict[str, Json] = {
        "jti": "",
        "iat": ISSUED_AT,
        "iss": issuer.public,
        "name": subject.name,
        "sub": subject.public,
        "nats": typed | claims,
    }
    body |= top
    body["jti"] = hashlib.sha256(json.dumps(body).encode()).hexdigest()[:52].upper()
    signed = ".".join(url_base64(json.dumps(part).encode()) for part in (HEADER, body))
    return f"{signed}.{url_base64(issuer.sign(signed.encode()))}"


def account_claims(**claims: Json) -> dict[str, Json]:
    """The claims of an account without limits, and others over them."""
    unlimited: dict[str, Json] = {
        "subs": -1,
        "data": -1,
        "payload": -1,
        "imports": -1,
        "exports": -1,
        "wildcards": True,
        "conn": -1,
        "leaf": -1,
    }
    defaults: dict[str, Json] = {"limits": unlimited, "default_permissions": {"pub": {}, "sub": {}}}
    return defaults | claims


def user_claims(**claims: Json) -> dict[str, Json]:
    """The claims of a user without limits, and others over them."""
    defaults: dict[str, Json] = {"subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}}
    return defaults | claims
