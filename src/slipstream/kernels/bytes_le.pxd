# Little-endian numbers in memory, at any address: the layout of records, frames and stamps.
#
# Nothing to compile by itself: the functions become part of every kernel that cimports them. `memcpy` because an address
# need not be aligned; compilers make one load or store of it. The machine has to be little endian itself.

from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


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


cdef inline void put16(unsigned char *p, uint16_t v) noexcept nogil:
    memcpy(p, &v, 2)


cdef inline void put32(unsigned char *p, uint32_t v) noexcept nogil:
    memcpy(p, &v, 4)


cdef inline void put64(unsigned char *p, uint64_t v) noexcept nogil:
    memcpy(p, &v, 8)
