# C types of the batches that consumers hand out. See handout.pyx.

from slipstream.kernels.subjectindex cimport Selection

cdef class Batch:
    cdef readonly Selection chosen
    cdef list parts
    cdef const unsigned char **at
    cdef Py_ssize_t n, cap
