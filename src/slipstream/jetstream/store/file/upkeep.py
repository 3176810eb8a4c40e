"""Background work on one stream's files: which piece comes next, and what follows from one that is done.

The most urgent piece comes first: repair, space, removal of what nothing needs, index files, the manifest, compaction,
other forms.

What this is not: the work itself, which is in jobs for a thread (`upkeep_jobs`, `compaction`).
"""

from __future__ import annotations

from collections.abc import Callable

from slipstream.errors import StorageFault
from slipstream.jetstream.store.chains import ChainHead, ChainReport
from slipstream.jetstream.store.damage import Damage
from slipstream.jetstream.store.file.commits import LogCommits
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.disk.reserve import Reserve
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.manifest_keeper import ManifestKeeper
from slipstream.jetstream.store.file.pending_files import PendingFiles
from slipstream.jetstream.store.file.removals import LogRemovals
from slipstream.jetstream.store.file.repair import Repair
from slipstream.jetstream.store.file.replica.applied_keeper import AppliedKeeper
from slipstream.jetstream.store.file.segments.compaction import CompactionJob
from slipstream.jetstream.store.file.segments.compactions import Compactions
from slipstream.jetstream.store.file.segments.kept_segments import KeptSegments
from slipstream.jetstream.store.file.segments.open_segment import Segment, index_path
from slipstream.jetstream.store.file.segments.reforms import ReformJob, Reforms
from slipstream.jetstream.store.file.upkeep_jobs import (
    AppliedJob,
    ChainCheckJob,
    IndexFileJob,
    ManifestJob,
    RemoveJob,
    RepairJob,
    SpaceProbeJob,
    UpkeepJob,
)
from slipstream.jetstream.store.limits import (
    STORE_ALLOCATE_BYTES_MIN,
    STORE_UNINDEXED_SEGMENTS_MAX,
    STORE_VERBATIM_SEGMENTS,
)
from slipstream.jetstream.store.state import StoreState
from slipstream.jetstream.store.values import Job

__all__ = ["LogUpkeep"]

_Tell = Callable[[ChainReport | StorageFault], None]


class LogUpkeep:
    """The upkeep of one store, one piece at a time."""

    __slots__ = (
        "_applied",
        "_checks",
        "_commits",
        "_compactions",
        "_damage",
        "_directory",
        "_disk",
        "_failed",
        "_files",
        "_in_flight",
        "_kept",
        "_log",
        "_manifest",
        "_reforms",
        "_removals",
        "_repair",
        "_reserve",
        "_rewrite_failed",
        "_scrubbed_seq",
        "_state",
    )

    def __init__(
        self,
        state: StoreState,
        damage: Damage,
        log: SegmentedLog,
        removals: LogRemovals,
        commits: LogCommits,
        manifest: ManifestKeeper,
        compactions: Compactions,
        reforms: Reforms,
        repair: Repair,
        kept: KeptSegments,
        files: PendingFiles,
        disk: Disk,
        directory: str,
        reserve: Reserve | None,
        applied: AppliedKeeper | None,
    ) -> None:
        """Nothing is in flight."""
        self._state = state
        self._damage = damage
        self._log = log
        self._removals = removals
        self._commits = commits
        self._manifest = manifest
        self._compactions = compactions
        self._reforms = reforms
        self._repair = repair
        self._kept = kept
        self._files = files
        self._disk = disk
        self._directory = directory
        self._reserve = reserve
        self._applied = applied
        self._in_flight: UpkeepJob | CompactionJob | None = None
        self._failed = False  # the last piece did not succeed
        self._rewrite_failed = False  # ... and was a compaction
        self._checks: list[tuple[ChainHead | None, _Tell]] = []  # who wants to know about the hash chain
        self._scrubbed_seq = 0  # last sequence of the segment that was asked to be read back last

    @property
    def is_due(self) -> bool:
        """See `Store.upkeep_due`: but for a mark, which the next commit is as well."""
        return (
            len(self._log.segments) > 1
            or self._log.manifest_due
            or bool(self._files.leftovers)
            or self._state.refusal is not None
            or self._failed
            or bool(self._checks)
        )

    def begin(self) -> Job | None:
        """See `Store.begin_upkeep`."""
        if self._in_flight is not None or self._state.closed:
            return None
        if self._failed:
            # Not again before the caller's next turn.
            self._failed = False
            return None
        self._in_flight = self._next_piece()
        return self._in_flight

    def finish(self, job: Job) -> None:
        """See `Store.finish_upkeep`."""
        assert job is self._in_flight and self._in_flight is not None
        done, self._in_flight = self._in_flight, None
        self._failed = done.fault is not None
        self._rewrite_failed = isinstance(done, CompactionJob) and self._failed
        # A piece that failed is tried again at the next turn; nothing depends on it.
        if isinstance(done, RepairJob):
            self._repair.finish(done)
        elif isinstance(done, CompactionJob):
            self._compactions.finish(done)
            self._segments_changed()
        elif isinstance(done, ReformJob):
            self._reforms.finish(done)
            self._segments_changed()
        elif isinstance(done, ChainCheckJob):
            self._finish_check(done)
        elif done.fault is not None:
            return
        elif isinstance(done, RemoveJob):
            self._log.drop(done.segments)
            self._files.removed(done.paths)
            self._segments_changed()
        elif isinstance(done, SpaceProbeJob):
            self._state.refusal = self._state.fault
        elif isinstance(done, IndexFileJob):
            self._finish_index_file(done)
        elif isinstance(done, ManifestJob):
            self._manifest.finish(done)
        elif isinstance(done, AppliedJob) and self._applied is not None:
            self._applied.finish(done)

    def request_check(self, wanted: ChainHead | None, done: _Tell) -> None:
        """See `Store.check_chain`."""
        self._checks.append((wanted, done))

    def scrub_next(self) -> bool:
        """See `Store.scrub_next`: the closed segments, from the oldest on."""
        for segment in self._log.closed_segments():
            if segment.last_seq > self._scrubbed_seq and not segment.damaged:
                self._scrubbed_seq = segment.last_seq
                segment.scrub_due = True
                return True
        self._scrubbed_seq = 0
        return False

    def _next_piece(self) -> UpkeepJob | CompactionJob | None:
        self._commits.mark()
        committing = self._commits.in_flight is not None
        if self._state.fault is not None:
            # Of a replica, whoever drives Raft opens the log again.
            return None if committing or self._commits.replicated else self._repair.begin()
        if self._state.refusal is not None:
            # Give up what is dead before asking whether there is room again. A rewrite that finds no space itself
            # waits for the next such question, which gives up the reserve.
            if not committing:
                self._compactions.close_dead_segment()
            turns = [self._compaction, self._space_probe]
            first, second = reversed(turns) if self._rewrite_failed else turns
            return self._removal() or first() or second()
        if self._checks:
            return self._chain_check()
        if self._removals.emptied and not committing:
            self._removals.close_emptied()
        piece = self._removal() or self._index_file() or self._manifest_write()
        if piece is not None or self._files.leftovers:
            return piece  # a name that is to go must not be given to another file
        if self._applied is not None and (write := self._applied.begin()) is not None:
            return write
        return self._compaction() or self._reforms.begin(self._rewritable())

    def _compaction(self) -> CompactionJob | None:
        return self._compactions.begin(self._rewritable())

    def _rewritable(self) -> list[Segment]:
        """Segments that may be given another file."""
        if self._applied is None:
            return self._log.closed_segments()
        # The newest stay as they are: who is a little behind gets frames, not whole segments.
        return self._applied.covered()[:-STORE_VERBATIM_SEGMENTS]

    def _segments_changed(self) -> None:
        if self._applied is not None:
            self._applied.segments_changed()

    def _space_probe(self) -> SpaceProbeJob | None:
        if self._commits.in_flight is not None:
            return None
        written = self._log.table.written
        active = self._log.active if written and written[-1] is self._log.active else None
        room = min(self._log.segment_bytes, 8 * STORE_ALLOCATE_BYTES_MIN)
        return SpaceProbeJob(self._disk, self._directory, segment=active, room=room, reserve=self._reserve)

    def _chain_check(self) -> ChainCheckJob:
        """The segments as they are: while this piece is under way, none is removed or rewritten."""
        log, (no, end) = self._log, self._commits.end
        segments = [(segment, segment.end) for segment in log.segments if segment.header.last_no < no]
        segments += [(segment, end) for segment in log.segments if segment.header.no == no]
        wanted, tell = self._checks[0]
        job = ChainCheckJob(
            self._disk,
            self._directory,
            segments=segments,
            uid=log.uid,
            wanted=wanted,
            tell=tell,
            head=log.chain.committed if log.chain is not None else None,
        )
        job.erasures_before = job.erasures
        return job

    def _finish_check(self, done: ChainCheckJob) -> None:
        report = done.report
        if report is not None and not report.intact and done.erasures != done.erasures_before:
            return  # it may have seen an overwriting half done: once more
        del self._checks[0]
        assert done.tell is not None
        done.tell(report if report is not None and done.fault is None else done.fault or StorageFault("not checked"))

    def _removal(self) -> RemoveJob | None:
        """Segments at the front that hold nothing, and files left over by compactions."""
        first_seq, kept = self._log.first_kept, self._kept.ids()
        closed = self._log.closed_segments()
        if self._applied is not None:
            first_seq, closed = min(first_seq, self._applied.saved_first), self._applied.covered()
        dead: list[Segment] = []
        for segment in closed:
            if segment.last_seq >= first_seq or segment.id in kept or self._state.index.segment_has_live(segment.id):
                break
            dead.append(segment)
        if dead and self._applied is None and self._removals.durable_first <= dead[-1].last_seq:
            # A later start must know that these sequences are gone before their records are.
            self._removals.trim_to(dead[-1].last_seq + 1)
            dead = []
        job = self._commits.in_flight
        if job is not None and (job.overwrites or self._files.abandoned):
            return None  # it may be writing to one of these files
        paths = [path for segment in dead for path in (segment.path, index_path(segment.path))]
        if not paths and not self._files.leftovers:
            return None
        return RemoveJob(self._disk, self._directory, paths=(*paths, *self._files.leftovers), segments=tuple(dead))

    def _manifest_write(self) -> ManifestJob | None:
        if not self._log.manifest_due or self._commits.in_flight is not None or self._log.unit is not None:
            return None
        if self._commits.replicated and (self._log.unapplied.last_seq or not self._commits.is_settled):
            return None  # it would name what may not come to be
        return self._manifest.begin()

    def _index_file(self) -> IndexFileJob | None:
        closed = self._log.closed_segments() if self._applied is None else self._applied.decided()
        due = [
            segment
            for segment in closed
            if (not segment.indexed or segment.scrub_due) and not segment.damaged and not segment.void
        ]
        if not due or (self._commits.in_flight is not None and len(due) <= STORE_UNINDEXED_SEGMENTS_MAX):
            return None  # nothing to do, or better things: it waits for a quiet moment
        return IndexFileJob(self._disk, self._directory, segment=due[0], erasures_before=due[0].erasures)

    def _finish_index_file(self, done: IndexFileJob) -> None:
        segment, index = done.segment, self._state.index
        assert segment is not None
        if done.erasures_before != segment.erasures:
            return  # the segment may have changed under the scan: once more at the next turn
        segment.damaged = done.damaged
        segment.indexed = not done.damaged
        segment.scrub_due = False
        for lo, hi in done.holes or ():
            seq = index.next_seq((), lo)
            while seq and seq <= hi:  # of a hole that may be wide, only what is there
                self._damage.mark_unreadable(seq)
                seq = index.next_seq((), seq + 1)
