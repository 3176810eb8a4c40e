# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Many short reads of one file, one behind the other in memory, without the GIL and without an object for each.

A stretch is a pair of 64-bit numbers, offset and length; stretches come packed in bytes, as `Chunk.stretches` of
`bulkscan` makes them.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_SetFromErrno
from libc.errno cimport EINTR, errno
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <sys/types.h>
    #include <sys/uio.h>
    #include <unistd.h>
    #include <errno.h>
    #ifdef __linux__
    #include <sys/syscall.h>
    #endif

    /* One read; with no_wait only of what is in memory already, which not every system can tell. The call is the kernel's
     * own: musl has a function for it only from 1.2.5 on, and a wheel is for all of 1.2. */
    static ssize_t read_once(int fd, void *to, size_t n, off_t at, int no_wait) {
    #ifdef SYS_preadv2
        if (no_wait) {
            struct iovec one = {to, n};
            const long only_what_is_there = 8; /* RWF_NOWAIT */
            return syscall(SYS_preadv2, (long)fd, &one, 1L, (long)at, 0L, only_what_is_there);
        }
    #else
        if (no_wait) {
            errno = EOPNOTSUPP;
            return -1;
        }
    #endif
        return pread(fd, to, n, at);
    }
    """
    Py_ssize_t read_once(int fd, void *to, size_t n, long long at, int no_wait) nogil


def read_stretches(int fd, bytes stretches not None, unsigned char[::1] room not None, bint wait=True):
    """Fill `room` with these stretches, one behind the other, as far as the file goes; the number of bytes.

    The first stretch that is not there whole is the last. Without `wait`, one that is not in memory ends it, too.

    Raises:
        OSError: a read failed; never without `wait`.
        ValueError: there is too little room.
    """
    cdef Py_ssize_t count = PyBytes_GET_SIZE(stretches) // 16, k
    cdef const char *p = PyBytes_AS_STRING(stretches)
    cdef uint64_t pair[2]
    cdef uint64_t total = 0, size = <uint64_t>room.shape[0]
    cdef unsigned char *to
    cdef Py_ssize_t done = 0, got = 1, left
    cdef bint failed = False
    for k in range(count):
        memcpy(pair, p + 16 * k, 16)
        if pair[1] > size - total:
            raise ValueError("there is too little room for the stretches")
        total += pair[1]
    if total == 0:
        return 0
    to = &room[0]
    with nogil:
        for k in range(count):
            memcpy(pair, p + 16 * k, 16)
            left = <Py_ssize_t>pair[1]
            while left:
                got = read_once(fd, to + done, left, <long long>(pair[0] + pair[1]) - left, not wait)
                if got < 0 and errno == EINTR:
                    continue
                if got <= 0:
                    break
                done += got
                left -= got
            if left:
                failed = got < 0
                break
    if failed and wait:
        PyErr_SetFromErrno(OSError)
    return done
