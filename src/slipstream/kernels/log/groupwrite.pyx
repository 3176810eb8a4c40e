# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Short writes to many files, and one sync of a whole file system, without the GIL and for the disk layer alone.

A thread that gives up the GIL for every write of a thousand waits for it a thousand times.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_SetFromErrno
from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <sys/types.h>
    #include <unistd.h>
    #include <errno.h>

    static int sync_file_system(int fd) {
    #ifdef __linux__
        return syncfs(fd);
    #else
        errno = ENOSYS;
        return -1;
    #endif
    }
    """
    int sync_file_system(int fd) nogil
    Py_ssize_t pwrite(int fd, const void *data, size_t n, long long at) nogil

cdef struct Write:
    int fd
    int error
    int64_t offset
    const char *data
    Py_ssize_t left


def write_all(list fds not None, list offsets not None, list datas not None):
    """Write each bytes object at its offset of its descriptor; for each the error number, 0 for success.

    One that fails does not keep the others.
    """
    cdef Py_ssize_t n = len(fds), i, got
    cdef Write *writes
    cdef Write *w
    cdef bytes data
    if len(offsets) != n or len(datas) != n:
        raise ValueError("one offset and one bytes object for each descriptor")
    writes = <Write *>malloc((n if n else 1) * sizeof(Write))
    if writes == NULL:
        raise MemoryError()
    try:
        for i in range(n):
            data = datas[i]
            writes[i].fd = fds[i]
            writes[i].error = 0
            writes[i].offset = offsets[i]
            writes[i].data = PyBytes_AS_STRING(data)
            writes[i].left = PyBytes_GET_SIZE(data)
        with nogil:
            for i in range(n):
                w = &writes[i]
                while w.left:
                    got = pwrite(w.fd, w.data, w.left, w.offset)
                    if got < 0 and errno == EINTR:
                        continue
                    if got <= 0:
                        w.error = errno if got < 0 else EIO
                        break
                    w.data += got
                    w.left -= got
                    w.offset += got
        return [writes[i].error for i in range(n)]
    finally:
        free(writes)


def sync_whole(int fd):
    """Return when everything written so far to the file system of this descriptor is on stable storage.

    Raises:
        OSError: it is not, or this system cannot do that.
    """
    cdef int got
    while True:
        with nogil:
            got = sync_file_system(fd)
        if got == 0:
            return
        if errno != EINTR:
            PyErr_SetFromErrno(OSError)
