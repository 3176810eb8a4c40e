"""How what was changed becomes durable, and how a store is kept in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slipstream.errors import StorageFault
from slipstream.jetstream.store.chains import ChainHead, ChainReport
from slipstream.jetstream.store.values import Committed, CommitWork, Job

__all__ = ["StoreCommits", "StoreUpkeep"]


class StoreCommits(Protocol):
    """Commits, one at a time."""

    @property
    def uncommitted_bytes(self) -> int:
        """Bytes that wait for a commit, in flight or not: the caller's measure for back-pressure."""
        ...

    def begin_commit(self, *, sync: bool = True, inline: bool = False) -> CommitWork | None:
        """Take what changed. `sync=False` writes without waiting for the device (interval policy).

        With `sync=True` it also covers everything written before without sync. With `inline` a short commit may
        begin here and now, if that takes no longer than to hand it over: `CommitWork.attend` it before anything else.
        """
        ...

    def finish_commit(self, job: Job) -> Committed:
        """Account for a job whose `run` has returned."""
        ...

    def give_up(self, fault: StorageFault) -> None:
        """An exception that nobody expected left a commit in between, and no thread works on it.

        The store goes on from what it knows to be committed, as after a commit that failed.
        """
        ...


class StoreUpkeep(Protocol):
    """Background work, beside the commits; and the end."""

    @property
    def upkeep_due(self) -> bool:
        """Whether `begin_upkeep` may have something to do beside what the next commit does as well."""
        ...

    def begin_upkeep(self) -> Job | None:
        """The next piece of background work, if any: repair after a fault, index files, compaction, scrubbing.

        Call it about once a second and after a fault, until it gives None; then `begin_commit`, for upkeep may leave
        something to log. At most one is in flight, beside a commit.
        """
        ...

    def finish_upkeep(self, job: Job) -> None:
        """Account for it."""
        ...

    def scrub_next(self) -> bool:
        """Have upkeep read and check one more piece of what was written; False: all were, the next call begins anew."""
        ...

    @property
    def chain_head(self) -> ChainHead | None:
        """Where the hash chain stands with the last commit; None without one."""
        ...

    def check_chain(self, wanted: ChainHead | None, done: Callable[[ChainReport | StorageFault], None]) -> None:
        """Have upkeep read everything and recompute the hash chain, which must have been at `wanted`."""
        ...

    def keep_removed(self, since_ns: Callable[[], int]) -> None:
        """Give no place back that holds removed messages younger than this, as long as there is space to spare.

        `since_ns` is asked whenever a place could be given back; later than any message: nothing is kept.
        """
        ...

    def close(self) -> None:
        """Write and sync what is open, mark the log as cleanly closed, release files. Blocks; idempotent."""
        ...

    def destroy(self) -> None:
        """Close and remove everything this store ever wrote. Blocks."""
        ...
