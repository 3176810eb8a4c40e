# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Records of a log as Arrow columns: from raw bytes to buffers, with no Python object per row.

    chunk: records as bulkscan.Chunk makes them, whole, back to back
    RowDecoder.feed ──► columns grow ──► take ──► {column: [buffers as pyarrow's from_buffers wants them]}

    seq, ts, ts_ns   values i64           subject, stream, reply   offsets i32, text
    size             values i32           payload, hdr_raw         offsets i32, bytes
    headers          map<string, list<string>>: offsets | key offsets, keys | list offsets | value offsets, values

Every record is checked before anything of it is used: lengths against the room that is left, checksum, kind, and that
sequences grow. A record whose checksum does not hold is skipped and listed in `damaged`; bytes that cannot be records
raise ValueError.

The columns themselves are `arrowcolumns`; how a header block is cut into lines is `headerlines`: it gives one entry per
distinct name in the order of first appearance, with its values in order.

Memory: what was taken is never written again; the decoder starts new columns after `take`. Not for two threads at once.
Complexity: O(bytes of the records), each byte read once for its checksum and copied at most once.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy, memset

from slipstream.kernels.bulk.arrowcolumns cimport (
    COLUMN_MAX, Column, end_offsets, put, put_bit, put_i32, put_i64, put_text, taken,
)
from slipstream.kernels.bulk.bulkscan cimport shifted
from slipstream.kernels.bytes_le cimport get16, get32, get64
from slipstream.kernels.bulk.headerlines cimport HeaderLines, Line, free_headers, split_headers
from slipstream.kernels.log.record cimport FLAG_EXPIRES, HEAD, KIND_MASK, KIND_MSG

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)

cdef enum:
    SHIFTS = 1024            # lengths whose shift is remembered, direct mapped

cdef enum:
    C_STREAM = 1
    C_SEQ = 2
    C_TS = 4
    C_TS_NS = 8
    C_SUBJECT = 16
    C_HEADERS = 32
    C_PAYLOAD = 64
    C_REPLY = 128
    C_SIZE = 256
    C_HDR_RAW = 512

COLUMNS = {
    "stream": C_STREAM, "seq": C_SEQ, "ts": C_TS, "ts_ns": C_TS_NS, "subject": C_SUBJECT, "headers": C_HEADERS,
    "payload": C_PAYLOAD, "reply": C_REPLY, "size": C_SIZE, "hdr_raw": C_HDR_RAW,
}

cdef enum Status:
    GOING_ON = 0
    FULL = 1
    BAD_CHECKSUM = 2
    NO_RECORD = 3
    NOT_GROWING = 4
    NO_MEMORY = 5


cdef inline int64_t to_us(int64_t ns) noexcept nogil:
    """Microseconds, rounded down also before 1970."""
    cdef int64_t us = ns // 1000
    return us - 1 if ns % 1000 < 0 else us


cdef Py_ssize_t structure(const unsigned char *p, Py_ssize_t room) noexcept nogil:
    """Bytes of the message at `p` without padding, 0 when its head cannot be one or says more than there is room."""
    cdef uint16_t flags
    cdef uint64_t total
    if room < HEAD:
        return 0
    flags = get16(p + 26)
    if (flags & KIND_MASK) != KIND_MSG or flags > 31:
        return 0
    total = <uint64_t>HEAD + get32(p + 4) + get16(p + 24) + get32(p + 28) + (8 if flags & FLAG_EXPIRES else 0)
    return <Py_ssize_t>total if total <= <uint64_t>room else 0


cdef class RowDecoder:
    """Builds the columns of one batch after another.

    Args:
        columns: names, see `COLUMNS`.
        stream: what the column `stream` says.
        max_rows: rows of a batch.
        max_bytes: bytes of records in a batch, unless one record is larger.
        first_seq, last_seq, start_ns, end_ns: rows outside are passed over; `end_ns` itself is outside.
        filters: subjects with or without wildcards; rows that match none are passed over. Empty: all pass.
        salt: key of the checksums.
    """

    cdef uint32_t wanted
    cdef bytes stream
    cdef Py_ssize_t max_rows, max_bytes, used
    cdef uint64_t first_seq, last_seq
    cdef int64_t start_ns, end_ns
    cdef tuple filters          # keeps alive what the next two point to
    cdef const unsigned char **patterns
    cdef Py_ssize_t *pattern_sizes
    cdef Py_ssize_t n_patterns
    cdef public uint32_t salt  # key of the checksums in what is fed next
    cdef uint32_t shifts_salt  # what the next hold: lengths, each with what the salt makes of the checksum
    cdef uint32_t shifts[2 * SHIFTS]
    cdef Column c_stream_off, c_stream, c_seq, c_ts, c_ts_ns, c_subject_off, c_subject, c_payload_off, c_payload
    cdef Column c_size, c_raw_valid, c_raw_off, c_raw, c_reply_valid, c_reply_off
    cdef Column c_map_valid, c_map_off, c_key_off, c_key, c_list_off, c_value_off, c_value
    cdef HeaderLines headers
    cdef readonly Py_ssize_t rows      # in the batch under way
    cdef readonly uint64_t records     # seen in all, passed over and damaged ones included
    cdef readonly uint64_t last        # sequence of the last record
    cdef readonly uint32_t crc         # over the checksums of all records, keyed by 0
    cdef readonly list damaged         # sequences as damaged records state them

    def __cinit__(
        self, columns, bytes stream not None=b"", Py_ssize_t max_rows=65536, Py_ssize_t max_bytes=8 << 20, *,
        uint64_t first_seq=0, uint64_t last_seq=0xFFFFFFFFFFFFFFFF, int64_t start_ns=-(2**63 - 1), int64_t end_ns=2**63 - 1,
        filters=(), uint32_t salt=0,
    ):
        cdef Py_ssize_t i
        cdef bytes pattern
        if max_rows < 1 or max_bytes < 1 or max_bytes > 1 << 30:
            raise ValueError("a batch has at least one row and at most a gibibyte")
        for name in columns:
            self.wanted |= <uint32_t>COLUMNS[name]
        self.stream = stream
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.first_seq, self.last_seq = first_seq, last_seq
        self.start_ns, self.end_ns = start_ns, end_ns
        self.filters = tuple(filters)
        self.n_patterns = len(self.filters)
        self.patterns = <const unsigned char **>realloc(NULL, (self.n_patterns + 1) * sizeof(void *))
        self.pattern_sizes = <Py_ssize_t *>realloc(NULL, (self.n_patterns + 1) * sizeof(Py_ssize_t))
        if self.patterns == NULL or self.pattern_sizes == NULL:
            raise MemoryError()
        for i in range(self.n_patterns):
            pattern = <bytes?>self.filters[i]
            self.patterns[i] = <const unsigned char *>PyBytes_AS_STRING(pattern)
            self.pattern_sizes[i] = PyBytes_GET_SIZE(pattern)
        self.salt = salt
        self.damaged = []

    def __dealloc__(self):
        cdef Column *each[22]
        cdef int i
        self.list_columns(each)
        for i in range(22):
            free(each[i].p)
        free_headers(&self.headers)
        free(self.patterns)
        free(self.pattern_sizes)

    cdef void list_columns(self, Column **out) noexcept:
        out[0], out[1], out[2], out[3] = &self.c_stream_off, &self.c_stream, &self.c_seq, &self.c_ts
        out[4], out[5], out[6], out[7] = &self.c_ts_ns, &self.c_subject_off, &self.c_subject, &self.c_payload_off
        out[8], out[9], out[10], out[11] = &self.c_payload, &self.c_size, &self.c_raw_valid, &self.c_raw_off
        out[12], out[13], out[14], out[15] = &self.c_raw, &self.c_reply_valid, &self.c_reply_off, &self.c_map_valid
        out[16], out[17], out[18], out[19] = &self.c_map_off, &self.c_key_off, &self.c_key, &self.c_list_off
        out[20], out[21] = &self.c_value_off, &self.c_value

    @property
    def full(self):
        """Whether the batch has reached a limit: `take` it before the next `feed`."""
        return self.rows >= self.max_rows or self.used >= self.max_bytes

    def feed(self, data not None, Py_ssize_t pos=0):
        """Take records from `pos` on. Returns where it stopped: at the end, or where the batch was full.

        Raises:
            ValueError: the bytes are not whole records in the order of their sequences.
        """
        cdef Py_buffer view
        cdef Py_ssize_t at = pos
        cdef Status status
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if pos < 0 or pos > view.len:
                raise ValueError("position is outside the data")
            while True:
                with nogil:
                    status = self.run(<const unsigned char *>view.buf, view.len, &at)
                if status == BAD_CHECKSUM:
                    self.damaged.append(get64(<const unsigned char *>view.buf + at + 8))
                    at = self.behind(<const unsigned char *>view.buf, view.len, at)
                    self.records += 1
                    continue
                break
        finally:
            PyBuffer_Release(&view)
        if status == NO_RECORD:
            raise ValueError(f"no record at byte {at}")
        if status == NOT_GROWING:
            raise ValueError(f"sequence at byte {at} is not above {self.last}")
        if status == NO_MEMORY:
            raise MemoryError()
        return at

    cdef Py_ssize_t behind(self, const unsigned char *p, Py_ssize_t size, Py_ssize_t at) noexcept nogil:
        cdef Py_ssize_t whole = (structure(p + at, size - at) + 7) & ~<Py_ssize_t>7
        return min(at + whole, size)

    cdef Status run(self, const unsigned char *data, Py_ssize_t size, Py_ssize_t *at) noexcept nogil:
        cdef const unsigned char *p
        cdef Py_ssize_t total, whole
        cdef uint64_t seq
        cdef int64_t ts
        cdef uint32_t crc
        cdef unsigned char head[HEAD]
        while at[0] < size:
            p = data + at[0]
            if size - at[0] < HEAD:
                return NO_RECORD
            # A copy, so that all lengths are those that were checked: a file of the server can change under our hands.
            memcpy(head, p, HEAD)
            total = structure(head, size - at[0])
            if total == 0:
                return NO_RECORD
            whole = min((total + 7) & ~<Py_ssize_t>7, size - at[0])
            if self.rows and (self.rows >= self.max_rows or self.used + whole > self.max_bytes):
                return FULL
            crc = get32(head)
            if slip_crc32c(self.salt, p + 4, total - 4) != crc:
                return BAD_CHECKSUM
            if self.salt:
                crc ^= self.shift(total)
            seq = get64(head + 8)
            if seq <= self.last and self.records:
                return NOT_GROWING
            ts = <int64_t>get64(head + 16)
            if (
                seq >= self.first_seq and seq <= self.last_seq and ts >= self.start_ns and ts < self.end_ns
                and (self.n_patterns == 0 or self.passes(head, p))
            ):
                if not self.add(head, p, seq, ts):
                    return NO_MEMORY
                self.rows += 1
                self.used += whole
            self.last = seq
            self.records += 1
            self.crc = slip_crc32c(self.crc, &crc, 4)
            at[0] += whole
        return GOING_ON

    cdef uint32_t shift(self, Py_ssize_t total) noexcept nogil:
        """What the salt makes of the checksum of a record that is so long."""
        cdef uint32_t *known = self.shifts + 2 * (total & (SHIFTS - 1))
        if self.shifts_salt != self.salt:
            self.shifts_salt = self.salt
            memset(self.shifts, 0, sizeof(self.shifts))
        if known[0] != <uint32_t>total:
            known[0] = <uint32_t>total
            known[1] = shifted(self.salt, total - 4)
        return known[1]

    cdef bint passes(self, const unsigned char *head, const unsigned char *p) noexcept nogil:
        cdef const unsigned char *subject = p + HEAD + (8 if get16(head + 26) & FLAG_EXPIRES else 0)
        cdef Py_ssize_t i
        for i in range(self.n_patterns):
            if matched(self.patterns[i], self.patterns[i] + self.pattern_sizes[i], subject, subject + get16(head + 24)):
                return True
        return False

    cdef bint add(self, const unsigned char *head, const unsigned char *p, uint64_t seq, int64_t ts) noexcept nogil:
        """One row, of a record at `p` with this head; False: no memory."""
        cdef uint32_t hlen = get32(head + 4), plen = get32(head + 28)
        cdef uint16_t slen = get16(head + 24)
        cdef const unsigned char *body = p + HEAD
        cdef uint32_t wanted = self.wanted
        if get16(head + 26) & FLAG_EXPIRES:
            body += 8
        if wanted & C_SEQ and not put_i64(&self.c_seq, <int64_t>seq):
            return False
        if wanted & C_TS and not put_i64(&self.c_ts, to_us(ts)):
            return False
        if wanted & C_TS_NS and not put_i64(&self.c_ts_ns, ts):
            return False
        if wanted & C_SUBJECT:
            if not put_i32(&self.c_subject_off, <int32_t>self.c_subject.size) or not put_text(&self.c_subject, body, slen):
                return False
        body += slen
        if wanted & C_HEADERS and not self.add_headers(body, hlen):
            return False
        if wanted & C_HDR_RAW:
            if (
                not put_bit(&self.c_raw_valid, self.rows, hlen != 0)
                or not put_i32(&self.c_raw_off, <int32_t>self.c_raw.size) or not put(&self.c_raw, body, hlen)
            ):
                return False
        body += hlen
        if wanted & C_PAYLOAD:
            if not put_i32(&self.c_payload_off, <int32_t>self.c_payload.size) or not put(&self.c_payload, body, plen):
                return False
        if wanted & C_SIZE and not put_i32(&self.c_size, <int32_t>plen):
            return False
        return True

    cdef bint add_headers(self, const unsigned char *p, uint32_t size) noexcept nogil:
        cdef uint32_t i, k
        cdef Line *line
        if not put_bit(&self.c_map_valid, self.rows, size != 0):
            return False
        if not put_i32(&self.c_map_off, <int32_t>(self.c_key_off.size >> 2)):
            return False
        if size == 0:
            return True
        if not split_headers(&self.headers, p, size):
            return False
        for i in range(self.headers.n):
            line = self.headers.lines + i
            if not line.first:
                continue
            if not put_i32(&self.c_key_off, <int32_t>self.c_key.size) or not put_text(&self.c_key, line.name, line.name_size):
                return False
            if not put_i32(&self.c_list_off, <int32_t>(self.c_value_off.size >> 2)):
                return False
            k = i
            while True:
                line = self.headers.lines + k
                if (
                    not put_i32(&self.c_value_off, <int32_t>self.c_value.size)
                    or not put_text(&self.c_value, line.value, line.value_size)
                ):
                    return False
                k = line.next
                if k == 0:
                    break
        return True

    def take(self):
        """The batch as `(rows, {column: buffers})`, and begin the next.

        Buffers are in the order of Arrow's layout with None for a validity that is not needed; `headers` has the
        buffers of the map, its keys, the lists and their values one after the other, with the number of keys and values
        as the last two items.
        """
        cdef dict out = {}
        cdef Py_ssize_t rows = self.rows, keys, values, i
        cdef uint32_t wanted = self.wanted
        cdef Py_ssize_t name = PyBytes_GET_SIZE(self.stream)
        if wanted & C_STREAM:
            if rows * name > COLUMN_MAX:
                raise ValueError("too many rows for the name of the stream")
            for i in range(rows):
                if not put_i32(&self.c_stream_off, <int32_t>(i * name)) or not put(
                    &self.c_stream, PyBytes_AS_STRING(self.stream), name
                ):
                    raise MemoryError()
            end_offsets(&self.c_stream_off, rows * name)
            out["stream"] = [None, taken(&self.c_stream_off), taken(&self.c_stream)]
        if wanted & C_SEQ:
            out["seq"] = [None, taken(&self.c_seq)]
        if wanted & C_TS:
            out["ts"] = [None, taken(&self.c_ts)]
        if wanted & C_TS_NS:
            out["ts_ns"] = [None, taken(&self.c_ts_ns)]
        if wanted & C_SUBJECT:
            end_offsets(&self.c_subject_off, self.c_subject.size)
            out["subject"] = [None, taken(&self.c_subject_off), taken(&self.c_subject)]
        if wanted & C_HEADERS:
            keys, values = self.c_key_off.size >> 2, self.c_value_off.size >> 2
            end_offsets(&self.c_map_off, keys)
            end_offsets(&self.c_key_off, self.c_key.size)
            end_offsets(&self.c_list_off, values)
            end_offsets(&self.c_value_off, self.c_value.size)
            out["headers"] = [
                taken(&self.c_map_valid), taken(&self.c_map_off), taken(&self.c_key_off), taken(&self.c_key),
                taken(&self.c_list_off), taken(&self.c_value_off), taken(&self.c_value), keys, values,
            ]
        if wanted & C_PAYLOAD:
            end_offsets(&self.c_payload_off, self.c_payload.size)
            out["payload"] = [None, taken(&self.c_payload_off), taken(&self.c_payload)]
        if wanted & C_REPLY:
            for i in range(rows):
                if not put_bit(&self.c_reply_valid, i, False) or not put_i32(&self.c_reply_off, 0):
                    raise MemoryError()
            end_offsets(&self.c_reply_off, 0)
            out["reply"] = [taken(&self.c_reply_valid), taken(&self.c_reply_off), b""]
        if wanted & C_SIZE:
            out["size"] = [None, taken(&self.c_size)]
        if wanted & C_HDR_RAW:
            end_offsets(&self.c_raw_off, self.c_raw.size)
            out["hdr_raw"] = [taken(&self.c_raw_valid), taken(&self.c_raw_off), taken(&self.c_raw)]
        self.rows = 0
        self.used = 0
        return rows, out


cdef bint matched(
    const unsigned char *p, const unsigned char *p_end, const unsigned char *s, const unsigned char *s_end
) noexcept nogil:
    """Whether a subject matches a pattern, token by token."""
    cdef const unsigned char *a
    cdef const unsigned char *b
    while True:
        a = <const unsigned char *>memchr(p, c".", p_end - p)
        if a == NULL:
            a = p_end
        if a == p_end and a - p == 1 and p[0] == c">":
            return True
        b = <const unsigned char *>memchr(s, c".", s_end - s)
        if b == NULL:
            b = s_end
        if not (a - p == 1 and p[0] == c"*") and not (a - p == b - s and memcmp(p, s, a - p) == 0):
            return False
        if a == p_end or b == s_end:
            return a == p_end and b == s_end
        p = a + 1
        s = b + 1
