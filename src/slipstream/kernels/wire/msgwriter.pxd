from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from slipstream.kernels.decimal cimport put_number
from slipstream.kernels.wire.outbox cimport Outbox
from slipstream.kernels.wire.receivers cimport Route, Subscription


cdef struct Message:
    const char *subject
    Py_ssize_t subject_size
    const char *reply
    Py_ssize_t reply_size
    Py_ssize_t header_size
    const char *body
    Py_ssize_t size
    const char *tail
    Py_ssize_t tail_size
    const char *plain_tail
    Py_ssize_t plain_size
    # As other servers are told, where that differs.
    const char *wire_subject
    Py_ssize_t wire_subject_size
    const char *wire_reply
    Py_ssize_t wire_reply_size
    # Bytes in front of the reply that say to which cluster it leads; clients do not see them.
    Py_ssize_t address_size


cdef inline Py_ssize_t put_sizes(char *room, Py_ssize_t header_size, Py_ssize_t size) noexcept nogil:
    """The end of a line: the size of the header if there is one, that of the message; how long it is."""
    cdef char *p = room
    if header_size:
        p = put_number(p, header_size)
        p[0] = b" "
        p += 1
    p = put_number(p, size)
    p[0] = b"\r"
    p[1] = b"\n"
    return p + 2 - room


cdef class BufferListener:
    cdef object _slow

    cdef Py_ssize_t take(
        self, const char *subject, Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size,
        Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1
    cdef Py_ssize_t fast(
        self, const char *subject, Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size,
        Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1


cdef class MessageWriter:
    cdef unsigned long long _random
    cdef bint stalled
    cdef object failed
    cdef bytes whole

    cdef Py_ssize_t group(
        self, Route route, Py_ssize_t index, Py_ssize_t start, object publisher, Message *m
    ) except -1
    cdef int finish(
        self, Outbox outbox, char *start, char *p, const char *body, Py_ssize_t size, bint whole
    ) except -1
    cdef inline bint is_whole(self, const char *body, Py_ssize_t size) noexcept:
        """Whether a body is the large object that is being delivered."""
        return self.whole is not None and body == PyBytes_AS_STRING(self.whole) and size == PyBytes_GET_SIZE(self.whole)
    cdef Py_ssize_t one_addressed(
        self, Subscription sub, object publisher, const char *subject, Py_ssize_t subject_size, Message *m, bint crossed
    ) except -1
    cdef Py_ssize_t pick(self, Py_ssize_t count) noexcept
    cdef Py_ssize_t one(
        self, Subscription sub, object publisher, const char *subject, Py_ssize_t subject_size,
        const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size,
        const char *tail, Py_ssize_t tail_size, const char *plain_tail, Py_ssize_t plain_size, bint crossed,
    ) except -1
    cdef bytes _marked(self, object publisher, object rights, const char *reply, Py_ssize_t size)
    cdef Py_ssize_t _inside(
        self, Subscription sub, object publisher, const char *subject, Py_ssize_t subject_size,
        const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size, bint crossed,
    ) except -1
