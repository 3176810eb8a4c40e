# C types of what a connection has sent and nobody has parsed, for the kernels that parse. See readbuffer.pyx.

cdef struct Unparsed:
    const char *at
    Py_ssize_t size


cdef class ReadBuffer:
    cdef readonly bint paused
    cdef public Py_ssize_t waiting_max
    cdef bytearray _aside
    cdef bytes _held
    cdef object _message
    cdef Py_ssize_t _have
    cdef Py_ssize_t _need

    cdef Py_ssize_t size(self)
    cdef int stop(self) except -1
    cdef bytes resume(self)
    cdef object lend(self, bytearray shared)
    cdef bint reads_aside(self, bytearray shared)
    cdef bytes aside(self, Py_ssize_t size)
    cdef object filled(self, bytearray shared, Py_ssize_t size, Unparsed *found)
    cdef object fed(self, bytes data, Py_ssize_t *at, Unparsed *found)
    cdef object _whole_message(self, Unparsed *found)
    cdef int parsed(self) except -1
    cdef int keep(self, const char *rest, Py_ssize_t size, Py_ssize_t need) except -1
    cdef int hold(self, bytes rest) except -1
    cdef bytes overflow(self)
