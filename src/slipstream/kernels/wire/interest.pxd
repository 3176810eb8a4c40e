from slipstream.kernels.wire.outbox cimport Outbox


cdef class Presence:
    cdef readonly bint left


cdef class Link:
    cdef public int kind
    cdef readonly Outbox outbox
    cdef public bint headers
    cdef public bytes cluster
    cdef public long long distance
    cdef public object readdress


cdef class Subscription:
    cdef readonly bytes subject
    cdef readonly bytes queue
    cdef readonly bytes sid
    cdef readonly Outbox outbox
    cdef readonly object client
    cdef readonly object callback
    cdef public unsigned long long delivered
    cdef public unsigned long long max_msgs
    cdef public bint headers
    cdef public bint echo
    cdef public bint watched
    cdef public bint checked
    cdef public bint closed
    cdef public unsigned int cost
    cdef public Presence presence
    cdef readonly Link link
    cdef public unsigned int weight
    cdef readonly bytes origin


cdef class Elsewhere:
    cdef readonly bytes queue
    cdef readonly Py_ssize_t local
    cdef readonly tuple members
    cdef readonly tuple spare
    cdef readonly tuple spare_names
    cdef readonly tuple beyond
    cdef readonly unsigned long long weight


cdef class Route:
    cdef readonly tuple subscriptions
    cdef readonly tuple queues
    cdef readonly tuple renamed
    cdef readonly tuple queue_renamed
    cdef readonly bytes subject
    cdef readonly bint dynamic
    cdef readonly tuple links
    cdef readonly tuple link_names
    cdef readonly tuple elsewhere
    cdef readonly bytes via
    cdef readonly unsigned long long _stamp

    cdef Route outside(self)
    cdef Route copy(self)
    cdef Route unnamed_for(self, bytes target)


cdef class Interest:
    cdef dict _literals
    cdef object _root
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
