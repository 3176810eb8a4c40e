"""Records of a stream in memory: encoded as in a file, into slabs of about a mebibyte.

The open slab is in the writer. A slab is given back when no message in it lives, and rewritten when less than half of
it does.
"""

from __future__ import annotations

from slipstream.jetstream.store.indexed import Stretch
from slipstream.jetstream.store.limits import (
    STORE_COMPACT_LIVE_PERCENT,
    STORE_MEMORY_SLAB_BYTES,
    STORE_SCAN_STEP_RECORDS,
)
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.segload import replace_in
from slipstream.kernels.log.segscan import SegmentScan

__all__ = ["Slabs"]

_UNBOUNDED = 1 << 31
_SALT = 0


class Slabs:
    """The slabs of one store, and the writer at their end."""

    def __init__(self, index: MessageIndex) -> None:
        """An open slab without records."""
        self._index = index
        self._slabs: dict[int, bytes] = {}  # number -> records; the open one is in the writer
        self._last_no = 1  # highest number given to a slab
        # Where the open unit began, None without one: slab, offset in it, time of the last message before.
        self._unit: tuple[int, int, int] | None = None
        self._staged: MessageIndex | None = None  # the messages of the open unit
        self.writer = LogWriter(index)
        """Where records are encoded."""
        self.writer.open_segment(self._last_no, _SALT, 0, _UNBOUNDED, 0)
        self.tail: list[Stretch] = []
        """Nothing: every slab is at hand."""

    @property
    def is_unit_open(self) -> bool:
        """Whether a unit is being written."""
        return self._unit is not None

    @property
    def is_closed_any(self) -> bool:
        """Whether there is a slab that could be given back or rewritten."""
        return bool(self._slabs)

    def slice(self, segment_id: int, offset: int, least: int, most: int) -> tuple[bytes, int, int]:
        """See `ByteSource.slice`."""
        slab = self._slabs.get(segment_id)
        if slab is not None:
            return slab, 0, _SALT
        writer = self.writer
        length = min(most, writer.position - offset)
        return writer.peek(offset, length) or b"", offset, _SALT

    def slice_afresh(self, segment_id: int, offset: int, least: int) -> tuple[bytes, int, int]:
        """See `ByteSource.slice_afresh`."""
        return self.slice(segment_id, offset, least, least)

    # --- writing ----------------------------------------------------------------------------------------------------

    def append(self, seq: int, ts_ns: int, subject: bytes, headers: bytes, payload: bytes, expires_ns: int) -> None:
        """Add a message, to the open unit if there is one."""
        writer = self.writer
        if writer.pending_bytes >= STORE_MEMORY_SLAB_BYTES:
            self._close_slab()
        if not writer.append(seq, ts_ns, subject, headers, payload, expires_ns):
            (self._staged or self._index).skip_to(seq - 1)
            writer.append(seq, ts_ns, subject, headers, payload, expires_ns)

    def close_full(self) -> None:
        """Go on in a new slab if the open one is full."""
        if self.writer.pending_bytes >= STORE_MEMORY_SLAB_BYTES:
            self._close_slab()

    def begin_unit(self, staged: MessageIndex) -> None:
        """What is written from here on is one unit, whose messages are in `staged` until it ends."""
        writer = self.writer
        last_ts_ns = writer.last_ts
        writer.begin_unit(staged)
        self._staged = staged
        self._unit = (writer.segment, writer.position, last_ts_ns)

    def end_unit(self) -> None:
        """The unit is whole."""
        self.writer.end_unit()
        self._unit = self._staged = None

    def abandon_unit(self) -> None:
        """Go on as if the unit, if there is one, had never begun."""
        if self._unit is not None:
            slab, offset, last_ts_ns = self._unit
            self.writer.abandon_unit(offset if slab == self.writer.segment else 0, last_ts_ns)
            self._unit = self._staged = None

    def _close_slab(self) -> None:
        self._slabs[self.writer.segment] = self.writer.take()
        self._last_no += 1
        self.writer.open_segment(self._last_no, _SALT, 0, _UNBOUNDED, self.writer.frame_no)

    # --- giving memory back -----------------------------------------------------------------------------------------

    def give_back(self) -> None:
        """Drop slabs without messages and rewrite one that is mostly dead; none of an open unit."""
        index = self._index
        untouchable = self._unit[0] if self._unit is not None else self._last_no + 1
        for slab in [number for number in self._slabs if not index.segment_has_live(number)]:
            if slab < untouchable:
                del self._slabs[slab]
                index.drop_segment(slab)
        for slab, data in self._slabs.items():
            if slab < untouchable and index.segment_live(slab)[1] * 100 < len(data) * STORE_COMPACT_LIVE_PERCENT:
                self._rewrite(slab, data)
                break

    def clear(self) -> None:
        """Drop everything."""
        self._slabs.clear()

    def _rewrite(self, slab: int, data: bytes) -> None:
        live = memoryview(self._index.live_seqs(slab)).cast("Q")
        writer = LogWriter(None)
        writer.open_segment(0, _SALT, 0, _UNBOUNDED, 0)
        for seq in live:
            place = self._index.locate(seq)
            assert place is not None
            writer.copy(data, place[1], _SALT)
        fresh = writer.take()
        scan = SegmentScan(fresh, 0, _SALT, live[0], 0)
        while scan.step(STORE_SCAN_STEP_RECORDS):
            pass
        self._last_no += 1
        replace_in(scan, self._index, {slab}, self._last_no)
        del self._slabs[slab]
        self._slabs[self._last_no] = fresh
