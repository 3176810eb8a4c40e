# C types of the message table, for the kernels that fill and question it. See msgtable.pyx.

from libc.stdint cimport uint32_t, uint64_t

from slipstream.kernels.index.runtable cimport Cursor, RunTable

cdef class MessageTable(RunTable):
    cdef uint32_t recent         # the subject of the message added last, to be found again without its hash
    cdef readonly bint file_sizes
    cdef readonly uint64_t first_seq, last_seq, messages, size_bytes

    cdef uint64_t stated_size(self, uint32_t length) noexcept
    cdef int link(self, uint32_t sid, uint64_t seq) except -1
    cdef int add(
        self, uint64_t seq, const char *name, Py_ssize_t n, uint32_t off, uint32_t length, uint32_t seg
    ) except -1
    cdef uint64_t follow(self, uint32_t sid, uint64_t seq) noexcept
    cdef uint64_t follow_step(self, uint32_t sid, uint64_t seq, uint32_t step) noexcept
    cdef uint64_t scan_for(self, uint32_t sid, uint64_t seq, uint64_t up_to) noexcept
    cdef uint64_t before(self, uint32_t sid, uint64_t seq) noexcept
    cdef uint64_t chain_step(self, uint64_t seq) noexcept
    cdef uint32_t remove_entry(self, Cursor *c) noexcept
    cdef uint64_t first_live(self, uint64_t seq) noexcept
    cdef void remove_first(self, Cursor *c) noexcept
    cdef int clear_below(self, uint64_t first_seq) except -1
    cpdef tuple between(self, uint64_t lo, uint64_t hi)
