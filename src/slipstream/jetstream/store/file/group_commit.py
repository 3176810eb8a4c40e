"""Commits of many streams that wait at the same time: written one after the other, synced in one go.

    job.write() of each ──► disk.sync_many(all their files) ──► job.settle() of each

A device takes about as long for the files of a thousand streams as for a few, if it is asked once (ADR 16).

Durability is that of each commit alone: it ends, and somebody is told, only after everything it wrote was synced. What
order a commit needs inside its stream is kept by its two halves; between streams there is none, because whatever
depends on another stream's commit waits for its end.

What this is not: a place where streams share a fate. A write that fails is its commit's own; if the common sync fails,
each commit syncs its files itself and finds out whether it is concerned.
"""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.jobs import CommitJob
from slipstream.jetstream.store.values import Job

__all__ = ["run_group"]


def run_group(jobs: Sequence[Job]) -> None:
    """Run commits, of which no two are of the same stream."""
    disks: dict[int, tuple[Disk, list[CommitJob]]] = {}
    for job in jobs:
        if isinstance(job, CommitJob) and job.begun is None and len(jobs) > 1:
            disks.setdefault(id(job.disk), (job.disk, []))[1].append(job)
        else:
            job.run()
    for disk, commits in disks.values():
        try:
            _run_on(disk, commits)
        except Exception as error:  # whatever it was, nobody may be told that these are on disk
            for job in commits:
                job.fail(error)


def _run_on(disk: Disk, jobs: list[CommitJob]) -> None:
    _write(disk, jobs)
    paths: set[str] = set()
    for job in jobs:
        paths |= job.to_sync
    synced = True
    if paths:
        try:
            disk.sync_many(paths)
        except Exception:  # each looks again, and learns what concerns it
            synced = False
    for job in jobs:
        job.settle(synced=synced)


def _write(disk: Disk, jobs: list[CommitJob]) -> None:
    """The first halves. Whatever is no more than a write goes to the operating system in one call."""
    plain: list[tuple[str, int, bytes]] = []
    owners: list[CommitJob] = []
    for job in jobs:
        writes = job.plain_writes()
        if writes is None:
            job.write()
        else:
            job.seal()
            plain += writes
            owners += [job] * len(writes)
            job.written()
    for job, error in zip(owners, disk.write_many(plain), strict=True):
        if error is not None:
            job.fail(error)
