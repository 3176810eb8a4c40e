# cython: language_level=3, boundscheck=False, wraparound=False
"""Executes routes: writes one message into the outboxes of everybody who gets a copy.

    MSG  <subject> <sid> [reply] <size>\r\n<body>\r\n
    HMSG <subject> <sid> [reply] <header size> <size>\r\n<header><body>\r\n

    RMSG [account] <subject> [reply | + reply queues.. | | queues..] <size>\r\n<body>\r\n       to servers of the cluster,
                                                                                         and to other clusters
    LMSG <subject> [reply | + reply queues.. | | queues..] <size>\r\n<body>\r\n                 to leafs, and from leafs
    HMSG ... <header size> <size>\r\n<header><body>\r\n                                      either, with a header
    LMSG <origin> [account] <subject> [...] <header size> <size>\r\n<header><body>\r\n          from a leaf to the cluster

The part after the sid is the same for every receiver with the same header ability, so it is built once a message.
No decision is taken here: the route says who, the subscription says how, the publisher which reply it may name. Another
server gets a message once, with the names of the queue groups in which it is to choose somebody; what came from a server
of the cluster goes to none of these again (one hop), nor to other clusters, and nothing goes back over the link by which
it came. Another cluster gets a message once, too: from the server where it was published. What came from there goes to
servers of this cluster, and to no third one.
A reply may have the address of a cluster in front (`_GR_.<cluster>.<server>.`): servers see it, clients do not, and are
told of it so that their answer finds back.
Internal subscribers (streams, services)
get bytes objects through their callback, made once a message and only when one of them is there; a `Listener` gets the
bytes where they are.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.string cimport memcmp, memcpy

from slipstream.kernels.wire.interest cimport Elsewhere, Interest, Link, Route, Subscription
from slipstream.kernels.wire.outbox cimport Outbox

cdef extern from * nogil:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <string.h>
    """
    void *memrchr(const void *text, int byte, size_t size)

cdef enum:
    # Longest text of a 64-bit number.
    DIGITS = 20
    # A body from here on is handed to the transport as the object it is; below, a copy costs less than a further piece.
    WHOLE_BYTES = 65536
    # Kinds of links, as `interest` names them.
    TO_ROUTE = 0
    TO_HUB_LEAF = 1
    TO_SPOKE = 2
    TO_GATEWAY = 3
    # `_GR_.`, six characters for the cluster, six for the server, and the dots behind them.
    ADDRESS_SIZE = 19


cdef inline Py_ssize_t put_number(char *target, unsigned long long number) noexcept nogil:
    cdef char digits[DIGITS]
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t i
    if number == 0:
        target[0] = b"0"
        return 1
    while number:
        digits[n] = <char>(48 + number % 10)
        number //= 10
        n += 1
    for i in range(n):
        target[i] = digits[n - 1 - i]
    return n


cdef inline Py_ssize_t put_sizes(char *room, Py_ssize_t header_size, Py_ssize_t size) noexcept nogil:
    """The end of a line: the size of the header if there is one, that of the message; how long it is."""
    cdef Py_ssize_t used = 0
    if header_size:
        used = put_number(room, header_size)
        room[used] = b" "
        used += 1
    used += put_number(room + used, size)
    room[used] = b"\r"
    room[used + 1] = b"\n"
    return used + 2


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


cdef class Listener:
    """An internal subscriber in a kernel: takes messages from where they were read, before the buffer is used again.

    Put in the place of a subscription's callback. A subclass overrides `fast` and sets `_slow`, which is called with
    `(subject, reply, header, payload)` for every message that `fast` leaves. The base class takes nothing.
    """

    cdef Py_ssize_t take(
        self, const char *subject, Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size,
        Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1:
        """One message; 1 when it was taken."""
        if self.fast(subject, subject_size, reply, reply_size, header_size, body, size):
            return 1
        if self._slow is None:
            return 0
        self._slow(
            PyBytes_FromStringAndSize(subject, subject_size),
            PyBytes_FromStringAndSize(reply, reply_size) if reply_size else None,
            PyBytes_FromStringAndSize(body, header_size) if header_size else None,
            PyBytes_FromStringAndSize(body + header_size, size - header_size),
        )
        return 1

    cdef Py_ssize_t fast(
        self, const char *subject, Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size,
        Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1:
        """1 when the message needs nothing more; 0 when nothing was done."""
        return 0

    def __call__(self, publisher, bytes subject not None, bytes reply, Py_ssize_t header_size, bytes body not None):
        """The same for a message held in bytes objects."""
        cdef const char *reply_text = NULL
        cdef Py_ssize_t reply_size = 0
        if header_size < 0 or header_size > PyBytes_GET_SIZE(body):
            raise ValueError("the header is longer than the message")
        if reply is not None:
            reply_text = PyBytes_AS_STRING(reply)
            reply_size = PyBytes_GET_SIZE(reply)
        self.take(
            PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), reply_text, reply_size, header_size,
            PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body),
        )


cdef class Delivery:
    """Delivers for one server. `seed` feeds the choice among queue members.

    Attributes:
        failed: told of what an internal subscriber raises, which is not the publisher's trouble, nor that of other
            receivers; None: it is raised.
    """

    def __cinit__(self, unsigned long long seed):
        self._random = seed | 1
        self.stalled = False
        self.failed = None

    def deliver(
        self, Route route not None, publisher, bytes subject not None, bytes reply, Py_ssize_t header_size,
        bytes body not None,
    ):
        """Deliver a message held in bytes objects; returns how many got it."""
        cdef Py_ssize_t reply_size = 0
        cdef const char *reply_text = NULL
        cdef bytes outer = self._whole  # a callback may deliver something while something is delivered
        if reply is not None:
            reply_text = PyBytes_AS_STRING(reply)
            reply_size = PyBytes_GET_SIZE(reply)
        self._whole = body if PyBytes_GET_SIZE(body) >= WHOLE_BYTES else None
        try:
            return self.send(
                route, publisher, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), reply_text, reply_size,
                header_size, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body),
            )
        finally:
            self._whole = outer

    def publish_acks(
        self, Interest interest not None, list acks not None, Py_ssize_t start, Py_ssize_t end, bytes prefix not None,
    ):
        """Publish `(subject, number)` pairs from `start` to `end`: each is `prefix`, the number, and `}`."""
        cdef Py_ssize_t prefix_size = PyBytes_GET_SIZE(prefix)
        cdef bytes room = PyBytes_FromStringAndSize(NULL, prefix_size + DIGITS + 1)
        cdef char *text = PyBytes_AS_STRING(room)
        cdef Py_ssize_t at
        cdef Py_ssize_t size
        cdef bytes subject
        cdef tuple pair
        memcpy(text, PyBytes_AS_STRING(prefix), prefix_size)
        for at in range(max(start, 0), min(end, len(acks))):
            pair = <tuple?>acks[at]
            subject = <bytes?>pair[0]
            size = prefix_size + put_number(text + prefix_size, pair[1])
            text[size] = b"}"
            self.send(
                interest.answer_route(subject), None, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), NULL, 0, 0,
                text, size + 1,
            )

    def publish_answer(self, Interest interest not None, bytes subject not None, bytes payload not None):
        """Publish one answer of the server."""
        self.send(
            interest.answer_route(subject), None, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), NULL, 0, 0,
            PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload),
        )

    def take_stalled(self):
        """Whether a receiver was near its limit since the last call: the producer should pause."""
        cdef bint stalled = self.stalled
        self.stalled = False
        return stalled

    def deliver_arrived(
        self, Route route not None, Link link not None, publisher, tuple queues, bytes origin, bytes subject not None,
        bytes reply, Py_ssize_t header_size, bytes body not None,
    ):
        """Deliver what came over a link; returns how many got it.

        `queues`: the groups in which the sender has chosen this server; nobody else in a group gets it. `origin`: the
        cluster of the leaf that published it, when another server passes it on.
        """
        cdef Py_ssize_t reply_size = 0
        cdef const char *reply_text = NULL
        if header_size < 0 or header_size > PyBytes_GET_SIZE(body):
            raise ValueError("the header is longer than the message")
        if reply is not None:
            reply_text = PyBytes_AS_STRING(reply)
            reply_size = PyBytes_GET_SIZE(reply)
        return self.send_arrived(
            route, link, queues, origin, publisher, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), reply_text,
            reply_size, header_size, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body),
        )

    cdef Py_ssize_t send(
        self, Route route, object publisher, const char *subject, Py_ssize_t subject_size,
        const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1:
        cdef char tail_room[2 * DIGITS + 4]
        cdef char plain_room[DIGITS + 4]
        cdef Py_ssize_t tail_size
        cdef Py_ssize_t plain_size = 0
        cdef Py_ssize_t sent = 0
        cdef Py_ssize_t i, count
        cdef Subscription sub
        if (
            route.links is not None or route.elsewhere is not None or route.renamed is not None
            or PyTuple_GET_SIZE(route.queues)
        ):
            return self.send_arrived(
                route, None, None, None, publisher, subject, subject_size, reply, reply_size, header_size, body, size
            )
        # Most messages go to subscribers of this server alone, under their own name, or to nobody.
        count = PyTuple_GET_SIZE(route.subscriptions)
        if count == 0:
            return 0
        if publisher is None and subject_size and subject[0] == b".":
            subject += 1
            subject_size -= 1
        if route.subject is not None:
            subject = PyBytes_AS_STRING(route.subject)
            subject_size = PyBytes_GET_SIZE(route.subject)
        tail_size = put_sizes(tail_room, header_size, size)
        if header_size:
            plain_size = put_sizes(plain_room, 0, size - header_size)
        for i in range(count):
            sub = <Subscription>PyTuple_GET_ITEM(route.subscriptions, i)
            if sub.closed or (not sub.echo and sub.client is publisher):
                continue
            sent += self._one(
                sub, publisher, subject, subject_size, reply, reply_size, header_size, body, size, tail_room, tail_size,
                plain_room, plain_size, False,
            )
        return sent

    cdef Py_ssize_t send_arrived(
        self, Route route, Link source, tuple queues, bytes origin, object publisher, const char *subject,
        Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body,
        Py_ssize_t size,
    ) except -1:
        cdef char tail_room[2 * DIGITS + 4]
        cdef char plain_room[DIGITS + 4]
        cdef Py_ssize_t tail_size = 0
        cdef Py_ssize_t plain_size = 0
        cdef Py_ssize_t sent = 0
        cdef Py_ssize_t i, members_count
        cdef Subscription sub
        cdef bytes renamed
        cdef const char *shown
        cdef Message m

        if publisher is None:
            # Marks of the server's own, which nobody outside it sees; see `Interest.answer_route`.
            if subject_size and subject[0] == b".":
                subject += 1
                subject_size -= 1
        if route.subject is not None:
            subject = PyBytes_AS_STRING(route.subject)
            subject_size = PyBytes_GET_SIZE(route.subject)

        m.wire_subject = subject
        m.wire_subject_size = subject_size
        m.wire_reply = reply
        m.wire_reply_size = reply_size
        m.address_size = 0
        if source is not None and reply_size > ADDRESS_SIZE and memcmp(reply, b"_GR_.", 5) == 0:
            m.address_size = ADDRESS_SIZE
            reply += ADDRESS_SIZE
            reply_size -= ADDRESS_SIZE
        if source is not None and reply_size > 8 and memcmp(reply, b"$JS.ACK.", 8) == 0:
            # A stored message: what is behind the reply is the subject that clients see.
            shown = <const char *>memrchr(reply, b"@", reply_size)
            if shown != NULL and shown + 1 < reply + reply_size:
                subject = shown + 1
                subject_size = reply + reply_size - subject
                reply_size = shown - reply

        tail_size = put_sizes(tail_room, header_size, size)
        if header_size:
            plain_size = put_sizes(plain_room, 0, size - header_size)

        m.subject = subject
        m.subject_size = subject_size
        m.reply = reply
        m.reply_size = reply_size
        m.header_size = header_size
        m.body = body
        m.size = size
        m.tail = tail_room
        m.tail_size = tail_size
        m.plain_tail = plain_room
        m.plain_size = plain_size

        for i in range(PyTuple_GET_SIZE(route.subscriptions)):
            sub = <Subscription>PyTuple_GET_ITEM(route.subscriptions, i)
            if sub.closed or (not sub.echo and sub.client is publisher):
                continue
            if m.address_size:
                renamed = None if route.renamed is None else <bytes>route.renamed[i]
                if renamed is None:
                    sent += self._one_addressed(sub, publisher, subject, subject_size, &m, False)
                else:
                    sent += self._one_addressed(
                        sub, publisher, PyBytes_AS_STRING(renamed), PyBytes_GET_SIZE(renamed), &m, True
                    )
                continue
            if route.renamed is not None:
                renamed = <bytes>route.renamed[i]
                if renamed is not None:
                    sent += self._one(
                        sub, publisher, PyBytes_AS_STRING(renamed), PyBytes_GET_SIZE(renamed), reply, reply_size, header_size,
                        body, size, tail_room, tail_size, plain_room, plain_size, True,
                    )
                    continue
            sent += self._one(
                sub, publisher, subject, subject_size, reply, reply_size, header_size, body, size, tail_room, tail_size,
                plain_room, plain_size, False,
            )

        if source is not None or route.elsewhere is not None or route.links is not None:
            return sent + self._deliver(route, source, queues, origin, publisher, &m)
        for i in range(PyTuple_GET_SIZE(route.queues)):
            members_count = PyTuple_GET_SIZE(<tuple>PyTuple_GET_ITEM(route.queues, i))
            sent += self._group(route, i, self._pick(members_count), publisher, &m)
        return sent

    cdef Py_ssize_t _group(
        self, Route route, Py_ssize_t index, Py_ssize_t start, object publisher, Message *m
    ) except -1:
        """One of the local members of a queue group, the first from `start` on that takes it."""
        cdef tuple members = <tuple>PyTuple_GET_ITEM(route.queues, index)
        cdef Py_ssize_t count = PyTuple_GET_SIZE(members)
        cdef Py_ssize_t k
        cdef Subscription sub
        cdef bytes renamed
        cdef const char *alias
        cdef Py_ssize_t alias_size
        for k in range(count):
            sub = <Subscription>PyTuple_GET_ITEM(members, (start + k) % count)
            if sub.closed or (not sub.echo and sub.client is publisher):
                continue
            alias = m.subject
            alias_size = m.subject_size
            if route.queue_renamed is not None:
                renamed = <bytes>(<tuple>route.queue_renamed[index])[(start + k) % count]
                if renamed is not None:
                    alias = PyBytes_AS_STRING(renamed)
                    alias_size = PyBytes_GET_SIZE(renamed)
            if m.address_size:
                if self._one_addressed(sub, publisher, alias, alias_size, m, alias != m.subject):
                    return 1
                continue
            if self._one(
                sub, publisher, alias, alias_size, m.reply, m.reply_size, m.header_size, m.body, m.size, m.tail, m.tail_size,
                m.plain_tail, m.plain_size, alias != m.subject,
            ):
                return 1
        return 0

    cdef Py_ssize_t _one_addressed(
        self, Subscription sub, object publisher, const char *subject, Py_ssize_t subject_size, Message *m, bint crossed
    ) except -1:
        """One copy of a message whose reply leads to another cluster: the server itself answers to the whole address."""
        cdef Py_ssize_t hidden = m.address_size
        cdef bytes address
        if sub.outbox is None:
            return self._one(
                sub, publisher, subject, subject_size, m.reply - hidden, m.reply_size + hidden, m.header_size, m.body, m.size,
                m.tail, m.tail_size, m.plain_tail, m.plain_size, crossed,
            )
        address = PyBytes_FromStringAndSize(m.reply - hidden, m.reply_size + hidden)
        if not self._one(
            sub, publisher, subject, subject_size, m.reply, m.reply_size, m.header_size, m.body, m.size, m.tail, m.tail_size,
            m.plain_tail, m.plain_size, crossed,
        ):
            return 0
        sub.client.answers_to(address[hidden:], address)
        return 1

    cdef Py_ssize_t _deliver(self, Route route, Link source, tuple queues, bytes origin, object publisher, Message *m) except -1:
        """Queue groups and other servers, when there are any, or when the message came from one."""
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
        if route.elsewhere is None:
            # The common case: no queue group needs another server.
            for i in range(PyTuple_GET_SIZE(route.queues)):
                if source is not None and not listed(queues, <tuple>PyTuple_GET_ITEM(route.queues, i)):
                    continue
                count = PyTuple_GET_SIZE(<tuple>PyTuple_GET_ITEM(route.queues, i))
                sent += self._group(route, i, self._pick(count), publisher, m)
            if route.links is None:
                return sent
            for i in range(PyTuple_GET_SIZE(route.links)):
                sub = <Subscription>PyTuple_GET_ITEM(route.links, i)
                if goes(sub, source, origin, m):
                    alias = None if route.link_names is None else <bytes>route.link_names[i]
                    sent += self._over(route, sub, source, None, alias, m)
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
                ticket = <unsigned long long>self._pick(<Py_ssize_t>ticket)
                if ticket < <unsigned long long>count:
                    if self._group(route, group.local, <Py_ssize_t>ticket, publisher, m):
                        sent += 1
                        continue
                    ticket = 0
                else:
                    ticket -= count
            self._choose(group, source, origin, ticket, targets)
        for i in range(PyTuple_GET_SIZE(route.queues)):
            if i in done or (source is not None and not listed(queues, <tuple>route.queues[i])):
                continue
            count = PyTuple_GET_SIZE(<tuple>route.queues[i])
            sent += self._group(route, i, self._pick(count), publisher, m)
        for target in targets:
            sent += self._over(route, <Subscription>target[0], source, <bytes>target[1], <bytes>target[2], m)
        return sent

    cdef int _choose(
        self, Elsewhere group, Link source, bytes origin, unsigned long long ticket, list targets
    ) except -1:
        """Which other server chooses a member of a queue group; it is put with the targets."""
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
            start = self._pick(count) if count else 0
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
        if chosen is None and source is not None and source.kind == TO_ROUTE:
            # Who was chosen here is gone meanwhile: rather another server than nobody.
            for sub in group.members:
                if not sub.closed and sub.link is not source:
                    chosen = sub
                    break
        if chosen is None and (source is None or source.kind == TO_HUB_LEAF or source.kind == TO_SPOKE):
            for sub in group.beyond:
                if not sub.closed:
                    chosen = sub
                    break
        if chosen is None:
            return 0
        for target in targets:
            if (<Subscription>target[0]).link is chosen.link:
                target[1] = group.queue + b" " if target[1] is None else target[1] + group.queue + b" "
                return 0
        targets.append([chosen, group.queue + b" ", alias])
        return 0

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
        whole = self._whole is not None and body == PyBytes_AS_STRING(self._whole) and size == PyBytes_GET_SIZE(self._whole)
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
        if whole:
            outbox.advance(p - start)
            outbox.put_whole(self._whole)
            start = p = outbox.reserve(2)
        else:
            if size:
                memcpy(p, body, size)
            p += size
        p[0] = b"\r"
        p[1] = b"\n"
        outbox.advance(p + 2 - start)
        self._written(outbox, size)
        sub.delivered += 1
        if sub.watched and reply_size:
            # The other server notes the reply that it may answer.
            sub.client.on_delivered(sub, PyBytes_FromStringAndSize(reply, reply_size))
        return 1

    cdef int _written(self, Outbox outbox, Py_ssize_t size) except -1:
        """A message was put into an outbox."""
        outbox.msgs += 1
        outbox.msg_bytes += size
        if outbox._waiting + outbox.in_flight > outbox.stall_at:
            self.stalled = True
        if not outbox._dirty or outbox._waiting + outbox.in_flight > outbox.limit:
            outbox._touch()
        if outbox._waiting > outbox.early_at:
            outbox._flush_early()
        return 0

    cdef Py_ssize_t _pick(self, Py_ssize_t count) noexcept:
        self._random ^= self._random << 13
        self._random ^= self._random >> 7
        self._random ^= self._random << 17
        return <Py_ssize_t>(self._random % <unsigned long long>count)

    cdef Py_ssize_t _one(
        self, Subscription sub, object publisher, const char *subject, Py_ssize_t subject_size,
        const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size,
        const char *tail, Py_ssize_t tail_size, const char *plain_tail, Py_ssize_t plain_size, bint crossed,
    ) except -1:
        cdef Outbox outbox = sub.outbox
        cdef Py_ssize_t sid_size, needed
        cdef bint with_header = header_size != 0
        cdef bint whole
        cdef char *start
        cdef char *p

        if outbox is None:
            return self._inside(sub, publisher, subject, subject_size, reply, reply_size, header_size, body, size, crossed)
        if outbox._closed:
            return 0
        if publisher is None and reply_size and reply[0] == b".":
            reply += 1
            reply_size -= 1
        if with_header and not sub.headers:
            with_header = False
            body += header_size
            size -= header_size
            tail = plain_tail
            tail_size = plain_size

        whole = self._whole is not None and body == PyBytes_AS_STRING(self._whole) and size == PyBytes_GET_SIZE(self._whole)
        sid_size = PyBytes_GET_SIZE(sub.sid)
        needed = 5 + subject_size + 1 + sid_size + 1 + reply_size + 1 + tail_size + 2
        start = p = outbox.reserve(needed if whole else needed + size)
        if with_header:
            p[0] = b"H"
            p += 1
        memcpy(p, b"MSG ", 4)
        p += 4
        memcpy(p, subject, subject_size)
        p += subject_size
        p[0] = b" "
        memcpy(p + 1, PyBytes_AS_STRING(sub.sid), sid_size)
        p += sid_size + 1
        p[0] = b" "
        p += 1
        if reply_size:
            memcpy(p, reply, reply_size)
            p += reply_size
            p[0] = b" "
            p += 1
        memcpy(p, tail, tail_size)
        p += tail_size
        if whole:
            outbox.advance(p - start)
            outbox.put_whole(self._whole)
            start = p = outbox.reserve(2)
        else:
            if size:
                memcpy(p, body, size)
            p += size
        p[0] = b"\r"
        p[1] = b"\n"
        outbox.advance(p + 2 - start)
        self._written(outbox, size)
        sub.delivered += 1
        if sub.watched or sub.max_msgs:
            # The owner counts towards auto-unsubscribe or notes the reply it may answer.
            try:
                sub.client.on_delivered(sub, PyBytes_FromStringAndSize(reply, reply_size) if reply_size else None)
            except Exception as error:
                # The receiver's trouble: neither its publisher nor other receivers notice.
                if self.failed is None:
                    raise
                self.failed(error)
        return 1

    cdef Py_ssize_t _inside(
        self, Subscription sub, object publisher, const char *subject, Py_ssize_t subject_size,
        const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size, bint crossed,
    ) except -1:
        cdef object taken
        cdef object rights
        cdef bytes marked
        if reply_size and publisher is not None:
            rights = publisher.rights
            if crossed or (rights is not None and not rights.answered_anywhere):
                marked = None if crossed else self._marked(publisher, rights, reply, reply_size)
                if marked is None:
                    marked = publisher.answerable(PyBytes_FromStringAndSize(reply, reply_size), crossed)
                reply = PyBytes_AS_STRING(marked)
                reply_size = PyBytes_GET_SIZE(marked)
        try:
            if isinstance(sub.callback, Listener):
                if not (<Listener>sub.callback).take(
                    subject, subject_size, reply, reply_size, header_size, body, size
                ):
                    return 0
            else:
                taken = sub.callback(
                    publisher,
                    PyBytes_FromStringAndSize(subject, subject_size),
                    PyBytes_FromStringAndSize(reply, reply_size) if reply_size else None,
                    header_size,
                    PyBytes_FromStringAndSize(body, size),
                )
                if taken is False:
                    return 0
        except Exception as error:
            if self.failed is None:
                raise
            self.failed(error)
        sub.delivered += 1
        return 1

    cdef bytes _marked(self, object publisher, object rights, const char *reply, Py_ssize_t size):
        """The reply as the publisher has said for all that begin like it; None when it has to be asked."""
        cdef bytes prefix = rights.answer_prefix
        cdef object mark = rights.answer_mark
        cdef object account
        if mark is None or size < PyBytes_GET_SIZE(prefix):
            return None
        if memcmp(reply, PyBytes_AS_STRING(prefix), PyBytes_GET_SIZE(prefix)) != 0:
            return None
        account = publisher.account
        if account is None or account.maps_subjects:
            return None  # what the reply becomes decides, not what it is
        return <bytes>mark + PyBytes_FromStringAndSize(reply, size)
