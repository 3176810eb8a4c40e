"""How a store takes over what recovery read: when it is opened, and when it is repaired after a failed commit.

Recovery itself only reads (`recovery`). Here every part of the store learns what was found, and forgets what it had.
"""

from __future__ import annotations

from slipstream.jetstream.store.damage import Damage
from slipstream.jetstream.store.file.commits import LogCommits
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.erasures import LogErasures
from slipstream.jetstream.store.file.facts import LogFacts
from slipstream.jetstream.store.file.jobs import as_fault
from slipstream.jetstream.store.file.journal import Journal
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.manifest_keeper import ManifestKeeper
from slipstream.jetstream.store.file.options import FileStoreOptions
from slipstream.jetstream.store.file.pending_files import NO_PATHS, PendingFiles
from slipstream.jetstream.store.file.recovered import RecoveredLog, RecoveryReport
from slipstream.jetstream.store.file.removals import LogRemovals
from slipstream.jetstream.store.file.upkeep_jobs import RepairJob
from slipstream.jetstream.store.ranges import cover
from slipstream.jetstream.store.state import StoreState
from slipstream.jetstream.store.values import StoreUnavailable

__all__ = ["Repair"]


class Repair:
    """Takes over a log that was read back."""

    __slots__ = (
        "_commits",
        "_damage",
        "_directory",
        "_disk",
        "_erasures",
        "_facts",
        "_files",
        "_journal",
        "_log",
        "_manifest",
        "_options",
        "_removals",
        "_state",
        "expiries",
        "report",
    )

    def __init__(
        self,
        state: StoreState,
        damage: Damage,
        log: SegmentedLog,
        journal: Journal,
        facts: LogFacts,
        removals: LogRemovals,
        erasures: LogErasures,
        commits: LogCommits,
        manifest: ManifestKeeper,
        files: PendingFiles,
        disk: Disk,
        directory: str,
        options: FileStoreOptions,
    ) -> None:
        """Nothing was read back."""
        self._state = state
        self._damage = damage
        self._log = log
        self._journal = journal
        self._facts = facts
        self._removals = removals
        self._erasures = erasures
        self._commits = commits
        self._manifest = manifest
        self._files = files
        self._disk = disk
        self._directory = directory
        self._options = options
        self.report = RecoveryReport()
        """What the last opening or repair found."""
        self.expiries: list[tuple[int, int]] = []
        """See `Store.expiries`."""

    def open(self, recovered: RecoveredLog) -> None:
        """Take over what was found in the directory, and make sure that it is there to stay.

        Raises:
            OSError: the journal cannot be read.
        """
        self._journal.recover(self._disk)
        doubtful = self._doubtful(recovered)
        self._adopt(recovered)
        self._make_durable(doubtful)

    def begin(self) -> RepairJob:
        """Read back what the last commit left."""
        return RepairJob(
            self._disk,
            self._directory,
            seed=self._options.random64(),
            first_id=self._log.table.next_id,
            log_end=self._commits.end,
            reserve=self._options.reserve,
        )

    def finish(self, done: RepairJob) -> None:
        """Go on from there; if the disk was full, messages are refused until it is known not to be."""
        if done.recovered is None:
            return
        state, damage = self._state, self._damage
        fault, committed, lost = state.fault, state.committed_seq, damage.ranges
        self._adopt(done.recovered)
        state.fault = None
        state.refusal = fault if isinstance(fault, StoreUnavailable) and fault.full else None
        if state.committed_seq < committed:
            # Acknowledged without sync and gone with the failed one: said, not hidden.
            damage.ranges = cover([*damage.ranges, *lost, (state.committed_seq + 1, committed)])
            state.index.skip_to(committed)
            state.committed_seq = committed

    def _adopt(self, recovered: RecoveredLog) -> None:
        log, commits, files = self._log, self._commits, self._files
        log.adopt(recovered)
        self._state.committed_ts_ns = recovered.last_ts_ns
        self._damage.ranges = recovered.lost
        self._facts.adopt(recovered.config)
        self._removals.adopt()
        self._erasures.adopt(recovered.unfinished_erasures)
        self._manifest.adopt(recovered.manifest, recovered.missing)
        self.report, self.expiries = recovered.report, recovered.expiries
        files.leftovers += recovered.superseded
        files.clear()
        commits.marked = recovered.vouched
        if log.segments:
            commits.end = (log.active.header.no, log.active.end)
            files.unsynced |= {log.active.path}
        if not recovered.appendable:
            log.start_segment()

    def _doubtful(self, recovered: RecoveredLog) -> list[str]:
        """What was read and may be in memory only, files before their directory."""
        paths = [] if recovered.vouched else [segment.path for segment in recovered.segments[-1:]]
        if not self._journal.vouched:
            paths.append(self._journal.path)
        return [*paths, self._directory] if paths or recovered.superseded else []

    def _make_durable(self, doubtful: list[str]) -> None:
        """Sync that; if it fails, the store begins with a fault and is repaired."""
        try:
            for path in doubtful[:-1]:
                self._disk.sync(path)
            for path in doubtful[-1:]:
                self._disk.sync_dir(path)
        except OSError as error:
            self._commits.fail(as_fault(error, self._directory))
            self._files.unsynced |= set(doubtful[:-1])
        else:
            self._files.unsynced = NO_PATHS
