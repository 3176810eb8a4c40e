# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Messages that were removed by changes which are not committed yet: readers still see them, writers do not.

    index (committed state and what was appended since)      set of sequences, and a floor
    +--------------------------------------------------+     +---------------------------+
    | what readers see, up to the committed sequence    |  −  | removed, not yet committed |  =  what writers see
    +--------------------------------------------------+     +---------------------------+

`remove*` only notes. `log` says that everything so far has its place in the log, `take` that a commit has begun which
writes that; `settle` carries it out in the index when the oldest such commit is done, so that a message and what it
replaces change in the same instant. After a failed commit nothing was removed: this object is thrown away.

Complexity: remove O(log runs); the first of a subject or of the stream that is left O(1) amortised, by a cursor behind
what is known to be removed; below a floor a question about one subject costs its messages above the floor.
Memory: a set entry a message in the batch; nothing for a floor, whatever lies below.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from slipstream.kernels.index.runtable cimport Cursor, Run
from slipstream.kernels.index.subjectindex cimport MessageIndex, Selection
from slipstream.kernels.index.subjecttable cimport NO_SUBJECT, FilterView, Subject

cdef enum:
    ONE_BY_ONE_MAX = 1024  # messages below a new floor up to which they are noted singly: exact and cheap to ask about


cdef class PendingRemovals:
    """The removals of one stream that wait for their commit.

    Args:
        index: of the stream; `settle` changes it.
    """

    cdef MessageIndex _index
    cdef set _seqs             # removed one by one, all at or above the floor
    cdef dict _subjects        # number of a subject -> [messages of it in the set, all up to here are removed]
    # Packed sequences and a floor: noted, logged, and pairs of them in commits that have begun, the oldest first.
    cdef object _open, _logged
    cdef list _taken
    cdef uint64_t _open_floor, _logged_floor
    cdef uint64_t _first_cursor  # everything of the stream up to here is removed
    cdef readonly uint64_t floor, messages, size_bytes

    def __cinit__(self, MessageIndex index not None):
        self._index = index
        self._seqs = set()
        self._subjects = {}
        self._open = bytearray()
        self._logged = bytearray()
        self._taken = []

    def __bool__(self):
        """Whether anything waits."""
        return self.messages > 0 or self.floor > 0

    # --- removing -----------------------------------------------------------------------------------------------

    def remove(self, uint64_t seq):
        """Remove one message; False: there is none, or it was removed before."""
        cdef Cursor c
        if seq < self.floor or seq in self._seqs or not self._index.locate_entry(seq, &c):
            return False
        if self._index.runs[c.run].sid[c.pos] == NO_SUBJECT:
            return False
        self.note(&c)
        return True

    def remove_many(self, bytes seqs not None):
        """Remove messages whose sequences are packed in 64 bits each; those that were there, packed again."""
        cdef Py_ssize_t i, n = PyBytes_GET_SIZE(seqs) // 8, before = len(self._open)
        cdef uint64_t seq
        cdef Cursor c
        for i in range(n):
            memcpy(&seq, PyBytes_AS_STRING(seqs) + i * 8, 8)
            if seq < self.floor or seq in self._seqs or not self._index.locate_entry(seq, &c):
                continue
            if self._index.runs[c.run].sid[c.pos] != NO_SUBJECT:
                self.note(&c)
        return bytes(memoryview(self._open)[before:])

    def remove_below(self, uint64_t first_seq):
        """Remove everything below `first_seq`; how many messages went. Raises the last sequence when it is below."""
        cdef MessageIndex index = self._index
        cdef uint64_t count, size, before = self.messages
        if first_seq <= self.floor:
            return 0
        if first_seq > index.last_seq + 1:
            index.skip_to(first_seq - 1)
        count, size = index.between(0, first_seq)
        if count <= ONE_BY_ONE_MAX:
            self.remove_many(index.oldest_matching((), 0, first_seq - 1, ONE_BY_ONE_MAX))
        else:
            self.floor = self._open_floor = first_seq
            self.messages, self.size_bytes = count, size
            # What was noted singly below the floor counts with it from here on.
            noted, self._seqs, self._subjects = self._seqs, set(), {}
            self.note_again(noted)
        return self.messages - before

    cdef int note(self, Cursor *c) except -1:
        """Add a living message to the set and to what is not logged yet."""
        cdef uint64_t seq = c.seq
        self.count_in(c)
        self._open += PyBytes_FromStringAndSize(<char *>&seq, 8)
        return 0

    cdef int note_again(self, set noted) except -1:
        cdef Cursor c
        cdef uint64_t seq
        for seq in noted:
            if seq >= self.floor and self._index.locate_entry(seq, &c):
                self.count_in(&c)
        return 0

    cdef int count_in(self, Cursor *c) except -1:
        cdef Run *r = self._index.runs[c.run]
        cdef list entry = self._subjects.get(r.sid[c.pos])
        self._seqs.add(c.seq)
        if entry is None:
            self._subjects[r.sid[c.pos]] = [1, 0]
        else:
            entry[0] += 1
        self.messages += 1
        self.size_bytes += self._index.stated_size(r.len[c.pos])
        return 0

    # --- commits --------------------------------------------------------------------------------------------------

    def log(self):
        """Everything removed so far is in the log."""
        if not self._open and not self._open_floor:
            return  # most commits remove nothing
        self._logged += self._open
        self._logged_floor = max(self._logged_floor, self._open_floor)
        self._open = bytearray()
        self._open_floor = 0

    def take(self):
        """A commit writes what is logged; False: nothing is, and there will be nothing to settle."""
        if not self._logged and not self._logged_floor:
            return False
        self._taken.append((bytes(self._logged), self._logged_floor))
        self._logged = bytearray()
        self._logged_floor = 0
        return True

    def settle(self):
        """The oldest commit that took anything is done: take what it removes out of the index."""
        cdef MessageIndex index = self._index
        cdef uint64_t messages = index.messages, size_bytes = index.size_bytes
        cdef bytes taken
        cdef uint64_t floor, seq
        cdef Py_ssize_t i
        cdef Cursor c
        if not self._taken:
            return
        taken, floor = self._taken.pop(0)
        for i in range(PyBytes_GET_SIZE(taken) // 8):
            memcpy(&seq, PyBytes_AS_STRING(taken) + i * 8, 8)
            if seq in self._seqs and index.locate_entry(seq, &c):
                self._seqs.discard(seq)
                self.count_out(index.runs[c.run].sid[c.pos])
        index.delete_many(taken)
        if floor:
            index.trim_to(floor)
            if self.floor == floor:
                self.floor = 0
        self.messages -= messages - index.messages
        self.size_bytes -= size_bytes - index.size_bytes

    cdef int count_out(self, uint32_t sid) except -1:
        cdef list entry = self._subjects[sid]
        entry[0] -= 1
        if entry[0] == 0:
            del self._subjects[sid]
        return 0

    # --- what is left -------------------------------------------------------------------------------------------

    def is_removed(self, uint64_t seq):
        """Whether this message, which may be in the index, is removed."""
        return seq < self.floor or seq in self._seqs

    @property
    def first_seq(self):
        """The oldest message that is left; behind the last sequence when there is none."""
        cdef uint64_t at = max(max(self._first_cursor + 1, self.floor), self._index.first_seq)
        if self._index.messages == self.messages:
            return self._index.last_seq + 1
        at = self._index.first_live(at)
        while at in self._seqs:
            self._first_cursor = at
            at = self._index.first_live(at + 1)
        return at

    def subject_state(self, bytes subject not None):
        """`(first, last, count)` of what is left under one literal subject; zeros when nothing is."""
        cdef uint32_t sid = self._index.lookup(subject)
        if sid == NO_SUBJECT:
            return 0, 0, 0
        return self.state_of(sid)

    cdef tuple state_of(self, uint32_t sid):
        cdef MessageIndex index = self._index
        cdef Subject *s = &index.subjects[sid]
        cdef list entry = self._subjects.get(sid)
        cdef uint64_t count = s.count, first = s.first, last = s.last, at, cursor = 0
        if entry is None and first >= self.floor:
            return first, last, count
        if last < self.floor:
            return 0, 0, 0
        if first < self.floor:
            first = at = index.scan_for(sid, self.floor, last)
            count = 0
            while at:
                count += 1
                at = index.follow(sid, at) if at < last else 0
        if entry is not None:
            if count == <uint64_t>entry[0]:
                return 0, 0, 0
            count -= entry[0]
            cursor = entry[1]
            if first <= cursor:
                first = index.follow(sid, cursor)
            while first in self._seqs:
                cursor = first
                first = index.follow(sid, first)
            entry[1] = cursor
            while last in self._seqs:
                last = index.before(sid, last)
        return first, last, count

    def last_matching(self, filters):
        """Newest sequence left that passes; 0 when there is none."""
        cdef MessageIndex index = self._index
        cdef FilterView view = index.view(filters)
        cdef uint32_t sid
        cdef uint64_t best = 0, last
        if view.kind == 1:
            return self.subject_state(view.filters[0])[1]
        for sid in range(index.n_subjects):
            if index.subjects[sid].count == 0 or index.subjects[sid].last <= best:
                continue
            if view.kind == 0 or index.passes(view, sid):
                last = index.subjects[sid].last
                if last < self.floor or sid in self._subjects:
                    last = self.state_of(sid)[1]
                best = max(best, last)
        return best

    def count_matching(self, filters):
        """Exact number of messages left that pass."""
        cdef MessageIndex index = self._index
        cdef FilterView view = index.view(filters)
        cdef uint32_t sid, literal = NO_SUBJECT
        cdef uint64_t count = index.count_from(view, self.floor)
        cdef list entry
        if view.kind == 0:
            return count - len(self._seqs)
        if view.kind == 1:
            literal = index.literal(view)
        for sid, entry in self._subjects.items():
            if sid == literal or (view.kind == 2 and index.passes(view, sid)):
                count -= entry[0]
        return count

    def oldest_matching(self, filters, uint64_t from_seq, uint64_t up_to, Py_ssize_t limit):
        """Up to `limit` sequences left that pass, from `from_seq` to `up_to`, ascending, packed in 64 bits each."""
        cdef Selection found = self.left(filters, from_seq, up_to, limit)
        return PyBytes_FromStringAndSize(<char *>found.seq, found.n * 8)

    def matching_seqs(self, filters, uint64_t up_to, uint64_t keep):
        """Sequences left that pass and are not above `up_to`, without the newest `keep` of them, packed."""
        cdef Selection found = self.left(filters, 0, up_to, <Py_ssize_t>0x7FFFFFFFFFFFFFFF)
        if keep >= <uint64_t>found.n:
            return b""
        return PyBytes_FromStringAndSize(<char *>found.seq, (found.n - keep) * 8)

    cdef Selection left(self, filters, uint64_t from_seq, uint64_t up_to, Py_ssize_t limit):
        cdef MessageIndex index = self._index
        cdef FilterView view = index.view(filters)
        cdef Cursor c
        cdef uint64_t seq = max(from_seq, self.floor)
        cdef Selection found = Selection()
        while found.n < limit and index.seek(view, seq, up_to, &c):
            if c.seq not in self._seqs:
                found.push(c.seq, 0, 0, 0)
            seq = c.seq + 1
        return found
