# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What a server sends, counted: frames, bytes, losses and latencies, without a Python object per message.

For load generation. Who wants the messages themselves takes `serverdecode.Decoder`. The bytes may come in any split.

    IN_HEAD --MSG, HMSG--> IN_BODY (left bytes to pass) --> AT_CR --> AT_LF --> IN_HEAD
    IN_HEAD --any other line--> IN_HEAD;     anything malformed --> BROKEN, for good

The lines are taken apart by `serverlines`. A head that repeats the one before, as those of one subscription do, is
recognised by its bytes and not parsed again.

Bounds: every read is behind a test against `end - p`. A line is at most `LOADGEN_LINE_BYTES_MAX`; replies that nobody
takes, `LOADGEN_BATCH_BYTES_MAX` and one frame. Memory: a `Store` belongs to the scanner and is freed with it; nothing
points into a fed buffer after the feed. Complexity: O(bytes of head lines); bodies are passed by their size.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp, memcpy, memset

from slipstream import limits

from slipstream.kernels.bytes_le cimport get64
from slipstream.kernels.heap cimport Store, store_append
from slipstream.kernels.client.pubframes cimport SEQ_BITS, SOURCES, STAMP_BYTES
from slipstream.kernels.client.serverlines cimport (
    ERR, HMSG, INFO, MSG, OK, PING, PONG, REPEAT_MAX, Head, Kind, decode_text, parse_head,
)

cdef extern from *:
    int __builtin_clzll(unsigned long long) noexcept nogil

cdef Py_ssize_t LINE_MAX = limits.LOADGEN_LINE_BYTES_MAX
cdef Py_ssize_t BATCH_MAX = limits.LOADGEN_BATCH_BYTES_MAX

cdef enum:
    ERROR_MAX = 1024       # bytes of the first -ERR that are kept
    STEP_BITS = 5          # histogram: 32 steps a power of two, so a bucket is at most 3.2 % wide
    BUCKETS = 64 << 5

cdef enum Step:
    IN_HEAD
    IN_BODY
    AT_CR
    AT_LF
    BROKEN


cdef class Scanner:
    """Counts what a server sends.

    With `stamped`, payloads that begin with a stamp of `pubframes.stamp_pubs` also yield losses, repeats and latencies. With
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
        cdef uint64_t word = get64(self.stamp)
        cdef uint64_t sent_ns = get64(self.stamp + 8)
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
