# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The client's end of the wire: encode publishes in bulk, count or decode what a server sends.

Not a client: no socket, no clock, no policy. `Scanner` counts frames without one Python object per message, for load
generation; `Decoder` hands out every message, for clients that want them. Both take the bytes in any split.

    head line                                        body (MSG and HMSG only)
    MSG  <subject> <sid> [reply] <size>        CRLF  <size bytes of payload> CRLF
    HMSG <subject> <sid> [reply] <hdr> <size>  CRLF  <hdr bytes of header, payload; size bytes in all> CRLF
    +OK | PING | PONG | -ERR '<text>' | INFO {json}  CRLF

    Scanner:   IN_HEAD --MSG, HMSG--> IN_BODY (left bytes to pass) --> AT_CR --> AT_LF --> IN_HEAD
               IN_HEAD --any other line--> IN_HEAD;     anything malformed --> BROKEN, for good

Bounds: `boundscheck=False` holds because every read is behind a test against `end - p`, and a size is refused above
`SIZE_MAX` before it is used. A line is at most `LOADGEN_LINE_BYTES_MAX`, a decoded frame `LOADGEN_FRAME_BYTES_MAX`.
Memory: a `Store` belongs to the object that holds it and is freed with it; nothing points into a fed buffer after the
feed. Complexity: the scanner costs O(bytes of head lines), bodies are passed by their size; the decoder O(bytes).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

from slipstream import limits

cdef extern from *:
    int __builtin_clzll(unsigned long long) noexcept nogil

cdef Py_ssize_t LINE_MAX = limits.LOADGEN_LINE_BYTES_MAX
cdef Py_ssize_t FRAME_MAX = limits.LOADGEN_FRAME_BYTES_MAX
cdef Py_ssize_t BATCH_MAX = limits.LOADGEN_BATCH_BYTES_MAX

cdef enum:
    SIZE_MAX = 0x7FFFFFFF  # what a NATS size field can say: a positive int32
    ARGS_MAX = 5           # words after the verb of an HMSG with reply
    ERROR_MAX = 1024       # bytes of the first -ERR that are kept
    REPEAT_MAX = 256       # longest head line remembered for the repeat test
    LARGE = 32768          # bytes of a payload that is not collected first
    STAMP_BYTES = 16       # source and sequence, then time: two little-endian u64 at the front of a payload
    SEQ_BITS = 48          # of the first word; the source is above
    SOURCES = 256          # stamping publishers one scanner tells apart
    STEP_BITS = 5          # histogram: 32 steps a power of two, so a bucket is at most 3.2 % wide
    BUCKETS = 64 << 5

cdef enum Kind:
    BAD
    MSG
    HMSG
    OK
    ERR
    PING
    PONG
    INFO

cdef enum Step:
    IN_HEAD
    IN_BODY
    AT_CR
    AT_LF
    BROKEN

# Growing memory with one owner.
cdef struct Store:
    char* at
    Py_ssize_t size
    Py_ssize_t room

# A parsed head line. The pointers lie within the line it was parsed from and are as short-lived.
cdef struct Head:
    Kind kind
    const char* subject
    Py_ssize_t subject_size
    const char* sid
    Py_ssize_t sid_size
    const char* reply         # reply_size 0: no reply
    Py_ssize_t reply_size
    const char* text          # ERR, INFO: what follows the verb
    Py_ssize_t text_size
    Py_ssize_t header_size    # 0 for MSG
    Py_ssize_t total_size     # header and payload together


def encode_pubs(bytes subject not None, bytes payload not None, Py_ssize_t count, bytes reply not None=b""):
    """Return `count` equal PUB frames, ready to send.

    Raises:
        ValueError: for a subject or reply no PUB line can carry, a negative count, or more than
            `LOADGEN_BATCH_BYTES_MAX` bytes.
    """
    check_word(subject, "subject")
    if reply:
        check_word(reply, "reply")
        frame = b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)
    else:
        frame = b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)
    if count < 0:
        raise ValueError(f"count is negative: {count}")
    if count > BATCH_MAX // len(frame):
        raise ValueError(f"{count} frames of {len(frame)} bytes exceed the batch limit of {BATCH_MAX} bytes")
    return frame * count


def stamp_pubs(frames not None, Py_ssize_t frame_size, Py_ssize_t payload_at, uint64_t first_seq, uint64_t now_ns,
               unsigned int source=0):
    """Write source, sequence and time into the payloads of equally long frames, in place; return the next sequence.

    Args:
        frames: a writable buffer that holds whole frames and nothing else.
        frame_size: bytes from one frame to the next.
        payload_at: where in a frame the payload begins; 16 bytes of it are overwritten.
        first_seq: sequence of the first frame; scanners expect every source to begin at 1.
        now_ns: the time written into every frame.
        source: which publisher this is, below 256.

    Raises:
        ValueError: when the frames do not fit these numbers.
    """
    cdef Py_buffer view
    cdef Py_ssize_t at = payload_at
    cdef uint64_t seq = first_seq
    if frame_size <= 0 or payload_at < 0 or payload_at > frame_size or frame_size - payload_at < STAMP_BYTES:
        raise ValueError("a stamp of 16 bytes does not fit into the payload")
    if source >= SOURCES:
        raise ValueError(f"source is not below {SOURCES}: {source}")
    PyObject_GetBuffer(frames, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
    try:
        if view.len % frame_size:
            raise ValueError("the buffer does not hold whole frames")
        if first_seq >> SEQ_BITS or (first_seq + <uint64_t>(view.len // frame_size)) >> SEQ_BITS:
            raise ValueError(f"sequence does not fit into {SEQ_BITS} bits")
        while at < view.len:
            put_u64(<unsigned char*>view.buf + at, (<uint64_t>source << SEQ_BITS) | seq)
            put_u64(<unsigned char*>view.buf + at + 8, now_ns)
            seq += 1
            at += frame_size
    finally:
        PyBuffer_Release(&view)
    return seq


cdef class Scanner:
    """Counts what a server sends.

    With `stamped`, payloads that begin with a stamp of `stamp_pubs` also yield losses, repeats and latencies. With
    `reply_payload`, each message that names a reply subject is answered: `take_replies` has the PUB frames.

    Invariant: `messages` counts exactly the messages whose closing CRLF was seen.
    """

    cdef readonly Py_ssize_t messages         # MSG and HMSG seen whole
    cdef readonly Py_ssize_t header_messages  # of these, HMSG
    cdef readonly uint64_t payload_bytes      # header and payload bytes of whole messages
    cdef readonly Py_ssize_t oks, pongs, pings, infos, errors  # lines seen of each kind
    cdef readonly Py_ssize_t lost             # stamped sequences jumped over
    cdef readonly Py_ssize_t repeated         # stamped sequences at or below one already seen
    cdef Step step
    cdef const char* fault                    # why step is BROKEN: a literal
    cdef Kind kind                            # of the message being passed
    cdef Py_ssize_t total                     # size field of the message being passed
    cdef Py_ssize_t left                      # bytes of it still to pass before CRLF
    cdef Store line                           # a head line cut by the end of a feed
    cdef Store error                          # text of the first -ERR
    cdef Store reply                          # reply subject of the message being passed
    cdef Store replies                        # PUB frames not yet taken
    cdef char last[REPEAT_MAX]                # the last MSG or HMSG head, LF included
    cdef Py_ssize_t last_size                 # 0: none, or too long to remember
    cdef bint stamped
    cdef unsigned char stamp[STAMP_BYTES]     # front of the payload being passed
    cdef uint64_t next_seq[SOURCES]
    cdef uint64_t now_ns                      # time of the current feed
    cdef uint64_t buckets[BUCKETS]
    cdef bytes reply_tail                     # b" <size>\r\n<payload>\r\n"; None: no replies wanted
    cdef const char* tail_at                  # inside reply_tail
    cdef Py_ssize_t tail_size

    def __cinit__(self, *, bint stamped=False, bytes reply_payload=None):
        cdef Py_ssize_t source
        self.stamped = stamped
        for source in range(SOURCES):
            self.next_seq[source] = 1
        memset(self.buckets, 0, sizeof(self.buckets))
        if reply_payload is not None:
            self.reply_tail = b" %d\r\n%b\r\n" % (len(reply_payload), reply_payload)
            self.tail_at = self.reply_tail
            self.tail_size = len(self.reply_tail)

    def __dealloc__(self):
        free(self.line.at)
        free(self.error.at)
        free(self.reply.at)
        free(self.replies.at)

    @property
    def first_error(self):
        """Text of the first -ERR without its quotes, or None."""
        if self.errors == 0:
            return None
        return decode_text(self.error.at, self.error.size).strip("'")

    def feed(self, data not None, Py_ssize_t size=-1, uint64_t now_ns=0):
        """Take the first `size` bytes of `data`, by default all of them; return how many messages they completed.

        Raises:
            ValueError: when the bytes are not the NATS protocol. The scanner is then broken for good; its counts stay
                those up to the fault.
        """
        cdef Py_buffer view
        cdef Py_ssize_t before = self.messages
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if size < 0:
                size = view.len
            elif size > view.len:
                raise ValueError(f"size {size} is beyond the buffer of {view.len} bytes")
            self.now_ns = now_ns
            self.scan(<const char*>view.buf, <const char*>view.buf + size)
        finally:
            PyBuffer_Release(&view)
        if self.step == BROKEN:
            raise ValueError("malformed bytes from the server: " + self.fault.decode("ascii"))
        return self.messages - before

    def take_replies(self):
        """Return the PUB frames that answer the requests seen since the last call."""
        taken = PyBytes_FromStringAndSize(self.replies.at, self.replies.size)
        self.replies.size = 0
        return taken

    def latency_ns(self, double fraction):
        """Return the latency that `fraction` of the stamped messages stayed within, to 3.2 %; 0 without messages.

        Raises:
            ValueError: for a fraction outside 0 to 1.
        """
        cdef uint64_t total = 0, seen = 0
        cdef double wanted
        cdef Py_ssize_t bucket
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"fraction is not between 0 and 1: {fraction}")
        for bucket in range(BUCKETS):
            total += self.buckets[bucket]
        wanted = fraction * <double>total
        for bucket in range(BUCKETS):
            seen += self.buckets[bucket]
            if seen and <double>seen >= wanted:
                return bucket_top(bucket)
        return 0

    cdef void scan(self, const char* p, const char* end) noexcept nogil:
        cdef const char* newline
        while p < end and self.step != BROKEN:
            if self.step == IN_HEAD:
                if self.line.size == 0 and self.last_size and end - p >= self.last_size \
                        and memcmp(p, self.last, self.last_size) == 0:
                    p += self.last_size  # the same head as before: kind, total and reply still hold
                    self.left = self.total
                    self.step = IN_BODY
                else:
                    newline = <const char*>memchr(p, c"\n", end - p)
                    if newline == NULL:
                        self.keep_line(p, end - p)
                        return
                    if self.line.size == 0:
                        self.take_line(p, newline + 1 - p)
                    else:
                        self.keep_line(p, newline + 1 - p)
                        if self.step != BROKEN:
                            self.take_line(self.line.at, self.line.size)
                            self.line.size = 0
                    p = newline + 1
            elif self.step == IN_BODY:
                p = self.pass_body(p, end)
            elif self.step == AT_CR and p[0] == c"\r":
                self.step = AT_LF
                p += 1
            elif self.step == AT_LF and p[0] == c"\n":
                self.complete()
                p += 1
            else:
                self.breaks("payload is not followed by CRLF")

    cdef void breaks(self, const char* fault) noexcept nogil:
        self.step = BROKEN
        self.fault = fault

    cdef void keep_line(self, const char* p, Py_ssize_t size) noexcept nogil:
        if size > LINE_MAX - self.line.size:
            self.breaks("line too long")
        elif not store_append(&self.line, p, size):
            self.breaks("out of memory")

    cdef void take_line(self, const char* p, Py_ssize_t size) noexcept nogil:
        """One whole line, LF included."""
        cdef Head head
        if size > LINE_MAX:
            self.breaks("line too long")
            return
        parse_head(p, size, &head)
        if head.kind == MSG or head.kind == HMSG:
            self.kind = head.kind
            self.total = self.left = head.total_size
            self.step = IN_BODY
            self.last_size = size if size <= REPEAT_MAX else 0
            memcpy(self.last, p, self.last_size)
            if self.tail_size:
                self.reply.size = 0
                if not store_append(&self.reply, head.reply, head.reply_size):
                    self.breaks("out of memory")
        elif head.kind == PONG:
            self.pongs += 1
        elif head.kind == PING:
            self.pings += 1
        elif head.kind == OK:
            self.oks += 1
        elif head.kind == INFO:
            self.infos += 1
        elif head.kind == ERR:
            self.errors += 1
            if self.errors == 1 and not store_append(&self.error, head.text, min(head.text_size, ERROR_MAX)):
                self.breaks("out of memory")
        else:
            self.breaks("unknown or malformed line")

    cdef const char* pass_body(self, const char* p, const char* end) noexcept nogil:
        cdef Py_ssize_t size = end - p
        cdef Py_ssize_t passed = self.total - self.left
        if size > self.left:
            size = self.left
        if self.stamped and passed < STAMP_BYTES:
            memcpy(self.stamp + passed, p, min(size, STAMP_BYTES - passed))
        self.left -= size
        p += size
        if self.left:
            return p
        if end - p < 2:
            self.step = AT_CR
            return p
        if p[0] != c"\r" or p[1] != c"\n":
            self.breaks("payload is not followed by CRLF")
        else:
            self.complete()
        return p + 2

    cdef void complete(self) noexcept nogil:
        self.step = IN_HEAD
        self.messages += 1
        self.header_messages += self.kind == HMSG
        self.payload_bytes += <uint64_t>self.total
        if self.stamped and self.kind == MSG and self.total >= STAMP_BYTES:
            self.take_stamp()
        if self.tail_size and self.reply.size:
            if self.replies.size > BATCH_MAX:
                self.breaks("too many requests before the replies were taken")
            elif not (store_append(&self.replies, b"PUB ", 4)
                      and store_append(&self.replies, self.reply.at, self.reply.size)
                      and store_append(&self.replies, self.tail_at, self.tail_size)):
                self.breaks("out of memory")

    cdef void take_stamp(self) noexcept nogil:
        cdef uint64_t word = get_u64(self.stamp)
        cdef uint64_t sent_ns = get_u64(self.stamp + 8)
        cdef uint64_t source = word >> SEQ_BITS
        cdef uint64_t seq = word & ((<uint64_t>1 << SEQ_BITS) - 1)
        if source >= SOURCES:
            return  # not a stamp of ours
        self.buckets[bucket_of(self.now_ns - sent_ns if self.now_ns > sent_ns else 0)] += 1
        if seq < self.next_seq[source]:
            self.repeated += 1
            return
        self.lost += <Py_ssize_t>(seq - self.next_seq[source])
        self.next_seq[source] = seq + 1


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


cdef void parse_head(const char* line, Py_ssize_t size, Head* head) noexcept nogil:
    """Parse one line that ends in LF. `kind` is BAD unless the whole line is in order."""
    cdef const char* end = line + size - 1
    cdef const char* words[ARGS_MAX + 1]
    cdef Py_ssize_t sizes[ARGS_MAX + 1]
    cdef Py_ssize_t count
    memset(head, 0, sizeof(Head))
    if end > line and (end - 1)[0] == c"\r":
        end -= 1
    if is_verb(line, end, b"MSG", 3):
        count = split(line + 3, end, words, sizes)
        head.kind = MSG if count == 3 or count == 4 else BAD
    elif is_verb(line, end, b"HMSG", 4):
        count = split(line + 4, end, words, sizes)
        head.kind = HMSG if count == 4 or count == 5 else BAD
    else:
        if is_verb(line, end, b"PONG", 4):
            head.kind = PONG
        elif is_verb(line, end, b"PING", 4):
            head.kind = PING
        elif is_verb(line, end, b"+OK", 3):
            head.kind = OK
        elif is_verb(line, end, b"-ERR", 4):
            head.kind = ERR
            take_text(line + 4, end, head)
        elif is_verb(line, end, b"INFO", 4):
            head.kind = INFO
            take_text(line + 4, end, head)
        return
    if head.kind == BAD:
        return
    head.subject, head.subject_size = words[0], sizes[0]
    head.sid, head.sid_size = words[1], sizes[1]
    head.total_size = parse_size(words[count - 1], sizes[count - 1])
    if head.kind == HMSG:
        head.header_size = parse_size(words[count - 2], sizes[count - 2])
        count -= 1
    if count == 4:
        head.reply, head.reply_size = words[2], sizes[2]
    if head.total_size < 0 or head.header_size < 0 or head.header_size > head.total_size:
        head.kind = BAD


cdef inline bint is_blank(char c) noexcept nogil:
    return c == c" " or c == c"\t"


cdef inline bint is_verb(const char* p, const char* end, const char* verb, Py_ssize_t size) noexcept nogil:
    return end - p >= size and memcmp(p, verb, size) == 0 and (end - p == size or is_blank(p[size]))


cdef Py_ssize_t split(const char* p, const char* end, const char** words, Py_ssize_t* sizes) noexcept nogil:
    """Cut at blanks; return the number of words, ARGS_MAX + 1 meaning too many."""
    cdef Py_ssize_t count = 0
    while True:
        while p < end and is_blank(p[0]):
            p += 1
        if p == end or count > ARGS_MAX:
            return count
        words[count] = p
        while p < end and not is_blank(p[0]):
            p += 1
        sizes[count] = p - words[count]
        count += 1


cdef Py_ssize_t parse_size(const char* p, Py_ssize_t size) noexcept nogil:
    """Return the number these digits say, or -1 for none, for anything else and above SIZE_MAX."""
    cdef Py_ssize_t value = 0, i
    if size < 1 or size > 10:
        return -1
    for i in range(size):
        if p[i] < c"0" or p[i] > c"9":
            return -1
        value = value * 10 + (p[i] - c"0")
    return value if value <= SIZE_MAX else -1


cdef void take_text(const char* p, const char* end, Head* head) noexcept nogil:
    while p < end and is_blank(p[0]):
        p += 1
    while end > p and is_blank((end - 1)[0]):
        end -= 1
    head.text = p
    head.text_size = end - p


cdef bint store_append(Store* store, const char* p, Py_ssize_t size) noexcept nogil:
    """False: no memory; the store is as before."""
    cdef Py_ssize_t room
    cdef char* grown
    if size > store.room - store.size:
        room = max(2 * store.room, store.size + size, 512)
        grown = <char*>realloc(store.at, room)
        if grown == NULL:
            return False
        store.at, store.room = grown, room
    if size:
        memcpy(store.at + store.size, p, size)
        store.size += size
    return True


cdef inline void put_u64(unsigned char* p, uint64_t value) noexcept nogil:
    cdef int i
    for i in range(8):
        p[i] = <unsigned char>((value >> (8 * i)) & 0xFF)


cdef inline uint64_t get_u64(const unsigned char* p) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(8):
        value |= <uint64_t>p[i] << (8 * i)
    return value


cdef inline Py_ssize_t bucket_of(uint64_t value) noexcept nogil:
    cdef int top
    if value < (1 << STEP_BITS):
        return <Py_ssize_t>value
    top = 63 - __builtin_clzll(value)
    return (<Py_ssize_t>(top - STEP_BITS + 1) << STEP_BITS) | <Py_ssize_t>(
        (value >> (top - STEP_BITS)) & ((1 << STEP_BITS) - 1)
    )


cdef inline uint64_t bucket_top(Py_ssize_t bucket) noexcept nogil:
    """The largest value of a bucket."""
    cdef int shift
    if bucket < (1 << STEP_BITS):
        return <uint64_t>bucket
    shift = <int>(bucket >> STEP_BITS) - 1
    return (((<uint64_t>(bucket & ((1 << STEP_BITS) - 1)) + (1 << STEP_BITS)) + 1) << shift) - 1


cdef str decode_text(const char* p, Py_ssize_t size):
    return PyUnicode_DecodeUTF8(p, size, "surrogateescape") if size else ""


cdef int check_word(bytes word, str what) except -1:
    if not word or len(word) > LINE_MAX or any(byte in b" \t\r\n\f" for byte in word):
        raise ValueError(f"{what} is empty, too long or has blanks: {word!r}")
    return 0
