"""What `slipstream bench` says, without what it measured."""

from __future__ import annotations

import re

__all__ = ["words"]


def words(text: str) -> str:
    """A screen without its measurements."""
    text = re.sub(r"^\d\d:\d\d:\d\d", "HH:MM:SS", text, flags=re.MULTILINE)
    text = re.sub(r"[\d,.]+ msgs/sec", "N msgs/sec", text)
    text = re.sub(r"[\d.]+ (?:B|KiB|MiB|GiB|TiB)/sec", "N/sec", text)
    text = re.sub(r"[\d,]+\.\d\dus", "Nus", text)
    return re.sub(r"\b(min|avg|max|stddev) [\d,]+(?= \||  *msgs)", r"\1 N", text)
