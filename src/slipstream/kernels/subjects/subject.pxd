# C types for subject.py. The public functions take bytes; the *_span functions take pointer and length, so that other
# kernels can cimport them and work on slices of a read buffer without making objects. All spans read only [0, n).

cimport cython
from libc.stdint cimport uint32_t

cpdef bint is_valid_subscription(bytes subject)
cpdef bint is_valid_publish(bytes subject)
cpdef bint is_literal(bytes subject)
cpdef bint matches(bytes pattern, bytes literal)
cpdef bint is_subset(bytes narrow, bytes wide)
cpdef bint overlaps(bytes a, bytes b)

@cython.locals(s=cython.p_const_uchar, n=Py_ssize_t, i=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t token_count(bytes subject)

@cython.locals(s=cython.p_const_uchar, n=Py_ssize_t, i=Py_ssize_t, h=uint32_t, mask=uint32_t)
cpdef uint32_t partition_hash(bytes key)

@cython.locals(start=Py_ssize_t, i=Py_ssize_t, c=cython.uchar)
cdef bint valid_span(const unsigned char* s, Py_ssize_t n) noexcept nogil

@cython.locals(i=Py_ssize_t, c=cython.uchar)
cdef bint literal_span(const unsigned char* s, Py_ssize_t n) noexcept nogil

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, start=Py_ssize_t)
cdef bint match_span(const unsigned char* p, Py_ssize_t pn, const unsigned char* s, Py_ssize_t sn) noexcept nogil

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, start=Py_ssize_t)
cdef bint subset_span(const unsigned char* a, Py_ssize_t an, const unsigned char* b, Py_ssize_t bn) noexcept

@cython.locals(i=Py_ssize_t, j=Py_ssize_t, start=Py_ssize_t)
cdef bint overlap_span(const unsigned char* a, Py_ssize_t an, const unsigned char* b, Py_ssize_t bn) noexcept

@cython.locals(i=Py_ssize_t)
cdef bint whole_tokens(const unsigned char* s, Py_ssize_t start, Py_ssize_t n) noexcept nogil
