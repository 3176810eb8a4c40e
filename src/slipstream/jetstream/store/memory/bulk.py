"""The records of a memory store for bulk reads and writes: see `contract.BulkAccess`."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream.store.contract.staging import StageArea
from slipstream.jetstream.store.memory.slabs import Slabs
from slipstream.jetstream.store.memory.staging import MemoryStage
from slipstream.jetstream.store.state import StoreState
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.logwriter import LogWriter

__all__ = ["MemoryBulkAccess"]


class MemoryBulkAccess:
    """Implements `BulkAccess`."""

    disk = None
    uid = ""

    def __init__(self, state: StoreState, slabs: Slabs) -> None:
        """The records of these slabs."""
        self._state = state
        self._slabs = slabs

    @property
    def index(self) -> MessageIndex:
        """See `BulkAccess.index`."""
        return self._state.index

    @property
    def committed_seq(self) -> int:
        """See `BulkAccess.committed_seq`."""
        return self._state.committed_seq

    def segment_file(self, segment: int) -> tuple[str, int]:
        """Never called: there are no files."""
        raise AssertionError("records in memory have no file")

    def is_direct(self, segment: int) -> bool:
        """Never called: there are no files."""
        raise AssertionError("records in memory have no file")

    def read_later(self, segment: int, offset: int, length: int) -> tuple[Callable[[], bytes], int, int]:
        """See `BulkAccess.read_later`: the slab as it is now."""
        data, base, salt = self._slabs.slice(segment, offset, length, length)
        return lambda: data, base, salt

    def unit_writer(self) -> LogWriter | None:
        """See `BulkAccess.unit_writer`."""
        return self._slabs.writer if self._slabs.is_unit_open else None

    def staging(self) -> StageArea:
        """See `BulkAccess.staging`."""
        return MemoryStage()
