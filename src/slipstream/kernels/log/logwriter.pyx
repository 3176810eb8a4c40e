# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Messages and facts written as the frames of one log, and indexed as they are.

    append, control, copy ──► records in the open frame ──take──► bytes for the segment, whole frames
                   └──► MessageIndex.add: where the record will lie

The layout is that of `record`. A writer knows the segment it writes to and how far; what fits no more is refused, and the
caller opens the next segment. Frames between `begin_unit` and `end_unit` are kept whole or not at all by who reads them:
until the end the messages are in an index of their own, which `end_unit` adds to the log's and `abandon_unit` forgets.
Frames between `begin_local` and `end_local` take no number: other files of the same log need not have them.

Invariants: `base + length` is the offset behind everything written; `frame_at` is where the open frame began, -1 when none
is. A sequence is the one after the last. Memory: one growing buffer, a bytes object that nobody else has, so that much of
it changes hands in `take` and little is copied. Complexity: O(bytes), each read once for its checksum and copied once.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject, Py_XDECREF
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from slipstream.kernels.bytes_le cimport get16, get32, get64, put16, put32, put64
from slipstream.kernels.log.record cimport (
    FLAG_EXPIRES, FRAME_BYTES, FRAME_FIRST, FRAME_HEAD, FRAME_LOCAL, FRAME_MAGIC, FRAME_MORE, FRAME_UNIT, HEAD,
    KIND_LAST, KIND_MARK, KIND_MSG, record_size,
)
from slipstream.kernels.index.runtable cimport LENGTH_EXPIRES, LENGTH_HEADERS
from slipstream.kernels.index.subjectindex cimport MessageIndex

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)
    void slip_crc32c_copy(uint32_t *first, uint32_t *second, void *to, const void *source, size_t n)

cdef extern from "Python.h":
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *data, Py_ssize_t n)
    int _PyBytes_Resize(PyObject **block, Py_ssize_t n) except -1
    char *bytes_content "PyBytes_AS_STRING"(PyObject *block)

cdef enum:
    PART_MAX = 0x1FFFFFFF - 65536 - HEAD  # headers and payload together, so that every length fits its field
    HAND_OVER_MIN = 65536  # bytes that are not copied when they are taken
    LARGE_MIN = 1 << 20  # of what was taken, for the next buffer to be made as large
    FRAME_ROOM_MAX = 256
    SPARE = 512  # of a buffer: most of a thousand streams write little, and each has one
    BUSY_MIN = 4096  # of a buffer whose predecessor was handed over
    LARGE_MAX = 30 << 20  # of a buffer that is made as large as the one before; more would be fresh memory


cdef class LogWriter:
    """Encodes records into frames for one log, and adds messages to its index.

    Args:
        index: what to keep current, or None.
    """

    def __cinit__(self, MessageIndex index=None):
        self.index = index
        self.frame_at = -1
        self.frame_bytes = FRAME_BYTES

    def __dealloc__(self):
        Py_XDECREF(self.block)

    def open_segment(
        self, uint32_t segment, uint64_t salt, Py_ssize_t offset, Py_ssize_t limit, uint64_t frame_no,
        Py_ssize_t frame_room=0, Py_ssize_t frame_bytes=FRAME_BYTES,
    ):
        """Go on in this segment at `offset`; `frame_no` is the number of the last frame written.

        A frame is closed when it grows beyond `frame_bytes`, and ends with `frame_room` zeros: room for a seal.
        """
        if self.length:
            raise ValueError("untaken bytes")
        if frame_room < 0 or frame_room % 8 or frame_room > FRAME_ROOM_MAX:
            raise ValueError("room that no frame has")
        self.frame_room = frame_room
        self.frame_bytes = frame_bytes
        self.segment = segment
        self.salt = salt
        self.base = offset
        self.limit = limit
        self.frame_no = frame_no

    @property
    def position(self):
        """Offset in the segment behind everything written so far."""
        return self.base + self.length

    @property
    def pending_bytes(self):
        """Bytes not yet taken."""
        return self.length

    @property
    def is_full(self):
        """Whether what waits has to be taken before another message fits."""
        return self.block_is_full()

    cdef bint block_is_full(self) noexcept:
        return self.block_max and self.length >= self.block_max and not self.unit

    def has_room(self, Py_ssize_t length):
        """Whether a message with a record of this length, and perhaps an expiry, fits in the segment."""
        return self.base + self.length + ((length + 15) & ~<Py_ssize_t>7) + FRAME_HEAD + self.frame_room <= self.limit

    cdef unsigned char *reserve(self, Py_ssize_t n, uint64_t seq, int64_t ts) except NULL:
        """Room for a record of `n` padded bytes at the end of the open frame, opening one if needed."""
        cdef Py_ssize_t need
        if self.frame_at >= 0 and self.length - self.frame_at >= self.frame_bytes:
            self.close_frame()
        need = self.length + n + FRAME_HEAD + self.frame_room
        if need > self.cap:
            self.grow(need + (need >> 1) + SPARE)
        if self.frame_at < 0:
            self.frame_at = self.length
            self.length += FRAME_HEAD
            self.frame_first_seq = seq
            self.frame_ts = ts
            self.count = 0
        return self.buf + self.length

    cdef int grow(self, Py_ssize_t cap) except -1:
        if self.block == NULL:
            cap = max(cap, self.large)  # it goes on as it began
            self.block = new_bytes(NULL, cap)
            if self.block == NULL:
                raise MemoryError()
        else:
            self.resize(cap)
        self.buf = <unsigned char *>bytes_content(self.block)
        self.cap = cap
        return 0

    cdef int resize(self, Py_ssize_t cap) except -1:
        try:
            _PyBytes_Resize(&self.block, cap)
        except MemoryError:
            # What was not taken is gone with the block.
            self.buf = NULL
            self.cap = self.length = 0
            self.frame_at = -1
            raise
        return 0

    cdef int close_frame(self) except -1:
        cdef unsigned char *p
        cdef uint32_t flags = self.frame_flags
        if self.frame_at < 0:
            return 0
        if self.frame_room:  # `reserve` has made sure of it
            memset(self.buf + self.length, 0, self.frame_room)
            self.length += self.frame_room
        p = self.buf + self.frame_at
        if self.local:
            flags |= FRAME_LOCAL
        else:
            self.frame_no += 1
            if self.unit:
                flags |= FRAME_UNIT | FRAME_MORE
            if self.unit_begins:
                flags |= FRAME_FIRST
                self.unit_begins = False
        put32(p, FRAME_MAGIC ^ <uint32_t>self.salt)
        put32(p + 4, <uint32_t>(self.length - self.frame_at))
        put64(p + 8, self.frame_no)
        put64(p + 16, self.frame_first_seq)
        put32(p + 24, self.count)
        put32(p + 28, flags)
        put64(p + 32, self.synced_upto)
        put64(p + 40, self.epoch)
        put64(p + 48, <uint64_t>self.frame_ts)
        put32(p + 56, 0)
        put32(p + 60, slip_crc32c(<uint32_t>self.salt, p, 60))
        self.frame_at = -1
        self.frame_flags = 0
        return 0

    @property
    def last_seq(self):
        """Sequence of the last message appended, those of an open unit included."""
        return self.index.last_seq

    def begin_local(self):
        """Frames from here to `end_local` are of this file alone: facts for who reads it, also amid a unit."""
        self.close_frame()
        self.local = True

    def end_local(self):
        """What follows is the log's again."""
        self.close_frame()
        self.local = False

    def begin_unit(self, MessageIndex staged=None):
        """Frames from here to `end_unit` are one unit; until then its messages are in `staged` only."""
        if self.unit:
            raise ValueError("units do not nest")
        self.close_frame()
        self.unit = self.unit_begins = True
        self.large = 0
        if staged is not None:
            staged.skip_to(self.index.last_seq)
            self.behind, self.index = self.index, staged

    def continue_unit(self):
        """Frames from here to `end_unit` are of a unit that another segment began."""
        if self.unit:
            raise ValueError("units do not nest")
        self.close_frame()
        self.unit = True

    def end_unit(self):
        """Close the unit, whose last frame says so, and put its messages into the index."""
        if not self.unit:
            raise ValueError("no unit is open")
        if self.frame_at < 0 and not self.unit_begins:
            # Its last message has left already: one more frame to say that the unit is whole.
            self.control(KIND_MARK, self.index.last_seq if self.index is not None else 0, self.last_ts, b"", b"")
        self.unit = False
        if self.frame_at >= 0:
            self.frame_flags |= FRAME_UNIT
            self.close_frame()
        self.unit_begins = False
        if self.behind is not None:
            self.behind.absorb(self.index)
            self.index, self.behind = self.behind, None

    def abandon_unit(self, Py_ssize_t offset, int64_t last_ts):
        """Forget the open unit and every byte not yet taken at or behind this offset of the segment."""
        if not self.unit:
            raise ValueError("no unit is open")
        self.unit = self.unit_begins = False
        self.frame_at = -1
        self.length = min(max(offset - self.base, 0), self.length)
        self.last_ts = last_ts
        if self.behind is not None:
            self.index, self.behind = self.behind, None

    def append(
        self, uint64_t seq, int64_t ts, bytes subject not None, bytes headers not None, bytes payload not None,
        int64_t expires=0,
    ):
        """Encode one message and index it.

        False, and nothing was done: it does not fit in this segment, its sequence is not the next one, or `is_full`.
        """
        cdef Py_ssize_t slen = PyBytes_GET_SIZE(subject), hlen = PyBytes_GET_SIZE(headers)
        cdef Py_ssize_t plen = PyBytes_GET_SIZE(payload)
        if slen == 0 or slen > 65535 or hlen + plen > PART_MAX:
            raise ValueError("a part of the message is too long, or the subject is empty")
        if self.index is not None and seq <= self.index.last_seq:
            raise ValueError("sequence does not grow")
        return bool(self.put(
            seq, ts, PyBytes_AS_STRING(subject), slen, PyBytes_AS_STRING(headers), hlen, PyBytes_AS_STRING(payload),
            plen, expires,
        ))

    cdef int put(
        self, uint64_t seq, int64_t ts, const char *subject, Py_ssize_t slen, const char *headers, Py_ssize_t hlen,
        const char *payload, Py_ssize_t plen, int64_t expires,
    ) except -1:
        """The same from anywhere in memory; 0 for whatever cannot be appended."""
        cdef Py_ssize_t total, padded
        cdef unsigned char *p
        cdef unsigned char *at
        cdef uint32_t length
        cdef uint16_t flags = KIND_MSG
        if slen == 0 or slen > 65535 or hlen + plen > PART_MAX:
            return 0
        if self.index is not None and seq != self.index.last_seq + 1:
            return 0
        total = HEAD + slen + hlen + plen
        length = <uint32_t>total
        if hlen:
            length |= LENGTH_HEADERS
        if expires:
            total += 8
            flags |= FLAG_EXPIRES
            length |= LENGTH_EXPIRES
        padded = (total + 7) & ~<Py_ssize_t>7
        if self.base + self.length + padded + FRAME_HEAD + self.frame_room > self.limit or self.block_is_full():
            return 0
        p = self.reserve(padded, seq, ts)
        put32(p + 4, <uint32_t>hlen)
        put64(p + 8, seq)
        put64(p + 16, <uint64_t>ts)
        put16(p + 24, <uint16_t>slen)
        put16(p + 26, flags)
        put32(p + 28, <uint32_t>plen)
        at = p + HEAD
        if expires:
            put64(at, <uint64_t>expires)
            at += 8
        memcpy(at, subject, slen)
        if hlen:
            memcpy(at + slen, headers, hlen)
        if plen:
            memcpy(at + slen + hlen, payload, plen)
        memset(p + total, 0, padded - total)
        put32(p, slip_crc32c(<uint32_t>self.salt, p + 4, total - 4))
        if self.index is not None:
            self.index.add(seq, subject, slen, <uint32_t>(self.base + self.length), length, self.segment)
        self.length += padded
        self.count += 1
        self.last_ts = ts
        return 1

    cdef int take_over(self, uint64_t seq, int64_t ts, const unsigned char *record, Py_ssize_t total) except -1:
        """Append the message of a record keyed by 0, of `total` bytes, under another sequence and time.

        0: it cannot be appended. 2: its checksum does not hold; what was written so far of an open unit is of no use.
        """
        cdef Py_ssize_t padded = (total + 7) & ~<Py_ssize_t>7
        cdef uint32_t length = <uint32_t>total, before, after
        cdef unsigned char *p
        if self.index is not None and seq != self.index.last_seq + 1:
            return 0
        if self.base + self.length + padded + FRAME_HEAD + self.frame_room > self.limit:
            return 0
        p = self.reserve(padded, seq, ts)
        memcpy(p, record, HEAD)
        put64(p + 8, seq)
        put64(p + 16, <uint64_t>ts)
        before = slip_crc32c(0, record + 4, HEAD - 4)
        after = slip_crc32c(<uint32_t>self.salt, p + 4, HEAD - 4)
        slip_crc32c_copy(&before, &after, p + HEAD, record + HEAD, total - HEAD)
        if before != get32(record):
            return 2
        memset(p + total, 0, padded - total)
        put32(p, after)
        if get32(record + 4):
            length |= LENGTH_HEADERS
        if self.index is not None:
            self.index.add(
                seq, <const char *>record + HEAD, get16(record + 24), <uint32_t>(self.base + self.length), length,
                self.segment,
            )
        self.length += padded
        self.count += 1
        self.last_ts = ts
        return 1

    def control(self, int kind, uint64_t seq, int64_t ts, bytes key not None, bytes payload not None):
        """Encode a record that is not a message. Never refused for want of room in the segment."""
        cdef Py_ssize_t slen = PyBytes_GET_SIZE(key), plen = PyBytes_GET_SIZE(payload), total, padded
        cdef unsigned char *p
        if kind <= KIND_MSG or kind > KIND_LAST:
            raise ValueError("kind")
        if slen > 65535 or plen > PART_MAX:
            raise ValueError("too long")
        total = HEAD + slen + plen
        padded = (total + 7) & ~<Py_ssize_t>7
        p = self.reserve(padded, seq, ts)
        put32(p + 4, 0)
        put64(p + 8, seq)
        put64(p + 16, <uint64_t>ts)
        put16(p + 24, <uint16_t>slen)
        put16(p + 26, <uint16_t>kind)
        put32(p + 28, <uint32_t>plen)
        memcpy(p + HEAD, PyBytes_AS_STRING(key), slen)
        memcpy(p + HEAD + slen, PyBytes_AS_STRING(payload), plen)
        memset(p + total, 0, padded - total)
        put32(p, slip_crc32c(<uint32_t>self.salt, p + 4, total - 4))
        self.length += padded
        self.count += 1

    def copy(self, bytes data, Py_ssize_t pos, uint64_t salt):
        """Take over one record of another segment as it is, under this segment's salt. False: it is damaged."""
        cdef Py_ssize_t size, total
        cdef unsigned char *p
        cdef const unsigned char *q = <const unsigned char *>PyBytes_AS_STRING(data) + pos
        if pos < 0 or pos > PyBytes_GET_SIZE(data):
            return False
        size = record_size(q, PyBytes_GET_SIZE(data) - pos, <uint32_t>salt)
        if size == 0:
            return False
        total = HEAD + <Py_ssize_t>get32(q + 4) + get16(q + 24) + get32(q + 28)
        if get16(q + 26) & FLAG_EXPIRES:
            total += 8
        size = (total + 7) & ~<Py_ssize_t>7
        p = self.reserve(size, get64(q + 8), <int64_t>get64(q + 16))
        memcpy(p, q, total)
        memset(p + total, 0, size - total)
        put32(p, slip_crc32c(<uint32_t>self.salt, p + 4, total - 4))
        self.length += size
        self.count += 1
        return True

    def peek(self, Py_ssize_t offset, Py_ssize_t n):
        """Bytes at a segment offset that were not taken yet; None when they are not all here."""
        cdef Py_ssize_t at = offset - self.base
        if at < 0 or n < 0 or at + n > self.length:
            return None
        return PyBytes_FromStringAndSize(<char *>self.buf + at, n)

    def take(self):
        """Close the open frame and hand over everything since the last take, of an open unit as well."""
        cdef Py_ssize_t length
        cdef object out
        self.close_frame()
        length = self.length
        if length >= HAND_OVER_MIN:
            self.resize(length)
            out = <object>self.block
            # A block that grows step by step is copied at each.
            if self.unit or length >= LARGE_MIN:
                self.large = min(max(length + (length >> 2), self.large >> 1), <Py_ssize_t>LARGE_MAX)
            else:
                self.large = BUSY_MIN
            self.forget_block()
        else:
            self.large = 0
            out = PyBytes_FromStringAndSize(<char *>self.buf, length)
            if self.cap > 4 * FRAME_BYTES:
                self.forget_block()
        self.base += length
        self.length = 0
        return out

    cdef void forget_block(self) noexcept:
        Py_XDECREF(self.block)
        self.block = NULL
        self.buf = NULL
        self.cap = 0
