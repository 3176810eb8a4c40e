"""What a file store is made of, and what it says about itself.

The first of the layers of `FileStore`: state, then `writes` (what joins the log), `removals` (what leaves the stream)
and `commits` (how all of it gets to the disk); `store.FileStore` adds making, upkeep and closing. All fields are made
here, because the layers share them. Nothing in here changes what is stored.

Invariant: while a fault lasts, nothing above `committed_seq` is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slipstream.errors import StorageFault
from slipstream.jetstream.store.base import Lost, Read
from slipstream.jetstream.store.file.compaction import CompactionJob
from slipstream.jetstream.store.file.disk import Disk
from slipstream.jetstream.store.file.jobs import CommitJob
from slipstream.jetstream.store.file.journal import Journal
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.manifest import Manifest
from slipstream.jetstream.store.file.ranges import cover, each
from slipstream.jetstream.store.file.recovery import RecoveryReport
from slipstream.jetstream.store.file.reserve import Reserve
from slipstream.jetstream.store.file.segment import EraseIntent
from slipstream.jetstream.store.file.upkeep import UpkeepJob
from slipstream.jetstream.store.indexed import IndexedReads
from slipstream.jetstream.store.limits import STORE_LOST_LISTED_MAX, STORE_SEGMENT_BYTES
from slipstream.kernels.log.logwriter import LogWriter

__all__ = ["FileStoreOptions", "FileStoreState"]


@dataclass(frozen=True, slots=True)
class FileStoreOptions:
    """What a store needs from outside."""

    random64: Callable[[], int]
    """Random 64-bit numbers: salts and hash keys."""
    noise: Callable[[int], bytes]
    """That many random bytes, to overwrite erased messages."""
    now_ns: Callable[[], int]
    """Wall clock, for the age of segments."""
    segment_bytes: int = STORE_SEGMENT_BYTES
    reserve: Reserve | None = None


class FileStoreState(IndexedReads):
    """Fields, and questions about them."""

    def __init__(self, disk: Disk, directory: str, uid: bytes, config: bytes, options: FileStoreOptions) -> None:
        """Fields without a log in them; `FileStore` fills it."""
        self._disk = disk
        self._directory = directory
        self._options = options
        self._config = config
        self._log = SegmentedLog(disk, directory, uid, segment_bytes=options.segment_bytes, random64=options.random64)
        super().__init__(self._log.index)
        self._tail = self._log.tail
        self._writer = self._log.writer
        self._journal = Journal(directory, uid, options.random64)
        self.committed_seq = 0
        self._committed_end = (0, 0)  # segment number and offset behind the last commit
        self._durable_first = 0  # every sequence below is known to be gone even if its segment is removed
        self._fault: StorageFault | None = None
        self._refusal: StorageFault | None = None  # why messages are refused: a fault, or a full disk
        self._closed = False
        self._expiries: list[tuple[int, int]] = []
        # What joins the next commit beside the frames in the writer:
        self._tombs = bytearray()
        self._trim = 0
        self._config_due = False  # set while a unit was open: logged behind it
        self._notes_due: dict[bytes, bytes] = {}  # the same for notes
        self._erasures: list[tuple[int, int]] = []  # sequence, time
        self._overwrites: list[tuple[int, int, EraseIntent]] = []  # erasures logged before and not yet carried out
        self._copies: list[tuple[int, int, EraseIntent]] = []  # the same for copies that a compaction has made
        # Work in flight and left over:
        self._job: CommitJob | None = None
        self._upkeep: UpkeepJob | CompactionJob | None = None
        self._erased_beside_leftovers = 0
        self._upkeep_failed = False  # the last piece of upkeep did not succeed
        self._unsynced: set[str] = set()
        self._logged_first = 0  # trim that is logged and that no commit has taken
        self._logged_erasures: list[tuple[int, int]] = []  # the same for intents to erase
        self._in_flight_first = 0  # trim that the commit in flight writes
        self._in_flight_erasures: list[tuple[int, int]] = []  # erasures whose intents it writes
        self._in_flight_overwritten = 0  # of the erasures logged before, those that it carries out
        self._erasures_committed = 0  # since the store was opened
        self._erasures_overwritten = 0  # of these, from the first on
        self._trimmed_first = 0  # highest trim in the log, synced or not
        self._marked = True  # a frame on disk vouches for the last commit
        self._manifest_version = 0
        self._manifest_known: Manifest | None = None  # what the newest slot says
        self._manifest_doubtful = False  # ... which may not be on stable storage
        self._manifest_due = False
        self._leftovers: list[str] = []
        self._dropped: set[str] = set()  # files of an abandoned unit: not worth a sync
        self._erased_meanwhile: list[tuple[int, int]] = []  # erasures since a compaction began
        self._removed_since_ns: Callable[[], int] = options.now_ns  # see `Store.keep_removed`
        self.report = RecoveryReport()
        """What the last opening or repair found."""

    @property
    def last_seq(self) -> int:
        """See `Store.last_seq`; while faulted, what was assigned above the last commit did not happen."""
        return self._index.last_seq if self._fault is None else self.committed_seq

    @property
    def last_ts_ns(self) -> int:
        """See `Store.last_ts_ns`."""
        return self._writer.last_ts

    def direct_writer(self) -> LogWriter | None:
        """See `Store.direct_writer`."""
        return self._writer if self._refusal is None and self._log.unit is None else None

    @property
    def fault(self) -> StorageFault | None:
        """See `Store.fault`; a full disk counts, though removals are still taken then."""
        return self._refusal

    @property
    def config(self) -> bytes:
        """See `Store.config`."""
        return self._config

    def message_bytes(self, subject: int, headers: int, payload: int) -> int:
        """See `Store.message_bytes`."""
        return 30 + subject + payload + (4 + headers if headers else 0)

    def lost(self) -> Lost:
        """See `Store.lost`."""
        found = {seq: size for seq, size in self._damaged.items() if self._index.locate(seq) is not None}
        ranges = cover(self._lost_ranges + [(seq, seq) for seq in found])
        return Lost(list(each(ranges, STORE_LOST_LISTED_MAX)), sum(found.values()))

    def expiries(self) -> Iterable[tuple[int, int]]:
        """See `Store.expiries`."""
        return self._expiries

    def get(self, seq: int) -> Read | None:
        """See `Store.get`."""
        if self._fault is not None and seq > self.committed_seq:
            return None
        return super().get(seq)

    def _slice(self, segment: int, offset: int, least: int, most: int) -> tuple[bytes, int, int]:
        try:
            return self._log.slice(segment, offset, least, most)
        except OSError:
            return b"", offset, 0  # unreadable now: the caller looks again, then calls the message damaged

    def _slice_afresh(self, segment: int, offset: int, least: int) -> tuple[bytes, int, int]:
        try:
            return self._log.slice_afresh(segment, offset, least)
        except OSError:
            return b"", offset, 0

    def _writable(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _set_lost(self, ranges: list[tuple[int, int]]) -> None:
        self._lost_ranges = ranges
        self._log.first_lost = ranges[0][0] if ranges else 0
