"""A replicated log as Raft has it: a frame is an entry, its number the index, its epoch the term.

    leader:    begin_commit ──► proposals ──► Raft ──► Ready: the same frames, which the commit writes anyway
    followers: Ready ──► write: frames, not indexed ──► commit writes them ──► committed ──► replayed into the index
    reader:    entries, from memory or the files

Entries that Raft makes itself (the empty one of a new term, a membership) are frames with a NOTE that says nothing to
the stream. A tail that another leader's entries replace is cut: the next segment says where the log ended.

Segments with nothing alive go, and mostly dead ones are rewritten, on each replica by itself: `first_index` moves, and
whoever needs an earlier entry gets whole segments. A frame with an erased message is sent as it is now.

A unit is applied at its end: until then its messages are in an index of their own. One that a frame follows which is
not of it was given up, by a leader or with one: its frames stay entries, and its messages are none. The frame that says
so begins a segment, so that whoever reads one knows by its end whether it ends in such a unit.

What this is not: Raft, or who drives it. Whoever does keeps to this: `write` before anything is said about the entries;
messages are appended only by a leader whose first entry is committed, so that the index holds all that came before; a
leader that was deposed ends its commit and opens the log again, which drops what it indexed ahead of the majority and
keeps the frames; after upkeep `RawNode.compact` is told `first_index - 1`; while a store is erasing, commits follow.

Invariants: frames `first_index` to `last_index` lie where `_places` says, without gaps. Those up to `_indexed` are in
the index, no other is; those behind it up to `_replayed` are of an open unit, in `_staged`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.commits import LogCommits
from slipstream.jetstream.store.file.facts import LogFacts
from slipstream.jetstream.store.file.jobs import CommitJob
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.pending_files import PendingFiles
from slipstream.jetstream.store.file.removals import LogRemovals
from slipstream.jetstream.store.file.replica.applied_file import Applied
from slipstream.jetstream.store.file.replica.raft_frames import NORMAL, entry_of, flags_of, raft_frame
from slipstream.jetstream.store.file.replica.recovery import (
    FRAME_FIRST,
    FRAME_LOCAL,
    FRAME_UNIT,
    FramePlace,
    RecoveredReplica,
    facts_of,
    unit_of,
)
from slipstream.jetstream.store.file.replica.states import LoggedStates
from slipstream.jetstream.store.file.segments.open_segment import Segment
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES
from slipstream.jetstream.store.state import StoreState
from slipstream.jetstream.store.values import Committed
from slipstream.kernels.index.subjectindex import MessageIndex
from slipstream.kernels.log.replay import frame_end, replay_frame
from slipstream.kernels.log.transit import frame_heads, pack_frame

__all__ = ["Entry", "ReplicaLog"]

Entry = tuple[int, int, int, bytes]
"""Index, term, kind, data: as the Raft core gives and takes them."""

Control = tuple[int, int, int, bytes, bytes]
"""A record that is no message: kind, sequence, time, key, payload."""

_NEVER: Final = 1 << 62


class ReplicaLog:
    """Frames by their numbers."""

    __slots__ = (
        "_before",
        "_before_seq",
        "_commits",
        "_facts",
        "_files",
        "_first",
        "_indexed",
        "_log",
        "_pins",
        "_places",
        "_random64",
        "_removals",
        "_replayed",
        "_staged",
        "_staged_controls",
        "_staged_expiries",
        "_state",
        "_states",
        "expiries",
        "held",
    )

    def __init__(
        self,
        state: StoreState,
        log: SegmentedLog,
        facts: LogFacts,
        removals: LogRemovals,
        commits: LogCommits,
        files: PendingFiles,
        states: LoggedStates,
        random64: Callable[[], int],
    ) -> None:
        """No frame."""
        self._random64 = random64
        self._state = state
        self._log = log
        self._facts = facts
        self._removals = removals
        self._commits = commits
        self._files = files
        self._states = states
        self._first = 1
        self._before: int | None = 0  # term of the entry before that, None if nobody knows
        self._before_seq = 0  # the sequence that the log had reached there
        self._places: list[FramePlace] = []
        self._indexed = self._replayed = 0
        self._staged: MessageIndex | None = None  # messages of a unit that is committed in part
        self._staged_controls: list[Control] = []
        self._staged_expiries: list[tuple[int, int]] = []
        self.expiries: list[tuple[int, int]] = []
        """Of messages that were replayed."""
        self.held = _NEVER
        """See `hold`."""
        self._pins = 0

    def start_behind(self, last_seq: int) -> None:
        """The log is new, and its first message comes behind this sequence."""
        self._before_seq = last_seq

    def adopt(self, found: RecoveredReplica) -> None:
        """The log was read back, and indexed as far as it is known to be committed."""
        self._first, self._before, self._places = found.first, found.before, found.places
        self._before_seq = found.before_seq
        self._indexed = self._replayed = found.committed
        self._states.adopt(found.states)
        self._commits.commit_frames(found.committed)

    # --- as Raft reads it -------------------------------------------------------------------------------------------

    @property
    def first_index(self) -> int:
        """The first entry that can be read; the one before it is known by its term."""
        return self._first if self._before is not None else self._first + 1

    @property
    def last_index(self) -> int:
        """The last one, committed or not."""
        return self._first + len(self._places) - 1

    @property
    def applied_index(self) -> int:
        """The last one that readers see. After a start it may be above what the file of votes says: this is certain.

        It is never amid a unit.
        """
        index = min(self._indexed, self._commits.committed_frame)
        if index >= self._first and self._places[index - self._first].goes_on:
            return self._places[index - self._first].unit - 1
        return index

    @property
    def synced_index(self) -> int:
        """Those up to here are on stable storage."""
        return min(self._log.writer.synced_upto, self.last_index)

    @property
    def synced_end(self) -> tuple[int, int]:
        """Term and index of the last of them; zeros if it is not as it was written, or there is none."""
        index = self.synced_index
        return (self._places[index - self._first].epoch, index) if index >= self._first else (0, 0)

    def rest(self) -> None:
        """Nothing is about to be written or read: copies of what is in files are of no use."""
        self._log.rest()

    def hold(self, index: int) -> None:
        """Keep entries from this one on as they were written, if they still are: somebody is about to need them."""
        self.held = index

    def terms(self) -> list[tuple[int, int]]:
        """Where each term begins, from the entry before `first_index` on."""
        runs = [(self._first - 1, self._before)] if self._before is not None else []
        for index, place in enumerate(self._places, self._first):
            if not runs or runs[-1][1] != place.epoch:
                runs.append((index, place.epoch))
        return runs

    def entries(self, low: int, high: int, max_bytes: int) -> Sequence[Entry]:
        """Entries from `low` to below `high` as far as they fit into `max_bytes`, at least one.

        Raises:
            StorageFault: one cannot be read.
        """
        return [self._entry(index, place) for index, place in self._range(low, high, max_bytes)]

    def heads(self, low: int, high: int, max_bytes: int) -> Sequence[Entry]:
        """The same without the data of frames that hold messages: these are of the stream, which `commit` reads.

        Raises:
            StorageFault: one cannot be read.
        """
        return [
            (index, place.epoch, NORMAL, b"") if place.last_ts_ns else self._entry(index, place)
            for index, place in self._range(low, high, max_bytes)
        ]

    def _range(self, low: int, high: int, max_bytes: int) -> list[tuple[int, FramePlace]]:
        if low < self._first:
            raise StorageFault(f"entry {low} is gone, the first is {self._first}")
        out: list[tuple[int, FramePlace]] = []
        for index in range(low, high):
            place = self._places[index - self._first]
            max_bytes -= place.length
            if out and max_bytes < 0:
                break
            out.append((index, place))
        return out

    def _entry(self, index: int, place: FramePlace) -> Entry:
        data, at, salt = self._bytes(place)
        packed = pack_frame(data, at, salt)
        if packed is None:
            raise StorageFault(f"frame {index} cannot be read", path=place.segment.path)
        return (index, place.epoch, *entry_of(packed))

    # --- written ----------------------------------------------------------------------------------------------------

    def lead(self, term: int) -> None:
        """This replica leads from now on: its first entry is committed, and so is everything before.

        If it led before in this term, it may have left a unit open then: the next frame says that it is given up.
        """
        self.commit(self.last_index)  # after a log was opened again, a part of a unit may not be replayed yet
        self._log.writer.epoch = term
        if self._staged is not None:
            self._give_up_unit()
            self._indexed = self.last_index
            self._log.end_void_unit()

    def follow(self) -> bool:
        """This replica leads no more. False: it has indexed what is not committed, and has to be opened again."""
        state, log, commits = self._state, self._log, self._commits
        ahead = (
            commits.in_flight is not None
            or not commits.is_settled
            or log.pending_bytes > 0
            or log.unit is not None
            or state.fault is not None
            or state.refusal is not None
            or bool(state.assigned.removals)
            or self._facts.is_waiting
            or self._removals.is_waiting
            or self._states.is_waiting
            or not self._indexed == self.last_index == self.applied_index
        )
        if not ahead:
            log.writer.epoch = 0
        return not ahead

    def proposals(self, job: CommitJob) -> list[bytes]:
        """A leader's commit has begun: its frames, as they are proposed; their numbers are the next indexes."""
        out: list[bytes] = []
        for write in job.writes:
            salt = write.segment.header.salt
            start = HEADER_BYTES if write.offset == 0 else 0
            for number, epoch, flags, at, length in frame_heads(write.data, start, salt):
                if flags & FRAME_LOCAL or number <= self.last_index:
                    continue
                packed = pack_frame(write.data, at, salt)
                end = frame_end(write.data, at, salt, self._last_seq)
                assert packed is not None and end is not None and number == self.last_index + 1
                unit = unit_of(number, flags, self._last_place)
                self._places.append(FramePlace(epoch, write.segment, write.offset + at, length, *end, *unit))
                out.append(packed)
        if out:
            assert self._indexed == self.last_index - len(out), "a leader appends behind what is committed"
            self._indexed = self._replayed = self.last_index
        return out

    def write(self, entries: Sequence[Entry]) -> None:
        """Entries to append; one whose index is not new replaces that and everything behind it. A commit has to follow.

        Raises:
            StorageFault: one is not a frame that a log can have; nothing from it on was written.
        """
        log = self._log
        for index, term, kind, data in entries:
            if index < self._first:
                continue  # it was applied long ago
            if index <= self.last_index:
                if self._places[index - self._first].epoch == term:
                    continue  # a leader's own, or sent again
                self._cut(index)
            if index != self.last_index + 1:
                raise StorageFault(f"entry {index} does not follow {self.last_index}")
            packed = data if kind == NORMAL and data else raft_frame(index, term, kind, data)
            end = frame_end(packed, 0, 0, self._last_seq)
            flags, before = flags_of(packed), self._last_place
            gives_up = before is not None and before.goes_on and flags & (FRAME_UNIT | FRAME_FIRST) != FRAME_UNIT
            if gives_up and log.writer.frame_no > log.active.header.frame_no:
                log.roll()
            put = log.put_frame(packed, index, term) if end is not None else None
            if put is None or end is None:
                raise StorageFault(f"entry {index} of term {term} is no frame of this log")
            segment, offset, length = put
            unit = unit_of(index, flags, before)
            self._places.append(FramePlace(term, segment, offset, length, *end, *unit))
            segment.last_seq = end[0]
            log.unapplied.add(index, end[0], facts_of(packed, 0))
            if not (kind == NORMAL and data) and log.writer.epoch == term and self._indexed == index - 1:
                # A leader's: there is nothing in it to be indexed, and it appends behind it.
                self._indexed = self._replayed = index

    def _cut(self, index: int) -> None:
        """Let the log end before this entry."""
        if index <= self._indexed:
            raise StorageFault(f"entry {index} was indexed, and is to be replaced")
        place = self._places[index - self._first]
        del self._places[index - self._first :]
        self._log.unapplied.cut(index, self._last_seq)
        self._commits.cut(index - 1)
        self._files.abandon(segment.path for segment in self._log.cut(place.segment, place.offset, index - 1))

    # --- committed --------------------------------------------------------------------------------------------------

    def commit(self, index: int) -> Committed:
        """A majority has every entry up to this one: readers see what they hold.

        Raises:
            StorageFault: a frame cannot be read.
        """
        state, log = self._state, self._log
        while self._replayed < min(index, self.last_index):
            number = self._replayed + 1
            place = self._places[number - self._first]
            if self._staged is not None and place.unit in (0, number):
                self._give_up_unit()
            into = self._stage(place, number) if place.unit else state.index
            data, at, salt = self._bytes(place)
            found = replay_frame(data, at, salt, into, place.segment.id, place.offset)
            if found is None:
                raise StorageFault(f"frame {number} cannot be read", path=place.segment.path)
            controls, expiries = found
            self._replayed = number
            if place.unit:
                self._staged_controls += controls
                self._staged_expiries += expiries
                if place.goes_on:
                    continue
                state.index.absorb(into)
                controls, expiries = self._staged_controls, self._staged_expiries
                self._unstage()
            self._removals.replay(controls)
            self._facts.replay(controls)
            self._states.replay(controls)
            self.expiries += expiries
            log.unapplied.apply(self._indexed + 1, number)
            self._indexed = number
            if place.last_ts_ns:
                log.writer.last_ts = state.committed_ts_ns = place.last_ts_ns
            state.committed_seq = place.last_seq
        if self._indexed == self.last_index:
            log.unapplied.clear()
        self._states.commit(index)
        return self._commits.commit_frames(index)

    def _stage(self, place: FramePlace, number: int) -> MessageIndex:
        """Where the messages of a frame are until its unit ends."""
        if self._staged is None:
            if place.unit != number:
                raise StorageFault(f"frame {number} is of a unit whose beginning is not here", path=place.segment.path)
            self._staged = MessageIndex(self._random64())
            self._staged.skip_to(self._state.index.last_seq)
        return self._staged

    def _unstage(self) -> None:
        self._staged, self._staged_controls, self._staged_expiries = None, [], []

    def _give_up_unit(self) -> None:
        """It is committed that the open unit is not to be. Its sequences are used."""
        for number in range(self._indexed + 1, self._replayed + 1):
            self._places[number - self._first].segment.void = True
        self._state.index.skip_to(self._places[self._replayed - self._first].last_seq)
        self._unstage()

    def lacks(self, frame: int, term: int) -> bool:
        """Whether a log that ends with this committed frame may take the place of this one.

        Else the frame is here. If it is not, whatever this log has from there on is not committed, and will not be:
        what is committed has that frame before it.
        """
        if frame < self.first_index - 1 or frame <= self.applied_index:
            return False
        return frame > self.last_index or self._places[frame - self._first].epoch != term

    def pin(self) -> None:
        """Let no segment be removed or rewritten until `unpin`."""
        self._pins += 1

    def unpin(self) -> None:
        """They may go again."""
        self._pins -= 1

    @property
    def is_pinned(self) -> bool:
        """See `pin`."""
        return self._pins > 0

    def to_export(self) -> tuple[Applied, list[tuple[Segment, int]]] | None:
        """What is certain of this log, and the segments up to there, each with its end; None: not now."""
        applied = self.applied(0)
        if applied is None:
            return None
        place = self._places[applied.frame - self._first]
        out: list[tuple[Segment, int]] = []
        for segment in self._log.segments:
            if segment is place.segment:
                return applied, [*out, (segment, place.offset + place.length)]
            out.append((segment, segment.end))
        raise AssertionError("a frame lies in a segment of the log")

    def forget(self) -> None:
        """Segments were removed or rewritten: `first_index` may have moved, and Raft has to be told."""
        first = self._log.table.last_rewritten + 1
        gone = first - self._first
        if gone > 0:
            self._before, self._before_seq = self._places[gone - 1].epoch, self._places[gone - 1].last_seq
            del self._places[:gone]
            self._first = first

    def applied(self, saved: int) -> Applied | None:
        """What is certain of this log now; None if that is no frame behind `saved`, or not on this disk yet."""
        frame = self._states.exact(self.applied_index)
        if frame <= saved or frame < self._first or frame > self._log.writer.synced_upto:
            return None
        epoch = self._places[frame - self._first].epoch
        # A leader of an empty stream skips sequences before that is committed.
        first_seq = min(self._log.first_kept, self._state.committed_seq + 1)
        return Applied(self._log.uid, frame, epoch, first_seq, self._states.committed())

    @property
    def _last_place(self) -> FramePlace | None:
        return self._places[-1] if self._places else None

    @property
    def _last_seq(self) -> int:
        """Sequence that the log has reached, applied or not."""
        return self._places[-1].last_seq if self._places else self._before_seq

    def _bytes(self, place: FramePlace) -> tuple[bytes, int, int]:
        """Bytes that hold a frame, where in them, and their salt."""
        data, base, salt = self._log.slice(place.segment.id, place.offset, place.length, place.length)
        return data, place.offset - base, salt
