"""What a notebook shows of a server that runs in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.notebook import facts

if TYPE_CHECKING:
    from slipstream.server.server import Server

__all__ = ["server_html"]


def server_html(server: Server) -> str:
    """A server that runs in this process."""
    jetstream = server.options.jetstream
    values: dict[str, object] = {
        "State": "running" if server.running else "not running",
        "Address": server.url if server.running else "",
        "JetStream": jetstream.store_dir or "on" if jetstream.enabled else "off",
        "Connections": len(server.hub.connections),
    }
    return facts(f"Slipstream server {server.identity.name}", values)
