# C types of the message table, for the kernels that fill and question it. See msgtable.pyx.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    NO_SUBJECT = 0xFFFFFFFF   # entry without a live message: a hole (length 0) or a removed record
    LENGTH_MASK = 0x3FFFFFFF  # head, subject, headers and payload of a record, in bytes
    LENGTH_EXPIRES = 0x40000000
    LENGTH_HEADERS = 0x80000000

cdef struct Subject:
    uint64_t first   # oldest sequence; next free entry + 1 while this entry is free
    uint64_t last    # newest sequence
    uint64_t name    # offset in the arena << 16 | length
    uint32_t count   # messages; 0: the entry is free
    uint32_t hash

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

cdef class FilterView:
    cdef readonly tuple filters
    cdef int kind                # 0 everything, 1 one literal, 2 verdict per subject
    cdef uint8_t *verdicts       # by subject: 0 unknown, 1 no, 2 yes
    cdef uint32_t cap

cdef class MessageTable:
    cdef Run **runs
    cdef Py_ssize_t n_runs, cap_runs
    cdef Subject *subjects
    cdef uint32_t n_subjects, cap_subjects, free_subject
    cdef uint32_t *slots
    cdef uint32_t n_slots
    cdef uint32_t recent         # the subject of the message added last, to be found again without its hash
    cdef char *arena
    cdef uint64_t arena_len, arena_cap, arena_dead
    cdef uint64_t seed
    cdef bint file_sizes
    cdef dict views
    cdef uint64_t view_bytes
    cdef readonly uint64_t first_seq, last_seq, messages, size_bytes
    cdef readonly uint32_t num_subjects

    cdef uint64_t stated_size(self, uint32_t length) noexcept
    cdef Py_ssize_t run_at(self, uint64_t seq) noexcept
    cdef bint locate_entry(self, uint64_t seq, Cursor *c) noexcept
    cdef uint32_t lookup(self, bytes name) noexcept
    cdef uint32_t find_subject(self, const char *name, Py_ssize_t n, uint32_t h) noexcept
    cdef uint32_t intern(self, const char *name, Py_ssize_t n) except? 0xFFFFFFFF
    cdef int link(self, uint32_t sid, uint64_t seq) except -1
    cdef int add(
        self, uint64_t seq, const char *name, Py_ssize_t n, uint32_t off, uint32_t length, uint32_t seg
    ) except -1
    cdef Run *open_run(self, uint64_t seq, uint32_t seg) except NULL
    cdef Run *new_run(self, Py_ssize_t at, uint64_t first, uint32_t seg, uint32_t cap, bint sparse) except NULL
    cdef void free_run(self, Run *run) noexcept
    cdef uint64_t follow(self, uint32_t sid, uint64_t seq) noexcept
    cdef uint64_t follow_step(self, uint32_t sid, uint64_t seq, uint32_t step) noexcept
    cdef int make_room(self, uint32_t subjects, uint64_t name_bytes) except -1
    cdef void place_slot(self, uint32_t sid, uint32_t h) noexcept
    cdef int rehash(self) except -1
    cdef int sweep_arena(self) except -1
    cdef void release(self, uint32_t sid) noexcept
    cdef uint64_t scan_for(self, uint32_t sid, uint64_t seq, uint64_t up_to) noexcept
    cdef uint64_t before(self, uint32_t sid, uint64_t seq) noexcept
    cdef uint64_t chain_step(self, uint64_t seq) noexcept
    cdef uint32_t remove_entry(self, Cursor *c) noexcept
    cdef uint64_t first_live(self, uint64_t seq) noexcept
    cdef void remove_first(self, Cursor *c) noexcept


cdef void *grown(void *p, size_t n) except NULL


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
