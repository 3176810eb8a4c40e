"""Slipstream: NATS in Python.

    async with slipstream.Server(port=0) as server:
        ...connect any NATS client to server.url...

    with slipstream.connect("nats://127.0.0.1:4222") as client:
        client.jetstream().publish("orders.us", b"42 apples")

The names are imported when they are first used, so that `import slipstream` costs nothing.
"""

from __future__ import annotations

from slipstream.version import PRODUCT_VERSION as __version__

TYPE_CHECKING = False  # `typing` itself would be most of the time that this import takes
if TYPE_CHECKING:
    from slipstream.bulk.tables import read_arrow as read_arrow
    from slipstream.query.engine import sql as sql
    from slipstream.server.server import Server as Server
    from slipstream.sync.client import connect as connect

__all__ = ["Server", "__version__", "connect", "read_arrow", "sql"]


def __getattr__(name: str) -> object:
    if name == "Server":
        from slipstream.server.server import Server

        return Server
    if name == "read_arrow":
        from slipstream.bulk.tables import read_arrow

        return read_arrow
    if name == "sql":
        from slipstream.query.engine import sql

        return sql
    if name == "connect":
        from slipstream.sync.client import connect

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
