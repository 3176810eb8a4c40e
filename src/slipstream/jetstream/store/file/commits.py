"""Commits of a file store: what was changed gets to the disk, off the loop as a job or inline.

`begin` collects everything that waits into a `CommitJob` (`jobs`), somebody runs it, `finish` draws the conclusions. A
short one may begin in `begin`, if the caller would rather wait a moment than hand it over.

The conclusions are two: what is on disk is *persisted*, and gives back its memory; what is *committed*, readers see.
Alone they are one step. In a replicated log a majority has to persist a frame first: persisted commits wait in a queue,
`commit_frames` says how far they are committed, and the next one may begin meanwhile.

Invariants: in an open store `committed_seq` moves only here and only forward; after a fault nothing above it is
readable by a caller that respects it, and nothing above it comes back.
"""

from __future__ import annotations

from slipstream.errors import StorageFault
from slipstream.jetstream.store.assigned import Assigned
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.facts import LogFacts
from slipstream.jetstream.store.file.jobs import CommitJob, SegmentWrite, as_fault
from slipstream.jetstream.store.file.journal import Journal
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.pending_files import NO_PATHS, PendingFiles
from slipstream.jetstream.store.file.removals import LogRemovals
from slipstream.jetstream.store.file.replica.states import LoggedStates
from slipstream.jetstream.store.state import StoreState
from slipstream.jetstream.store.values import Committed, CommitWork, Job, StoreUnavailable

__all__ = ["LogCommits"]


class LogCommits:
    """The commits of one store, one at a time."""

    __slots__ = (
        "_directory",
        "_disk",
        "_facts",
        "_files",
        "_journal",
        "_log",
        "_removals",
        "_state",
        "_states",
        "committed_frame",
        "end",
        "in_flight",
        "marked",
        "persisted",
        "replicated",
    )

    def __init__(
        self,
        state: StoreState,
        log: SegmentedLog,
        journal: Journal,
        facts: LogFacts,
        removals: LogRemovals,
        files: PendingFiles,
        disk: Disk,
        directory: str,
        states: LoggedStates | None,
    ) -> None:
        """Nothing was committed."""
        self._state = state
        self._log = log
        self._journal = journal
        self._facts = facts
        self._removals = removals
        self._files = files
        self._disk = disk
        self._directory = directory
        self._states = states
        self.replicated = states is not None
        """Whether a majority decides."""
        self.in_flight: CommitJob | None = None
        """The commit that was begun and not finished."""
        self.persisted: list[CommitJob] = []
        """Commits on this disk that a majority may not have yet, the oldest first; none alone."""
        self.committed_frame = 0
        """In a replicated log: the newest frame that is committed."""
        self.end = (0, 0)
        """Segment number and offset behind the last commit."""
        self.marked = True
        """Whether a frame on disk vouches for the last commit."""

    @property
    def uncommitted_bytes(self) -> int:
        """See `Store.uncommitted_bytes`."""
        job = self.in_flight
        in_flight = job.size if job is not None else 0
        if self.persisted:
            in_flight += sum(job.size for job in self.persisted)
        if self._states is not None:
            in_flight += self._states.pending_bytes
        return self._log.pending_bytes + self._journal.pending_bytes + in_flight

    @property
    def is_settled(self) -> bool:
        """In a replicated log: whether all that was appended here is committed."""
        return not self.persisted and self._state.committed_seq == self._state.index.last_seq

    def begin(self, *, sync: bool = True, inline: bool = False) -> CommitWork | None:
        """See `Store.begin_commit`."""
        state, log = self._state, self._log
        if self.in_flight is not None or state.fault is not None or state.closed:
            return None
        # While a unit is open nothing else may get into the log: it would be lost with the unit.
        unit = log.unit
        if unit is None:
            if self._facts.is_waiting:
                self._facts.log_waiting()
            if self._removals.is_waiting:
                self._removals.log_waiting()
            if self._states is not None and self._states.is_waiting:
                self._states.log_waiting()
        removed, overwrites = self._removals.take()
        writes = log.take_writes()
        journal = self._journal.take() if self._journal.is_changed else None
        if not writes and journal is None and not overwrites and not (sync and self._files.unsynced):
            return None
        writer, in_unit = log.writer, unit is not None
        # By position: fifteen names cost more than all the rest of it (ADR 43).
        self.in_flight = job = CommitJob(
            self._disk,
            self._directory,
            writes,
            journal,
            overwrites,
            sync,
            set(self._files.unsynced),
            state.index.last_seq,
            state.committed_ts_ns if in_unit else writer.last_ts,
            writer.frame_no,
            self._end_of(writes) if writes else None,
            in_unit,
            removed,
            len(log.unit_segments) - in_unit,
            log.chain,
        )
        if self._states is not None:
            self._states.take(job.frame_no)
        if inline:
            job.begin_inline()
        return job

    def finish(self, job: Job) -> Committed:
        """See `Store.finish_commit`."""
        assert job is self.in_flight and self.in_flight is not None
        done, self.in_flight = self.in_flight, None
        if done.fault is not None:
            self.fail(done.fault)
            return Committed(self._state.committed_seq, done.fault)
        self._persist(done)
        if self.replicated:
            self.persisted.append(done)
            return self.commit_frames(self.committed_frame)
        self._show(done)
        return Committed(done.last_seq)

    def commit_frames(self, frame_no: int) -> Committed:
        """In a replicated log: a majority has every frame up to this one, which may not be on this disk yet."""
        self.committed_frame = max(self.committed_frame, frame_no)
        commits = 0
        while self.persisted and self.persisted[0].frame_no <= self.committed_frame:
            self._show(self.persisted.pop(0))
            commits += 1
        return Committed(self._state.committed_seq, commits=commits)

    def cut(self, frame_no: int) -> None:
        """The log of a replica ends behind this frame: what was or is being written behind it does not count."""
        for job in (*self.persisted, *((self.in_flight,) if self.in_flight is not None else ())):
            job.frame_no = min(job.frame_no, frame_no)
        self._log.writer.synced_upto = min(self._log.writer.synced_upto, frame_no)

    def _show(self, done: CommitJob) -> None:
        """A commit is committed, and those before it are: readers see what it adds and removes."""
        state = self._state
        if done.last_seq >= state.committed_seq:  # a replica may have replayed more than its index held at the time
            state.committed_seq, state.committed_ts_ns = done.last_seq, done.last_ts_ns
        self._removals.settle(done.removed, synced=done.sync)

    def _persist(self, done: CommitJob) -> None:
        """What was written is on disk."""
        state, log = self._state, self._log
        if done.end is not None:
            self.end = done.end
            self.marked = False
        if done.sync:
            self._files.unsynced = NO_PATHS
            log.writer.synced_upto = done.frame_no
            del log.unit_segments[: done.units]
            if done.journal is not None:
                self._journal.synced(done.journal)
        elif done.unsynced != self._files.unsynced:
            self._files.written({write.segment.path for write in done.writes}, done.unsynced)
        if done.nearly_full and state.refusal is None:
            state.refusal = StoreUnavailable("no space left on device", path=self._directory, full=True)
        if done.chain is not None and not done.in_unit:
            done.chain.settle(done.last_seq)
        log.finish_writes()
        if done.overwrites:
            self._removals.overwritten()
            log.drop_caches()

    def give_up(self, fault: StorageFault) -> None:
        """See `Store.give_up`."""
        self.in_flight = None
        if self._state.fault is None:
            self.fail(fault)

    def commit_now(self) -> None:
        """Commit and wait for it; for creation and closing.

        Raises:
            StorageFault: it failed.
        """
        job = self.begin()
        if job is not None:
            job.run()
            done = self.finish(job)
            if done.fault is not None:
                raise done.fault

    def mark(self) -> None:
        """Vouch for the last commit, so that damage to it is not taken for a torn tail. A small unsynced write."""
        state, log, journal = self._state, self._log, self._journal
        if state.refusal is not None or self.in_flight is not None or log.unit is not None or self.persisted:
            return
        if self._files.unsynced or log.pending_bytes or journal.is_changed:
            return
        if state.assigned.removals or self._removals.is_waiting:
            return
        if (self.marked and journal.vouched) or (self._states is not None and self._states.is_waiting):
            return
        if not self.marked:
            log.mark()
        journal.mark()
        job = self.begin(sync=False)
        assert job is not None
        try:
            job.run()
            self.finish(job)
        except Exception as error:
            self.give_up(as_fault(error, self._directory))
            raise
        self.marked = True

    def fail(self, fault: StorageFault) -> None:
        """A commit did not succeed: nothing that waited happened, until the store is repaired nothing more is taken."""
        state = self._state
        state.fault = state.refusal = fault
        self.persisted.clear()
        self._journal.abandon()
        # Nothing that waited was removed.
        state.assigned = Assigned(state.index)
        # Nor did what was assigned above the last commit happen: writers see it no more, until it is repaired.
        index = state.index
        lost = index.oldest_matching((), state.committed_seq + 1, index.last_seq, index.messages)
        state.assigned.removals.remove_many(lost)
        self._removals.fail()

    def _end_of(self, writes: list[SegmentWrite]) -> tuple[int, int]:
        """Where the log ends with these writes; before a unit that is still open."""
        if self._log.unit is not None:
            segment, offset, _ = self._log.unit
            return segment.header.no, offset
        last = writes[-1]
        return last.segment.header.no, last.offset + len(last.data)
