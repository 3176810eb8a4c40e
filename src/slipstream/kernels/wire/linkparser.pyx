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

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.string cimport memchr, memcmp, memcpy

from slipstream.kernels.wire.clientlines cimport Span, number, skip_blanks, span_bytes, starts
from slipstream.kernels.wire.delivery cimport Delivery
from slipstream.kernels.wire.interest cimport Interest, Link, Route, Subscription

# What the peer did wrong; the sink decides what to say and whether to close. As in `parser`, and one more.
UNKNOWN_OPERATION = 1
BAD_ARGUMENTS = 2
CONTROL_LINE_TOO_LONG = 3
PAYLOAD_TOO_LARGE = 4
HEADERS_NOT_NEGOTIATED = 5
TOO_MUCH_WAITING = 6
EARLY_OPERATION = 7

cdef enum:
    # Larger incomplete messages are received in place; smaller ones are cheaper to copy than an extra system call.
    HELD_MESSAGE_MAX = 65536
    # INFO lists the servers of a cluster and the rights of a user.
    INFO_MAX = 65536
    # Reads that arrive while an answer about the peer is awaited, or behind a very long line.
    ASIDE_SIZE = 16384
    VERDICTS_MAX = 4096
    # Subjects that a peer wants, in one call of the sink: a few milliseconds of work.
    WANTED_MAX = 1024
    REMEMBERED_BYTES_MAX = 128
    IS_ROUTE = 0
    IS_GATEWAY = 3
    # Of the address of a cluster and a server in front of a subject.
    ADDRESS_SIZE = 19


cdef inline bint blank(char byte) noexcept nogil:
    return byte == b" " or byte == b"\t"


cdef inline Span first_word(const char **at, const char *end) noexcept nogil:
    """The next word, and `at` behind it; an empty one at the end."""
    cdef Span word
    cdef const char *p = skip_blanks(at[0], end)
    word.at = p
    while p < end and not blank(p[0]):
        p += 1
    word.size = p - word.at
    at[0] = p
    return word


cdef inline Span last_word(const char *p, const char **end) noexcept nogil:
    """The last word, and `end` before it; an empty one if there is none."""
    cdef Span word
    cdef const char *q = end[0]
    while q > p and blank((q - 1)[0]):
        q -= 1
    word.size = 0
    while q > p and not blank((q - 1)[0]):
        q -= 1
        word.size += 1
    word.at = q
    end[0] = q
    return word


cdef inline bint clean(const char *p, const char *end) noexcept nogil:
    """Whether a line holds no byte that would break the lines of others."""
    while p < end:
        if p[0] == 0 or p[0] == 12 or p[0] == 13:
            return False
        p += 1
    return True


cdef tuple words(const char *p, const char *end):
    """All words of a stretch."""
    cdef list found = []
    cdef Span word = first_word(&p, end)
    while word.size:
        found.append(span_bytes(word))
        word = first_word(&p, end)
    return tuple(found)


cdef class LinkParser:
    """Parses what one other server sends.

    Attributes:
        ready: the handshake is over.
        named_accounts: lines name the account.
        fast: messages go straight to delivery; else each is a call of the sink.
        restricted: the sink is asked which subjects are taken; `verdicts` keeps its answers while it is a dict.
        addressed: subjects may begin with the address of a cluster (`_GR_.`); such messages are calls of the sink.
        waiting_max: bytes that may come while the parser is paused.
    """

    cdef object _sink
    cdef readonly Link link
    cdef Delivery _delivery
    cdef dict _accounts
    cdef public bint ready
    cdef public bint named_accounts
    cdef public bint fast
    cdef public bint restricted
    cdef public bint addressed
    cdef public dict verdicts
    cdef public Py_ssize_t max_payload
    cdef public Py_ssize_t max_control_line
    cdef public Py_ssize_t waiting_max
    cdef public unsigned long long msgs
    cdef public unsigned long long msg_bytes
    cdef readonly bint paused
    cdef public bint dead
    cdef bytearray _aside
    cdef bytes _held
    cdef object _message
    cdef Py_ssize_t _message_have
    cdef Py_ssize_t _message_need
    cdef bytes _last_account
    cdef Interest _last_interest
    cdef object _last_publisher
    cdef bytes _last_subject
    cdef list _wanted
    cdef bytes _wanted_account
    cdef Route _last_route

    def __cinit__(
        self, sink, Link link not None, Delivery delivery not None, Py_ssize_t max_payload, Py_ssize_t max_control_line,
    ):
        self._sink = sink
        self.link = link
        self._delivery = delivery
        self._accounts = {}
        self.ready = self.named_accounts = self.restricted = self.addressed = False
        self.fast = True
        self.verdicts = {}
        self.max_payload = max_payload
        self.max_control_line = max_control_line
        self.waiting_max = max_control_line
        self.paused = self.dead = False
        self._message_have = self._message_need = 0

    # --- accounts ---------------------------------------------------------------------------------------------------

    def admit(self, bytes account not None, Interest interest not None, publisher):
        """Take messages for an account from now on; they are published as by `publisher`."""
        self._accounts[account] = (interest, publisher)
        self._forget()

    def expel(self, bytes account not None):
        """Take no more messages for an account."""
        self._accounts.pop(account, None)
        self._forget()

    cdef int _forget(self) except -1:
        self._last_account = None
        self._last_interest = None
        self._last_publisher = None
        self._last_subject = None
        self._last_route = None
        return 0

    # --- bytes ------------------------------------------------------------------------------------------------------

    @property
    def held(self):
        """Bytes kept of an incomplete operation."""
        if self._message is not None:
            return self._message_have
        return 0 if self._held is None else PyBytes_GET_SIZE(self._held)

    def stop(self):
        """Take no further operation and keep nothing but the counts."""
        self.dead = True
        self._held = None
        self._message = None
        self._aside = None
        self._accounts = {}
        self._wanted = None
        self.verdicts = None
        self._sink = None
        self._forget()

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
        """Parse bytes that were read elsewhere."""
        cdef Py_ssize_t size, taken
        if self.dead:
            return
        if self.paused:
            self._held = data if self._held is None else self._held + data
            self._check_waiting()
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
        """Whether reads go to a buffer of this link's own: they are not parsed now, or do not fit behind the rest."""
        if self.paused or self._message is not None or self._held is None:
            return self.paused
        return PyBytes_GET_SIZE(self._held) > PyByteArray_GET_SIZE(shared) // 2

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
        self._held = PyBytes_FromStringAndSize(start + used, left)
        if self.paused:
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
        while p < end and not self.paused:
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
                if self._wanted is not None:
                    self._tell_wanted()
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
        if self._wanted is not None:
            self._tell_wanted()
            if self.dead:
                return 0
        return p - start

    cdef Py_ssize_t _message_op(
        self, const char *verb, char kind, const char *line_end, const char *body, const char *end, Py_ssize_t *need
    ) except -1:
        """A message. Returns the bytes used, 0 when it is not complete yet (or the parser died)."""
        cdef const char *p = verb + 5
        cdef const char *tail = line_end
        cdef bint routed = self.link.kind == IS_ROUTE or self.link.kind == IS_GATEWAY
        cdef bint with_origin = self.link.kind == IS_ROUTE and kind == b"l"
        cdef bint foreign = (kind == b"r" and not routed) or (kind == b"l" and self.link.kind == IS_GATEWAY)
        cdef Span origin, account, subject, size_word, header_word, reply
        cdef tuple queues = None
        cdef Py_ssize_t size
        cdef Py_ssize_t header_size = 0
        if not self.ready:
            self._violate(EARLY_OPERATION, verb, line_end)
            return 0
        if foreign or line_end - p > self.max_control_line:
            self._violate(UNKNOWN_OPERATION if foreign else CONTROL_LINE_TOO_LONG, verb, line_end)
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
            self._violate(BAD_ARGUMENTS, verb, line_end)
            return 0
        if self.max_payload >= 0 and size > self.max_payload:
            self._violate(PAYLOAD_TOO_LARGE, verb, line_end)
            return 0
        if header_size and not self.link.headers:
            self._violate(HEADERS_NOT_NEGOTIATED, verb, line_end)
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
        reply = first_word(&p, tail)
        if reply.size == 1 and (reply.at[0] == b"+" or reply.at[0] == b"|"):
            if reply.at[0] == b"+":
                reply = first_word(&p, tail)
                if not reply.size:
                    self._violate(BAD_ARGUMENTS, verb, line_end)
                    return 0
            else:
                reply.size = 0
            queues = words(p, tail)
            if not queues:
                self._violate(BAD_ARGUMENTS, verb, line_end)
                return 0
        elif skip_blanks(p, tail) < tail:
            self._violate(BAD_ARGUMENTS, verb, line_end)
            return 0
        self.msgs += 1
        self.msg_bytes += size
        self._arrived(
            account, subject, reply, queues, span_bytes(origin) if with_origin else None, header_size, body, size
        )
        return (body - verb) + size + 2

    cdef int _arrived(
        self, Span account, Span subject, Span reply, tuple queues, bytes origin, Py_ssize_t header_size, const char *body,
        Py_ssize_t size,
    ) except -1:
        """Hand a message to the receivers in its account."""
        cdef Route route = self._last_route
        cdef bytes name
        if not self._is_last_account(account) and not self._find_account(account):
            return 0
        if self.addressed and subject.size > ADDRESS_SIZE and memcmp(subject.at, b"_GR_.", 5) == 0:
            self._sink.on_addressed(
                self._last_account, span_bytes(subject), span_bytes(reply) if reply.size else None, header_size,
                PyBytes_FromStringAndSize(body, size),
            )
            return 0
        if (
            route is not None
            and self._last_subject is not None
            and (not self.restricted or self.verdicts is not None)
            and route._stamp == self._last_interest._stamp
            and subject.size == PyBytes_GET_SIZE(self._last_subject)
            and memcmp(subject.at, PyBytes_AS_STRING(self._last_subject), subject.size) == 0
        ):
            name = self._last_subject
        else:
            name = span_bytes(subject)
            if self.restricted and not self._is_taken(name):
                return 0
            if self._last_interest is None:
                return 0
            if self.link.kind == IS_ROUTE or self.link.kind == IS_GATEWAY:
                route = self._last_interest.arrival_route(name)
            else:
                route = self._last_interest.route(name)
            # An answer that is allowed once is asked about again.
            self._last_subject = None if self.restricted and self.verdicts is None else name
            self._last_route = route
        if not self.fast or route.dynamic:
            self._sink.on_message(
                self._last_account, name, span_bytes(reply) if reply.size else None, queues, origin, header_size,
                PyBytes_FromStringAndSize(body, size),
            )
            return 0
        if (
            queues is None and route.subject is not None
            and self.link.kind != IS_ROUTE and self.link.kind != IS_GATEWAY
        ):
            # The sender could not know the groups that a mapping leads to.
            queues = groups_of(route)
        self._delivery.send_arrived(
            route, self.link, queues, origin, self._last_publisher, subject.at, subject.size, reply.at, reply.size,
            header_size, body, size,
        )
        return 0

    cdef bint _is_last_account(self, Span account) noexcept:
        return (
            self._last_account is not None
            and account.size == PyBytes_GET_SIZE(self._last_account)
            and memcmp(account.at, PyBytes_AS_STRING(self._last_account), account.size) == 0
        )

    cdef bint _find_account(self, Span account) except -1:
        cdef bytes name = PyBytes_FromStringAndSize(account.at, account.size) if account.size else b""
        cdef PyObject *found = PyDict_GetItem(self._accounts, name)
        self._forget()
        if found == NULL:
            if not self._sink.on_unknown_account(name) or self.dead:
                return False
            found = PyDict_GetItem(self._accounts, name)
            if found == NULL:
                return False
        self._last_interest, self._last_publisher = <tuple>found
        self._last_account = name
        return True

    cdef bint _is_taken(self, bytes name) except -1:
        """Whether the sink takes messages on a subject."""
        cdef PyObject *verdict = NULL
        cdef object taken
        if self.verdicts is not None:
            verdict = PyDict_GetItem(self.verdicts, name)
            if verdict != NULL and <object>verdict is True:
                return True
        # What is refused is asked about each time: the sink answers it.
        taken = self._sink.may_publish(self._last_account, name)
        if self.dead:
            return False
        if taken is True and self.verdicts is not None and PyBytes_GET_SIZE(name) <= REMEMBERED_BYTES_MAX:
            if len(self.verdicts) >= VERDICTS_MAX:
                self.verdicts = {}
            self.verdicts[name] = True
        return bool(taken)

    cdef int _control(self, const char *p, const char *end) except -1:
        """Every operation that carries no message."""
        cdef char verb = p[0] | 0x20 if end > p else 0
        cdef Py_ssize_t size = end - p
        cdef const char *text
        if (
            size >= 4 and (verb == b"l" or verb == b"r") and (p[1] | 0x20) == b"s" and (p[2] == b"+" or p[2] == b"-")
            and blank(p[3])
        ):
            self._interest(p, verb, end)
            return 0
        if self._wanted is not None:
            self._tell_wanted()
            if self.dead:
                return 0
        if verb == b"a" and self.link.kind == IS_GATEWAY and size >= 3 and (p[1] == b"+" or p[1] == b"-") and blank(p[2]):
            self._account(p, end)
        elif verb == b"p" and size >= 4 and starts(p, end, b"ping", 4):
            self._sink.on_ping()
        elif verb == b"p" and size >= 4 and starts(p, end, b"pong", 4):
            self._sink.on_pong()
        elif verb == b"c" and size >= 7 and starts(p, end, b"connect", 7):
            text = skip_blanks(p + 7, end)
            if end - text > self.max_control_line:
                self._violate(CONTROL_LINE_TOO_LONG, p, end)
            else:
                self._sink.on_connect(PyBytes_FromStringAndSize(text, end - text))
        elif verb == b"i" and size >= 4 and starts(p, end, b"info", 4):
            text = skip_blanks(p + 4, end)
            if end - text > max(self.max_control_line, <Py_ssize_t>INFO_MAX):
                self._violate(CONTROL_LINE_TOO_LONG, p, end)
            else:
                self._sink.on_info(PyBytes_FromStringAndSize(text, end - text))
        elif size >= 3 and p[0] == b"+" and starts(p + 1, end, b"ok", 2):
            pass
        elif size >= 5 and p[0] == b"-" and starts(p + 1, end, b"err", 3) and blank(p[4]):
            if size - 5 > self.max_control_line:
                self._violate(CONTROL_LINE_TOO_LONG, p, end)
            else:
                self._sink.on_peer_error(PyBytes_FromStringAndSize(p + 5, size - 5))
        else:
            self._violate(UNKNOWN_OPERATION, p, end)
        return 0

    cdef int _interest(self, const char *line, char verb, const char *end) except -1:
        """RS+ RS- LS+ LS-."""
        cdef bint routed = self.link.kind == IS_ROUTE or self.link.kind == IS_GATEWAY
        cdef bint for_leaf = self.link.kind == IS_ROUTE and verb == b"l"
        cdef bint wanted = line[2] == b"+"
        cdef const char *p = line + 4
        cdef tuple args
        cdef bytes origin = None
        cdef bytes account = b""
        cdef Py_ssize_t weight = 1
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t left
        if not self.ready:
            self._violate(EARLY_OPERATION, line, end)
            return 0
        if (verb == b"r" and not routed) or (verb == b"l" and self.link.kind == IS_GATEWAY):
            self._violate(UNKNOWN_OPERATION, line, end)
            return 0
        if end - skip_blanks(p, end) > self.max_control_line:
            self._violate(CONTROL_LINE_TOO_LONG, line, end)
            return 0
        if not clean(p, end):
            self._violate(BAD_ARGUMENTS, line, end)
            return 0
        if wanted and not for_leaf and self._is_plain(p, end):
            return 0
        if self._wanted is not None:
            self._tell_wanted()
            if self.dead:
                return 0
        args = words(p, end)
        left = PyTuple_GET_SIZE(args)
        if for_leaf and left:
            origin = args[0]
            at += 1
            left -= 1
        if self.named_accounts and left:
            account = args[at]
            at += 1
            left -= 1
        if left != 1 and left != (3 if wanted else 2) or (for_leaf and origin is None):
            self._violate(BAD_ARGUMENTS, line, end)
            return 0
        if not wanted:
            self._sink.on_interest_gone(account, args[at], args[at + 1] if left == 2 else None, origin)
            return 0
        if left == 3:
            weight = number_of(<bytes>args[at + 2])
            if weight < 0:
                self._violate(BAD_ARGUMENTS, line, end)
                return 0
        self._sink.on_interest(account, args[at], args[at + 1] if left == 3 else None, max(weight, <Py_ssize_t>1), origin)
        return 0

    cdef bint _is_plain(self, const char *p, const char *end) except -1:
        """Whether a peer wants just a subject; then it is kept for `_tell_wanted`, with those before it."""
        cdef Span account, subject
        account.size = 0
        if self.named_accounts:
            account = first_word(&p, end)
            if not account.size:
                return False
        subject = first_word(&p, end)
        if not subject.size or skip_blanks(p, end) < end:
            return False
        if self._wanted is not None and (
            len(self._wanted) >= WANTED_MAX
            or account.size != PyBytes_GET_SIZE(self._wanted_account)
            or memcmp(account.at, PyBytes_AS_STRING(self._wanted_account), account.size) != 0
        ):
            self._tell_wanted()
            if self.dead:
                return True
        if self._wanted is None:
            self._wanted = []
            self._wanted_account = PyBytes_FromStringAndSize(account.at, account.size) if account.size else b""
        self._wanted.append(span_bytes(subject))
        return True

    cdef int _tell_wanted(self) except -1:
        """Tell the sink of all that the peer wants since the last operation of another kind, in one call."""
        cdef list subjects = self._wanted
        self._wanted = None
        self._sink.on_wanted(self._wanted_account, subjects)
        return 0

    cdef int _account(self, const char *line, const char *end) except -1:
        """A+ A-."""
        cdef tuple args
        if not self.ready:
            self._violate(EARLY_OPERATION, line, end)
            return 0
        if end - skip_blanks(line + 3, end) > self.max_control_line:
            self._violate(CONTROL_LINE_TOO_LONG, line, end)
            return 0
        args = words(line + 3, end)
        if PyTuple_GET_SIZE(args) != 1 or not clean(line, end):
            self._violate(BAD_ARGUMENTS, line, end)
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
            known = self.link.kind == IS_GATEWAY and (end - p < 2 or p[1] == b"+" or p[1] == b"-")
        elif p[0] == b"+":
            known = starts(p + 1, end, b"ok", 2)
        elif p[0] == b"-":
            known = starts(p + 1, end, b"err", 3)
        elif p[0] == b"\r":
            known = end - p == 1
        if not known:
            self._violate(UNKNOWN_OPERATION, p, end)
        elif end - p > limit + 9:
            # The verb, a blank and a carriage return do not count.
            self._violate(CONTROL_LINE_TOO_LONG, p, end)
        return 0

    cdef int _violate(self, int kind, const char *p, const char *end) except -1:
        """The peer broke the protocol: stop here and let the sink answer."""
        cdef object sink
        if self._wanted is not None:
            self._tell_wanted()
            if self.dead:
                return 0
        sink = self._sink
        self.dead = True
        sink.on_violation(kind, PyBytes_FromStringAndSize(p, min(end - p, <Py_ssize_t>256)))
        return 0


cdef Py_ssize_t number_of(bytes word) except -2:
    cdef Span span
    span.at = PyBytes_AS_STRING(word)
    span.size = PyBytes_GET_SIZE(word)
    return number(span)


cdef tuple groups_of(Route route):
    """The names of all queue groups that a route leads to."""
    cdef list names = []
    cdef tuple members
    for members in route.queues:
        names.append((<Subscription>PyTuple_GET_ITEM(members, 0)).queue)
    if route.elsewhere is not None:
        for group in route.elsewhere:
            if group.queue not in names:
                names.append(group.queue)
    return tuple(names)
