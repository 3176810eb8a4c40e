"""Why a server does not start, and why it ends a link."""

from __future__ import annotations

from slipstream.errors import SlipstreamError
from slipstream.protocol.texts import CloseReason

__all__ = ["LinkUnreadable", "StartError"]


class StartError(SlipstreamError):
    """The server cannot start; the text is the fatal log line."""


class LinkUnreadable(SlipstreamError):
    """What another server sends makes no sense, or its WebSocket was closed. The text is for the log, or empty."""

    def __init__(self, text: str, reason: CloseReason) -> None:
        super().__init__(text)
        self.reason = reason
