# C types of the batches that consumers hand out. See handout.pyx.

from libc.stdint cimport uint64_t

from slipstream.kernels.index.subjectindex cimport Selection

cdef class Batch:
    cdef readonly Selection chosen
    cdef readonly Py_ssize_t record_bytes
    cdef list parts
    cdef const unsigned char **at
    cdef Py_ssize_t n, cap
    cpdef Py_ssize_t take(self, bytes data, Py_ssize_t base, uint64_t salt) except -1
