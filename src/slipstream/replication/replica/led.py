"""What runs on a replica's store while this server leads: a stream, or the meta group's log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slipstream.jetstream.store.values import Committed

__all__ = ["Led", "LedCommits", "LedUpkeep"]


class LedUpkeep(Protocol):
    """Background work on the store. `stream.commit.upkeep.Upkeep` is it for a stream."""

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """Call when no thread works on the store any more; it was released, and no commit runs."""
        ...


class LedCommits(Protocol):
    """Commits of the store. `stream.commit.committer.Committer` is it for a stream."""

    @property
    def upkeep(self) -> LedUpkeep:
        """What else works on the store."""
        ...

    def wake(self) -> None:
        """Something was written: commit at the end of this turn, or behind the commit in flight."""
        ...

    def committed(self, done: Committed) -> None:
        """A majority has these."""
        ...


class Led(Protocol):
    """`stream.stream.Stream` is one."""

    @property
    def committer(self) -> LedCommits:
        """Who commits."""
        ...

    @property
    def is_read_back(self) -> bool:
        """Whether the log has to be opened again for the next who leads, also if nothing was ahead of the commit."""
        ...
