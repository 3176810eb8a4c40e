# Header blocks cut into lines, for the kernels that want them by name. See headerlines.pyx.

from libc.stdint cimport uint32_t


cdef struct Line:
    const unsigned char *name
    const unsigned char *value
    uint32_t name_size, value_size
    uint32_t next   # next line with the same name, 0 for none (the first line is never next)
    uint32_t tail   # of a first line: last of its chain
    bint first


# The lines of one block, and the memory for those of the next. All zeros is an empty one.
cdef struct HeaderLines:
    Line *lines
    uint32_t n, cap
    uint32_t *slots  # hash table of names: number of the line + 1, 0 for none
    uint32_t n_slots


cdef bint split_headers(HeaderLines *h, const unsigned char *p, uint32_t size) noexcept nogil
cdef void free_headers(HeaderLines *h) noexcept nogil
