# C types of the publishes of one client, for the kernel that parses them. See publishing.pyx.

from slipstream.kernels.wire.clientlines cimport Span
from slipstream.kernels.wire.delivery cimport Delivery
from slipstream.kernels.wire.interest cimport Interest
from slipstream.kernels.wire.receivers cimport Route

cdef extern from * nogil:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <string.h>
    """
    void *memmem(const void *haystack, size_t haystack_size, const void *needle, size_t needle_size)


cdef inline bint asks_for_trace(const char *header, Py_ssize_t size) noexcept nogil:
    """Whether a message names where its trace goes."""
    return memmem(header, size, b"\r\nNats-Trace-Dest:", 18) != NULL


cdef class Publishing:
    cdef object _sink
    cdef object _client
    cdef Delivery _delivery
    cdef public Interest interest
    cdef public bint fast
    cdef public bint no_responders
    cdef public bint restricted
    cdef public bint traceparents
    cdef public dict verdicts
    cdef public unsigned long long msgs
    cdef public unsigned long long msg_bytes
    cdef public bint dead
    cdef bytes _last_subject
    cdef Route _last_route

    cdef int _publish(self, Span subject, Span reply, Py_ssize_t header_size, const char *body, Py_ssize_t size) except -1
    cdef bint _decide(self, bytes name) except -1
