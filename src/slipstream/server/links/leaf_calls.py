"""Calling a remote of leaf nodes: directly or through a proxy, over TCP or as a WebSocket."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from slipstream.protocol import texts
from slipstream.protocol.ws_call import WebSocketCall
from slipstream.server.links.websocket import LinkWebsocket
from slipstream.server.sockets.http_tunnel import HttpTunnel

if TYPE_CHECKING:
    from slipstream.links.leafs.remotes import LeafRemote
    from slipstream.server.links.protocol import LinkProtocol
    from slipstream.server.server import Server

__all__ = ["LeafCall", "asked_websocket"]

_KEY_BYTES = 16
_MASK_BYTES = 4


class LeafCall:
    """A remote that is to be reached."""

    is_announced = False

    def __init__(self, remote: LeafRemote, server: Server, protocol: Callable[[], LinkProtocol]) -> None:
        self._remote = remote
        self._server = server
        self.protocol = protocol
        self.timeout_ns = remote.options.dial_timeout_ns or server.options.leafnodes.dial_timeout_ns
        proxy = remote.options.proxy
        self.tunnel: HttpTunnel | None = None
        if proxy is not None and proxy.url and remote.is_websocket:
            self.tunnel = HttpTunnel(proxy)
            self.timeout_ns = proxy.timeout_ns or self.timeout_ns

    @property
    def is_wanted(self) -> bool:
        """Whether it is still to be reached."""
        return self._remote.wanted

    def next_address(self) -> tuple[str, int]:
        """One after another of those that are known."""
        address = self._remote.pick()
        return address.host, address.port

    def trying(self) -> str:
        """What is logged before an attempt."""
        return f"Trying to connect as leafnode to remote server on {self._where()}"

    def failed(self, attempts: int) -> str:
        """What is logged before the error of an attempt."""
        return f"Error trying to connect as leafnode to remote server {self._where()} (attempt {attempts})"

    def pause_ns(self, attempts: int) -> int:
        """Remotes are tried for ever, many leafs at different times."""
        reconnect_ns = self._server.options.leafnodes.reconnect_ns
        return reconnect_ns + self._server.hub.rng.randrange(max(reconnect_ns, 1))

    def _where(self) -> str:
        return texts.quoted_text(self._remote.current.shown)


def asked_websocket(remote: LeafRemote, on_open: Callable[[bool], None]) -> LinkWebsocket:
    """The WebSocket that a remote is asked for; `on_open` hears whether it is compressed."""
    options, address = remote.options, remote.current
    call = WebSocketCall(
        address.shown,
        address.path,
        os.urandom(_KEY_BYTES),
        compression=options.ws_compression,
        masking=not options.ws_no_masking,
    )
    return LinkWebsocket(call=call, new_mask=partial(os.urandom, _MASK_BYTES), on_open=on_open)
