# cython: language_level=3, boundscheck=False, wraparound=False
"""Executes routes: one message for everybody who gets a copy.

    Route ──┬── subscriptions, queue groups of this server ──► msgwriter
            └── links, members of queue groups elsewhere ──► forwarding

What is the same for all receivers is built once a message. Most messages go to subscribers of this server alone: their way
is `send`, without a look at anything else.
No decision is taken here: the route says who, the subscription says how, the publisher which reply it may name.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.string cimport memcmp, memcpy

from slipstream.kernels.decimal cimport DIGITS, put_number
from slipstream.kernels.wire.forwarding cimport Forwarding, is_handed_on
from slipstream.kernels.wire.interest cimport Interest
from slipstream.kernels.wire.msgwriter cimport Message, MessageWriter, put_sizes
from slipstream.kernels.wire.receivers cimport Link, Route, Subscription

cdef extern from * nogil:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <string.h>
    """
    void *memrchr(const void *text, int byte, size_t size)

cdef enum:
    # A body from here on is handed to the transport as the object it is; below, a copy costs less than a further piece.
    WHOLE_BYTES = 65536
    # `_GR_.`, six characters for the cluster, six for the server, and the dots behind them.
    ADDRESS_SIZE = 19


cdef class Delivery:
    """Delivers for one server. `seed` feeds the choice among queue members.

    `failed` is told of what an internal subscriber raises, which is not the publisher's trouble, nor that of other
    receivers; None: it is raised. `name` is this server's among those that had nobody for a message; None: it has no links.
    """

    def __cinit__(self, unsigned long long seed, failed=None):
        self._writer = MessageWriter(seed, failed)
        self._forwarding = Forwarding(self._writer)
        self._hop = None

    @property
    def name(self):
        return self._forwarding.name

    @name.setter
    def name(self, bytes name):
        self._forwarding.name = name

    @property
    def stalled(self):
        """Whether a receiver was near its limit since `take_stalled` was called."""
        return self._writer.stalled

    @property
    def failed(self):
        """Who is told of what an internal subscriber raises."""
        return self._writer.failed

    def deliver(
        self, Route route not None, publisher, bytes subject not None, bytes reply, Py_ssize_t header_size,
        bytes body not None,
    ):
        """Deliver a message held in bytes objects; returns how many got it."""
        cdef Py_ssize_t reply_size = 0
        cdef const char *reply_text = NULL
        cdef bytes outer = self._writer.whole  # a callback may deliver something while something is delivered
        if reply is not None:
            reply_text = PyBytes_AS_STRING(reply)
            reply_size = PyBytes_GET_SIZE(reply)
        self._writer.whole = body if PyBytes_GET_SIZE(body) >= WHOLE_BYTES else None
        try:
            return self.send(
                route, publisher, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), reply_text, reply_size,
                header_size, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body),
            )
        finally:
            self._writer.whole = outer

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
            size = put_number(text + prefix_size, pair[1]) - text
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
        cdef bint stalled = self._writer.stalled
        self._writer.stalled = False
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

    def deliver_traced(
        self, Route route not None, Link link, publisher, tuple queues, bytes origin, bytes subject not None,
        bytes reply, Py_ssize_t header_size, bytes body not None, hop not None,
    ):
        """Deliver a traced message, of a link or (None) of this server; returns how many got it.

        `hop` is called with the subscription of each link and gives `(header size, body)` of the copy that leaves there,
        or None: nothing does.
        """
        cdef Py_ssize_t reply_size = 0
        cdef const char *reply_text = NULL
        if header_size < 0 or header_size > PyBytes_GET_SIZE(body):
            raise ValueError("the header is longer than the message")
        if reply is not None:
            reply_text = PyBytes_AS_STRING(reply)
            reply_size = PyBytes_GET_SIZE(reply)
        self._hop = hop
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
        cdef MessageWriter writer = self._writer
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
            sent += writer.one(
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
        cdef MessageWriter writer = self._writer
        cdef object hop = self._hop
        self._hop = None  # what receivers inside the server publish meanwhile is not traced

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

        if is_handed_on(queues):
            # All others have had it.
            return self._forwarding.deliver(route, source, queues, origin, publisher, &m, hop)
        for i in range(PyTuple_GET_SIZE(route.subscriptions)):
            sub = <Subscription>PyTuple_GET_ITEM(route.subscriptions, i)
            if sub.closed or (not sub.echo and sub.client is publisher):
                continue
            if m.address_size:
                renamed = None if route.renamed is None else <bytes>route.renamed[i]
                if renamed is None:
                    sent += writer.one_addressed(sub, publisher, subject, subject_size, &m, False)
                else:
                    sent += writer.one_addressed(
                        sub, publisher, PyBytes_AS_STRING(renamed), PyBytes_GET_SIZE(renamed), &m, True
                    )
                continue
            if route.renamed is not None:
                renamed = <bytes>route.renamed[i]
                if renamed is not None:
                    sent += writer.one(
                        sub, publisher, PyBytes_AS_STRING(renamed), PyBytes_GET_SIZE(renamed), reply, reply_size, header_size,
                        body, size, tail_room, tail_size, plain_room, plain_size, True,
                    )
                    continue
            sent += writer.one(
                sub, publisher, subject, subject_size, reply, reply_size, header_size, body, size, tail_room, tail_size,
                plain_room, plain_size, False,
            )

        if source is not None or route.elsewhere is not None or route.links is not None:
            return sent + self._forwarding.deliver(route, source, queues, origin, publisher, &m, hop)
        for i in range(PyTuple_GET_SIZE(route.queues)):
            members_count = PyTuple_GET_SIZE(<tuple>PyTuple_GET_ITEM(route.queues, i))
            sent += writer.group(route, i, writer.pick(members_count), publisher, &m)
        return sent
