"""A real server inside a test, a notebook or any synchronous program.

with ServerThread() as server:          # anywhere
    connect(server.url)

def test_orders(nats_server):           # pytest: list "slipstream.testing.fixtures" in pytest_plugins
    connect(nats_server.url)
"""

from __future__ import annotations

from slipstream.testing.thread import ServerThread

__all__ = ["ServerThread"]
