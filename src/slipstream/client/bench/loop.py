"""Runs the courses of many clients in one thread: whoever can go on goes on.

Invariant: a client that waits for the server longer than the timeout, with nothing sent or received meanwhile, ends the
run with an error; a client that pauses by itself does not.
"""

from __future__ import annotations

import heapq
import select
import time
from collections.abc import Generator, Sequence
from time import monotonic_ns
from typing import Generic, TypeVar

from slipstream.client.bench.course import CAME, SENT
from slipstream.client.bench.peer import BenchPeer
from slipstream.client.options import ClientTimeout
from slipstream.units import MILLISECOND_NS, SECOND_NS

__all__ = ["drive"]

_Result = TypeVar("_Result")
_LOOK_NS = 100 * MILLISECOND_NS  # between two looks for clients that wait too long
_POLL_NS = MILLISECOND_NS  # what epoll can measure


class _Client(Generic[_Result]):
    """One client at work."""

    __slots__ = ("active_ns", "peer", "result", "steps", "watches_out", "wish")

    def __init__(self, peer: BenchPeer, steps: Generator[int, None, _Result]) -> None:
        self.peer = peer
        self.steps = steps
        self.wish = SENT
        self.active_ns = monotonic_ns()
        self.watches_out = False
        self.result: _Result | None = None


def drive(
    peers: Sequence[BenchPeer], courses: Sequence[Generator[int, None, _Result]], timeout_ns: int
) -> list[_Result | None]:
    """Run the courses to their ends and return what they return.

    Raises:
        ClientTimeout: one of them waits for something that does not come.
        ClientError: a course, or a connection, failed.
    """
    with select.epoll() as epoll:
        return _Loop(epoll, peers, courses, timeout_ns).run()


class _Loop(Generic[_Result]):
    def __init__(
        self,
        epoll: select.epoll,
        peers: Sequence[BenchPeer],
        courses: Sequence[Generator[int, None, _Result]],
        timeout_ns: int,
    ) -> None:
        self._epoll = epoll
        self._timeout_ns = timeout_ns
        self._clients = [_Client(peer, steps) for peer, steps in zip(peers, courses, strict=True)]
        self._working = {client.peer.fileno(): client for client in self._clients}
        # Nobody else has to go on meanwhile, so it can wait where it receives: half the system calls.
        alone = len(self._clients) == 1 and self._clients[0].peer.can_wait
        self._lone = self._clients[0] if alone else None
        self._ready = list(self._clients)  # can go on at once
        self._pauses: list[tuple[int, int]] = []  # when to go on, and who: a heap
        for number in self._working:
            epoll.register(number, select.EPOLLIN)

    def run(self) -> list[_Result | None]:
        look_ns = monotonic_ns() + _LOOK_NS
        while self._working:
            ready, self._ready = self._ready, []
            for client in ready:
                self._resume(client)
            if not self._working:
                break
            if self._lone is not None and self._lone.wish == CAME and not self._lone.peer.unsent:
                if not self._lone.peer.receive_waiting(self._timeout_ns):
                    raise self._too_long(self._lone)
                self._resume(self._lone)
                continue
            for number, events in self._epoll.poll(self._wait_s()):
                client = self._working[number]
                self._handle(client, events)
            now_ns = monotonic_ns()
            while self._pauses and self._pauses[0][0] <= now_ns:
                _, number = heapq.heappop(self._pauses)
                self._ready.append(self._working[number])
            if now_ns >= look_ns:
                self._look(now_ns)
                look_ns = now_ns + _LOOK_NS
        return [client.result for client in self._clients]

    def _handle(self, client: _Client[_Result], events: int) -> None:
        peer = client.peer
        client.active_ns = monotonic_ns()
        if events & ~select.EPOLLOUT:
            peer.receive()
            if client.wish == CAME:
                self._resume(client)
                return
        if events & select.EPOLLOUT:
            peer.send_rest()
            if client.wish == SENT and not peer.unsent:
                self._ready.append(client)
        self._watch(client)

    def _resume(self, client: _Client[_Result]) -> None:
        try:
            client.wish = wish = next(client.steps)
        except StopIteration as end:
            client.result = end.value
            number = client.peer.fileno()
            self._epoll.unregister(number)
            del self._working[number]
            return
        if wish >= 0:
            heapq.heappush(self._pauses, (wish, client.peer.fileno()))
        elif wish == SENT and not client.peer.unsent:
            self._ready.append(client)
        self._watch(client)

    def _watch(self, client: _Client[_Result]) -> None:
        if client.peer.unsent != client.watches_out:
            client.watches_out = client.peer.unsent
            events = select.EPOLLIN | (select.EPOLLOUT if client.watches_out else 0)
            self._epoll.modify(client.peer.fileno(), events)

    def _wait_s(self) -> float:
        """How long the poll may wait. Pauses shorter than it can measure are slept here."""
        if self._ready:
            return 0.0
        if not self._pauses:
            return _LOOK_NS / SECOND_NS
        left_ns = self._pauses[0][0] - monotonic_ns()
        if left_ns < 2 * _POLL_NS:
            if left_ns > 0:
                time.sleep(left_ns / SECOND_NS)
            return 0.0
        return min(left_ns - _POLL_NS, _LOOK_NS) / SECOND_NS

    def _look(self, now_ns: int) -> None:
        for client in self._working.values():
            if client.wish >= 0:
                client.active_ns = now_ns
            elif now_ns - client.active_ns > self._timeout_ns:
                raise self._too_long(client)

    def _too_long(self, client: _Client[_Result]) -> ClientTimeout:
        doing = "sent" if client.wish == CAME else "took"
        return ClientTimeout(f"the server {doing} nothing for {self._timeout_ns / SECOND_NS:g} s")
