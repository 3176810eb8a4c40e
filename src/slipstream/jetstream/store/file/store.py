"""`FileStore`: a stream's messages, consumer states and configuration in one directory.

It puts together the log (`log.py`), the journal (`journal.py`), changes and commits (`writes.py`, `removals.py`,
`commits.py`, `jobs.py`), upkeep (`upkeep.py`, `compaction.py`) and recovery, and decides what happens when. Nothing in
here calls the operating system.

States::

    ready --commit fails--> faulted --upkeep: repair--> ready (behind the last commit, in a fresh segment if needed)
      |  ^
      |  '--upkeep: space again-- full: takes deletes, purges and consumer states, refuses messages
      '------space nearly gone--------^
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from slipstream.errors import StorageFault
from slipstream.jetstream.store.assigned import Assigned
from slipstream.jetstream.store.base import Job, StoreUnavailable
from slipstream.jetstream.store.file.commits import FileStoreCommits
from slipstream.jetstream.store.file.compaction import CompactionJob
from slipstream.jetstream.store.file.disk import Disk, make_dirs
from slipstream.jetstream.store.file.jobs import as_fault
from slipstream.jetstream.store.file.manifest import Manifest, write_manifest
from slipstream.jetstream.store.file.ranges import cover
from slipstream.jetstream.store.file.recovery import RecoveredLog, Segment, index_path, manifest_entry, recover_log
from slipstream.jetstream.store.file.segment import HEADER_BYTES
from slipstream.jetstream.store.file.state import FileStoreOptions
from slipstream.jetstream.store.file.upkeep import (
    IndexFileJob,
    ManifestJob,
    RemoveJob,
    RepairJob,
    SpaceProbeJob,
    UpkeepJob,
)
from slipstream.jetstream.store.limits import (
    STORE_ALLOCATE_BYTES_MIN,
    STORE_COMPACT_LIVE_PERCENT,
    STORE_COMPACT_MERGE_MAX,
    STORE_COMPACT_MSGS_MAX,
    STORE_REMOVED_KEPT_SEGMENTS,
    STORE_SEGMENT_BYTES,
    STORE_SEGMENT_BYTES_MIN,
    STORE_SEGMENTS_PER_STREAM_MIN,
    STORE_UNINDEXED_SEGMENTS_MAX,
)
from slipstream.kernels.log.record import MARK
from slipstream.kernels.log.segload import replace_in

__all__ = ["FileStore", "FileStoreOptions", "segment_bytes_for"]


def segment_bytes_for(max_bytes: int) -> int:
    """Segment size of a stream: smaller ones for a small `max_bytes`, so that space comes back in small pieces."""
    if max_bytes <= 0:
        return STORE_SEGMENT_BYTES
    return min(max(max_bytes // STORE_SEGMENTS_PER_STREAM_MIN, STORE_SEGMENT_BYTES_MIN), STORE_SEGMENT_BYTES)


class FileStore(FileStoreCommits):
    """A `Store` in files. Use `create` or `open`."""

    _scrubbed_seq = 0  # last sequence of the segment that was asked to be read back last
    _rewrite_failed = False  # the last piece of upkeep was a compaction that did not succeed

    # --- making -----------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls, disk: Disk, directory: str, *, uid: bytes, config: bytes, options: FileStoreOptions, first_seq: int = 1
    ) -> FileStore:
        """Make a new stream's directory, durably. Blocks.

        Raises:
            StorageFault: the directory is not empty, or the disk failed.
        """
        if len(uid) != 16:
            raise ValueError("uid must be 16 bytes")
        store = cls(disk, directory, uid, config, options)
        try:
            if disk.list_dir(directory):
                raise StorageFault("directory is not empty", path=directory)
            # Before anything is in it: a segment proves that its directory is there to stay.
            above = directory.rsplit("/", 1)[0]
            while above and not disk.is_dir(above):
                above = above.rsplit("/", 1)[0]
            make_dirs(disk, directory, below=above)
            store._log.index.skip_to(first_seq - 1)
            store.committed_seq = first_seq - 1
            # The first segment says all that the manifest would: upkeep writes that one, nobody has to wait for it.
            store._manifest_due = True
            store._log.start_segment(config, 0, options.now_ns())
            store._commit_now()
        except OSError as error:
            raise StoreUnavailable(str(error), path=directory) from error
        return store

    @classmethod
    def open(cls, disk: Disk, directory: str, options: FileStoreOptions) -> FileStore:
        """Open an existing directory. Blocks.

        Nothing is changed, except to finish interrupted erasures at the first commit. But what was read and is not
        known to be on stable storage is synced before anybody sees it: whoever wrote it may have died before he could.

        Raises:
            StorageFault: nothing usable is in the directory; it should be quarantined, never deleted.
        """
        try:
            recovered = recover_log(disk, directory, seed=options.random64(), first_id=1)
            store = cls(disk, directory, recovered.uid, recovered.config, options)
            store._journal.recover(disk)
            doubtful = store._doubtful(recovered)
            store._adopt(recovered)
            store._settle(doubtful)
        except OSError as error:
            raise StorageFault(str(error), path=directory) from error
        return store

    def _doubtful(self, recovered: RecoveredLog) -> list[str]:
        """What was read and may be in memory only, files before their directory."""
        paths = [] if recovered.vouched else [segment.path for segment in recovered.segments[-1:]]
        if not self._journal.vouched:
            paths.append(self._journal.path)
        return [*paths, self._directory] if paths or recovered.superseded else []

    def _settle(self, doubtful: list[str]) -> None:
        """Make sure of that; if it fails, the store begins with a fault and is repaired."""
        try:
            for path in doubtful[:-1]:
                self._disk.sync(path)
            for path in doubtful[-1:]:
                self._disk.sync_dir(path)
        except OSError as error:
            self._fail(as_fault(error, self._directory))
            self._unsynced |= set(doubtful[:-1])
        else:
            self._unsynced = set()

    def set_segment_bytes(self, segment_bytes: int) -> None:
        """Close segments at another size from now on."""
        self._options = replace(self._options, segment_bytes=segment_bytes)
        self._log.segment_bytes = self._writer.limit = segment_bytes

    def _adopt(self, recovered: RecoveredLog) -> None:
        log = self._log
        log.adopt(recovered)
        self._index = log.index
        self.assigned = Assigned(log.index)
        self._writer = log.writer
        self._config = recovered.config
        self._writer.last_ts = recovered.last_ts_ns
        self.committed_seq, self.committed_ts_ns = log.index.last_seq, recovered.last_ts_ns
        self._durable_first = self._trimmed_first = 0
        self._set_lost(recovered.lost)
        self._expiries = recovered.expiries
        self._leftovers += recovered.superseded
        if recovered.manifest is not None and recovered.manifest.version >= self._manifest_version:
            self._manifest_known, self._manifest_version = recovered.manifest, recovered.manifest.version
            self._manifest_doubtful = True
        self._manifest_due = True
        self._tombs.clear()
        self._trim = 0
        self._config_due = False
        self._notes_due = {}
        self._dropped = set()
        self._erasures = []
        self._copies = []
        self._erasures_committed = len(recovered.unfinished_erasures)
        self._erasures_overwritten = 0
        self._first_time = (0, 0)
        self._marked = recovered.synced_upto + 1 >= recovered.frame_no
        self.report = recovered.report
        if log.segments:
            self._committed_end = (log.active.header.no, log.active.end)
        # Everything read back counts as synced from here on: it is what the next start would read as well.
        self._writer.synced_upto = recovered.frame_no
        self._unsynced = {log.active.path} if log.segments else set()
        if not recovered.appendable:
            log.start_segment(self._config, self._writer.last_ts, self._options.now_ns())
        self._overwrites = [(seq, 0, intent) for seq, intent in recovered.unfinished_erasures]

    # --- upkeep -----------------------------------------------------------------------------------------------------

    @property
    def upkeep_due(self) -> bool:
        """See `Store.upkeep_due`: but for a mark, which the next commit is as well."""
        return (
            len(self._log.segments) > 1
            or self._manifest_due
            or bool(self._leftovers)
            or self._refusal is not None
            or self._upkeep_failed
        )

    def begin_upkeep(self) -> Job | None:
        """See `Store.begin_upkeep`. The most urgent piece comes first."""
        if self._upkeep is not None or self._closed:
            return None
        if self._upkeep_failed:
            # Not again before the caller's next turn.
            self._upkeep_failed = False
            return None
        self._upkeep = self._next_piece()
        return self._upkeep

    def _next_piece(self) -> UpkeepJob | CompactionJob | None:
        self._mark()
        if self._fault is not None:
            return None if self._job is not None else self._repair()
        if self._refusal is not None:
            # Give up what is dead before asking whether there is room again. A rewrite that finds no space itself
            # waits for the next such question, which gives up the reserve.
            self._close_dead_segment()
            turns = [self._compaction, self._space_probe]
            first, second = reversed(turns) if self._rewrite_failed else turns
            return self._removal() or first() or second()
        return (
            self._removal() or self._space_probe() or self._index_file() or self._manifest_write() or self._compaction()
        )

    def finish_upkeep(self, job: Job) -> None:
        """See `Store.finish_upkeep`."""
        assert job is self._upkeep and self._upkeep is not None
        done, self._upkeep = self._upkeep, None
        self._upkeep_failed = done.fault is not None
        self._rewrite_failed = isinstance(done, CompactionJob) and done.fault is not None
        if isinstance(done, RepairJob):
            self._finish_repair(done)
            return
        if done.fault is not None:
            # Derived files and removals are tried again at the next turn; nothing depends on them.
            return
        if isinstance(done, RemoveJob):
            self._log.drop(done.segments)
            self._leftovers = [path for path in self._leftovers if path not in done.paths]
            self._unsynced -= set(done.paths)
            self._dropped -= set(done.paths)
            self._manifest_due = self._manifest_due or bool(done.segments)
        elif isinstance(done, SpaceProbeJob):
            self._refusal = self._fault
        elif isinstance(done, IndexFileJob):
            self._finish_index_file(done)
        elif isinstance(done, ManifestJob):
            self._manifest_version += 1
            self._manifest_known, self._manifest_doubtful = done.manifest, False
        elif isinstance(done, CompactionJob):
            self._finish_compaction(done)

    def scrub_next(self) -> bool:
        """See `Store.scrub_next`: the closed segments, from the oldest on."""
        for segment in self._log.closed_segments():
            if segment.last_seq > self._scrubbed_seq and not segment.damaged:
                self._scrubbed_seq = segment.last_seq
                segment.scrub_due = True
                return True
        self._scrubbed_seq = 0
        return False

    def _repair(self) -> RepairJob:
        return RepairJob(
            self._disk,
            self._directory,
            seed=self._options.random64(),
            first_id=self._log.next_id,
            log_end=self._committed_end,
            reserve=self._options.reserve,
        )

    def _finish_repair(self, done: RepairJob) -> None:
        if done.recovered is None:
            return
        full = isinstance(self._fault, StoreUnavailable) and self._fault.full
        committed = self.committed_seq
        refusal = self._fault
        lost = self._lost_ranges
        self._adopt(done.recovered)
        self._fault = None
        self._refusal = refusal if full else None
        if self.committed_seq < committed:
            # Acknowledged without sync and gone with the failed one: said, not hidden.
            self._set_lost(cover([*self._lost_ranges, *lost, (self.committed_seq + 1, committed)]))
            self._index.skip_to(committed)
            self.committed_seq = committed

    def _space_probe(self) -> SpaceProbeJob | None:
        if self._refusal is None or self._job is not None:
            return None
        written = self._log.written_segments()
        active = self._log.active if written and written[-1] is self._log.active else None
        room = min(self._options.segment_bytes, 8 * STORE_ALLOCATE_BYTES_MIN)
        return SpaceProbeJob(self._disk, self._directory, segment=active, room=room, reserve=self._options.reserve)

    def _close_dead_segment(self) -> None:
        """Go on in a fresh segment if the open one is mostly dead: only closed ones are rewritten without the dead."""
        if self._job is not None or self._log.unit is not None:
            return
        active = self._log.active
        written = active.end - HEADER_BYTES
        alive = self._index.segment_live(active.id)[1]
        if written > STORE_SEGMENT_BYTES_MIN and alive * 100 < written * STORE_COMPACT_LIVE_PERCENT:
            self._log.roll(self._config, self._writer.last_ts, self._options.now_ns())
            self._manifest_due = True

    def _mark(self) -> None:
        """Vouch for the last commit, so that damage to it is not taken for a torn tail. A small unsynced write."""
        if self._refusal is not None or self._job is not None or self._log.unit is not None:
            return
        if self._unsynced or self._log.pending_bytes or self._journal.is_changed or self.assigned.removals:
            return
        if self._tombs or self._trim or self._erasures:
            return
        if self._marked and self._journal.vouched:
            return
        if not self._marked:
            self._writer.control(MARK, self._index.last_seq, self._writer.last_ts, b"", b"")
        self._journal.mark()
        job = self.begin_commit(sync=False)
        assert job is not None
        try:
            job.run()
            self.finish_commit(job)
        except Exception as error:
            self.give_up(as_fault(error, self._directory))
            raise
        self._marked = True

    def keep_removed(self, since_ns: Callable[[], int]) -> None:
        """See `Store.keep_removed`: so many closed segments at most, and none when the disk is full."""
        self._removed_since_ns = since_ns

    def _kept(self) -> set[int]:
        """Segments whose removed messages somebody may still ask about."""
        kept: set[int] = set()
        if self._refusal is None:
            since_ns, segments = self._removed_since_ns(), self._log.segments
            # Nothing in a segment is younger than the one that follows it.
            for segment, following in zip(segments[-2::-1], segments[:0:-1], strict=True):
                if len(kept) == STORE_REMOVED_KEPT_SEGMENTS or following.header.created_ns <= since_ns:
                    break
                kept.add(segment.id)
        return kept

    def _removal(self) -> RemoveJob | None:
        """Segments at the front that hold nothing, and files left over by compactions."""
        first_seq, kept = self._log.first_kept, self._kept()
        dead: list[Segment] = []
        for segment in self._log.closed_segments():
            if segment.last_seq >= first_seq or segment.id in kept or self._index.segment_has_live(segment.id):
                break
            dead.append(segment)
        if dead and self._durable_first <= dead[-1].last_seq:
            # A later start must know that these sequences are gone before their records are.
            self.trim_to(dead[-1].last_seq + 1)
            dead = []
        if self._job is not None and (self._job.overwrites or self._dropped):
            return None  # it may be writing to one of these files
        paths = [name for segment in dead for name in (segment.path, index_path(segment.path))]
        if not paths and not self._leftovers:
            return None
        return RemoveJob(self._disk, self._directory, paths=(*paths, *self._leftovers), segments=tuple(dead))

    def _index_file(self) -> IndexFileJob | None:
        due = [
            segment
            for segment in self._log.closed_segments()
            if (not segment.indexed or segment.scrub_due) and not segment.damaged
        ]
        if not due or (self._job is not None and len(due) <= STORE_UNINDEXED_SEGMENTS_MAX):
            return None  # nothing to do, or better things: it waits for a quiet moment
        return IndexFileJob(self._disk, self._directory, segment=due[0], erasures_before=due[0].erasures)

    def _finish_index_file(self, done: IndexFileJob) -> None:
        segment = done.segment
        assert segment is not None
        if done.erasures_before != segment.erasures:
            return  # the segment may have changed under the scan: once more at the next turn
        segment.damaged = done.damaged
        segment.indexed = not done.damaged
        segment.scrub_due = False
        for lo, hi in done.holes or ():
            seq = self._index.next_seq((), lo)
            while seq and seq <= hi:  # of a hole that may be wide, only what is there
                self._damaged.setdefault(seq, 0)
                seq = self._index.next_seq((), seq + 1)

    def _manifest_write(self) -> ManifestJob | None:
        if not self._manifest_due or self._job is not None or self._log.unit is not None:
            return None
        self._manifest_due = False
        manifest = self._manifest()
        if self._is_known(manifest):
            return None
        return ManifestJob(self._disk, self._directory, manifest=manifest, doubtful=self._manifest_doubtful)

    def _is_known(self, manifest: Manifest) -> bool:
        """Whether the newest slot says the same."""
        known = self._manifest_known
        return known is not None and msgspec.structs.replace(manifest, version=known.version) == known

    def _manifest(self) -> Manifest:
        return Manifest(
            version=self._manifest_version + 1,
            uid=self._log.uid,
            config=self._config,
            first_seq=min(self._log.first_kept, self.committed_seq + 1),
            last_seq=self.committed_seq,
            last_ts_ns=self._writer.last_ts,
            segments=[manifest_entry(segment) for segment in self._log.written_segments()],
            lost=list(self._lost_ranges),
        )

    # --- compaction -------------------------------------------------------------------------------------------------

    def _compaction(self) -> CompactionJob | None:
        inputs = self._worth_compacting()
        if not inputs:
            return None
        self._erased_meanwhile = []
        return CompactionJob(
            self._disk,
            self._directory,
            inputs=inputs,
            live=[self._index.live_seqs(segment.id) for segment in inputs],
            elsewhere=self._index.removed_seqs({segment.id for segment in inputs}),
            salt=self._options.random64(),
        )

    def _worth_compacting(self) -> list[Segment]:
        """The first stretch of neighbouring segments that are mostly dead, or small enough to be merged."""
        suspects = {seg for seg, n, live in self._index.segment_counts() if live * 100 < n * STORE_COMPACT_LIVE_PERCENT}
        small, kept = self._options.segment_bytes // 8, self._kept()
        found: list[Segment] = []
        alive = alive_msgs = 0
        for segment in self._log.closed_segments():
            used = count = 0
            fits = (segment.id in suspects or segment.end < small) and not segment.damaged and segment.id not in kept
            if fits:
                count, used = self._index.segment_live(segment.id)
                fits = segment.end < small or used * 100 < (segment.end - HEADER_BYTES) * STORE_COMPACT_LIVE_PERCENT
                fits = fits and (segment.rewrite_below is None or count < segment.rewrite_below)
            room = alive + used <= self._options.segment_bytes // 2 and len(found) < STORE_COMPACT_MERGE_MAX
            if fits and room and (not found or alive_msgs + count <= STORE_COMPACT_MSGS_MAX):
                found.append(segment)
                alive, alive_msgs = alive + used, alive_msgs + count
            elif self._saves_enough(found, alive):
                break
            else:
                found, alive, alive_msgs = ([segment], used, count) if fits else ([], 0, 0)
        return found if self._saves_enough(found, alive) else []

    def _saves_enough(self, inputs: list[Segment], alive: int) -> bool:
        """One mostly dead segment of some size, or several small ones, but never the same small one again and again."""
        size = sum(segment.end - HEADER_BYTES for segment in inputs)
        if len(inputs) >= STORE_SEGMENTS_PER_STREAM_MIN:
            return True
        worth = min(STORE_SEGMENT_BYTES_MIN, self._options.segment_bytes) // 4
        return size - alive > worth and alive * 100 < size * STORE_COMPACT_LIVE_PERCENT

    def _finish_compaction(self, done: CompactionJob) -> None:
        for segment in done.damaged or ():
            segment.damaged = True
        if done.result is None:
            if done.damaged is None:
                for segment, live in zip(done.inputs, done.live, strict=True):
                    segment.rewrite_below = len(live) // 8  # do not try the same again at every turn
            return
        header, path, length, scan = done.result
        fresh = Segment(self._log.next_id, path, header)
        self._log.next_id += 1
        fresh.end = fresh.allocated = length
        fresh.last_seq = done.inputs[-1].last_seq
        fresh.indexed = True
        replace_in(scan, self._index, {segment.id for segment in done.inputs}, fresh.id)
        self._log.replace(done.inputs, fresh)
        self._leftovers += [name for segment in done.inputs for name in (segment.path, index_path(segment.path))]
        self._manifest_due = True
        for seq, ts in self._erased_meanwhile:
            intent = self._intent(seq)
            if intent is not None:
                self._copies.append((seq, ts, intent))
        self._erased_meanwhile = []

    # --- closing ----------------------------------------------------------------------------------------------------

    def _commit_now(self) -> None:
        """Commit inline; for creation and closing."""
        job = self.begin_commit()
        if job is not None:
            job.run()
            done = self.finish_commit(job)
            if done.fault is not None:
                raise done.fault

    def close(self) -> None:
        """See `Store.close`."""
        if self._closed:
            return
        if self._fault is None and self._job is None:
            self.abort_atomic()
            try:
                self._commit_now()
                self._mark()
                manifest = self._manifest()
                if not self._is_known(manifest):
                    doubtful = self._manifest_doubtful
                    write_manifest(self._disk, self._directory, manifest, doubtful=doubtful, sync=False)
            except (OSError, StorageFault):
                # What was acknowledged is on disk; the rest was never promised.
                pass
        self._closed = True

    def destroy(self) -> None:
        """See `Store.destroy`."""
        self._closed = True
        try:
            for name in self._disk.list_dir(self._directory):
                self._disk.remove(f"{self._directory}/{name}")
            self._disk.remove_dir(self._directory)
            self._disk.sync_dir(self._directory.rsplit("/", 1)[0])
        except OSError as error:
            raise StorageFault(str(error), path=self._directory) from error
