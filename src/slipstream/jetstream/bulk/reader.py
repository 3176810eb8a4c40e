"""One bulk read under way: how far it is, what it may be sent, and what is open for it."""

from __future__ import annotations

import struct
from dataclasses import field

from slipstream.dataclass import dataclass
from slipstream.jetstream.bulk.requests import Range
from slipstream.jetstream.ports import LentFile, SharedMemory
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels.index.subjectindex import Selection

__all__ = ["Reader"]

_PAUSE = struct.Struct("<q")


@dataclass(slots=True, eq=False)
class Reader:
    """One read under way."""

    id: str
    stream: Stream
    wanted: Range
    reply: bytes
    credit: int
    """Chunks that may be sent now."""
    window: int
    """And at most at any time."""
    chunk_bytes: int
    active_ns: int
    """When it last confirmed something."""
    next_seq: int = 0
    rows: int = 0
    bytes: int = 0
    crc: int = 0
    stale: int = 0
    """Times the present chunk was begun in vain."""
    damaged: list[int] = field(default_factory=list)
    busy: bool = False
    """In the queue or in flight."""
    ended: bool = False
    """The end mark was sent; it stays until it has confirmed everything, for it may still have to open files."""
    gone: bool = False
    selection: Selection = field(default_factory=Selection)
    memory: SharedMemory | None = None
    """A ring of `window` slots of `chunk_bytes`, and behind it a number: see `tell_pause`."""
    reads_files: bool = False
    """Whether it would read files itself, once it has shown by the memory that it is on this machine."""
    lent: dict[str, LentFile] = field(default_factory=dict)
    """Files it may read itself, by path, in the order they were first named."""
    places_from: int = 0
    """It is tried from this chunk on."""
    checksummed: bool = True
    """Whether everything passed through here, so that `crc` is known."""
    chunks: int = 0
    """Sent so far; that many times the ring went on by a slot."""
    pause_ns: int = 0
    """What it was told last."""

    @property
    def slot(self) -> memoryview | None:
        """Where the next chunk goes, if not into a message. As long as it has credit, nobody looks there any more."""
        if self.memory is None:
            return None
        return self.memory.view[self.slot_at : self.slot_at + self.chunk_bytes]

    @property
    def slot_at(self) -> int:
        """Where that is."""
        return self.chunks % self.window * self.chunk_bytes

    @property
    def memory_name(self) -> str:
        """Of the memory it is given."""
        return f"slipstream-bulk-{self.id}"

    @property
    def memory_bytes(self) -> int:
        """And how much that is."""
        return self.window * self.chunk_bytes + _PAUSE.size

    def tell_pause(self, pause_ns: int) -> None:
        """Let a reader of files take small steps from now on, and pause after each; 0: it need not any more."""
        if self.memory is not None and pause_ns != self.pause_ns:
            _PAUSE.pack_into(self.memory.view, self.window * self.chunk_bytes, pause_ns)
            self.pause_ns = pause_ns

    def forget_memory(self) -> None:
        """Close what it was given to look at."""
        for shared in (self.memory, *self.lent.values()):
            if shared is not None:
                shared.close()
        self.memory = None
        self.lent.clear()
