"""Connections that end by themselves: the token of a user ends, or the time of day in which it may be used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from slipstream.protocol import texts
from slipstream.protocol.texts import CloseReason
from slipstream.routing.deadlines import Deadlines, Timers

if TYPE_CHECKING:
    from slipstream.auth.identity import OpenIdLogin, TokenLogin
    from slipstream.protocol.connection import ClientConnection

__all__ = ["LoginEnds"]


class LoginEnds:
    """The ends of logins by token, on one server."""

    def __init__(self, connections: dict[int, ClientConnection], timers: Timers, now_ns: Callable[[], int]) -> None:
        self._connections = connections
        self._deadlines = Deadlines(timers, now_ns)

    def __len__(self) -> int:
        return len(self._deadlines)

    def admitted(self, connection: ClientConnection) -> None:
        """A client was let in; it may stay until its token ends."""
        token = connection.identity.ending if connection.identity is not None else None
        if token is None:
            return
        connection.check_subscription_limit()
        if token.until_ns:
            # By its number: a connection that is gone is not kept for the sake of its end.
            still_here = partial(self._is_connected, connection.cid, token)
            self._deadlines.add(token.until_ns, still_here, partial(self._ended, connection.cid))

    def _is_connected(self, cid: int, token: TokenLogin | OpenIdLogin) -> bool:
        """Whether a connection is that of this token still."""
        connection = self._connections.get(cid)
        identity = None if connection is None else connection.identity
        return identity is not None and identity.ending is token

    def _ended(self, cid: int) -> None:
        self._connections[cid].close(CloseReason.AUTHENTICATION_EXPIRED, texts.AUTHENTICATION_EXPIRED)

    def close(self) -> None:
        """Let no timer run on."""
        self._deadlines.close()
