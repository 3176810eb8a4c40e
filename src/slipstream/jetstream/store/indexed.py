"""Reading, shared by both stores: every question is answered by the index, every message by one slice of bytes.

Counts and bounds are those of the committed state. Messages are found wherever the index has them: a caller that serves
readers bounds what it asks for by `committed_seq`.

A `ByteSource` says where bytes lie; this class finds, decodes and checks them, and remembers damage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from slipstream.errors import StorageFault
from slipstream.jetstream.store.assigned import Assigned
from slipstream.jetstream.store.damage import Damage
from slipstream.jetstream.store.limits import STORE_POINT_READ_BYTES, STORE_READ_AHEAD_BYTES
from slipstream.jetstream.store.state import StoreState
from slipstream.jetstream.store.values import SEQ_MAX, Filters, Lost, Read, SubjectState
from slipstream.kernels.fastpath.handout import Batch, longest_record, select_seqs, subjects_between, subjects_from
from slipstream.kernels.index.subjectindex import Selection
from slipstream.kernels.index.subjectpages import SubjectPages
from slipstream.kernels.log.record import RECORD_HEAD, StoredMessage, read_message, read_selection

__all__ = ["EXPIRY_BYTES", "LENGTH_MASK", "NO_BYTES", "ByteSource", "IndexedReads", "Stretch"]

LENGTH_MASK = 0x3FFFFFFF  # the length of a record without its flags, as `record_place` and erasures give it
NO_BYTES = (0, 0, b"", 0)  # of no segment: their numbers begin with 1
EXPIRY_BYTES = 8  # a record may be this much longer than the index says


Stretch = tuple[int, int, bytes, int]
"""Bytes of a log at hand: segment, offset of the first byte, bytes, salt of the segment."""


class ByteSource(Protocol):
    """Where the bytes of records are found."""

    @property
    def tail(self) -> Sequence[Stretch]:
        """Bytes in memory, the newest last."""
        ...

    def slice(self, segment_id: int, offset: int, least: int, most: int) -> tuple[bytes, int, int]:
        """Bytes of a segment from `offset` on: `(data, offset of data, salt)`; shorter when there are no more."""
        ...

    def slice_afresh(self, segment_id: int, offset: int, least: int) -> tuple[bytes, int, int]:
        """The same without any cache: asked before a record is called damaged."""
        ...


class IndexedReads:
    """The read side of a store: what both stores are to readers."""

    __slots__ = ("_chosen", "_damage", "_first_time", "_source", "state")

    def __init__(self, state: StoreState, source: ByteSource, damage: Damage) -> None:
        """Read what the index of this state names from this source."""
        self.state = state
        """What the parts of the store share; for them, and for tests."""
        self._source = source
        self._damage = damage
        self._chosen = Selection()
        self._first_time = (0, 0)  # sequence and time of the first message when it was last asked for

    # --- state ------------------------------------------------------------------------------------------------------

    @property
    def assigned(self) -> Assigned:
        """See `Store.assigned`."""
        return self.state.assigned

    @property
    def committed_seq(self) -> int:
        """See `Store.committed_seq`."""
        return self.state.committed_seq

    @property
    def committed_ts_ns(self) -> int:
        """See `Store.committed_ts_ns`."""
        return self.state.committed_ts_ns

    @property
    def fault(self) -> StorageFault | None:
        """See `Store.fault`; a full disk counts, though removals are still taken then."""
        return self.state.refusal

    @property
    def config(self) -> bytes:
        """See `Store.config`."""
        return self.state.config

    @property
    def first_seq(self) -> int:
        """See `Store.first_seq`."""
        return min(self.state.index.first_seq, self.state.committed_seq + 1)

    @property
    def last_seq(self) -> int:
        """See `Store.last_seq`; while there is a fault, what was assigned above the last commit did not happen."""
        state = self.state
        return state.index.last_seq if state.fault is None else state.committed_seq

    @property
    def messages(self) -> int:
        """See `Store.messages`."""
        index = self.state.index
        return index.messages - index.between(self.state.committed_seq + 1, index.last_seq + 1)[0]

    @property
    def size_bytes(self) -> int:
        """See `Store.size_bytes`."""
        index = self.state.index
        return index.size_bytes - index.between(self.state.committed_seq + 1, index.last_seq + 1)[1]

    @property
    def num_subjects(self) -> int:
        """See `Store.num_subjects`."""
        index = self.state.index
        return index.num_subjects - index.subjects_since(self.state.committed_seq)

    @property
    def num_deleted(self) -> int:
        """See `Store.num_deleted`."""
        messages = self.messages
        return self.state.committed_seq + 1 - self.first_seq - messages if messages else 0

    @property
    def first_ts_ns(self) -> int:
        """See `Store.first_ts_ns`."""
        first_seq = self.state.index.first_seq
        if first_seq > self.state.committed_seq:
            return 0
        if self._first_time[0] != first_seq:
            message = self.get(first_seq)
            if not isinstance(message, StoredMessage):
                return self._time_at_or_after(first_seq)
            self._first_time = (first_seq, message.ts_ns)
        return self._first_time[1]

    @property
    def is_settled(self) -> bool:
        """See `Store.is_settled`."""
        state = self.state
        return state.committed_seq == state.index.last_seq and not state.assigned.removals

    def deleted(self, limit: int) -> list[int]:
        """See `Store.deleted`."""
        return self.state.index.deleted(limit, self.state.committed_seq)

    # --- messages ---------------------------------------------------------------------------------------------------

    def get(self, seq: int) -> Read | None:
        """See `Store.get`."""
        state = self.state
        if state.fault is not None and seq > state.committed_seq:
            return None
        place = state.index.locate(seq) if seq > 0 else None
        if place is None:
            return self._damage.at(seq)
        segment, offset, length = place
        least = length + EXPIRY_BYTES
        data, base, salt = self._source.slice(segment, offset, least, max(least, STORE_POINT_READ_BYTES))
        message = read_message(data, offset - base, salt, seq)
        return message if message is not None else self._read_again(seq, segment, offset, length)

    def find_record(self, key: bytes | int) -> tuple[int, bytes, int, int] | None:
        """See `Store.find_record`."""
        state = self.state
        if state.committed_seq != state.index.last_seq or state.assigned.removals:
            return None
        place = state.index.place(key)
        if place is None:
            return None
        seq, segment, offset, length = place
        least = length + EXPIRY_BYTES
        data, base, salt = self._source.slice(segment, offset, least, max(least, STORE_POINT_READ_BYTES))
        return seq, data, offset - base, salt

    def removed_with_headers(self, since_ns: int) -> Iterator[StoredMessage]:
        """See `Store.removed_with_headers`."""
        for seq in reversed(memoryview(self.state.index.removed_seqs(set(), with_headers=True)).cast("Q")):
            segment, offset, flagged = self.state.index.record_place(seq) or (0, 0, 0)
            least = (flagged & LENGTH_MASK) + EXPIRY_BYTES
            data, base, salt = self._source.slice(segment, offset, least, max(least, STORE_POINT_READ_BYTES))
            message = read_message(data, offset - base, salt, seq)
            if message is not None and message.ts_ns <= since_ns:
                return  # times do not go back
            if message is not None:
                yield message

    def next_seq(self, filters: Filters, from_seq: int) -> int:
        """See `Store.next_seq`."""
        return self.state.index.next_seq(filters, max(from_seq, 0))

    def next_with_headers(self, from_seq: int) -> int:
        """See `Store.next_with_headers`."""
        return self.state.index.next_with_headers(max(from_seq, 0))

    def next_matching(self, filters: Filters, from_seq: int) -> Read | None:
        """See `Store.next_matching`."""
        seq = self.state.index.next_seq(filters, max(from_seq, 0))
        return self.get(seq) if seq else None

    def read_batch(
        self, filters: Filters, from_seq: int, *, max_msgs: int, max_bytes: int, up_to_seq: int
    ) -> list[Read]:
        """See `Store.read_batch`."""
        chosen = self._chosen
        if max_msgs <= 0 or up_to_seq <= 0:
            return []
        count = self.state.index.select(filters, max(from_seq, 0), up_to_seq, max_msgs, max(max_bytes, 0), chosen)
        found: list[StoredMessage | int] = []
        i = 0
        while i < count:
            _seq, segment, offset, length = chosen.place(i)
            least = length + EXPIRY_BYTES
            data, base, salt = self._source.slice(segment, offset, least, chosen.reach(i, STORE_READ_AHEAD_BYTES))
            after = read_selection(chosen, i, data, base, salt, found)
            if after == i:  # not even one whole record came back: the file is shorter than the index says
                found.append(chosen.place(i)[0])
                after += 1
            i = after
        out: list[Read] = []
        for k, item in enumerate(found):
            if isinstance(item, StoredMessage):
                out.append(item)
            else:
                _seq, segment, offset, length = chosen.place(k)
                out.append(self._read_again(item, segment, offset, length))
        if self._damage.ranges:
            self._damage.insert(out, from_seq, up_to_seq, max_msgs)
        return out

    def gather(self, filters: Filters, from_seq: int, *, max_msgs: int, max_bytes: int, up_to_seq: int) -> Batch:
        """See `Store.gather`."""
        batch = Batch()
        if max_msgs <= 0 or up_to_seq <= 0 or self._damage.ranges:
            return batch
        if from_seq < 0:
            from_seq = 0
        if max_bytes < 0:
            max_bytes = 0
        # Whoever waits for the next message wants what was written last.
        tail = self._source.tail
        newest = tail[-1] if tail else NO_BYTES
        whole = batch.choose(self.state.index, filters, from_seq, up_to_seq, max_msgs, max_bytes, *newest)
        return batch if whole else self._fetched(batch)

    def gather_seqs(self, seqs: list[int], *, max_bytes: int) -> Batch:
        """See `Store.gather_seqs`."""
        batch = Batch()
        select_seqs(self.state.index, seqs, max(max_bytes, 0), batch.chosen)
        return self._fetched(batch)

    def _fetched(self, batch: Batch) -> Batch:
        """A batch with the bytes of what was chosen."""
        chosen, taken = batch.chosen, len(batch)
        count = len(chosen)
        while taken < count:
            _seq, segment, offset, length = chosen.place(taken)
            reach = chosen.reach(taken, STORE_READ_AHEAD_BYTES)
            before, taken = taken, batch.take(*self._source.slice(segment, offset, length + EXPIRY_BYTES, reach))
            if taken == before:
                break
        return batch

    def longest_message(self, from_seq: int, up_to_seq: int, limit: int) -> tuple[int, int]:
        """See `Store.longest_message`."""
        longest, next_seq = longest_record(self.state.index, max(from_seq, 0), max(up_to_seq, 0), limit)
        return max(longest - RECORD_HEAD, 0), next_seq

    def load_last(self, subject: bytes) -> Read | None:
        """See `Store.load_last`."""
        index, committed_seq = self.state.index, self.state.committed_seq
        if b"*" in subject or b">" in subject:
            seq = index.last_matching((subject,))
        else:
            seq = index.subject_state(subject)[1]
        if seq > committed_seq:
            newest = self.last_per_subject((subject,), committed_seq) if committed_seq else ()
            seq = newest[-1] if newest else 0
        return self.get(seq) if seq else None

    # --- subjects and counts ----------------------------------------------------------------------------------------

    def filtered_state(self, filters: Filters, from_seq: int) -> SubjectState:
        """See `Store.filtered_state`."""
        first, committed_seq = self.state.index.next_seq(filters, max(from_seq, 0)), self.state.committed_seq
        if not first or first > committed_seq:
            return SubjectState(0, 0, 0)
        last = self.state.index.last_matching(filters)
        if last > committed_seq:
            last = self.last_per_subject(filters, committed_seq)[-1]  # at least the first
        return SubjectState(first, last, self.state.index.count_matching(filters, first, committed_seq))

    def count_matching(self, filters: Filters, from_seq: int, up_to_seq: int = SEQ_MAX) -> int:
        """See `Store.count_matching`."""
        if up_to_seq < 0:
            return 0
        return self.state.index.count_matching(filters, from_seq if from_seq > 0 else 0, up_to_seq)

    def subjects_matching(self, subject: bytes) -> list[tuple[bytes, int]]:
        """See `Store.subjects_matching`."""
        found = self.state.index.subjects_matching((subject,))
        if self.state.committed_seq < self.state.index.last_seq:
            since = self.state.index.name_counts_since(self.state.committed_seq)
            found = [(name, count - since.get(name, 0)) for name, count in found if count > since.get(name, 0)]
        return found

    def subject_pages(self, subject: bytes) -> SubjectPages:
        """See `Store.subject_pages`."""
        return self.state.index.subject_pages((subject,), self.state.committed_seq)

    def subjects_from(
        self, filters: Filters, from_seq: int, *, max_msgs: int, up_to_seq: int
    ) -> tuple[list[int], list[bytes]]:
        """See `Store.subjects_from`."""
        if max_msgs <= 0 or up_to_seq <= 0:
            return [], []
        return subjects_from(self.state.index, filters, max(from_seq, 0), up_to_seq, max_msgs)

    def subjects_between(self, first_seq: int, last_seq: int) -> list[bytes]:
        """See `Store.subjects_between`."""
        return subjects_between(self.state.index, max(first_seq, 0), max(last_seq, 0))

    def last_per_subject(self, filters: Filters, up_to_seq: int) -> Sequence[int]:
        """See `Store.last_per_subject`."""
        return memoryview(self.state.index.last_per_subject(filters, max(up_to_seq, 0))).cast("Q")

    def prepare(self, filters: Filters, limit: int) -> bool:
        """See `Store.prepare`."""
        return self.state.index.prepare(filters, limit)

    # --- time -------------------------------------------------------------------------------------------------------

    def seq_for_time(self, ts_ns: int) -> int:
        """See `Store.seq_for_time`. Times do not fall with the sequence, so this is a binary search."""
        lo, hi = self.state.index.first_seq, self.state.index.last_seq + 1
        while lo < hi:
            middle = (lo + hi) // 2
            time = self._time_at_or_after(middle)
            if time and time < ts_ns:
                lo = middle + 1
            else:
                hi = middle
        return self.state.index.next_seq((), lo) or self.state.index.last_seq + 1

    def _time_at_or_after(self, seq: int) -> int:
        """Time of the first readable message from `seq` on; 0 when there is none."""
        while True:
            seq = self.state.index.next_seq((), seq)
            if not seq:
                return 0
            message = self.get(seq)
            if isinstance(message, StoredMessage):
                return message.ts_ns
            seq += 1

    # --- damage -----------------------------------------------------------------------------------------------------

    def lost(self) -> Lost:
        """See `Store.lost`."""
        return self._damage.report(self.state.index)

    def _read_again(self, seq: int, segment: int, offset: int, length: int) -> Read:
        """Look at the record once more, past all caches; it is damaged only if that fails too."""
        data, base, salt = self._source.slice_afresh(segment, offset, length + EXPIRY_BYTES)
        message = read_message(data, offset - base, salt, seq)
        if message is not None:
            return message
        return self._damage.mark_unreadable(seq, length)
