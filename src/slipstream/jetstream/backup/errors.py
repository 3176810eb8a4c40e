"""What is wrong with a backup that somebody sends."""

from __future__ import annotations

from slipstream.errors import PeerViolation

__all__ = ["BadBackup"]


class BadBackup(PeerViolation):
    """It is not a backup, or damaged, or does not belong to this stream; the text is shown to who sent it."""
