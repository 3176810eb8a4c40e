"""Connections are taken from a listening socket, some each turn.

The event loops' own listeners take one a turn (uvloop) or as many as wait (asyncio). With one, those that wait are let
in no faster than turns come, and a busy server has few: the kernel's queue runs full, and clients are turned away. With
all, everybody else waits for them. Some at a time are let in and answered while the rest waits in the kernel's queue,
so a client that was accepted is in within a few turns, however many come at once.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slipstream.limits import SECOND_NS

if TYPE_CHECKING:
    from slipstream.server.turns import Turns

__all__ = ["ACCEPTS_A_TURN", "Acceptor"]

ACCEPTS_A_TURN: Final = 32  # each costs about 0.15 ms with all that follows: 5 ms
# What the machine has too few of: waiting helps. As nats-server, which begins with less and says the same.
_SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_SHORTAGE_PAUSE_NS: Final = SECOND_NS


class Acceptor:
    """Accepts connections of one listening socket until it is closed."""

    def __init__(self, turns: Turns, listening: socket.socket, factory: Callable[[], asyncio.BufferedProtocol]) -> None:
        """Begin.

        Args:
            turns: the server.
            listening: a socket that listens and does not block; closed with this.
            factory: makes the protocol of a connection.
        """
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._factory = factory
        self._opening: set[asyncio.Task[None]] = set()
        self._pressed = False  # more waited the last time than were accepted
        self._pause: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        """Accept nobody any more."""
        if self._listening.fileno() < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listening)
        self._listening.close()

    def _listen(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening, self.accept)

    def accept(self) -> None:
        """Somebody is there: take some of those who are."""
        pressed, self._pressed = self._pressed, False
        for _ in range(ACCEPTS_A_TURN):
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._failed(error)
                return
            accepted.setblocking(False)
            if pressed and _is_gone(accepted):
                accepted.close()  # it gave up while it waited; a connection for it would make others wait longer
                continue
            task = self._loop.create_task(self._open(accepted))
            self._opening.add(task)
            task.add_done_callback(self._opened)
        self._pressed = True

    async def _open(self, accepted: socket.socket) -> None:
        if self._listening.fileno() < 0:
            accepted.close()
            return
        await self._loop.connect_accepted_socket(self._factory, accepted)

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._turns.report("Accepting a connection", error)

    def _failed(self, error: OSError) -> None:
        """A connection that ended while it waited is nothing; too few descriptors are, and may come back."""
        if error.errno not in _SHORTAGES:
            return
        reason = os.strerror(error.errno or 0).lower()
        self._turns.log("ERR", f"Temporary Client Accept Error (accept: {reason}), sleeping 1000ms")
        self._loop.remove_reader(self._listening)
        self._pause = self._turns.call_later(_SHORTAGE_PAUSE_NS, self._listen)


def _is_gone(accepted: socket.socket) -> bool:
    """Whether the other end has closed without having sent anything."""
    try:
        return not accepted.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
