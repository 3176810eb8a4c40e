from slipstream.kernels.wire.receivers cimport Link


cdef class InterestLines:
    cdef object _sink
    cdef Link _link
    cdef bint _stopped
    cdef list wanted
    cdef bytes _account

    cdef int stop(self) except -1
    cdef int take(
        self, const char *line, char verb, const char *end, bint named_accounts, Py_ssize_t max_control_line
    ) except -1
    cdef int tell(self) except -1
    cdef bint _is_plain(self, const char *p, const char *end, bint named_accounts) except -1
