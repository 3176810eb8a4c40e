"""Where to connect and as whom: the options, the URL, INFO and CONNECT, and the errors of a synchronous client.

No socket here. Secrets appear in CONNECT and nowhere else: not in `repr`, not in an error text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec

from slipstream.client.limits import CLIENT_TIMEOUT_NS
from slipstream.errors import SlipstreamError
from slipstream.limits import DEFAULT_PORT
from slipstream.version import PRODUCT_VERSION

if TYPE_CHECKING:
    import ssl

__all__ = [
    "ClientError",
    "ClientTimeout",
    "ConnectionLost",
    "NoResponders",
    "ReceivedInfo",
    "ServerAddress",
    "ServerRefused",
    "WireOptions",
    "read_url",
]


class ClientError(SlipstreamError):
    """What the synchronous client was asked for did not happen."""


class ClientTimeout(ClientError):
    """The server did not answer, or did not read, in time."""


class ConnectionLost(ClientError):
    """The connection is gone: refused, closed, reset, or its bytes were not the protocol."""


class ServerRefused(ClientError):
    """The server said -ERR; `text` has its words without the quotes."""

    def __init__(self, text: str) -> None:
        """Remember the server's words."""
        super().__init__(f"server says: {text}")
        self.text = text


class NoResponders(ClientError):
    """Nobody subscribes to the subject of a request."""


class ReceivedInfo(msgspec.Struct, kw_only=True):
    """The fields of INFO that a client acts on."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    git_commit: str = ""  # of a server of this kind it begins with the product's name
    max_payload: int = 0
    headers: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_available: bool = False
    jetstream: bool = False
    client_id: int = 0
    nonce: str = ""
    client_ip: str = ""
    cluster: str = ""
    connect_urls: list[str] = []


@dataclass(frozen=True, kw_only=True)
class WireOptions:
    """What to tell the server in CONNECT, and how to reach it."""

    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkey: str = ""  # public key of a user; `sign` answers for it
    jwt: str = field(default="", repr=False)
    sign: Callable[[str], str] | None = None  # a server's nonce in, its signature out
    name: str = ""
    inbox_prefix: str = "_INBOX"  # reply subjects begin with it
    verbose: bool = False
    echo: bool = True
    tls: ssl.SSLContext | None = None  # used when the server asks for TLS, or the URL does
    tls_first: bool = False  # handshake before INFO
    timeout_ns: int = CLIENT_TIMEOUT_NS

    def connect_line(self, *, tls: bool, nonce: str = "") -> bytes:
        """CONNECT as bytes; a key signs the server's nonce."""
        fields: dict[str, object] = {
            "verbose": self.verbose,
            "pedantic": False,
            "echo": self.echo,
            "tls_required": tls,
            "lang": "python-slipstream",
            "version": PRODUCT_VERSION,
            "protocol": 1,
            "headers": True,
            "no_responders": True,
        }
        secret = {"user": self.user, "pass": self.password, "auth_token": self.token, "name": self.name}
        if self.sign is not None and nonce:
            secret |= {"jwt": self.jwt, "nkey": "" if self.jwt else self.nkey, "sig": self.sign(nonce)}
        fields.update({key: value for key, value in secret.items() if value})
        return b"CONNECT " + msgspec.json.encode(fields) + b"\r\n"


@dataclass(frozen=True)
class ServerAddress:
    """A server's address as a URL gives it."""

    host: str
    port: int
    tls: bool  # the URL insists on TLS
    options: WireOptions  # the caller's, completed with credentials from the URL


def read_url(url: str, options: WireOptions) -> ServerAddress:
    """Read `nats://[user:password@ | token@]host[:port]`, or `tls://` to insist on TLS.

    Raises:
        ClientError: it is no such URL.
    """
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        port = parts.port or DEFAULT_PORT
    except ValueError as error:
        raise ClientError(f"not a server URL: {error}") from error
    if parts.scheme not in ("nats", "tls") or not parts.hostname:
        raise ClientError("not a server URL: expected nats://host:port or tls://host:port")
    if not (options.user or options.token) and parts.username:
        if parts.password is None:
            options = replace(options, token=unquote(parts.username))
        else:
            options = replace(options, user=unquote(parts.username), password=unquote(parts.password))
    return ServerAddress(parts.hostname, port, parts.scheme == "tls", options)
