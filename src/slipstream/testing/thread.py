"""A server with an event loop of its own, in a thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from slipstream.config.options import Options
from slipstream.server.process.runner import new_event_loop
from slipstream.server.server import Server

__all__ = ["ServerThread"]

_START_SECONDS_MAX = 60.0  # a first import compiles every module, and machines of tests are busy
_STOP_SECONDS_MAX = 10.0


class ServerThread:
    """Starts a server on a free port and stops it, from synchronous code. Takes what `Server` takes."""

    def __init__(self, options: Options | None = None, **overrides: Any) -> None:
        overrides.setdefault("host", "127.0.0.1")
        if options is None:
            overrides.setdefault("port", -1)
        self.server = Server(options, **overrides)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="slipstream-server", daemon=True)

    def __enter__(self) -> ServerThread:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self.server.url

    @property
    def port(self) -> int:
        """The client port."""
        return self.server.port

    def __repr__(self) -> str:
        return f"<ServerThread {self.url}>" if self._thread.is_alive() else "<ServerThread, not running>"

    def _repr_html_(self) -> str:
        from slipstream.server.display import server_html

        return server_html(self.server)

    def start(self) -> None:
        """Start; returns when clients can connect.

        Raises:
            StartError: as `Server.start`.
            TimeoutError: the server did not come up.
        """
        self._thread.start()
        if not self._ready.wait(_START_SECONDS_MAX):
            raise TimeoutError("the server did not start in time")
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop and wait until everything is closed. May be called twice."""
        loop = self._loop
        if loop is None or not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self.server.stop(), loop)
        self._thread.join(_STOP_SECONDS_MAX)
        if self._thread.is_alive():
            raise TimeoutError("the server did not stop in time")

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self.server.start()
        except BaseException as failure:
            self._failure = failure
            return
        finally:
            self._ready.set()
        await self.server.wait_stopped()
