from slipstream.kernels.wire.clientlines cimport Span
from slipstream.kernels.wire.delivery cimport Delivery
from slipstream.kernels.wire.interest cimport Interest
from slipstream.kernels.wire.receivers cimport Link, Route


cdef class Arrivals:
    cdef object _sink
    cdef Link _link
    cdef Delivery _delivery
    cdef dict _accounts
    cdef bint _stopped
    cdef public bint fast
    cdef public bint restricted
    cdef public bint addressed
    cdef public bint traceparents
    cdef public dict verdicts
    cdef bytes _last_account
    cdef Interest _last_interest
    cdef object _last_publisher
    cdef bytes _last_subject
    cdef Route _last_route

    cdef int take(
        self, Span account, Span subject, Span reply, tuple queues, bytes origin, Py_ssize_t header_size, const char *body,
        Py_ssize_t size,
    ) except -1
    cdef int _forget(self) except -1
    cdef bint _is_last_account(self, Span account) noexcept
    cdef bint _find_account(self, Span account) except -1
    cdef bint _is_taken(self, bytes name) except -1
