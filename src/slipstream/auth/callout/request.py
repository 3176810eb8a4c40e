"""What an auth callout is asked: the token of a request, signed by the server.

    audience nats-authorization-request, subject: the issuer that has to sign the answer
    nats: server_id, user_nkey (made for this request alone), client_info, connect_opts, client_tls

Fields that say nothing are left out, as nats-server leaves them out.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from slipstream.auth.jwt.making import make_token
from slipstream.auth.permissions import CALLOUT_SUBJECT

__all__ = [
    "AUDIENCE",
    "SUBJECT",
    "XKEY_HEADER",
    "AskingServer",
    "ClientFacts",
    "ConnectFacts",
    "TlsClaims",
    "request",
    "tls_claims",
]

SUBJECT: Final = CALLOUT_SUBJECT.encode()
AUDIENCE: Final = "nats-authorization-request"
XKEY_HEADER: Final = b"Nats-Server-Xkey"


class AskingServer(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Who asks."""

    name: str
    host: str
    id: str
    version: str = ""
    cluster: str = ""
    tags: Sequence[str] = ()
    xkey: str = ""


class ClientFacts(msgspec.Struct, omit_defaults=True, kw_only=True):
    """About whom: what the server knows of the connection."""

    host: str = ""
    id: int = 0
    user: str = ""
    name: str = ""
    tags: Sequence[str] = ()
    name_tag: str = ""
    kind: str = ""
    type: str = ""
    nonce: str = ""


class ConnectFacts(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What the client said of itself, secrets included: the service has to check them."""

    jwt: str = ""
    nkey: str = ""
    sig: str = ""
    auth_token: str = ""
    user: str = ""
    password: str = msgspec.field(default="", name="pass")
    name: str = ""
    lang: str = ""
    version: str = ""
    protocol: int


class TlsClaims(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The TLS session; certificates are PEM, the client's own first."""

    version: str = ""
    cipher: str = ""
    certs: Sequence[str] = ()
    verified_chains: Sequence[Sequence[str]] = ()


class _Session(Protocol):
    @property
    def version(self) -> str: ...
    @property
    def cipher_suite(self) -> str: ...
    @property
    def ders(self) -> Sequence[bytes]: ...
    @property
    def is_verified(self) -> bool: ...


_LINE_LENGTH: Final = 64  # of PEM


def tls_claims(session: _Session | None) -> TlsClaims | None:
    """What a request says of a TLS session."""
    if session is None:
        return None
    certificates = [_pem(der) for der in session.ders]
    return TlsClaims(
        version=session.version,
        cipher=session.cipher_suite,
        certs=() if session.is_verified or not certificates else certificates,
        verified_chains=[certificates] if session.is_verified and certificates else (),
    )


def _pem(der: bytes) -> str:
    text = b64encode(der).decode()
    lines = [text[at : at + _LINE_LENGTH] for at in range(0, len(text), _LINE_LENGTH)]
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""])


class _Request(msgspec.Struct, omit_defaults=True, kw_only=True):
    server_id: AskingServer
    user_nkey: str
    client_info: ClientFacts
    connect_opts: ConnectFacts
    client_tls: TlsClaims | None = None
    type: str
    version: int


def request(
    *,
    subject: str,
    user: str,
    server: AskingServer,
    client: ClientFacts,
    connect: ConnectFacts,
    tls: TlsClaims | None,
    now_s: int,
    until_s: int,
    sign: Callable[[bytes], bytes],
) -> str:
    """The token of one request."""
    part = _Request(
        server_id=server,
        user_nkey=user,
        client_info=client,
        connect_opts=connect,
        client_tls=tls,
        type="authorization_request",
        version=2,
    )
    return make_token(
        {"aud": AUDIENCE, "exp": until_s, "iat": now_s, "iss": server.id, "sub": subject, "nats": part}, sign
    )
