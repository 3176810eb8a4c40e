# cython: language_level=3, boundscheck=False, wraparound=False
"""Messages and other servers: what leaves over links, and who of a queue group gets what came over one.

    RMSG [account] <subject> [reply | + reply queues.. | | queues..] <size>\r\n<body>\r\n       to servers of the cluster,
                                                                                         and to other clusters
    LMSG <subject> [reply | + reply queues.. | | queues..] <size>\r\n<body>\r\n                 to leafs, and from leafs
    HMSG ... <header size> <size>\r\n<header><body>\r\n                                      either, with a header
    LMSG <origin> [account] <subject> [...] <header size> <size>\r\n<header><body>\r\n          from a leaf to the cluster

Another server gets a message once, with the names of the queue groups in which it is to choose somebody; what came from a
server of the cluster goes to none of these again (one hop), nor to other clusters, and nothing goes back over the link by
which it came. A server whose members of a group may not have a message hands it on to another server that has members, for
this group alone, with a list of those that had nobody for it:

    RMSG <account> <subject> [+ reply | |] <queue> <queue> <server>.. <size>\r\n              and so in all other forms

nats-server does not know this, and is not sent it. Another cluster gets a message once, too: from the server where it was
published. What came from there goes to servers of this cluster, and to no third one.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.string cimport memcmp, memcpy

from slipstream.kernels.decimal cimport DIGITS
from slipstream.kernels.wire.msgwriter cimport Message, MessageWriter, put_sizes
from slipstream.kernels.wire.outbox cimport Outbox
from slipstream.kernels.wire.receivers cimport (
    TO_GATEWAY, TO_HUB_LEAF, TO_ROUTE, TO_SPOKE, Elsewhere, Link, Route, Subscription,
)

cdef enum:
    # Servers that had nobody for a message: a list of them fits into a line of every link.
    TRIED_MAX = 64


cdef inline bint listed(tuple queues, tuple members) noexcept:
    """Whether a message that came from another server is meant for this queue group."""
    cdef Subscription sub
    if queues is None:
        return False
    sub = <Subscription>PyTuple_GET_ITEM(members, 0)
    return sub.queue in queues


cdef inline bint goes(Subscription sub, Link source, bytes origin, Message *m) noexcept:
    """Whether a message goes on over the link of this subscription."""
    cdef Link link = sub.link
    if sub.closed or link is source:
        return False
    if source is not None:
        if link.kind == TO_ROUTE:
            if source.kind != TO_HUB_LEAF and source.kind != TO_GATEWAY:
                return False
        elif link.kind == TO_GATEWAY:
            return source.kind == TO_HUB_LEAF or source.kind == TO_SPOKE
        elif source.kind == TO_ROUTE and link.kind == TO_SPOKE:
            # Each server of a cluster has its own way to the hub. Answers have only this one.
            if m.subject_size < 4 or memcmp(m.subject, b"_R_.", 4) != 0:
                return False
    return link.kind == TO_ROUTE or origin is None or origin != link.cluster


cdef class Forwarding:
    """What the delivery of one server does with links. `name` is the server's, in lists of those that had nobody."""

    def __cinit__(self, MessageWriter writer not None):
        self._writer = writer
        self.name = None

    cdef Py_ssize_t deliver(
        self, Route route, Link source, tuple queues, bytes origin, object publisher, Message *m, object hop
    ) except -1:
        """Queue groups and other servers, when there are any, or when the message came from one.

        `hop`: of a message that is traced, gives the copy for each link; else None.
        """
        cdef Py_ssize_t sent = 0
        cdef Py_ssize_t i, count
        cdef unsigned long long ticket
        cdef Subscription sub
        cdef Elsewhere group
        cdef list targets = None
        cdef set done = None
        cdef bytes alias
        if source is not None and (source.kind == TO_HUB_LEAF or source.kind == TO_SPOKE):
            origin = source.cluster
        if is_handed_on(queues):
            return self._take_handed(route, source, queues, publisher, m, hop)
        if route.elsewhere is None:
            # The common case: no queue group needs another server.
            for i in range(PyTuple_GET_SIZE(route.queues)):
                if source is not None and not listed(queues, <tuple>PyTuple_GET_ITEM(route.queues, i)):
                    continue
                count = PyTuple_GET_SIZE(<tuple>PyTuple_GET_ITEM(route.queues, i))
                sent += self._writer.group(route, i, self._writer.pick(count), publisher, m)
            if route.links is None:
                return sent
            for i in range(PyTuple_GET_SIZE(route.links)):
                sub = <Subscription>PyTuple_GET_ITEM(route.links, i)
                if goes(sub, source, origin, m):
                    alias = None if route.link_names is None else <bytes>route.link_names[i]
                    if hop is None:
                        sent += self._over(route, sub, source, None, alias, m)
                    else:
                        sent += self._traced_over(route, sub, source, None, alias, m, hop)
            return sent

        targets = []
        done = set()
        if route.links is not None:
            for i in range(PyTuple_GET_SIZE(route.links)):
                sub = <Subscription>PyTuple_GET_ITEM(route.links, i)
                if goes(sub, source, origin, m):
                    targets.append([sub, None, None if route.link_names is None else route.link_names[i]])
        for group in route.elsewhere:
            if group.local >= 0:
                done.add(group.local)
            if source is not None and (queues is None or group.queue not in queues):
                continue
            count = PyTuple_GET_SIZE(<tuple>route.queues[group.local]) if group.local >= 0 else 0
            # Those of the cluster count like local ones, unless the sender has chosen already.
            ticket = count
            if source is None or source.kind == TO_HUB_LEAF or source.kind == TO_GATEWAY:
                ticket += group.weight
            if ticket:
                ticket = <unsigned long long>self._writer.pick(<Py_ssize_t>ticket)
                if ticket < <unsigned long long>count:
                    if self._writer.group(route, group.local, <Py_ssize_t>ticket, publisher, m):
                        sent += 1
                        continue
                    ticket = 0
                else:
                    ticket -= count
            if not self._choose(group, source, origin, ticket, targets) and source is not None:
                # The sender knows what is subscribed to here, not what is allowed.
                sent += self._hand_on(route, group, source, (), m, hop)
        for i in range(PyTuple_GET_SIZE(route.queues)):
            if i in done or (source is not None and not listed(queues, <tuple>route.queues[i])):
                continue
            count = PyTuple_GET_SIZE(<tuple>route.queues[i])
            sent += self._writer.group(route, i, self._writer.pick(count), publisher, m)
        for target in targets:
            if hop is None:
                sent += self._over(route, <Subscription>target[0], source, <bytes>target[1], <bytes>target[2], m)
            else:
                sent += self._traced_over(route, <Subscription>target[0], source, <bytes>target[1], <bytes>target[2], m, hop)
        return sent

    cdef Py_ssize_t _take_handed(
        self, Route route, Link source, tuple queues, object publisher, Message *m, object hop
    ) except -1:
        """What another server had nobody for, in one queue group."""
        cdef bytes queue = <bytes>PyTuple_GET_ITEM(queues, 0)
        cdef tuple tried = queues[2:]
        cdef tuple members
        cdef Elsewhere group
        cdef Py_ssize_t i
        if self.name not in tried:
            for i in range(PyTuple_GET_SIZE(route.queues)):
                members = <tuple>PyTuple_GET_ITEM(route.queues, i)
                if (<Subscription>PyTuple_GET_ITEM(members, 0)).queue == queue and self._writer.group(
                    route, i, self._writer.pick(PyTuple_GET_SIZE(members)), publisher, m
                ):
                    return 1
        for group in route.elsewhere or ():
            if group.queue == queue:
                return self._hand_on(route, group, source, tried, m, hop)
        return 0

    cdef Py_ssize_t _hand_on(
        self, Route route, Elsewhere group, Link source, tuple tried, Message *m, object hop
    ) except -1:
        """Nobody here may have what was sent for a queue group: the next server that has members and was not asked.

        Leafs first, as nobody else knows all of them; then the cluster, where each server reaches each; then other
        clusters. A leaf that knows no other gives it back. So each server is asked once, and gives back at most once.
        """
        cdef bint again = self.name in tried
        cdef list ways = []
        cdef list others = []
        cdef Subscription sub
        cdef bytes asked
        cdef Py_ssize_t i
        if self.name is None or len(tried) >= TRIED_MAX:
            return 0
        if not again:
            tried += (self.name,)
        for i in range(PyTuple_GET_SIZE(group.spare)):
            sub = <Subscription>PyTuple_GET_ITEM(group.spare, i)
            if sub.link.kind == TO_ROUTE:
                others.append((sub, None))
            else:
                ways.append((sub, None if group.spare_names is None else group.spare_names[i]))
        ways += [(sub, None) for sub in group.members]
        ways += others
        ways += [(sub, None) for sub in group.beyond]
        asked = b"%b %b %b " % (group.queue, group.queue, b" ".join(tried))
        for back in (False, True):
            for sub, alias in ways:
                if sub.closed or sub.link.name is None or sub.link.outbox._closed:
                    continue
                if (not again and sub.link is source) if back else sub.link.name not in tried:
                    if hop is None:
                        return self._over(route, sub, source, asked, alias, m)
                    return self._traced_over(route, sub, source, asked, alias, m, hop)
        return 0

    cdef bint _choose(
        self, Elsewhere group, Link source, bytes origin, unsigned long long ticket, list targets
    ) except -1:
        """Which other server chooses a member of a queue group; it is put with the targets. False: none does."""
        cdef Subscription sub
        cdef Subscription chosen = None
        cdef bytes alias = None
        cdef Py_ssize_t i, start, count
        if source is None or source.kind == TO_HUB_LEAF or source.kind == TO_GATEWAY:
            for sub in group.members:
                if ticket < sub.weight and not sub.closed:
                    chosen = sub
                    break
                ticket -= min(ticket, <unsigned long long>sub.weight)
                if chosen is None and not sub.closed:
                    chosen = sub
        if chosen is None:
            count = PyTuple_GET_SIZE(group.spare)
            start = self._writer.pick(count) if count else 0
            for i in range(count):
                sub = <Subscription>PyTuple_GET_ITEM(group.spare, (start + i) % count)
                if sub.closed or sub.link is source:
                    continue
                if sub.link.kind == TO_ROUTE:
                    if source is not None and source.kind != TO_HUB_LEAF and source.kind != TO_GATEWAY:
                        continue
                    if origin is not None and origin == sub.origin:
                        continue
                elif origin is not None and origin == sub.link.cluster:
                    continue
                chosen = sub
                alias = None if group.spare_names is None else <bytes>group.spare_names[(start + i) % count]
                break
        if chosen is None and (source is None or source.kind == TO_HUB_LEAF or source.kind == TO_SPOKE):
            for sub in group.beyond:
                if not sub.closed:
                    chosen = sub
                    break
        if chosen is None:
            return False
        for target in targets:
            if (<Subscription>target[0]).link is chosen.link:
                target[1] = group.queue + b" " if target[1] is None else target[1] + group.queue + b" "
                return True
        targets.append([chosen, group.queue + b" ", alias])
        return True

    cdef Py_ssize_t _traced_over(
        self, Route route, Subscription sub, Link source, bytes queues, bytes alias, Message *m, object hop
    ) except -1:
        """One copy of a traced message, as `hop` gives it for this link; None: it does not leave."""
        cdef char tail_room[2 * DIGITS + 4]
        cdef char plain_room[DIGITS + 4]
        cdef Message copy = m[0]
        cdef bytes body
        given = hop(sub)
        if given is None:
            return 0
        copy.header_size, body = <tuple?>given
        if copy.header_size <= 0 or copy.header_size > PyBytes_GET_SIZE(body):
            raise ValueError("a traced message has a header, which is no longer than it")
        copy.body = PyBytes_AS_STRING(body)
        copy.size = PyBytes_GET_SIZE(body)
        copy.tail = tail_room
        copy.tail_size = put_sizes(tail_room, copy.header_size, copy.size)
        copy.plain_tail = plain_room
        copy.plain_size = put_sizes(plain_room, 0, copy.size - copy.header_size)
        return self._over(route, sub, source, queues, alias, &copy)

    cdef Py_ssize_t _over(
        self, Route route, Subscription sub, Link source, bytes queues, bytes alias, Message *m
    ) except -1:
        """One copy to another server."""
        cdef Link link = sub.link
        cdef Outbox outbox = link.outbox
        cdef Py_ssize_t sid_size = PyBytes_GET_SIZE(sub.sid)
        cdef bint routed = link.kind == TO_ROUTE or link.kind == TO_GATEWAY
        cdef bytes origin = source.cluster if link.kind == TO_ROUTE and source is not None and source.kind != TO_ROUTE else None
        cdef bytes readdressed
        cdef bint with_header = m.header_size != 0 and link.headers
        cdef const char *subject = m.wire_subject
        cdef Py_ssize_t subject_size = m.wire_subject_size
        cdef const char *reply = m.wire_reply
        cdef Py_ssize_t reply_size = m.wire_reply_size
        cdef const char *body = m.body
        cdef Py_ssize_t size = m.size
        cdef const char *shown = NULL
        cdef Py_ssize_t shown_size = 0
        cdef Py_ssize_t needed
        cdef bint whole
        cdef char *start
        cdef char *p
        if outbox._closed:
            return 0
        if reply_size and reply[0] == b".":
            reply += 1
            reply_size -= 1
        if reply_size and link.readdress is not None:
            readdressed = link.readdress(sub, PyBytes_FromStringAndSize(reply, reply_size))
            reply = PyBytes_AS_STRING(readdressed)
            reply_size = PyBytes_GET_SIZE(readdressed)
        if route.via is not None:
            # Found by one subject and shown under another: the other server learns it behind the reply.
            if reply_size and (
                subject_size != PyBytes_GET_SIZE(route.via) or memcmp(subject, PyBytes_AS_STRING(route.via), subject_size) != 0
            ):
                shown = subject
                shown_size = subject_size
            subject = PyBytes_AS_STRING(route.via)
            subject_size = PyBytes_GET_SIZE(route.via)
        elif alias is not None:
            subject = PyBytes_AS_STRING(alias)
            subject_size = PyBytes_GET_SIZE(alias)
        if m.header_size and not with_header:
            body += m.header_size
            size -= m.header_size
        whole = self._writer.is_whole(body, size)
        needed = 5 + sid_size + subject_size + 1 + reply_size + 1 + shown_size + 3 + m.tail_size + 4
        if queues is not None:
            needed += PyBytes_GET_SIZE(queues)
        if origin is not None:
            needed += PyBytes_GET_SIZE(origin) + 1
        start = p = outbox.reserve(needed if whole else needed + size)
        memcpy(p, b"RMSG ", 5)
        if origin is not None:
            p[0] = b"L"
        elif with_header:
            p[0] = b"H"
        elif not routed:
            p[0] = b"L"
        p += 5
        if origin is not None:
            memcpy(p, PyBytes_AS_STRING(origin), PyBytes_GET_SIZE(origin))
            p += PyBytes_GET_SIZE(origin)
            p[0] = b" "
            p += 1
        memcpy(p, PyBytes_AS_STRING(sub.sid), sid_size)
        p += sid_size
        memcpy(p, subject, subject_size)
        p += subject_size
        p[0] = b" "
        p += 1
        if queues is not None:
            p[0] = b"+" if reply_size else b"|"
            p[1] = b" "
            p += 2
        if reply_size:
            memcpy(p, reply, reply_size)
            p += reply_size
            if shown_size:
                p[0] = b"@"
                memcpy(p + 1, shown, shown_size)
                p += shown_size + 1
            p[0] = b" "
            p += 1
        if queues is not None:
            memcpy(p, PyBytes_AS_STRING(queues), PyBytes_GET_SIZE(queues))
            p += PyBytes_GET_SIZE(queues)
        if origin is not None and not with_header:
            p[0] = b"0"
            p[1] = b" "
            p += 2
        if m.header_size and not with_header:
            memcpy(p, m.plain_tail, m.plain_size)
            p += m.plain_size
        else:
            memcpy(p, m.tail, m.tail_size)
            p += m.tail_size
        self._writer.finish(outbox, start, p, body, size, whole)
        sub.delivered += 1
        if sub.watched and reply_size:
            # The other server notes the reply that it may answer.
            sub.client.on_delivered(sub, PyBytes_FromStringAndSize(reply, reply_size))
        return 1
