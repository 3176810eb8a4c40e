"""Which files of a stream's directory make its log: what was superseded, abandoned or never finished is left out.

Nothing is removed here: files that can go are named.
"""

from __future__ import annotations

from bisect import bisect_right

from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.manifest import Manifest
from slipstream.jetstream.store.file.recovered import RecoveryReport
from slipstream.jetstream.store.file.segments.open_segment import Segment, index_path
from slipstream.jetstream.store.file.segments.segment import (
    HEADER_BYTES,
    SegmentHeader,
    decode_header,
    is_gone,
    is_named,
    parse_name,
)

__all__ = ["SegmentChoice"]


class SegmentChoice:
    """One look at a directory."""

    def __init__(
        self, disk: Disk, directory: str, first_id: int, log_end: tuple[int, int] | None, report: RecoveryReport
    ) -> None:
        """See `recovery.recover_log`; what cannot be used goes into the report."""
        self._disk = disk
        self._directory = directory
        self._next_id = first_id
        self._log_end = log_end
        self._report = report
        self.present: frozenset[str] = frozenset()
        """Names in the directory."""
        self.superseded: list[str] = []
        """Paths of files that can go."""
        self.orphans: list[str] = []
        """Paths of index files without their segment."""
        self.highest_no = 0
        """Highest segment number any file name carries, usable or not."""

    def choose(self, manifest: Manifest | None) -> list[Segment]:
        """The newest generation of every segment, in order, each with a readable header."""
        found: list[Segment] = []
        blank: dict[tuple[int, int], str] = {}
        uid = manifest.uid if manifest is not None else b""
        names = self._disk.list_dir(self._directory)
        self.present = frozenset(names)
        for name in names:
            path = f"{self._directory}/{name}"
            if name.endswith(".tmp"):
                self.superseded.append(path)
                continue
            if name.endswith(".sdx") and name[:-4] + ".seg" not in self.present:
                self.orphans.append(path)
                continue
            parsed = parse_name(name)
            if parsed is None:
                continue
            self.highest_no = max(self.highest_no, parsed[0])
            if self._log_end is not None and parsed[0] > self._log_end[0]:
                self.superseded.append(path)  # made by the write that failed
                continue
            page = self._disk.read(path, 0, HEADER_BYTES)
            header = decode_header(page)
            if header is None and is_gone(page):
                self.superseded += [path, index_path(path)]
                continue
            if header is None and not self._disk.seal.cipher:  # the key of a sealed one is gone with its header
                header = _header_from(manifest, parsed)
            if header is None or not is_named(header, parsed) or (uid and header.uid != uid):
                self._unusable(path, parsed, blank)
                continue
            uid = header.uid  # a stream that is too young for a manifest is what its first segment says
            found.append(Segment(0, path, header))
        self._look_at_blank(blank, found)
        found.sort(key=lambda segment: (segment.header.no, -segment.header.generation))
        chosen: list[Segment] = []
        over: list[SegmentHeader] = []  # of those so far, which reach as far as this one
        for segment in found:
            header = segment.header
            over = [other for other in over if other.last_no >= header.no]
            if any(_supersedes(other, header) for other in over):
                self.superseded += [segment.path, index_path(segment.path)]
            else:
                segment.id = self._next_id
                self._next_id += 1
                chosen.append(segment)
            over.append(header)
        return self._without_abandoned(chosen)

    def _without_abandoned(self, chosen: list[Segment]) -> list[Segment]:
        """Leave out what a later segment says it did not come after: the rest of a unit that was given up."""
        numbers = [segment.header.no for segment in chosen]
        # For each, the lowest place that it or one behind it came after.
        came_after = [segment.header.prev_no or segment.header.no for segment in chosen] + [self.highest_no]
        for at in range(len(chosen) - 1, -1, -1):
            came_after[at] = min(came_after[at], came_after[at + 1])
        kept: list[Segment] = []
        for segment in chosen:
            if came_after[bisect_right(numbers, segment.header.last_no)] < segment.header.no:
                self.superseded += [segment.path, index_path(segment.path)]
            else:
                kept.append(segment)
        return kept

    def _unusable(self, path: str, name: tuple[int, int], blank: dict[tuple[int, int], str]) -> None:
        """A file without a header."""
        size = self._disk.size(path)
        if not self._disk.read(path, 0, size).strip(b"\0"):
            blank[name] = path
            return
        self._report.unusable_files.append(path)
        self._report.damaged_regions.append((path, 0, size))

    def _look_at_blank(self, blank: dict[tuple[int, int], str], found: list[Segment]) -> None:
        """A file in which nothing is was never finished, and nothing in it acknowledged; unless one came after it."""
        headers = [segment.header for segment in found]
        before = {(header.prev_no, header.prev_generation) for header in headers}
        for name, path in blank.items():
            no, generation = name
            is_replaced = any(one.no <= no <= one.last_no and one.generation > generation for one in headers)
            if name in before and not is_replaced:
                self._report.unusable_files.append(path)
                self._report.damaged_regions.append((path, 0, self._disk.size(path)))
            else:
                self.superseded.append(path)


def _header_from(manifest: Manifest | None, parsed: tuple[int, int]) -> SegmentHeader | None:
    """A stand-in for a header that cannot be read: the manifest knows the salt of every segment."""
    for entry in manifest.segments if manifest is not None else ():
        if (entry.no, entry.generation) == parsed and manifest is not None:
            return SegmentHeader(
                manifest.uid, entry.no, entry.no, entry.generation, entry.first_seq, 0, 0, 0, 0, 0, entry.salt
            )
    return None


def _supersedes(newer: SegmentHeader, older: SegmentHeader) -> bool:
    """Whether a compaction wrote `newer` in the place of `older`."""
    return newer.generation > older.generation and newer.no <= older.no and older.last_no <= newer.last_no
