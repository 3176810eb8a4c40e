"""Who a server is: a fresh key pair at each start, its public half being the server id."""

from __future__ import annotations

from slipstream.auth.nkeys import new_curve_public_key, new_server_public_key
from slipstream.routing.hub import ServerIdentity

__all__ = ["new_identity"]


def new_identity(name: str, start_ns: int) -> ServerIdentity:
    """A new identity; without a configured name the id is the name."""
    server_id = new_server_public_key()
    return ServerIdentity(server_id, name or server_id, new_curve_public_key(), start_ns)
