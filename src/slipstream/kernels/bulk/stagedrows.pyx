# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Staged records on their way into a log: checked one by one, and appended without an object per row.

    bytes of a part, cut anywhere ──feed──► append_to(writer) ──► the open unit of the log
                                               └── stops at what is not ordinary: `reason`, then `current` and `skip`

A record must be whole and match its checksum; its number must follow the one before, so that nothing is lost, repeated
or exchanged between stage and commit. Its subject must be a valid literal that the stream takes, its size within the
stream's limit. Ordinary is a record without a header that begins with `Nats-` and without a status; what those mean is
decided in Python.

The bytes of a record that is cut by the end of a piece are kept and completed by the next `feed`; a record that says it
will be too large is refused before it is whole, so that no more than one message's bytes are ever kept.

A record that is appended is read once: its checksum is verified, and the one it gets in the log made, while it is copied.
Neighbours often have the same subject, so the last one that was found good is remembered.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp, memcpy

from slipstream.kernels.bytes_le cimport get16, get32, get64
from slipstream.kernels.log.logwriter cimport LogWriter
from slipstream.kernels.log.record cimport HEAD, KIND_MSG
from slipstream.kernels.subjects.subject cimport literal_span, match_span, valid_span

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)

cdef enum:
    SEEN_MAX = 256  # bytes of a subject that is remembered

MORE = "more"
LIMIT = "limit"
SPECIAL = "special"
NO_ROOM = "no room"
BAD_RECORD = "bad record"
BAD_SUBJECT = "bad subject"
OTHER_SUBJECT = "other subject"
TOO_LARGE = "too large"
HEADERS_TOO_LARGE = "headers too large"

cdef enum Refusal:
    NONE = 0
    IS_SPECIAL = 1
    IS_LIMIT = 2
    HAS_BAD_SUBJECT = 3
    HAS_OTHER_SUBJECT = 4
    IS_TOO_LARGE = 5
    HAS_HEADERS_TOO_LARGE = 6

_WORDS = {
    IS_SPECIAL: SPECIAL,
    IS_LIMIT: LIMIT,
    HAS_BAD_SUBJECT: BAD_SUBJECT,
    HAS_OTHER_SUBJECT: OTHER_SUBJECT,
    IS_TOO_LARGE: TOO_LARGE,
    HAS_HEADERS_TOO_LARGE: HEADERS_TOO_LARGE,
}


cdef struct Pattern:
    const unsigned char *p
    Py_ssize_t n


cdef Py_ssize_t padded_size(const unsigned char *p, Py_ssize_t room) noexcept nogil:
    """Bytes of the record at `p` by its head, with padding; 0 when there are too few to tell."""
    if room < HEAD:
        return 0
    return (<Py_ssize_t>HEAD + get32(p + 4) + get16(p + 24) + get32(p + 28) + 7) & ~<Py_ssize_t>7


cdef bint is_looked_at(const unsigned char *p, Py_ssize_t n) noexcept nogil:
    """Whether a header block has a status, or `Nats-` occurs in it."""
    cdef const unsigned char *end = p + n
    cdef const unsigned char *found
    if n >= 9 and memcmp(p, b"NATS/1.0 ", 9) == 0:
        return True
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

    cdef tuple subjects        # keeps the bytes that `patterns` points to
    cdef Pattern *patterns
    cdef Py_ssize_t n_patterns
    cdef uint64_t size_max, headers_max
    cdef bint all_special
    cdef bytes data                   # what was fed, or the record that was cut by the end of what was fed before
    cdef bytes fed                    # then this is what was fed
    cdef const unsigned char *start   # of the data
    cdef Py_ssize_t stop, at          # bytes of it, and the position
    cdef Py_ssize_t fed_at            # where to go on behind a record that was cut; 0: nothing follows
    cdef const unsigned char *fed_start
    cdef Py_ssize_t fed_stop
    cdef unsigned char seen[SEEN_MAX]
    cdef Py_ssize_t seen_size     # of the last good subject; 0: none
    cdef readonly uint64_t rows   # passed so far
    cdef readonly uint32_t crc    # over the checksums of those
    cdef readonly uint64_t size   # bytes of those

    def __cinit__(self, subjects=(), uint64_t size_max=1 << 40, uint64_t headers_max=65535, bint all_special=False):
        self.subjects = tuple(subjects)
        if not all([type(subject) is bytes for subject in self.subjects]):
            raise TypeError("subjects are bytes")
        self.patterns = <Pattern *>malloc(max(len(self.subjects), 1) * sizeof(Pattern))
        if self.patterns == NULL:
            raise MemoryError()
        for pattern in self.subjects:
            self.patterns[self.n_patterns].p = <const unsigned char *>PyBytes_AS_STRING(pattern)
            self.patterns[self.n_patterns].n = PyBytes_GET_SIZE(pattern)
            self.n_patterns += 1
        self.size_max = size_max
        self.headers_max = headers_max
        self.all_special = all_special
        self.hold(b"")

    def __dealloc__(self):
        free(self.patterns)

    @property
    def unused(self):
        """Bytes that were fed and not passed."""
        return self.stop - self.at + (self.fed_stop - self.fed_at if self.fed_at else 0)

    cdef void hold(self, bytes data):
        self.data, self.fed = data, None
        self.start = <const unsigned char *>PyBytes_AS_STRING(data)
        self.stop = PyBytes_GET_SIZE(data)
        self.at = self.fed_at = 0

    cdef void go_on(self) noexcept nogil:
        """The record that was cut is passed: go on in what was fed."""
        self.start, self.stop, self.at = self.fed_start, self.fed_stop, self.fed_at
        self.fed_at = 0

    def feed(self, bytes data not None):
        """Add the next bytes of the part."""
        cdef bytes rest, head
        cdef Py_ssize_t more
        if self.at == self.stop and not self.fed_at:
            self.hold(data)
            return
        # Of the old bytes a few are left: only the record they begin is put together.
        rest = self.left()
        head = rest + data[:HEAD]
        more = padded_size(<const unsigned char *>PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head)) - len(rest)
        if more <= 0 or more >= PyBytes_GET_SIZE(data):
            self.hold(rest + data)
            return
        self.hold(rest + data[:more])
        self.fed, self.fed_at = data, more
        self.fed_start, self.fed_stop = <const unsigned char *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)

    cdef bytes left(self):
        """What was fed and not passed."""
        cdef bytes rest = PyBytes_FromStringAndSize(<const char *>self.start + self.at, self.stop - self.at)
        return rest + self.fed[self.fed_at:] if self.fed_at else rest

    cdef Py_ssize_t measured(self) noexcept nogil:
        """Bytes of the record at the position without padding; 0: not whole yet, -1: it cannot be the next one."""
        cdef Py_ssize_t room
        cdef const unsigned char *p
        cdef uint64_t total
        if self.at == self.stop and self.fed_at:
            self.go_on()
        room = self.stop - self.at
        p = self.start + self.at
        if room < HEAD:
            return 0
        if get16(p + 26) != KIND_MSG or get16(p + 24) == 0:
            return -1
        total = <uint64_t>HEAD + get32(p + 4) + get16(p + 24) + get32(p + 28)
        if total > 0x1FFFFFFF:
            return -1
        if ((total + 7) & ~<uint64_t>7) > <uint64_t>room:
            return 0
        return <Py_ssize_t>total if get64(p + 8) == self.rows + 1 else -1

    cdef bint grows_too_large(self) noexcept nogil:
        """Whether the record at the position, which is not whole yet, is larger than any may be."""
        cdef const unsigned char *p = self.start + self.at
        return self.stop - self.at >= HEAD and <uint64_t>get32(p + 4) + get32(p + 28) > self.size_max

    cdef bint holds(self, Py_ssize_t total) noexcept nogil:
        """Whether the checksum of the measured record at the position holds."""
        cdef const unsigned char *p = self.start + self.at
        return slip_crc32c(0, p + 4, total - 4) == get32(p)

    cdef Py_ssize_t whole(self) noexcept:
        """As `measured`, and its checksum holds."""
        cdef Py_ssize_t total = self.measured()
        return total if total <= 0 or self.holds(total) else -1

    def check(self):
        """Pass every whole record; why it stopped. Nothing is appended, and other threads go on meanwhile."""
        cdef Refusal refused = NONE
        cdef Py_ssize_t total
        with nogil:
            while True:
                total = self.measured()
                if total <= 0 or not self.holds(total):
                    break
                refused = self.refused(self.start + self.at)
                if refused != NONE:
                    break
                self.pass_by(total)
        if refused != NONE:
            return _WORDS[refused]
        if total == 0:
            return TOO_LARGE if self.grows_too_large() else MORE
        return BAD_RECORD

    def append_to(self, LogWriter writer, uint64_t seq, int64_t ts, Py_ssize_t max_rows):
        """Append records from `seq` on; how many, and why it stopped: one of the constants of this module.

        Without a writer records are only checked and passed. After BAD_RECORD the unit that the writer has open is of no
        use.
        """
        cdef Py_ssize_t done = 0, total
        cdef const unsigned char *p
        cdef Refusal refused
        cdef int taken
        while True:
            total = self.measured()
            if total == 0:
                return done, TOO_LARGE if self.grows_too_large() else MORE
            if total < 0:
                return done, BAD_RECORD
            p = self.start + self.at
            refused = self.refused(p)
            if refused == NONE and (
                self.all_special or (get32(p + 4) and is_looked_at(p + HEAD + get16(p + 24), get32(p + 4)))
            ):
                refused = IS_SPECIAL
            if refused == NONE and done >= max_rows:
                refused = IS_LIMIT
            if refused != NONE:
                return done, _WORDS[refused] if self.holds(total) else BAD_RECORD
            if writer is None:
                taken = 1 if self.holds(total) else 2
            else:
                taken = writer.take_over(seq + <uint64_t>done, ts, p, total)
            if taken != 1:
                return done, BAD_RECORD if taken else NO_ROOM
            self.pass_by(total)
            done += 1

    cdef Refusal refused(self, const unsigned char *p) noexcept nogil:
        """What the stream has against the measured record."""
        cdef uint32_t hlen = get32(p + 4), plen = get32(p + 28)
        cdef Refusal refused = self.refused_subject(p + HEAD, get16(p + 24))
        if refused == NONE and <uint64_t>hlen + plen > self.size_max:
            refused = IS_TOO_LARGE
        elif refused == NONE and hlen > self.headers_max:
            refused = HAS_HEADERS_TOO_LARGE
        return refused

    cdef Refusal refused_subject(self, const unsigned char *subject, Py_ssize_t slen) noexcept nogil:
        cdef Py_ssize_t i
        if slen == self.seen_size and memcmp(subject, self.seen, slen) == 0:
            return NONE
        if not valid_span(subject, slen) or not literal_span(subject, slen):
            return HAS_BAD_SUBJECT
        for i in range(self.n_patterns):
            if match_span(self.patterns[i].p, self.patterns[i].n, subject, slen):
                break
        else:
            if self.n_patterns:
                return HAS_OTHER_SUBJECT
        if slen <= SEEN_MAX:
            memcpy(self.seen, subject, slen)
            self.seen_size = slen
        return NONE

    cdef void pass_by(self, Py_ssize_t total) noexcept nogil:
        cdef Py_ssize_t padded = (total + 7) & ~<Py_ssize_t>7
        self.crc = slip_crc32c(self.crc, self.start + self.at, 4)
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
        p = self.start + self.at
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
