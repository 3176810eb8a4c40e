"""Who is writing to a table right now: leases, so that nobody removes files that are still to be committed.

    <table>/_work/<job>                       the lease of a job: a file that the job touches now and then
    <table>/part-<job>-<number>.parquet       its files, before and after the commit that names them

Invariants, for any number of jobs on one table, whichever dies or stands still, and wherever:

- A job has its lease before its first file, and gives it up after its last commit.
- `Work.commit` looks for the lease after it has seen the version that it builds on. `vacuum` breaks a lease that
  nobody renews, then makes a version, then removes files. So a job whose lease is broken either sees that or is told
  that the table has changed; it cannot name a file that is gone.
- A version names files only that are there, with their size.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from slipstream.spark.lake.base import Archived, LakeError, LakeFile
from slipstream.spark.lake.places import place_at
from slipstream.spark.runtime.repeating import repeating

if TYPE_CHECKING:
    from slipstream.spark.lake.base import Lake

__all__ = ["LEASE_SECONDS", "UNKNOWN_SECONDS", "Work", "job_of", "settle_leases", "working"]

LEASE_SECONDS: Final = 600.0
"""A job that has not renewed its lease for so long is dead."""
UNKNOWN_SECONDS: Final = 7 * 86_400.0
"""Files that are not ours may be somebody's who writes; Delta gives such writers a week as well."""
_RENEWALS: Final = 10  # in the time of a lease
_DIRECTORY: Final = "_work"
_NAME: Final = re.compile(r"part-([0-9a-f]{16})-[0-9a-f]{32}\.parquet(?:\.unfinished)?")


def job_of(name: str) -> str | None:
    """The job that wrote a file; None if it is not one of ours."""
    found = _NAME.fullmatch(name)
    return found[1] if found else None


class Work:
    """One job's writing to one table."""

    def __init__(self, lake: Lake, job: str, lease: str) -> None:
        """Use `working`."""
        self.lake = lake
        self.job = job
        self._lease = lease

    def commit(
        self,
        facts: Archived,
        *,
        add: Sequence[LakeFile] = (),
        remove: Sequence[LakeFile] = (),
        operation: str,
        changes_data: bool = True,
    ) -> int:
        """Make a version, as `Lake.commit` does, out of files that are there.

        Raises:
            LakeConflict: somebody else made a version meanwhile; nothing was changed.
            LakeError: this job stood still for so long that others took it for dead, or a file is gone.
        """
        self._check(add)
        return self.lake.commit(facts, add=add, remove=remove, operation=operation, changes_data=changes_data)

    def discard(self) -> int:
        """Remove the files of this job that no version names; returns how many."""
        self.lake.reload()
        named = {file.path for file in self.lake.files()}
        removed = 0
        for entry in self.lake.place.list():
            if entry.name.startswith(f"part-{self.job}-") and entry.name not in named:
                self.lake.place.remove(entry.name)
                removed += 1
        return removed

    def renew(self) -> None:
        """Say that this job still runs; a lease that was broken stays so."""
        with suppress(OSError, LakeError):
            self.lake.place.touch(self._lease)

    def _check(self, files: Sequence[LakeFile]) -> None:
        try:
            self.lake.place.size(self._lease)
        except FileNotFoundError:
            raise LakeError(
                f"this job did nothing for more than {LEASE_SECONDS:.0f} s, so that another one removed its files from "
                f"{self.lake.location}; nothing was changed, run it again"
            ) from None
        self.lake.check_files(files)


@contextmanager
def working(lake: Lake, operation: str) -> Iterator[Work]:
    """Write to a table: what the block leaves without a commit is removed at its end.

    Args:
        lake: the table.
        operation: what the job is, for people who look.
    """
    job = uuid.uuid4().hex[:16]
    lease = f"{_DIRECTORY}/{job}"
    about = {"operation": operation, "host": socket.gethostname(), "process": os.getpid(), "began": int(time.time())}
    lake.place.write(lease, json.dumps(about).encode())
    work = Work(lake, job, lease)
    try:
        with repeating(LEASE_SECONDS / _RENEWALS, work.renew, f"lease of {operation}"):
            yield work
    finally:
        with suppress(LakeError, OSError):  # the next vacuum does it
            work.discard()
        with suppress(LakeError, OSError):
            lake.place.remove(lease)


def settle_leases(location: str) -> tuple[set[str], int]:
    """Break the leases of jobs that are dead.

    Returns:
        The jobs that write to the table now, and how many leases were broken.
    """
    live: set[str] = set()
    broken = 0
    now = time.time()
    place = place_at(location)
    for entry in place.list(_DIRECTORY):
        if now - entry.modified < LEASE_SECONDS:
            live.add(entry.name)
        elif not entry.name.startswith("."):  # one that is being written has no name yet
            place.remove(f"{_DIRECTORY}/{entry.name}")
            broken += 1
    return live, broken
