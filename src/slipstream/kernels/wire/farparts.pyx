# cython: language_level=3
"""What other servers want of a message, as parts of its route.

    (subscription, alias) ──┬── without a queue group ──► links, each once
                            └── with one ──► Elsewhere:  members   servers of this cluster, by their weight
                                                         spare     behind leafs
                                                         beyond    other clusters, the nearest first

Complexity: O(subscriptions x links), where links are the servers that this one is connected with.
"""

from slipstream.kernels.wire.receivers cimport TO_GATEWAY, TO_ROUTE, Elsewhere, Subscription


def distance_of(Subscription sub not None):
    """How far away the cluster is that a subscription belongs to."""
    return sub.link.distance


cpdef tuple far_parts(list far, dict groups):
    """What other servers want, as `links`, `link_names` and `elsewhere` of a route.

    `far` has `(subscription, alias)` pairs; `groups` the local queue groups in the order of the route's `queues`.
    """
    cdef Subscription sub
    cdef list links = []
    cdef list names = []
    cdef list known = []
    cdef list result = []
    cdef dict queues = {}
    cdef dict places = {}
    for place, queue in enumerate(groups):
        places[queue] = place
    for sub, alias in far:
        if sub.queue is not None:
            members, spare, spare_names, beyond = queues.setdefault(sub.queue, ([], [], [], []))
            if sub.link.kind == TO_GATEWAY:
                beyond.append(sub)
            elif sub.link.kind == TO_ROUTE and sub.origin is None:
                members.append(sub)
            else:
                spare.append(sub)
                spare_names.append(alias)
        elif sub.link not in known:
            known.append(sub.link)
            links.append(sub)
            names.append(alias)
    for queue, (members, spare, spare_names, beyond) in queues.items():
        beyond.sort(key=distance_of)
        result.append(
            Elsewhere(
                queue, places.get(queue, -1), tuple(members), tuple(spare), tuple(spare_names) if any(spare_names) else None,
                tuple(beyond),
            )
        )
    return (
        tuple(links) if links else None,
        tuple(names) if any(names) else None,
        tuple(result) if result else None,
    )
