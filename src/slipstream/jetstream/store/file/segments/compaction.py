"""Rewriting neighbouring closed segments without what was removed from them.

A compaction is a function of the segments' bytes and of which sequences live: it copies living records unchanged,
puts one SKIP record in the place of each run of others, and carries on what later starts still need (configuration,
trims, tombs of records that still lie in other segments). The new file is complete and synced under a temporary name
before it gets its own; from then on it supersedes the old ones, which are removed later. A crash at any point leaves
either the old segments or the new one in force.

What this is not: a repair. Segments with damage are never rewritten, so that nothing readable by other means is lost.
"""

from __future__ import annotations

from bisect import bisect_left

from slipstream.dataclass import dataclass
from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.jobs import as_fault
from slipstream.jetstream.store.file.segments.open_segment import Segment, encode_controls, index_path, scan_segment
from slipstream.jetstream.store.file.segments.segment import (
    HEADER_BYTES,
    SegmentHeader,
    encode_header,
    pack_seq,
    pack_state,
    segment_name,
    unpack_erase,
    unpack_state,
)
from slipstream.kernels.log.chainlinks import leaf_of, records_of
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.record import CONFIG, ERASE, ERASED, MARK, MSG, NOTE, SKIP, STATE, TOMBS, TRIM
from slipstream.kernels.log.segindex import encode_index
from slipstream.kernels.log.segscan import SegmentScan

__all__ = ["CompactionJob", "write_whole_file"]

_UNBOUNDED = 1 << 62
_LEAVES_A_RECORD = 2047  # as many as a key has room for


@dataclass(slots=True)
class CompactionJob:
    """One rewrite, run in a thread. Afterwards `result` is set, or `fault`, or neither (it was not worth it)."""

    disk: Disk
    directory: str
    inputs: list[Segment]
    live: list[bytes]
    """Living sequences of each input, packed in 64 bits each."""
    elsewhere: bytes
    """Removed sequences whose records still lie in other segments, packed: their tombs must be kept."""
    salt: int
    codec: int = 0
    """What the new segment is packed with."""
    erased: dict[int, bytes] | None = None
    """Of a stream with a hash chain: what stands in it for erased messages."""
    result: tuple[SegmentHeader, str, int, SegmentScan] | None = None
    """Header, path, length and content of the new segment."""
    damaged: list[Segment] | None = None
    fault: StorageFault | None = None
    ended: bool = False

    @property
    def path(self) -> str:
        """The new segment, if it comes to be."""
        return f"{self.directory}/{segment_name(self.inputs[0].header.no, self._generation)}"

    @property
    def _generation(self) -> int:
        return max(segment.header.generation for segment in self.inputs) + 1

    def run(self) -> None:
        """Rewrite."""
        try:
            self._run()
        except Exception as error:
            self.fault = as_fault(error, self.directory)

    def _run(self) -> None:
        first, last = self.inputs[0].header, self.inputs[-1].header
        header = SegmentHeader(
            uid=first.uid,
            no=first.no,
            last_no=last.last_no,
            generation=self._generation,
            first_seq=first.first_seq,
            created_ns=first.created_ns,
            prev_no=first.prev_no,
            prev_generation=first.prev_generation,
            prev_end=first.prev_end,
            frame_no=first.frame_no,
            salt=self.salt,
            cipher=self.disk.seal.cipher,
            key_id=self.disk.seal.key_id,
            codec=self.codec,
        )
        body = self._body(header)
        if body is None:
            return
        data = encode_header(header) + body
        scan = scan_segment(data, header)
        if scan.regions or scan.holes:
            raise AssertionError("a rewritten segment does not read back")
        path = self.path
        write_whole_file(self.disk, path, data)
        write_whole_file(self.disk, index_path(path), encode_index(scan, encode_controls(scan)))
        self.disk.sync_dir(self.directory)
        self.result = (header, path, len(data), scan)

    def _body(self, header: SegmentHeader) -> bytes | None:
        writer = LogWriter(None)
        seal = self.disk.seal
        writer.open_segment(0, self.salt, HEADER_BYTES, _UNBOUNDED, header.frame_no, seal.frame_room, seal.frame_bytes)
        scans, datas = [], []
        for segment in self.inputs:
            data = self.disk.read(segment.path, 0, segment.end)
            scan = scan_segment(data, segment.header, void=segment.void, ends=len(data) == segment.end)
            if scan.regions or scan.holes or len(data) < segment.end:
                self.damaged = [segment]
                return None
            scans.append(scan)
            datas.append(data)
        writer.epoch = max(scan.epoch for scan in scans)
        if self.erased is not None:
            self._end_unit_before(writer, scans[0], header)
            if not self._copy_chained(writer, datas, self.erased):
                return None
            body = writer.take()
            return body if writer.frame_no <= scans[-1].last_frame_no else None
        self._open(writer, header, scans)
        self._end_unit_before(writer, scans[0], header)
        expect = header.first_seq
        for segment, scan, data, packed in zip(self.inputs, scans, datas, self.live, strict=True):
            for seq in memoryview(packed).cast("Q"):
                if seq > expect:
                    writer.control(SKIP, expect, 0, b"", pack_seq(seq - 1))
                place = scan.place(seq)
                if place is None or not writer.copy(data, place, segment.header.salt):
                    self.damaged = [segment]
                    return None
                expect = seq + 1
        end = max(scans[-1].last_seq, self.inputs[-1].last_seq)  # those of a unit that was given up are used
        if expect <= end:
            writer.control(SKIP, expect, 0, b"", pack_seq(end))
        self._carry_on(writer, scans)
        body = writer.take()
        return body if writer.frame_no <= scans[-1].last_frame_no else None

    @staticmethod
    def _end_unit_before(writer: LogWriter, scan: SegmentScan, header: SegmentHeader) -> None:
        """Say that a unit which the segment before began has its end here: else it would count as given up."""
        if scan.unit_continues:
            writer.continue_unit()
            writer.control(MARK, header.first_seq - 1, 0, b"", b"")
            writer.end_unit()

    def _copy_chained(self, writer: LogWriter, datas: list[bytes], erased: dict[int, bytes]) -> bool:
        """Everything that the hash chain covers, with a leaf in the place of each message that is left out."""
        run: list[bytes] = []
        first = 0

        def put_run() -> None:
            if run:
                writer.control(SKIP, first, 0, b"".join(run), pack_seq(first + len(run) - 1))
                run.clear()

        for segment, data, packed in zip(self.inputs, datas, self.live, strict=True):
            live, salt = memoryview(packed).cast("Q"), segment.header.salt
            for place, kind, seq in records_of(data, HEADER_BYTES, segment.end, salt) or ():
                if kind == MARK:
                    continue
                if kind == ERASED or (kind == MSG and not _contains(live, seq)):
                    leaf = erased.get(seq) if kind == ERASED else leaf_of(data, place, salt)
                    if leaf is None:
                        self.damaged = [segment]
                        return False
                    if run and (seq != first + len(run) or len(run) == _LEAVES_A_RECORD):
                        put_run()
                    if not run:
                        first = seq
                    run.append(leaf)
                    continue
                put_run()
                if not writer.copy(data, place, salt):
                    self.damaged = [segment]
                    return False
            put_run()
        return True

    def _open(self, writer: LogWriter, header: SegmentHeader, scans: list[SegmentScan]) -> None:
        """State and configuration, as at the head of every segment."""
        states = [unpack_state(payload) for scan in scans for kind, *_, payload in scan.controls if kind == STATE]
        trims = [seq for scan in scans for kind, seq, *_ in scan.controls if kind == TRIM]
        first_seq = max([state[0] for state in states] + trims, default=1)
        last_ts_ns = max((state[2] for state in states), default=0)
        last_seq = header.first_seq - 1
        writer.begin_local()
        # A trim beyond this segment's own start is repeated as a trim below, where it belongs in the order.
        writer.control(STATE, last_seq, last_ts_ns, b"", pack_state(min(first_seq, last_seq + 1), last_seq, last_ts_ns))
        configs = [payload for scan in scans for kind, *_, payload in scan.controls if kind == CONFIG]
        if configs:
            writer.control(CONFIG, last_seq, last_ts_ns, b"", configs[-1])
        writer.end_local()

    def _carry_on(self, writer: LogWriter, scans: list[SegmentScan]) -> None:
        present = memoryview(self.elsewhere).cast("Q")
        rewritten = {(segment.header.no, segment.header.generation) for segment in self.inputs}
        trim = 0
        # The last word on each note, also that it was removed: an older segment may still hold it.
        notes: dict[bytes, tuple[int, int, bytes]] = {}
        for scan in scans:
            for kind, seq, ts, key, payload in scan.controls:
                if kind == TOMBS:
                    kept = [gone for gone in memoryview(payload).cast("Q") if _contains(present, gone)]
                    if kept:
                        writer.control(TOMBS, seq, ts, b"", b"".join(map(pack_seq, kept)))
                elif kind == TRIM:
                    trim = max(trim, seq)
                elif kind == STATE:
                    trim = max(trim, unpack_state(payload)[0])
                elif kind == ERASE:
                    intent = unpack_erase(payload)
                    if (intent.no, intent.generation) not in rewritten and _contains(present, seq):
                        writer.control(ERASE, seq, ts, key, payload)
                elif kind == NOTE:
                    notes[key] = (seq, ts, payload)
        for key, (seq, ts, payload) in notes.items():
            writer.control(NOTE, seq, ts, key, payload)
        if trim > 1:
            writer.control(TRIM, trim, 0, b"", b"")


def write_whole_file(disk: Disk, path: str, data: bytes) -> None:
    """Make a file that exists whole or not at all; its name becomes durable with the directory."""
    directory, name = path.rsplit("/", 1)
    temporary = path + ".tmp"
    if name + ".tmp" in disk.list_dir(directory):
        disk.remove(temporary)
    disk.create(temporary)
    disk.write(temporary, 0, data)
    disk.sync(temporary)
    disk.rename(temporary, path)


def _contains(sorted_seqs: memoryview, seq: int) -> bool:
    at = bisect_left(sorted_seqs, seq)
    return at < len(sorted_seqs) and sorted_seqs[at] == seq
