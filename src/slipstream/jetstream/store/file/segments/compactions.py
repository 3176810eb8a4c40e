"""Which segments of a stream are rewritten without their dead, and what follows from it; `compaction` does it."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.jetstream.store.file.erasures import LogErasures
from slipstream.jetstream.store.file.log import SegmentedLog
from slipstream.jetstream.store.file.pending_files import PendingFiles
from slipstream.jetstream.store.file.segments.compaction import CompactionJob
from slipstream.jetstream.store.file.segments.kept_segments import KeptSegments
from slipstream.jetstream.store.file.segments.open_segment import Segment, index_path
from slipstream.jetstream.store.file.segments.reforms import Reforms
from slipstream.jetstream.store.file.segments.segment import HEADER_BYTES
from slipstream.jetstream.store.limits import (
    STORE_COMPACT_LIVE_PERCENT,
    STORE_COMPACT_MERGE_MAX,
    STORE_COMPACT_MSGS_MAX,
    STORE_SEGMENT_BYTES_MIN,
    STORE_SEGMENTS_PER_STREAM_MIN,
)
from slipstream.jetstream.store.state import StoreState
from slipstream.kernels.log.segload import replace_in

__all__ = ["Compactions"]


class Compactions:
    """The compactions of one store."""

    __slots__ = ("_directory", "_disk", "_erasures", "_files", "_kept", "_log", "_random64", "_reforms", "_state")

    def __init__(
        self,
        state: StoreState,
        log: SegmentedLog,
        erasures: LogErasures,
        files: PendingFiles,
        kept: KeptSegments,
        reforms: Reforms,
        disk: Disk,
        directory: str,
        random64: Callable[[], int],
    ) -> None:
        """Compact this log."""
        self._state = state
        self._log = log
        self._erasures = erasures
        self._files = files
        self._kept = kept
        self._reforms = reforms
        self._disk = disk
        self._directory = directory
        self._random64 = random64

    def begin(self, closed: list[Segment]) -> CompactionJob | None:
        """The next rewrite that is worth it, of some of these segments."""
        inputs = self._worth_compacting(closed)
        if not inputs:
            return None
        self._erasures.compaction_begins()
        index = self._state.index
        return CompactionJob(
            self._disk,
            self._directory,
            inputs=inputs,
            live=[index.live_seqs(segment.id) for segment in inputs],
            elsewhere=index.removed_seqs({segment.id for segment in inputs}),
            salt=self._random64(),
            codec=self._reforms.codec,
            erased=dict(self._log.chain.erased) if self._log.chain is not None else None,
        )

    def finish(self, done: CompactionJob) -> None:
        """Put the new segment in the place of the old ones, if there is one."""
        for segment in done.damaged or ():
            segment.damaged = True
        if done.result is None or done.fault is not None:
            if done.damaged is None and done.fault is None:
                for segment, live in zip(done.inputs, done.live, strict=True):
                    segment.rewrite_below = len(live) // 8  # do not try the same again at every turn
            if done.fault is not None:  # it may be there, with all that lives now
                self._files.leftovers += [done.path, index_path(done.path)]
            self._erasures.compaction_ends(replaced=False, failed=done.fault is not None)
            return
        header, path, length, scan = done.result
        fresh = Segment(self._log.table.next_id, path, header)
        self._log.table.next_id += 1
        fresh.end = fresh.allocated = length
        fresh.last_seq = done.inputs[-1].last_seq
        fresh.indexed = True
        replace_in(scan, self._state.index, {segment.id for segment in done.inputs}, fresh.id)
        self._log.replace(done.inputs, fresh)
        if self._log.chain is not None:
            self._log.chain.forget_erased(fresh.header.first_seq, fresh.last_seq, self._state.index)
        self._files.leftovers += [path for old in done.inputs for path in (old.path, index_path(old.path))]
        self._erasures.compaction_ends(replaced=True, failed=False)

    def close_dead_segment(self) -> None:
        """Go on in a fresh segment if the open one is mostly dead: only closed ones are rewritten without the dead."""
        if self._log.unit is not None:
            return
        active = self._log.active
        written = active.end - HEADER_BYTES
        alive = self._state.index.segment_live(active.id)[1]
        if written > STORE_SEGMENT_BYTES_MIN and alive * 100 < written * STORE_COMPACT_LIVE_PERCENT:
            self._log.roll()

    def _worth_compacting(self, closed: list[Segment]) -> list[Segment]:
        """The first stretch of neighbouring segments that are mostly dead, or small enough to be merged."""
        index, segment_bytes = self._state.index, self._log.segment_bytes
        counts = {seg: (n, live) for seg, n, live in index.segment_counts()}
        small, kept = segment_bytes // 8, self._kept.ids()
        found: list[Segment] = []
        alive = alive_msgs = 0
        for segment in closed:
            used = count = 0
            messages, living = counts.get(segment.id, (0, 0))
            fits = segment.end < small or self._is_to_be_weighed(segment, messages, living)
            fits = fits and not segment.damaged and segment.id not in kept
            if fits:
                count, used = index.segment_live(segment.id)
                fits = segment.end < small or used * 100 < (segment.end - HEADER_BYTES) * STORE_COMPACT_LIVE_PERCENT
                if not fits:
                    segment.weighed_dead = messages - living
                fits = fits and (segment.rewrite_below is None or count < segment.rewrite_below)
            room = alive + used <= segment_bytes // 2 and len(found) < STORE_COMPACT_MERGE_MAX
            if fits and room and (not found or alive_msgs + count <= STORE_COMPACT_MSGS_MAX):
                found.append(segment)
                alive, alive_msgs = alive + used, alive_msgs + count
            elif self._saves_enough(found, alive):
                break
            else:
                found, alive, alive_msgs = ([segment], used, count) if fits else ([], 0, 0)
        return found if self._saves_enough(found, alive) else []

    def _is_to_be_weighed(self, segment: Segment, messages: int, living: int) -> bool:
        """Whether its living bytes are worth counting, which takes as long as it has messages.

        A segment whose messages are mostly dead is weighed each time; another one when an eighth more have died since
        it was found to be mostly alive: a few large messages may be most of it. In a chained stream every removal
        leaves bytes that stay, so that weight says little.
        """
        if living * 100 < messages * STORE_COMPACT_LIVE_PERCENT:
            return True
        return self._log.chain is None and (messages - living) * 8 > segment.weighed_dead * 9

    def _saves_enough(self, inputs: list[Segment], alive: int) -> bool:
        """One mostly dead segment of some size, or several small ones, but never the same small one again and again."""
        size = sum(segment.end - HEADER_BYTES for segment in inputs)
        if len(inputs) >= STORE_SEGMENTS_PER_STREAM_MIN:
            return True
        if self._log.chain is not None and len(inputs) == 1 and inputs[0].header.generation:
            # Leaves stay: what was dead then is left out already, so it is worth it when others have died since.
            counts = {seg: (n, live) for seg, n, live in self._state.index.segment_counts()}
            n, live = counts.get(inputs[0].id, (0, 0))
            if live * 100 >= n * STORE_COMPACT_LIVE_PERCENT:
                return False
        worth = min(STORE_SEGMENT_BYTES_MIN, self._log.segment_bytes) // 4
        return size - alive > worth and alive * 100 < size * STORE_COMPACT_LIVE_PERCENT
