"""Sockets that listen."""

from __future__ import annotations

import os
import socket

from slipstream.limits import LISTEN_BACKLOG
from slipstream.server.errors import StartError

__all__ = ["bind", "host_port"]


def bind(what: str, host: str, port: int) -> socket.socket:
    """A listening socket. All interfaces means IPv6 too, where the machine has it; port -1 picks one.

    Raises:
        StartError: the address cannot be had; `what` it was for is said in nats-server's words.
    """
    try:
        return _bound(host, max(port, 0))
    except (OSError, OverflowError) as error:
        where = host_port(host, max(port, 0))
        reason = os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else "invalid port"
        text = f'Error listening on {what}: {where}, "listen tcp {where}: bind: {reason}"'
        if what == "monitor":
            text = f"Can't start monitoring: can't listen to the monitor port: listen tcp {where}: bind: {reason}"
        raise StartError(text) from error


def _bound(host: str, port: int) -> socket.socket:
    if host in ("", "0.0.0.0", "::") and socket.has_dualstack_ipv6():
        listening = socket.create_server(
            ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=LISTEN_BACKLOG
        )
    else:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=LISTEN_BACKLOG)
    listening.setblocking(False)
    # Accepted sockets inherit it: nothing waits here to be sent with more.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def host_port(host: str, port: int) -> str:
    """An address as it is written: IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
