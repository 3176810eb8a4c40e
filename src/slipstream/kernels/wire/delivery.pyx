# cython: language_level=3, boundscheck=False, wraparound=False
"""Executes routes: writes one message into the outboxes of everybody who gets a copy.

    MSG  <subject> <sid> [reply] <size>\r\n<body>\r\n
    HMSG <subject> <sid> [reply] <header size> <size>\r\n<header><body>\r\n

The part after the sid is the same for every receiver with the same header ability, so it is built once a message.
No decision is taken here: the route says who, the subscription says how, the publisher which reply it may name.
Internal subscribers (streams, services)
get bytes objects through their callback, made once a message and only when one of them is there; a `Listener` gets the
bytes where they are.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.string cimport memcmp, memcpy

from slipstream.kernels.wire.interest cimport Interest, Route, Subscription
from slipstream.kernels.wire.outbox cimport Outbox

cdef enum:
    # Longest text of a 64-bit number.
    DIGITS = 20
    # A body from here on is handed to the transport as the object it is; below, a copy costs less than a further piece.
    WHOLE_BYTES = 65536


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

    cdef Py_ssize_t send(
        self, Route route, object publisher, const char *subject, Py_ssize_t subject_size,
        const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1:
        cdef char tail_room[2 * DIGITS + 4]
        cdef char plain_room[DIGITS + 4]
        cdef Py_ssize_t tail_size = 0
        cdef Py_ssize_t plain_size = 0
        cdef Py_ssize_t sent = 0
        cdef Py_ssize_t i, start, members_count, k
        cdef Subscription sub
        cdef tuple members
        cdef bytes renamed
        cdef const char *name = subject
        cdef Py_ssize_t name_size = subject_size
        cdef const char *alias
        cdef Py_ssize_t alias_size

        if publisher is None:
            # Marks of the server's own, which nobody outside it sees; see `Interest.answer_route`.
            if name_size and name[0] == b".":
                name += 1
                name_size -= 1
        if route.subject is not None:
            name = PyBytes_AS_STRING(route.subject)
            name_size = PyBytes_GET_SIZE(route.subject)

        if header_size:
            tail_size = put_number(tail_room, header_size)
            tail_room[tail_size] = b" "
            tail_size += 1
        tail_size += put_number(tail_room + tail_size, size)
        tail_room[tail_size] = b"\r"
        tail_room[tail_size + 1] = b"\n"
        tail_size += 2
        if header_size:
            plain_size = put_number(plain_room, size - header_size)
            plain_room[plain_size] = b"\r"
            plain_room[plain_size + 1] = b"\n"
            plain_size += 2

        for i in range(PyTuple_GET_SIZE(route.subscriptions)):
            sub = <Subscription>PyTuple_GET_ITEM(route.subscriptions, i)
            if sub.closed or (not sub.echo and sub.client is publisher):
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
                sub, publisher, name, name_size, reply, reply_size, header_size, body, size, tail_room, tail_size,
                plain_room, plain_size, False,
            )

        for i in range(PyTuple_GET_SIZE(route.queues)):
            members = <tuple>PyTuple_GET_ITEM(route.queues, i)
            members_count = PyTuple_GET_SIZE(members)
            start = self._pick(members_count)
            for k in range(members_count):
                sub = <Subscription>PyTuple_GET_ITEM(members, (start + k) % members_count)
                if sub.closed or (not sub.echo and sub.client is publisher):
                    continue
                alias = name
                alias_size = name_size
                if route.queue_renamed is not None:
                    renamed = <bytes>(<tuple>route.queue_renamed[i])[(start + k) % members_count]
                    if renamed is not None:
                        alias = PyBytes_AS_STRING(renamed)
                        alias_size = PyBytes_GET_SIZE(renamed)
                if self._one(
                    sub, publisher, alias, alias_size, reply, reply_size, header_size, body, size, tail_room, tail_size,
                    plain_room, plain_size, alias != name,
                ):
                    sent += 1
                    break
        return sent

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
        outbox.msgs += 1
        outbox.msg_bytes += size
        if outbox._waiting + outbox.in_flight > outbox.stall_at:
            self.stalled = True
        if not outbox._dirty or outbox._waiting + outbox.in_flight > outbox.limit:
            outbox._touch()
        if outbox._waiting > outbox.early_at:
            outbox._flush_early()
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
