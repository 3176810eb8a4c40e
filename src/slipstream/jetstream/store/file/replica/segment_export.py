"""A replica's log as files for another: all segments up to a committed frame, and what is applied there.

While one is open, segments stay as they are: nothing is removed or rewritten. An erasure still overwrites, and who gets
such a file finds that its digest is wrong, and begins again.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

from slipstream.dataclass import dataclass
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.replica.applied_file import APPLIED_NAME, Applied, encode_applied
from slipstream.jetstream.store.file.replica.log import ReplicaLog
from slipstream.jetstream.store.file.replica.segment_transfer import (
    DIGEST_BYTES,
    FileEntry,
    Membership,
    SegmentManifest,
    encode_manifest,
    manifest_id,
)
from slipstream.jetstream.store.file.segments.open_segment import Segment
from slipstream.jetstream.store.file.segments.segment import encode_header
from slipstream.jetstream.store.limits import STORE_PIECE_BYTES

__all__ = ["SegmentExport"]


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    path: str
    head: bytes
    """The first bytes, which are not those of the file: a header says how a file is kept here."""
    size: int


class SegmentExport:
    """One copy for another replica; `close` has to follow."""

    def __init__(
        self, disk: Disk, replica: ReplicaLog, applied: Applied, segments: list[tuple[Segment, int]], salt: int
    ) -> None:
        """These segments, each to its end; nothing is read yet."""
        self._disk = disk
        self._replica: ReplicaLog | None = replica
        self._applied = applied
        said = encode_applied(applied, salt)
        self._parts = [_Part(APPLIED_NAME, "", said, len(said))]
        for segment, end in segments:
            header = replace(segment.header, cipher=0, key_id=0, wrapped=b"", codec=0)
            name = segment.path.rsplit("/", 1)[1]
            self._parts.append(_Part(name, segment.path, encode_header(header), end))
        self.manifest = b""
        """What there is, once `prepare` has run."""
        self.id = b""
        """What the messages about it call it."""
        replica.pin()

    @property
    def frame(self) -> int:
        """The last frame in it."""
        return self._applied.frame

    @property
    def term(self) -> int:
        """Of that frame."""
        return self._applied.term

    def prepare(self, membership: Membership) -> None:
        """Read everything, and make the manifest. Blocks, for as long as reading takes.

        Raises:
            StorageFault: something cannot be read.
        """
        files = []
        for number, part in enumerate(self._parts):
            digest = blake2b(digest_size=DIGEST_BYTES)
            for offset in range(0, part.size, STORE_PIECE_BYTES):
                digest.update(self.read(number, offset, STORE_PIECE_BYTES))
            files.append(FileEntry(part.name, part.size, digest.digest()))
        manifest = SegmentManifest(self._applied.uid, self._applied.frame, self._applied.term, membership, files)
        self.manifest = encode_manifest(manifest)
        self.id = manifest_id(self.manifest)

    def read(self, file: int, offset: int, length: int) -> bytes:
        """A piece of a file, up to its end. Blocks.

        Raises:
            StorageFault: there is no such place, or it cannot be read.
        """
        if not 0 <= file < len(self._parts) or not 0 <= offset < self._parts[file].size:
            raise StorageFault(f"no byte {offset} in file {file}")
        part = self._parts[file]
        end = min(offset + length, part.size)
        content = part.head[offset:end]
        if end > len(part.head):
            start = max(offset, len(part.head))
            try:
                content += self._disk.read(part.path, start, end - start)
            except OSError as error:
                raise StorageFault(str(error), path=part.path) from error
        if len(content) != end - offset:
            raise StorageFault("the file is shorter than it was", path=part.path)
        return content

    def close(self) -> None:
        """Segments may go again."""
        replica, self._replica = self._replica, None
        if replica is not None:
            replica.unpin()
