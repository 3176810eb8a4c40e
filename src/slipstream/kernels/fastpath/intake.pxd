from slipstream.kernels.wire.msgwriter cimport BufferListener
from slipstream.kernels.fastpath.fastbatch cimport FastBatch
from slipstream.kernels.log.logwriter cimport LogWriter


cdef class Intake(BufferListener):
    cdef LogWriter _writer
    cdef object _now
    cdef bint _standing_by
    cdef public object appended
    cdef object _resume
    cdef public unsigned long long last_seq
    cdef public long long last_ts_ns
    cdef public bytes last_id
    cdef readonly list acks
    cdef public Py_ssize_t buffered_bytes
    cdef public Py_ssize_t payload_bytes_max
    cdef public unsigned long long full_msgs
    cdef public unsigned long long full_bytes
    cdef public bint answers
    cdef public dict batches
    cdef Py_ssize_t _room_bytes
    cdef Py_ssize_t _room_msgs

    cdef bint _has_room(self, Py_ssize_t size) noexcept
    cdef FastBatch _next_in_batch(self, const char *reply, Py_ssize_t size)
