# C types of the subject table, for the kernels that look at subjects by their numbers. See subjecttable.pyx.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from slipstream.kernels.subjects.filterset cimport FilterSet

cdef enum:
    NO_SUBJECT = 0xFFFFFFFF   # in place of a number: nothing there

cdef struct Subject:
    uint64_t first   # oldest sequence; next free entry + 1 while this entry is free
    uint64_t last    # newest sequence
    uint64_t name    # offset in the arena << 16 | length
    uint32_t count   # messages; 0: the entry is free
    uint32_t hash

cdef class FilterView:
    cdef readonly tuple filters
    cdef int kind                # 0 everything, 1 one literal, 2 verdict per subject
    cdef FilterSet judge         # of kind 2
    cdef bint listed             # all filters are literals: their subjects can be asked one by one
    cdef uint32_t judged         # verdicts below this number were all given once
    cdef uint8_t *verdicts       # by subject: 0 unknown, 1 no, 2 yes
    cdef uint32_t cap

cdef class SubjectTable:
    cdef Subject *subjects
    cdef uint32_t n_subjects, cap_subjects, free_subject
    cdef uint32_t *slots
    cdef uint32_t n_slots
    cdef char *arena
    cdef uint64_t arena_len, arena_cap, arena_dead
    cdef uint64_t seed
    cdef dict views              # filters -> FilterView
    cdef uint64_t view_bytes
    cdef readonly uint32_t num_subjects

    cdef uint32_t lookup(self, bytes name) noexcept
    cdef uint32_t find_subject(self, const char *name, Py_ssize_t n, uint32_t h) noexcept
    cdef uint32_t intern(self, const char *name, Py_ssize_t n) except? 0xFFFFFFFF
    cdef int make_room(self, uint32_t subjects, uint64_t name_bytes) except -1
    cdef void place_slot(self, uint32_t sid, uint32_t h) noexcept
    cdef int rehash(self) except -1
    cdef int sweep_arena(self) except -1
    cdef void release(self, uint32_t sid) noexcept
