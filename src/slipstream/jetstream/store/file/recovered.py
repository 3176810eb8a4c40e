"""What recovery found, as values."""

from __future__ import annotations

from dataclasses import field

from slipstream.dataclass import dataclass
from slipstream.jetstream.store.file.chain import LogChain
from slipstream.jetstream.store.file.manifest import Manifest, SegmentEntry
from slipstream.jetstream.store.file.segments.open_segment import Segment
from slipstream.jetstream.store.file.segments.segment import EraseIntent
from slipstream.kernels.index.subjectindex import MessageIndex

__all__ = ["Fact", "RecoveredLog", "RecoveryReport"]

Fact = tuple[int, bytes, bytes]
"""Kind of a record that says something about a stream, its key, its payload."""


@dataclass(slots=True)
class RecoveryReport:
    """What a start found, for tests and tools; operators are told of losses by `StoreHealth`."""

    torn_bytes: int = 0
    """Unacknowledged bytes at the end that were cut off."""
    torn_seqs: tuple[int, int] | None = None
    """Sequences in them, as far as they could be told."""
    damaged_regions: list[tuple[str, int, int]] = field(default_factory=list)
    """File, first and last offset of every stretch that could not be read."""
    unusable_files: list[str] = field(default_factory=list)
    """Files left in place that could not be used at all."""
    missing_segments: list[int] = field(default_factory=list)
    """Numbers of segments the manifest names and the directory lacks.

    What they said about messages of others is taken from their index files. Where these are gone as well, messages that
    were removed come back: nothing is removed because something else is missing.
    """
    rebuilt_indexes: int = 0
    """Closed segments that had to be scanned because their index file was missing or wrong."""


@dataclass(slots=True)
class RecoveredLog:
    """A log read back into memory."""

    uid: bytes
    config: bytes
    index: MessageIndex
    segments: list[Segment]
    """In order; the last one is the one to go on in, if `appendable`."""
    appendable: bool
    highest_no: int
    """Highest segment number any file name carries, usable or not."""
    frame_no: int
    synced_upto: int
    vouched: bool
    """Whether everything that was read is known to be on stable storage: a later frame says so, or there is none."""
    epoch: int
    last_ts_ns: int
    lost: list[tuple[int, int]]
    expiries: list[tuple[int, int]]
    unfinished_erasures: list[tuple[int, EraseIntent]]
    notes: dict[bytes, bytes]
    superseded: list[str]
    """Files that a compaction replaced and did not live to remove, of units without an end, and temporary ones."""
    manifest: Manifest | None
    """The newest that could be read."""
    report: RecoveryReport
    missing: list[SegmentEntry] = field(default_factory=list)
    """Segments that are gone, whose index files are needed: they say what else was removed."""
    unapplied_seq: int = 0
    """Last sequence of what a replica has beyond what it knows to be committed; 0 if there is nothing."""
    unapplied_facts: dict[int, list[Fact]] = field(default_factory=dict)
    """What that says about configuration and notes, by frame."""
    chain: LogChain | None = None
    """Where its hash chain goes on, if it has one."""
