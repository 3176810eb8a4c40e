# Columns of Arrow that grow, for the kernels that fill them. See arrowcolumns.pyx.
#
# What happens for every value is inline; what is rare (no room left, text beyond ASCII) is a call.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    bint unlikely(bint) noexcept nogil

cdef enum:
    COLUMN_MAX = 0x7FFFFFF0  # bytes; offsets are 31 bits


cdef class Block:
    cdef char *p
    cdef Py_ssize_t size


# All zeros is an empty one. The owner frees `p`, or hands it over with `taken`.
cdef struct Column:
    char *p
    Py_ssize_t size, cap
    Py_ssize_t expected  # size the last one had


cdef bint more_room(Column *c, Py_ssize_t n) noexcept nogil
cdef bint is_utf8(const unsigned char *p, Py_ssize_t n) noexcept nogil
cdef bint put_mended(Column *c, const unsigned char *p, Py_ssize_t n) noexcept with gil
cdef Block taken(Column *c)
cdef int end_offsets(Column *c, Py_ssize_t end) except -1


cdef inline bint put(Column *c, const void *data, Py_ssize_t n) noexcept nogil:
    if unlikely(n > c.cap - c.size) and not more_room(c, n):
        return False
    if n:  # an empty column has no memory yet, and from nowhere to nowhere nothing may be copied
        memcpy(c.p + c.size, data, n)
        c.size += n
    return True


cdef inline bint put_i32(Column *c, int32_t v) noexcept nogil:
    if unlikely(4 > c.cap - c.size) and not more_room(c, 4):
        return False
    (<int32_t *>(c.p + c.size))[0] = v
    c.size += 4
    return True


cdef inline bint put_i64(Column *c, int64_t v) noexcept nogil:
    if unlikely(8 > c.cap - c.size) and not more_room(c, 8):
        return False
    (<int64_t *>(c.p + c.size))[0] = v
    c.size += 8
    return True


cdef inline bint put_bit(Column *c, Py_ssize_t row, bint value) noexcept nogil:
    if row & 7 == 0:
        if unlikely(c.size == c.cap) and not more_room(c, 1):
            return False
        c.p[c.size] = 0
        c.size += 1
    if value:
        c.p[c.size - 1] = <char>(<uint8_t>c.p[c.size - 1] | (<uint8_t>1 << (row & 7)))
    return True


cdef inline bint is_ascii(const unsigned char *p, Py_ssize_t n) noexcept nogil:
    cdef uint64_t word, seen = 0
    cdef Py_ssize_t i = 0
    while i + 8 <= n:
        memcpy(&word, p + i, 8)
        seen |= word
        i += 8
    while i < n:
        seen |= p[i]
        i += 1
    # A byte at the end only reaches the low byte of `seen`, which the mask covers as well.
    return seen & <uint64_t>0x8080808080808080ULL == 0


cdef inline bint put_text(Column *c, const unsigned char *p, Py_ssize_t n) noexcept nogil:
    if is_ascii(p, n) or is_utf8(p, n):
        return put(c, p, n)
    return put_mended(c, p, n)
