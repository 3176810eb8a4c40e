# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Staged records on their way into a log: checked one by one, and appended without an object per row.

    bytes of a part, cut anywhere ──feed──► append_to(writer) ──► the open unit of the log
                                               └── stops at what is not ordinary: `reason`, then `current` and `skip`

A record must be whole and match its checksum; its number must follow the one before, so that nothing is lost, repeated
or exchanged between stage and commit. Its subject must be a valid literal that the stream takes, its size within the
stream's limit. Ordinary is a record without a header that begins with `Nats-`; what those mean is decided in Python.

The bytes of a record that is cut by the end of a piece are kept and completed by the next `feed`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from slipstream.kernels.record cimport HEAD, KIND_MSG, LogWriter
from slipstream.kernels.subject cimport literal_span, match_span, valid_span

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)

MORE = "more"
LIMIT = "limit"
SPECIAL = "special"
NO_ROOM = "no room"
BAD_RECORD = "bad record"
BAD_SUBJECT = "bad subject"
OTHER_SUBJECT = "other subject"
TOO_LARGE = "too large"
HEADERS_TOO_LARGE = "headers too large"


cdef inline uint16_t get16(const unsigned char *p) noexcept nogil:
    cdef uint16_t v
    memcpy(&v, p, 2)
    return v


cdef inline uint32_t get32(const unsigned char *p) noexcept nogil:
    cdef uint32_t v
    memcpy(&v, p, 4)
    return v


cdef inline uint64_t get64(const unsigned char *p) noexcept nogil:
    cdef uint64_t v
    memcpy(&v, p, 8)
    return v


cdef bint mentions_nats(const unsigned char *p, Py_ssize_t n) noexcept nogil:
    """Whether `Nats-` occurs in a header block."""
    cdef const unsigned char *end = p + n
    cdef const unsigned char *found
    while end - p >= 5:
        found = <const unsigned char *>memchr(p, c"N", end - p - 4)
        if found == NULL:
            return False
        if memcmp(found, b"Nats-", 5) == 0:
            return True
        p = found + 1
    return False


cdef class StagedRows:
    """The records of one part.

    Args:
        subjects: what the stream takes; empty to leave that unchecked.
        size_max: bytes of headers and payload of one message.
        headers_max: bytes of a header block.
        all_special: every record is given to Python.
    """

    cdef tuple subjects
    cdef uint64_t size_max, headers_max
    cdef bint all_special
    cdef bytes data
    cdef Py_ssize_t at
    cdef readonly uint64_t rows   # passed so far
    cdef readonly uint32_t crc    # over the checksums of those
    cdef readonly uint64_t size   # bytes of those

    def __cinit__(self, subjects=(), uint64_t size_max=1 << 40, uint64_t headers_max=65535, bint all_special=False):
        self.subjects = tuple(subjects)
        if not all([type(subject) is bytes for subject in self.subjects]):
            raise TypeError("subjects are bytes")
        self.size_max = size_max
        self.headers_max = headers_max
        self.all_special = all_special
        self.data = b""

    @property
    def unused(self):
        """Bytes that were fed and not passed."""
        return PyBytes_GET_SIZE(self.data) - self.at

    def feed(self, bytes data not None):
        """Add the next bytes of the part."""
        if self.at == PyBytes_GET_SIZE(self.data):
            self.data = data
        else:
            self.data = self.data[self.at:] + data
        self.at = 0

    cdef Py_ssize_t whole(self) noexcept:
        """Bytes of the record at the position without padding; 0: not whole yet, -1: it cannot be one."""
        cdef Py_ssize_t room = PyBytes_GET_SIZE(self.data) - self.at
        cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(self.data) + self.at
        cdef uint64_t total
        if room < HEAD:
            return 0
        if get16(p + 26) != KIND_MSG or get16(p + 24) == 0:
            return -1
        total = <uint64_t>HEAD + get32(p + 4) + get16(p + 24) + get32(p + 28)
        if total > 0x1FFFFFFF:
            return -1
        if ((total + 7) & ~<uint64_t>7) > <uint64_t>room:
            return 0
        if slip_crc32c(0, p + 4, total - 4) != get32(p) or get64(p + 8) != self.rows + 1:
            return -1
        return <Py_ssize_t>total

    def append_to(self, LogWriter writer, uint64_t seq, int64_t ts, Py_ssize_t max_rows):
        """Append records from `seq` on; how many, and why it stopped: one of the constants of this module.

        Without a writer records are only checked and passed.
        """
        cdef Py_ssize_t done = 0, total
        cdef const unsigned char *p
        cdef uint32_t hlen, plen
        cdef uint16_t slen
        while True:
            total = self.whole()
            if total == 0:
                return done, MORE
            if total < 0:
                return done, BAD_RECORD
            p = <const unsigned char *>PyBytes_AS_STRING(self.data) + self.at
            hlen, plen, slen = get32(p + 4), get32(p + 28), get16(p + 24)
            reason = self.refusal(p + HEAD, slen, hlen, plen)
            if reason is not None:
                return done, reason
            if self.all_special or (hlen and mentions_nats(p + HEAD + slen, hlen)):
                return done, SPECIAL
            if done >= max_rows:
                return done, LIMIT
            if writer is not None and not writer.put(
                seq + <uint64_t>done, ts, <const char *>p + HEAD, slen, <const char *>p + HEAD + slen, hlen,
                <const char *>p + HEAD + slen + hlen, plen, 0,
            ):
                return done, NO_ROOM
            self.pass_by(total)
            done += 1

    cdef object refusal(self, const unsigned char *subject, Py_ssize_t slen, uint32_t hlen, uint32_t plen):
        cdef bytes pattern
        if not valid_span(subject, slen) or not literal_span(subject, slen):
            return BAD_SUBJECT
        if <uint64_t>hlen + plen > self.size_max:
            return TOO_LARGE
        if hlen > self.headers_max:
            return HEADERS_TOO_LARGE
        for pattern in self.subjects:
            if match_span(
                <const unsigned char *>PyBytes_AS_STRING(pattern), PyBytes_GET_SIZE(pattern), subject, slen
            ):
                return None
        return OTHER_SUBJECT if self.subjects else None

    cdef void pass_by(self, Py_ssize_t total) noexcept:
        cdef Py_ssize_t padded = (total + 7) & ~<Py_ssize_t>7
        self.crc = slip_crc32c(self.crc, PyBytes_AS_STRING(self.data) + self.at, 4)
        self.rows += 1
        self.size += <uint64_t>padded
        self.at += padded

    def current(self):
        """`(subject, headers, payload)` of the record at the position, which must be whole."""
        cdef const unsigned char *p
        cdef uint32_t hlen, plen
        cdef uint16_t slen
        if self.whole() <= 0:
            raise ValueError("no whole record is here")
        p = <const unsigned char *>PyBytes_AS_STRING(self.data) + self.at
        hlen, plen, slen = get32(p + 4), get32(p + 28), get16(p + 24)
        return (
            PyBytes_FromStringAndSize(<const char *>p + HEAD, slen),
            PyBytes_FromStringAndSize(<const char *>p + HEAD + slen, hlen),
            PyBytes_FromStringAndSize(<const char *>p + HEAD + slen + hlen, plen),
        )

    def skip(self):
        """Pass the record at the position, which must be whole."""
        cdef Py_ssize_t total = self.whole()
        if total <= 0:
            raise ValueError("no whole record is here")
        self.pass_by(total)


def written_under(LogWriter writer not None, bytes subject not None):
    """`(first, last, count)` of a literal subject among the messages of the writer's open unit."""
    return writer.index.subject_state(subject)
