"""The public keys of an OpenID issuer: a JWK set in, keys that may check signatures out.

A key is used only for what it is: its kind and curve name the algorithms it may check, and so does its `alg` if it has
one. Keys for encryption, symmetric keys and kinds that are not known are left out, as RFC 7517 asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from jwt import PyJWK

__all__ = ["JWKS_BYTES_MAX", "JWKS_KEYS_MAX", "IssuerKey", "KeySet", "UnusableKeys", "address_of_keys", "parse_keys"]

JWKS_BYTES_MAX: Final = 512 * 1024  # of a key set or of what an issuer says about itself; those seen have 10 KiB
JWKS_KEYS_MAX: Final = 64  # issuers have a handful; each is built when it is used first
_RSA_BITS: Final = range(2_048, 8_193)  # weak below; slow to check with above
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# Kind and curve → what such a key can check.
_ALGORITHMS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}


class UnusableKeys(Exception):
    """What an issuer gave is no set of keys, or says nothing about where one is."""


class _Jwk(msgspec.Struct):
    kty: str
    kid: str = ""
    use: str = ""
    alg: str = ""
    crv: str = ""
    key_ops: list[str] | None = None
    n: str = ""
    e: str = ""
    x: str = ""
    y: str = ""

    def public(self) -> dict[str, str]:
        """The parts that make the key, as PyJWT takes them; never a private one."""
        parts = {"kty": self.kty, "crv": self.crv, "n": self.n, "e": self.e, "x": self.x, "y": self.y}
        return {name: part for name, part in parts.items() if part}


class _Jwks(msgspec.Struct):
    keys: list[msgspec.Raw]


class _Discovery(msgspec.Struct):
    issuer: str
    jwks_uri: str


class IssuerKey:
    """One key."""

    __slots__ = ("_jwk", "_verifying", "algorithms", "id")

    def __init__(self, jwk: _Jwk, algorithms: tuple[str, ...]) -> None:
        self.id = jwk.kid
        self.algorithms = algorithms
        self._jwk = jwk
        self._verifying: dict[str, PyJWK] = {}

    def has_signed(self, data: bytes, signature: bytes, algorithm: str) -> bool:
        """Whether a signature is that of the owner of this key."""
        try:
            key = self.verifying(algorithm)
        except ValueError:
            return False
        return key.Algorithm.verify(data, key.key, signature)

    def verifying(self, algorithm: str) -> PyJWK:
        """The key for one algorithm.

        Raises:
            ValueError: it is no key that could be used for it.
        """
        key = self._verifying.get(algorithm)
        if key is None:
            key = self._verifying[algorithm] = self._built(algorithm)
        return key

    def _built(self, algorithm: str) -> PyJWK:
        from jwt import PyJWK
        from jwt.exceptions import PyJWTError

        if algorithm not in self.algorithms:
            raise ValueError("the key is for another algorithm")
        try:
            built = PyJWK(self._jwk.public(), algorithm)
        except (PyJWTError, OverflowError) as error:
            raise ValueError(str(error)) from None
        bits: Any = getattr(built.key, "key_size", 0)
        if self._jwk.kty == "RSA" and bits not in _RSA_BITS:
            raise ValueError(f"RSA keys of {bits} bits are not used")
        return built


class KeySet:
    """The keys of one issuer at one time."""

    __slots__ = ("_keys",)

    def __init__(self, keys: list[IssuerKey]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str, algorithm: str) -> IssuerKey | None:
        """The key that a token names; a token that names none is checked with the only one there is for it."""
        fitting = [key for key in self._keys if algorithm in key.algorithms and (not key_id or key.id == key_id)]
        return fitting[0] if len(fitting) == 1 else None


def parse_keys(document: bytes) -> KeySet:
    """Read a JWK set.

    Raises:
        UnusableKeys: it is none, or has no key that could be used.
    """
    try:
        entries = msgspec.json.decode(document, type=_Jwks).keys
    except (ValueError, RecursionError):
        raise UnusableKeys("what came is no set of keys") from None
    if len(entries) > JWKS_KEYS_MAX:
        raise UnusableKeys(f"there are more than {JWKS_KEYS_MAX} keys")
    keys = []
    for entry in entries:
        try:
            jwk = msgspec.json.decode(entry, type=_Jwk)
        except (ValueError, RecursionError):
            continue  # of a kind that is not known here
        algorithms = _algorithms(jwk)
        if algorithms:
            keys.append(IssuerKey(jwk, algorithms))
    if not keys:
        raise UnusableKeys("there is no key for signatures")
    return KeySet(keys)


def _algorithms(jwk: _Jwk) -> tuple[str, ...]:
    if jwk.use not in ("", "sig") or (jwk.key_ops is not None and "verify" not in jwk.key_ops):
        return ()
    found = _ALGORITHMS.get((jwk.kty, "" if jwk.kty == "RSA" else jwk.crv), ())
    return tuple(name for name in found if jwk.alg in ("", name))


def address_of_keys(document: bytes, issuer: str) -> str:
    """Where the keys are, by what an issuer says about itself.

    Raises:
        UnusableKeys: it does not say, or speaks for another issuer, or sends to an address without TLS.
    """
    try:
        said = msgspec.json.decode(document, type=_Discovery)
    except (ValueError, RecursionError):
        raise UnusableKeys("the issuer does not say where its keys are") from None
    if said.issuer != issuer:
        raise UnusableKeys("what came speaks of another issuer")
    scheme, separator, _ = said.jwks_uri.lower().partition("://")
    safe = ("https", "http") if issuer.lower().startswith("http://") else ("https",)
    if not separator or scheme not in safe:
        raise UnusableKeys("the keys are at an address that is not safe")
    return said.jwks_uri
