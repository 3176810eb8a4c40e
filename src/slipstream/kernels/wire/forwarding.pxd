from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

from slipstream.kernels.wire.msgwriter cimport Message, MessageWriter
from slipstream.kernels.wire.receivers cimport Elsewhere, Link, Route, Subscription


cdef inline bint is_handed_on(tuple queues):
    """Whether what came over a link is for one queue group and nobody else: the group is named twice."""
    return (
        queues is not None and PyTuple_GET_SIZE(queues) > 1
        and <bytes>PyTuple_GET_ITEM(queues, 0) == <bytes>PyTuple_GET_ITEM(queues, 1)
    )


cdef class Forwarding:
    cdef MessageWriter _writer
    cdef bytes name

    cdef Py_ssize_t deliver(
        self, Route route, Link source, tuple queues, bytes origin, object publisher, Message *m, object hop
    ) except -1
    cdef Py_ssize_t _take_handed(
        self, Route route, Link source, tuple queues, object publisher, Message *m, object hop
    ) except -1
    cdef Py_ssize_t _hand_on(
        self, Route route, Elsewhere group, Link source, tuple tried, Message *m, object hop
    ) except -1
    cdef bint _choose(
        self, Elsewhere group, Link source, bytes origin, unsigned long long ticket, list targets
    ) except -1
    cdef Py_ssize_t _over(
        self, Route route, Subscription sub, Link source, bytes queues, bytes alias, Message *m
    ) except -1
    cdef Py_ssize_t _traced_over(
        self, Route route, Subscription sub, Link source, bytes queues, bytes alias, Message *m, object hop
    ) except -1
