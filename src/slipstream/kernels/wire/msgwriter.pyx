# cython: language_level=3, boundscheck=False, wraparound=False
"""One message for one receiver of this server: written into its outbox, or handed to a listener of the server itself.

    MSG  <subject> <sid> [reply] <size>\r\n<body>\r\n
    HMSG <subject> <sid> [reply] <header size> <size>\r\n<header><body>\r\n

The part after the sid (the tail) is the same for every receiver with the same header ability: whoever delivers builds it
once a message. A reply may have the address of a cluster in front (`_GR_.<cluster>.<server>.`): clients do not see it, and
are told of it so that their answer finds back. Internal subscribers (streams, services) get bytes objects through their
callback; a `BufferListener` gets the bytes where they are.
No decision is taken here: the route says who, the subscription says how, the publisher which reply it may name.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.string cimport memcmp, memcpy

from slipstream.kernels.wire.outbox cimport Outbox
from slipstream.kernels.wire.receivers cimport Route, Subscription


cdef class BufferListener:
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


cdef class MessageWriter:
    """Writes for one server. `seed` feeds the choice among queue members.

    Attributes:
        failed: told of what an internal subscriber raises, which is not the publisher's trouble, nor that of other
            receivers; None: it is raised.
        stalled: a receiver was near its limit.
        whole: the large body that is being delivered, as an object; else None.
    """

    def __cinit__(self, unsigned long long seed, failed=None):
        self._random = seed | 1
        self.stalled = False
        self.failed = failed
        self.whole = None

    cdef Py_ssize_t group(
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
                if self.one_addressed(sub, publisher, alias, alias_size, m, alias != m.subject):
                    return 1
                continue
            if self.one(
                sub, publisher, alias, alias_size, m.reply, m.reply_size, m.header_size, m.body, m.size, m.tail, m.tail_size,
                m.plain_tail, m.plain_size, alias != m.subject,
            ):
                return 1
        return 0

    cdef Py_ssize_t one_addressed(
        self, Subscription sub, object publisher, const char *subject, Py_ssize_t subject_size, Message *m, bint crossed
    ) except -1:
        """One copy of a message whose reply leads to another cluster: the server itself answers to the whole address."""
        cdef Py_ssize_t hidden = m.address_size
        cdef bytes address
        if sub.outbox is None:
            return self.one(
                sub, publisher, subject, subject_size, m.reply - hidden, m.reply_size + hidden, m.header_size, m.body, m.size,
                m.tail, m.tail_size, m.plain_tail, m.plain_size, crossed,
            )
        address = PyBytes_FromStringAndSize(m.reply - hidden, m.reply_size + hidden)
        if not self.one(
            sub, publisher, subject, subject_size, m.reply, m.reply_size, m.header_size, m.body, m.size, m.tail, m.tail_size,
            m.plain_tail, m.plain_size, crossed,
        ):
            return 0
        sub.client.answers_to(address[hidden:], address)
        return 1

    cdef Py_ssize_t one(
        self, Subscription sub, object publisher, const char *subject, Py_ssize_t subject_size,
        const char *reply, Py_ssize_t reply_size, Py_ssize_t header_size, const char *body, Py_ssize_t size,
        const char *tail, Py_ssize_t tail_size, const char *plain_tail, Py_ssize_t plain_size, bint crossed,
    ) except -1:
        """One copy for a subscription; 0 when it does not take it. `crossed`: it comes under another subject."""
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

        whole = self.is_whole(body, size)
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
        self.finish(outbox, start, p, body, size, whole)
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

    cdef int finish(
        self, Outbox outbox, char *start, char *p, const char *body, Py_ssize_t size, bint whole
    ) except -1:
        """A message whose line lies in an outbox from `start` to `p`: its body and its end."""
        if whole:
            outbox.advance(p - start)
            outbox.put_whole(self.whole)
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
        return 0

    cdef Py_ssize_t pick(self, Py_ssize_t count) noexcept:
        self._random ^= self._random << 13
        self._random ^= self._random >> 7
        self._random ^= self._random << 17
        return <Py_ssize_t>(self._random % <unsigned long long>count)

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
            if isinstance(sub.callback, BufferListener):
                if not (<BufferListener>sub.callback).take(
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
