from slipstream.kernels.wire.patterntrie cimport PatternTrie
from slipstream.kernels.wire.receivers cimport Route, Subscription


cdef class Interest:
    cdef dict _literals
    cdef PatternTrie _patterns
    cdef dict _routes
    cdef public object planner
    cdef public object arrival_planner
    cdef dict _arrivals
    cdef readonly unsigned long long count
    cdef readonly unsigned long long inserts
    cdef readonly unsigned long long removes
    cdef readonly unsigned long long matches
    cdef readonly unsigned long long misses
    cdef unsigned long long _stamp
    cdef Py_ssize_t _routes_max
    cdef Py_ssize_t _refused
    cdef dict _families
    cdef bytes _last_stem
    cdef Route _last_family
    cdef unsigned long long _stems_seen[256]
    cdef Py_ssize_t _leaving

    cdef Route route(self, bytes subject)
    cdef Route arrival_route(self, bytes subject)
    cdef Route answer_route(self, bytes subject)
    cdef Route _family(self, bytes subject)
    cdef Route _new_family(self, bytes stem)
    cdef int _forget(self, bytes subject, bint literal) except -1
    cdef list _collect(self, bytes subject)
    cdef list _present(self, list found)
    cdef bint _take(self, Subscription sub, bint literal) except -1
