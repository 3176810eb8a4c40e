"""What bulk reads and writes need of a store: its index as it is, and where its records lie.

What this is not: policy, or anything about messages. `slipstream.jetstream.store.bulk` is built on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from slipstream.jetstream.store.contract.staging import StageArea
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.logwriter import LogWriter

__all__ = ["BulkAccess"]


class BulkAccess(Protocol):
    """The records of one store, many at a time."""

    @property
    def uid(self) -> str:
        """What tells this store from an earlier one of the same name; empty when its creation time has to do."""
        ...

    @property
    def index(self) -> MessageIndex:
        """Every message that was appended. Not to be kept: a repair puts another in its place."""
        ...

    @property
    def committed_seq(self) -> int:
        """Records up to here are in files (or slabs) that nobody writes any more, except to erase them."""
        ...

    @property
    def disk(self) -> Disk | None:
        """Where the files are; None if everything is in memory."""
        ...

    def segment_file(self, segment: int) -> tuple[str, int]:
        """Path of a segment, and the key of its checksums. Only where there is a disk."""
        ...

    def is_direct(self, segment: int) -> bool:
        """Whether the file of a segment holds its records as they are. Only where there is a disk."""
        ...

    def read_later(self, segment: int, offset: int, length: int) -> tuple[Callable[[], bytes], int, int]:
        """How to read a stretch of a segment in a thread, where it begins, and the key of its checksums."""
        ...

    def unit_writer(self) -> LogWriter | None:
        """Where messages of the open unit may be appended after one `append_atomic`; None when they are refused."""
        ...

    def staging(self) -> StageArea:
        """Where parts of writes to this store are kept until they are committed."""
        ...
