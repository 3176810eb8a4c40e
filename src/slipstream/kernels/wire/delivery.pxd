from slipstream.kernels.wire.interest cimport Interest, Route, Subscription


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
