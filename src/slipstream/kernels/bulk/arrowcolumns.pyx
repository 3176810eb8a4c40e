# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Columns of Arrow that grow: values, offsets, validity bits and text, each one buffer.

    put_i32, put_i64, put_bit, put, put_text ──► Column ──taken──► Block, as pyarrow's from_buffers wants it

A `Column` is plain memory, aligned as Arrow likes it, at most `COLUMN_MAX` bytes because offsets have 31 bits. The puts
give False when it cannot grow, and leave it as it was. Text that is not UTF-8 gets U+FFFD in the place of what is not;
whether it is, costs one test of eight bytes at a time as long as it is ASCII.

Memory: a `Block` belongs to whoever holds it and is never written again; the column behind it starts anew, as large as
the last one became. Complexity: O(bytes), amortised. Which columns there are and what they mean is `arrowrows`.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void **p, size_t alignment, size_t n)

cdef extern from "Python.h":
    str PyUnicode_DecodeUTF8(const char *s, Py_ssize_t n, const char *errors)

cdef enum:
    ALIGNMENT = 64
    SMALLEST = 1024


cdef class Block:
    """Memory of one Arrow buffer, through the buffer protocol."""

    def __dealloc__(self):
        free(self.p)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.p, self.size, 1, flags)


cdef bint more_room(Column *c, Py_ssize_t n) noexcept nogil:
    """Room for `n` more bytes; False: no memory, or the column would be too long."""
    cdef Py_ssize_t cap
    cdef void *grown = NULL
    if n > COLUMN_MAX - c.size:
        return False
    cap = max(c.cap * 2, c.size + n, c.expected + (c.expected >> 3), <Py_ssize_t>SMALLEST)
    cap = (cap + ALIGNMENT - 1) & ~<Py_ssize_t>(ALIGNMENT - 1)
    if posix_memalign(&grown, ALIGNMENT, cap) != 0:
        return False
    if c.size:
        memcpy(grown, c.p, c.size)
    free(c.p)
    c.p = <char *>grown
    c.cap = cap
    return True


cdef bint is_utf8(const unsigned char *p, Py_ssize_t n) noexcept nogil:
    """Whether these bytes are well-formed UTF-8 (Unicode table 3-7)."""
    cdef Py_ssize_t i = 0, k, more
    cdef unsigned char c, lo, hi
    while i < n:
        c = p[i]
        i += 1
        if c < 0x80:
            continue
        lo, hi = 0x80, 0xBF
        if 0xC2 <= c <= 0xDF:
            more = 1
        elif 0xE0 <= c <= 0xEF:
            more = 2
            if c == 0xE0:
                lo = 0xA0
            elif c == 0xED:
                hi = 0x9F
        elif 0xF0 <= c <= 0xF4:
            more = 3
            if c == 0xF0:
                lo = 0x90
            elif c == 0xF4:
                hi = 0x8F
        else:
            return False
        if n - i < more or p[i] < lo or p[i] > hi:
            return False
        for k in range(1, more):
            if p[i + k] < 0x80 or p[i + k] > 0xBF:
                return False
        i += more
    return True


cdef bint put_mended(Column *c, const unsigned char *p, Py_ssize_t n) noexcept with gil:
    """Append text with U+FFFD in the place of what is not UTF-8."""
    cdef bytes text
    try:
        text = PyUnicode_DecodeUTF8(<const char *>p, n, "replace").encode()
    except MemoryError:
        return False
    return put(c, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef Block taken(Column *c):
    """Hand over the memory of a column."""
    cdef Block block = Block()
    if c.p == NULL and not more_room(c, 0):
        raise MemoryError()
    block.p, block.size = c.p, c.size
    c.expected = c.size
    c.p = NULL
    c.size = c.cap = 0
    return block


cdef int end_offsets(Column *c, Py_ssize_t end) except -1:
    if not put_i32(c, <int32_t>end):
        raise MemoryError()
    return 0
