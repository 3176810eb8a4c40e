"""What a store is at this moment: the explicit state that its parts share.

Every part of a store gets this object when it is made and reads it; who moves a field is said beside it. What only one
part needs is in that part.

Invariants: `committed_seq` never moves back; while there is a fault, nothing above it is shown.
"""

from __future__ import annotations

from slipstream.errors import StorageFault
from slipstream.jetstream.store.assigned import Assigned
from slipstream.kernels.index.subjectindex import MessageIndex

__all__ = ["StoreState"]


class StoreState:
    """Index, views, configuration and condition of one store."""

    __slots__ = ("assigned", "closed", "committed_seq", "committed_ts_ns", "config", "fault", "index", "refusal")

    def __init__(self, index: MessageIndex, config: bytes, *, committed_seq: int = 0) -> None:
        """The state of a store without messages."""
        self.index = index
        """Every message that was appended, committed or not. A repair puts another in its place."""
        self.assigned = Assigned(index)
        """The same without what was removed and waits for its commit. A commit that fails replaces it."""
        self.committed_seq = committed_seq
        """Moved by commits."""
        self.committed_ts_ns = 0
        self.config = config
        self.fault: StorageFault | None = None
        """Why nothing at all is taken. Set by commits, cleared by the repair."""
        self.refusal: StorageFault | None = None
        """Why messages are refused: the fault, or a full disk, which upkeep finds to have space again."""
        self.closed = False

    def replace_index(self, index: MessageIndex) -> None:
        """Go on with what was read back: all of it is committed. Sizes are counted as before."""
        if not self.index.file_sizes:
            index.count_as_memory()
        self.index = index
        self.assigned = Assigned(index)
        self.committed_seq = index.last_seq

    def check_writable(self) -> None:
        """Refuse a change while there is a fault.

        Raises:
            StorageFault: the fault.
        """
        if self.fault is not None:
            raise self.fault
