"""Listening sockets: what the accepted ones inherit."""

from __future__ import annotations

import socket

import pytest

from slipstream.server.sockets.binding import bind


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_accepted_sockets_send_small_writes_at_once(host: str) -> None:
    """asyncio sets this itself only where it knows the protocol of the socket; answers were held back for 40 ms."""
    with bind("port", host, -1) as listening, socket.create_connection(("127.0.0.1", listening.getsockname()[1])):
        listening.setblocking(True)
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
