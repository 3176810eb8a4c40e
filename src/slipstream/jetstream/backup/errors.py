"""What is wrong with a backup that somebody sends, and why one cannot be made."""

from __future__ import annotations

from slipstream.errors import PeerViolation

__all__ = ["BadBackup", "UnreadableMessage"]


class BadBackup(PeerViolation):
    """It is not a backup, or damaged, or does not belong to this stream; the text is shown to who sent it."""


class UnreadableMessage(Exception):
    """A message cannot be read, or not be written down, so there is no complete backup."""
