# What other kernels use of the bulk read kernel.

from libc.stdint cimport uint32_t, uint64_t


cdef uint32_t shifted(uint32_t register, uint64_t n) noexcept nogil
