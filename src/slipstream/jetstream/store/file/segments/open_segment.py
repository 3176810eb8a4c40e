"""One segment of an open stream: its file, and what is known about it."""

from __future__ import annotations

from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES, SegmentHeader
from slipstream.jetstream.store.limits import STORE_SCAN_STEP_RECORDS
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.record import ADD, PUT, REMOVE
from slipstream.kernels.log.segscan import SegmentScan

__all__ = ["Segment", "encode_controls", "index_path", "scan_segment"]


class Segment:
    """One segment file of an open stream."""

    __slots__ = (
        "allocated",
        "damaged",
        "end",
        "erasures",
        "header",
        "id",
        "indexed",
        "last_seq",
        "path",
        "rewrite_below",
        "scrub_due",
        "void",
        "weighed_dead",
    )

    def __init__(self, id_: int, path: str, header: SegmentHeader) -> None:
        """A segment that holds nothing yet."""
        self.id = id_
        """Number in the index; unlike `header.no`, a rewritten segment gets a new one."""
        self.path = path
        self.header = header
        self.allocated = 0
        """Length of the file: space reserved ahead included."""
        self.erasures = 0
        """Overwrites begun in it, so that a scan can tell whether the segment changed meanwhile."""
        self.end = HEADER_BYTES
        """Offset behind the last frame."""
        self.last_seq = header.first_seq - 1
        self.indexed = False
        """Whether a good index file lies beside it."""
        self.scrub_due = False
        """Whether it is to be read and checked once more."""
        self.damaged = False
        """Whether a part could not be read: such a segment is never rewritten or compacted."""
        self.void = False
        """Whether it ends inside a unit that was given up, of a replicated log: see `scan_segment`."""
        self.rewrite_below: int | None = None
        """A rewrite with so many living messages was not worth it: not again before there are fewer."""
        self.weighed_dead = 0
        """Dead messages when it was found to be mostly alive, by bytes."""


def index_path(path: str) -> str:
    """The index file beside a segment."""
    return path.removesuffix(".seg") + ".sdx"


def scan_segment(data: bytes, header: SegmentHeader, *, void: bool = False, ends: bool = False) -> SegmentScan:
    """Everything one segment holds.

    Args:
        data: its bytes.
        header: what they begin with.
        void: but for the unit that is open at its end, which was given up.
        ends: the log went on in another segment from where they end. If that is amid a frame, the rest of it was torn:
            it was cut there, and nothing is missing.
    """
    scan = SegmentScan(data, HEADER_BYTES, header.salt, header.first_seq, header.frame_no)
    while scan.step(STORE_SCAN_STEP_RECORDS):
        pass
    last = scan.regions[-1] if ends and scan.regions else None
    if last is not None and last.unit is None and last.start == last.end == len(data):
        scan.cut(last)
    if void and (unit := scan.open_unit()) is not None:
        scan.cut(unit)
    return scan


def encode_controls(scan: SegmentScan) -> bytes:
    """The control records of a scan as an index file keeps them: states of consumers are read in another way."""
    writer = LogWriter(None)
    writer.open_segment(0, 0, 0, 1 << 62, 0)
    for kind, seq, ts, key, payload in scan.controls:
        if kind in (PUT, ADD, REMOVE):
            continue
        writer.control(kind, seq, ts, key, payload)
    return writer.take()
