# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Where every message of a stream lies: runs of entries, sorted by sequence.

    runs ──► first last seg n live
             off[] len[] sid[] next[]     16 bytes a message
             rel[]                         4 more when the run is sparse

A run is a stretch of sequences inside one segment: dense (entry = sequence - first) or sparse (a sorted `rel` array
beside it, chosen when most sequences are holes). An entry without a message is a hole, or a removed one that keeps its
place: its record still lies in the segment.

A layer of one object, see `subjecttable`: here entries have subject numbers, but what a subject is, and how `next` chains
its messages, is not known. What may be asked here is what lies in which segment.

Complexity: finding an entry O(log runs) when its run is dense, O(log entries) when it is sparse; appending O(1),
amortised; questions about a segment O(its entries). Memory: C heap, owned by the object, no Python object a message.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset

from slipstream.kernels.heap cimport grown
from slipstream.kernels.index.subjecttable cimport NO_SUBJECT, SubjectTable

cdef enum:
    HOLES_MAX = 64            # a wider gap in a dense run is not filled with empty entries
    SPARSE_BELOW = 1024       # a dense run this short becomes sparse at a wide gap; a longer one is closed
    RUN_ENTRIES_MAX = 1 << 22  # bounds the copy when arrays grow


cdef class RunTable(SubjectTable):
    """Places of the messages of one stream."""

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n_runs):
            self.free_run(self.runs[i])
        free(self.runs)

    cdef void free_run(self, Run *run) noexcept:
        free(run.off)
        free(run.len)
        free(run.sid)
        free(run.next)
        free(run.rel)
        free(run)

    cdef Run *new_run(self, Py_ssize_t at, uint64_t first, uint32_t seg, uint32_t cap, bint sparse) except NULL:
        """Insert an empty run at place `at`; the caller fills its entries."""
        cdef Run *r
        if self.n_runs == self.cap_runs:
            self.cap_runs = self.cap_runs * 2 if self.cap_runs else 8
            self.runs = <Run **>grown(self.runs, self.cap_runs * sizeof(Run *))
        r = <Run *>malloc(sizeof(Run))
        if r == NULL:
            raise MemoryError()
        memset(r, 0, sizeof(Run))
        r.first = first
        r.last = first - 1
        r.seg = seg
        memmove(&self.runs[at + 1], &self.runs[at], (self.n_runs - at) * sizeof(Run *))
        self.runs[at] = r
        self.n_runs += 1
        grow_run(r, cap, sparse)
        return r

    cdef Run *open_run(self, uint64_t seq, uint32_t seg) except NULL:
        """The run whose next entry is this sequence of this segment."""
        cdef Run *r = NULL
        cdef uint64_t gap
        if self.n_runs:
            r = self.runs[self.n_runs - 1]
            gap = seq - r.last - 1
            if r.seg != seg or r.n >= RUN_ENTRIES_MAX or seq - r.first >= RELATIVE_MAX:
                r = NULL
            elif r.rel == NULL and gap > HOLES_MAX:
                if r.n > SPARSE_BELOW:
                    r = NULL
                else:
                    make_sparse(r)
        if r == NULL:
            r = self.new_run(self.n_runs, seq, seg, 16, False)
        if r.rel == NULL:
            while r.last + 1 < seq:
                push_entry(r, r.last + 1, 0, 0, NO_SUBJECT)
        return r

    def shrink(self):
        """Give back what the arrays were grown by beyond their content, as when a segment is sealed."""
        cdef Py_ssize_t i
        cdef Run *r
        for i in range(self.n_runs):
            r = self.runs[i]
            if r.cap > r.n and r.n:
                grow_run(r, r.n, r.rel != NULL)

    cdef Py_ssize_t run_at(self, uint64_t seq) noexcept:
        """The last run that starts at or below `seq`; -1 when none does."""
        cdef Py_ssize_t lo = 0, hi = self.n_runs, mid
        if hi and self.runs[hi - 1].first <= seq:
            return hi - 1
        while lo < hi:
            mid = (lo + hi) // 2
            if self.runs[mid].first <= seq:
                lo = mid + 1
            else:
                hi = mid
        return lo - 1

    cdef bint locate_entry(self, uint64_t seq, Cursor *c) noexcept:
        """Find the entry of a sequence, live or not."""
        cdef Py_ssize_t i = self.run_at(seq)
        cdef Run *r
        cdef uint32_t pos
        if i < 0:
            return False
        r = self.runs[i]
        if seq > r.last:
            return False
        pos = lower(r, seq)
        if pos >= r.n or seq_at(r, pos) != seq:
            return False
        c.run = i
        c.pos = pos
        c.seq = seq
        return True

    # --- what lies where -----------------------------------------------------------------------------------------

    def locate(self, uint64_t seq):
        """`(segment, offset, length)` of a stored message; None when there is none."""
        cdef Cursor c
        cdef Run *r
        if not self.locate_entry(seq, &c):
            return None
        r = self.runs[c.run]
        if r.sid[c.pos] == NO_SUBJECT:
            return None
        return r.seg, r.off[c.pos], r.len[c.pos] & LENGTH_MASK

    def record_place(self, uint64_t seq):
        """As `locate`, with the LENGTH_* flags, and also for a removed message whose record still lies there."""
        cdef Cursor c
        cdef Run *r
        if not self.locate_entry(seq, &c):
            return None
        r = self.runs[c.run]
        if r.len[c.pos] == 0:
            return None
        return r.seg, r.off[c.pos], r.len[c.pos]

    def segment_live(self, uint32_t seg):
        """`(messages, bytes of their records with padding)` alive in one segment."""
        cdef Py_ssize_t i
        cdef Run *r
        cdef uint32_t pos
        cdef uint64_t count = 0, used = 0
        for i in range(self.n_runs):
            r = self.runs[i]
            if r.seg != seg:
                continue
            count += r.live
            for pos in range(r.n):
                if r.sid[pos] != NO_SUBJECT:
                    used += ((r.len[pos] & LENGTH_MASK) + 7 + (8 if r.len[pos] & LENGTH_EXPIRES else 0)) & ~<uint64_t>7
        return count, used

    def segment_counts(self):
        """`(segment, entries, live ones)` of every run: the cheap first look for segments worth rewriting."""
        return [(self.runs[i].seg, self.runs[i].n, self.runs[i].live) for i in range(self.n_runs)]

    def segment_has_live(self, uint32_t seg):
        """Whether any message lives in the segment."""
        cdef Py_ssize_t i
        for i in range(self.n_runs):
            if self.runs[i].seg == seg and self.runs[i].live:
                return True
        return False

    def live_seqs(self, uint32_t seg):
        """Sequences alive in one segment, ascending, packed as native 64-bit numbers."""
        cdef Py_ssize_t i, n = 0
        cdef Run *r
        cdef uint32_t pos
        cdef bytes out
        cdef uint64_t seq
        cdef char *p
        for i in range(self.n_runs):
            if self.runs[i].seg == seg:
                n += self.runs[i].live
        out = PyBytes_FromStringAndSize(NULL, n * 8)
        p = PyBytes_AS_STRING(out)
        for i in range(self.n_runs):
            r = self.runs[i]
            if r.seg != seg:
                continue
            for pos in range(r.n):
                if r.sid[pos] != NO_SUBJECT:
                    seq = seq_at(r, pos)
                    memcpy(p, &seq, 8)
                    p += 8
        return out

    def removed_seqs(self, set except_segs not None, bint with_headers=False):
        """Removed sequences whose records still lie in segments other than these, packed as `live_seqs`.

        With `with_headers` only those that have some.
        """
        cdef Py_ssize_t i, n = 0
        cdef Run *r
        cdef uint32_t pos
        cdef uint64_t seq
        cdef bytes out = b""
        cdef char *p = NULL
        cdef uint32_t wanted = LENGTH_HEADERS if with_headers else 0xFFFFFFFF
        cdef int fill
        for fill in range(2):  # first count, then write
            for i in range(self.n_runs):
                r = self.runs[i]
                if r.live == r.n or r.seg in except_segs:
                    continue
                for pos in range(r.n):
                    if r.sid[pos] == NO_SUBJECT and r.len[pos] & wanted:
                        if fill:
                            seq = seq_at(r, pos)
                            memcpy(p, &seq, 8)
                            p += 8
                        else:
                            n += 1
            if not fill:
                out = PyBytes_FromStringAndSize(NULL, n * 8)
                p = PyBytes_AS_STRING(out)
        return out

    def drop_segment(self, uint32_t seg):
        """Forget the entries of a segment that holds no message any more and whose file is gone."""
        cdef Py_ssize_t i, kept = 0
        for i in range(self.n_runs):
            if self.runs[i].seg == seg and self.runs[i].live:
                raise ValueError("segment still holds messages")
        for i in range(self.n_runs):
            if self.runs[i].seg == seg:
                self.free_run(self.runs[i])
            else:
                self.runs[kept] = self.runs[i]
                kept += 1
        self.n_runs = kept


cdef int grow_run(Run *r, uint32_t cap, bint sparse) except -1:
    r.off = <uint32_t *>grown(r.off, <size_t>cap * 4)
    r.len = <uint32_t *>grown(r.len, <size_t>cap * 4)
    r.sid = <uint32_t *>grown(r.sid, <size_t>cap * 4)
    r.next = <uint32_t *>grown(r.next, <size_t>cap * 4)
    if sparse:
        r.rel = <uint32_t *>grown(r.rel, <size_t>cap * 4)
    r.cap = cap
    return 0


cdef int make_sparse(Run *r) except -1:
    cdef uint32_t pos
    cdef uint32_t *rel = <uint32_t *>grown(NULL, <size_t>r.cap * 4)
    for pos in range(r.n):
        rel[pos] = pos
    r.rel = rel
    return 0
