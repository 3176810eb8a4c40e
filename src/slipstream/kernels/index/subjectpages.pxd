# C types of a list of subjects, for the kernel that fills it. See subjectpages.pyx.

from libc.stdint cimport uint32_t, uint64_t

cdef struct Entry:
    const char *name   # in the names of the same list
    uint32_t length
    uint32_t count

cdef class SubjectPages:
    cdef Entry *entries
    cdef Py_ssize_t n, cap
    cdef char *names
    cdef bint is_sorted

    cdef int hold(self, const char *arena, uint64_t arena_len, Py_ssize_t cap) except -1
    cdef void put(self, uint64_t at, uint32_t length, uint32_t count) noexcept
