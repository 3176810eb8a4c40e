"""What a direct get of a replicated stream may show, by the metadata `slipstream.direct_get` (ADR 77).

`latest`, which is the default: everything that was acknowledged before the request. `local`: what the server that
answers knows to be committed, which may be older, without asking any other server.
"""

from __future__ import annotations

from typing import Final

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.errors import invalid_config

__all__ = ["DIRECT_GET_KEY", "check_direct_reads", "reads_locally"]

DIRECT_GET_KEY: Final = "slipstream.direct_get"
_LATEST: Final = "latest"
_LOCAL: Final = "local"


def reads_locally(config: StreamConfig) -> bool:
    """Whether whoever answers asks nobody."""
    return config.metadata.get(DIRECT_GET_KEY) == _LOCAL


def check_direct_reads(config: StreamConfig) -> None:
    """Whether the metadata says something that there is.

    Raises:
        TableError: 10052, it does not.
    """
    if config.metadata.get(DIRECT_GET_KEY, _LATEST) not in (_LATEST, _LOCAL):
        raise invalid_config(f"{DIRECT_GET_KEY} must be {_LATEST} or {_LOCAL}")
