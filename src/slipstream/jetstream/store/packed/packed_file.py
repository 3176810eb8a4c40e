"""One packed segment: how stretches of it are read, and how messages in it are overwritten.

An overwriting changes blocks, and a block that was changed may be larger than before. So new frames go into the place
of the old ones if they fit, else behind the last one; what they replace is overwritten, and the table follows. All of
that is made safe in a file beside the segment first (`.patch`), and whoever opens the segment finishes it.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Final

import msgspec

from slipstream.errors import UNREADABLE
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader
from slipstream.jetstream.store.packed.blocks import (
    BLOCK_BYTES,
    BlockPlace,
    BlockTable,
    block_in,
    encode_block_frame,
    encode_table_frame,
    find_blocks,
    read_block,
    read_table,
    table_length,
    void_frame,
)
from slipstream.jetstream.store.packed.cache import BlockCache
from slipstream.jetstream.store.packed.codecs import Codec
from slipstream.kernels.log.record import FRAME_HEAD_BYTES, crc32c

__all__ = ["PATCH", "PackedFile"]

PATCH: Final = ".patch"
"""Ends the name of the file that holds frames on their way into a segment."""
_FILL: Final = b"\xff"
_PLACES = struct.Struct("=QQ")
_PATCH_HEAD: Final = struct.Struct("<8sII")
_PATCH_MAGIC: Final = b"SLIPPAT1"
_BLOCKS_AT_ONCE: Final = 16  # of a read of many
_OFFSET_END: Final = 1 << 32  # of a file


class PackedFile:
    """See the module docstring. What cannot be unpacked reads as 0xFF, which is neither a record nor a frame."""

    def __init__(self, disk: Disk, path: str, header: SegmentHeader, cache: BlockCache) -> None:
        """A file with this header.

        Raises:
            OSError: it cannot be read.
        """
        self._disk = disk
        self._path = path
        self._salt = header.salt
        self._codec = Codec(header.codec) if header.codec in set(Codec) else Codec.STORED
        self._room = disk.seal.frame_room if header.cipher else 0
        self._cache = cache
        self._owner = cache.new_owner()
        self._shown: dict[int, bytes] = {}  # blocks that are on their way into the file
        self._mend()
        self._table, self._has_table = self._find_table()

    @property
    def size(self) -> int:
        """Bytes of the segment, unpacked."""
        return self._table.size

    def forget(self) -> None:
        """Read everything anew from here on: what a thread is about to put into the cache is found by nobody."""
        before, self._owner = self._owner, self._cache.new_owner()
        self._cache.drop(before)

    # --- reading ----------------------------------------------------------------------------------------------------

    def read(self, offset: int, length: int) -> bytes:
        """A stretch of the segment behind its header."""
        end = min(offset + length, self.size)
        out = []
        while offset < end:
            index, start = divmod(offset - HEADER_BYTES, BLOCK_BYTES)
            piece = self._block(index)[start : start + end - offset]
            out.append(piece)
            offset += len(piece)
        return out[0] if len(out) == 1 else b"".join(out)

    def read_stretches(self, stretches: bytes, room: memoryview, *, wait: bool) -> int:
        """Stretches as `Disk.read_stretches` takes them, one behind the other into memory.

        Without `wait` it ends where the device would have to be asked. Frames of several blocks are read at once.
        """
        wanted, done = list(_PLACES.iter_unpack(stretches)), 0
        blocks: dict[int, bytes] = {}
        for number, (at, length) in enumerate(wanted):
            offset, end = at, min(at + length, self.size)
            while offset < end:
                index, start = divmod(offset - HEADER_BYTES, BLOCK_BYTES)
                block = blocks.get(index)
                if block is None:
                    blocks = self._blocks(self._next_blocks(wanted, number, index), wait=wait)
                    block = blocks.get(index)
                    if block is None:
                        return done
                piece = memoryview(block)[start : start + end - offset]
                room[done : done + len(piece)] = piece
                done += len(piece)
                offset += len(piece)
            if end < at + length:
                break
        return done

    def _next_blocks(self, wanted: list[tuple[int, int]], number: int, index: int) -> list[int]:
        """The blocks of the stretches from `number` on, beginning with `index`, as many as are read at once."""
        found = [index]
        for offset, length in wanted[number : number + _BLOCKS_AT_ONCE]:
            end = min(offset + length, self.size)
            first, last = (offset - HEADER_BYTES) // BLOCK_BYTES, (end - 1 - HEADER_BYTES) // BLOCK_BYTES
            found += range(max(first, found[-1] + 1), min(last + 1, found[-1] + 1 + _BLOCKS_AT_ONCE - len(found)))
            if len(found) >= _BLOCKS_AT_ONCE:
                break
        return found

    def _blocks(self, indexes: list[int], *, wait: bool) -> dict[int, bytes]:
        """Blocks by their numbers; without `wait` those that can be had at once."""
        owner, table = self._owner, self._table
        found: dict[int, bytes] = {}
        missing: list[tuple[int, BlockPlace]] = []
        for index in indexes:
            block, place = self._shown.get(index) or self._cache.get(owner, index), table.places[index]
            if block is not None:
                found[index] = block
            elif place is not None:
                missing.append((index, place))
        if missing:
            frames = memoryview(bytearray(sum(place.length for _, place in missing)))
            places = b"".join(_PLACES.pack(place.offset, place.length) for _, place in missing)
            read, at = self._disk.read_stretches(self._path, places, frames, wait=wait), 0
            for index, place in missing:
                block = read_block(frames[at : min(at + place.length, read)], index, self._salt)
                at += place.length
                if block is not None and len(block) == self._block_size(index):
                    found[index] = block
                    self._cache.put(owner, index, block)
        if wait:
            for index in indexes:
                if index not in found:
                    found[index] = self._block(index)
        return found

    def _block(self, index: int) -> bytes:
        owner = self._owner
        found = self._shown.get(index) or self._cache.get(owner, index)
        if found is None:
            found = self._unpacked(index)
            if found is None:
                return _FILL * self._block_size(index)  # asked again: it may be the device's mood
            self._cache.put(owner, index, found)
        return found

    def _unpacked(self, index: int) -> bytes | None:
        place = self._table.places[index]
        if place is None:
            return None
        block = read_block(self._disk.read(self._path, place.offset, place.length), index, self._salt)
        return block if block is not None and len(block) == self._block_size(index) else None

    def _block_size(self, index: int) -> int:
        return min(BLOCK_BYTES, self.size - HEADER_BYTES - index * BLOCK_BYTES)

    def _find_table(self) -> tuple[BlockTable, bool]:
        size = self._disk.size(self._path)
        head = self._disk.read(self._path, HEADER_BYTES, FRAME_HEAD_BYTES)
        length = min(table_length(head), size)
        found = read_table(self._disk.read(self._path, HEADER_BYTES, length), self._salt, size)
        if found is not None:
            return found, True
        return find_blocks(self._disk.read(self._path, 0, size), self._salt), False

    # --- changing ---------------------------------------------------------------------------------------------------

    def overwrite(self, patches: list[tuple[int, bytes]]) -> None:
        """Change bytes of the segment: durable when this returns."""
        blocks: dict[int, bytearray | None] = {}
        for offset, data in patches:
            self._patch(blocks, offset, data)
        table = BlockTable(self._table.size, list(self._table.places))
        end = self._disk.size(self._path)
        end += -end % 8
        frames: list[tuple[int, bytes]] = []
        for index, block in sorted(blocks.items()):
            place = table.places[index]
            if place is None:
                continue  # nobody knows where it is
            if block is None:  # nobody can read it: then at least it is not there
                frames.append((place.offset, void_frame(index + 1, place.length, self._salt, self._room)))
                continue
            at = HEADER_BYTES + index * BLOCK_BYTES
            frame = encode_block_frame(index + 1, at, bytes(block), self._salt, self._codec, self._room, place.length)
            if len(frame) > place.length:
                frames.append((place.offset, void_frame(index + 1, place.length, self._salt, self._room)))
                table.places[index] = place = BlockPlace(end, len(frame))
                end += len(frame)
            frames.append((place.offset, frame))
        if self._has_table and table.places != self._table.places:
            frames.append((HEADER_BYTES, encode_table_frame(table, self._salt, self._room)))
        self._shown = {index: bytes(block) for index, block in blocks.items() if block is not None}
        try:
            self._keep(frames)
            self._put(frames)
            self._table = table
            self._shown = {}
        except OSError:
            self._shown = {}
            self._mend()  # what is in the file counts: as it was, or as it was to become
            self._table, self._has_table = self._find_table()
            raise
        finally:
            self.forget()
        with suppress(OSError):  # the next one to look at the file removes it
            self._drop_patch()

    def _patch(self, blocks: dict[int, bytearray | None], offset: int, data: bytes) -> None:
        done = 0
        while done < len(data) and offset + done < self.size:
            index, start = divmod(offset + done - HEADER_BYTES, BLOCK_BYTES)
            count = min(len(data) - done, self._block_size(index) - start)
            if index not in blocks:
                found = self._unpacked(index)
                blocks[index] = None if found is None else bytearray(found)
            block = blocks[index]
            if block is not None:
                block[start : start + count] = data[done : done + count]
            done += count

    def _put(self, frames: list[tuple[int, bytes]]) -> None:
        size = self._disk.size(self._path)
        inside = [(at, frame) for at, frame in frames if at < size]
        for at, frame in frames:
            if at >= size:
                self._disk.write(self._path, at, frame)
        self._disk.sync(self._path)  # a block is where the table says before the table says so
        self._disk.overwrite(self._path, inside)
        self._disk.sync(self._path)

    def _keep(self, frames: list[tuple[int, bytes]]) -> None:
        patch = self._path + PATCH
        directory, name = patch.rsplit("/", 1)
        if name in self._disk.list_dir(directory):
            self._disk.remove(patch)
            self._disk.sync_dir(directory)
        body = msgspec.msgpack.encode(frames)
        self._disk.create(patch)
        self._disk.write(patch, 0, _PATCH_HEAD.pack(_PATCH_MAGIC, len(body), crc32c(body)) + body)
        self._disk.sync(patch)
        self._disk.sync_dir(directory)

    def _mend(self) -> None:
        """Finish an overwriting that was cut short."""
        patch = self._path + PATCH
        try:
            data = self._disk.read(patch, 0, self._disk.size(patch))
        except FileNotFoundError:
            return
        frames = _frames_in(data)
        try:
            if frames:
                self._put(frames)
            self._drop_patch()
        except OSError:
            # Readers are shown what belongs there; the next one to open the file tries again.
            self._shown = {
                index: block for index, block in (block_in(frame, self._salt) for _, frame in frames) if block
            }

    def _drop_patch(self) -> None:
        """Remove what `_keep` made. It is overwritten first: a later erasure may be of something that it holds."""
        patch = self._path + PATCH
        self._disk.overwrite(patch, [(0, bytes(self._disk.size(patch)))])
        self._disk.sync(patch)
        self._disk.remove(patch)
        self._disk.sync_dir(patch.rsplit("/", 1)[0])


def _frames_in(data: bytes) -> list[tuple[int, bytes]]:
    """What a `.patch` holds; nothing if it was not finished: then nothing in the segment was touched."""
    if len(data) < _PATCH_HEAD.size:
        return []
    magic, length, stated = _PATCH_HEAD.unpack_from(data)
    body = data[_PATCH_HEAD.size : _PATCH_HEAD.size + length]
    if magic != _PATCH_MAGIC or len(body) != length or crc32c(body) != stated:
        return []
    try:
        frames = msgspec.msgpack.decode(body, type=list[tuple[int, bytes]])
    except UNREADABLE:
        return []
    return frames if all(HEADER_BYTES <= at < _OFFSET_END for at, _ in frames) else []
