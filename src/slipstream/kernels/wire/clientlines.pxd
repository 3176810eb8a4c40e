# The lines that a client sends, taken apart: what `wire` parses.
#
# Nothing to compile by itself: the functions become part of the kernel that cimports them, so that no call leaves the loop
# over the bytes. Every read tests `end - p` first; sizes come from at most nine digits, so no sum can overflow. What is
# found are spans: they lie within the line and are as short-lived.

from cpython.bytes cimport PyBytes_FromStringAndSize

cdef enum:
    ARGS_MAX = 5
    SIZE_DIGITS_MAX = 9


cdef struct Span:
    const char *at
    Py_ssize_t size


cdef inline bytes span_bytes(Span span):
    return PyBytes_FromStringAndSize(span.at, span.size)


cdef inline int split(const char *p, const char *end, Span *args) noexcept nogil:
    """Cut blanks and tabs away; returns the number of arguments, ARGS_MAX + 1 for too many.

    Bytes that no subject may hold (NUL, form feed, CR) are too many as well: they would break the lines of others.
    """
    cdef int count = 0
    cdef const char *token
    while True:
        while p < end and (p[0] == b" " or p[0] == b"\t"):
            p += 1
        if p == end:
            return count
        if count == ARGS_MAX:
            return ARGS_MAX + 1
        token = p
        while p < end:
            if <unsigned char>p[0] <= 32:
                if p[0] == b" " or p[0] == b"\t":
                    break
                if p[0] == 0 or p[0] == 12 or p[0] == 13:
                    return ARGS_MAX + 1
            p += 1
        args[count].at = token
        args[count].size = p - token
        count += 1


cdef inline const char *skip_blanks(const char *p, const char *end) noexcept nogil:
    while p < end and (p[0] == b" " or p[0] == b"\t"):
        p += 1
    return p


cdef inline Py_ssize_t number(Span span) noexcept nogil:
    """A decimal size, or -1."""
    cdef Py_ssize_t value = 0
    cdef Py_ssize_t i
    if span.size == 0 or span.size > SIZE_DIGITS_MAX:
        return -1
    for i in range(span.size):
        if span.at[i] < b"0" or span.at[i] > b"9":
            return -1
        value = value * 10 + (span.at[i] - 48)
    return value


cdef inline bint starts(const char *p, const char *end, const char *verb, Py_ssize_t size) noexcept nogil:
    """Whether the bytes at `p` (as many as there are, at most `size`) begin the lower-case `verb`."""
    cdef Py_ssize_t i
    cdef Py_ssize_t n = end - p
    if n > size:
        n = size
    for i in range(n):
        if (p[i] | 0x20) != verb[i]:
            return False
    return True


cdef inline Py_ssize_t verb_length(char first, char second) noexcept nogil:
    """How long the verb is that begins with these letters, in any case; 0 if none does."""
    first |= 0x20
    if first == b"s":
        return 3
    if first == b"p":
        return 3 if (second | 0x20) == b"u" else 4
    if first == b"h" or first == b"i" or first == b"-":
        return 4
    if first == b"u":
        return 5
    return 7 if first == b"c" else 3 if first == b"+" else 0


cdef inline bytes without_idle_bytes(const char *p, const char *end):
    """A line that has no end yet, checked by `_check_partial`, without the bytes that nobody will ever look at."""
    cdef Py_ssize_t size = verb_length(p[0], p[1] if end - p > 1 else 0)
    cdef const char *args
    if end - p <= size + 1:
        return PyBytes_FromStringAndSize(p, end - p)
    if p[0] == b"+" or ((p[0] | 0x20) == b"p" and size == 4):
        # PING, PONG and +OK: what follows the word is never read.
        return PyBytes_FromStringAndSize(p, size)
    args = skip_blanks(p + size, end)
    if args - p <= size + 1:
        return PyBytes_FromStringAndSize(p, end - p)
    return PyBytes_FromStringAndSize(p, size + 1) + PyBytes_FromStringAndSize(args, end - args)
