# C types of the runs, for the kernels that walk over entries. See runtable.pyx.

from libc.stdint cimport uint32_t, uint64_t

from slipstream.kernels.index.subjecttable cimport SubjectTable

cdef enum:
    LENGTH_MASK = 0x3FFFFFFF  # head, subject, headers and payload of a record, in bytes
    LENGTH_EXPIRES = 0x40000000
    LENGTH_HEADERS = 0x80000000
    RELATIVE_MAX = 0xFFFFFFF0  # distances between sequences beyond are not kept

cdef struct Run:
    uint64_t first   # sequence of entry 0, and base of `rel`
    uint64_t last    # sequence of the last entry
    uint32_t n
    uint32_t cap
    uint32_t seg     # segment that holds the records
    uint32_t live    # entries with a message
    uint32_t *off    # offset of the record in its segment
    uint32_t *len    # LENGTH_* of the record, 0: hole
    uint32_t *sid    # subject, NO_SUBJECT: removed or hole
    uint32_t *next   # distance to the next message of the subject; 0: none known
    uint32_t *rel    # sequence - first when sparse, NULL when dense

cdef struct Cursor:
    Py_ssize_t run
    uint32_t pos
    uint64_t seq

cdef class RunTable(SubjectTable):
    cdef Run **runs
    cdef Py_ssize_t n_runs, cap_runs

    cdef void free_run(self, Run *run) noexcept
    cdef Run *new_run(self, Py_ssize_t at, uint64_t first, uint32_t seg, uint32_t cap, bint sparse) except NULL
    cdef Run *open_run(self, uint64_t seq, uint32_t seg) except NULL
    cdef Py_ssize_t run_at(self, uint64_t seq) noexcept
    cdef bint locate_entry(self, uint64_t seq, Cursor *c) noexcept


cdef int grow_run(Run *r, uint32_t cap, bint sparse) except -1


cdef inline int push_entry(Run *r, uint64_t seq, uint32_t off, uint32_t length, uint32_t sid) except -1:
    if r.n == r.cap:
        grow_run(r, r.cap + (r.cap >> 2) + 16, r.rel != NULL)
    r.off[r.n] = off
    r.len[r.n] = length
    r.sid[r.n] = sid
    r.next[r.n] = 0
    if r.rel != NULL:
        r.rel[r.n] = <uint32_t>(seq - r.first)
    r.n += 1
    r.last = seq
    return 0


cdef inline uint64_t seq_at(Run *r, uint32_t pos) noexcept nogil:
    return r.first + (pos if r.rel == NULL else r.rel[pos])


cdef inline uint32_t lower(Run *r, uint64_t seq) noexcept nogil:
    """First entry whose sequence is not below `seq`; `n` when there is none."""
    cdef uint32_t lo = 0, hi = r.n, mid, target
    if seq <= r.first:
        return 0
    if seq > r.last:
        return r.n
    target = <uint32_t>(seq - r.first)
    if r.rel == NULL:
        return target
    while lo < hi:
        mid = lo + (hi - lo) // 2
        if r.rel[mid] < target:
            lo = mid + 1
        else:
            hi = mid
    return lo


cdef inline Py_ssize_t padded(uint32_t length) noexcept nogil:
    """Bytes of a record in the log, from what the index says about it."""
    cdef Py_ssize_t n = (length & LENGTH_MASK) + (8 if length & LENGTH_EXPIRES else 0)
    return (n + 7) & ~<Py_ssize_t>7
