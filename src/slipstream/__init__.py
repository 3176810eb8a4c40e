"""Slipstream: NATS in Python.

    async with slipstream.Server(port=0) as server:
        ...connect any NATS client to server.url...

The names are imported when they are first used, so that `import slipstream` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.version import PRODUCT_VERSION as __version__

if TYPE_CHECKING:
    from slipstream.bulk.tables import read_arrow as read_arrow
    from slipstream.server.server import Server as Server

__all__ = ["Server", "__version__", "read_arrow"]


def __getattr__(name: str) -> object:
    if name == "Server":
        from slipstream.server.server import Server

        return Server
    if name == "read_arrow":
        from slipstream.bulk.tables import read_arrow

        return read_arrow
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
