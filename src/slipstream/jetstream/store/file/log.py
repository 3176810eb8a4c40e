"""The frame log of one stream: segments in order, the writer at the end, bytes on their way to disk.

    append -> writer's open frame -> (roll) -> queued writes -> a commit takes them -> finished
                    `---------------- readable from memory all the way ----------------'

What this is not: durable by itself. It says what has to be written; `jobs.CommitJob` writes, `commits.LogCommits`
decides when. It does not interpret control records either.

An atomic unit is written like everything else, piece by piece; its messages are in an index of its own until it ends.
Until its end is synced, its segments must not be rewritten, removed or given an index file (`closed_segments`): a crash
would take what is left for whole.

Invariant: every offset in the index is below `writer.position` of its segment, and its bytes are in the writer, in
`tail`, or in the file.
"""

from __future__ import annotations

from itertools import pairwise

from slipstream.jetstream.store.damage import Damage
from slipstream.jetstream.store.file.chain import LogChain, first_link, new_links
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.jobs import SegmentWrite
from slipstream.jetstream.store.file.options import FileStoreOptions
from slipstream.jetstream.store.file.queued_writes import QueuedWrites
from slipstream.jetstream.store.file.recent_bytes import RecentBytes
from slipstream.jetstream.store.file.recovered import RecoveredLog
from slipstream.jetstream.store.file.replica.unapplied_frames import UnappliedFrames
from slipstream.jetstream.store.file.segments.open_segment import Segment
from slipstream.jetstream.store.file.segments.segment import (
    HEADER_BYTES,
    SegmentHeader,
    encode_header,
    pack_state,
    segment_name,
)
from slipstream.jetstream.store.file.segments.table import SegmentTable
from slipstream.jetstream.store.limits import STORE_BLOCK_BYTES, STORE_TAIL_CACHE_BYTES, STORE_WRITE_PIECE_BYTES
from slipstream.jetstream.store.state import StoreState
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.chainlinks import NO_LINK
from slipstream.kernels.log.logwriter import LogWriter
from slipstream.kernels.log.record import CHAIN, CONFIG, MARK, NOTE, STATE
from slipstream.kernels.log.transit import unpack_frame

__all__ = ["SegmentedLog"]


class SegmentedLog:
    """Segments, writer and the bytes not yet (or only just) on disk."""

    __slots__ = (
        "_before_unit",
        "_damage",
        "_directory",
        "_disk",
        "_now_ns",
        "_queue",
        "_queued",
        "_random64",
        "_recent",
        "_replicated",
        "_says_nothing",
        "_state",
        "_unit_given_up",
        "chain",
        "manifest_due",
        "notes",
        "segment_bytes",
        "staged",
        "table",
        "tail",
        "uid",
        "unapplied",
        "unit",
        "unit_segments",
        "writer",
    )

    def __init__(
        self, state: StoreState, damage: Damage, disk: Disk, directory: str, uid: bytes, options: FileStoreOptions
    ) -> None:
        """An empty log without a segment; `adopt` or `start_segment` gives it one."""
        self._state = state
        self._damage = damage
        self._disk = disk
        self._directory = directory
        self._random64 = options.random64
        self._now_ns = options.now_ns
        self.uid = uid
        """Identity of the stream."""
        self.segment_bytes = options.segment_bytes
        """A segment is closed when it has this size."""
        self._replicated = options.replicated
        self.chain: LogChain | None = None
        """The hash chain over its records, if it has one."""
        self.writer = self._new_writer(state.index)
        """Where records are encoded. A repair puts another in its place."""
        self.manifest_due = False
        """Whether segments or configuration are not as the manifest was last made to say."""
        self.table = SegmentTable()
        """Which segments there are."""
        self._queue = QueuedWrites()
        self._recent = RecentBytes()
        self.tail = self._recent.tail
        """Bytes that are queued, being written, or were written last, in the order of the log. Always the same list."""
        self.notes: dict[bytes, bytes] = {}
        """Small facts beside the messages, repeated at the head of every segment."""
        self.unit: tuple[Segment, int, int] | None = None
        """Where the open unit began: segment, offset, and the time of the last message before it."""
        self.staged: MessageIndex | None = None
        """The messages of the open unit."""
        self.unit_segments: list[int] = []
        """Numbers of the segments where units begin whose end is not synced yet."""
        self.unapplied = UnappliedFrames(0, {})
        """The frames of a replica that are not in the index yet."""
        self._before_unit = 0  # in a replicated log: number of the last frame before the open unit
        self._queued = (0, 0)  # ... number and sequence of the last frame that left the writer
        self._unit_given_up = False  # ... since the last segment was made
        self._says_nothing = False  # all that waits in the writer is a mark

    @property
    def segments(self) -> list[Segment]:
        """In order, the one being written last."""
        return self.table.order

    @property
    def active(self) -> Segment:
        """The segment being written."""
        return self.table.order[-1]

    @property
    def first_kept(self) -> int:
        """Everything below was removed on purpose: the first message, or the first lost one."""
        first_seq, first_lost = self._state.index.first_seq, self._damage.first_seq
        return min(first_seq, first_lost) if first_lost else first_seq

    @property
    def pending_bytes(self) -> int:
        """Bytes no commit has taken yet."""
        return self.writer.pending_bytes + self._queue.size

    # --- writing ----------------------------------------------------------------------------------------------------

    def make_room(self, length: int) -> None:
        """Go on in a new segment, large enough for a message of this length."""
        self.roll()
        self.writer.limit = max(self.writer.limit, self.writer.position + length + 1024)

    def pass_on(self) -> None:
        """What waits in the writer is as much as it may have: queue it, the segment goes on."""
        self._queue_writer(closes=False)

    def roll(self) -> None:
        """Close the segment and start the next."""
        self._queue_writer(closes=True)
        self.start_segment()

    def begin_chain(self) -> None:
        """Link everything from here on; before the first segment."""
        self.chain = LogChain(new_links(self.uid, first_link(self.uid)), {}, self.writer.last_seq)
        self.writer.block_max = 0

    def mark(self) -> None:
        """Put a mark into the open frame, in which there is nothing else."""
        self.writer.begin_local()
        self.writer.control(MARK, self._state.index.last_seq, self.writer.last_ts, b"", b"")
        self.writer.end_local()
        self._says_nothing = True

    def start_segment(self) -> None:
        """Begin a segment behind the last one; its file is made by the commit that takes its first bytes."""
        writer = self.writer
        before = self.segments[-1] if self.segments else None
        no = self.table.next_no()
        header = SegmentHeader(
            uid=self.uid,
            no=no,
            last_no=no,
            generation=0,
            first_seq=max(writer.last_seq, self.unapplied.last_seq) + 1,
            created_ns=self._now_ns(),
            prev_no=before.header.last_no if before is not None else 0,
            prev_generation=before.header.generation if before is not None else 0,
            prev_end=before.end if before is not None else 0,
            frame_no=writer.frame_no,
            salt=self._random64(),
            cipher=self._disk.seal.cipher,
            key_id=self._disk.seal.key_id,
        )
        segment = self.table.add(f"{self._directory}/{segment_name(no, 0)}", header)
        seal = self._disk.seal
        writer.open_segment(
            segment.id,
            header.salt,
            HEADER_BYTES,
            self.segment_bytes,
            writer.frame_no,
            seal.frame_room,
            seal.frame_bytes,
        )
        last_seq, last_ts_ns = header.first_seq - 1, writer.last_ts
        writer.begin_local()  # where segments begin and end is the business of this directory
        if self.chain is not None:
            self._link()
        writer.control(STATE, last_seq, last_ts_ns, b"", pack_state(self.first_kept, last_seq, last_ts_ns))
        config, notes = self.unapplied.facts_at_end(self._state.config, self.notes)
        writer.control(CONFIG, last_seq, last_ts_ns, b"", config)
        for key, value in notes.items():
            writer.control(NOTE, last_seq, last_ts_ns, key, value)
        writer.end_local()
        self.manifest_due = True

    def put_frame(self, packed: bytes, frame_no: int, epoch: int) -> tuple[Segment, int, int] | None:
        """Add a frame that another replica made, as it is: nothing of it is indexed. Where it lies, and its length.

        None, and nothing was done: it is not the frame with this number and epoch.
        """
        writer, seal = self.writer, self._disk.seal
        if writer.position + len(packed) > writer.limit and writer.frame_no > self.active.header.frame_no:
            self.roll()
        if writer.pending_bytes:
            self._queue_writer(closes=False)  # the head of the segment
        segment, offset = self.active, writer.position
        frame = unpack_frame(packed, frame_no, epoch, writer.synced_upto, segment.header.salt, seal.frame_room)
        if frame is None:
            return None
        self._queue.add(SegmentWrite(segment, offset, frame, writer.limit))
        self._recent.add(segment.id, offset, frame, segment.header.salt)
        self.manifest_due = True
        segment.end = offset + len(frame)
        writer.open_segment(
            segment.id, segment.header.salt, segment.end, writer.limit, frame_no, seal.frame_room, seal.frame_bytes
        )
        return segment, offset, len(frame)

    def cut(self, segment: Segment, start: int, frame_no: int) -> list[Segment]:
        """End the log in this segment, before the frame behind `frame_no`; the segments that held nothing else.

        Nothing behind it is in the index. What was written stays: the next segment says where the log ended.
        """
        if self.writer.pending_bytes:
            self._queue_writer(closes=False)
        dropped = self._end_before(segment, start)
        self.writer.open_segment(segment.id, segment.header.salt, start, self.segment_bytes, frame_no)
        self.start_segment()
        return dropped

    def take_writes(self) -> list[SegmentWrite]:
        """Everything since the last take, in the order it must reach the disk."""
        if self.writer.pending_bytes:
            self._queue_writer(closes=False)
        return self._queue.take()

    def finish_writes(self) -> None:
        """What was taken last is in the files: keep the newest of it for readers that follow the log."""
        self._queue.finished()
        if self._recent.is_too_long:
            # Half of it goes at once, so that many small commits do not pay for each other's buffers.
            self._recent.shorten(STORE_TAIL_CACHE_BYTES // 2, self._queue.objects())

    def _link(self) -> None:
        """Put a CHAIN record into the open frame; the commit that writes it fills it in."""
        writer = self.writer
        writer.control(CHAIN, writer.last_seq, writer.last_ts, b"", NO_LINK)

    def _new_writer(self, index: MessageIndex) -> LogWriter:
        writer = LogWriter(index)
        # A replica sends what it wrote; a hash chain has one link a commit.
        writer.block_max = 0 if self._replicated or self.chain is not None else STORE_BLOCK_BYTES
        return writer

    def _queue_writer(self, *, closes: bool) -> None:
        segment, writer = self.table.order[-1], self.writer
        if self.chain is not None and writer.pending_bytes and not self._says_nothing:
            self._link()
        self._says_nothing = False
        offset = writer.base
        data = writer.take()
        self._queued = (writer.frame_no, writer.last_seq)
        segment.end = writer.position
        segment.last_seq = max(writer.last_seq, self.unapplied.last_seq)
        creates = self.table.is_uncreated(segment)
        goes_back = creates and self._unit_given_up
        if creates:
            self._unit_given_up = False
            self.table.created(segment)
            header = encode_header(segment.header)
            if len(data) < STORE_WRITE_PIECE_BYTES:
                data, offset = header + data, 0
            else:  # too much to be copied for the sake of one write
                self._queue.add(SegmentWrite(segment, 0, header, writer.limit, creates=True, goes_back=goes_back))
                creates = goes_back = False
        self._queue.add(SegmentWrite(segment, offset, data, writer.limit, creates, closes, goes_back))
        self._recent.add(segment.id, offset, data, segment.header.salt)

    # --- units ------------------------------------------------------------------------------------------------------

    def begin_unit(self, staged: MessageIndex) -> None:
        """What is written from here on is one unit, whose messages are in `staged` until it ends."""
        writer, segment = self.writer, self.active
        last_ts_ns = writer.last_ts
        if self._replicated:  # so that what is in the writer is the unit's alone
            if writer.pending_bytes:
                self._queue_writer(closes=False)
            self._before_unit = writer.frame_no
            self._queued = (writer.frame_no, writer.last_seq)
        elif self.chain is not None and writer.pending_bytes:
            self._link()  # so that there is a link to go back to if the unit is given up
        writer.begin_unit(staged)
        self.staged = staged
        self.unit = (segment, writer.position, last_ts_ns)
        self.unit_segments.append(segment.header.no)

    def end_unit(self) -> None:
        """The unit is whole."""
        self.writer.end_unit()
        self.unit = self.staged = None

    def abandon_unit(self) -> list[Segment]:
        """Go on as if the unit had never begun; the segments that held nothing else.

        If a part of it may be in a file already, a new segment is begun, whose header says that the log ended before
        the unit.
        """
        assert self.unit is not None
        segment, start, last_ts_ns = self.unit
        self.unit = self.staged = None
        self.unit_segments.pop()
        writer = self.writer
        if self._replicated:
            self._void_unit(segment, last_ts_ns)
            return []
        kept_in_memory = writer.segment == segment.id and start >= writer.base
        writer.abandon_unit(start if kept_in_memory else 0, last_ts_ns)
        if kept_in_memory:
            return []
        dropped = self._end_before(segment, start)
        self.start_segment()
        return dropped

    def _void_unit(self, first: Segment, last_ts_ns: int) -> None:
        """The same where a frame may be a majority's as soon as it left the writer: such frames stay in the log.

        What follows them in another segment is not of the unit, so their messages do not count, here or elsewhere.
        Their sequences are not given out again.
        """
        writer, (frame_no, last_seq) = self.writer, self._queued
        writer.abandon_unit(0, last_ts_ns)
        is_closed = self.table.is_uncreated(self.active)
        if is_closed:  # its head was in the writer
            self.table.drop_last()
        segment, seal = self.active, self._disk.seal
        writer.open_segment(
            segment.id, segment.header.salt, segment.end, writer.limit, frame_no, seal.frame_room, seal.frame_bytes
        )
        if frame_no > self._before_unit:  # some of it has left
            for one in self.segments[self.segments.index(first) :]:
                one.void = True
            self._state.index.skip_to(last_seq)
            if is_closed:
                self.start_segment()
            self.end_void_unit()
        elif is_closed:
            self.start_segment()

    def end_void_unit(self) -> None:
        """The frame that follows a unit that was given up: it begins a segment, and has nothing to say."""
        if self.active.end > HEADER_BYTES:
            self.roll()
        self.writer.control(MARK, self._state.index.last_seq, self.writer.last_ts, b"", b"")

    def _end_before(self, segment: Segment, start: int) -> list[Segment]:
        """Forget every byte from here on, written or not; the segments that held nothing else."""
        dropped = self.table.cut_behind(segment)
        gone = {one.id for one in dropped}
        self._queue.cut(segment, start, gone)
        self._recent.forget(gone)
        segment.end = start
        segment.last_seq = max(self.writer.last_seq, self.unapplied.last_seq)
        self._unit_given_up = True
        if not dropped:
            # The segment was not closed yet: what is before this must be safe before the next one exists.
            self._queue.add(SegmentWrite(segment, start, b"", start, closes=True))
        return dropped

    # --- reading ----------------------------------------------------------------------------------------------------

    def slice(self, segment_id: int, offset: int, least: int, most: int) -> tuple[bytes, int, int]:
        """Bytes from `offset` on, from wherever they are; `least` of them unless the log ends before, or fails."""
        writer = self.writer
        segment = self.table.get(segment_id)
        salt = segment.header.salt
        if segment_id == writer.segment and offset >= writer.base:
            return writer.peek(offset, min(most, writer.position - offset)) or b"", offset, salt
        found = self._recent.find(segment_id, offset, least)
        if found is not None:
            return found[0], found[1], salt
        try:
            data = self._disk.read(segment.path, offset, min(most, self._written_end(segment) - offset))
        except OSError:
            return b"", offset, 0  # unreadable now: the caller looks again, then calls the message damaged
        if most > least:
            self._recent.was_read((segment_id, offset, data, salt))
        return data, offset, salt

    def slice_afresh(self, segment_id: int, offset: int, least: int) -> tuple[bytes, int, int]:
        """The same, past the window: what the file says now."""
        self._recent.forget_window()
        return self.slice(segment_id, offset, least, least)

    def _written_end(self, segment: Segment) -> int:
        """Where the bytes of a segment end that a file read may return: what is queued is not there yet."""
        begin = self._recent.begin_of(segment.id)
        if begin is not None:
            return begin
        return self.writer.base if segment.id == self.writer.segment else segment.end

    def rest(self) -> None:
        """Give up copies of what is in the files, unless something is on its way there."""
        if not (self.writer.pending_bytes or self._queue.segments()):
            self.drop_caches()

    def drop_caches(self) -> None:
        """Forget copies of bytes that were overwritten on disk; what is not written yet stays."""
        self._recent.shorten(0, self._queue.objects())
        self._recent.forget_window()

    # --- segments ---------------------------------------------------------------------------------------------------

    def adopt(self, recovered: RecoveredLog) -> None:
        """Take over what recovery read."""
        self._state.replace_index(recovered.index)
        self.chain = recovered.chain
        self.writer = self._new_writer(recovered.index)
        self.writer.epoch = recovered.epoch
        # Everything read back counts as synced from here on: it is what the next start would read as well.
        self.writer.synced_upto = recovered.frame_no
        self.writer.last_ts = recovered.last_ts_ns
        self.table.adopt(recovered.segments, recovered.highest_no)
        self._queue.clear()
        self._recent.clear()
        self.notes = recovered.notes
        self.unit = self.staged = None
        self.unit_segments = []
        self.unapplied = UnappliedFrames(recovered.unapplied_seq, recovered.unapplied_facts)
        self._says_nothing = self._unit_given_up = False
        last = self.segments[-1] if self.segments else None
        self.manifest_due = True
        salt, end = (last.header.salt, last.end) if last is not None else (0, HEADER_BYTES)
        # If the last one is sealed in another way, a new one is begun before anything is written.
        seal = self._disk.seal
        self.writer.open_segment(
            last.id if last is not None else 0,
            salt,
            end,
            self.segment_bytes,
            recovered.frame_no,
            seal.frame_room,
            seal.frame_bytes,
        )

    def closed_segments(self) -> list[Segment]:
        """Segments that get no more bytes, are wholly on disk and hold no part of an unfinished unit.

        The one behind each is on disk as well: a log whose last file goes has no end that the next process could find.
        """
        waiting, creating = self._queue.segments(), self._queue.creating
        closed = [
            segment
            for segment, following in pairwise(self.segments)
            if segment.id not in waiting and following.id not in creating and not self.table.is_uncreated(following)
        ]
        if self.unit_segments:
            return [segment for segment in closed if segment.header.last_no < self.unit_segments[0]]
        return closed

    def drop(self, segments: tuple[Segment, ...]) -> None:
        """Forget segments that hold no message and whose files are gone."""
        gone = {segment.id for segment in segments}
        for id_ in gone:
            self._state.index.drop_segment(id_)
        self.table.drop(gone)
        self._recent.forget_read(gone)
        self.manifest_due = self.manifest_due or bool(gone)

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Put a rewritten segment in the place of the ones it was made from; the index points to it already."""
        self.table.replace(old, new)
        self._recent.forget_window()
        self.manifest_due = True
