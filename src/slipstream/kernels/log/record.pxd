# C types of the record codec, for the kernels that write and walk records. See record.pyx for the layout.

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef enum:
    HEAD = 32                # bytes before the subject (or the expiry)
    FRAME_HEAD = 64
    FRAME_MAGIC = 0x31524653  # "SFR1"
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
    KIND_CHAIN = 14          # payload: records linked so far, and a link of the hash chain over them
    KIND_LAST = 14
    FLAG_EXPIRES = 16        # 8 bytes between head and subject: deadline in ns
    FRAME_UNIT = 1           # part of a unit that is kept whole or not at all
    FRAME_MORE = 2           # the unit goes on in the next frame
    FRAME_FIRST = 4          # the unit begins here
    FRAME_LOCAL = 8          # of this file alone: repeats the number of the frame before it, and is no part of a unit
    FRAME_BYTES = 262144     # a frame is closed when it grows beyond

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
