"""A disk that keeps segments packed whose header says so: it stands between a store and the disk below.

    store --plain bytes--> PackedDisk --frames of packed blocks--> SealedDisk, or the disk itself

A packed segment is written whole and reads as if it were plain: same offsets, same size. All other files pass.

What this is not: the decision what is packed, and when (`store.file.reforms`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, decode_header
from slipstream.jetstream.store.packed.blocks import pack_segment
from slipstream.jetstream.store.packed.cache import BlockCache
from slipstream.jetstream.store.packed.codecs import Codec
from slipstream.jetstream.store.packed.packed_file import PATCH, PackedFile

__all__ = ["PackedDisk"]

_FILES_MAX: Final = 8192  # of which something is remembered


class PackedDisk:
    """Implements `Disk` over another one."""

    def __init__(self, disk: Disk) -> None:
        """Unpack what lies on `disk`."""
        self._disk = disk
        self.seal = replace(disk.seal, packs=True)
        self._cache = BlockCache()
        self._lock = threading.Lock()
        self._files: OrderedDict[str, PackedFile | None] = OrderedDict()  # None: it is not packed
        self.write_many = disk.write_many
        self.begin_synced_write = disk.begin_synced_write
        self.sync = disk.sync
        self.sync_many = disk.sync_many
        self.sync_dir = disk.sync_dir
        self.allocate = disk.allocate
        self.truncate = disk.truncate
        self.make_dir = disk.make_dir
        self.remove_dir = disk.remove_dir
        self.list_dir = disk.list_dir
        self.is_dir = disk.is_dir
        self.link_count = disk.link_count
        self.write_back = disk.write_back

    # --- reading ----------------------------------------------------------------------------------------------------

    def read(self, path: str, offset: int, length: int) -> bytes:
        """See `Disk.read`."""
        file = self._file(path) if path.endswith(".seg") and offset + length > HEADER_BYTES else None
        if file is None:
            return self._disk.read(path, offset, length)
        if offset >= HEADER_BYTES:
            return file.read(offset, length)
        head = self._disk.read(path, offset, HEADER_BYTES - offset)
        return head + file.read(HEADER_BYTES, offset + length - HEADER_BYTES)

    def read_stretches(self, path: str, stretches: bytes, room: memoryview, *, wait: bool = True) -> int:
        """See `Disk.read_stretches`."""
        try:
            file = self._file(path) if wait else self._files[path]
        except KeyError:
            return 0
        if file is None:
            return self._disk.read_stretches(path, stretches, room, wait=wait)
        try:
            return file.read_stretches(stretches, room, wait=wait)
        except OSError:
            if wait:
                raise
            return 0

    def size(self, path: str) -> int:
        """See `Disk.size`."""
        file = self._file(path) if path.endswith(".seg") else None
        return self._disk.size(path) if file is None else file.size

    def _file(self, path: str) -> PackedFile | None:
        """The packed segment of this name; None if it is another file.

        Raises:
            OSError: it cannot be read.
        """
        try:
            return self._files[path]
        except KeyError:
            pass
        if not path.endswith(".seg"):
            return None
        header = decode_header(self._disk.read(path, 0, HEADER_BYTES))
        if header is None:
            return None  # not remembered: it may be in the making
        file = PackedFile(self._disk, path, header, self._cache) if header.codec else None
        with self._lock:
            self._files[path] = file
            if len(self._files) > _FILES_MAX:
                self._files.popitem(last=False)
        return file

    # --- changing ---------------------------------------------------------------------------------------------------

    def write(self, path: str, offset: int, data: bytes) -> None:
        """See `Disk.write`. A segment whose header says that it is packed is written whole."""
        if not offset and path.endswith((".seg", ".seg.tmp")):
            header = decode_header(data[:HEADER_BYTES])
            if header is not None and header.codec:
                room = self._disk.seal.frame_room if header.cipher else 0
                body = data[HEADER_BYTES:]
                data = pack_segment(data[:HEADER_BYTES], body, header.salt, Codec(header.codec), room)
        self._disk.write(path, offset, data)

    def overwrite(self, path: str, patches: Sequence[tuple[int, bytes]]) -> None:
        """See `Disk.overwrite`."""
        file = self._file(path) if path.endswith(".seg") else None
        if file is None:
            self._disk.overwrite(path, patches)
        else:
            file.overwrite(list(patches))

    def create(self, path: str) -> None:
        """See `Disk.create`."""
        self._forget(path)
        self._disk.create(path)

    def rename(self, old: str, new: str) -> None:
        """See `Disk.rename`."""
        self._disk.rename(old, new)
        self._forget(old, new)

    def remove(self, path: str) -> None:
        """See `Disk.remove`."""
        self.remove_many((path,))

    def remove_many(self, paths: Collection[str]) -> None:
        """See `Disk.remove_many`."""
        doomed = dict.fromkeys(paths)
        for directory in {path.rsplit("/", 1)[0] for path in paths if path.endswith(".seg")}:
            found = [f"{directory}/{name}" for name in self._disk.list_dir(directory) if name.endswith(PATCH)]
            doomed.update(dict.fromkeys(patch for patch in found if patch.removesuffix(PATCH) in doomed))
        self._disk.remove_many(list(doomed))
        self._forget(*paths)

    def drop_cache(self, path: str) -> None:
        """See `Disk.drop_cache`."""
        self._forget(path)
        self._disk.drop_cache(path)

    def _forget(self, *paths: str) -> None:
        with self._lock:
            for path in paths:
                file = self._files.pop(path, None)
                if file is not None:
                    file.forget()
