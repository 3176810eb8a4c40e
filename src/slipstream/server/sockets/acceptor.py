"""Connections are taken from a listening socket, some each turn.

The event loops' own listeners take one a turn (uvloop) or as many as wait (asyncio). With one, those that wait are let
in no faster than turns come, and a busy server has few: the kernel's queue runs full, and clients are turned away. With
all, everybody else waits for them.

Here the kernel's queue is emptied fast, and some of those who wait are let in each turn. If more come than can be let
in, the last come first: they still wait for an answer, while those at the front of a long queue are about to give up,
and letting them in would be work for nothing. Who gave up is passed over.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    from slipstream.server.turns import Turns

__all__ = ["ACCEPTED_A_TURN", "CROWD_MIN", "OPENED_A_TURN", "Acceptor"]

OPENED_A_TURN: Final = 32  # each costs about 0.15 ms with all that follows: 5 ms
ACCEPTED_A_TURN: Final = 256  # each costs about 10 us: 3 ms
WAITING_MAX: Final = 4_096  # accepted and not let in; the kernel keeps those that come then
# So many are let in within a tenth of a second, in the order in which they came.
CROWD_MIN: Final = 256
# What the machine has too few of: waiting helps. As nats-server, which begins with less and says the same.
_SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_SHORTAGE_PAUSE_NS: Final = SECOND_NS


class Acceptor:
    """Accepts connections of one listening socket until it is closed."""

    def __init__(
        self, turns: Turns, listening: socket.socket, factory: Callable[[socket.socket], asyncio.BufferedProtocol]
    ) -> None:
        """Begin.

        Args:
            turns: the server.
            listening: a socket that listens and does not block; closed with this.
            factory: makes the protocol of a connection, and may say something on its socket already: the peer reads it
                while the loop takes the socket over, which is half of what it costs to let somebody in.
        """
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._factory = factory
        self._opening: set[asyncio.Task[None]] = set()
        self._waiting: deque[socket.socket] = deque()
        self._batch = ACCEPTED_A_TURN  # connections that are asked for at once
        self._opens = False  # `_open_some` will be called
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
        while self._waiting:
            self._waiting.pop().close()

    def _listen(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening, self.accept)

    def accept(self) -> None:
        """Somebody is there: take some of those who are."""
        before, most = len(self._waiting), min(self._batch, WAITING_MAX - len(self._waiting))
        for _ in range(most):
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                self._failed(error)
                break
            accepted.setblocking(False)
            self._waiting.append(accepted)
        # Who came alone is followed by one who comes alone, mostly, and to ask for another costs as much as to accept.
        self._batch = 1 if len(self._waiting) - before == 1 < most else ACCEPTED_A_TURN
        if not self._opens:
            self._open_some()

    def _open_some(self) -> None:
        waiting = self._waiting
        opened = 0
        for _ in range(min(len(waiting), ACCEPTED_A_TURN)):
            crowded = len(waiting) > CROWD_MIN
            accepted = waiting.pop() if crowded else waiting.popleft()
            if self._opens and _is_gone(accepted):
                accepted.close()  # it gave up while it waited
                continue
            task = self._loop.create_task(self._open(accepted))
            self._opening.add(task)
            task.add_done_callback(self._opened)
            opened += 1
            if opened == OPENED_A_TURN:
                break
        self._opens = bool(waiting)
        if waiting:
            self._turns.call_soon(self._open_some)

    async def _open(self, accepted: socket.socket) -> None:
        if self._listening.fileno() < 0:
            accepted.close()
            return
        protocol = self._factory(accepted)
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, accepted)
        except OSError as error:
            accepted.close()
            protocol.connection_lost(error)

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
