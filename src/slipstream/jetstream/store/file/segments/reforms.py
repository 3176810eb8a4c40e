"""Closed segments that are in another form than they should be: sealed or not, packed or not.

A rewrite has the same bytes at the same offsets, under a higher generation: so nothing but the name of the file and its
header changes for the index, and a crash leaves either the old file or the new one in force. The new one is read back
and compared before that.

What this is not: a compaction. Nothing is left out; and segments with damage stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from slipstream.dataclass import dataclass
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.erasures import LogErasures
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.pending_files import PendingFiles
from slipstream.jetstream.store.file.segments.compaction import write_whole_file
from slipstream.jetstream.store.file.segments.open_segment import Segment, encode_controls, index_path, scan_segment
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader, encode_header, segment_name
from slipstream.jetstream.store.file.upkeep_jobs import UpkeepJob
from slipstream.jetstream.store.packed.codecs import Codec
from slipstream.kernels.log.segindex import encode_index

__all__ = ["ReformJob", "Reforms"]


@dataclass(slots=True)
class ReformJob(UpkeepJob):
    """Write one closed segment again in another form."""

    segment: Segment | None = None
    header: SegmentHeader | None = None
    """Of the new file."""
    erasures_before: int = 0
    damaged: bool = False

    @property
    def path(self) -> str:
        """The new file."""
        assert self.header is not None
        return f"{self.directory}/{segment_name(self.header.no, self.header.generation)}"

    def work(self) -> None:
        """Read it all, check every checksum, write it, and read it back."""
        assert self.segment is not None and self.header is not None
        end = self.segment.end
        data = self.disk.read(self.segment.path, 0, end)
        scan = scan_segment(data, self.segment.header, ends=True)
        if scan.regions or scan.holes or scan.good_end != end:
            self.damaged = True
            return
        write_whole_file(self.disk, self.path, encode_header(self.header) + data[HEADER_BYTES:])
        if self.disk.read(self.path, HEADER_BYTES, end) != data[HEADER_BYTES:]:
            self.disk.remove(self.path)
            raise StorageFault("a segment that was written again does not read back", path=self.path)
        if not self.segment.void:
            write_whole_file(self.disk, index_path(self.path), encode_index(scan, encode_controls(scan)))
        self.disk.sync_dir(self.directory)


class Reforms:
    """The forms of one store's segments."""

    __slots__ = ("_codec", "_directory", "_disk", "_erasures", "_files", "_log")

    def __init__(
        self, log: SegmentedLog, erasures: LogErasures, files: PendingFiles, disk: Disk, directory: str, codec: Codec
    ) -> None:
        """Keep closed segments packed in this way."""
        self._log = log
        self._erasures = erasures
        self._files = files
        self._disk = disk
        self._directory = directory
        self._codec = Codec.NONE
        self.pack_with(codec)

    @property
    def codec(self) -> Codec:
        """What closed segments should be packed with."""
        return self._codec

    def pack_with(self, codec: Codec) -> None:
        """Pack closed segments in this way from now on, those that are there as well."""
        self._codec = codec if self._disk.seal.packs else Codec.NONE

    def begin(self, closed: list[Segment]) -> ReformJob | None:
        """The next of these that is not as it should be. Not while something is erased: that is for one file."""
        if not self._disk.seal.packs or self._erasures.unfinished:
            return None
        for segment in closed:
            if segment.damaged or self.is_fine(segment.header):
                continue
            return ReformJob(
                self._disk,
                self._directory,
                segment=segment,
                header=self._wanted(segment.header),
                erasures_before=segment.erasures,
            )
        return None

    def finish(self, done: ReformJob) -> None:
        """Go on with the new file; or without it, if something in the old one was erased meanwhile."""
        segment, header = done.segment, done.header
        assert segment is not None and header is not None
        changed = segment.erasures != done.erasures_before or bool(self._erasures.unfinished)
        if done.damaged:
            segment.damaged = not changed
            return
        if changed or done.fault is not None:
            self._files.leftovers += [done.path, index_path(done.path)]
            return
        self._files.leftovers += [segment.path, index_path(segment.path)]
        segment.path, segment.header = done.path, header
        segment.allocated, segment.indexed, segment.scrub_due = segment.end, True, False
        self._log.manifest_due = True

    def is_fine(self, header: SegmentHeader) -> bool:
        """Whether a segment is in the form that it should have."""
        if bool(header.cipher) != bool(self._disk.seal.cipher):
            return False
        packed = header.codec not in (Codec.NONE, Codec.STORED)
        return header.codec == self.codec if self.codec is not Codec.NONE else not packed

    def _wanted(self, header: SegmentHeader) -> SegmentHeader:
        """The header of the new file. Frames have room for a seal only if they were written to be sealed."""
        seal, codec = self._disk.seal, self.codec
        if codec is Codec.NONE and seal.cipher:
            codec = Codec.STORED
        return replace(
            header,
            generation=header.generation + 1,
            cipher=seal.cipher,
            key_id=seal.key_id,
            wrapped=b"",
            codec=int(codec),
        )
