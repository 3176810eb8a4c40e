# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What a server sends, handed out: one object per message, for clients that want them.

Not a client: no socket, no clock, no policy. The bytes may come in any split. The lines are taken apart by
`serverlines`; a head that repeats the one before is recognised by its bytes, and its objects are used again. Who only
counts takes `serverscan.Scanner`.

Bounds: every read is behind a test against `end - p`. A line is at most `LOADGEN_LINE_BYTES_MAX`, a frame
`LOADGEN_FRAME_BYTES_MAX`. Memory: a `Store` belongs to the decoder and is freed with it; nothing points into a fed
buffer after the feed. Complexity: O(bytes).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp, memcpy, memmove

from slipstream import limits

from slipstream.kernels.heap cimport Store, store_append
from slipstream.kernels.client.serverlines cimport (
    ERR, HMSG, INFO, MSG, OK, PING, PONG, REPEAT_MAX, Head, decode_text, parse_head, parse_size,
)

cdef Py_ssize_t LINE_MAX = limits.LOADGEN_LINE_BYTES_MAX
cdef Py_ssize_t FRAME_MAX = limits.LOADGEN_FRAME_BYTES_MAX

cdef enum:
    LARGE = 32768          # bytes of a payload that is not collected first


cdef class Message:
    """One message as delivered. `reply` and `header` are empty when the message has none."""

    cdef readonly str subject
    cdef readonly object sid      # int
    cdef readonly str reply
    cdef readonly bytes header    # the whole block, from NATS/1.0 to the empty line
    cdef readonly bytes payload

    def __repr__(self):
        return (f"Message(subject={self.subject!r}, sid={self.sid}, reply={self.reply!r}, "
                f"header={self.header!r}, payload={self.payload!r})")


cdef class Decoder:
    """Turns a server's bytes into messages; keeps counts and texts of everything else.

    Invariant: `pending` holds the bytes of at most one unfinished frame, and `need` of them must be there before it is
    worth looking again, so a large frame in small pieces costs O(bytes).

    The payload of a large message without headers is put where it will stay as it comes; `room` is the rest of that
    place, so that a reader can receive into it and say so with `filled`. Meanwhile `pending` is empty.
    """

    cdef readonly Py_ssize_t oks, pongs, pings  # lines seen of each kind
    cdef readonly list errors                   # texts of -ERR lines, quotes removed
    cdef readonly bytes info                    # JSON of the latest INFO; None before the first
    cdef Store pending
    cdef Py_ssize_t need
    cdef char last[REPEAT_MAX]                  # the last head, LF included, whose objects follow
    cdef Py_ssize_t last_size
    cdef Py_ssize_t last_header_size, last_total_size
    cdef str last_subject, last_reply
    cdef object last_sid
    cdef bytes body                             # payload under way; None: none, and the next three mean nothing
    cdef Py_ssize_t body_size                   # bytes of it that are there
    cdef Py_ssize_t ending                      # bytes of its CRLF that are there
    cdef bint broken

    def __cinit__(self):
        self.errors = []

    def __dealloc__(self):
        free(self.pending.at)

    def feed(self, data not None, Py_ssize_t size=-1):
        """Take the first `size` bytes of `data`, by default all of them; return the messages they completed.

        Raises:
            ValueError: when the bytes are not the NATS protocol or a frame is beyond the limit; for good.
        """
        cdef Py_buffer view
        cdef Py_ssize_t used
        cdef list out = []
        if self.broken:
            raise ValueError("malformed bytes from the server came before")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if size < 0:
                size = view.len
            elif size > view.len:
                raise ValueError(f"size {size} is beyond the buffer of {view.len} bytes")
            if self.pending.size == 0:
                used = self.fill(<const char*>view.buf, size, out) if self.body is not None else 0
                used += self.decode(<const char*>view.buf + used, <const char*>view.buf + size, out)
                self.keep(<const char*>view.buf + used, size - used)
            else:
                self.keep(<const char*>view.buf, size)
                if self.pending.size >= self.need:
                    used = self.decode(self.pending.at, self.pending.at + self.pending.size, out)
                    self.pending.size -= used
                    memmove(self.pending.at, self.pending.at + used, self.pending.size)
        finally:
            PyBuffer_Release(&view)
        return out

    @property
    def room(self):
        """Writable memory for the rest of a large payload, to be used at once; None when none is under way."""
        if self.body is None or self.body_size == PyBytes_GET_SIZE(self.body):
            return None
        return PyMemoryView_FromMemory(
            PyBytes_AS_STRING(self.body) + self.body_size, PyBytes_GET_SIZE(self.body) - self.body_size, PyBUF_WRITE
        )

    def filled(self, Py_ssize_t size):
        """`size` bytes were written into `room`.

        Raises:
            ValueError: so many do not fit.
        """
        if self.body is None or size < 0 or size > PyBytes_GET_SIZE(self.body) - self.body_size:
            raise ValueError(f"there is no room for {size} bytes")
        self.body_size += size

    def unfinished(self):
        """Return the bytes of the frame that has not come whole, for a reader that takes over."""
        if self.body is not None:
            head = PyBytes_FromStringAndSize(self.last, self.last_size)
            return head + self.body[:self.body_size] + b"\r"[:self.ending]
        return PyBytes_FromStringAndSize(self.pending.at, self.pending.size)

    cdef int begin(self, Py_ssize_t size) except -1:
        """Make the place for a large payload."""
        self.body = PyBytes_FromStringAndSize(NULL, size)
        self.body_size = self.ending = 0
        return 0

    cdef Py_ssize_t fill(self, const char* p, Py_ssize_t size, list out) except -1:
        """Take what belongs to the large payload and its CRLF; return how many bytes that were."""
        cdef Message message
        cdef Py_ssize_t used = min(size, PyBytes_GET_SIZE(self.body) - self.body_size)
        memcpy(PyBytes_AS_STRING(self.body) + self.body_size, p, used)
        self.body_size += used
        while used < size and self.ending < 2:
            if p[used] != (c"\n" if self.ending else c"\r"):
                self.fail("payload is not followed by CRLF")
            self.ending += 1
            used += 1
        if self.ending == 2:
            message = Message.__new__(Message)
            message.subject = self.last_subject
            message.sid = self.last_sid
            message.reply = self.last_reply
            message.header = b""
            message.payload = self.body
            self.body = None
            out.append(message)
        return used

    cdef int keep(self, const char* p, Py_ssize_t size) except -1:
        if not store_append(&self.pending, p, size):
            self.broken = True
            raise MemoryError()
        return 0

    cdef int fail(self, str fault) except -1:
        self.broken = True
        raise ValueError("malformed bytes from the server: " + fault)

    cdef Py_ssize_t decode(self, const char* begin, const char* end, list out) except -1:
        """Append whole messages to `out`; return how many bytes they and the lines between took."""
        cdef const char* p = begin
        cdef const char* newline
        cdef Py_ssize_t head_size
        cdef Head head
        while p < end:
            if self.last_size and end - p >= self.last_size and memcmp(p, self.last, self.last_size) == 0:
                head_size = self.last_size
            else:
                newline = <const char*>memchr(p, c"\n", end - p)
                head_size = end - p if newline == NULL else newline + 1 - p
                if head_size > LINE_MAX:
                    self.fail("line too long")
                if newline == NULL:
                    self.need = 0
                    return p - begin
                parse_head(p, head_size, &head)
                if head.kind != MSG and head.kind != HMSG:
                    self.take_line(&head)
                    p = newline + 1
                    continue
                self.take_head(p, head_size, &head)
            if self.last_total_size > FRAME_MAX:
                self.fail(f"message of {self.last_total_size} bytes is beyond the limit of {FRAME_MAX}")
            if end - p < head_size + self.last_total_size + 2:
                if self.last_total_size >= LARGE and self.last_header_size == 0 and self.last_size:
                    self.begin(self.last_total_size)
                    p += head_size
                    p += self.fill(p, end - p, out)
                    return p - begin
                self.need = head_size + self.last_total_size + 2
                return p - begin
            p += head_size
            if p[self.last_total_size] != c"\r" or p[self.last_total_size + 1] != c"\n":
                self.fail("payload is not followed by CRLF")
            out.append(self.message(p))
            p += self.last_total_size + 2
        return p - begin

    cdef Message message(self, const char* body):
        cdef Message message = Message.__new__(Message)
        message.subject = self.last_subject
        message.sid = self.last_sid
        message.reply = self.last_reply
        message.header = PyBytes_FromStringAndSize(body, self.last_header_size)
        message.payload = PyBytes_FromStringAndSize(
            body + self.last_header_size, self.last_total_size - self.last_header_size
        )
        return message

    cdef int take_head(self, const char* p, Py_ssize_t size, Head* head) except -1:
        cdef Py_ssize_t sid = parse_size(head.sid, head.sid_size)
        if sid < 0:
            self.fail("sid is not a number this client can have given")
        self.last_sid = sid
        self.last_subject = decode_text(head.subject, head.subject_size)
        self.last_reply = decode_text(head.reply, head.reply_size)
        self.last_header_size = head.header_size
        self.last_total_size = head.total_size
        self.last_size = size if size <= REPEAT_MAX else 0
        memcpy(self.last, p, self.last_size)
        return 0

    cdef int take_line(self, Head* head) except -1:
        if head.kind == PONG:
            self.pongs += 1
        elif head.kind == PING:
            self.pings += 1
        elif head.kind == OK:
            self.oks += 1
        elif head.kind == INFO:
            self.info = PyBytes_FromStringAndSize(head.text, head.text_size)
        elif head.kind == ERR:
            self.errors.append(decode_text(head.text, head.text_size).strip("'"))
        else:
            self.fail("unknown or malformed line")
        return 0
