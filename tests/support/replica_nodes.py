"""Replicas whose driver is the test: no Raft, frames are written and committed by hand."""

from __future__ import annotations

from dataclasses import replace

from models.records import Record, encode_frame
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.jobs import CommitJob
from slipstream.jetstream.store.file.replica.applied_file import Applied, read_applied
from slipstream.jetstream.store.file.replica.log import Entry, ReplicaLog
from slipstream.testing.sim_disk import SimDisk
from support.stores import DIRECTORY, UID, commit, options

TERM = 3


class Node:
    """A replica whose driver is the test."""

    def __init__(self, *, segment_bytes: int = 1 << 20) -> None:
        self.disk = SimDisk()
        self.options = replace(options(segment_bytes=segment_bytes), replicated=True)
        self.store = FileStore.create(self.disk, DIRECTORY, uid=UID, config=b"{}", options=self.options)

    @property
    def log(self) -> ReplicaLog:
        assert self.store.replica is not None
        return self.store.replica

    def write(self, *entries: Entry) -> None:
        self.log.write(entries)
        commit(self.store)

    def lead(self) -> None:
        self.write((1, TERM, 0, b""))
        self.log.commit(1)
        self.log.lead(TERM)

    def propose(self) -> list[Entry]:
        """Everything that waits, as a leader's commit."""
        first = self.log.last_index + 1
        job = self.store.begin_commit()
        assert isinstance(job, CommitJob)
        packed = self.log.proposals(job)
        job.run()
        self.store.finish_commit(job)
        return [(index, TERM, 0, data) for index, data in enumerate(packed, first)]

    def reopen(self, committed: int = 0) -> None:
        self.disk = self.disk.kill()
        self.store = FileStore.open(self.disk, DIRECTORY, self.options, committed=committed)

    def all(self) -> list[Entry]:
        return list(self.log.entries(1, self.log.last_index + 1, 1 << 30))

    def saved(self) -> Applied | None:
        return read_applied(self.disk, DIRECTORY)


def frame(index: int, *records: Record) -> Entry:
    return index, 1, 0, encode_frame(list(records), no=index, salt=0, epoch=1)


def state(kind: int, key: bytes, value: bytes = b"") -> Record:
    return Record(0, 0, key, b"", value, kind=kind)
