# C types of the log writer, for the kernels that append to a log. See logwriter.pyx.

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from slipstream.kernels.index.subjectindex cimport MessageIndex

cdef class LogWriter:
    cdef PyObject *block       # bytes that nobody else has; `buf` is their content
    cdef unsigned char *buf
    cdef Py_ssize_t length, cap, frame_at
    cdef Py_ssize_t frame_room, frame_bytes  # zeros at the end of every frame; the size at which it is closed
    cdef Py_ssize_t large      # what the next block is made for, if the last one was large
    cdef MessageIndex index
    cdef MessageIndex behind  # the index that gets the messages of an open unit when it ends
    cdef uint32_t count, frame_flags
    cdef uint64_t frame_first_seq, salt
    cdef int64_t frame_ts
    cdef bint unit, unit_begins  # a unit is open; none of its frames is closed yet
    cdef bint local            # the open frame takes no number
    cdef readonly uint32_t segment
    cdef readonly Py_ssize_t base
    cdef public Py_ssize_t limit
    cdef public Py_ssize_t block_max  # a message behind so many bytes is refused until they are taken; 0: never
    cdef readonly uint64_t frame_no
    cdef public uint64_t synced_upto
    cdef public uint64_t epoch
    cdef public int64_t last_ts

    cdef bint block_is_full(self) noexcept
    cdef unsigned char *reserve(self, Py_ssize_t n, uint64_t seq, int64_t ts) except NULL
    cdef int grow(self, Py_ssize_t cap) except -1
    cdef int resize(self, Py_ssize_t cap) except -1
    cdef void forget_block(self) noexcept
    cdef int close_frame(self) except -1
    cdef int put(
        self, uint64_t seq, int64_t ts, const char *subject, Py_ssize_t slen, const char *headers, Py_ssize_t hlen,
        const char *payload, Py_ssize_t plen, int64_t expires,
    ) except -1
    cdef int take_over(self, uint64_t seq, int64_t ts, const unsigned char *record, Py_ssize_t total) except -1
