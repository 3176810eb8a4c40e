from slipstream.kernels.wire.outbox cimport Outbox

cdef enum:
    # Kinds of links.
    TO_ROUTE = 0
    TO_HUB_LEAF = 1
    TO_SPOKE = 2
    TO_GATEWAY = 3


cdef class Presence:
    cdef readonly bint left


cdef class Link:
    cdef public int kind
    cdef readonly Outbox outbox
    cdef public bint headers
    cdef public bytes cluster
    cdef public long long distance
    cdef public object readdress
    cdef public bytes name


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
