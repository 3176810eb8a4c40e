# C types of the message index. See subjectindex.pyx.

from libc.stdint cimport uint32_t, uint64_t


from slipstream.kernels.index.msgtable cimport MessageTable
from slipstream.kernels.index.runtable cimport Cursor
from slipstream.kernels.index.subjecttable cimport FilterView

cdef class Selection:
    cdef uint64_t *seq
    cdef uint32_t *seg
    cdef uint32_t *off
    cdef uint32_t *len
    cdef Py_ssize_t n, cap
    cdef int push(self, uint64_t seq, uint32_t seg, uint32_t off, uint32_t length) except -1

cdef class MessageIndex(MessageTable):
    cpdef Py_ssize_t select(
        self, object filters, uint64_t from_seq, uint64_t up_to, Py_ssize_t max_msgs, uint64_t max_bytes, Selection out
    ) except -1
    cdef FilterView view(self, object filters)
    cdef uint64_t count_from(self, FilterView view, uint64_t from_seq) except? 0xFFFFFFFFFFFFFFFF
    cdef bint seek(self, FilterView view, uint64_t seq, uint64_t up_to, Cursor *c) except -1
    cdef bint passes(self, FilterView v, uint32_t sid) except -1
    cdef uint32_t literal(self, FilterView v) noexcept
    cdef uint64_t count_between(self, FilterView view, uint64_t lo, uint64_t hi) except? 0xFFFFFFFFFFFFFFFF
