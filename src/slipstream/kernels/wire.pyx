# cython: language_level=3, boundscheck=False, wraparound=False
"""The client side of the NATS protocol: bytes in, operations out.

    <verb> [args] (\r)\n                    one control line, then for PUB and HPUB
    <size bytes> \r\n                       the message

Verbs are case-insensitive; arguments are separated by runs of blanks and tabs. Control operations are calls of the
sink (`on_connect`, `on_sub`, ...). A publish takes the short way when the sink allows it (`fast`): permission verdict
and route are looked up where the sink's earlier decisions are kept, and the delivery kernel writes the copies; only
what was never decided before, or cannot be decided once for all, comes back to the sink.

Whatever way the bytes are cut into reads, the calls are the same. What is left of a read, an incomplete line or a
message up to `HELD_MESSAGE_MAX`, is kept in `_held`; a larger message gets a buffer of its own that the next reads fill
directly. What means nothing, blanks before the arguments and the tail of a PING, is not kept. So memory of one
connection is bounded by the control line and payload limits.

Every read of the buffer tests `end - p` first; sizes come from at most nine digits, so no sum can overflow.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.string cimport memchr, memcmp, memcpy

cdef extern from * nogil:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <string.h>
    """
    void *memmem(const void *haystack, size_t haystack_size, const void *needle, size_t needle_size)

from slipstream.kernels.delivery cimport Delivery
from slipstream.kernels.interest cimport Interest, Route

# What the peer did wrong; the sink decides what to say and whether to close.
UNKNOWN_OPERATION = 1
BAD_ARGUMENTS = 2
CONTROL_LINE_TOO_LONG = 3
PAYLOAD_TOO_LARGE = 4
HEADERS_NOT_NEGOTIATED = 5
TOO_MUCH_WAITING = 6

cdef enum:
    ARGS_MAX = 5
    SIZE_DIGITS_MAX = 9
    # Larger incomplete messages are received in place; smaller ones are cheaper to copy than an extra system call.
    HELD_MESSAGE_MAX = 65536
    SUBJECT_CACHE_MAX = 4096
    # Reads that arrive while an answer about the client is awaited; the listener stops reading, so they are few. And
    # reads behind a line that is so long that the shared buffer has no room left.
    ASIDE_SIZE = 16384
    # In place of the size of an incomplete message: what is incomplete is a line.
    PARTIAL_LINE = -1


cdef struct Span:
    const char *at
    Py_ssize_t size


cdef inline bytes span_bytes(Span span):
    return PyBytes_FromStringAndSize(span.at, span.size)


cdef inline int split(const char *p, const char *end, Span *args) noexcept nogil:
    """Cut blanks and tabs away; returns the number of arguments, ARGS_MAX + 1 for too many.

    Bytes that no subject may hold (NUL, form feed, CR) are too many as well: they would break the lines of others.
    """
    cdef int count = 0
    cdef const char *token
    while True:
        while p < end and (p[0] == b" " or p[0] == b"\t"):
            p += 1
        if p == end:
            return count
        if count == ARGS_MAX:
            return ARGS_MAX + 1
        token = p
        while p < end:
            if <unsigned char>p[0] <= 32:
                if p[0] == b" " or p[0] == b"\t":
                    break
                if p[0] == 0 or p[0] == 12 or p[0] == 13:
                    return ARGS_MAX + 1
            p += 1
        args[count].at = token
        args[count].size = p - token
        count += 1


cdef inline const char *skip_blanks(const char *p, const char *end) noexcept nogil:
    while p < end and (p[0] == b" " or p[0] == b"\t"):
        p += 1
    return p


cdef inline Py_ssize_t number(Span span) noexcept nogil:
    """A decimal size, or -1."""
    cdef Py_ssize_t value = 0
    cdef Py_ssize_t i
    if span.size == 0 or span.size > SIZE_DIGITS_MAX:
        return -1
    for i in range(span.size):
        if span.at[i] < b"0" or span.at[i] > b"9":
            return -1
        value = value * 10 + (span.at[i] - 48)
    return value


cdef inline bint starts(const char *p, const char *end, const char *verb, Py_ssize_t size) noexcept nogil:
    """Whether the bytes at `p` (as many as there are, at most `size`) begin the lower-case `verb`."""
    cdef Py_ssize_t i
    cdef Py_ssize_t n = end - p
    if n > size:
        n = size
    for i in range(n):
        if (p[i] | 0x20) != verb[i]:
            return False
    return True


cdef inline bint reserved_reply(Span reply) noexcept nogil:
    """Reply subjects that only the server itself may hand out."""
    if reply.size < 4:
        return False
    if reply.at[0] == b"$":
        return (reply.size > 8 and memcmp(reply.at, b"$JS.ACK.", 8) == 0) or (
            reply.size > 4 and memcmp(reply.at, b"$GR.", 4) == 0
        )
    if reply.at[0] == b"_":
        if memcmp(reply.at, b"_R_.", 4) == 0:
            return True
        return reply.size > 5 and memcmp(reply.at, b"_GR_.", 5) == 0
    return False


cdef inline bint reserved_subject(Span subject) noexcept nogil:
    """Subjects that travel between servers only; the sink refuses them to clients."""
    if subject.size < 4:
        return False
    if subject.at[0] == b"$":
        return memcmp(subject.at, b"$GR.", 4) == 0 or (subject.size >= 5 and memcmp(subject.at, b"$NRG.", 5) == 0)
    return subject.at[0] == b"_" and subject.size >= 5 and memcmp(subject.at, b"_GR_.", 5) == 0


cdef inline Py_ssize_t verb_length(char first, char second) noexcept nogil:
    """How long the verb is that begins with these letters, in any case; 0 if none does."""
    first |= 0x20
    if first == b"s":
        return 3
    if first == b"p":
        return 3 if (second | 0x20) == b"u" else 4
    if first == b"h" or first == b"i" or first == b"-":
        return 4
    if first == b"u":
        return 5
    return 7 if first == b"c" else 3 if first == b"+" else 0


cdef bytes without_idle_bytes(const char *p, const char *end):
    """A line that has no end yet, checked by `_check_partial`, without the bytes that nobody will ever look at."""
    cdef Py_ssize_t size = verb_length(p[0], p[1] if end - p > 1 else 0)
    cdef const char *args
    if end - p <= size + 1:
        return PyBytes_FromStringAndSize(p, end - p)
    if p[0] == b"+" or ((p[0] | 0x20) == b"p" and size == 4):
        # PING, PONG and +OK: what follows the word is never read.
        return PyBytes_FromStringAndSize(p, size)
    args = skip_blanks(p + size, end)
    if args - p <= size + 1:
        return PyBytes_FromStringAndSize(p, end - p)
    return PyBytes_FromStringAndSize(p, size + 1) + PyBytes_FromStringAndSize(args, end - args)


cdef inline bint asks_for_trace(const char *header, Py_ssize_t size) noexcept nogil:
    return memmem(header, size, b"\r\nNats-Trace-Dest:", 18) != NULL


cdef class Parser:
    """Parses what one client sends.

    Attributes:
        fast: publishes may take the short way. Set by the sink once the client is known and nothing watches it.
        awaiting_connect: the first operation has to be CONNECT; anything else asks `sink.on_early_operation`.
        headers: HPUB is allowed.
        no_responders: tell the sink when a request found nobody.
        traceparents: the account traces by W3C header, so every message with headers goes to the sink.
        verdicts: subject -> True/False as decided by `sink.may_publish`, or None when everything is allowed.
        interest: where routes are looked up.
        waiting_max: bytes that may come while the parser is paused.
    """
    cdef object _sink
    cdef Delivery _delivery
    cdef public Interest interest
    cdef public bint fast
    cdef public bint awaiting_connect
    cdef public bint headers
    cdef public bint no_responders
    cdef public bint restricted
    cdef public bint traceparents
    cdef public dict verdicts
    cdef public Py_ssize_t max_payload
    cdef public Py_ssize_t max_control_line
    cdef public Py_ssize_t waiting_max
    cdef public unsigned long long msgs
    cdef public unsigned long long msg_bytes
    cdef public bint dead
    cdef readonly bint paused
    cdef bytearray _aside
    cdef bytes _held
    cdef object _message
    cdef Py_ssize_t _message_have
    cdef Py_ssize_t _message_need
    cdef bytes _last_subject
    cdef Route _last_route

    def __cinit__(self, sink, Delivery delivery not None, Py_ssize_t max_payload, Py_ssize_t max_control_line):
        self._sink = sink
        self._delivery = delivery
        self.interest = None
        self.fast = self.awaiting_connect = self.headers = self.no_responders = self.dead = False
        self.restricted = self.traceparents = False
        self.verdicts = None
        self.max_payload = max_payload
        self.max_control_line = max_control_line
        self.waiting_max = max_control_line
        self.msgs = self.msg_bytes = 0
        self.paused = False
        self._aside = None
        self._held = None
        self._message = None
        self._message_have = self._message_need = 0
        self._last_subject = None
        self._last_route = None

    @property
    def held(self):
        """Bytes kept of an incomplete operation."""
        if self._message is not None:
            return self._message_have
        return 0 if self._held is None else PyBytes_GET_SIZE(self._held)

    def rebind(self, Interest interest):
        """Publish into another account from now on; earlier verdicts and routes are forgotten."""
        self.interest = interest
        self._last_subject = None
        self._last_route = None
        if self.verdicts is not None:
            self.verdicts = {}

    def stop(self):
        """Take no further operation and keep nothing but the counts."""
        self.dead = True
        self._held = None
        self._message = None
        self._aside = None
        self._last_subject = None
        self._last_route = None
        self.verdicts = None
        self.interest = None
        self._sink = None

    def pause(self):
        """Stop after the operation under way; bytes that still come are kept for `resume`, up to `waiting_max`."""
        self.paused = True

    def resume(self):
        """Go on with what was kept."""
        cdef bytes held = self._held
        self.paused = False
        self._aside = None
        self._held = None
        if held is not None and not self.dead:
            self._consume(PyBytes_AS_STRING(held), PyBytes_GET_SIZE(held))

    def lend(self, bytearray shared not None):
        """Where the next read should put its bytes. `shared` is used until `filled` is called, then free again."""
        cdef Py_ssize_t held
        if self._reads_aside(shared):
            if self._aside is None:
                self._aside = bytearray(ASIDE_SIZE)
            return self._aside
        if self._message is not None:
            return memoryview(self._message)[self._message_have:]
        if self._held is None:
            return shared
        held = PyBytes_GET_SIZE(self._held)
        memcpy(PyByteArray_AS_STRING(shared), PyBytes_AS_STRING(self._held), held)
        return memoryview(shared)[held:]

    def filled(self, bytearray shared not None, Py_ssize_t size):
        """The read put `size` bytes where `lend` said."""
        cdef Py_ssize_t have
        if self.dead:
            return
        if self._reads_aside(shared):
            self.feed(bytes(self._aside[:size]))
            return
        if self._message is not None:
            self._message_have += size
            if self._message_have == self._message_need:
                self._finish_message()
            return
        have = size
        if self._held is not None:
            have += PyBytes_GET_SIZE(self._held)
        self._consume(PyByteArray_AS_STRING(shared), have)

    def feed(self, bytes data not None):
        """Parse bytes that were read elsewhere (WebSocket frames, tests)."""
        cdef Py_ssize_t size, taken
        if self.dead:
            return
        if self.paused:
            self._keep(data)
            return
        if self._message is not None:
            size = PyBytes_GET_SIZE(data)
            taken = min(size, self._message_need - self._message_have)
            memcpy(PyByteArray_AS_STRING(self._message) + self._message_have, PyBytes_AS_STRING(data), taken)
            self._message_have += taken
            if self._message_have == self._message_need:
                self._finish_message()
            if taken == size or self.dead:
                return
            data = data[taken:]
        if self._held is not None:
            data = self._held + data
        self._consume(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    cdef bint _reads_aside(self, bytearray shared):
        """Whether reads go to a buffer of this connection's own: they are not parsed now, or do not fit behind the rest."""
        if self.paused or self._message is not None or self._held is None:
            return self.paused
        return PyBytes_GET_SIZE(self._held) > PyByteArray_GET_SIZE(shared) // 2

    cdef int _keep(self, bytes data) except -1:
        self._held = data if self._held is None else self._held + data
        self._check_waiting()
        return 0

    cdef int _check_waiting(self) except -1:
        cdef bytes held = self._held
        if PyBytes_GET_SIZE(held) > self.waiting_max:
            self._held = None
            self._violate(TOO_MUCH_WAITING, PyBytes_AS_STRING(held), PyBytes_AS_STRING(held) + PyBytes_GET_SIZE(held))
        return 0

    cdef int _finish_message(self) except -1:
        cdef object message = self._message
        self._message = None
        self._consume(PyByteArray_AS_STRING(message), self._message_need)
        return 0

    cdef int _consume(self, const char *start, Py_ssize_t size) except -1:
        """Parse from `start`; keep what is incomplete."""
        cdef Py_ssize_t need = 0
        cdef Py_ssize_t used = self._parse(start, size, &need)
        cdef Py_ssize_t left = size - used
        self._held = None
        if self.dead or left == 0:
            return 0
        if need > HELD_MESSAGE_MAX:
            self._message = PyByteArray_FromStringAndSize(NULL, need)
            memcpy(PyByteArray_AS_STRING(self._message), start + used, left)
            self._message_have = left
            self._message_need = need
            return 0
        if need == PARTIAL_LINE:
            self._held = without_idle_bytes(start + used, start + size)
        else:
            self._held = PyBytes_FromStringAndSize(start + used, left)
            if self.paused:
                self._check_waiting()
        return 0

    cdef Py_ssize_t _parse(self, const char *start, Py_ssize_t size, Py_ssize_t *need) except -1:
        """Returns how many bytes were used; `need` is the whole size of the message that is incomplete, if known."""
        cdef const char *p = start
        cdef const char *end = start + size
        cdef const char *newline
        cdef const char *line_end
        cdef Py_ssize_t used
        while p < end and not self.paused:
            if self.awaiting_connect and (p[0] | 0x20) != b"c":
                if not self._sink.on_early_operation():
                    return 0
                if self.paused:
                    break
            newline = <const char *>memchr(p, b"\n", end - p)
            if newline == NULL:
                self._check_partial(p, end)
                need[0] = PARTIAL_LINE
                break
            line_end = newline
            if line_end > p and (line_end - 1)[0] == b"\r":
                line_end -= 1
            if (p[0] | 0x20) == b"p" and line_end - p >= 4 and (p[1] | 0x20) == b"u":
                if (p[2] | 0x20) != b"b" or not (p[3] == b" " or p[3] == b"\t"):
                    self._violate(UNKNOWN_OPERATION, p, line_end)
                else:
                    used = self._message_op(p, p + 4, line_end, newline + 1, end, False, need)
                    if used == 0:
                        break
                    p += used
                    if self.dead:
                        return 0
                    continue
            elif (p[0] | 0x20) == b"h":
                if line_end - p < 5 or not starts(p, line_end, b"hpub", 4) or not (p[4] == b" " or p[4] == b"\t"):
                    self._violate(UNKNOWN_OPERATION, p, line_end)
                else:
                    used = self._message_op(p, p + 5, line_end, newline + 1, end, True, need)
                    if used == 0:
                        break
                    p += used
                    if self.dead:
                        return 0
                    continue
            else:
                self._control(p, line_end)
            if self.dead:
                return 0
            p = newline + 1
        return p - start

    cdef Py_ssize_t _message_op(
        self, const char *verb, const char *args_at, const char *line_end, const char *body, const char *end,
        bint with_header, Py_ssize_t *need,
    ) except -1:
        """PUB or HPUB. Returns the bytes used, 0 when the message is not complete yet (or the parser died)."""
        cdef Span args[ARGS_MAX + 1]
        cdef Span reply
        cdef int count
        cdef Py_ssize_t size
        cdef Py_ssize_t header_size = 0
        args_at = skip_blanks(args_at, line_end)
        if line_end - args_at > self.max_control_line:
            self._violate(CONTROL_LINE_TOO_LONG, verb, line_end)
            return 0
        count = split(args_at, line_end, args)
        if with_header:
            if not self.headers:
                self._violate(HEADERS_NOT_NEGOTIATED, verb, line_end)
                return 0
            if count < 3 or count > 4:
                self._violate(BAD_ARGUMENTS, verb, line_end)
                return 0
            header_size = number(args[count - 2])
        elif count < 2 or count > 3:
            self._violate(BAD_ARGUMENTS, verb, line_end)
            return 0
        size = number(args[count - 1])
        if size < 0 or header_size < 0 or header_size > size:
            self._violate(BAD_ARGUMENTS, verb, line_end)
            return 0
        if self.max_payload >= 0 and size > self.max_payload:
            self._violate(PAYLOAD_TOO_LARGE, verb, line_end)
            return 0
        if end - body < size + 2:
            if end - body > size and body[size] != b"\r":
                self._violate(UNKNOWN_OPERATION, verb, line_end)
                return 0
            need[0] = (body - verb) + size + 2
            return 0
        if body[size] != b"\r" or body[size + 1] != b"\n":
            self._violate(UNKNOWN_OPERATION, verb, line_end)
            return 0
        reply.at = NULL
        reply.size = 0
        if count == (4 if with_header else 3):
            reply = args[1]
        self._publish(args[0], reply, header_size, body, size)
        return (body - verb) + size + 2

    cdef int _publish(self, Span subject, Span reply, Py_ssize_t header_size, const char *body, Py_ssize_t size) except -1:
        cdef bytes name
        cdef Route route
        cdef PyObject *verdict
        cdef bint lasting = True
        cdef Py_ssize_t sent
        self.msgs += 1
        self.msg_bytes += size
        if (
            not self.fast
            or reserved_reply(reply)
            or reserved_subject(subject)
            or (header_size and (self.traceparents or asks_for_trace(body, header_size)))
        ):
            self._sink.on_publish(
                span_bytes(subject), span_bytes(reply) if reply.size else None, header_size, PyBytes_FromStringAndSize(body, size)
            )
            return 0
        route = self._last_route
        if (
            route is not None
            and route._stamp == self.interest._stamp
            and subject.size == PyBytes_GET_SIZE(self._last_subject)
            and memcmp(subject.at, PyBytes_AS_STRING(self._last_subject), subject.size) == 0
        ):
            name = self._last_subject
        else:
            name = span_bytes(subject)
            if self.restricted:
                if self.verdicts is None:
                    self.verdicts = {}
                verdict = PyDict_GetItem(self.verdicts, name)
                if verdict == NULL:
                    if len(self.verdicts) >= SUBJECT_CACHE_MAX:
                        self.verdicts = {}
                    if not self._decide(name):
                        return 0
                    # A response permission counts each use, so the next publish asks again.
                    lasting = name in self.verdicts
                elif <object>verdict is False:
                    self._sink.on_publish_denied(name)
                    return 0
            route = self.interest.route(name)
            self._last_subject = name
            self._last_route = route if lasting else None
        if route.dynamic:
            self._sink.on_publish(
                name, span_bytes(reply) if reply.size else None, header_size, PyBytes_FromStringAndSize(body, size)
            )
            return 0
        sent = self._delivery.send(route, self._sink, subject.at, subject.size, reply.at, reply.size, header_size, body, size)
        # A listener inside the server may have closed this very connection.
        if sent == 0 and reply.size and self.no_responders and not self.dead:
            self._sink.on_no_responders(name if route.subject is None else route.subject, span_bytes(reply))
        return 0

    cdef bint _decide(self, bytes name) except -1:
        """Ask the sink once whether the client may publish to `name`."""
        cdef object allowed = self._sink.may_publish(name)
        if allowed is None:
            # Allowed this time only (a response permission): not remembered.
            return True
        self.verdicts[name] = allowed
        if allowed:
            return True
        self._sink.on_publish_denied(name)
        return False

    cdef int _control(self, const char *p, const char *end) except -1:
        """Every operation that carries no message."""
        cdef Span args[ARGS_MAX + 1]
        cdef int count
        cdef char verb = p[0] | 0x20
        cdef Py_ssize_t size = end - p
        cdef const char *text
        if verb == b"p" and size >= 4 and starts(p, end, b"ping", 4):
            self._sink.on_ping()
            return 0
        if verb == b"p" and size >= 4 and starts(p, end, b"pong", 4):
            self._sink.on_pong()
            return 0
        if verb == b"s" and size >= 4 and starts(p, end, b"sub", 3) and (p[3] == b" " or p[3] == b"\t"):
            if end - skip_blanks(p + 4, end) > self.max_control_line:
                self._violate(CONTROL_LINE_TOO_LONG, p, end)
                return 0
            count = split(p + 4, end, args)
            if count == 2:
                self._sink.on_sub(span_bytes(args[0]), None, span_bytes(args[1]))
            elif count == 3:
                self._sink.on_sub(span_bytes(args[0]), span_bytes(args[1]), span_bytes(args[2]))
            else:
                self._violate(BAD_ARGUMENTS, p, end)
            return 0
        if verb == b"u" and size >= 6 and starts(p, end, b"unsub", 5) and (p[5] == b" " or p[5] == b"\t"):
            if end - skip_blanks(p + 6, end) > self.max_control_line:
                self._violate(CONTROL_LINE_TOO_LONG, p, end)
                return 0
            count = split(p + 6, end, args)
            if count == 1:
                self._sink.on_unsub(span_bytes(args[0]), -1)
            elif count == 2:
                self._sink.on_unsub(span_bytes(args[0]), number(args[1]))
            else:
                self._violate(BAD_ARGUMENTS, p, end)
            return 0
        if verb == b"c" and size >= 7 and starts(p, end, b"connect", 7):
            # The blank before the JSON may be missing; blanks are not part of it.
            text = skip_blanks(p + 7, end)
            if end - text > self.max_control_line:
                self._violate(CONTROL_LINE_TOO_LONG, p, end)
                return 0
            self._sink.on_connect(PyBytes_FromStringAndSize(text, end - text))
            return 0
        if p[0] == b"+" and size >= 3 and starts(p + 1, end, b"ok", 2):
            return 0
        if p[0] == b"-" and size >= 5 and starts(p + 1, end, b"err", 3) and (p[4] == b" " or p[4] == b"\t"):
            if end - skip_blanks(p + 5, end) > self.max_control_line:
                self._violate(CONTROL_LINE_TOO_LONG, p, end)
                return 0
            self._sink.on_peer_error(PyBytes_FromStringAndSize(p + 5, size - 5))
            return 0
        if verb == b"i" and size >= 4 and starts(p, end, b"info", 4):
            if end - skip_blanks(p + 4, end) > self.max_control_line:
                self._violate(CONTROL_LINE_TOO_LONG, p, end)
                return 0
            self._sink.on_peer_info()
            return 0
        self._violate(UNKNOWN_OPERATION, p, end)
        return 0

    cdef int _check_partial(self, const char *p, const char *end) except -1:
        """A line without its end yet: refuse at once what can never become an operation."""
        cdef Py_ssize_t size = end - p
        cdef Py_ssize_t verb_size = 0
        cdef char first = p[0] | 0x20
        if first == b"p":
            if size < 2 or (p[1] | 0x20) == b"u":
                if starts(p, end, b"pub", 3):
                    verb_size = 3
            elif starts(p, end, b"ping", 4) or starts(p, end, b"pong", 4):
                return 0
        elif first == b"h" and starts(p, end, b"hpub", 4):
            verb_size = 4
        elif first == b"s" and starts(p, end, b"sub", 3):
            verb_size = 3
        elif first == b"u" and starts(p, end, b"unsub", 5):
            verb_size = 5
        elif first == b"c" and starts(p, end, b"connect", 7):
            verb_size = 7
        elif first == b"i" and starts(p, end, b"info", 4):
            verb_size = 4
        elif p[0] == b"+" and starts(p + 1, end, b"ok", 2):
            return 0
        elif p[0] == b"-" and starts(p + 1, end, b"err", 3):
            verb_size = 4
        if verb_size == 0 or (
            size > verb_size and first != b"c" and first != b"i" and not (p[verb_size] == b" " or p[verb_size] == b"\t")
        ):
            self._violate(UNKNOWN_OPERATION, p, end)
        elif end - skip_blanks(p + verb_size, end) > self.max_control_line + 1:
            # One more than the limit may be the carriage return of a line that fits.
            self._violate(CONTROL_LINE_TOO_LONG, p, end)
        return 0

    cdef int _violate(self, int kind, const char *p, const char *end) except -1:
        """The peer broke the protocol: stop here and let the sink answer."""
        cdef object sink = self._sink
        self.dead = True
        sink.on_violation(kind, PyBytes_FromStringAndSize(p, min(end - p, <Py_ssize_t>256)))
        return 0
