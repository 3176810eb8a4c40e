cdef class FlushQueue:
    cdef list _dirty
    cdef object _schedule
    cdef object _flush_now
    cdef list overflowed
    cdef readonly unsigned long long written


cdef class Outbox:
    cdef list _full
    cdef object _buffer
    cdef Py_ssize_t _used
    cdef Py_ssize_t _waiting
    cdef Py_ssize_t _capacity
    cdef Py_ssize_t _next_capacity
    cdef bint _dirty
    cdef bint _closed
    cdef FlushQueue _queue
    cdef readonly object owner
    cdef public Py_ssize_t limit
    cdef public Py_ssize_t stall_at
    cdef public Py_ssize_t in_flight
    cdef public Py_ssize_t early_at
    cdef public unsigned long long msgs
    cdef public unsigned long long msg_bytes
    cdef readonly bint overflowed

    cdef char* reserve(self, Py_ssize_t size) except NULL
    cdef int put_whole(self, bytes data) except -1
    cdef inline void advance(self, Py_ssize_t size) noexcept
    cdef list _take_part(self, Py_ssize_t most)
    cdef int _seal(self) except -1
    cdef int _touch(self) except -1
    cdef int _flush_early(self) except -1
