"""INFO as clients see it.

Most of it is the same for all who come in the same way: that is encoded once, and what is a client's own is put in
between. When thousands come at once, because another server is gone, this is a good part of what each of them costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from slipstream.routing.logins import kind_of
from slipstream.version import API_LEVEL, PRODUCT_VERSION, SERVER_VERSION

if TYPE_CHECKING:
    from slipstream.protocol.connection import ClientConnection
    from slipstream.routing.hub import Hub

__all__ = ["Greetings"]

_REMEMBERED_MAX: Final = 256  # accounts times ways to come in
_CLIENT_ID: Final = (1 << 63) - 1  # stands where the client's own is put


class _Told(NamedTuple):
    """All that INFO depends on, but for what is a client's own, and for the options, with which all lines go."""

    address: tuple[str, int]
    websocket_address: tuple[str, int] | None  # of a client that came over WebSocket
    connect_urls: tuple[str, ...]
    cluster: str
    jetstream: bool
    lame_duck: bool
    tls_first: bool
    max_payload: int
    account: str  # of a client that was let in; empty before that
    acc_is_sys: bool
    after_connect: bool


class Greetings:
    """The INFO lines of one hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._lines: dict[_Told, tuple[bytes, bytes]] = {}
        self._seen: tuple[object, object] = (None, None)  # options and authenticator that the lines were made by
        self._encode_own: Callable[[int, str, str], bytes] | None = None  # loaded with the first client

    def line(self, connection: ClientConnection, *, after_connect: bool, lame_duck: bool) -> bytes:
        """INFO as this connection should see it."""
        hub = self._hub
        options, authenticator = hub.options, hub.authenticator
        if self._seen[0] is not options or self._seen[1] is not authenticator:
            self._seen = options, authenticator
            self._lines.clear()
        peer, account = connection.peer, connection.account if after_connect else None
        websocket = peer.kind == "websocket"
        told = _Told(
            hub.advertised,
            (hub.websocket_host, hub.websocket_port) if websocket else None,
            tuple(hub.websocket_urls if websocket else hub.connect_urls),
            hub.cluster_name,
            hub.jetstream,
            hub.lame_duck or lame_duck,
            peer.tls_first,
            connection.parser.max_payload,
            "" if account is None else account.name,
            account is not None and account.is_system,
            after_connect,
        )
        parts = self._lines.get(told)
        if parts is None:
            if len(self._lines) >= _REMEMBERED_MAX:
                self._lines.clear()
            parts = self._lines[told] = self._encode(connection, told)
        if self._encode_own is None:
            from slipstream.protocol.info import encode_own

            self._encode_own = encode_own
        own = self._encode_own(connection.cid, peer.ip, "" if after_connect else connection.nonce)
        return b"%b%b%b" % (parts[0], own, parts[1])

    def _encode(self, connection: ClientConnection, told: _Told) -> tuple[bytes, bytes]:
        """What comes before and after that which is the client's own."""
        from slipstream.protocol.info import ServerInfo, encode_info

        hub = self._hub
        options, tls, kind = hub.options, hub.options.tls, kind_of(connection)
        asks = hub.authenticator.asks_for_credentials if told.after_connect else hub.authenticator.is_auth_announced
        info = ServerInfo(
            server_id=hub.identity.id,
            server_name=hub.identity.name,
            version=SERVER_VERSION,
            proto=1,
            go="python",
            git_commit=f"slipstream-{PRODUCT_VERSION}",
            host=told.address[0],
            port=told.address[1],
            headers=not options.no_header_support,
            # A server with a user for anonymous clients hides that it asks for credentials until the client is in.
            auth_required=asks(kind),
            tls_required=tls is not None and not options.allow_non_tls,
            tls_verify=tls is not None and tls.verify,
            tls_available=tls is not None and options.allow_non_tls,
            max_payload=told.max_payload,
            jetstream=told.jetstream,
            client_id=_CLIENT_ID,
            cluster=told.cluster,
            domain=options.jetstream.domain,
            connect_urls=list(told.connect_urls),
            ldm=told.lame_duck,
            api_lvl=API_LEVEL,
            xkey=hub.identity.xkey,
        )
        if told.tls_first and not told.after_connect:
            info.tls_required = True
        if told.websocket_address is not None:
            info.host, info.port = told.websocket_address
            info.auth_required = hub.authenticator.is_auth_announced("WEBSOCKET")
            info.tls_required = info.tls_available = options.websocket.tls is not None
        if told.account:
            info.connect_info = True
            info.remote_account = told.account
            info.acc_is_sys = told.acc_is_sys
        before, _, after = encode_info(info).partition(b'"client_id":%d' % _CLIENT_ID)
        return before, after
