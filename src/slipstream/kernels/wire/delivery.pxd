from slipstream.kernels.wire.interest cimport Elsewhere, Interest, Link, Route, Subscription
from slipstream.kernels.wire.outbox cimport Outbox


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


cdef class Listener:
    cdef object _slow

    cdef Py_ssize_t take(
        self, const char *subject, Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size,
        Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1
    cdef Py_ssize_t fast(
        self, const char *subject, Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size,
        Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1


cdef class Delivery:
    cdef unsigned long long _random
    cdef readonly bint stalled
    cdef public object failed
    cdef bytes _whole  # the large body that is being delivered, as an object; else None

    cdef Py_ssize_t send(
        self, Route route, object publisher, const char *subject, Py_ssize_t subject_size,
        const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1
    cdef Py_ssize_t send_arrived(
        self, Route route, Link source, tuple queues, bytes origin, object publisher, const char *subject,
        Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1
    cdef Py_ssize_t _deliver(self, Route route, Link source, tuple queues, bytes origin, object publisher, Message *m) except -1
    cdef Py_ssize_t _group(
        self, Route route, Py_ssize_t index, Py_ssize_t start, object publisher, Message *m
    ) except -1
    cdef int _choose(
        self, Elsewhere group, Link source, bytes origin, unsigned long long ticket, list targets
    ) except -1
    cdef Py_ssize_t _over(
        self, Route route, Subscription sub, Link source, bytes queues, bytes alias, Message *m
    ) except -1
    cdef int _written(self, Outbox outbox, Py_ssize_t size) except -1
    cdef Py_ssize_t _one_addressed(
        self, Subscription sub, object publisher, const char *subject, Py_ssize_t subject_size, Message *m, bint crossed
    ) except -1
    cdef Py_ssize_t _pick(self, Py_ssize_t count) noexcept
    cdef Py_ssize_t _one(
        self, Subscription sub, object publisher, const char *subject, Py_ssize_t subject_size,
        const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size,
        const char *tail, Py_ssize_t tail_size, const char *plain_tail, Py_ssize_t plain_size, bint crossed,
    ) except -1
    cdef bytes _marked(self, object publisher, object rights, const char *reply, Py_ssize_t size)
    cdef Py_ssize_t _inside(
        self, Subscription sub, object publisher, const char *subject, Py_ssize_t subject_size,
        const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size, bint crossed,
    ) except -1
