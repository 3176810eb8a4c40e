# Memory of the C heap that grows, with one owner who frees it.
#
# Nothing to compile by itself: the functions become part of every kernel that cimports them.

from libc.stdlib cimport realloc
from libc.string cimport memcpy

# Bytes that are appended to. All zeros is an empty one; `free(at)` is its end.
cdef struct Store:
    char* at
    Py_ssize_t size
    Py_ssize_t room


cdef inline bint store_append(Store* store, const char* p, Py_ssize_t size) noexcept nogil:
    """False: no memory; the store is as before."""
    cdef Py_ssize_t room
    cdef char* more
    if size > store.room - store.size:
        room = max(2 * store.room, store.size + size, 512)
        more = <char*>realloc(store.at, room)
        if more == NULL:
            return False
        store.at, store.room = more, room
    if size:
        memcpy(store.at + store.size, p, size)
        store.size += size
    return True


cdef inline void *grown(void *p, size_t n) except NULL:
    """`realloc` that raises; NULL is a good beginning, and 0 bytes are some."""
    cdef void *q = realloc(p, n if n else 1)
    if q == NULL:
        raise MemoryError()
    return q
