"""What a group needs: a log, and somebody who sends, saves, syncs and applies; and what it tells monitoring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from slipstream.jetstream.store.file.replica.log import Entry
from slipstream.jetstream.store.file.replica.votes import Votes

__all__ = ["GroupFacts", "GroupLog", "GroupPorts"]


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A member as monitoring shows it."""

    state: str
    leader: int
    term: int
    vote: int
    applied: int
    first_index: int
    last_index: int
    voters: tuple[int, ...]


class GroupLog(Protocol):
    """The entries. `ReplicaLog` is one."""

    @property
    def first_index(self) -> int:
        """The first that can be read."""
        ...

    @property
    def last_index(self) -> int:
        """The last that was written, synced or not."""
        ...

    @property
    def synced_index(self) -> int:
        """Those up to here are on stable storage."""
        ...

    def terms(self) -> list[tuple[int, int]]:
        """Where each term begins, from the entry before the first on."""
        ...

    def entries(self, low: int, high: int, max_bytes: int) -> Sequence[Entry]:
        """From `low` to below `high` as far as they fit into `max_bytes`, at least one."""
        ...

    def heads(self, low: int, high: int, max_bytes: int) -> Sequence[Entry]:
        """The same; data may be left out where the kind is that of most entries."""
        ...

    def write(self, entries: Sequence[Entry]) -> None:
        """Append; the first replaces what is at its index and behind."""
        ...

    def hold(self, index: int) -> None:
        """Entries from this one on are about to be needed."""
        ...


class GroupPorts(Protocol):
    """What a group has done for it. Calls back only where it says so."""

    def send(self, to: int, message: bytes) -> None:
        """To this node; it may get lost."""
        ...

    def save_votes(self, votes: Votes) -> None:
        """Keep them, synced, and then call `votes_saved`, now or later. One at a time."""
        ...

    def sync_log(self) -> None:
        """Entries were written: sync them soon, and then call `persisted`, not now."""
        ...

    def committed(self, entries: Sequence[Entry]) -> None:
        """A majority has these, and all before: apply them. Data may be left out: see `GroupLog.heads`.

        Raises:
            StorageFault: they cannot be read here; the group stops.
        """
        ...

    def leads(self, term: int) -> None:
        """This node leads, and all that is in its log is applied: the next entries are those that it proposes."""
        ...

    def steps_down(self) -> None:
        """It leads no more. If it takes time to let go of what was not committed: `hold`, later `resume`."""
        ...

    def behind(self, to: int) -> None:
        """This follower needs entries that the log no longer has."""
        ...

    def rests(self) -> None:
        """It has nothing to do, perhaps for long."""
        ...

    def wakes(self) -> None:
        """It rested, and has to be ticked again."""
        ...

    def stopped(self, error: Exception) -> None:
        """The group is of no use any more; it can be made again from its files."""
        ...
