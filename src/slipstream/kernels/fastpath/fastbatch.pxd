from libc.stdint cimport uint64_t

cdef enum:
    FAST_SUFFIX_SIZE = 4  # .$FI
    APPEND = 1


cdef struct FastReply:
    const char *batch_id
    Py_ssize_t batch_id_size
    uint64_t flow
    uint64_t seq
    int kind
    bint gap_ok


cdef bint read_reply(const char *reply, Py_ssize_t size, FastReply *found) noexcept nogil


cdef class FastBatch:
    cdef public bint gap_ok
    cdef public uint64_t ack_every_max
    cdef public uint64_t ack_every
    cdef public uint64_t seq
    cdef public uint64_t stored
    cdef public uint64_t acked
    cdef public uint64_t ack_at
    cdef public uint64_t stream_seq
    cdef public long long last_active_ns
    cdef public object timer
