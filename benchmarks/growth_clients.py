"""Clients as they grow: one with a million subscriptions that leaves, thousands that come back at once."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic, sleep
from urllib.parse import urlsplit

from benchmarks.growth_case import Action, Case
from benchmarks.scenario import Bar, Claim, MessagesMissing, Row, Scale, Scenario
from benchmarks.servers import Server
from slipstream.client.wire import WireClient

__all__ = ["CASES", "SCENARIOS"]

SUBSCRIPTIONS = 1_000_000
RECONNECTING = 15_000
_CONNECT = b'CONNECT {"verbose":false}\r\nPING\r\n'
_ATTEMPT_S = 2.0  # what official clients allow an attempt to connect
_PAUSE_S = 0.1  # before the next one
_ATTEMPTS_AT_ONCE = 200  # in progress: more, and the clients' own machine decides how long they take
_PATIENCE_S = 300.0  # a server may freeze for minutes: that is what is measured
_BATCH = 10_000  # subscriptions in one write
_SETTLE_S = 2.0  # what follows from a client's end may happen after the server has forgotten its socket


# --- subscriptions ---


class _Subscriber:
    """A plain socket that subscribes to much; a client library would keep a queue for each."""

    def __init__(self, url: str) -> None:
        self._socket = socket.create_connection(_address(url), _PATIENCE_S)
        self._rest = b""
        self._ask(_CONNECT)

    def subscribe(self, pattern: str, count: int) -> None:
        for begin in range(0, count, _BATCH):
            numbers = range(begin, min(begin + _BATCH, count))
            self._ask(b"".join(b"SUB %s %d\r\n" % ((pattern % n).encode(), n) for n in numbers) + b"PING\r\n")

    def unsubscribe(self, count: int) -> None:
        for begin in range(0, count, _BATCH):
            numbers = range(begin, min(begin + _BATCH, count))
            self._ask(b"".join(b"UNSUB %d\r\n" % n for n in numbers) + b"PING\r\n")

    def leave(self) -> None:
        self._socket.close()

    def _ask(self, lines: bytes) -> None:
        self._socket.sendall(lines)
        while b"PONG\r\n" not in self._rest:
            read = self._socket.recv(65536)
            if not read:
                raise MessagesMissing("the server cut off a subscriber")
            self._rest += read
        if b"-ERR" in self._rest:
            raise MessagesMissing(self._rest.decode())
        self._rest = b""


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None
    return parts.hostname, parts.port


_subscribers: list[_Subscriber] = []


def _many_subscriptions(url: str, scale: Scale) -> None:
    """Three clients, each with many subscriptions; the actions use up one each."""
    for pattern in ("many.%d", "many.%d.*", "many.%d"):
        subscriber = _Subscriber(url)
        subscriber.subscribe(pattern, scale.of(SUBSCRIPTIONS))
        _subscribers.append(subscriber)


def _leave(_client: WireClient, _scale: Scale) -> None:
    _subscribers.pop(0).leave()
    sleep(_SETTLE_S)


def _unsubscribe(_client: WireClient, scale: Scale) -> None:
    subscriber = _subscribers.pop(0)
    subscriber.unsubscribe(scale.of(SUBSCRIPTIONS))
    subscriber.leave()


CASES = (
    Case(
        "subscriptions",
        _many_subscriptions,
        (
            Action(f"a client with {SUBSCRIPTIONS:,} subscriptions leaves", _leave),
            Action(f"a client with {SUBSCRIPTIONS:,} subscriptions to patterns leaves", _leave),
            Action(f"a client gives up {SUBSCRIPTIONS:,} subscriptions one by one", _unsubscribe),
        ),
        flags=(),
    ),
)


# --- many clients ---


class _Crowd:
    """Clients that want to be connected, all at once and again when an attempt fails; one thread looks after all."""

    def __init__(self, url: str, count: int) -> None:
        self._address = _address(url)
        self._count = count
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._read: dict[int, bytes] = {}
        self._began: dict[int, float] = {}  # of those that are not in yet, oldest first
        self.connected = 0
        self.failed = 0

    def connect(self) -> float:
        """Connect everybody; returns how long that took."""
        began = monotonic()
        due = deque([began] * self._count)  # when those that have no socket make their next attempt
        self.connected = self.failed = 0
        while self.connected < self._count:
            now = monotonic()
            if now - began > _PATIENCE_S:
                raise MessagesMissing(f"only {self.connected} of {self._count} clients were let in")
            failed = self._late(now)
            while due and due[0] <= now and len(self._began) < _ATTEMPTS_AT_ONCE:
                due.popleft()
                failed += not self._begin(now)
            for descriptor, _ in self._poll.poll(0.01):
                failed += self._go_on(descriptor)
            self.failed += failed
            due.extend([now + _PAUSE_S] * failed)
        return monotonic() - began

    def cut(self) -> None:
        """End all connections."""
        for descriptor in list(self._sockets):
            self._end(descriptor)

    def close(self) -> None:
        self.cut()
        self._poll.close()

    def _begin(self, now: float) -> bool:
        one = socket.socket()
        one.setblocking(False)
        with suppress(BlockingIOError):
            try:
                one.connect(self._address)
            except ConnectionError:
                one.close()
                return False
        self._sockets[one.fileno()] = one
        self._read[one.fileno()] = b""
        self._began[one.fileno()] = now
        self._poll.register(one, select.EPOLLIN)
        return True

    def _late(self, now: float) -> int:
        late = []
        for descriptor, began in self._began.items():
            if now - began < _ATTEMPT_S:
                break
            late.append(descriptor)
        for descriptor in late:
            self._end(descriptor)
        return len(late)

    def _go_on(self, descriptor: int) -> bool:
        """Read; True if this attempt failed."""
        one = self._sockets[descriptor]
        try:
            read = one.recv(4096)
        except BlockingIOError:
            return False
        except OSError:
            read = b""
        if not read:
            in_before = descriptor not in self._began
            self.connected -= in_before
            self._end(descriptor)
            return True
        before = self._read[descriptor]
        self._read[descriptor] = so_far = before + read
        if b"INFO" not in before and b"\r\n" in so_far:
            one.send(_CONNECT)
        if b"PONG\r\n" in so_far and self._began.pop(descriptor, None) is not None:
            self.connected += 1
        return False

    def _end(self, descriptor: int) -> None:
        self._began.pop(descriptor, None)
        self._read.pop(descriptor)
        self._sockets.pop(descriptor).close()


def _reconnect(server: Server, scale: Scale) -> Sequence[float]:
    """Everybody connects, is cut off, and comes back."""
    count = scale.of(RECONNECTING)
    crowd = _Crowd(server.url, count)
    try:
        crowd.connect()
        crowd.cut()
        sleep(_SETTLE_S)  # both at once are more descriptors than many machines allow
        before = server.busy_ns()
        took = crowd.connect()
        busy = server.busy_ns() - before
    finally:
        crowd.close()
    return crowd.failed, took, count / took, busy / 1e3 / count


SCENARIOS = (
    Scenario(
        "growth-reconnect",
        (
            Row(f"failed attempts while {RECONNECTING:,} clients reconnect", "", Bar(Claim.AT_MOST_OR_TWICE, 0.0)),
            Row(f"until all {RECONNECTING:,} clients are back", "s", Bar(Claim.RATIO_AT_MOST, 2.0)),
            Row("clients let in", "/s", None),
            Row("processor time of a connection", "us", None),
        ),
        _reconnect,
    ),
)
