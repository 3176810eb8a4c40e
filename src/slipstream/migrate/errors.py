"""Why a migration stops."""

from __future__ import annotations

from slipstream.errors import SlipstreamError

__all__ = ["MigrationError", "WrongKey"]


class MigrationError(SlipstreamError):
    """It cannot go on; the text is for who runs it."""


class WrongKey(MigrationError):
    """Something is encrypted and no given key opens it."""
