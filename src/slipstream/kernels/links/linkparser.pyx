# cython: language_level=3, boundscheck=False, wraparound=False
"""The protocol between servers: bytes of one link in, operations out.

    routes   RS+ <account> <subject> [queue weight]     RS- <account> <subject> [queue]
             LS+ <origin> <account> <subject> [...]     LS- <origin> <account> <subject> [queue]      for a leaf
             RMSG <account> <subject> [reply | + reply queues.. | | queues..] <size>
             HMSG <account> <subject> [...] <header size> <size>
             LMSG <origin> <account> <subject> [...] <header size> <size>                            for a leaf
    gateways RS+ RS- RMSG HMSG as on routes             A+ <account>  A- <account>
    leafs    LS+ <subject> [queue weight]               LS- <subject> [queue]
             LMSG <subject> [reply | + reply queues.. | | queues..] <size>
             HMSG <subject> [...] <header size> <size>
    all      INFO CONNECT PING PONG +OK -ERR

A route that belongs to one account alone leaves out the account, as leafs do (`named_accounts`). Verbs are
case-insensitive; arguments are separated by runs of blanks and tabs. Interest and control are calls of the sink; a message
goes straight to the delivery kernel, by the route of its subject in the account it is for. What a peer wants without a
queue group is told in one call for all such lines that follow each other in a read (`on_wanted`). Before `ready` nothing but
the handshake is understood.

Whatever way the bytes are cut into reads, the calls are the same. Memory of one link is bounded as in `parser`: an
incomplete line up to the control line limit, an incomplete message up to the payload limit. INFO may be longer than
other lines, up to `INFO_MAX`: it lists servers. Every read of the buffer tests `end - p` first; sizes come from at most
nine digits, so no sum can overflow. Complexity: O(bytes of the lines); a message is passed by its size.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.string cimport memchr

from slipstream.kernels.links.arrivals cimport Arrivals
from slipstream.kernels.links.interestlines cimport InterestLines
from slipstream.kernels.links.linklines cimport (
    HAS_BAD_ARGUMENTS, HAS_HEADERS, IS_EARLY, IS_TOO_LARGE, IS_TOO_LONG, IS_UNKNOWN, WAITS_TOO_LONG, blank, clean, first_word,
    last_word, words,
)
from slipstream.kernels.wire.clientlines cimport Span, number, skip_blanks, span_bytes, starts
from slipstream.kernels.wire.delivery cimport Delivery
from slipstream.kernels.wire.readbuffer cimport ReadBuffer, Unparsed
from slipstream.kernels.wire.receivers cimport TO_GATEWAY, TO_ROUTE, Link

# What the peer did wrong; the sink decides what to say and whether to close. As in `parser`, and one more.
UNKNOWN_OPERATION = IS_UNKNOWN
BAD_ARGUMENTS = HAS_BAD_ARGUMENTS
CONTROL_LINE_TOO_LONG = IS_TOO_LONG
PAYLOAD_TOO_LARGE = IS_TOO_LARGE
HEADERS_NOT_NEGOTIATED = HAS_HEADERS
TOO_MUCH_WAITING = WAITS_TOO_LONG
EARLY_OPERATION = IS_EARLY

cdef enum:
    # INFO lists the servers of a cluster and the rights of a user.
    INFO_MAX = 65536


cdef class LinkParser:
    """Parses what one other server sends.

    Attributes:
        ready: the handshake is over.
        named_accounts: lines name the account.
        arrivals: which messages are taken, and for whom.
    """

    cdef object _sink
    cdef readonly Link link
    cdef readonly Arrivals arrivals
    cdef public bint ready
    cdef public bint named_accounts
    cdef public Py_ssize_t max_payload
    cdef public Py_ssize_t max_control_line
    cdef public unsigned long long msgs
    cdef public unsigned long long msg_bytes
    cdef public bint dead
    cdef readonly ReadBuffer unparsed
    cdef InterestLines _interest

    def __cinit__(
        self, sink, Link link not None, Delivery delivery not None, Py_ssize_t max_payload, Py_ssize_t max_control_line,
    ):
        self._sink = sink
        self.link = link
        self.arrivals = Arrivals(sink, link, delivery)
        self._interest = InterestLines(sink, link)
        self.ready = self.named_accounts = False
        self.max_payload = max_payload
        self.max_control_line = max_control_line
        self.unparsed = ReadBuffer()
        self.unparsed.waiting_max = max_control_line
        self.dead = False

    # --- bytes ------------------------------------------------------------------------------------------------------

    def stop(self):
        """Take no further operation and keep nothing but the counts."""
        self.dead = True
        self.unparsed.stop()
        self._sink = None
        self._interest.stop()
        self.arrivals.stop()

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
        """Parse bytes that were read elsewhere."""
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
            self._violate(WAITS_TOO_LONG, PyBytes_AS_STRING(held), PyBytes_AS_STRING(held) + PyBytes_GET_SIZE(held))
        return 0

    cdef int _consume(self, const char *start, Py_ssize_t size) except -1:
        """Parse from `start`; keep what is incomplete."""
        cdef Py_ssize_t need = 0
        cdef Py_ssize_t used = self._parse(start, size, &need)
        if self.dead or used == size:
            self.unparsed.parsed()
        else:
            self.unparsed.keep(start + used, size - used, need)
            self._check_waiting()
        return 0

    # --- operations -------------------------------------------------------------------------------------------------

    cdef Py_ssize_t _parse(self, const char *start, Py_ssize_t size, Py_ssize_t *need) except -1:
        """Returns how many bytes were used; `need` is the whole size of the message that is incomplete, if known."""
        cdef const char *p = start
        cdef const char *end = start + size
        cdef const char *newline
        cdef const char *line_end
        cdef Py_ssize_t used
        cdef char first
        while p < end and not self.unparsed.paused:
            newline = <const char *>memchr(p, b"\n", end - p)
            if newline == NULL:
                self._check_partial(p, end)
                break
            line_end = newline
            if line_end > p and (line_end - 1)[0] == b"\r":
                line_end -= 1
            first = p[0] | 0x20
            if (
                line_end - p >= 5 and (first == b"l" or first == b"r" or first == b"h")
                and starts(p + 1, line_end, b"msg", 3) and blank(p[4])
            ):
                if self._interest.wanted is not None:
                    self._interest.tell()
                    if self.dead:
                        return 0
                used = self._message_op(p, first, line_end, newline + 1, end, need)
                if used == 0 or self.dead:
                    return p - start if used == 0 else 0
                p += used
                continue
            self._control(p, line_end)
            if self.dead:
                return 0
            p = newline + 1
        if self._interest.wanted is not None:
            self._interest.tell()
            if self.dead:
                return 0
        return p - start

    cdef Py_ssize_t _message_op(
        self, const char *verb, char kind, const char *line_end, const char *body, const char *end, Py_ssize_t *need
    ) except -1:
        """A message. Returns the bytes used, 0 when it is not complete yet (or the parser died)."""
        cdef const char *p = verb + 5
        cdef const char *tail = line_end
        cdef bint routed = self.link.kind == TO_ROUTE or self.link.kind == TO_GATEWAY
        cdef bint with_origin = self.link.kind == TO_ROUTE and kind == b"l"
        cdef bint foreign = (kind == b"r" and not routed) or (kind == b"l" and self.link.kind == TO_GATEWAY)
        cdef Span origin, account, subject, size_word, header_word, reply
        cdef tuple queues = None
        cdef Py_ssize_t size
        cdef Py_ssize_t header_size = 0
        if not self.ready:
            self._violate(IS_EARLY, verb, line_end)
            return 0
        if foreign or line_end - p > self.max_control_line:
            self._violate(IS_UNKNOWN if foreign else IS_TOO_LONG, verb, line_end)
            return 0
        origin.size = account.size = 0
        if with_origin:
            origin = first_word(&p, line_end)
        if self.named_accounts:
            account = first_word(&p, line_end)
        subject = first_word(&p, line_end)
        size_word = last_word(p, &tail)
        size = number(size_word)
        if kind == b"h" or with_origin:
            header_word = last_word(p, &tail)
            header_size = number(header_word)
        if (
            not subject.size or (with_origin and not origin.size) or (self.named_accounts and not account.size)
            or size < 0 or header_size < 0 or header_size > size or not clean(verb, line_end)
        ):
            self._violate(HAS_BAD_ARGUMENTS, verb, line_end)
            return 0
        if self.max_payload >= 0 and size > self.max_payload:
            self._violate(IS_TOO_LARGE, verb, line_end)
            return 0
        if header_size and not self.link.headers:
            self._violate(HAS_HEADERS, verb, line_end)
            return 0
        if end - body < size + 2:
            if end - body > size and body[size] != b"\r":
                self._violate(IS_UNKNOWN, verb, line_end)
                return 0
            need[0] = (body - verb) + size + 2
            return 0
        if body[size] != b"\r" or body[size + 1] != b"\n":
            self._violate(IS_UNKNOWN, verb, line_end)
            return 0
        reply = first_word(&p, tail)
        if reply.size == 1 and (reply.at[0] == b"+" or reply.at[0] == b"|"):
            if reply.at[0] == b"+":
                reply = first_word(&p, tail)
                if not reply.size:
                    self._violate(HAS_BAD_ARGUMENTS, verb, line_end)
                    return 0
            else:
                reply.size = 0
            queues = words(p, tail)
            if not queues:
                self._violate(HAS_BAD_ARGUMENTS, verb, line_end)
                return 0
        elif skip_blanks(p, tail) < tail:
            self._violate(HAS_BAD_ARGUMENTS, verb, line_end)
            return 0
        self.msgs += 1
        self.msg_bytes += size
        self.arrivals.take(
            account, subject, reply, queues, span_bytes(origin) if with_origin else None, header_size, body, size
        )
        return (body - verb) + size + 2

    cdef int _control(self, const char *p, const char *end) except -1:
        """Every operation that carries no message."""
        cdef char verb = p[0] | 0x20 if end > p else 0
        cdef Py_ssize_t size = end - p
        cdef const char *text
        cdef int wrong
        if (
            size >= 4 and (verb == b"l" or verb == b"r") and (p[1] | 0x20) == b"s" and (p[2] == b"+" or p[2] == b"-")
            and blank(p[3])
        ):
            if not self.ready:
                self._violate(IS_EARLY, p, end)
                return 0
            wrong = self._interest.take(p, verb, end, self.named_accounts, self.max_control_line)
            if wrong and not self.dead:
                self._violate(wrong, p, end)
            return 0
        if self._interest.wanted is not None:
            self._interest.tell()
            if self.dead:
                return 0
        if verb == b"a" and self.link.kind == TO_GATEWAY and size >= 3 and (p[1] == b"+" or p[1] == b"-") and blank(p[2]):
            self._account(p, end)
        elif verb == b"p" and size >= 4 and starts(p, end, b"ping", 4):
            self._sink.on_ping()
        elif verb == b"p" and size >= 4 and starts(p, end, b"pong", 4):
            self._sink.on_pong()
        elif verb == b"c" and size >= 7 and starts(p, end, b"connect", 7):
            text = skip_blanks(p + 7, end)
            if end - text > self.max_control_line:
                self._violate(IS_TOO_LONG, p, end)
            else:
                self._sink.on_connect(PyBytes_FromStringAndSize(text, end - text))
        elif verb == b"i" and size >= 4 and starts(p, end, b"info", 4):
            text = skip_blanks(p + 4, end)
            if end - text > max(self.max_control_line, <Py_ssize_t>INFO_MAX):
                self._violate(IS_TOO_LONG, p, end)
            else:
                self._sink.on_info(PyBytes_FromStringAndSize(text, end - text))
        elif size >= 3 and p[0] == b"+" and starts(p + 1, end, b"ok", 2):
            pass
        elif size >= 5 and p[0] == b"-" and starts(p + 1, end, b"err", 3) and blank(p[4]):
            if size - 5 > self.max_control_line:
                self._violate(IS_TOO_LONG, p, end)
            else:
                self._sink.on_peer_error(PyBytes_FromStringAndSize(p + 5, size - 5))
        else:
            self._violate(IS_UNKNOWN, p, end)
        return 0

    cdef int _account(self, const char *line, const char *end) except -1:
        """A+ A-."""
        cdef tuple args
        if not self.ready:
            self._violate(IS_EARLY, line, end)
            return 0
        if end - skip_blanks(line + 3, end) > self.max_control_line:
            self._violate(IS_TOO_LONG, line, end)
            return 0
        args = words(line + 3, end)
        if PyTuple_GET_SIZE(args) != 1 or not clean(line, end):
            self._violate(HAS_BAD_ARGUMENTS, line, end)
            return 0
        self._sink.on_account(args[0], line[1] == b"+")
        return 0

    cdef int _check_partial(self, const char *p, const char *end) except -1:
        """A line without its end yet: refuse at once what can never become an operation."""
        cdef char first = p[0] | 0x20
        cdef Py_ssize_t limit = self.max_control_line
        cdef bint known = False
        if first == b"l" or first == b"r":
            known = end - p < 2 or (p[1] | 0x20) == b"s" or starts(p + 1, end, b"msg", 3)
        elif first == b"h":
            known = starts(p, end, b"hmsg", 4)
        elif first == b"p":
            known = starts(p, end, b"ping", 4) or starts(p, end, b"pong", 4)
        elif first == b"c":
            known = starts(p, end, b"connect", 7)
        elif first == b"i":
            known = starts(p, end, b"info", 4)
            limit = max(limit, <Py_ssize_t>INFO_MAX)
        elif first == b"a":
            known = self.link.kind == TO_GATEWAY and (end - p < 2 or p[1] == b"+" or p[1] == b"-")
        elif p[0] == b"+":
            known = starts(p + 1, end, b"ok", 2)
        elif p[0] == b"-":
            known = starts(p + 1, end, b"err", 3)
        elif p[0] == b"\r":
            known = end - p == 1
        if not known:
            self._violate(IS_UNKNOWN, p, end)
        elif end - p > limit + 9:
            # The verb, a blank and a carriage return do not count.
            self._violate(IS_TOO_LONG, p, end)
        return 0

    cdef int _violate(self, int kind, const char *p, const char *end) except -1:
        """The peer broke the protocol: stop here and let the sink answer."""
        cdef object sink
        if self._interest.wanted is not None:
            self._interest.tell()
            if self.dead:
                return 0
        sink = self._sink
        self.dead = True
        sink.on_violation(kind, PyBytes_FromStringAndSize(p, min(end - p, <Py_ssize_t>256)))
        return 0
