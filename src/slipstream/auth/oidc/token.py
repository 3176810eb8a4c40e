"""An OpenID token: found among credentials, checked against the keys of its issuer, read.

    announced ──► who says it made the token, with which key (nothing is believed yet)
    verified  ──► its claims, or the reason why they do not count

The signature is PyJWT's and cryptography's business; which key and algorithm may be used at all is decided here and in
`keys`, before either sees the token: the key named by `kid`, of a kind that fits the algorithm, one of those that the
configuration allows. So `none` and HMAC cannot be asked for, whatever the header says.

Time comes from outside. What a bearer cannot prove is refused: tokens bound to a key of the client (`cnf`), headers
that have to be understood (`crit`), tokens for another use (`typ`).
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from slipstream.config.record import Record
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.auth.identity import Credentials
    from slipstream.auth.oidc.keys import IssuerKey
    from slipstream.config.oidc_options import OidcOptions

__all__ = [
    "OIDC_TOKEN_BYTES_MAX",
    "Announced",
    "Claims",
    "OpenIdRefusal",
    "announced",
    "check_addressee",
    "end_of_token",
    "verified",
]

Claims = Mapping[str, object]

OIDC_TOKEN_BYTES_MAX: Final = 65_536  # what `max_control_line` lets through is less almost everywhere
_TOKEN_START: Final = "eyJ"  # base64 of `{"`
_TYPES: Final = frozenset(["", "jwt", "at+jwt", "application/at+jwt", "application/jwt"])
_LAST_SECOND: Final = 253_402_300_799  # the end of the year 9999


class OpenIdRefusal(Exception):
    """A token does not count; the text is for the log."""


class Announced(Record, secret=("text",)):
    """What a token says of itself before anybody has looked at its signature."""

    text: str
    issuer: str
    algorithm: str
    key_id: str
    password: bool = False  # it came as the password of a user


class _Header(msgspec.Struct):
    alg: str
    kid: str = ""
    typ: str = ""
    crit: msgspec.Raw | None = None
    b64: msgspec.Raw | None = None


class _Issued(msgspec.Struct):
    iss: str


_HEADER: Final = msgspec.json.Decoder(_Header)
_ISSUED: Final = msgspec.json.Decoder(_Issued)
_CLAIMS: Final = msgspec.json.Decoder(dict[str, object])


def announced(credentials: Credentials) -> Announced | None:
    """The token among the credentials of a client; None if there is nothing that looks like one."""
    for given, is_password in (
        (credentials.jwt, False),
        (credentials.auth_token, False),
        (credentials.password, True),
    ):
        found = _announced(given, is_password) if given else None
        if found is not None:
            return found
    return None


def _announced(text: str, is_password: bool) -> Announced | None:
    if not text.startswith(_TOKEN_START) or len(text) > OIDC_TOKEN_BYTES_MAX or text.count(".") != 2:
        return None
    head, body, signature = text.split(".")
    try:
        _decoded(signature)
        header, issued = _HEADER.decode(_decoded(head)), _ISSUED.decode(_decoded(body))
    except (ValueError, RecursionError):
        return None
    return Announced(text, issued.iss, header.alg, header.kid, is_password)


def _decoded(part: str) -> bytes:
    """One part of a token.

    Raises:
        ValueError: it is not base64 for URLs without padding, in the one way to write it.
    """
    try:
        raw = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(str(error)) from None
    if urlsafe_b64encode(raw).rstrip(b"=") != part.encode():
        raise ValueError("not base64 for URLs")
    return raw


def verified(token: Announced, key: IssuerKey, issuer: OidcOptions, now_ns: int) -> Claims:
    """The claims of a token that counts.

    Raises:
        OpenIdRefusal: it does not.
    """
    signed, _, signature = token.text.rpartition(".")
    head, _, body = signed.partition(".")
    header = _HEADER.decode(_decoded(head))
    if header.typ.lower() not in _TYPES:
        raise OpenIdRefusal("the token is for another use")
    if header.crit is not None or header.b64 is not None:
        raise OpenIdRefusal("the token asks for extensions")
    if not key.has_signed(signed.encode(), _decoded(signature), token.algorithm):
        raise OpenIdRefusal("the signature of the token is wrong")
    try:
        claims: Claims = _CLAIMS.decode(_decoded(body))
    except (ValueError, RecursionError):
        raise OpenIdRefusal("the token has no claims") from None
    check_addressee(claims, issuer)
    _check_times(claims, issuer, now_ns)
    return claims


def check_addressee(claims: Claims, issuer: OidcOptions) -> None:
    """Whether signed claims are those of this issuer, for this server.

    Raises:
        OpenIdRefusal: they are not.
    """
    if claims.get("iss") != issuer.issuer:
        raise OpenIdRefusal("the token is of another issuer")
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(name, str) and name in issuer.audience for name in named):
        raise OpenIdRefusal("the token is for another audience")
    if "cnf" in claims:
        raise OpenIdRefusal("the token is bound to a key of its owner")


def _check_times(claims: Claims, issuer: OidcOptions, now_ns: int) -> None:
    ends_s, begins_s, issued_s = (_seconds(claims, name) for name in ("exp", "nbf", "iat"))
    now_s, leeway_s = now_ns / SECOND_NS, issuer.leeway_ns / SECOND_NS
    if ends_s is None:
        raise OpenIdRefusal("the token has no end")
    if now_s >= ends_s + leeway_s:
        raise OpenIdRefusal("the token has expired")
    if begins_s is not None and now_s < begins_s - leeway_s:
        raise OpenIdRefusal("the token is not valid yet")
    if issued_s is not None and now_s < issued_s - leeway_s:
        raise OpenIdRefusal("the token was issued in the future")


def end_of_token(claims: Claims, issuer: OidcOptions) -> int:
    """When a token that counts does so no longer, in nanoseconds."""
    ends_s = _seconds(claims, "exp")
    assert ends_s is not None
    return int(ends_s * SECOND_NS) + issuer.leeway_ns


def _seconds(claims: Claims, name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    # Not so of what is no number, infinite, or larger than a float can hold.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LAST_SECOND:
        raise OpenIdRefusal(f"the token has no time in {name}")
    return value
