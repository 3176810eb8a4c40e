from slipstream.kernels.wire.forwarding cimport Forwarding
from slipstream.kernels.wire.msgwriter cimport MessageWriter
from slipstream.kernels.wire.receivers cimport Link, Route


cdef class Delivery:
    cdef MessageWriter _writer
    cdef Forwarding _forwarding
    cdef object _hop

    cdef Py_ssize_t send(
        self, Route route, object publisher, const char *subject, Py_ssize_t subject_size,
        const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1
    cdef Py_ssize_t send_arrived(
        self, Route route, Link source, tuple queues, bytes origin, object publisher, const char *subject,
        Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1
