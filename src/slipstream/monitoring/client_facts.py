"""What is known of a client beside its counters: who it says it is, and its TLS session. Never a secret."""

from __future__ import annotations

import binascii
import re

from slipstream.clock import rfc3339
from slipstream.protocol.certificate import MalformedCertificate, read_certificate
from slipstream.protocol.connection import ClientConnection
from slipstream.units import MIB, SECOND_NS

__all__ = ["certificate_expiry", "issuer_of", "shown_token", "text", "user_of"]

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)


def text(raw: bytes) -> str:
    """Bytes of the protocol as text for JSON."""
    return raw.decode("utf-8", "replace")


def user_of(connection: ClientConnection) -> str:
    """The user's name or public key; a client that was not let in is shown as it called itself."""
    return connection.claimed_user if connection.identity is None else connection.identity.user


def issuer_of(connection: ClientConnection) -> str:
    """Who vouches for a client that proved a key: its account, or whoever signed its token."""
    identity = connection.identity
    if identity is not None and identity.token is not None:
        claims = identity.token.claims
        is_own = identity.means == "callout" and not claims.nats.issuer_account
        return identity.account if is_own else claims.iss
    if identity is not None and identity.openid is not None:
        return identity.openid.issuer
    return identity.account if identity is not None and identity.means == "nkey" else ""


def shown_token(connection: ClientConnection) -> str:
    """The token of a client, unless whoever has it is let in without another proof."""
    token = connection.identity.token if connection.identity is not None else None
    return "" if token is None or token.is_bearer else token.text


def certificate_expiry(path: str) -> str:
    """When the first certificate of a PEM file ends, RFC 3339; empty when it cannot be read."""
    try:
        with open(path, "rb") as file:
            found = _PEM.search(file.read(MIB))
        return "" if found is None else rfc3339(read_certificate(binascii.a2b_base64(found[1])).not_after_s * SECOND_NS)
    except (OSError, ValueError, MalformedCertificate):
        return ""
