"""Removing files that nobody needs: never those that a job may still commit.

What goes: files that an older version names and the newest does not, and files of jobs that are dead or done. What
stays: files of jobs that run (they remove what they do not commit themselves), and for a week files of unknown origin.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from slipstream.spark.lake.base import Lake, LakeConflict, LakeError
from slipstream.spark.lake.places import Entry
from slipstream.spark.lake.work import UNKNOWN_SECONDS, job_of, settle_leases

__all__ = ["Vacuumed", "make_version", "vacuum"]

_ATTEMPTS = 100


@dataclass(frozen=True)
class Vacuumed:
    """What became of the files that the newest version does not name."""

    removed: int
    in_flight: int  # left to jobs that run


def vacuum(lake: Lake) -> Vacuumed:
    """Leave the newest version of a table and what is being written; older versions cannot be read afterwards.

    Raises:
        LakeError: the table is changed all the time.
    """
    # The order is what makes this safe. A file that is listed has a lease, or its job is done, and then the version
    # that is read last names it; a job that lost its lease cannot build on that version.
    entries = [entry for entry in lake.place.list() if ".parquet" in entry.name]
    live, broken = settle_leases(lake.location)
    lake.reload()
    if broken:
        make_version(lake)
    gone = lake.gone()
    named = {file.path for file in lake.files()}
    removed = in_flight = 0
    for entry in entries:
        if entry.name in named:
            continue
        if entry.name not in gone and job_of(entry.name) in live:
            in_flight += 1
        elif entry.name in gone or _is_orphan(entry):
            lake.place.remove(entry.name)
            removed += 1
    lake.forget()
    return Vacuumed(removed, in_flight)


def make_version(lake: Lake) -> None:
    """Tell everybody who builds on an older version that something has changed.

    Raises:
        LakeError: the table is changed all the time.
    """
    for _ in range(_ATTEMPTS):
        try:
            lake.commit(lake.facts, operation="vacuum")
            return
        except LakeConflict:
            lake.reload()
    raise LakeError(f"{lake.location} is changed all the time; try again later")


def _is_orphan(entry: Entry) -> bool:
    return job_of(entry.name) is not None or time.time() - entry.modified > UNKNOWN_SECONDS
