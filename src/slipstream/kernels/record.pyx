# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Records and frames: how a message becomes bytes in a segment, and comes back.

    frame: one or more make a group commit           record: one message or one fact, 8-byte aligned
     0 magic u32 xor salt   4 length u32             0 crc32c u32 of all that follows, keyed by the salt
     8 frame number u64    16 first_seq u64          4 headers length u32     8 seq u64      16 ts ns i64
    24 records u32         28 flags u32             24 subject length u16    26 flags u16    28 payload length u32
    32 synced_upto u64     40 epoch u64             32 [expiry i64] subject, headers, payload, zeros to 8 bytes
    48 ts of first i64     56 crc of body, or 0
    60 crc32c of 0..59, keyed by the salt

All numbers little endian. The salt is random per file, so that bytes of another file, or a payload that imitates a
record, never check out. `synced_upto` names the newest frame known to be on stable storage when this one was written:
it tells a torn tail (never acknowledged) from damage. The checksum of a record covers every length in it. The checksum
of the body is for bodies that are compressed or encrypted; it is 0 for plain ones, so that one record can be
overwritten in place without touching its frame.

`LogWriter` encodes into one growing buffer that `take` hands over as bytes: little is copied, much changes hands. Readers
check every length against the room that is left before they touch it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject, Py_XDECREF
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from slipstream.kernels.bytes_le cimport get16, get32, get64, put16, put32, put64
from slipstream.kernels.runtable cimport LENGTH_EXPIRES, LENGTH_HEADERS, LENGTH_MASK
from slipstream.kernels.subjectindex cimport MessageIndex, Selection

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)
    uint32_t slip_crc32c_table(uint32_t crc, const void *data, size_t n)
    void slip_crc32c_copy(uint32_t *first, uint32_t *second, void *to, const void *source, size_t n)

cdef extern from "Python.h":
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *data, Py_ssize_t n)
    int _PyBytes_Resize(PyObject **block, Py_ssize_t n) except -1
    char *bytes_content "PyBytes_AS_STRING"(PyObject *block)

FRAME_MAGIC = 0x31524653  # "SFR1"
RECORD_HEAD = HEAD
FRAME_HEAD_BYTES = FRAME_HEAD

MSG = KIND_MSG
TOMBS = KIND_TOMBS
TRIM = KIND_TRIM
SKIP = KIND_SKIP
CONFIG = KIND_CONFIG
STATE = KIND_STATE
ERASE = KIND_ERASE
ERASED = KIND_ERASED
PUT = KIND_PUT
ADD = KIND_ADD
REMOVE = KIND_REMOVE
MARK = KIND_MARK
NOTE = KIND_NOTE

cdef enum:
    PART_MAX = 0x1FFFFFFF - 65536 - HEAD  # headers and payload together, so that every length fits its field
    HAND_OVER_MIN = 65536  # bytes that are not copied when they are taken
    LARGE_MAX = 16 << 20  # of a buffer that is made as large as the one before


def crc32c(bytes data, uint32_t crc=0):
    """CRC-32C of `data`, continuing `crc`."""
    return slip_crc32c(crc, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


def crc32c_table(bytes data, uint32_t crc=0):
    """The same by table, for tests."""
    return slip_crc32c_table(crc, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


def crc32c_copy(bytes data, uint32_t first, uint32_t second):
    """A copy of `data`, made while both checksums were continued over it, and the two; for tests."""
    cdef Py_ssize_t n = PyBytes_GET_SIZE(data)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, n)
    slip_crc32c_copy(&first, &second, PyBytes_AS_STRING(out), PyBytes_AS_STRING(data), n)
    return out, first, second


cdef class StoredMessage:
    """One message as it was stored."""

    def __init__(
        self, seq, ts_ns, bytes subject not None, bytes headers not None, bytes payload not None, expires_ns=0
    ):
        self.seq = seq
        self.ts_ns = ts_ns
        self.subject = subject
        self.headers = headers
        self.payload = payload
        self.expires_ns = expires_ns

    def __eq__(self, other):
        cdef StoredMessage o
        if not isinstance(other, StoredMessage):
            return NotImplemented
        o = <StoredMessage>other
        return (
            self.seq == o.seq and self.ts_ns == o.ts_ns and self.expires_ns == o.expires_ns
            and self.subject == o.subject and self.headers == o.headers and self.payload == o.payload
        )

    def __hash__(self):
        return hash((self.seq, self.subject))

    def __repr__(self):
        return f"StoredMessage(seq={self.seq}, subject={self.subject!r}, {len(self.headers)}+{len(self.payload)} bytes)"


cdef Py_ssize_t record_size(const unsigned char *p, Py_ssize_t room, uint32_t salt) noexcept nogil:
    """Bytes the record at `p` occupies with padding (at most `room`), 0 when there is no valid record."""
    cdef uint16_t flags
    cdef uint64_t total
    if room < HEAD:
        return 0
    flags = get16(p + 26)
    if (flags & KIND_MASK) == 0 or (flags & KIND_MASK) > KIND_LAST or flags > 31:
        return 0
    total = <uint64_t>HEAD + get32(p + 4) + get16(p + 24) + get32(p + 28) + (8 if flags & FLAG_EXPIRES else 0)
    if total > <uint64_t>room:
        return 0
    if slip_crc32c(salt, p + 4, total - 4) != get32(p):
        return 0
    total = (total + 7) & ~<uint64_t>7
    return <Py_ssize_t>total if total < <uint64_t>room else room


cdef bint read_frame(const unsigned char *p, Py_ssize_t room, uint64_t salt, Frame *out) noexcept nogil:
    """Whether a frame header is at `p`; its fields in `out`. The body may be cut off or damaged."""
    if room < FRAME_HEAD or get32(p) != (FRAME_MAGIC ^ <uint32_t>salt):
        return False
    if slip_crc32c(<uint32_t>salt, p, 60) != get32(p + 60):
        return False
    out.length = get32(p + 4)
    out.no = get64(p + 8)
    out.first_seq = get64(p + 16)
    out.count = get32(p + 24)
    out.flags = get32(p + 28)
    out.synced_upto = get64(p + 32)
    out.epoch = get64(p + 40)
    out.ts = <int64_t>get64(p + 48)
    return out.length >= FRAME_HEAD and out.length % 8 == 0


cdef StoredMessage decode(const unsigned char *p):
    """The message at `p`, whose checksum and lengths were verified."""
    cdef StoredMessage m = StoredMessage.__new__(StoredMessage)
    cdef uint32_t hlen = get32(p + 4), plen = get32(p + 28)
    cdef uint16_t slen = get16(p + 24)
    cdef const unsigned char *at = p + HEAD
    m.seq = get64(p + 8)
    m.ts_ns = <int64_t>get64(p + 16)
    if get16(p + 26) & FLAG_EXPIRES:
        m.expires_ns = <int64_t>get64(at)
        at += 8
    m.subject = PyBytes_FromStringAndSize(<const char *>at, slen)
    m.headers = PyBytes_FromStringAndSize(<const char *>at + slen, hlen)
    m.payload = PyBytes_FromStringAndSize(<const char *>at + slen + hlen, plen)
    return m


def read_message(bytes data, Py_ssize_t pos, uint64_t salt, uint64_t seq):
    """The message with this sequence at `pos`; None when what lies there is not it."""
    cdef Py_ssize_t room = PyBytes_GET_SIZE(data) - pos
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data) + pos
    if pos < 0 or record_size(p, room, <uint32_t>salt) == 0:
        return None
    if (get16(p + 26) & KIND_MASK) != KIND_MSG or get64(p + 8) != seq:
        return None
    return decode(p)


def record_kind(bytes data, Py_ssize_t pos, uint64_t salt):
    """Kind of the valid record at `pos`, 0 when there is none."""
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data) + pos
    if pos < 0 or record_size(p, PyBytes_GET_SIZE(data) - pos, <uint32_t>salt) == 0:
        return 0
    return get16(p + 26) & KIND_MASK


def read_selection(Selection chosen, Py_ssize_t start, bytes data, Py_ssize_t base, uint64_t salt, list out):
    """Decode selected records that lie in `data`, which begins at offset `base` of the segment of the first one.

    Stops at the first record of another segment or outside `data`. Appends to `out` a message, or the bare sequence
    where the record is damaged. Returns the index of the first record not decoded.
    """
    cdef Py_ssize_t i = start, at, size = PyBytes_GET_SIZE(data)
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef uint32_t seg
    cdef Py_ssize_t need
    if start < 0 or start >= chosen.n:
        return start
    seg = chosen.seg[start]
    while i < chosen.n and chosen.seg[i] == seg:
        at = <Py_ssize_t>chosen.off[i] - base
        need = (chosen.len[i] & LENGTH_MASK) + (8 if chosen.len[i] & LENGTH_EXPIRES else 0)
        if at < 0 or at + need > size:
            break
        if (
            record_size(p + at, size - at, <uint32_t>salt) == 0
            or (get16(p + at + 26) & KIND_MASK) != KIND_MSG
            or get64(p + at + 8) != chosen.seq[i]
        ):
            out.append(chosen.seq[i])
        else:
            out.append(decode(p + at))
        i += 1
    return i


def erased_record(uint64_t seq, int64_t ts, uint32_t length, uint64_t salt, bytes noise):
    """The record that replaces an erased message of the same size: `noise` where subject, headers and payload were."""
    cdef Py_ssize_t total = length & LENGTH_MASK
    cdef bytes out
    cdef unsigned char *p
    if length & LENGTH_EXPIRES:
        total += 8
    if total < HEAD or PyBytes_GET_SIZE(noise) != total - HEAD:
        raise ValueError("noise must fill the body")
    out = PyBytes_FromStringAndSize(NULL, total)
    p = <unsigned char *>PyBytes_AS_STRING(out)
    put32(p + 4, 0)
    put64(p + 8, seq)
    put64(p + 16, <uint64_t>ts)
    put16(p + 24, 0)
    put16(p + 26, KIND_ERASED)
    put32(p + 28, <uint32_t>(total - HEAD))
    memcpy(p + HEAD, PyBytes_AS_STRING(noise), total - HEAD)
    put32(p, slip_crc32c(<uint32_t>salt, p + 4, total - 4))
    return out


cdef class LogWriter:
    """Encodes records into frames for one log, and adds messages to its index.

    Args:
        index: what to keep current, or None.
    """

    def __cinit__(self, MessageIndex index=None):
        self.index = index
        self.frame_at = -1

    def __dealloc__(self):
        Py_XDECREF(self.block)

    def open_segment(self, uint32_t segment, uint64_t salt, Py_ssize_t offset, Py_ssize_t limit, uint64_t frame_no):
        """Go on in this segment at `offset`; `frame_no` is the number of the last frame written."""
        if self.length:
            raise ValueError("untaken bytes")
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

    def has_room(self, Py_ssize_t length):
        """Whether a message with a record of this length, and perhaps an expiry, fits in the segment."""
        return self.base + self.length + ((length + 15) & ~<Py_ssize_t>7) + FRAME_HEAD <= self.limit

    cdef unsigned char *reserve(self, Py_ssize_t n, uint64_t seq, int64_t ts) except NULL:
        """Room for a record of `n` padded bytes at the end of the open frame, opening one if needed."""
        cdef Py_ssize_t need = self.length + n + FRAME_HEAD
        if self.frame_at >= 0 and self.length - self.frame_at >= FRAME_BYTES:
            self.close_frame()
        if need > self.cap:
            self.grow(need + (need >> 1) + 4096)
        if self.frame_at < 0:
            self.frame_at = self.length
            self.length += FRAME_HEAD
            self.frame_first_seq = seq
            self.frame_ts = ts
            self.count = 0
        return self.buf + self.length

    cdef int grow(self, Py_ssize_t cap) except -1:
        if self.block == NULL:
            if self.unit:
                cap = max(cap, self.large)  # the unit goes on as it began
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
        p = self.buf + self.frame_at
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

        False, and nothing was done: it does not fit in this segment, or its sequence is not the next one.
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
        if self.base + self.length + padded + FRAME_HEAD > self.limit:
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
        if self.base + self.length + padded + FRAME_HEAD > self.limit:
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

    def take_little(self, Py_ssize_t bytes_max, Py_ssize_t end_max):
        """`take`, if there is something, at most `bytes_max`, that ends at `end_max` or before; else None."""
        if not 0 < self.length <= bytes_max or self.base + self.length > end_max:
            return None
        return self.take()

    def take(self):
        """Close the open frame and hand over everything since the last take, of an open unit as well."""
        cdef Py_ssize_t length = self.length
        cdef object out
        self.close_frame()
        if length >= HAND_OVER_MIN:
            self.resize(length)
            out = <object>self.block
            if self.unit:
                self.large = min(length + (length >> 2), <Py_ssize_t>LARGE_MAX)
            self.forget_block()
        else:
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
