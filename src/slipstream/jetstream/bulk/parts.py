"""Whole parts of writes: their names, the room they take, and how long they are kept.

A name is all that is known of a part after a restart: of which transaction it is, and until when it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from slipstream.dataclass import dataclass
from slipstream.jetstream.bulk.limits import BULK_STAGE_BYTES_MAX, BULK_STAGE_MEMORY_BYTES_MAX, BULK_STAGE_PARTS_MAX
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.store.contract.staging import StageArea
from slipstream.jetstream.stream.stream import Stream
from slipstream.limits import BULK_STAGE_NS
from slipstream.units import SECOND_NS

__all__ = ["Part", "StagedParts", "part_name", "part_prefix"]


@dataclass(frozen=True, slots=True)
class Part:
    """A whole part, as END answers and COMMIT asks."""

    name: str
    count: int
    crc: int
    bytes: int


def part_prefix(txn: str) -> str:
    """What the names of all parts of a transaction begin with."""
    return sha256(txn.encode()).hexdigest()[:32] + "-"


def part_name(txn: str, part: int, attempt: int, id_: str, now_ns: int, keep_ns: int) -> str:
    """A name of its own for a part that is begun now and kept for so long."""
    # Seconds; for a part that is kept as long as possible, when it was begun.
    stamp = max(now_ns + keep_ns - BULK_STAGE_NS, 0) // SECOND_NS
    return f"{part_prefix(txn)}{part}-{attempt}-{id_}-{stamp}"


class StagedParts:
    """The whole parts of one stream."""

    def __init__(self, stream: Stream) -> None:
        """Nothing is looked at before `load`."""
        self.area: StageArea = stream.store.bulk.staging()
        self.sizes: dict[str, int] = {}
        in_memory = stream.config.storage is StorageType.MEMORY
        self._bytes_max = BULK_STAGE_MEMORY_BYTES_MAX if in_memory else BULK_STAGE_BYTES_MAX
        self._bytes = 0
        self._resources = stream.appends.resources
        self._until_ns: dict[str, int] = {}  # of parts that got whole in this run; names tell it of the others

    def load(self) -> None:
        """Find what an earlier run left. Blocks."""
        self.sizes = dict(self.area.names())
        self._bytes = sum(self.sizes.values())

    def loaded(self) -> None:
        """Count what `load` found against the account; on the loop."""
        self._resources.stage(self._bytes)

    def room_for(self, more: int) -> bool:
        """Whether this many bytes may be staged now."""
        return (
            self._bytes + more <= self._bytes_max
            and len(self.sizes) < BULK_STAGE_PARTS_MAX
            and self._resources.can_stage(more)
        )

    def grow(self, name: str, more: int) -> None:
        """Count bytes of a part."""
        self.sizes[name] = self.sizes.get(name, 0) + more
        self._bytes += more
        self._resources.stage(more)

    def forget(self, name: str) -> None:
        """Count them no more."""
        size = self.sizes.pop(name, 0)
        self._bytes -= size
        self._resources.stage(-size)
        self._until_ns.pop(name, None)

    def keep(self, names: Iterable[str], until_ns: int) -> None:
        """Keep parts until a time, whatever was said before."""
        self._until_ns |= {name: until_ns for name in names if name in self.sizes}

    def expired(self, now_ns: int) -> list[str]:
        """Parts whose time is over."""
        return [name for name in self.sizes if self._until_ns.get(name, _until_ns(name)) < now_ns]


def _until_ns(name: str) -> int:
    """Until when a part is kept, by its name."""
    stamp = name.rpartition("-")[2]
    return int(stamp) * SECOND_NS + BULK_STAGE_NS if stamp.isdecimal() else 0
