"""Names in a directory that outlive a power cut."""

from __future__ import annotations

import os

__all__ = ["sync_directory"]


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Make sure that what was renamed or linked there stays."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
