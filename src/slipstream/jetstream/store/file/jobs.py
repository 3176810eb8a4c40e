"""Commits as values: what to write where, decided on the loop, run in a thread.

Order inside a commit, each step durable before the next: the end of a closed segment, then the segment after it, then
the journal of consumers, then the overwriting of erased messages. So a segment that exists proves that the one before
it is whole, and nothing is overwritten before the intent is on disk.

What this is not: decisions. A job stops at the first error, keeps it, and never tries again.
"""

from __future__ import annotations

import errno
from dataclasses import field
from typing import Final, Protocol

from slipstream.dataclass import dataclass
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk, SyncedWrite
from slipstream.jetstream.store.file.journal import JournalWrite
from slipstream.jetstream.store.file.segments.open_segment import Segment
from slipstream.jetstream.store.limits import (
    STORE_ALLOCATE_BYTES_MAX,
    STORE_ALLOCATE_BYTES_MIN,
    STORE_CONTROL_MARGIN_BYTES,
    STORE_INLINE_BYTES_MAX,
    STORE_INLINE_SYNC_BYTES_MAX,
    STORE_WRITE_BACK_BYTES_MIN,
)
from slipstream.jetstream.store.values import StoreUnavailable

__all__ = ["CommitJob", "CommitSeal", "Erasure", "LoggedRemovals", "Overwrite", "SegmentWrite", "as_fault", "is_full"]

Erasure = tuple[int, int]
"""Sequence and time of a message that is to be overwritten."""

INLINE_SYNC_WAIT_S: Final = 0.005
"""How long the loop waits for the device, in seconds: a tenth of what one event may take of it."""


@dataclass(slots=True)
class SegmentWrite:
    """Bytes for one segment; the first write of a segment begins with its header and makes the file."""

    segment: Segment
    offset: int
    data: bytes
    size_limit: int
    """Space is reserved ahead up to here."""
    creates: bool = False
    closes: bool = False
    """No more writes follow: sync at once, the next segment depends on it."""
    goes_back: bool = False
    """A unit was given up before it: the log goes on as if that had never begun."""

    def has_room(self) -> bool:
        """Whether space was reserved for it, and for what must fit behind it."""
        return self.offset + len(self.data) + STORE_CONTROL_MARGIN_BYTES <= self.segment.allocated


@dataclass(slots=True)
class Overwrite:
    """Noise in the place of an erased message."""

    path: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class LoggedRemovals:
    """What one commit takes out of the stream when it is done."""

    noted: bool
    """Whether the writers' view has noted any of it."""
    first_seq: int
    """Everything below is removed, 0 for nothing."""
    erased: list[Erasure]


class CommitSeal(Protocol):
    """What the bytes of a commit must pass before they are written."""

    def seal(self, writes: list[SegmentWrite]) -> None:
        """Complete them in place."""
        ...

    def settle(self, last_seq: int) -> None:
        """They are written."""
        ...


@dataclass(slots=True)
class CommitJob:
    """Everything one commit does to the disk."""

    disk: Disk
    directory: str
    writes: list[SegmentWrite]
    journal: JournalWrite | None
    overwrites: list[Overwrite]
    sync: bool
    also_sync: set[str]
    """Files written by earlier commits that did not sync."""
    last_seq: int
    last_ts_ns: int
    frame_no: int
    end: tuple[int, int] | None = None
    """Segment number and offset behind what counts when this is done; None: nothing was added."""
    in_unit: bool = False
    """A unit is open: a commit that syncs its end will follow."""
    removed: LoggedRemovals | None = None
    """What readers see no more when this is done."""
    units: int = 0
    """Units whose end is in this commit or an earlier one."""
    chain: CommitSeal | None = None
    """The hash chain of the stream, if it has one."""
    sealed: bool = False
    fault: StorageFault | None = None
    nearly_full: bool = False
    """Space could not be reserved ahead: this commit still fitted, the next may not."""
    unsynced: set[str] = field(default_factory=set)
    ended: bool = False
    begun: SyncedWrite | None = None
    """All that there is to do, under way: `run` waits for it."""

    @property
    def size(self) -> int:
        """Bytes for the log."""
        return sum(len(write.data) for write in self.writes)

    def begin_inline(self) -> None:
        """Begin now if it is a short write for one file: `attend` follows, and if that is not its end, `run`."""
        plain = None if self.overwrites else self.plain_writes()
        if plain is None:
            return
        if not self.sync:
            size = 0
            for _, _, data in plain:
                size += len(data)
            if size <= STORE_INLINE_BYTES_MAX:
                self._write_plain(plain)
        elif len(plain) == 1 and len(plain[0][2]) <= STORE_INLINE_SYNC_BYTES_MAX and not self.also_sync:
            try:
                if self.chain is not None:
                    self.seal()
                self.begun = self.disk.begin_synced_write(*plain[0])
            except Exception as error:
                self.fail(error)
                self.ended = True

    def attend(self) -> bool:
        """See `CommitWork.attend`."""
        if self.begun is not None and not self.ended:
            try:
                self.ended = self.begun.wait(INLINE_SYNC_WAIT_S)
            except Exception as error:
                self.fail(error)
                self.ended = True
        return self.ended

    def _write_plain(self, plain: list[tuple[str, int, bytes]]) -> None:
        """All that there is to do: writes to places that exist, which nobody waits to see synced."""
        try:
            if self.chain is not None:
                self.seal()
            for path, offset, data in plain:
                self.disk.write(path, offset, data)
            self.written()
        except Exception as error:  # as in `write`
            self.fail(error)
        self.ended = True

    def run(self) -> None:
        """Write and sync; see the module docstring for the order. `group_commit.run_group` does it for many."""
        if self.begun is None:
            self.write()
            self.settle(synced=False)
        else:
            try:
                self.begun.wait(-1)
            except Exception as error:
                self.fail(error)
        self.ended = True

    def write(self) -> None:
        """The first half: everything is written, and what the next write depends on is synced."""
        try:
            self.seal()
            for write in self.writes:
                self._write(write)
            if self.journal is not None:
                self.journal.run(self.disk)
                if not self.journal.replaces:
                    self.unsynced.add(self.journal.path)
        except Exception as error:  # whatever it was, nobody may be told that this is on disk
            self.fail(error)

    def seal(self) -> None:
        """Link what is written, before it is."""
        if self.chain is not None and not self.sealed:
            self.sealed = True
            self.chain.seal(self.writes)

    @property
    def to_sync(self) -> set[str]:
        """Files that must be synced between the two halves."""
        if self.fault is not None or not (self.sync or self.overwrites):
            return set()
        return self.unsynced | self.also_sync

    def settle(self, *, synced: bool) -> None:
        """The second half; `synced`: somebody has synced the files of `to_sync`."""
        if self.fault is not None:
            return
        try:
            if self.sync or self.overwrites:
                if not synced:
                    self._sync(self.to_sync)
                self.unsynced = set()
            if self.overwrites:
                self._overwrite()
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Nothing of this commit counts."""
        self.fault = as_fault(error, self.directory)

    def plain_writes(self) -> list[tuple[str, int, bytes]] | None:
        """All that the first half does, if that is only writes to places that exist: path, offset and bytes."""
        if self.in_unit:
            return None
        plain = []
        for write in self.writes:
            if write.creates or write.closes or not write.has_room():
                return None
            plain.append((write.segment.path, write.offset, write.data))
        if self.journal is not None:
            if self.journal.replaces or self.journal.allocate:
                return None
            plain.append((self.journal.path, self.journal.offset, self.journal.data))
        return plain

    def written(self) -> None:
        """What `plain_writes` said was done."""
        for write in self.writes:
            self.unsynced.add(write.segment.path)
        if self.journal is not None:
            self.unsynced.add(self.journal.path)

    def _overwrite(self) -> None:
        written = set()
        patches: dict[str, list[tuple[int, bytes]]] = {}
        for overwrite in self.overwrites:
            patches.setdefault(overwrite.path, []).append((overwrite.offset, overwrite.data))
        for path, its in patches.items():
            try:
                self.disk.overwrite(path, its)
            except FileNotFoundError:
                continue  # upkeep removed the file: the bytes went with it
            written.add(path)
        self._sync(written)

    def _write(self, write: SegmentWrite) -> None:
        path = write.segment.path
        if write.creates:
            self.disk.create(path)
        self._reserve(write)
        self.disk.write(path, write.offset, write.data)
        self.unsynced.add(path)
        if self.in_unit and not self.sync and len(write.data) >= STORE_WRITE_BACK_BYTES_MIN:
            self.disk.write_back(path, write.offset, len(write.data))
        if write.creates or write.closes:
            self._sync({path})
            self.unsynced.discard(path)
        if write.creates:
            self.disk.sync_dir(self.directory)

    def _reserve(self, write: SegmentWrite) -> None:
        if write.closes or write.has_room():
            return
        segment, end = write.segment, write.offset + len(write.data)
        step = min(max(segment.allocated, STORE_ALLOCATE_BYTES_MIN), STORE_ALLOCATE_BYTES_MAX)
        target = max(min(end + step, write.size_limit), end + STORE_CONTROL_MARGIN_BYTES)
        try:
            self.disk.allocate(segment.path, target)
        except OSError as error:
            if not is_full(error) or end > segment.allocated:
                raise
            self.nearly_full = True
        else:
            segment.allocated = target

    def _sync(self, paths: set[str]) -> None:
        for path in sorted(paths) if len(paths) > 1 else paths:
            self.disk.sync(path)


def is_full(error: OSError) -> bool:
    """Whether the error says that there is no space."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def as_fault(error: Exception, directory: str) -> StorageFault:
    """The error as the store reports it."""
    if not isinstance(error, OSError):
        return StoreUnavailable(f"{type(error).__name__}: {error}", path=directory)
    return StoreUnavailable(error.strerror or str(error), path=directory, full=is_full(error))
