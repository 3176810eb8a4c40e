"""A real server inside a test, a notebook or any synchronous program.

with ServerThread() as server:          # anywhere
    connect(server.url)

def test_orders(nats_server):           # pytest, with nothing to set up: see `slipstream.testing.fixtures`
    connect(nats_server.url)

with NatsContainer(jetstream=True) as nats:     # as testcontainers' class of this name
    connect(nats.nats_uri())

The names are imported when they are first used: pytest loads this package in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.testing.container import NatsContainer as NatsContainer
    from slipstream.testing.thread import ServerThread as ServerThread

__all__ = ["NatsContainer", "ServerThread"]


def __getattr__(name: str) -> object:
    if name == "ServerThread":
        from slipstream.testing.thread import ServerThread

        return ServerThread
    if name == "NatsContainer":
        from slipstream.testing.container import NatsContainer

        return NatsContainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
