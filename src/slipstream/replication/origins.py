"""Which cluster of a supercluster a call comes from: a stream that names no cluster is placed there.

A call that comes over a gateway is the other cluster's. One that comes over a route may be of a client of that server,
or may have come to that server over a gateway: it has heard the call before it passed it on, so it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from slipstream.jetstream.api.request import ApiRequest
from slipstream.jetstream.ports import Cancel
from slipstream.replication.meta.entries import Node
from slipstream.replication.peer_calls import Answer, PeerCalls
from slipstream.units import SECOND_NS

__all__ = ["ORIGIN", "Origins", "Whence"]

ORIGIN: Final = "origin"  # a question to another server: which cluster a call with this reply comes from
_KEPT_MAX: Final = 1_000
_ANSWERED_WITHIN_NS: Final = 2 * SECOND_NS


class Whence(NamedTuple):
    """How a call came."""

    cluster: str = ""
    """The other cluster whose gateway it came over."""
    server: str = ""
    """The server of the own cluster whose route it came over."""


class Origins:
    """Those of calls that one server hears.

    Args:
        own: the cluster of this server.
        calls: asks other servers.
        reachable: servers by number.
        call_later: runs something after a time.
    """

    def __init__(
        self,
        own: str,
        calls: PeerCalls,
        reachable: Callable[[], Mapping[int, Node]],
        call_later: Callable[[int, Callable[[], None]], Cancel],
    ) -> None:
        self._own = own
        self._calls = calls
        self._reachable = reachable
        self._call_later = call_later
        self._heard: dict[bytes, str] = {}  # by reply, the oldest first

    def heard(self, reply: bytes, cluster: str) -> None:
        """A call came over the gateway of another cluster; who leads the meta group may ask for that."""
        while len(self._heard) >= _KEPT_MAX:
            del self._heard[next(iter(self._heard))]
        self._heard[reply] = cluster

    def answer(self, reply: bytes, answer: Answer) -> None:
        """Another server asks."""
        answer(self._heard.get(reply, "").encode())

    def of(self, request: ApiRequest, then: Callable[[str], None]) -> None:
        """Go on with a call, with the cluster of who calls; at once, if nobody has to be asked."""
        if not isinstance(request.whence, Whence):
            then(self._own)
            return
        self._find(request.whence, request.reply, lambda cluster: request.attempt(lambda: then(cluster)))

    def _find(self, whence: Whence, reply: bytes | None, then: Callable[[str], None]) -> None:
        others = [number for number, node in self._reachable().items() if node.name == whence.server]
        if whence.cluster or not whence.server or not others or reply is None:
            then(whence.cluster or self._own)
            return

        def end(cluster: str) -> None:
            cancel_timer()
            cancel_question()
            then(cluster or self._own)

        cancel_timer = self._call_later(_ANSWERED_WITHIN_NS, lambda: end(""))
        cancel_question = self._calls.ask(others, ORIGIN, reply, lambda _node, body: end(body.decode()))
