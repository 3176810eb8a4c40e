"""One sealed segment or journal: what is known about it, and how stretches of it are read and changed.

What this is not: which files are sealed; `disk.SealedDisk` knows.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Final

import msgspec

from slipstream.errors import UNREADABLE
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES
from slipstream.jetstream.store.sealed.boxes import open_box, seal_box
from slipstream.jetstream.store.sealed.frames import (
    FRAME_ROOM,
    RUN_BYTES,
    FrameKeys,
    FrameMap,
    FrameSealer,
    hidden,
    open_frames,
)
from slipstream.jetstream.store.sealed.keys import SEED_BYTES, DataKey, KeyRing
from slipstream.kernels.log.record import FRAME_HEAD_BYTES

__all__ = ["REDO", "FrameFile", "HiddenFile", "NotAtHand"]

REDO: Final = ".redo"
"""Ends the name of the file that holds frames on their way into a segment."""
_PIECE: Final = 1 << 20  # read and opened at once
_PLACES = struct.Struct("=QQ")


class NotAtHand(Exception):
    """Bytes that are not in memory, for a caller that does not wait."""


class FrameFile:
    """See the module docstring."""

    __slots__ = ("_disk", "_key", "_path", "_ring", "_sealer", "_shown", "keys", "map")

    def __init__(self, disk: Disk, path: str, ring: KeyRing, key: DataKey, keys: FrameKeys) -> None:
        """A file with this header."""
        self._disk = disk
        self._path = path
        self._ring = ring
        self._key = key
        self.keys = keys
        self.map = FrameMap()
        """Where its frames begin, as far as that is known."""
        self._sealer: FrameSealer | None = None
        self._shown: dict[int, bytes] = {}  # plain frames that are in the place of those in the file

    def learn(self, seen: FrameMap) -> None:
        """Take over what an index file knows about the frames."""
        if seen.end > self.map.end:
            self.map = seen

    def moved_to(self, path: str) -> None:
        """The file has another name now."""
        self._path = path

    # --- writing ----------------------------------------------------------------------------------------------------

    def seal(self, offset: int, data: bytes, at: int, out: list[bytes]) -> None:
        """Seal the frames in `data` from `at` on, which go to `offset`."""
        if at >= len(data):
            return
        if offset + at < self.map.end:
            self.map.cut(offset + at)
        if self._sealer is None or not self._sealer.takes(FrameSealer.first_number(data, at)):
            self._sealer = FrameSealer(self.keys, self._ring.noise(RUN_BYTES))
        for start, length in self._sealer.seal(data, at, out):
            self.map.add(offset + start, length)

    # --- reading ----------------------------------------------------------------------------------------------------

    def read(self, offset: int, length: int, *, wait: bool = True) -> bytes:
        """A stretch behind the header, opened.

        Raises:
            NotAtHand: without `wait`, if that needs the device.
        """
        fetch = self._fetch if wait else self._fetch_now
        if offset >= self.map.end:
            if not wait and offset > self.map.end:
                raise NotAtHand
            self._explore(offset)
        start = self.map.before(offset)
        out: list[bytes] = []
        at, end, want = start, offset + length, 0
        while at < end:
            asked = max(min(_PIECE, end - at), want, FRAME_HEAD_BYTES)
            data = fetch(at, asked)
            at_end = len(data) < asked
            pieces, done = open_frames(self.keys, data, at_end=at_end, shown=self._shown, base=at, seen=self.map)
            out += pieces
            at += done
            if at_end:
                break
            found = self.keys.frame_at(data, done)
            want = found[0] if found is not None else (2 * asked if not done else 0)
        return b"".join(out)[offset - start : end - start]

    def read_into(self, places: list[tuple[int, int]], room: memoryview, scratch: memoryview, *, wait: bool) -> int:
        """Fill `room` with stretches that are near each other; how many bytes that are. Whole frames are not copied.

        Args:
            places: offset and length of each.
            room: for what is opened.
            scratch: for what is sealed, if that fits; the same memory each time is in the processor's cache.
            wait: for the device.

        Raises:
            NotAtHand: as `read`.
        """
        base = max(places[0][0] - FRAME_HEAD_BYTES, HEADER_BYTES)
        size = sum(places[-1]) + FRAME_ROOM - base
        sealed = scratch[:size] if size <= len(scratch) else memoryview(bytearray(size))
        view, done = self._fetch_into(base, sealed, wait=wait), 0
        for offset, length in places:
            at = offset - FRAME_HEAD_BYTES - base
            found = self.keys.frame_at(view, at) if at >= 0 else None
            end = at + length + FRAME_HEAD_BYTES + FRAME_ROOM
            if found is not None and at + found[0] == end <= len(view) and base + at not in self._shown:
                self.keys.open_into(view[at:end], found[1], room[done : done + length])
                done += length
                continue
            piece = self.read(offset, length, wait=wait)
            room[done : done + len(piece)] = piece
            done += len(piece)
            if len(piece) < length:
                break
        return done

    def _fetch(self, at: int, length: int) -> bytes:
        return self._disk.read(self._path, at, length)

    def _fetch_now(self, at: int, length: int) -> bytes | bytearray:
        room = bytearray(length)
        done = len(self._fetch_into(at, memoryview(room), wait=False))
        return room if done == length else room[:done]

    def _fetch_into(self, at: int, room: memoryview, *, wait: bool) -> memoryview:
        """Fill memory with sealed bytes; what of it was filled, which is all but at the end of the file."""
        done = self._disk.read_stretches(self._path, _PLACES.pack(at, len(room)), room, wait=wait)
        if not wait and done < len(room) and (done == 0 or at + done < self.map.end):
            raise NotAtHand
        return room[:done]

    def _explore(self, offset: int) -> None:
        """Find the frames up to an offset."""
        at, want = self.map.end, FRAME_HEAD_BYTES
        while at <= offset:
            data = self._disk.read(self._path, at, max(want, min(_PIECE, offset - at + FRAME_HEAD_BYTES)))
            done = 0
            while done + FRAME_HEAD_BYTES <= len(data) and at + done <= offset:
                found = self.keys.frame_at(data, done)
                if found is None:
                    after = self.keys.next_frame(data, done)
                    if after == len(data):
                        return  # nothing, or not known to be something: asked again the next time
                    done = after
                    continue
                self.map.add(at + done, found[0])
                done += found[0]
            if not done:
                return
            at += done

    # --- changing ---------------------------------------------------------------------------------------------------

    def overwrite(self, patches: list[tuple[int, bytes]]) -> None:
        """Change bytes inside of frames, which are sealed anew: durable when this returns.

        The new frames are made safe beside the segment before they are written over the old ones, so that a crash in
        between costs nothing; the next who looks at the file finishes it (`mend`).
        """
        spoilt = []
        for offset, data in patches:
            start = self._start_of(offset)
            frame = None if start is None else self._plain(start)
            if start is None or frame is None:
                spoilt.append((offset, data))  # nobody can read it: then at least it is not there
                continue
            at = offset - start
            self._shown[start] = frame[:at] + data + frame[at + len(data) :]
        frames = [(start, self._sealed(start, plain)) for start, plain in sorted(self._shown.items())]
        try:
            if frames:
                self._keep(frames)
            for offset, data in [*spoilt, *frames]:
                self._disk.write(self._path, offset, data)
            self._disk.sync(self._path)
        except OSError:
            # What is in the file counts again: the old frame, or a torn one in whose place the kept one is put.
            self._shown = {}
            with suppress(OSError):
                self.mend()
            raise
        self._shown = {}
        if frames:
            with suppress(OSError):  # the next one to look at the file removes it
                self._forget()

    def mend(self) -> None:
        """Finish an overwriting that was cut short."""
        redo = self._path + REDO
        try:
            data = self._disk.read(redo, 0, self._disk.size(redo))
        except FileNotFoundError:
            return
        content = open_box(self._ring, _name(redo), data)
        try:
            frames = msgspec.msgpack.decode(content, type=list[tuple[int, bytes]]) if content is not None else []
        except UNREADABLE:
            frames = []
        torn = []
        size = self._disk.size(self._path)
        for start, sealed in frames:
            if not HEADER_BYTES <= start <= size - len(sealed):
                continue  # no frame of this file
            found = self.keys.frame_at(sealed, 0)
            plain = self.keys.open(sealed, found[1]) if found is not None else None
            if plain is not None and self._plain(start) is None:
                self._shown[start] = plain
                torn.append((start, sealed))
        try:
            for start, sealed in torn:
                self._disk.write(self._path, start, sealed)
            self._disk.sync(self._path)  # also what looks whole: whoever wrote it may have died before he could
            self._shown = {}
            self._forget()
        except OSError:
            return  # readers are shown what belongs there; the next start tries again

    def _start_of(self, offset: int) -> int | None:
        """Where the frame begins that holds an offset."""
        if offset >= self.map.end:
            self._explore(offset)
        at = self.map.before(offset)
        while at <= offset:
            found = self.keys.frame_at(self._disk.read(self._path, at, FRAME_HEAD_BYTES), 0)
            if found is None:
                return None
            if offset < at + found[0]:
                return at
            at += found[0]
        return None

    def _plain(self, start: int) -> bytes | None:
        """The frame that begins there, opened; None if it does not check out."""
        if start in self._shown:
            return self._shown[start]
        found = self.keys.frame_at(self._disk.read(self._path, start, FRAME_HEAD_BYTES), 0)
        if found is None:
            return None
        data = self._disk.read(self._path, start, found[0])
        return self.keys.open(data, found[1]) if len(data) == found[0] else None

    def _sealed(self, start: int, plain: bytes) -> bytes:
        found = self.keys.frame_at(plain, 0)
        assert found is not None and start >= HEADER_BYTES
        return b"".join(self.keys.seal(self._ring.noise(RUN_BYTES), found[1], plain))

    def _keep(self, frames: list[tuple[int, bytes]]) -> None:
        redo = self._path + REDO
        directory, name = redo.rsplit("/", 1)
        if name in self._disk.list_dir(directory):
            self._forget()
        content = msgspec.msgpack.encode(frames)
        self._disk.create(redo)
        self._disk.write(redo, 0, seal_box(self._key, self._ring.noise(SEED_BYTES), name, content))
        self._disk.sync(redo)
        self._disk.sync_dir(directory)

    def _forget(self) -> None:
        """Remove what `_keep` made. It is overwritten first: a later erasure may be of something that it holds."""
        redo = self._path + REDO
        self._disk.write(redo, 0, bytes(self._disk.size(redo)))
        self._disk.sync(redo)
        self._disk.remove(redo)
        self._disk.sync_dir(redo.rsplit("/", 1)[0])


class HiddenFile:
    """A file without a header, or a plain one where none may be: nothing of it is shown."""

    __slots__ = ("_disk", "_path")

    def __init__(self, disk: Disk, path: str) -> None:
        """This one."""
        self._disk = disk
        self._path = path

    def read_into(self, places: list[tuple[int, int]], room: memoryview, _scratch: memoryview, *, wait: bool) -> int:
        """The same for several stretches."""
        done = 0
        for offset, length in places:
            piece = self.read(offset, length, wait=wait)
            room[done : done + len(piece)] = piece
            done += len(piece)
        return done

    def read(self, offset: int, length: int, *, wait: bool = True) -> bytes:
        """That there is something, and no more."""
        if not wait:
            raise NotAtHand
        return hidden(self._disk.read(self._path, offset, length))


def _name(path: str) -> str:
    return path.rsplit("/", 1)[1]
