# cython: language_level=3, boundscheck=False, wraparound=False
"""The client side of the NATS protocol: bytes in, operations out.

    <verb> [args] (\r)\n                    one control line, then for PUB and HPUB
    <size bytes> \r\n                       the message

Verbs are case-insensitive; arguments are separated by runs of blanks and tabs. Control operations are calls of the
sink (`on_connect`, `on_sub`, ...); what becomes of a publish is `publishing`. How a line is cut is `clientlines`.

Whatever way the bytes are cut into reads, the calls are the same: what is left of a read is kept by `readbuffer`. What
means nothing, blanks before the arguments and the tail of a PING, is not kept. So memory of one connection is bounded by
the control line and payload limits.

Every read of the buffer tests `end - p` first; sizes come from at most nine digits, so no sum can overflow. Complexity:
O(bytes of the lines); a message is passed by its size.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr

from slipstream.kernels.wire.clientlines cimport (
    ARGS_MAX, Span, number, skip_blanks, span_bytes, split, starts, without_idle_bytes,
)
from slipstream.kernels.wire.delivery cimport Delivery
from slipstream.kernels.wire.publishing cimport Publishing
from slipstream.kernels.wire.readbuffer cimport ReadBuffer, Unparsed

# What the peer did wrong; the sink decides what to say and whether to close.
UNKNOWN_OPERATION = 1
BAD_ARGUMENTS = 2
CONTROL_LINE_TOO_LONG = 3
PAYLOAD_TOO_LARGE = 4
HEADERS_NOT_NEGOTIATED = 5
TOO_MUCH_WAITING = 6

cdef enum:
    # In place of the size of an incomplete message: what is incomplete is a line.
    PARTIAL_LINE = -1


cdef class Parser(Publishing):
    """Parses what one client sends.

    Attributes, beside those of `Publishing`:
        awaiting_connect: the first operation has to be CONNECT; anything else asks `sink.on_early_operation`.
        headers: HPUB is allowed.
    """

    cdef public bint awaiting_connect
    cdef public bint headers
    cdef public Py_ssize_t max_payload
    cdef public Py_ssize_t max_control_line
    cdef readonly ReadBuffer unparsed

    def __cinit__(self, sink, client, Delivery delivery not None, Py_ssize_t max_payload, Py_ssize_t max_control_line):
        self.awaiting_connect = self.headers = False
        self.max_payload = max_payload
        self.max_control_line = max_control_line
        self.unparsed = ReadBuffer()
        self.unparsed.waiting_max = max_control_line

    def stop(self):
        """Take no further operation and keep nothing but the counts."""
        self.dead = True
        self.unparsed.stop()
        self._last_subject = None
        self._last_route = None
        self.verdicts = None
        self.interest = None
        self._sink = None
        self._client = None

    def pause(self):
        """Stop after the operation under way; bytes that still come are kept for `resume`, up to `waiting_max`."""
        self.unparsed.paused = True

    def resume(self):
        """Go on with what was kept."""
        cdef bytes held = self.unparsed.resume()
        if held is not None and not self.dead:
            self._consume(PyBytes_AS_STRING(held), PyBytes_GET_SIZE(held))

    def lend(self, bytearray shared not None):
        """Where the next read should put its bytes. `shared` is used until `filled` is called, then free again."""
        return self.unparsed.lend(shared)

    def filled(self, bytearray shared not None, Py_ssize_t size):
        """The read put `size` bytes where `lend` said."""
        cdef Unparsed found
        cdef object owner
        if self.dead:
            return
        if self.unparsed.reads_aside(shared):
            self.feed(self.unparsed.aside(size))
            return
        owner = self.unparsed.filled(shared, size, &found)
        if owner is not None:
            self._consume(found.at, found.size)

    def feed(self, bytes data not None):
        """Parse bytes that were read elsewhere (WebSocket frames, tests)."""
        cdef Unparsed found
        cdef object owner
        cdef Py_ssize_t at = 0
        while not self.dead and at < PyBytes_GET_SIZE(data):
            owner = self.unparsed.fed(data, &at, &found)
            if owner is not None:
                self._consume(found.at, found.size)
            else:
                self._check_waiting()

    cdef int _check_waiting(self) except -1:
        cdef bytes held = self.unparsed.overflow()
        if held is not None:
            self._violate(TOO_MUCH_WAITING, PyBytes_AS_STRING(held), PyBytes_AS_STRING(held) + PyBytes_GET_SIZE(held))
        return 0

    cdef int _consume(self, const char *start, Py_ssize_t size) except -1:
        """Parse from `start`; keep what is incomplete."""
        cdef Py_ssize_t need = 0
        cdef Py_ssize_t used = self._parse(start, size, &need)
        if self.dead or used == size:
            self.unparsed.parsed()
        elif need == PARTIAL_LINE:
            self.unparsed.hold(without_idle_bytes(start + used, start + size))
        else:
            self.unparsed.keep(start + used, size - used, need)
            self._check_waiting()
        return 0

    cdef Py_ssize_t _parse(self, const char *start, Py_ssize_t size, Py_ssize_t *need) except -1:
        """Returns how many bytes were used; `need` is the whole size of the message that is incomplete, if known."""
        cdef const char *p = start
        cdef const char *end = start + size
        cdef const char *newline
        cdef const char *line_end
        cdef Py_ssize_t used
        while p < end and not self.unparsed.paused:
            if self.awaiting_connect and (p[0] | 0x20) != b"c":
                if not self._sink.on_early_operation():
                    return 0
                if self.unparsed.paused:
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
