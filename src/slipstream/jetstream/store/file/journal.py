"""The journal of consumer states: a small log beside the messages, in the same frame format and the same commit.

Each key holds one whole state and the deltas since. The file is append-only; when most of it is outdated, the next
commit writes the current states to a new file and renames it over the old one, so there is always one whole journal.

What this is not: an interpretation of the states; and not the place of truth for messages. A delta that is lost to
damage costs redeliveries, and is counted in `damaged`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from slipstream.jetstream.store.file.disk.disk import PLAIN, Disk, Seal
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader, decode_header, encode_header
from slipstream.jetstream.store.limits import (
    STORE_ALLOCATE_BYTES_MAX,
    STORE_ALLOCATE_BYTES_MIN,
    STORE_JOURNAL_BYTES_MIN,
    STORE_JOURNAL_GROWTH,
    STORE_SCAN_STEP_RECORDS,
)
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.record import ADD, MARK, PUT, REMOVE
from slipstream.kernels.log.segscan import SegmentScan

__all__ = ["Journal", "JournalWrite"]

_NAME = "consumers.log"
_UNBOUNDED = 1 << 62


class JournalWrite:
    """What one commit does to the journal: append to it, or replace it."""

    def __init__(self, path: str, offset: int, data: bytes, allocate: int, frame_no: int, *, replaces: bool) -> None:
        """Remember the bytes and the place."""
        self.path = path
        self.offset = offset
        self.data = data
        self.allocate = allocate
        self.frame_no = frame_no
        self.replaces = replaces

    def run(self, disk: Disk) -> None:
        """Write, without the final sync of an append (the commit does it)."""
        if not self.replaces:
            if self.allocate:
                # Only an optimisation: without space ahead, the write itself finds out whether there is any.
                with contextlib.suppress(OSError):
                    disk.allocate(self.path, self.allocate)
            disk.write(self.path, self.offset, self.data)
            return
        directory, name = self.path.rsplit("/", 1)
        temporary = self.path + ".tmp"
        if name + ".tmp" in disk.list_dir(directory):
            disk.remove(temporary)
        disk.create(temporary)
        disk.write(temporary, 0, self.data)
        disk.sync(temporary)
        disk.rename(temporary, self.path)
        disk.sync_dir(directory)


class Journal:
    """States of the consumers of one stream."""

    def __init__(self, directory: str, uid: bytes, random64: Callable[[], int], seal: Seal = PLAIN) -> None:
        """An empty journal; `recover` fills it from the file."""
        self._path = f"{directory}/{_NAME}"
        self._directory = directory
        self._uid = uid
        self._random64 = random64
        self._seal = seal
        self._writer = LogWriter(None)
        self._entries: dict[bytes, list[bytes]] = {}
        self._live_bytes = 0  # what a rewritten file would hold, about
        self._records = 0  # running number, stored as the sequence of each record
        self._allocated = 0
        self._exists = False
        self._must_rewrite = False  # the tail is torn or damaged: nothing may be appended to this file
        self.is_changed = False
        """Whether the next commit has something to write here."""
        self.damaged = 0
        """Stretches of the file that could not be read."""
        self.vouched = True
        """Whether a frame says that everything before it was synced."""

    @property
    def path(self) -> str:
        """The journal's file."""
        return self._path

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait for a commit."""
        return self._writer.pending_bytes

    def entries(self) -> dict[bytes, list[bytes]]:
        """For each key its last whole state and the deltas since."""
        return {key: list(parts) for key, parts in self._entries.items()}

    def put(self, key: bytes, state: bytes) -> None:
        """Set the whole state of a key."""
        self._live_bytes += len(state) + len(key) - sum(map(len, self._entries.get(key, ())))
        self._entries[key] = [state]
        self._log(PUT, key, state)

    def add(self, key: bytes, delta: bytes) -> None:
        """Add a change to a key that has a state."""
        if key not in self._entries:
            raise KeyError(key)
        self._entries[key].append(delta)
        self._live_bytes += len(delta)
        self._log(ADD, key, delta)

    def remove(self, key: bytes) -> None:
        """Forget a key; nothing happens when there is none."""
        parts = self._entries.pop(key, None)
        if parts is not None:
            self._live_bytes -= sum(map(len, parts)) + len(key)
            self._log(REMOVE, key, b"")

    def mark(self) -> None:
        """Add an empty frame that vouches for the ones before it, once after each change."""
        if self._exists and not self.vouched and not self._must_rewrite:
            self._log(MARK, b"", b"")

    def take(self) -> JournalWrite | None:
        """What the next commit has to write; None when nothing changed."""
        if not self.is_changed:
            return None
        self.is_changed = False
        grown = self._writer.base > STORE_JOURNAL_BYTES_MIN and (
            self._writer.base > STORE_JOURNAL_GROWTH * (self._live_bytes + HEADER_BYTES)
        )
        if not self._exists or self._must_rewrite or grown:
            return self._rewrite()
        offset = self._writer.base
        data = self._writer.take()
        end = offset + len(data)
        allocate = 0
        if end > self._allocated:
            step = min(max(end, STORE_ALLOCATE_BYTES_MIN), STORE_ALLOCATE_BYTES_MAX)
            allocate = self._allocated = end + step
        return JournalWrite(self._path, offset, data, allocate, self._writer.frame_no, replaces=False)

    def synced(self, write: JournalWrite) -> None:
        """A write has become durable."""
        self._writer.synced_upto = write.frame_no

    def abandon(self) -> None:
        """A write failed: the file's tail is unknown, the states in memory are not."""
        self._must_rewrite = True
        self.is_changed = self.is_changed or self._exists

    def recover(self, disk: Disk) -> None:
        """Read the file, if there is one."""
        seal = self._seal
        if _NAME not in disk.list_dir(self._directory):
            return
        self._exists = True
        data = disk.read(self._path, 0, disk.size(self._path))
        header = decode_header(data[:HEADER_BYTES])
        if header is None or header.uid != self._uid:
            self.damaged += 1
            self._must_rewrite = self.is_changed = True
            return
        scan = SegmentScan(data, HEADER_BYTES, header.salt, 0, 0)
        while scan.step(STORE_SCAN_STEP_RECORDS):
            pass
        for region in scan.regions:
            self._must_rewrite = self.is_changed = True
            if region.frame_no > scan.synced_upto:
                scan.cut(region)
                break
            self.damaged += 1
        for kind, number, _ts, key, payload in scan.controls:
            self._records = max(self._records, number)
            if kind == PUT:
                self._entries[key] = [payload]
            elif kind == ADD and key in self._entries:
                self._entries[key].append(payload)
            elif kind == REMOVE:
                self._entries.pop(key, None)
        self._live_bytes = sum(len(key) + sum(map(len, parts)) for key, parts in self._entries.items())
        self._allocated = len(data)
        self.vouched = scan.said_frame_no <= scan.synced_upto and not scan.regions
        self._writer.synced_upto = scan.last_frame_no
        if (header.cipher, header.key_id) != (seal.cipher, seal.key_id):
            self._must_rewrite = self.is_changed = True
        self._writer.open_segment(
            0, header.salt, scan.good_end, _UNBOUNDED, scan.last_frame_no, seal.frame_room, seal.frame_bytes
        )

    def _log(self, kind: int, key: bytes, payload: bytes) -> None:
        self._records += 1
        self.vouched = kind == MARK
        self.is_changed = True
        self._writer.control(kind, self._records, 0, key, payload)

    def _rewrite(self) -> JournalWrite:
        """A whole new file with the current states."""
        frame_no = self._writer.frame_no
        synced = self._writer.synced_upto
        salt = self._random64()
        seal = self._seal
        header = SegmentHeader(self._uid, 0, 0, 0, 0, 0, 0, 0, 0, frame_no, salt, seal.cipher, seal.key_id)
        writer = LogWriter(None)
        writer.open_segment(0, salt, HEADER_BYTES, _UNBOUNDED, frame_no, seal.frame_room, seal.frame_bytes)
        writer.synced_upto = synced
        for key, parts in self._entries.items():
            for i, part in enumerate(parts):
                self._records += 1
                writer.control(ADD if i else PUT, self._records, 0, key, part)
        data = encode_header(header) + writer.take()
        self._writer = writer
        self._exists = True
        self._must_rewrite = False
        self._allocated = len(data)
        return JournalWrite(self._path, 0, data, 0, writer.frame_no, replaces=True)
