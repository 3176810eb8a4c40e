from slipstream.kernels.wire.msgwriter cimport Message, MessageWriter
from slipstream.kernels.wire.receivers cimport Elsewhere, Link, Route, Subscription


cdef class Forwarding:
    cdef MessageWriter _writer

    cdef Py_ssize_t deliver(
        self, Route route, Link source, tuple queues, bytes origin, object publisher, Message *m, object hop
    ) except -1
    cdef int _choose(
        self, Elsewhere group, Link source, bytes origin, unsigned long long ticket, list targets
    ) except -1
    cdef Py_ssize_t _over(
        self, Route route, Subscription sub, Link source, bytes queues, bytes alias, Message *m
    ) except -1
    cdef Py_ssize_t _traced_over(
        self, Route route, Subscription sub, Link source, bytes queues, bytes alias, Message *m, object hop
    ) except -1
