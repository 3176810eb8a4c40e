"""What is known of the other end of a connection before it says anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from slipstream.auth.tls_map import PeerCertificate
    from slipstream.protocol.certificate import CertificateFacts
    from slipstream.protocol.ws_handshake import Cookies

__all__ = ["Peer", "TlsSession"]


class TlsSession(Protocol):
    """What a handshake found out."""

    @property
    def version(self) -> str: ...
    @property
    def cipher_suite(self) -> str:
        """Go's name."""
        ...

    @property
    def chain(self) -> Sequence[CertificateFacts]:
        """What the client showed, its own certificate first."""
        ...

    @property
    def ders(self) -> Sequence[bytes]:
        """The same as bytes; up to the root where they were verified."""
        ...

    @property
    def is_verified(self) -> bool: ...


class Peer:
    """The other end of a plain TCP connection. What only others have is none here, and takes no memory."""

    __slots__ = ("ip", "kind", "port")

    tls: TlsSession | None = None
    tls_first: bool = False  # the handshake came before INFO
    certificate: PeerCertificate | None = None  # the names in it, when it was verified
    cookies: Cookies | None = None  # credentials of a WebSocket client
    forwarded_ip: str = ""  # where a WebSocket client says it comes from

    def __init__(self, ip: str, port: int, kind: str = "nats") -> None:
        self.ip = ip
        self.port = port
        self.kind = kind  # `nats` or `websocket`, as monitoring names it
