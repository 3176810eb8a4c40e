"""`FileStore`: a stream's messages, consumer states and configuration in one directory.

A facade: it makes the parts, gives each what it needs, and has no work of its own but opening and closing.

    IndexedReads ───────────────────┐                          LogCommits ── CommitJob ──► disk
    LogAppends, Units, LogFacts ──► SegmentedLog, StoreState ◄─┤
    LogRemovals, LogErasures ───────┘                          LogUpkeep ── Repair, Compactions, ManifestKeeper

Nothing in here calls the operating system.

States::

    ready --commit fails--> faulted --upkeep: repair--> ready (behind the last commit, in a fresh segment if needed)
      |  ^
      |  '--upkeep: space again-- full: takes deletes, purges and consumer states, refuses messages
      '------space nearly gone--------^
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from slipstream.errors import StorageFault
from slipstream.jetstream.store.chains import ChainHead, ChainReport
from slipstream.jetstream.store.contract.journal import StoreJournal
from slipstream.jetstream.store.damage import Damage
from slipstream.jetstream.store.file.appends import LogAppends
from slipstream.jetstream.store.file.bulk import FileBulkAccess
from slipstream.jetstream.store.file.commits import LogCommits
from slipstream.jetstream.store.file.disk.disk import Disk, make_dirs
from slipstream.jetstream.store.file.erasures import LogErasures
from slipstream.jetstream.store.file.facts import LogFacts
from slipstream.jetstream.store.file.journal import Journal
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.manifest_keeper import ManifestKeeper
from slipstream.jetstream.store.file.options import FileStoreOptions
from slipstream.jetstream.store.file.pending_files import PendingFiles
from slipstream.jetstream.store.file.recovered import RecoveryReport
from slipstream.jetstream.store.file.recovery import recover_log
from slipstream.jetstream.store.file.removals import LogRemovals
from slipstream.jetstream.store.file.repair import Repair
from slipstream.jetstream.store.file.replica.applied_keeper import AppliedKeeper
from slipstream.jetstream.store.file.replica.log import ReplicaLog
from slipstream.jetstream.store.file.replica.recovery import recover_replica
from slipstream.jetstream.store.file.replica.segment_export import SegmentExport
from slipstream.jetstream.store.file.replica.states import LoggedStates
from slipstream.jetstream.store.file.segments.compactions import Compactions
from slipstream.jetstream.store.file.segments.kept_segments import KeptSegments
from slipstream.jetstream.store.file.segments.reforms import Reforms
from slipstream.jetstream.store.file.units import Units
from slipstream.jetstream.store.file.upkeep import LogUpkeep
from slipstream.jetstream.store.indexed import IndexedReads
from slipstream.jetstream.store.limits import STORE_PACKED_SEGMENT_BYTES
from slipstream.jetstream.store.packed.codecs import Codec
from slipstream.jetstream.store.state import StoreState
from slipstream.jetstream.store.values import Job, StoreUnavailable
from slipstream.kernels.index.subjectindex import MessageIndex

__all__ = ["FileStore"]


class FileStore(IndexedReads):
    """A `Store` in files. Use `create` or `open`."""

    # So many attributes are a dictionary of 1.5 KB in each of thousands.
    __slots__ = (
        "_appends",
        "_applied",
        "_commits",
        "_disk",
        "_erasures",
        "_facts",
        "_kept",
        "_manifest",
        "_random64",
        "_reforms",
        "_removals",
        "_repair",
        "_units",
        "_upkeep",
        "append",
        "append_atomic",
        "begin_commit",
        "bulk",
        "commit_frames",
        "delete",
        "direct_writer",
        "directory",
        "finish_commit",
        "journal",
        "log",
        "replica",
    )

    def __init__(self, disk: Disk, directory: str, uid: bytes, config: bytes, options: FileStoreOptions) -> None:
        """Parts without a log in them; `create` and `open` fill it."""
        state, damage, files = StoreState(MessageIndex(options.random64()), config), Damage(), PendingFiles()
        log = SegmentedLog(state, damage, disk, directory, uid, options)
        super().__init__(state, log, damage)
        journal = Journal(directory, uid, options.random64, disk.seal)
        facts = LogFacts(state, log)
        erasures = LogErasures(state, log, files, disk, options.noise)
        removals = LogRemovals(state, damage, log, erasures, is_sealed=bool(disk.seal.cipher))
        appends = LogAppends(state, log, directory)
        units = Units(state, log, facts, removals, files, options.random64)
        states = LoggedStates(log) if options.replicated else None
        commits = LogCommits(state, log, journal, facts, removals, files, disk, directory, states)
        self.replica: ReplicaLog | None = None
        """The same log as Raft has it, if it is replicated."""
        self._applied: AppliedKeeper | None = None
        if states is not None:
            self.replica = ReplicaLog(state, log, facts, removals, commits, files, states, options.random64)
            self._applied = AppliedKeeper(self.replica, log, states, disk, directory, options.random64)
        manifest = ManifestKeeper(state, damage, log, disk, directory)
        kept = KeptSegments(state, log, options.now_ns)
        self._reforms = Reforms(log, erasures, files, disk, directory, options.codec)
        compactions = Compactions(state, log, erasures, files, kept, self._reforms, disk, directory, options.random64)
        self._repair = Repair(
            state,
            damage,
            log,
            journal,
            facts,
            removals,
            erasures,
            commits,
            manifest,
            files,
            disk,
            directory,
            options,
        )
        self._upkeep = LogUpkeep(
            state,
            damage,
            log,
            removals,
            commits,
            manifest,
            compactions,
            self._reforms,
            self._repair,
            kept,
            files,
            disk,
            directory,
            options.reserve,
            self._applied,
        )
        self._disk = disk
        self._random64 = options.random64
        self.directory = directory
        self.log = log
        """The log; for tests."""
        self.journal: StoreJournal = journal if states is None else states
        """See `Store.journal`."""
        self.bulk = FileBulkAccess(state, log, disk, directory)
        """See `Store.bulk`."""
        self._facts = facts
        self._appends = appends
        self._units = units
        self._removals = removals
        self._erasures = erasures
        self._commits = commits
        self._manifest = manifest
        self._kept = kept

        # The calls of every message are those of the parts, without one more in between; the others are below (ADR 38).
        self.append = appends.append
        self.append_atomic = appends.append_atomic
        self.direct_writer = appends.direct_writer
        self.delete = removals.delete
        self.begin_commit = commits.begin
        self.finish_commit = commits.finish
        self.commit_frames = commits.commit_frames

    # --- making -----------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        *,
        uid: bytes,
        config: bytes,
        options: FileStoreOptions,
        first_seq: int = 1,
        chained: bool = False,
    ) -> FileStore:
        """Make a new stream's directory, durably; `chained`: with a hash chain over all that is written. Blocks.

        Raises:
            StorageFault: the directory is not empty, or the disk failed.
        """
        if len(uid) != 16:
            raise ValueError("uid must be 16 bytes")
        if chained and options.replicated:
            raise StorageFault("a replicated log cannot have a hash chain yet", path=directory)
        store = cls(disk, directory, uid, config, options)
        try:
            if disk.list_dir(directory):
                raise StorageFault("directory is not empty", path=directory)
            # Before anything is in it: a segment proves that its directory is there to stay.
            above = directory.rsplit("/", 1)[0]
            while above and not disk.is_dir(above):
                above = above.rsplit("/", 1)[0]
            make_dirs(disk, directory, below=above)
            store.state.index.skip_to(first_seq - 1)
            store.state.committed_seq = first_seq - 1
            if store.replica is not None:
                store.replica.start_behind(first_seq - 1)
            # The first segment says all that the manifest would: upkeep writes that one, nobody has to wait for it.
            if chained:
                store.log.begin_chain()
            store.log.start_segment()
            store._commits.commit_now()
        except OSError as error:
            raise StoreUnavailable(str(error), path=directory) from error
        return store

    @classmethod
    def open(cls, disk: Disk, directory: str, options: FileStoreOptions, *, committed: int = 0) -> FileStore:
        """Open an existing directory. Blocks. If the log is replicated, it is indexed up to the frame `committed`.

        Nothing is changed, except to finish interrupted erasures at the first commit. But what was read and is not
        known to be on stable storage is synced before anybody sees it: whoever wrote it may have died before he could.

        Raises:
            StorageFault: nothing usable is in the directory; it should be quarantined, never deleted.
        """
        try:
            if options.replicated:
                return cls._open_replica(disk, directory, options, committed)
            recovered = recover_log(disk, directory, seed=options.random64(), first_id=1)
            store = cls(disk, directory, recovered.uid, recovered.config, options)
            store._repair.open(recovered)
        except OSError as error:
            raise StorageFault(str(error), path=directory) from error
        return store

    @classmethod
    def _open_replica(cls, disk: Disk, directory: str, options: FileStoreOptions, committed: int) -> FileStore:
        found = recover_replica(disk, directory, seed=options.random64(), first_id=1, committed=committed)
        store = cls(disk, directory, found.log.uid, found.log.config, options)
        assert store.replica is not None and store._applied is not None
        store._repair.open(found.log)
        store.replica.adopt(found)
        store._applied.adopt(found.applied)
        return store

    def export(self) -> SegmentExport | None:
        """The log of this replica as files for another; None: not now."""
        found = self.replica.to_export() if self.replica is not None else None
        if found is None or self.replica is None:
            return None
        applied, segments = found
        return SegmentExport(self._disk, self.replica, applied, segments, self._random64())

    def set_segment_bytes(self, segment_bytes: int) -> None:
        """Close segments at another size from now on."""
        self.log.segment_bytes = self.log.writer.limit = segment_bytes

    def compress(self, codec: Codec) -> None:
        """See `Store.compress`."""
        self._reforms.pack_with(codec)
        if codec is not Codec.NONE and self.log.segment_bytes > STORE_PACKED_SEGMENT_BYTES:
            self.set_segment_bytes(STORE_PACKED_SEGMENT_BYTES)

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def last_ts_ns(self) -> int:
        """See `Store.last_ts_ns`."""
        return self.log.writer.last_ts

    @property
    def atomic_open(self) -> bool:
        """See `Store.atomic_open`."""
        return self.log.unit is not None and self.state.fault is None

    @property
    def erasing(self) -> int:
        """See `Store.erasing`."""
        return self._erasures.unfinished

    @property
    def erased(self) -> tuple[int, int]:
        """See `Store.erased`."""
        return self._erasures.counts

    @property
    def uncommitted_bytes(self) -> int:
        """See `Store.uncommitted_bytes`."""
        return self._commits.uncommitted_bytes

    @property
    def log_bytes(self) -> int:
        """Of all segments, as far as they are written: what is in force, and what upkeep has yet to give back."""
        return sum(segment.end for segment in self.log.segments)

    @property
    def upkeep_due(self) -> bool:
        """See `Store.upkeep_due`."""
        return self._upkeep.is_due

    @property
    def sheds(self) -> bool:
        """Whether sealed segments are left of a stream that is empty: their keys are to go, also if nobody writes."""
        return bool(self._disk.seal.cipher) and not self.state.index.messages and len(self.log.segments) > 1

    @property
    def report(self) -> RecoveryReport:
        """What the last opening or repair found."""
        return self._repair.report

    def expiries(self) -> Iterable[tuple[int, int]]:
        """See `Store.expiries`."""
        replayed = self.replica.expiries if self.replica is not None else ()
        return [*self._repair.expiries, *replayed] if replayed else self._repair.expiries

    def message_bytes(self, subject: int, headers: int, payload: int) -> int:
        """See `Store.message_bytes`."""
        if not self.state.index.file_sizes:
            return subject + headers + payload + 16
        return 30 + subject + payload + (4 + headers if headers else 0)

    def count_as_memory(self) -> None:
        """See `Store.count_as_memory`."""
        self.state.index.count_as_memory()

    # --- changing ---------------------------------------------------------------------------------------------------

    def skip_to(self, last_seq: int) -> None:
        """See `Store.skip_to`."""
        self._appends.skip_to(last_seq)

    def begin_atomic(self) -> None:
        """See `Store.begin_atomic`."""
        self._units.begin()

    def end_atomic(self, notes: Mapping[bytes, bytes] | None = None) -> None:
        """See `Store.end_atomic`."""
        self._units.end(notes)

    def abort_atomic(self) -> None:
        """See `Store.abort_atomic`."""
        self._units.abort()

    def notes(self) -> dict[bytes, bytes]:
        """See `Store.notes`."""
        return self._facts.notes()

    def put_note(self, key: bytes, value: bytes) -> None:
        """See `Store.put_note`."""
        self._facts.put_note(key, value)

    def set_config(self, config: bytes) -> None:
        """See `Store.set_config`."""
        self._facts.set_config(config)

    def erase(self, seq: int) -> bool:
        """See `Store.erase`."""
        return self._removals.erase(seq)

    def trim_to(self, first_seq: int) -> int:
        """See `Store.trim_to`."""
        return self._removals.trim_to(first_seq)

    def purge(self, subject: bytes = b"", *, up_to_seq: int = 0, keep: int = 0) -> int:
        """See `Store.purge`."""
        return self._removals.purge(subject, up_to_seq=up_to_seq, keep=keep)

    def purge_some(self, subject: bytes, *, from_seq: int, up_to_seq: int, limit: int) -> tuple[int, int]:
        """See `Store.purge_some`."""
        return self._removals.purge_some(subject, from_seq=from_seq, up_to_seq=up_to_seq, limit=limit)

    def begin_afresh(self) -> None:
        """See `Store.begin_afresh`."""
        self._removals.begin_afresh()

    # --- upkeep -----------------------------------------------------------------------------------------------------

    def give_up(self, fault: StorageFault) -> None:
        """See `Store.give_up`."""
        self._commits.give_up(fault)

    def begin_upkeep(self) -> Job | None:
        """See `Store.begin_upkeep`."""
        return self._upkeep.begin()

    def finish_upkeep(self, job: Job) -> None:
        """See `Store.finish_upkeep`."""
        self._upkeep.finish(job)

    def scrub_next(self) -> bool:
        """See `Store.scrub_next`."""
        return self._upkeep.scrub_next()

    @property
    def chain_head(self) -> ChainHead | None:
        """See `Store.chain_head`."""
        return self.log.chain.committed if self.log.chain is not None else None

    def check_chain(self, wanted: ChainHead | None, done: Callable[[ChainReport | StorageFault], None]) -> None:
        """See `Store.check_chain`."""
        self._upkeep.request_check(wanted, done)

    def keep_removed(self, since_ns: Callable[[], int]) -> None:
        """See `Store.keep_removed`."""
        self._kept.keep_removed(since_ns)

    # --- closing ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """See `Store.close`."""
        if self.state.closed:
            return
        if self.state.fault is None and self._commits.in_flight is None:
            self._units.abort()
            try:
                self._commits.commit_now()
                self._commits.mark()
                self._manifest.write_last()
                if self._applied is not None:
                    self._applied.write_last()
            except (OSError, StorageFault):
                # What was acknowledged is on disk; the rest was never promised.
                pass
        self.state.closed = True

    def commit_all(self) -> None:
        """Commit what waits, and wait for it. Blocks.

        Raises:
            StorageFault: it failed.
        """
        self._commits.commit_now()

    def let_go(self) -> None:
        """Write nothing any more, not even what waits: the directory is opened anew."""
        self.state.closed = True

    def destroy(self) -> None:
        """See `Store.destroy`."""
        self.state.closed = True
        try:
            self._disk.remove_many([f"{self.directory}/{name}" for name in self._disk.list_dir(self.directory)])
            self._disk.remove_dir(self.directory)
            self._disk.sync_dir(self.directory.rsplit("/", 1)[0])
        except OSError as error:
            raise StorageFault(str(error), path=self.directory) from error
