"""TLS between servers that know each other by certificate: routes and gateways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.config.record import replace
from slipstream.server.sockets.tls import TlsContext

if TYPE_CHECKING:
    from slipstream.config.listener_options import TLSOptions

__all__ = ["PeerTls"]


class PeerTls:
    """A `tls` block for both sides of a handshake; both show a certificate."""

    def __init__(self, options: TLSOptions) -> None:
        """Read the files.

        Raises:
            ConfigError: one of them cannot be used.
        """
        self.listening = TlsContext.for_server(replace(options, verify=True))
        self.dialling = TlsContext.for_peer(options)
        self.timeout_ns = options.timeout_ns

    @staticmethod
    def of(options: TLSOptions | None) -> PeerTls | None:
        """Of a block; None without TLS.

        Raises:
            ConfigError: a file cannot be used.
        """
        return None if options is None else PeerTls(options)
