"""A way through an HTTP proxy: CONNECT, and then the socket belongs to the server behind it."""

from __future__ import annotations

import asyncio
import base64
import socket
from urllib.parse import urlsplit

import h11

from slipstream.config.listener_options import LeafProxyOptions
from slipstream.server.limits import TUNNEL_ANSWER_BYTES_MAX

__all__ = ["HttpTunnel"]

_READ_BYTES = 4096
_PORTS = {"http": 80, "https": 443}


class HttpTunnel:
    """Tunnels through one proxy. How long one may take is the caller's business."""

    def __init__(self, options: LeafProxyOptions) -> None:
        parts = urlsplit(options.url)
        self._host, self._port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        self._login = b""
        if options.username:
            self._login = base64.b64encode(f"{options.username}:{options.password}".encode())

    async def open(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
        """A socket that ends at a server behind the proxy.

        Raises:
            OSError: the proxy cannot be reached, or lets nobody through.
        """
        try:
            found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise OSError(f"failed to connect to proxy: {error}") from error
        family, kind, proto, _, address = found[0]
        connection = socket.socket(family, kind, proto)
        connection.setblocking(False)
        try:
            try:
                await loop.sock_connect(connection, address)
            except OSError as error:
                raise OSError(f"failed to connect to proxy: {error}") from error
            await self._connect(loop, connection, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except BaseException:
            connection.close()
            raise
        return connection

    async def _connect(self, loop: asyncio.AbstractEventLoop, connection: socket.socket, target: str) -> None:
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=TUNNEL_ANSWER_BYTES_MAX)
        headers = [(b"Host", target.encode())]
        if self._login:
            headers.append((b"Proxy-Authorization", b"Basic " + self._login))
        request = http.send(h11.Request(method="CONNECT", target=target, headers=headers)) or b""
        await loop.sock_sendall(connection, request + (http.send(h11.EndOfMessage()) or b""))
        while True:
            try:
                event = http.next_event()
            except h11.RemoteProtocolError as error:
                raise OSError(f"failed to read proxy response: {error}") from error
            if event is h11.NEED_DATA:
                # The end of what the proxy says is an empty read, which h11 refuses where an answer is due.
                http.receive_data(await loop.sock_recv(connection, _READ_BYTES))
            elif isinstance(event, h11.Response):
                break
            elif not isinstance(event, h11.InformationalResponse):
                raise OSError("failed to read proxy response")
        if event.status_code != 200:
            raise OSError(f"proxy CONNECT failed: {event.status_code} {event.reason.decode('latin-1')}".rstrip())
        if http.trailing_data[0]:
            # The server behind it speaks when it was asked, and nobody has asked yet.
            raise OSError("the proxy sent more than its answer")
