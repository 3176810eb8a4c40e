# C types of the record codec, for the kernels that walk records (segscan). See record.pyx for the layout.

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from slipstream.kernels.subjectindex cimport MessageIndex

cdef enum:
    HEAD = 32                # bytes before the subject (or the expiry)
    FRAME_HEAD = 64
    KIND_MASK = 15
    KIND_MSG = 1
    KIND_TOMBS = 2           # payload: removed sequences, 8 bytes each
    KIND_TRIM = 3            # seq: everything below is removed
    KIND_SKIP = 4            # seq..payload: sequences that never held a message, or were compacted away
    KIND_CONFIG = 5          # payload: the stream's configuration
    KIND_STATE = 6           # payload: first, last, time of last; opens every segment
    KIND_ERASE = 7           # intent to overwrite seq; payload: segment number, generation, offset, length
    KIND_ERASED = 8          # what an overwritten message becomes
    KIND_PUT = 9             # journal: subject = key, payload = whole state
    KIND_ADD = 10            # journal: one delta
    KIND_REMOVE = 11         # journal: forget the key
    KIND_MARK = 12           # nothing: makes a frame whose synced_upto covers the one before
    KIND_NOTE = 13           # subject = key, payload = value of a small fact kept beside the messages; empty: removed
    KIND_LAST = 13
    FLAG_EXPIRES = 16        # 8 bytes between head and subject: deadline in ns
    FRAME_UNIT = 1           # part of a unit that is kept whole or not at all
    FRAME_MORE = 2           # the unit goes on in the next frame
    FRAME_FIRST = 4          # the unit begins here
    FRAME_BYTES = 262144     # a frame is closed when it grows beyond

cdef uint32_t FRAME_MAGIC

cdef struct Frame:
    uint64_t no
    uint64_t first_seq
    uint64_t synced_upto
    uint64_t epoch
    int64_t ts
    uint32_t length
    uint32_t count
    uint32_t flags

cdef Py_ssize_t record_size(const unsigned char *p, Py_ssize_t room, uint32_t salt) noexcept nogil
cdef bint read_frame(const unsigned char *p, Py_ssize_t room, uint64_t salt, Frame *out) noexcept nogil

cdef class StoredMessage:
    cdef readonly uint64_t seq
    cdef readonly int64_t ts_ns
    cdef readonly bytes subject
    cdef readonly bytes headers
    cdef readonly bytes payload
    cdef readonly int64_t expires_ns

cdef class LogWriter:
    cdef PyObject *block       # bytes that nobody else has; `buf` is their content
    cdef unsigned char *buf
    cdef Py_ssize_t length, cap, frame_at
    cdef Py_ssize_t large      # size of the last block that was handed over while a unit was open
    cdef MessageIndex index
    cdef MessageIndex behind  # the index that gets the messages of an open unit when it ends
    cdef uint32_t count, frame_flags
    cdef uint64_t frame_first_seq, salt
    cdef int64_t frame_ts
    cdef bint unit, unit_begins  # a unit is open; none of its frames is closed yet
    cdef readonly uint32_t segment
    cdef readonly Py_ssize_t base
    cdef public Py_ssize_t limit
    cdef readonly uint64_t frame_no
    cdef public uint64_t synced_upto
    cdef public uint64_t epoch
    cdef public int64_t last_ts

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
