"""An HTTP proxy that knows CONNECT alone, as those at the edge of a company's network do."""

from __future__ import annotations

import asyncio
import base64

from support.tcp_proxy import pump


class HttpProxy:
    """Tunnels for those who know its password."""

    def __init__(self, username: str = "", password: str = "", answer: bytes = b"") -> None:
        self.port = 0
        self.asked: list[str] = []  # targets of all requests
        self.refused = 0
        self._login = base64.b64encode(f"{username}:{password}".encode()).decode() if username else ""
        self._answer = answer  # instead of a tunnel
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> HttpProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, target, _ = head.split("\r\n")[0].split(" ")
            self.asked.append(target)
            if self._answer or method != "CONNECT":
                writer.write(self._answer or b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
                await writer.drain()
                return
            if self._login and f"Proxy-Authorization: Basic {self._login}\r\n" not in head:
                self.refused += 1
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                return
            host, _, port = target.rpartition(":")
            far_reader, far = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(pump(reader, far), pump(far_reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
