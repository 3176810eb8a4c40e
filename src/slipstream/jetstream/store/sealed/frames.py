"""Segments and journals: every frame sealed by itself, in its place.

    frame head (64, readable, bound)    records, sealed    tag (16)    run (8)

A sealed frame has the offset and the length of the plain one, which ends with 24 bytes of room for tag and run: so what
the store knows about places in files is the same for both, and opening a stretch of a file is a function of its bytes.

The key of a frame is made from the data key, the identity of the file and the run; the nonce is the frame's number. A
run is 8 random bytes that a writer draws for one file, and draws anew when it would seal a number that is not above
the last one it has sealed (after a failed write, a restart, an overwriting). So no number meets a key twice.

Bytes that do not check out are never shown: they read as 0xFF, which is neither a record nor a frame nor free space.
The head of such a frame is shown, if its checksum holds: it tells a torn tail from damage.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from typing import Final

from cryptography.exceptions import InvalidTag

from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader
from slipstream.jetstream.store.sealed.keys import TAG_BYTES, Aead, DataKey
from slipstream.kernels.log.record import FRAME_HEAD_BYTES, crc32c

__all__ = ["FRAME_ROOM", "SEALED_FRAME_BYTES", "FrameKeys", "FrameMap", "FrameSealer", "hidden", "open_frames"]

RUN_BYTES: Final = 8
FRAME_ROOM: Final = TAG_BYTES + RUN_BYTES
SEALED_FRAME_BYTES: Final = 32768
"""A frame is closed when it grows beyond: what one point read has to open, and what one flipped bit costs."""
_MAP_STEP: Final = 16384  # between the frames whose places are remembered
_HEAD: Final = struct.Struct("<IIQ")
_MAGIC: Final = 0x31524653
_FILL: Final = b"\xff"
_ROOM: Final = bytes(FRAME_ROOM)
_IDENTITY: Final = struct.Struct("<16sQIQ")


class FrameKeys:
    """Keys of the frames of one file."""

    __slots__ = ("_identity", "_key", "_runs", "magic", "salt")

    def __init__(self, key: DataKey, header: SegmentHeader) -> None:
        """For the file with this header."""
        self._key = key
        self._identity = _IDENTITY.pack(header.uid, header.no, header.generation, header.salt)
        self._runs: dict[bytes, Aead] = {}
        self.salt = header.salt & 0xFFFFFFFF
        self.magic = (_MAGIC ^ self.salt).to_bytes(4, "little")

    def of_run(self, run: bytes) -> Aead:
        """The key of one run."""
        found = self._runs.get(run)
        if found is None:
            if len(self._runs) >= _RUNS_MAX:
                self._runs.clear()
            found = self._runs[run] = self._key.derive(b"frames", self._identity, run)
        return found

    def frame_at(self, data: bytes | bytearray | memoryview, at: int) -> tuple[int, int] | None:
        """Length and number of the frame whose head is there, if one is."""
        if data[at : at + 4] != self.magic or len(data) < at + FRAME_HEAD_BYTES:
            return None
        if crc32c(bytes(data[at : at + 60]), self.salt) != int.from_bytes(data[at + 60 : at + 64], "little"):
            return None
        _, length, number = _HEAD.unpack_from(data, at)
        return (length, number) if length >= FRAME_HEAD_BYTES + FRAME_ROOM and length % 8 == 0 else None

    def next_frame(self, data: bytes | bytearray, at: int) -> int:
        """Where the next head of a frame is, at steps of 8 bytes from a frame's place; the end if there is none."""
        found = data.find(self.magic, at)
        while found >= 0:
            if (found - at) % 8 == 0 and self.frame_at(data, found) is not None:
                return found
            found = data.find(self.magic, found + 1)
        return len(data)

    def seal(self, run: bytes, number: int, frame: bytes) -> list[bytes]:
        """A frame with the seal in its room, in pieces."""
        head = frame[:FRAME_HEAD_BYTES]
        body = frame[FRAME_HEAD_BYTES : len(frame) - FRAME_ROOM]
        return [head, self.of_run(run).encrypt(number.to_bytes(12, "little"), body, head), run]

    def open(self, frame: bytes, number: int) -> bytes | None:
        """A sealed frame as it was before; None if it does not check out."""
        body = self.open_body(memoryview(frame), number)
        return None if body is None else b"".join((frame[:FRAME_HEAD_BYTES], body, _ROOM))

    def open_body(self, frame: memoryview, number: int) -> bytes | None:
        """The same for what is between head and seal."""
        try:
            key = self.of_run(bytes(frame[len(frame) - RUN_BYTES :]))
            sealed = frame[FRAME_HEAD_BYTES : len(frame) - RUN_BYTES]
            return key.decrypt(number.to_bytes(12, "little"), sealed, frame[:FRAME_HEAD_BYTES])
        except InvalidTag:
            return None

    def open_into(self, frame: memoryview, number: int, room: memoryview) -> None:
        """The same into memory that is as long; if it does not check out, nothing of it is shown there."""
        try:
            key = self.of_run(bytes(frame[len(frame) - RUN_BYTES :]))
            sealed = frame[FRAME_HEAD_BYTES : len(frame) - RUN_BYTES]
            key.decrypt_into(number.to_bytes(12, "little"), sealed, frame[:FRAME_HEAD_BYTES], room)
        except InvalidTag:
            room[:] = _FILL * len(room)


class FrameSealer:
    """Seals what a writer adds to one file."""

    __slots__ = ("_keys", "_number", "_run")

    def __init__(self, keys: FrameKeys, run: bytes) -> None:
        """Begin a run, with a random name."""
        self._keys = keys
        self._run = run
        self._number = -1

    def takes(self, number: int) -> bool:
        """Whether this run may still seal the frame with this number."""
        return number > self._number

    def seal(self, data: bytes, at: int, out: list[bytes]) -> list[tuple[int, int]]:
        """Seal the frames from `at` on; gives where each begins in the data, and its length."""
        places = []
        while at < len(data):
            _, length, number = _HEAD.unpack_from(data, at)
            if not self.takes(number) or length < FRAME_HEAD_BYTES + FRAME_ROOM:
                raise AssertionError("a frame without room, or a number that was used")
            self._number = number
            out += self._keys.seal(self._run, number, data[at : at + length])
            places.append((at, length))
            at += length
        return places

    @staticmethod
    def first_number(data: bytes, at: int) -> int:
        """Number of the frame that begins there."""
        number: int = _HEAD.unpack_from(data, at)[2]
        return number


class FrameMap:
    """Where frames begin in one file: not every one, but one at least every so many bytes."""

    __slots__ = ("_starts", "end")

    def __init__(self) -> None:
        """Nothing is known but where the first one would be."""
        self._starts = array("I", [HEADER_BYTES])
        self.end = HEADER_BYTES
        """Up to here everything is known. A frame may begin here."""

    def add(self, start: int, length: int) -> None:
        """A frame lies here; told in the order of the file."""
        if start < self.end:
            return
        if start - self._starts[-1] >= _MAP_STEP:
            self._starts.append(start)
        self.end = start + length

    def cut(self, offset: int) -> None:
        """What was behind here is written anew."""
        while len(self._starts) > 1 and self._starts[-1] >= offset:
            self._starts.pop()
        self.end = min(self.end, offset)

    def before(self, offset: int) -> int:
        """Where a frame begins at or before this offset, none of the next being far behind."""
        return self._starts[max(bisect_right(self._starts, offset) - 1, 0)]

    def to_bytes(self) -> bytes:
        """What `from_bytes` takes."""
        return struct.pack("<II", len(self._starts), self.end) + self._starts.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> tuple[FrameMap, int] | None:
        """A map, and how many bytes it took; None if there is none."""
        if len(data) < 8:
            return None
        count, end = struct.unpack_from("<II", data)
        size = 8 + 4 * count
        if not count or len(data) < size:
            return None
        found = cls()
        found._starts = array("I", data[8:size])
        found.end = end
        return found, size


_RUNS_MAX: Final = 64


def open_frames(
    keys: FrameKeys, data: bytes | bytearray, *, at_end: bool, shown: dict[int, bytes], base: int, seen: FrameMap
) -> tuple[list[bytes], int]:
    """Open everything in a stretch of a file that begins where a frame does.

    Args:
        keys: of the file.
        data: the stretch.
        at_end: whether the file ends with it: else the last frame may go on behind it, and is left out.
        shown: plain frames by their offset that are in the place of those in the file.
        base: offset of the stretch, up to which `seen` knows all frames.
        seen: is told of every frame.

    Returns:
        The plain bytes in pieces, and how many of the stretch they are; short of its end is a frame that goes on.
    """
    out: list[bytes] = []
    view = memoryview(data)
    at, size = 0, len(data)
    while at < size:
        found = keys.frame_at(data, at)
        if found is None:
            after = keys.next_frame(data, at)
            if not at_end and after == size:
                after = max(size - FRAME_HEAD_BYTES, 0) // 8 * 8  # a head may have begun there
                if after <= at:
                    break
            out.append(hidden(data[at:after]))
            at = after
            continue
        length, number = found
        body: bytes | None = None
        if base + at in shown:
            out.append(shown[base + at])
        elif at + length > size and not at_end:
            break
        else:
            if at + length > size:
                length = size - at
            else:
                body = keys.open_body(view[at : at + length], number)
            out.append(bytes(view[at : at + FRAME_HEAD_BYTES]))
            out += (_FILL * (length - FRAME_HEAD_BYTES),) if body is None else (body, _ROOM)
        seen.add(base + at, length)
        at += length
    return out, at


def hidden(data: bytes | bytearray) -> bytes:
    """What is shown of bytes that belong to no frame: free space as it is."""
    used = (len(data.rstrip(b"\0")) + 7) // 8 * 8
    used = min(used, len(data))
    return _FILL * used + bytes(data[used:])
