"""Why a server does not start."""

from __future__ import annotations

from slipstream.errors import SlipstreamError

__all__ = ["StartError"]


class StartError(SlipstreamError):
    """The server cannot start; the text is the fatal log line."""
