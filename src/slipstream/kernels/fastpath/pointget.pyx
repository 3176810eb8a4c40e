# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Requests for one stored message, answered from where it lies straight into the outbox of who asked.

    delivery ──take──► a plain question? ──yes──► find(key) ──► record ──► header block and payload ──► reply's route
                                └──no, or not found, or the record is not whole──► slow(subject, reply, header, payload)

A plain question names the subject whose last message is wanted in its own subject, behind `key_at` bytes, with nothing
in the body; or, with `key_at` 0, it is the body `{"seq":N}`. The answer is the message with four lines about it:

    <its header block, or NATS/1.0> Nats-Stream, Nats-Subject, Nats-Sequence, Nats-Time-Stamp <payload>

Nothing is decided here: whatever else is asked is `slow`'s, which says what happens in every case, this one included.
Memory: one buffer an answer, for as long as it is written. Records are checked before they are read.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp, memcpy

from slipstream.kernels.wire.delivery cimport Delivery
from slipstream.kernels.wire.interest cimport Interest
from slipstream.kernels.wire.msgwriter cimport BufferListener
from slipstream.kernels.log.record cimport FLAG_EXPIRES, HEAD, KIND_MASK, KIND_MSG, record_size

cdef enum:
    DIGITS = 20              # longest text of a 64-bit number
    SEQUENCE_DIGITS_MAX = 18  # more may not fit into 64 bits
    TIME_TEXT = 30           # 2006-01-02T15:04:05.999999999Z
    LINES = 80               # the names of the four lines, their ends and the empty line; generously
    SECONDS_A_DAY = 86400


cdef inline char *put_text(char *target, const char *text, Py_ssize_t size) noexcept nogil:
    memcpy(target, text, size)
    return target + size


cdef inline char *put_digits(char *target, uint64_t number, int width) noexcept nogil:
    """A number with at least `width` digits."""
    cdef char digits[DIGITS]
    cdef int n = 0
    while number or n < width:
        digits[n] = <char>(48 + number % 10)
        number //= 10
        n += 1
    while n:
        n -= 1
        target[0] = digits[n]
        target += 1
    return target


cdef char *put_time(char *target, int64_t time_ns) noexcept nogil:
    """RFC 3339 in UTC with as many fraction digits as needed; the time is not before 1970."""
    cdef uint64_t seconds = <uint64_t>(time_ns // 1000000000)
    cdef uint64_t nanos = <uint64_t>(time_ns % 1000000000)
    cdef uint64_t days = seconds // SECONDS_A_DAY
    cdef uint64_t rest = seconds % SECONDS_A_DAY
    # Days since 0000-03-01, in eras of 400 years; a year begins in March, so that the leap day is its last.
    cdef uint64_t shifted = days + 719468
    cdef uint64_t era = shifted // 146097
    cdef uint64_t day_of_era = shifted % 146097
    cdef uint64_t year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    cdef uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    cdef uint64_t month_from_march = (5 * day_of_year + 2) // 153
    cdef uint64_t month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    cdef int width = 9
    target = put_digits(target, year_of_era + era * 400 + (1 if month <= 2 else 0), 4)
    target[0] = b"-"
    target = put_digits(target + 1, month, 2)
    target[0] = b"-"
    target = put_digits(target + 1, day_of_year - (153 * month_from_march + 2) // 5 + 1, 2)
    target[0] = b"T"
    target = put_digits(target + 1, rest // 3600, 2)
    target[0] = b":"
    target = put_digits(target + 1, rest // 60 % 60, 2)
    target[0] = b":"
    target = put_digits(target + 1, rest % 60, 2)
    if nanos:
        while nanos % 10 == 0:
            nanos //= 10
            width -= 1
        target[0] = b"."
        target = put_digits(target + 1, nanos, width)
    target[0] = b"Z"
    return target + 1


cdef inline uint64_t sequence_in(const char *body, Py_ssize_t size) noexcept nogil:
    """The number in `{"seq":N}` or `{"seq": N}`, 0 for any other body."""
    cdef const char *p
    cdef const char *end
    cdef uint64_t number = 0
    if size < 9 or memcmp(body, b'{"seq":', 7) != 0 or body[size - 1] != b"}":
        return 0
    p, end = body + 7, body + size - 1
    if p[0] == b" ":
        p += 1
    if p == end or end - p > SEQUENCE_DIGITS_MAX or p[0] == b"0":
        return 0
    while p < end:
        if p[0] < b"0" or p[0] > b"9":
            return 0
        number = number * 10 + <uint64_t>(p[0] - 48)
        p += 1
    return number


cdef class PointGet(BufferListener):
    """What arrives on one subject for requests.

    Args:
        stream: name of the stream, for the answers.
        key_at: where the subject that is asked for begins in the subject of a request; 0: requests have a body.
        slow: answers everything, with `(subject, reply, header, payload)`.
        find: gives `(sequence, bytes, position of the record in them, salt)` for a literal subject or a sequence.
    """

    cdef bytes _stream
    cdef Py_ssize_t _key_at
    cdef object _find
    cdef Delivery _delivery
    cdef Interest _interest

    def __cinit__(self, bytes stream not None, Py_ssize_t key_at, slow, find):
        self._stream = stream
        self._key_at = key_at
        self._slow = slow
        self._find = find
        self._delivery = None
        self._interest = None

    def bind(self, Delivery delivery not None, Interest interest not None):
        """Answer through these; before that everything is `slow`'s."""
        self._delivery = delivery
        self._interest = interest

    cdef Py_ssize_t fast(
        self, const char *subject, Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size,
        Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1:
        """1 when the question was answered; 0 when nothing was done."""
        cdef const char *key = subject + self._key_at
        cdef Py_ssize_t key_size = subject_size - self._key_at
        cdef uint64_t seq
        cdef object found
        if reply_size == 0 or header_size or self._delivery is None:
            return 0
        if self._key_at:
            if size or key_size <= 0 or memchr(key, b"*", key_size) != NULL or memchr(key, b">", key_size) != NULL:
                return 0
            found = self._find(PyBytes_FromStringAndSize(key, key_size))
        else:
            seq = sequence_in(body, size)
            if seq == 0:
                return 0
            found = self._find(seq)
        if found is None:
            return 0
        return self._answer(PyBytes_FromStringAndSize(reply, reply_size), <tuple?>found)

    cdef Py_ssize_t _answer(self, bytes reply, tuple found) except -1:
        cdef uint64_t seq = found[0]
        cdef bytes data = <bytes?>found[1]
        cdef Py_ssize_t at = found[2]
        cdef Py_ssize_t room = PyBytes_GET_SIZE(data) - at
        cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data) + at
        cdef const char *text
        cdef uint64_t salt = found[3], stored
        cdef int64_t time_ns
        cdef uint32_t headers_size, payload_size
        cdef uint16_t subject_size, flags
        cdef Py_ssize_t block, needed
        cdef char *start
        cdef char *q
        if at < 0 or record_size(p, room, <uint32_t>salt) == 0:
            return 0
        memcpy(&headers_size, p + 4, 4)
        memcpy(&stored, p + 8, 8)
        memcpy(&time_ns, p + 16, 8)
        memcpy(&subject_size, p + 24, 2)
        memcpy(&flags, p + 26, 2)
        memcpy(&payload_size, p + 28, 4)
        if (flags & KIND_MASK) != KIND_MSG or stored != seq or time_ns < 0 or headers_size == 1:
            return 0
        text = <const char *>p + HEAD + (8 if flags & FLAG_EXPIRES else 0)
        needed = (
            <Py_ssize_t>headers_size + 10 + LINES + PyBytes_GET_SIZE(self._stream) + subject_size + DIGITS + TIME_TEXT
            + payload_size
        )
        start = q = <char *>malloc(needed)
        if start == NULL:
            raise MemoryError()
        if headers_size:
            q = put_text(q, text + subject_size, headers_size - 2)
        else:
            q = put_text(q, b"NATS/1.0\r\n", 10)
        q = put_text(q, b"Nats-Stream: ", 13)
        q = put_text(q, PyBytes_AS_STRING(self._stream), PyBytes_GET_SIZE(self._stream))
        q = put_text(q, b"\r\nNats-Subject: ", 16)
        q = put_text(q, text, subject_size)
        q = put_text(q, b"\r\nNats-Sequence: ", 17)
        q = put_digits(q, seq, 1)
        q = put_text(q, b"\r\nNats-Time-Stamp: ", 19)
        q = put_time(q, time_ns)
        q = put_text(q, b"\r\n\r\n", 4)
        block = q - start
        q = put_text(q, text + subject_size + headers_size, payload_size)
        try:
            self._delivery.send(
                self._interest.answer_route(reply), None, PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply), NULL, 0, block,
                start, q - start,
            )
        finally:
            free(start)
        return 1
