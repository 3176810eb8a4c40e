"""JetStream that opens when the server is ready: until then what clients ask of it waits.

A server without streams has nothing to recover, so it need not load the code for them before it listens: that is half
of the time of a start. The door is there from the beginning: it says in INFO that there is JetStream, and keeps the
calls that come. When the server is ready, a thread imports the modules (`late`); then JetStream starts and gets what
waited, in order.

What this is not: a way to run without JetStream. Everything that has to look at it (a reload, the end of the server)
opens or closes the door first. A server inside another program starts JetStream at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from slipstream.accounts.account import Account
    from slipstream.config.options import Options
    from slipstream.kernels.wire.receivers import Subscription
    from slipstream.protocol.connection import ClientConnection
    from slipstream.server.server import Server

__all__ = ["JetStreamDoor", "may_open_later"]

_API: Final = b"$JS.API.>"
# Calls that wait at most: as many as JetStream itself lets wait. Those beyond are dropped, as there.
WAITING_MAX: Final = 10_000
# And bytes of them: a call is as large as a message may be.
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024


def may_open_later(options: Options) -> bool:
    """Whether nothing is in the way.

    An account may import the API of another, and then calls have two ways to go; what happens before JetStream is
    open could not be written down; declared streams are there before the first client; and a cluster waits for nobody.
    """
    if options.jetstream.audit is not None or options.declared or options.cluster.port:
        return False
    return not options.trusts_operators and not any(account.imports for account in options.accounts)


class JetStreamDoor:
    """Stands where JetStream will be."""

    def __init__(self, server: Server, open_jetstream: Callable[[], None]) -> None:
        """Listen on behalf of JetStream.

        Args:
            server: whose clients call.
            open_jetstream: starts JetStream; called once.
        """
        self._server = server
        self._open_jetstream = open_jetstream
        self._waiting: list[tuple[Account, ClientConnection | None, bytes, bytes | None, int, bytes]] = []
        self._waiting_bytes = 0
        self._listening: list[tuple[Account, Subscription]] = []
        server.hub.jetstream = True
        for account in server.hub.accounts.values():
            self._listening.append((account, account.subscribe(_API, partial(self._keep, account))))

    def _keep(
        self,
        account: Account,
        publisher: ClientConnection | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        body: bytes,
    ) -> None:
        self._waiting_bytes += len(body)
        if len(self._waiting) < WAITING_MAX and self._waiting_bytes <= WAITING_BYTES_MAX:
            self._waiting.append((account, publisher, subject, reply, header_size, body))

    @property
    def is_open(self) -> bool:
        """Whether JetStream is there, or has been."""
        return not self._listening

    def open(self) -> None:
        """Start JetStream now, and let it have what waits."""
        if self.is_open:
            return
        self.close()
        self._open_jetstream()
        waiting, self._waiting = self._waiting, []

        def hand_over() -> None:
            for call in waiting:
                self._hand_over(*call)

        self._server.turns.run_and_flush(hand_over)

    def close(self) -> None:
        """Listen no more."""
        for account, subscription in self._listening:
            account.remove(subscription)
        self._listening = []

    def _hand_over(
        self,
        account: Account,
        publisher: ClientConnection | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        body: bytes,
    ) -> None:
        if account.maps_subjects:
            route = self._server.hub.topology.planned(account, subject)
        else:
            route = account.interest.find_route(subject)
        taken = account.delivery.deliver(route, publisher, subject, reply, header_size, body)
        if taken or not reply or publisher is None:
            return
        if publisher.no_responders and publisher.account is account:
            publisher.on_no_responders(subject, reply)
