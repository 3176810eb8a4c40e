"""Background work on one stream's files, each piece a job for a thread.

What this is not: deciding when; `upkeep.LogUpkeep` does, one piece at a time.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field, replace

from slipstream.dataclass import dataclass
from slipstream.errors import StorageFault
from slipstream.jetstream.store.chains import ChainBreak, ChainHead, ChainReport
from slipstream.jetstream.store.file.chain_check import CheckedSegment, check_chain
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.disk.reserve import Reserve
from slipstream.jetstream.store.file.jobs import as_fault, is_full
from slipstream.jetstream.store.file.manifest import Manifest, write_manifest
from slipstream.jetstream.store.file.recovered import RecoveredLog
from slipstream.jetstream.store.file.recovery import recover_log
from slipstream.jetstream.store.file.replica.applied_file import Applied, write_applied
from slipstream.jetstream.store.file.segments.compaction import write_whole_file
from slipstream.jetstream.store.file.segments.open_segment import Segment, encode_controls, index_path, scan_segment
from slipstream.jetstream.store.limits import STORE_CONTROL_MARGIN_BYTES
from slipstream.kernels.log.segindex import encode_index

__all__ = [
    "AppliedJob",
    "ChainCheckJob",
    "IndexFileJob",
    "ManifestJob",
    "RemoveJob",
    "RepairJob",
    "SpaceProbeJob",
    "UpkeepJob",
]


@dataclass(slots=True)
class UpkeepJob(ABC):
    """What all pieces share: an error stops the piece and is kept."""

    disk: Disk
    directory: str

    fault: StorageFault | None = None
    ended: bool = False

    def run(self) -> None:
        """Do the work."""
        try:
            self.work()
        except Exception as error:
            self.fault = as_fault(error, self.directory)

    @abstractmethod
    def work(self) -> None:
        """The piece itself."""


@dataclass(slots=True)
class IndexFileJob(UpkeepJob):
    """Verify a closed segment and write its index file. Also how a segment is scrubbed."""

    segment: Segment | None = None
    erasures_before: int = 0
    """Erasures begun in it when the job was made: one in between may be seen half done."""
    holes: list[tuple[int, int]] | None = None
    """Sequences that could not be read; None until the segment was read."""
    damaged: bool = False

    def work(self) -> None:
        """Read everything, check every checksum, and keep what was found."""
        assert self.segment is not None
        data = self.disk.read(self.segment.path, 0, self.segment.end)
        scan = scan_segment(data, self.segment.header, ends=True)
        self.holes = list(scan.holes)
        if scan.last_seq < self.segment.last_seq:
            self.holes.append((scan.last_seq + 1, self.segment.last_seq))
        if not scan.regions and scan.good_end == self.segment.end:
            write_whole_file(self.disk, index_path(self.segment.path), encode_index(scan, encode_controls(scan)))
            self.disk.sync_dir(self.directory)
        else:
            self.damaged = True


@dataclass(slots=True)
class ChainCheckJob(UpkeepJob):
    """Recompute the hash chain from the files, up to the last commit."""

    segments: list[tuple[Segment, int]] = field(default_factory=list)
    """Each with the end of the log in it."""
    uid: bytes = b""
    wanted: ChainHead | None = None
    """A place that the chain must have been at."""
    tell: Callable[[ChainReport | StorageFault], None] | None = None
    """Who asked."""
    head: ChainHead | None = None
    """Where the chain stands by what is in memory."""
    erasures_before: int = 0
    report: ChainReport | None = None

    @property
    def erasures(self) -> int:
        """Overwrites begun in the segments so far."""
        return sum(segment.erasures for segment, _ in self.segments)

    def work(self) -> None:
        """Read everything."""
        segments = [CheckedSegment(segment.path, segment.header, end) for segment, end in self.segments]
        self.report = check_chain(self.disk, segments, self.uid, None, wanted=self.wanted)
        if self.head is not None and self.report.intact and self.report.head[:2] != self.head[:2]:
            problem = ChainBreak(0, self.head.last_seq, "the files do not end where the log does")
            self.report = replace(self.report, broken=problem)


@dataclass(slots=True)
class RemoveJob(UpkeepJob):
    """Delete files that nothing needs any more."""

    paths: tuple[str, ...] = ()
    segments: tuple[Segment, ...] = ()

    def work(self) -> None:
        """Remove each that is there."""
        present = set(self.disk.list_dir(self.directory))
        self.disk.remove_many([path for path in self.paths if path.rsplit("/", 1)[1] in present])
        self.disk.sync_dir(self.directory)


@dataclass(slots=True)
class ManifestJob(UpkeepJob):
    """Write the manifest."""

    manifest: Manifest | None = None
    doubtful: bool = True

    def work(self) -> None:
        """One slot, synced."""
        assert self.manifest is not None
        write_manifest(self.disk, self.directory, self.manifest, doubtful=self.doubtful)


@dataclass(slots=True)
class AppliedJob(UpkeepJob):
    """Write what is certain of a replica's log."""

    applied: Applied | None = None
    salt: int = 0

    def work(self) -> None:
        """One file, synced."""
        assert self.applied is not None
        write_applied(self.disk, self.directory, self.applied, self.salt)


@dataclass(slots=True)
class SpaceProbeJob(UpkeepJob):
    """Find out whether there is space again, by reserving what the next commits need."""

    segment: Segment | None = None
    room: int = STORE_CONTROL_MARGIN_BYTES
    """Space for a new segment's first messages."""
    reserve: Reserve | None = None

    def work(self) -> None:
        """Reserve space ahead in the open segment and the reserve file; without space, give the reserve up."""
        try:
            self._probe()
        except OSError as error:
            if self.reserve is not None and is_full(error):
                self.reserve.release()
            raise

    def _probe(self) -> None:
        if self.segment is not None:
            ahead = self.segment.end + 2 * STORE_CONTROL_MARGIN_BYTES
            self.disk.allocate(self.segment.path, ahead)
            self.segment.allocated = max(self.segment.allocated, ahead)
        probe = f"{self.directory}/space.tmp"
        if "space.tmp" in self.disk.list_dir(self.directory):
            self.disk.remove(probe)
        self.disk.create(probe)
        try:
            self.disk.allocate(probe, self.room)
        finally:
            self.disk.remove(probe)
        if self.reserve is not None and self.reserve.is_given_up and not self.reserve.fill():
            raise OSError(errno.ENOSPC, "no space left on device", self.directory)


@dataclass(slots=True)
class RepairJob(UpkeepJob):
    """Read the log back after a failed write, as if the process had died just before it."""

    seed: int = 0
    first_id: int = 0
    log_end: tuple[int, int] = (0, 0)
    reserve: Reserve | None = None
    recovered: RecoveredLog | None = None

    def work(self) -> None:
        """Recover up to the last commit; remove segments that the failed write had made."""
        if self.reserve is not None:
            self.reserve.release()
        for name in self.disk.list_dir(self.directory):
            if name.endswith(".seg"):
                self.disk.drop_cache(f"{self.directory}/{name}")
        found = recover_log(self.disk, self.directory, seed=self.seed, first_id=self.first_id, log_end=self.log_end)
        present = set(self.disk.list_dir(self.directory))
        self.disk.remove_many([path for path in found.superseded if path.rsplit("/", 1)[1] in present])
        found.superseded = []
        self.recovered = found
