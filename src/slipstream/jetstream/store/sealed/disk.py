"""A disk whose files are sealed: it stands between a store and the disk that has them.

    store --plain bytes--> SealedDisk --sealed bytes--> Disk

| file | sealed as |
|---|---|
| segments, the journal of consumers | frame by frame, in place (`frames`) |
| index files, manifests, names of accounts, the server's key, APPLIED, PROMISE | a box each (`boxes`) |
| staged parts | in pieces (`parts`) |
| VOTE, REACHED, IMPORT, DELETED, space set aside | not: they hold no word of any user |

Offsets in frames are those of the plain file, sizes too. So everything that a store does with files is the same with
and without it; only that an overwriting takes a safe copy first (`FrameFile.overwrite`), and that a file which is
removed loses its data key before its name (`key_erasure`): each has one of its own, so what was in it is gone then.

What this is not: the decision whether a store is sealed, and with which key (`marker`).
"""

from __future__ import annotations

import errno
import os
import struct
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import suppress
from enum import Enum
from typing import Final

from slipstream.jetstream.store.file.disk.disk import Disk, Seal, SyncedWrite
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header, encode_header, is_gone
from slipstream.jetstream.store.sealed.boxes import BOX_HEAD_BYTES, BOX_MAGIC, open_box, seal_box
from slipstream.jetstream.store.sealed.frame_file import REDO, FrameFile, HiddenFile, NotAtHand
from slipstream.jetstream.store.sealed.frames import FRAME_ROOM, SEALED_FRAME_BYTES, FrameKeys, FrameMap
from slipstream.jetstream.store.sealed.key_erasure import erase_keys
from slipstream.jetstream.store.sealed.keys import SEED_BYTES, KeyRing
from slipstream.jetstream.store.sealed.parts import PART_MAGIC, PartReader, PartWriter, part_size

__all__ = ["FileKind", "SealedDisk", "bare_name", "file_kind"]

_FILES_MAX: Final = 8192  # of which something is remembered
_GAP_MAX: Final = 4096  # between stretches that are read in one go
_RUN_MAX: Final = 1 << 18
_SCRATCH_BYTES: Final = _RUN_MAX + 4096  # with the heads and seals around
_BOXES: Final = frozenset(
    ("MANIFEST.0", "MANIFEST.1", "ACCOUNT", "SERVER.nk", "APPLIED", "PROMISE", "PROMISE.2"),
)
_PLACES = struct.Struct("=QQ")


class SealedDisk:
    """Implements `Disk` over another one."""

    def __init__(self, disk: Disk, ring: KeyRing) -> None:
        """Keep the files of `disk` sealed with the keys of `ring`."""
        self._disk = disk
        self._ring = ring
        current = ring.current
        self.seal = (
            Seal(
                current.cipher,
                current.id,
                FRAME_ROOM,
                SEALED_FRAME_BYTES,
                direct=False,
                converting=ring.is_converting,
            )
            if current is not None
            else Seal(direct=False, converting=ring.is_converting)
        )
        self._lock = threading.Lock()
        self._scratch = _Scratch()
        self._files: OrderedDict[str, FrameFile | None] = OrderedDict()  # None: it is plain, and may be
        self._writers: dict[str, PartWriter] = {}
        self.sync_many = disk.sync_many
        self.sync_dir = disk.sync_dir
        self.truncate = disk.truncate
        self.make_dir = disk.make_dir
        self.remove_dir = disk.remove_dir
        self.list_dir = disk.list_dir
        self.is_dir = disk.is_dir
        self.link_count = disk.link_count
        self.write_back = disk.write_back
        self.drop_cache = disk.drop_cache

    # --- reading ----------------------------------------------------------------------------------------------------

    def read(self, path: str, offset: int, length: int) -> bytes:
        """See `Disk.read`."""
        kind = file_kind(path)
        if kind is FileKind.FRAMES:
            return self._read_frames(path, offset, length)
        if kind is FileKind.BOX:
            return self._read_box(path)[offset : offset + length]
        if kind is FileKind.PART:
            return self._read_part(path, offset, length)
        return self._disk.read(path, offset, length)

    def read_stretches(self, path: str, stretches: bytes, room: memoryview, *, wait: bool = True) -> int:
        """See `Disk.read_stretches`."""
        try:
            file = self._file(path) if wait else self._files[path]
        except (OSError, KeyError):
            if wait:
                raise
            return 0
        if file is None:
            return self._disk.read_stretches(path, stretches, room, wait=wait)
        places = list(_PLACES.iter_unpack(stretches))
        done = first = 0
        while first < len(places):
            begin, last = places[first][0], first
            while (
                last + 1 < len(places)
                and 0 <= places[last + 1][0] - sum(places[last]) <= _GAP_MAX
                and sum(places[last + 1]) - begin <= _RUN_MAX
            ):
                last += 1
            group = places[first : last + 1]
            try:
                read = file.read_into(group, room[done:], self._scratch.room, wait=wait)
            except (NotAtHand, OSError):
                if wait:
                    raise
                return done
            done += read
            if read < sum(length for _, length in group):
                break
            first = last + 1
        return done

    def size(self, path: str) -> int:
        """See `Disk.size`. A part whose key was destroyed is not there any more."""
        size = self._disk.size(path)
        if file_kind(path) == FileKind.PART:
            magic = self._disk.read(path, 0, len(PART_MAGIC))
            if is_gone(magic):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            if magic == PART_MAGIC:
                return part_size(size)
        return size

    def _read_frames(self, path: str, offset: int, length: int) -> bytes:
        if offset + length <= HEADER_BYTES:
            return self._disk.read(path, offset, length)
        file = self._file(path)
        if file is None:
            return self._disk.read(path, offset, length)
        if offset >= HEADER_BYTES:
            return file.read(offset, length)
        head = self._disk.read(path, offset, HEADER_BYTES - offset)
        if len(head) < HEADER_BYTES - offset:
            return head
        return head + file.read(HEADER_BYTES, offset + length - HEADER_BYTES)

    def _file(self, path: str) -> FrameFile | HiddenFile | None:
        """What is known about a file of frames; None if it is plain, and may be.

        Raises:
            OSError: it cannot be read, also for want of the right key.
        """
        with self._lock:
            if path in self._files:
                self._files.move_to_end(path)
                return self._files[path]
        page = self._disk.read(path, 0, HEADER_BYTES)
        header = decode_header(page)
        file: FrameFile | None = None
        if header is None:
            return HiddenFile(self._disk, path)  # not remembered: it may be in the making
        if header.cipher:
            key = self._ring.open(header.cipher, header.key_id, header.wrapped)
            if key is None:
                raise PermissionError(errno.EACCES, "encrypted with another key", path)
            file = FrameFile(self._disk, path, self._ring, key, FrameKeys(key, header))
            file.mend()
        elif not self._ring.accepts_plain:
            return HiddenFile(self._disk, path)
        self._remember(path, file)
        return file

    def _read_box(self, path: str) -> bytes:
        data = self._disk.read(path, 0, self._disk.size(path))
        if data[:8] != BOX_MAGIC:
            return data if self._ring.accepts_plain else b""
        content = open_box(self._ring, bare_name(path), data)
        if content is None:
            return b""
        if not path.endswith(".sdx"):
            return content
        found = FrameMap.from_bytes(content)
        if found is None:
            return b""
        segment = path.removesuffix(".sdx") + ".seg"
        try:
            file = self._file(segment)
        except OSError:
            file = None
        if isinstance(file, FrameFile):
            file.learn(found[0])
        return content[found[1] :]

    def _read_part(self, path: str, offset: int, length: int) -> bytes:
        reader = self._part_reader(path)
        if reader is None:
            return self._disk.read(path, offset, length)
        return reader.open(offset, length, self._disk.read(path, *reader.place(offset, length)))

    def _part_reader(self, path: str) -> PartReader | None:
        reader = PartReader.of(self._ring, self._disk.read(path, 0, BOX_HEAD_BYTES))
        if reader is None and not self._ring.accepts_plain:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return reader

    # --- writing ----------------------------------------------------------------------------------------------------

    def write(self, path: str, offset: int, data: bytes) -> None:
        """See `Disk.write`."""
        at, sealed = self._sealed(path, offset, data)
        if sealed or not data:
            self._disk.write(path, at, sealed)

    def write_many(self, writes: Sequence[tuple[str, int, bytes]]) -> list[OSError | None]:
        """See `Disk.write_many`."""
        sealed: list[tuple[str, int, bytes]] = []
        out: list[OSError | None] = [None] * len(writes)
        places = []
        for place, (path, offset, data) in enumerate(writes):
            try:
                sealed.append((path, *self._sealed(path, offset, data)))
                places.append(place)
            except OSError as error:
                out[place] = error
        for place, error_or_none in zip(places, self._disk.write_many(sealed), strict=True):
            out[place] = error_or_none
        return out

    def begin_synced_write(self, path: str, offset: int, data: bytes) -> SyncedWrite | None:
        """See `Disk.begin_synced_write`."""
        return self._disk.begin_synced_write(path, *self._sealed(path, offset, data))

    def overwrite(self, path: str, patches: Sequence[tuple[int, bytes]]) -> None:
        """See `Disk.overwrite`."""
        file = self._file(path) if file_kind(path) == FileKind.FRAMES else None
        if isinstance(file, FrameFile):
            file.overwrite(list(patches))
        else:
            self._disk.overwrite(path, patches)

    def sync(self, path: str) -> None:
        """See `Disk.sync`."""
        self._end_part(path)
        self._disk.sync(path)

    def _end_part(self, path: str) -> None:
        """If a part is written there, it is whole now."""
        writer = self._writers.get(path)
        if writer is not None:
            at, last = writer.end()
            if last:
                self._disk.write(path, at, last)

    def allocate(self, path: str, length: int) -> None:
        """See `Disk.allocate`."""
        self._disk.allocate(path, length)

    def create(self, path: str) -> None:
        """See `Disk.create`."""
        self._forget(path)
        self._disk.create(path)

    def rename(self, old: str, new: str) -> None:
        """See `Disk.rename`. An index file that is replaced names subjects: its key goes first, it is made anew."""
        if new.endswith(".sdx"):
            with suppress(FileNotFoundError):
                erase_keys(self._disk, self._ring, (), (new,))
        self._end_part(old)
        self._disk.rename(old, new)
        with self._lock:
            file = self._files.get(old)
        self._forget(old, new)
        if file is not None:
            file.moved_to(new)
            self._remember(new, file)

    def remove(self, path: str) -> None:
        """See `Disk.remove`."""
        self.remove_many((path,))

    def remove_many(self, paths: Collection[str]) -> None:
        """See `Disk.remove_many`. All keys are destroyed before the first name goes."""
        doomed = dict.fromkeys(paths)
        for directory in {path.rsplit("/", 1)[0] for path in paths if path.endswith(".seg")}:
            found = [f"{directory}/{name}" for name in self._disk.list_dir(directory) if name.endswith(REDO)]
            doomed.update(dict.fromkeys(redo for redo in found if redo.removesuffix(REDO) in doomed))
        for path in [path for path in doomed if self._disk.link_count(path) > 1]:
            if self._disk.link_count(path) > 1:  # the last name of a file goes with its key, the others go before
                self._disk.remove(path)
                self._forget(path)
                del doomed[path]
        frames = [path for path in doomed if file_kind(path) is FileKind.FRAMES]
        boxes = [path for path in doomed if path.endswith(REDO) or file_kind(path) in (FileKind.BOX, FileKind.PART)]
        erase_keys(self._disk, self._ring, frames, boxes)
        self._disk.remove_many(list(doomed))
        self._forget(*doomed)  # not before: until its name is gone a file can be read by who has its key

    def _sealed(self, path: str, offset: int, data: bytes) -> tuple[int, bytes]:
        """Where to write what."""
        kind = file_kind(path)
        if kind is FileKind.FRAMES:
            return offset, self._sealed_frames(path, offset, data)
        if kind is FileKind.PLAIN or self._ring.current is None:
            return offset, data
        if kind is FileKind.BOX:
            if path.removesuffix(".tmp").endswith(".sdx"):
                data = self._map_of(path).to_bytes() + data
            return offset, seal_box(self._ring.make(), self._ring.noise(SEED_BYTES), bare_name(path), data)
        writer = self._writers.get(path)
        if writer is None:
            writer = self._writers[path] = PartWriter(self._ring.make(), self._ring.noise(SEED_BYTES))
        return writer.add(offset, data)

    def _sealed_frames(self, path: str, offset: int, data: bytes) -> bytes:
        out: list[bytes] = []
        at = 0
        if offset == 0:
            header = decode_header(data[:HEADER_BYTES])
            assert header is not None
            if not header.cipher:
                self._remember(path, None)
                return data
            key = self._ring.make()
            page = encode_header(header, key.wrapped)
            file: FrameFile | HiddenFile | None
            file = made = FrameFile(self._disk, path, self._ring, key, FrameKeys(key, header))
            self._remember(path, made)
            out.append(page)
            at = HEADER_BYTES
        else:
            file = self._file(path)
        if file is None:
            return data
        if isinstance(file, HiddenFile):
            raise OSError(errno.EIO, "the header of the file is gone", path)
        file.seal(offset, data, at, out)
        return b"".join(out)

    def _map_of(self, path: str) -> FrameMap:
        """Where the frames of the segment begin that an index file is made for."""
        segment = path.removesuffix(".tmp").removesuffix(".sdx") + ".seg"
        try:
            file = self._file(segment)
        except OSError:
            file = None  # it is written after its index
        return file.map if isinstance(file, FrameFile) else FrameMap()

    # --- what is remembered -----------------------------------------------------------------------------------------

    def _remember(self, path: str, file: FrameFile | None) -> None:
        with self._lock:
            self._files[path] = file
            self._files.move_to_end(path)
            if len(self._files) > _FILES_MAX:
                self._files.popitem(last=False)

    def _forget(self, *paths: str) -> None:
        with self._lock:
            for path in paths:
                self._files.pop(path, None)
                self._writers.pop(path, None)


class _Scratch(threading.local):
    """Memory for sealed bytes on their way, of each thread its own."""

    def __init__(self) -> None:
        self.room = memoryview(bytearray(_SCRATCH_BYTES))


class FileKind(Enum):
    """How a file is sealed."""

    PLAIN = 0
    FRAMES = 1
    BOX = 2
    PART = 3


def file_kind(path: str) -> FileKind:
    """How a file is sealed: its name says what it is."""
    name = path.removesuffix(".tmp")
    if name.endswith((".seg", "/consumers.log")):
        return FileKind.FRAMES
    if name.endswith((".sdx", ".seg.patch")) or name.rsplit("/", 1)[-1] in _BOXES:
        return FileKind.BOX
    return FileKind.PART if name.endswith((".open", ".part")) else FileKind.PLAIN


def bare_name(path: str) -> str:
    """The name of a file without its directory, also while it is written under another one."""
    return path.rsplit("/", 1)[1].removesuffix(".tmp")
