# C types of the segment scan, for the kernels that store it and load it. See segscan.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from slipstream.kernels.bytes_le cimport get32, get64
from slipstream.kernels.log.record cimport Frame
from slipstream.kernels.index.subjecttable cimport SubjectTable

cdef extern from *:
    """
    #define SLIP_SEQ_TOP 0xFFFFFFFFFFFFFFFEull
    """
    const uint64_t SEQ_TOP "SLIP_SEQ_TOP"  # highest sequence there is: each has a successor


cdef class SegmentScan:
    cdef bytes data                 # segment bytes while scanning, index bytes when loaded from them
    cdef const unsigned char *p
    cdef Py_ssize_t at, end, used_end
    cdef uint64_t salt
    cdef SubjectTable names
    cdef bint owned, loaded
    cdef uint32_t n, cap
    cdef const unsigned char *seqs  # of the messages, 8 bytes each: while scanning, and in an index file that says WIDE
    cdef const unsigned char *rel   # or their distance to `base_seq`, 4 bytes each: in an index file; neither: dense
    cdef uint32_t *off
    cdef uint32_t *len
    cdef uint32_t *sid
    cdef uint32_t n_names           # when loaded from an index file: the name table
    cdef const unsigned char *name_ends
    cdef const unsigned char *name_bytes
    cdef uint64_t expect            # next sequence to account for
    cdef object unit                # (offset, messages, controls) where the open unit began
    cdef object unit_before         # the same for a unit that goes on from an earlier segment
    cdef Frame frame                # frame being read
    cdef object frame_begin         # (offset, messages, controls) where it began
    cdef Py_ssize_t frame_end       # 0: between frames
    cdef uint32_t frame_seen
    cdef Py_ssize_t link_at         # place of the CHAIN record among the controls, -1 when there is none
    cdef Py_ssize_t bad_from        # start of the damage being skipped, -1 when none
    cdef readonly uint64_t base_seq  # sequence of message 0
    cdef readonly uint64_t first_seq
    cdef readonly uint64_t last_seq  # highest sequence accounted for
    cdef readonly int64_t first_ts, last_ts
    cdef readonly uint64_t first_frame_no, last_frame_no, synced_upto, epoch
    cdef readonly uint64_t said_frame_no  # who has synced this one has all that was said: marks alone say nothing
    cdef readonly Py_ssize_t vouched_end  # a local mark lies here: all before it was on stable storage
    cdef readonly Py_ssize_t good_end
    cdef readonly bint unit_ended   # the unit that goes on from an earlier segment ends in this one
    cdef readonly list controls     # (kind, seq, ts, key, payload)
    cdef readonly list expiries     # (seq, expires_ns)
    cdef readonly list holes        # (lo, hi) inclusive
    cdef readonly list regions      # Region

    cdef int enter_frame(self, Frame *frame) except -1
    cdef int leave_frame(self) except -1
    cdef int end_unit(self) except -1
    cdef uint64_t owner(self) noexcept nogil
    cdef object region(self, Py_ssize_t start, Py_ssize_t end)
    cdef object cut_at(self, Py_ssize_t start, uint32_t messages, Py_ssize_t controls)
    cdef int close_region(self, Py_ssize_t end) except -1
    cdef int finish(self) except -1
    cdef bint accept(self, Py_ssize_t size) except -1
    cdef int account(self, uint64_t lo, uint64_t hi) except -1
    cdef int push(self, uint64_t seq, uint32_t off, uint32_t length, uint32_t sid) except -1
    cdef int forget(self, uint32_t messages, Py_ssize_t controls) except -1


cdef inline uint64_t scanned_seq(SegmentScan s, uint32_t i) noexcept nogil:
    """Sequence of message `i`."""
    if s.seqs != NULL:
        return get64(s.seqs + <size_t>i * 8)
    return s.base_seq + (get32(s.rel + <size_t>i * 4) if s.rel != NULL else i)
