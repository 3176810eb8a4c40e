"""Files of a stream that somebody still has to do something about: sync them, or remove them."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

__all__ = ["NO_PATHS", "PendingFiles"]

NO_PATHS: Final[Set[str]] = frozenset()
"""One for all: every stream has several sets of paths, which are empty as a rule."""


class PendingFiles:
    """Paths that wait for a sync, and paths that wait for their removal."""

    __slots__ = ("abandoned", "leftovers", "unsynced")

    def __init__(self) -> None:
        """Nothing waits."""
        self.unsynced: Set[str] = NO_PATHS
        """Written by commits that did not sync."""
        self.leftovers: list[str] = []
        """Nothing needs them any more: upkeep removes them."""
        self.abandoned: Set[str] = NO_PATHS
        """Those of the leftovers that held an abandoned unit: a commit in flight may still be writing to them."""

    def clear(self) -> None:
        """Another log is in the place of this one: nothing of it waits for a sync."""
        self.unsynced = self.abandoned = NO_PATHS

    def abandon(self, paths: Iterable[str]) -> None:
        """Files that held nothing but a unit that was given up: not worth a sync."""
        paths = list(paths)
        self.abandoned |= set(paths)
        self.unsynced -= self.abandoned
        self.leftovers += paths

    def written(self, paths: set[str], unsynced: set[str]) -> None:
        """A commit wrote `paths`, and left these unsynced."""
        self.unsynced -= paths
        self.unsynced |= unsynced - self.abandoned

    def removed(self, paths: Iterable[str]) -> None:
        """These are gone."""
        gone = set(paths)
        self.leftovers = [path for path in self.leftovers if path not in gone]
        self.unsynced -= gone
        self.abandoned -= gone
