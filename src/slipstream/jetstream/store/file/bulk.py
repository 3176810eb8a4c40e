"""The records of a file store for bulk reads and writes: see `contract.BulkAccess`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slipstream.jetstream.store.contract.staging import StageArea
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.staging import DiskStage
from slipstream.jetstream.store.state import StoreState
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.logwriter import LogWriter

__all__ = ["FileBulkAccess"]


class FileBulkAccess:
    """Implements `BulkAccess`."""

    __slots__ = ("_directory", "_log", "_state", "disk")

    def __init__(self, state: StoreState, log: SegmentedLog, disk: Disk, directory: str) -> None:
        """The records of this log."""
        self._state = state
        self._log = log
        self._directory = directory
        self.disk = disk

    @property
    def uid(self) -> str:
        """See `BulkAccess.uid`."""
        return self._log.uid.hex()

    @property
    def index(self) -> MessageIndex:
        """See `BulkAccess.index`."""
        return self._state.index

    @property
    def committed_seq(self) -> int:
        """See `BulkAccess.committed_seq`."""
        return self._state.committed_seq

    def segment_file(self, segment: int) -> tuple[str, int]:
        """See `BulkAccess.segment_file`."""
        held = self._log.table.get(segment)
        return held.path, held.header.salt

    def is_direct(self, segment: int) -> bool:
        """See `BulkAccess.is_direct`."""
        return self.disk.seal.direct and not self._log.table.get(segment).header.codec

    def read_later(self, segment: int, offset: int, length: int) -> tuple[Callable[[], bytes], int, int]:
        """See `BulkAccess.read_later`."""
        path, salt = self.segment_file(segment)
        return partial(self.disk.read, path, offset, length), offset, salt

    def unit_writer(self) -> LogWriter | None:
        """See `BulkAccess.unit_writer`."""
        return self._log.writer if self._log.unit is not None and self._state.refusal is None else None

    def staging(self) -> StageArea:
        """See `BulkAccess.staging`: beside the directory of the streams."""
        root = self._directory.rsplit("/", 2)[0]
        return DiskStage(self.disk, f"{root}/staging/{self.uid}")
