"""Password checks that take a tenth of a second each: few at a time, the addresses in turn.

    CONNECT ──► waiting, by address ──► a free thread ──► answer
                     └── the client left or ran out of time: forgotten

A thousand clients that come back at once wait here until it is their turn or their time is over; refusing them would
tell them that their password is wrong, and clients give up on that. Who tries passwords from one address waits behind
himself and not before everybody else. IPv6 addresses count by network (/64), since one machine has as many as it likes.

Bounded by the number of connections: each waits for one check at most, and is forgotten when it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Protocol

from slipstream.server.limits import PASSWORD_CHECK_THREADS

if TYPE_CHECKING:
    from slipstream.protocol.peer import Peer

__all__ = ["PasswordChecks", "Start", "Waiting"]


class Waiting(Protocol):
    """Whoever waits for an answer: a client or a leaf node."""

    @property
    def peer(self) -> Peer: ...


Job = Callable[[], bool]
Done = Callable[[bool], None]
# Runs a job in a thread and gives its answer back on the loop.
Start = Callable[[Job, Done], None]

_IPV6_NETWORK_LETTERS = 19  # four groups of four digits and their colons


class PasswordChecks:
    """The checks of one server that wait or are under way."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._running = 0
        # Address → who waits there, both in the order in which they get their turn.
        self._waiting: dict[str, dict[Waiting, tuple[Job, Done]]] = {}

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    def submit(self, connection: Waiting, job: Job, done: Done) -> None:
        """Check a password when it is this connection's turn."""
        self._waiting.setdefault(_source(connection.peer.ip), {})[connection] = (job, done)
        self._next()

    def forget(self, connection: Waiting) -> None:
        """The connection ended: it waits no more."""
        if self._waiting:
            self._take(_source(connection.peer.ip), connection)

    def _next(self) -> None:
        while self._running < PASSWORD_CHECK_THREADS and self._waiting:
            source = next(iter(self._waiting))
            job, done = self._take(source, next(iter(self._waiting[source])))
            if source in self._waiting:
                # The others of this address come after everybody else.
                self._waiting[source] = self._waiting.pop(source)
            self._running += 1
            self._start(job, partial(self._finished, done))

    def _take(self, source: str, connection: Waiting) -> tuple[Job, Done]:
        group = self._waiting.get(source, {})
        taken = group.pop(connection, (_nothing, _no_one))
        if not group:
            self._waiting.pop(source, None)
        return taken

    def _finished(self, done: Done, matched: bool) -> None:
        self._running -= 1
        try:
            done(matched)
        finally:
            self._next()


def _source(ip: str) -> str:
    if ":" not in ip:
        return ip
    try:
        return IPv6Address(ip.partition("%")[0]).exploded[:_IPV6_NETWORK_LETTERS]
    except ValueError:
        return ip


def _nothing() -> bool:
    return False


def _no_one(_matched: bool) -> None:
    return None
