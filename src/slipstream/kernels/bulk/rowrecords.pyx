# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Arrow columns as records: from buffers to the bytes that are staged, with no Python object per row.

    subject ─┐
    payload ─┤
    headers ─┼─► RowEncoder.begin, next_piece ──► records keyed by 0, numbered from 1 in the order of the rows
    msg_id  ─┤                      or fill, into memory of the caller
    ttl ... ─┘

The layout is that of the log (record.pyx); the sequence is the number of the row, the time 0: both are given anew when
the records are committed. Columns that stand for headers of their own are written as lines of the header block:

    msg_id  Nats-Msg-Id        ttl  Nats-TTL        expected_last_subject_seq  Nats-Expected-Last-Subject-Sequence

A text column is `(validity, offsets i32, data, offset, length)`, each part an object with a buffer or None; numbers of
rows are checked against the buffers, and every pair of offsets against the data, before a byte is read. A row that
cannot be a message raises ValueError and names itself.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy, memset

from slipstream.kernels.bytes_le cimport get32
from slipstream.kernels.log.record cimport HEAD, KIND_MSG

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)

cdef enum:
    PART_MAX = 0x1FFFFFFF - 65536 - HEAD
    HEADERS_MAX = 65535
    PIECE_BYTES = 96 << 10  # records are handed over in pieces of about this size, while they are in the cache
    RELEASE_BYTES = 4 << 20  # a buffer larger than this is not kept

cdef Py_ssize_t ROWS_MAX = <Py_ssize_t>1 << 40  # of a column, and before its first: sums of them cannot overflow

cdef enum Fault:
    FINE = 0
    NO_SUBJECT = 1
    LONG_SUBJECT = 2
    LONG_MESSAGE = 3
    LONG_HEADERS = 4
    BAD_NAME = 5
    BAD_VALUE = 6
    BAD_OFFSETS = 7
    NO_MEMORY = 8
    BAD_BLOCK = 9

_WORDS = {
    NO_SUBJECT: "has no subject",
    LONG_SUBJECT: "has a subject of more than 65535 bytes",
    LONG_MESSAGE: "is too long",
    LONG_HEADERS: "has headers of more than 65535 bytes",
    BAD_NAME: "has a header name that is empty or holds a colon or line end",
    BAD_VALUE: "has a header value with a line end",
    BAD_OFFSETS: "has offsets outside its data",
    BAD_BLOCK: "has a header block that does not begin with NATS/1.0 and end with an empty line",
}


cdef struct Text:
    const uint8_t *valid
    const int32_t *offsets
    const unsigned char *data
    Py_ssize_t data_size
    Py_ssize_t at      # offset of the first row in bitmap and offsets
    Py_ssize_t length


cdef struct Span:
    const unsigned char *p
    Py_ssize_t n       # -1: null


cdef struct Columns:
    Py_ssize_t rows
    const unsigned char *fixed
    Py_ssize_t fixed_size
    Text subject, payload, msg_id, ttl, expected, raw, keys, values
    bint has_payload, has_msg_id, has_ttl, has_expected, has_raw, has_map
    const uint8_t *map_valid
    const int32_t *map_offsets
    const int32_t *list_offsets
    Py_ssize_t map_at, map_offsets_at, list_at


cdef class _Views:
    """Holds buffers as long as an encode runs."""

    cdef list views

    def __cinit__(self):
        self.views = []

    cdef const void *pointer(self, object source, Py_ssize_t least, Py_ssize_t *size) except? NULL:
        cdef _View view
        if source is None:
            size[0] = 0
            return NULL
        view = _View(source)
        self.views.append(view)
        if view.view.len < least:
            raise ValueError("a buffer is shorter than its column")
        size[0] = view.view.len
        return view.view.buf

    cdef int text(self, tuple parts, Text *out) except -1:
        """Resolve a column; its length must be what the tuple says."""
        cdef Py_ssize_t size, offset = parts[3], length = parts[4]
        if offset < 0 or length < 0 or offset > ROWS_MAX or length > ROWS_MAX:
            raise ValueError("a column has an offset or a length that cannot be")
        out.valid = <const uint8_t *>self.pointer(parts[0], (offset + length + 7) // 8, &size)
        out.offsets = <const int32_t *>self.pointer(parts[1], 4 * (offset + length + 1) if length else 0, &size)
        if out.offsets == NULL and length:
            raise ValueError("a column has no offsets")
        out.data = <const unsigned char *>self.pointer(parts[2], 0, &out.data_size)
        out.at = offset
        out.length = length
        return 0


cdef class _View:
    cdef Py_buffer view
    cdef bint held

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.view, PyBUF_SIMPLE)
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef inline bint is_valid(const uint8_t *valid, Py_ssize_t i) noexcept nogil:
    return valid == NULL or (valid[i >> 3] >> (i & 7)) & 1


cdef inline int32_t number_at(const int32_t *numbers, Py_ssize_t i) noexcept nogil:
    """A buffer of the caller's need not be aligned."""
    return <int32_t>get32(<const unsigned char *>numbers + 4 * i)


cdef inline Fault span_of(Text *t, Py_ssize_t row, Span *out) noexcept nogil:
    cdef int32_t a, b
    cdef Py_ssize_t i = t.at + row
    if not is_valid(t.valid, i):
        out.n = -1
        return FINE
    a, b = number_at(t.offsets, i), number_at(t.offsets, i + 1)
    if a < 0 or b < a or b > t.data_size:
        return BAD_OFFSETS
    out.p = t.data + a if b > a else NULL  # there may be no data at all
    out.n = b - a
    return FINE


cdef class RowEncoder:
    """Encodes batch after batch of one staged part.

    Attributes:
        rows: encoded in all.
        crc: over the checksums of all records.
        size: bytes of all records.
    """

    cdef unsigned char *buf
    cdef Py_ssize_t used, cap
    cdef bint given          # the buffer is the caller's, and does not grow
    cdef _Views views        # of the batch under way
    cdef bytes fixed
    cdef Columns columns
    cdef Py_ssize_t row
    cdef readonly uint64_t rows
    cdef readonly uint32_t crc
    cdef readonly uint64_t size

    def __dealloc__(self):
        free(self.buf)

    def begin(
        self, Py_ssize_t rows, tuple subject, tuple payload, *, tuple headers=None, tuple msg_id=None, tuple ttl=None,
        tuple expected_last_subject_seq=None, bytes fixed_subject=None, tuple raw_headers=None,
    ):
        """Take a batch; `next_piece` gives its records. What was begun before and not encoded is forgotten.

        Args:
            rows: of every column.
            subject: text, or None with `fixed_subject`.
            payload: bytes; None or null is an empty one.
            headers: `(validity, offset, map offsets, its offset, keys, list offsets or None, their offset, values)` with
                keys and values as text columns.
            msg_id, ttl, expected_last_subject_seq: text; null writes no header.
            fixed_subject: of every row.
            raw_headers: whole header blocks as bytes, in the place of `headers`.

        Raises:
            ValueError: a column is not what it should be.
        """
        cdef _Views views = _Views()
        cdef Columns c
        memset(&c, 0, sizeof(c))
        c.rows = rows
        if fixed_subject is not None:
            c.fixed = <const unsigned char *><const char *>fixed_subject
            c.fixed_size = len(fixed_subject)
        elif subject is None:
            raise ValueError("a subject is needed")
        else:
            self.column(views, subject, rows, &c.subject)
        if payload is not None:
            self.column(views, payload, rows, &c.payload)
            c.has_payload = True
        if msg_id is not None:
            self.column(views, msg_id, rows, &c.msg_id)
            c.has_msg_id = True
        if ttl is not None:
            self.column(views, ttl, rows, &c.ttl)
            c.has_ttl = True
        if expected_last_subject_seq is not None:
            self.column(views, expected_last_subject_seq, rows, &c.expected)
            c.has_expected = True
        if raw_headers is not None:
            self.column(views, raw_headers, rows, &c.raw)
            c.has_raw = True
        if headers is not None:
            self.map_column(views, headers, rows, &c)
        self.views = views
        self.fixed = fixed_subject
        self.columns = c
        self.row = 0

    @property
    def left(self):
        """Rows of the batch that were not encoded yet."""
        return self.columns.rows - self.row

    def next_piece(self):
        """More whole records of the batch, about as many as fit a cache; None when there are no more.

        Raises:
            ValueError: a row cannot be a message; the encoder is of no use afterwards.
        """
        cdef Fault fault
        if self.row >= self.columns.rows:
            return None
        fault = self.encode(PIECE_BYTES)
        if fault == NO_MEMORY:
            raise MemoryError()
        out = PyBytes_FromStringAndSize(<char *>self.buf, self.used)
        self.size += <uint64_t>self.used
        if self.cap > RELEASE_BYTES:
            free(self.buf)
            self.buf = NULL
            self.cap = 0
        return out

    def fill(self, room not None):
        """Write whole records of the batch into writable memory; how many bytes.

        0: there are no more rows, or the next one is larger than the room.

        Raises:
            ValueError: a row cannot be a message; the encoder is of no use afterwards.
        """
        cdef Py_buffer view
        cdef unsigned char *own = self.buf
        cdef Py_ssize_t own_cap = self.cap
        if self.row >= self.columns.rows:
            return 0
        PyObject_GetBuffer(room, &view, PyBUF_WRITABLE)
        self.buf, self.cap, self.given = <unsigned char *>view.buf, view.len, True
        try:
            self.encode(view.len)
        finally:
            self.buf, self.cap, self.given = own, own_cap, False
            PyBuffer_Release(&view)
        self.size += <uint64_t>self.used
        return self.used

    cdef Fault encode(self, Py_ssize_t least) except *:
        """Encode rows until there are so many bytes, or no room for more: then NO_MEMORY."""
        cdef Fault fault = FINE
        cdef Py_ssize_t used = 0
        self.used = 0
        with nogil:
            while self.row < self.columns.rows and self.used < least:
                fault = self.add(&self.columns, self.row)
                if fault != FINE:
                    break
                self.row += 1
                used = self.used
        self.used = used
        if self.row >= self.columns.rows:
            self.views = None
        if fault != FINE and fault != NO_MEMORY:
            raise ValueError(f"row {self.row} {_WORDS[fault]}")
        return fault

    cdef int column(self, _Views views, tuple parts, Py_ssize_t rows, Text *out) except -1:
        views.text(parts, out)
        if out.length != rows:
            raise ValueError("columns differ in length")
        return 0

    cdef int map_column(self, _Views views, tuple parts, Py_ssize_t rows, Columns *c) except -1:
        cdef Py_ssize_t size, keys
        c.map_at, c.map_offsets_at, c.list_at = parts[1], parts[3], parts[6]
        if min(c.map_at, c.map_offsets_at, c.list_at) < 0 or max(c.map_at, c.map_offsets_at, c.list_at, rows) > ROWS_MAX:
            raise ValueError("a column has an offset or a length that cannot be")
        c.map_valid = <const uint8_t *>views.pointer(parts[0], (c.map_at + rows + 7) // 8, &size)
        c.map_offsets = <const int32_t *>views.pointer(parts[2], 4 * (c.map_offsets_at + rows + 1) if rows else 0, &size)
        views.text(parts[4], &c.keys)
        views.text(parts[7], &c.values)
        keys = c.keys.length
        c.list_offsets = <const int32_t *>views.pointer(parts[5], 4 * (c.list_at + keys + 1) if keys else 0, &size)
        if c.list_offsets == NULL and keys != c.values.length:
            raise ValueError("headers have as many names as values")
        c.has_map = rows > 0 and c.map_offsets != NULL
        return 0

    cdef bint room(self, Py_ssize_t n) noexcept nogil:
        cdef Py_ssize_t cap
        cdef void *grown
        if n <= self.cap - self.used:
            return True
        if self.given:
            return False
        cap = max(self.cap * 2, self.used + n + 65536)
        grown = realloc(self.buf, cap)
        if grown == NULL:
            return False
        self.buf = <unsigned char *>grown
        self.cap = cap
        return True

    cdef Fault add(self, Columns *c, Py_ssize_t row) noexcept nogil:
        cdef Span subject, payload
        cdef Py_ssize_t start = self.used, hlen, total, whole
        cdef Fault fault
        cdef unsigned char *p
        cdef uint64_t seq, zero = 0
        cdef uint32_t crc, hlen32, plen32
        cdef uint16_t slen16, flags = KIND_MSG
        if c.fixed != NULL:
            subject.p, subject.n = c.fixed, c.fixed_size
        else:
            fault = span_of(&c.subject, row, &subject)
            if fault != FINE:
                return fault
        if subject.n <= 0:
            return NO_SUBJECT
        if subject.n > 65535:
            return LONG_SUBJECT
        payload.n = 0
        payload.p = NULL
        if c.has_payload:
            fault = span_of(&c.payload, row, &payload)
            if fault != FINE:
                return fault
            payload.n = max(payload.n, <Py_ssize_t>0)
        if not self.room(HEAD + subject.n + payload.n + 8):
            return NO_MEMORY
        memcpy(self.buf + start + HEAD, subject.p, subject.n)
        self.used = start + HEAD + subject.n
        fault = self.add_headers(c, row)
        if fault != FINE:
            return fault
        hlen = self.used - start - HEAD - subject.n
        if hlen > HEADERS_MAX:
            return LONG_HEADERS
        if hlen + payload.n > PART_MAX:
            return LONG_MESSAGE
        total = HEAD + subject.n + hlen + payload.n
        whole = (total + 7) & ~<Py_ssize_t>7
        if not self.room(payload.n + 8):
            return NO_MEMORY
        if payload.n:
            memcpy(self.buf + self.used, payload.p, payload.n)
        p = self.buf + start
        memset(p + total, 0, whole - total)
        self.rows += 1
        seq = self.rows
        hlen32, plen32, slen16 = <uint32_t>hlen, <uint32_t>payload.n, <uint16_t>subject.n
        memcpy(p + 4, &hlen32, 4)
        memcpy(p + 8, &seq, 8)
        memcpy(p + 16, &zero, 8)
        memcpy(p + 24, &slen16, 2)
        memcpy(p + 26, &flags, 2)
        memcpy(p + 28, &plen32, 4)
        crc = slip_crc32c(0, p + 4, total - 4)
        memcpy(p, &crc, 4)
        self.crc = slip_crc32c(self.crc, &crc, 4)
        self.used = start + whole
        return FINE

    cdef Fault add_headers(self, Columns *c, Py_ssize_t row) noexcept nogil:
        """Write the header block behind the subject; nothing when the row has no header."""
        cdef Py_ssize_t begin = self.used
        cdef Fault fault = FINE
        if c.has_raw:
            fault = self.add_block(&c.raw, row)
        elif c.has_map and is_valid(c.map_valid, c.map_at + row):
            fault = self.add_map(c, row, begin)
        if fault == FINE and c.has_msg_id:
            fault = self.add_own(&c.msg_id, row, begin, b"Nats-Msg-Id", 11)
        if fault == FINE and c.has_ttl:
            fault = self.add_own(&c.ttl, row, begin, b"Nats-TTL", 8)
        if fault == FINE and c.has_expected:
            fault = self.add_own(&c.expected, row, begin, b"Nats-Expected-Last-Subject-Sequence", 35)
        if fault != FINE or self.used == begin:
            return fault
        if not self.room(2):
            return NO_MEMORY
        memcpy(self.buf + self.used, b"\r\n", 2)
        self.used += 2
        return FINE

    cdef Fault add_block(self, Text *t, Py_ssize_t row) noexcept nogil:
        """A whole block without its last empty line, which is written at the end."""
        cdef Span block
        cdef Fault fault = span_of(t, row, &block)
        if fault != FINE or block.n <= 0:
            return fault
        if (
            block.n < 12 or memcmp(block.p, b"NATS/1.0", 8) != 0
            or memcmp(block.p + block.n - 4, b"\r\n\r\n", 4) != 0
        ):
            return BAD_BLOCK
        if block.n > HEADERS_MAX:
            return LONG_HEADERS
        if not self.room(block.n):
            return NO_MEMORY
        memcpy(self.buf + self.used, block.p, block.n - 2)
        self.used += block.n - 2
        return FINE

    cdef Fault add_map(self, Columns *c, Py_ssize_t row, Py_ssize_t begin) noexcept nogil:
        cdef int32_t a = number_at(c.map_offsets, c.map_offsets_at + row)
        cdef int32_t b = number_at(c.map_offsets, c.map_offsets_at + row + 1)
        cdef int32_t i, k, first, stop
        cdef Span name, value
        cdef Fault fault
        if a < 0 or b < a or b > c.keys.length:
            return BAD_OFFSETS
        for i in range(a, b):
            fault = span_of(&c.keys, i, &name)
            if fault != FINE:
                return fault
            if name.n <= 0 or has_any(&name, c":") or has_any(&name, c"\r") or has_any(&name, c"\n"):
                return BAD_NAME
            first, stop = i, i + 1
            if c.list_offsets != NULL:
                first = number_at(c.list_offsets, c.list_at + i)
                stop = number_at(c.list_offsets, c.list_at + i + 1)
                if first < 0 or stop < first or stop > c.values.length:
                    return BAD_OFFSETS
            for k in range(first, stop):
                fault = span_of(&c.values, k, &value)
                if fault != FINE:
                    return fault
                if value.n < 0:
                    continue
                fault = self.add_line(&name, &value, begin)
                if fault != FINE:
                    return fault
        return FINE

    cdef Fault add_own(
        self, Text *t, Py_ssize_t row, Py_ssize_t begin, const char *name, Py_ssize_t size
    ) noexcept nogil:
        cdef Span value, own
        cdef Fault fault = span_of(t, row, &value)
        if fault != FINE or value.n < 0:
            return fault
        own.p, own.n = <const unsigned char *>name, size
        return self.add_line(&own, &value, begin)

    cdef Fault add_line(self, Span *name, Span *value, Py_ssize_t begin) noexcept nogil:
        if has_any(value, c"\r") or has_any(value, c"\n"):
            return BAD_VALUE
        if name.n + value.n + self.used - begin > 2 * HEADERS_MAX:
            return LONG_HEADERS
        if not self.room(name.n + value.n + 16):
            return NO_MEMORY
        if self.used == begin:
            memcpy(self.buf + self.used, b"NATS/1.0\r\n", 10)
            self.used += 10
        memcpy(self.buf + self.used, name.p, name.n)
        self.used += name.n
        memcpy(self.buf + self.used, b": ", 2)
        self.used += 2
        if value.n:
            memcpy(self.buf + self.used, value.p, value.n)
        self.used += value.n
        memcpy(self.buf + self.used, b"\r\n", 2)
        self.used += 2
        return FINE


cdef inline bint has_any(Span *s, char c) noexcept nogil:
    return s.n > 0 and memchr(s.p, c, s.n) != NULL
