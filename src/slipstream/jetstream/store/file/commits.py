"""Commits of a file store: what was changed gets to the disk, off the loop as a job or inline.

`begin_commit` collects everything that waits into a `CommitJob` (`jobs`), somebody runs it, `finish_commit` draws the
conclusions. A short one may run inside of `begin_commit`, if the caller would rather wait a moment than hand it over.

Invariants: in an open store `committed_seq` moves only here and only forward; after a fault nothing above it is
readable by a caller that respects it, and nothing above it comes back.
"""

from __future__ import annotations

from slipstream.errors import StorageFault
from slipstream.jetstream.store.assigned import Assigned
from slipstream.jetstream.store.base import Committed, Job, StoreUnavailable
from slipstream.jetstream.store.file.jobs import CommitJob, SegmentWrite
from slipstream.jetstream.store.file.removals import FileStoreRemovals

__all__ = ["FileStoreCommits"]


class FileStoreCommits(FileStoreRemovals):
    """Commits."""

    @property
    def uncommitted_bytes(self) -> int:
        """See `Store.uncommitted_bytes`."""
        in_flight = sum(len(write.data) for write in self._job.writes) if self._job is not None else 0
        return self._log.pending_bytes + self._journal.pending_bytes + in_flight

    def begin_commit(self, *, sync: bool = True, inline: bool = False) -> Job | None:
        """See `Store.begin_commit`."""
        if self._job is not None or self._fault is not None or self._closed:
            return None
        # While a unit is open nothing else may get into the log: it would be lost with the unit.
        log = self._log
        unit = log.unit
        if unit is None:
            if self._config_due or self._notes_due:
                self._log_postponed()
            if self._trim or self._tombs or self._erasures:
                self._log_removals()
        overwrites = self._take_removals()
        writes = log.take_writes()
        journal = self._journal.take() if self._journal.is_changed else None
        if not writes and journal is None and not overwrites and not (sync and self._unsynced):
            return None
        self._job = job = CommitJob(
            disk=self._disk,
            directory=self._directory,
            writes=writes,
            journal=journal,
            overwrites=overwrites,
            sync=sync,
            also_sync=set(self._unsynced),
            last_seq=self._index.last_seq,
            last_ts_ns=self.committed_ts_ns if unit is not None else self._writer.last_ts,
            frame_no=self._writer.frame_no,
            end=self._end_of(writes),
            in_unit=unit is not None,
            units=len(log.unit_segments) - (1 if unit is not None else 0),
        )
        if inline:
            job.run_inline()
        return job

    def finish_commit(self, job: Job) -> Committed:
        """See `Store.finish_commit`."""
        assert job is self._job and self._job is not None
        done, self._job = self._job, None
        if done.fault is not None:
            self._fail(done.fault)
            return Committed(self.committed_seq, done.fault)
        self.committed_seq, self.committed_ts_ns = done.last_seq, done.last_ts_ns
        self._settle_removals()
        if done.end is not None:
            self._committed_end = done.end
            self._marked = False
        if done.sync:
            self._unsynced = set()
            self._writer.synced_upto = done.frame_no
            del self._log.unit_segments[: done.units]
            if done.journal is not None:
                self._journal.synced(done.journal)
        else:
            self._unsynced -= {write.segment.path for write in done.writes}
            self._unsynced |= done.unsynced - self._dropped
        self._trimmed_first = max(self._trimmed_first, self._in_flight_first)
        if done.sync:
            self._durable_first = self._trimmed_first
        if done.nearly_full and self._refusal is None:
            self._refusal = StoreUnavailable("no space left on device", path=self._directory, full=True)
        self._log.finish_writes()
        if done.overwrites:
            self._log.drop_caches()
        return Committed(self.committed_seq)

    def give_up(self, fault: StorageFault) -> None:
        """See `Store.give_up`."""
        self._job = None
        if self._fault is None:
            self._fail(fault)

    def _end_of(self, writes: list[SegmentWrite]) -> tuple[int, int] | None:
        """Where the log ends with these writes; before a unit that is still open."""
        if not writes:
            return None
        if self._log.unit is not None:
            segment, offset, _ = self._log.unit
            return segment.header.no, offset
        last = writes[-1]
        return last.segment.header.no, last.offset + len(last.data)

    def _fail(self, fault: StorageFault) -> None:
        self._fault = self._refusal = fault
        self._journal.abandon()
        # Nothing that waited was removed; what was to be erased is found again in the log, if it got there.
        self.assigned = Assigned(self._index)
        # Nor did what was assigned above the last commit happen: writers see it no more, until it is repaired.
        index = self._index
        lost = index.oldest_matching((), self.committed_seq + 1, index.last_seq, index.messages)
        self.assigned.removals.remove_many(lost)
        self._logged_erasures, self._in_flight_erasures, self._in_flight_overwritten = [], [], 0
        self._logged_first = self._in_flight_first = 0
