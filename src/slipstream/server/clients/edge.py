"""What the hub asks of the side that has sockets and threads, for its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from slipstream.protocol.texts import CloseReason
from slipstream.server.limits import PASSWORD_CHECK_THREADS

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from slipstream.protocol.connection import ClientConnection
    from slipstream.server.clients.listener import ClientProtocol
    from slipstream.server.logins.password_checks import PasswordChecks, Waiting
    from slipstream.server.turns import Turns

__all__ = ["ClientEdge"]

_ABORT = (CloseReason.SLOW_CONSUMER_PENDING, CloseReason.SLOW_CONSUMER_WRITE_DEADLINE)


class ClientEdge:
    """The sockets of a hub's clients, and the threads in which their passwords are checked."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._executor: ThreadPoolExecutor | None = None
        self.password_checks: PasswordChecks | None = None  # made with the first slow password
        self.log = turns.log
        self.call_soon = turns.call_soon

    def connected(self, connection: ClientConnection) -> None:
        """A client was let in."""
        edge = _socket_of(connection)
        if edge is not None:
            edge.on_connected()

    def called_out(self, connection: ClientConnection) -> None:
        """A service decides about a client, in a time of its own."""
        edge = _socket_of(connection)
        if edge is not None:
            edge.cancel_timer()

    def close(self, connection: ClientConnection, reason: CloseReason) -> None:
        """Close the socket of a connection that ended."""
        if self.password_checks is not None:
            self.password_checks.forget(connection)
        edge = _socket_of(connection)
        if edge is not None:
            if reason in _ABORT:
                edge.abort()
            else:
                edge.finish()

    def check_password(self, connection: Waiting, job: Callable[[], bool], done: Callable[[bool], None]) -> None:
        """Check a password in a thread, when it is this client's turn."""
        if self.password_checks is None:
            from slipstream.server.logins.password_checks import PasswordChecks

            self.password_checks = PasswordChecks(self._run_in_thread)
        self.password_checks.submit(connection, job, done)

    def _run_in_thread(self, job: Callable[[], bool], done: Callable[[bool], None]) -> None:
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(PASSWORD_CHECK_THREADS, thread_name_prefix="slipstream-auth")

        def finished(result: asyncio.Future[bool]) -> None:
            if not result.cancelled():
                done(result.exception() is None and result.result())

        self._turns.loop.run_in_executor(self._executor, job).add_done_callback(finished)

    def close_threads(self) -> None:
        """Check no more passwords."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None


def _socket_of(connection: ClientConnection) -> ClientProtocol | None:
    from slipstream.server.clients.listener import ClientProtocol  # no start waits for it

    return connection.edge if isinstance(connection.edge, ClientProtocol) else None
