"""What lies on a device under a file system: blocks of files, and those of files that are gone.

And who reads them: somebody who has the main key, every block, and what he noted about the files before.
"""

from __future__ import annotations

from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader, decode_header, encode_header
from slipstream.jetstream.store.sealed.boxes import BOX_HEAD, BOX_HEAD_BYTES, BOX_MAGIC, open_box
from slipstream.jetstream.store.sealed.frames import FrameKeys, FrameMap, open_frames
from slipstream.jetstream.store.sealed.keys import DataKey, KeyRing
from slipstream.testing.sim_disk import SimDisk

_SECTOR = 512


class RawDevice(SimDisk):
    """A disk that gives nothing back: what was on stable storage when a file went, or was cut, is still there."""

    def __init__(self) -> None:
        """An empty one."""
        super().__init__()
        self.freed: list[tuple[str, bytes]] = []

    def remove(self, path: str) -> None:
        self._keep(path)
        super().remove(path)

    def rename(self, old: str, new: str) -> None:
        self._keep(new)
        super().rename(old, new)

    def truncate(self, path: str, length: int) -> None:
        self._keep(path)
        super().truncate(path, length)

    def blocks(self) -> list[tuple[str, bytes]]:
        """All that there is: of each file its name, and what it holds or held."""
        return [*self.freed, *((path, bytes(self.content(path))) for path in self.paths())]

    def _keep(self, path: str) -> None:
        try:
            self.freed.append((path, self._inode(path).durable))
        except FileNotFoundError:
            return


def headers_in(blocks: list[tuple[str, bytes]]) -> list[SegmentHeader]:
    """Every header of a segment."""
    found = [decode_header(data[:HEADER_BYTES]) for _, data in blocks]
    return list({(header.no, header.salt): header for header in found if header is not None}.values())


def opened(blocks: list[tuple[str, bytes]], ring: KeyRing, noted: list[SegmentHeader]) -> bytes:
    """All that can be opened: each file under each data key that the main key opens, wherever that lies.

    `noted` are headers as they were once, without their keys: who had them knows identities and salts.
    """
    keys = _keys(blocks, ring)
    blocks = list(dict.fromkeys((path, data.rstrip(b"\0")) for path, data in blocks))
    headers = headers_in([*blocks, *((("", encode_header(header, header.wrapped))) for header in noted)])
    out = []
    for path, data in blocks:
        content = open_box(ring, path.rsplit("/", 1)[1].removesuffix(".tmp"), data)
        out += [] if content is None else [content]
        body = data[HEADER_BYTES:]
        for header in headers if body else ():
            for key in keys:
                frames = FrameKeys(key, header)
                if frames.magic not in body:
                    break  # not of this header
                pieces, _ = open_frames(frames, body, at_end=True, shown={}, base=HEADER_BYTES, seen=FrameMap())
                out.append(b"".join(pieces))
    return b"\n".join(out)


def _keys(blocks: list[tuple[str, bytes]], ring: KeyRing) -> list[DataKey]:
    found: dict[bytes, DataKey] = {}
    for _, data in blocks:
        for at in range(0, len(data), _SECTOR):
            header = decode_header(data[at : at + HEADER_BYTES])
            if header is not None and header.cipher:
                key = ring.open(header.cipher, header.key_id, header.wrapped)
                found |= {header.wrapped: key} if key is not None else {}
            if data[at : at + 8] == BOX_MAGIC and len(data) >= at + BOX_HEAD_BYTES:
                _, cipher, key_id, wrapped, _ = BOX_HEAD.unpack_from(data, at)
                key = ring.open(cipher, key_id, wrapped)
                found |= {wrapped: key} if key is not None else {}
    return list(found.values())
