"""A TCP proxy that a test can cut: connections through it break, and none comes through until it heals."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class TcpProxy:
    """One way from a port of its own to another one."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self.passed = 0  # connections that came through
        self._target = target_port
        self._cut = False
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> TcpProxy:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Break what is there, and let nothing through."""
        self._cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def heal(self) -> None:
        """Let new connections through."""
        self._cut = False

    async def stop(self) -> None:
        """Close everything."""
        self.cut()
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            with suppress(asyncio.CancelledError, OSError):
                await task

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        far = None
        try:
            if self._cut:
                return
            far_reader, far = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(far)
            if self._cut:
                return
            self.passed += 1
            await asyncio.gather(pump(reader, far), pump(far_reader, writer))
        except OSError:
            pass
        finally:
            for one in (writer, far):
                if one is not None:
                    one.transport.abort()
                    self._writers.discard(one)
            self._tasks.discard(task)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes, until there is no more."""
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.transport.abort()
