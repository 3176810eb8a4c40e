# The lines that another server sends, taken apart: what `linkparser` parses.
#
# Nothing to compile by itself: the functions become part of the kernel that cimports them, so that no call leaves the loop
# over the bytes. Every read tests the end first; what is found are spans, which lie within the line.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from slipstream.kernels.wire.clientlines cimport Span, number, skip_blanks, span_bytes

cdef enum:
    # What is wrong with a line; 0: nothing. Python knows them by other names, see `linkparser`.
    IS_UNKNOWN = 1
    HAS_BAD_ARGUMENTS = 2
    IS_TOO_LONG = 3
    IS_TOO_LARGE = 4
    HAS_HEADERS = 5
    WAITS_TOO_LONG = 6
    IS_EARLY = 7


cdef inline bint blank(char byte) noexcept nogil:
    return byte == b" " or byte == b"\t"


cdef inline Span first_word(const char **at, const char *end) noexcept nogil:
    """The next word, and `at` behind it; an empty one at the end."""
    cdef Span word
    cdef const char *p = skip_blanks(at[0], end)
    word.at = p
    while p < end and not blank(p[0]):
        p += 1
    word.size = p - word.at
    at[0] = p
    return word


cdef inline Span last_word(const char *p, const char **end) noexcept nogil:
    """The last word, and `end` before it; an empty one if there is none."""
    cdef Span word
    cdef const char *q = end[0]
    while q > p and blank((q - 1)[0]):
        q -= 1
    word.size = 0
    while q > p and not blank((q - 1)[0]):
        q -= 1
        word.size += 1
    word.at = q
    end[0] = q
    return word


cdef inline bint clean(const char *p, const char *end) noexcept nogil:
    """Whether a line holds no byte that would break the lines of others."""
    while p < end:
        if p[0] == 0 or p[0] == 12 or p[0] == 13:
            return False
        p += 1
    return True


cdef inline tuple words(const char *p, const char *end):
    """All words of a stretch."""
    cdef list found = []
    cdef Span word = first_word(&p, end)
    while word.size:
        found.append(span_bytes(word))
        word = first_word(&p, end)
    return tuple(found)


cdef inline Py_ssize_t number_of(bytes word) except -2:
    """A word as a number; -1: it is none."""
    cdef Span span
    span.at = PyBytes_AS_STRING(word)
    span.size = PyBytes_GET_SIZE(word)
    return number(span)
