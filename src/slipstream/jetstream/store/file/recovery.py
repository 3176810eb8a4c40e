"""From a directory to a log that can be read: what is there, what was torn, what is lost.

    list segments -> newest generation of each -> index file or scan -> messages -> tombs, trims, configuration

Recovery only reads. What has to be done afterwards (a sync of what nothing vouches for, a new segment behind a torn
tail, an erasure to finish, an index file to make anew) is in the result, and done by the store.

Torn or damaged? A stretch that cannot be read belongs to frame N. If any frame says `synced_upto >= N`, N was on
stable storage once: this is damage, the messages in it are lost and reported, everything else is kept. If none does
and it lies in the last segment, N was never acknowledged: the log ends before it. Records in front of the stretch in
the same frame are kept, unless the frame belongs to a unit, which goes as a whole. A unit that has no end, in however
many segments, was never acknowledged either: the log ends before it. In a replicated log the frame goes as a whole: it
is an entry.

A closed segment with a good index file is not read: damage in it is found by a read, or by the scrub.

Invariants: nothing is deleted, moved or renumbered; `last_seq` never falls below what any surviving piece knows;
recovery of the same bytes gives the same result.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.chain import LogChain, new_links, with_erasures
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.manifest import Manifest, SegmentEntry, read_manifest
from slipstream.jetstream.store.file.recovered import RecoveredLog, RecoveryReport
from slipstream.jetstream.store.file.segments.choice import SegmentChoice
from slipstream.jetstream.store.file.segments.index_file import read_index_file
from slipstream.jetstream.store.file.segments.open_segment import Segment, index_path, scan_segment
from slipstream.jetstream.store.file.segments.segment import (
    HEADER_BYTES,
    EraseIntent,
    segment_name,
    unpack_erase,
    unpack_state,
)
from slipstream.jetstream.store.indexed import LENGTH_MASK
from slipstream.jetstream.store.ranges import cover, subtract
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.record import (
    CHAIN,
    CONFIG,
    ERASE,
    ERASED,
    NOTE,
    RECORD_HEAD,
    STATE,
    TOMBS,
    TRIM,
    record_kind,
)
from slipstream.kernels.log.segload import load_into
from slipstream.kernels.log.segscan import Region, SegmentScan

__all__ = ["recover_log"]


def recover_log(
    disk: Disk,
    directory: str,
    *,
    seed: int,
    first_id: int,
    log_end: tuple[int, int] | None = None,
    with_manifest: bool = True,
    first_seq: int = 1,
    replicated: bool = False,
) -> RecoveredLog:
    """Read a stream's directory.

    Args:
        disk: where it lies.
        directory: the stream's directory.
        seed: key for the hashes of the index.
        first_id: number of the first segment in the index.
        log_end: segment number and offset behind which the log is to be ignored, after a failed write.
        with_manifest: take from the manifest what the log lost.
        first_seq: everything below is known to be removed, whatever the log says.
        replicated: frames of a unit without an end stay in the log, which others may have, too; none of it is indexed.

    Raises:
        StorageFault: nothing in the directory can be used, not even the manifest.
    """
    recovery = _Recovery(disk, directory, seed, first_id, log_end, first_seq, replicated=replicated)
    return recovery.run(with_manifest=with_manifest)


class _Recovery:
    """One pass over a directory; the fields are the result in the making."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        seed: int,
        first_id: int,
        log_end: tuple[int, int] | None,
        first_seq: int,
        *,
        replicated: bool,
    ) -> None:
        self.disk = disk
        self.replicated = replicated
        self.directory = directory
        self.index = MessageIndex(seed)
        self.log_end = log_end
        self.report = RecoveryReport()
        self.files = SegmentChoice(disk, directory, first_id, log_end, self.report)
        self.segments: list[Segment] = []
        self.uid = b""
        self.config: bytes | None = None
        self.notes: dict[bytes, bytes] = {}
        self.in_unit: list[tuple[Segment, SegmentScan]] = []  # segments read whose last unit has no end so far
        self.first_seq = first_seq
        self.last_ts_ns = 0
        self.tombs: list[bytes] = []
        self.erasures: dict[int, EraseIntent] = {}
        self.link: bytes | None = None  # the last of the hash chain that was read
        self.link_seq = 0  # the last sequence that it covers
        self.leaves: dict[int, bytes] = {}  # what stands in it for erased messages
        self.holes: list[tuple[int, int]] = []
        self.missing: list[SegmentEntry] = []  # gone, with index files that say what else was removed
        self.expiries: list[tuple[int, int]] = []
        self.frame_no = 0
        self.synced_upto = 0
        self.vouched = True
        self.epoch = 0
        self.torn_frame_no: int | None = None  # the first one of the last segment that the log ends before
        self.appendable = True

    def run(self, *, with_manifest: bool) -> RecoveredLog:
        manifest = read_manifest(self.disk, self.directory).manifest
        chosen = self.files.choose(manifest)
        if manifest is None and not chosen:
            raise StorageFault("neither a manifest nor a segment can be read", path=self.directory)
        self.uid = manifest.uid if manifest is not None else chosen[0].header.uid
        for position, segment in enumerate(chosen):
            following = chosen[position + 1] if position + 1 < len(chosen) else None
            self._load(segment, following)
        self._drop_open_unit()
        if manifest is not None and with_manifest:
            self._consult(manifest)
        if self.erasures and max(self.erasures) > self.index.last_seq:
            # The last message was half overwritten when the power went: its sequence is not given out again.
            self.index.skip_to(max(self.erasures))
            self.appendable = False
        needed = {self._index_path_of(entry) for entry in self.missing}
        self.files.superseded += [path for path in self.files.orphans if path not in needed]
        lost = self._settle(manifest)
        return RecoveredLog(
            uid=self.uid,
            config=self.config or b"",
            index=self.index,
            segments=self.segments,
            appendable=self.appendable and bool(self.segments) and self._is_sealed_as_new(),
            highest_no=self.files.highest_no,
            frame_no=self.frame_no,
            synced_upto=self.synced_upto,
            vouched=self.vouched,
            epoch=self.epoch,
            last_ts_ns=self.last_ts_ns,
            lost=lost,
            expiries=[pair for pair in self.expiries if self.index.locate(pair[0]) is not None],
            unfinished_erasures=self._unfinished_erasures(),
            notes=self.notes,
            superseded=self.files.superseded,
            manifest=manifest,
            report=self.report,
            missing=self.missing,
            chain=self._chain(),
        )

    def _is_sealed_as_new(self) -> bool:
        header, seal = self.segments[-1].header, self.disk.seal
        return (header.cipher, header.key_id, header.codec) == (seal.cipher, seal.key_id, 0)

    # --- one segment ------------------------------------------------------------------------------------------------

    def _load(self, segment: Segment, following: Segment | None) -> None:
        header = segment.header
        end: int | None = None
        if following is not None:
            behind = following.header
            if behind.prev_no == header.last_no and behind.prev_generation == header.generation:
                end = behind.prev_end
        elif self.log_end is not None and self.log_end[0] == header.no:
            end = self.log_end[1]
        # How a unit goes on is not in an index file.
        scan = self._from_index_file(segment, end) if following is not None and not self.in_unit else None
        if scan is None:
            scan = self._from_scan(segment, end, is_last=following is None)
        if following is None:
            # The one before it was synced before it was made.
            self.vouched = scan.said_frame_no <= max(scan.synced_upto, self.synced_upto) and not scan.regions
        segment.end = scan.good_end if end is None or following is None else end
        last_frame_no = scan.last_frame_no if self.torn_frame_no is None else self.torn_frame_no - 1
        nothing_left = not last_frame_no > header.frame_no  # but for what is local
        if self.in_unit and (nothing_left or (scan.unit_continues and not scan.unit_ended)):
            self.in_unit.append((segment, scan))
            return
        if self.in_unit and self.replicated and self._gives_up_unit(scan):
            self._void_unit(header.first_seq - 1)
        for earlier, its_scan in self.in_unit:
            self._take(earlier, its_scan)
        self.in_unit = []
        if scan.open_unit() is not None:
            self.in_unit.append((segment, scan))
        else:
            self._take(segment, scan)

    def _gives_up_unit(self, scan: SegmentScan) -> bool:
        """Whether no frame is missing before this segment, and its first is not of the unit that is open.

        Alone a log goes on before a unit that was given up, as the next segment's header says.
        """
        return not scan.unit_continues and scan.first_frame_no == self.in_unit[-1][1].last_frame_no + 1

    def _void_unit(self, last_seq: int) -> None:
        """The unit that is open was given up, in a replicated log. Its sequences were used."""
        void = [segment for segment, _ in self.in_unit]
        self._take_without_unit()
        reached = [*(segment.header.first_seq - 1 for segment in void[1:]), last_seq]
        for segment, seq in zip(void, reached, strict=True):
            segment.last_seq = seq
        self.index.skip_to(last_seq)

    def _take_without_unit(self) -> None:
        """Add what segments hold but for the unit that is open at their ends."""
        for segment, scan in self.in_unit:
            unit = scan.open_unit()
            if unit is not None:  # else nothing of it is left there
                scan.cut(unit)
            segment.void = True
            self.index.skip_to(segment.header.first_seq - 1)
            self._take(segment, scan)
        self.in_unit = []

    def _drop_open_unit(self) -> None:
        """The log is at its end inside a unit: end it before the unit, whether or not its parts were synced."""
        if not self.in_unit:
            return
        if self.replicated:
            self._take_without_unit()
            return
        (segment, scan), *rest = self.in_unit
        unit = scan.open_unit()
        assert unit is not None and unit.unit is not None
        self.report.torn_seqs = scan.seqs_from(unit.unit[1])
        segment.end = scan.cut(unit)
        self.report.torn_bytes += max(unit.end - segment.end, 8)
        self._take(segment, scan)
        for later, its_scan in rest:
            self.files.superseded.append(later.path)
            self.report.torn_bytes += its_scan.good_end - HEADER_BYTES
        self.appendable = False

    def _take(self, segment: Segment, scan: SegmentScan) -> None:
        """Add what a segment holds."""
        if self.segments and segment.header.first_seq > self.index.last_seq + 1:
            self.holes.append((self.index.last_seq + 1, segment.header.first_seq - 1))
        segment.last_seq = scan.last_seq
        self.segments.append(segment)
        self.holes += scan.holes
        self.expiries += scan.expiries
        self.frame_no = max(self.frame_no, scan.last_frame_no)
        self.synced_upto = max(self.synced_upto, scan.synced_upto)
        self.epoch = max(self.epoch, scan.epoch)
        self._apply(scan)
        if len(scan) and scan.base_seq <= self.index.last_seq:
            # Two segments claim the same sequences: keep what came first, report the other file.
            self.report.damaged_regions.append((segment.path, 0, segment.end))
            segment.damaged = True
            self.appendable = False  # what would be added to it would not be found either
            return
        load_into(scan, self.index, segment.id)

    def _from_index_file(self, segment: Segment, end: int | None) -> SegmentScan | None:
        path = index_path(segment.path)
        if path.rsplit("/", 1)[1] not in self.files.present:
            return None
        scan = read_index_file(self.disk, path, salt=segment.header.salt, first_seq=segment.header.first_seq)
        if scan is None or (end is not None and scan.good_end != end):
            return None
        if self.disk.size(segment.path) < scan.good_end:
            return None
        segment.indexed = True
        segment.damaged = bool(scan.holes)
        return scan

    def _from_scan(self, segment: Segment, end: int | None, *, is_last: bool) -> SegmentScan:
        size = self.disk.size(segment.path)
        data = self.disk.read(segment.path, 0, size if end is None or is_last else min(end, size))
        segment.allocated = len(data)
        untouched = end is None or not data[end:].strip(b"\0")
        if end is not None:
            data = data[:end]
        scan = scan_segment(data, segment.header, ends=len(data) == end)
        if not is_last:
            self.report.rebuilt_indexes += 1
        if is_last and end is None:
            self._cut_torn_tail(segment, scan, len(data))
        elif end is not None and scan.good_end < end:
            # The log went on from here once, and now there is nothing.
            self.report.damaged_regions.append((segment.path, scan.good_end, end))
            segment.damaged = True
        for region in scan.regions:
            self.report.damaged_regions.append((segment.path, region.start, region.end))
            segment.damaged = True
        if segment.damaged and not is_last:
            self._remove_as_told(index_path(segment.path), segment.header.salt, segment.header.first_seq)
        if is_last and (segment.damaged or not untouched):
            self.appendable = False
        return scan

    def _cut_torn_tail(self, segment: Segment, scan: SegmentScan, size: int) -> None:
        """End the log before the first stretch that was never synced; see the module docstring."""
        synced = max(scan.synced_upto, self.synced_upto)
        doubtful = (region for region in scan.regions if region.start >= scan.vouched_end)
        torn: Region | None = next((region for region in doubtful if region.frame_no > synced), None)
        if torn is None:
            return
        end = max([torn.end, *(region.end for region in scan.regions)], default=torn.end)
        if self.replicated:
            # A frame is an entry, or it is not there. What is before it in its unit may be what others have.
            self.report.torn_seqs = scan.seqs_from(torn.frame[1] if torn.frame is not None else torn.messages)
            start = scan.cut_frame(torn)
        else:
            self.report.torn_seqs = scan.seqs_from(torn.unit[1] if torn.unit is not None else torn.messages)
            start = scan.cut(torn)
        self.torn_frame_no = torn.frame_no
        self.report.torn_bytes += max(min(end, size) - start, 8)
        self.appendable = False

    def _apply(self, scan: SegmentScan) -> None:
        if len(scan):
            self.last_ts_ns = max(self.last_ts_ns, scan.last_ts)
        for kind, seq, _ts, key, payload in scan.controls:
            if kind in (TOMBS, TRIM, ERASE):
                self._remove(kind, seq, _ts, key, payload)
            elif kind == CONFIG:
                self.config = payload
            elif kind == STATE:
                first_seq, _last_seq, last_ts_ns = unpack_state(payload)
                self.first_seq = max(self.first_seq, first_seq)
                self.last_ts_ns = max(self.last_ts_ns, last_ts_ns)
            elif kind == CHAIN:
                self.link, self.link_seq = payload, seq
            elif kind == NOTE:
                if payload:
                    self.notes[key] = payload
                else:
                    self.notes.pop(key, None)

    def _remove(self, kind: int, seq: int, _ts: int, key: bytes, payload: bytes) -> None:
        """What a record says about messages that are gone; another kind says nothing."""
        if kind == TOMBS:
            self.tombs.append(payload)
        elif kind == TRIM:
            self.first_seq = max(self.first_seq, seq)
        elif kind == ERASE:
            self.erasures[seq] = unpack_erase(payload)
            if key:
                self.leaves[seq] = key

    # --- the whole --------------------------------------------------------------------------------------------------

    def _consult(self, manifest: Manifest) -> None:
        """Take from the manifest what the log lost."""
        if self.config is None:
            self.config = manifest.config
        self.first_seq = max(self.first_seq, manifest.first_seq)
        self.last_ts_ns = max(self.last_ts_ns, manifest.last_ts_ns)
        numbers = [segment.header.no for segment in self.segments]
        reached = list(accumulate((segment.header.last_no for segment in self.segments), max, initial=0))
        for entry in manifest.segments:
            if reached[bisect_right(numbers, entry.no)] < entry.no and entry.last_seq >= self.first_seq:
                self.report.missing_segments.append(entry.no)
                self.holes.append((entry.first_seq, entry.last_seq))
                if self._remove_as_told(self._index_path_of(entry), entry.salt, entry.first_seq):
                    self.missing.append(entry)
        if manifest.last_seq > self.index.last_seq:
            self.holes.append((self.index.last_seq + 1, manifest.last_seq))
            self.index.skip_to(manifest.last_seq)
            self.appendable = False

    def _remove_as_told(self, path: str, salt: int, first_seq: int) -> bool:
        """Of a segment that is gone or damaged, remove what its index file says; whether there is such a file.

        Damaged segments keep it: they are neither indexed anew nor compacted.
        """
        scan = read_index_file(self.disk, path, salt=salt, first_seq=first_seq)
        for control in scan.controls if scan is not None else ():
            self._remove(*control)
        return scan is not None

    def _index_path_of(self, entry: SegmentEntry) -> str:
        return index_path(f"{self.directory}/{segment_name(entry.no, entry.generation)}")

    def _settle(self, manifest: Manifest | None) -> list[tuple[int, int]]:
        """Apply what removes messages, then tell which of the missing ones were really lost."""
        for payload in self.tombs:
            self.index.delete_many(payload)
        for seq in self.erasures:
            self.index.delete(seq)
        if self.first_seq > self.index.first_seq:
            self.index.trim_to(self.first_seq)
        lost = cover(self.holes + (list(manifest.lost) if manifest is not None else []))
        if not lost:
            return []
        removed: list[tuple[int, int]] = [(0, self.first_seq - 1)] if self.first_seq > 1 else []
        removed += [(seq, seq) for seq in self.erasures]
        for payload in self.tombs:
            removed += [
                (seq, seq) for seq in (int.from_bytes(payload[i : i + 8], "little") for i in range(0, len(payload), 8))
            ]
        return subtract(lost, cover(removed))

    def _chain(self) -> LogChain | None:
        """Where the hash chain goes on: behind its last link, with the records that no link covers yet."""
        if self.link is None:
            return None
        # Damaged or not, the last link that was read is one: what does not fit before it stays to be seen.
        links = new_links(self.uid, self.link[8:], int.from_bytes(self.link[:8], "little"))
        behind: list[tuple[bytes, Segment]] = []
        for segment in reversed(self.segments):
            data = self.disk.read(segment.path, 0, segment.end)
            data = with_erasures(data, segment.header, self.erasures)
            found = new_links(self.uid)
            if found.resume(data, HEADER_BYTES, segment.end, segment.header.salt, self.leaves):
                for later, its in reversed(behind):
                    found.absorb(later, HEADER_BYTES, its.end, its.header.salt, self.leaves)
                links = found
                break
            behind.append((data, segment))
        # A checkpoint must not speak of messages that its link does not cover.
        return LogChain(links, self.leaves, self.link_seq if links.unlinked else self.index.last_seq)

    def _unfinished_erasures(self) -> list[tuple[int, EraseIntent]]:
        """Logged intents whose record is still readable, or half overwritten: with the place where it lies now."""
        unfinished = []
        by_id = {segment.id: segment for segment in self.segments}
        by_name = {(segment.header.no, segment.header.generation): segment for segment in self.segments}
        for seq, logged in self.erasures.items():
            intent = logged
            place = self.index.record_place(seq)
            if place is not None:
                header = by_id[place[0]].header
                intent = EraseIntent(header.no, header.generation, place[1], place[2])
            segment = by_name.get((intent.no, intent.generation))
            length = intent.length & LENGTH_MASK
            if segment is None or length < RECORD_HEAD or not HEADER_BYTES <= intent.offset <= segment.end - length:
                continue
            record = self.disk.read(segment.path, intent.offset, length + 8)
            if record_kind(record, 0, segment.header.salt) != ERASED:
                unfinished.append((seq, intent))
        return unfinished
