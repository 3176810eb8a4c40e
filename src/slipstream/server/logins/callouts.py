"""The edge of auth callouts: timers and time zones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.routing.callouts import Callouts
from slipstream.routing.login_ends import LoginEnds
from slipstream.server.logins.operators import zone

if TYPE_CHECKING:
    from slipstream.server.server import Server

__all__ = ["start_callouts"]


def start_callouts(server: Server) -> None:
    """Let callouts decide about clients, as far as the configuration or the tokens of accounts say so."""
    hub, turns, keys = server.hub, server.turns, server.identity.keys
    assert keys is not None
    hub.logins.use_ends(LoginEnds(hub.connections, turns, server.clock.now_ns))
    hub.logins.use_callouts(Callouts(hub, keys, turns, lambda: server.auth_timeout_ns, zone, server.log))
