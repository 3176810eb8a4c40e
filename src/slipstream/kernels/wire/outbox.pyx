# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Bytes waiting to be sent to one connection, and the queue of connections that have some.

Everything written to a connection during one turn of the event loop lands in its `Outbox`; the `FlushQueue`
asks for one flush at the end of the turn, so a thousand messages cost one write. When more than `early_at` bytes wait
they are handed over at once: a turn may read megabytes, and what is sent while it is still in the cache costs half.

    reserve(n) ──► caller fills n bytes ──► advance(n) ──► ... ──► take() ──► bytes objects, handed over uncopied
    put_whole(bytes object), for large ones ───────────────────────┘

A buffer *is* the bytes object that `take` returns: it is created larger than needed, filled while nobody else holds a
reference, and shrunk when it is full or taken. An outbox that nobody empties grows by whole buffers; nothing is
copied again, and buffers stay small enough to come from memory that was used before.

Limits: `limit` bounds what waits here plus what the transport still holds (`in_flight`). Past it the outbox drops
its content, takes nothing more, and is listed once in `FlushQueue.overflowed` for the owner to judge.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF, Py_INCREF
from libc.string cimport memcpy

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX
    int _PyBytes_Resize(PyObject **bytes, Py_ssize_t newsize) except -1

cdef extern from *:
    """
    #if defined(__GLIBC__)
    #include <malloc.h>
    static int keep_freed_memory(int bytes) {
        const int most = 32 * 1024 * 1024;  /* what the allocator allows */
        return mallopt(M_TRIM_THRESHOLD, bytes) && mallopt(M_MMAP_THRESHOLD, bytes < most ? bytes : most);
    }
    #else
    static int keep_freed_memory(int bytes) { (void)bytes; return 0; }
    #endif
    """
    int keep_freed_memory(int bytes)

cdef enum:
    SMALLEST_BUFFER = 512
    # Above the size at which an outbox is flushed early, so that usually one buffer is enough.
    LARGEST_BUFFER = 98304


def reuse_freed_memory(int size):
    """Ask the allocator to keep up to `size` freed bytes instead of returning them: fresh pages cost more than a copy.

    For a process that is a server; a library has no business changing this. False where it cannot be changed.
    """
    return bool(keep_freed_memory(size))


cdef class FlushQueue:
    """The outboxes with something to send, in the order in which they got it. `written` counts all bytes ever."""

    def __cinit__(self, schedule, flush_now=None):
        self._dirty = []
        self._schedule = schedule
        self._flush_now = flush_now
        self.overflowed = []
        self.written = 0

    def take_dirty(self):
        """The outboxes to flush now; each may be listed again from here on."""
        cdef list dirty = self._dirty
        cdef Outbox outbox
        self._dirty = []
        for outbox in dirty:
            outbox._dirty = False
        return dirty

    def take_overflowed(self):
        """The outboxes that went over their limit since the last call."""
        cdef list overflowed = self.overflowed
        self.overflowed = []
        return overflowed


cdef class Outbox:
    """Pending output of one connection. `owner` is whatever the flusher needs to find the transport."""

    def __cinit__(self, FlushQueue queue, owner, Py_ssize_t limit):
        self._full = None
        self._buffer = None
        self._used = 0
        self._waiting = 0
        self._capacity = 0
        self._next_capacity = SMALLEST_BUFFER
        self._dirty = False
        self._closed = False
        self._queue = queue
        self.owner = owner
        self.limit = limit
        self.stall_at = limit - limit // 4
        self.in_flight = 0
        self.early_at = limit
        self.msgs = 0
        self.msg_bytes = 0
        self.overflowed = False

    @property
    def waiting(self):
        """Bytes here, not yet handed to the transport."""
        return self._waiting

    @property
    def pending(self):
        """Bytes here and in the transport: what a monitoring tool calls pending."""
        return self._waiting + self.in_flight

    def write(self, bytes data):
        """Append protocol bytes that are not a message (INFO, PONG, +OK, -ERR)."""
        cdef Py_ssize_t size = len(data)
        if self._closed or size == 0:
            return
        memcpy(self.reserve(size), PyBytes_AS_STRING(data), size)
        self.advance(size)
        self._touch()

    def write_whole(self, bytes data):
        """The same with a large object, which is not copied."""
        if self._closed or len(data) == 0:
            return
        self.put_whole(data)
        self._touch()

    def flush_early(self):
        """Hand over what waits before the turn ends, if it is much."""
        if self._waiting > self.early_at:
            self._flush_early()

    def take(self, Py_ssize_t most=PY_SSIZE_T_MAX):
        """Hand over what waits, the first `most` bytes of it: a list of bytes objects, or views of parts of such."""
        cdef list taken
        cdef Py_ssize_t waiting = self._waiting
        if waiting == 0:
            return []
        if waiting > most:
            return self._take_part(most)
        self._seal()
        taken = self._full
        self._full = None
        self._waiting = 0
        self._next_capacity = max(<Py_ssize_t>SMALLEST_BUFFER, min(waiting + (waiting >> 3), <Py_ssize_t>LARGEST_BUFFER))
        return taken

    cdef list _take_part(self, Py_ssize_t most):
        """The first `most` bytes; an object that lies across the end is cut without being copied."""
        cdef list taken = []
        cdef Py_ssize_t size, left = most, count = 0
        if self._waiting - self._used < most:
            self._seal()
        while left > 0:
            chunk = self._full[count]
            size = len(chunk)
            if size > left:
                view = memoryview(chunk)
                taken.append(view[:left])
                self._full[count] = view[left:]
                size = left
            else:
                taken.append(chunk)
                count += 1
            left -= size
        del self._full[:count]
        self._waiting -= most
        return taken

    cdef int _seal(self) except -1:
        """The buffer under way is complete: cut it to size and put it with the others."""
        cdef PyObject *filled
        if self._used == 0:
            return 0
        if self._full is None:
            self._full = []
        if self._used != self._capacity:
            # The resize needs the only reference, so ours moves into `filled`.
            filled = <PyObject *>self._buffer
            Py_INCREF(self._buffer)
            self._buffer = None
            _PyBytes_Resize(&filled, self._used)
            self._full.append(<object>filled)
            Py_XDECREF(filled)
        else:
            self._full.append(self._buffer)
            self._buffer = None
        self._used = 0
        self._capacity = 0
        return 0

    def requeue(self):
        """List this outbox for the next flush although nothing was written just now."""
        if self._waiting:
            self._touch()

    def close(self):
        """Drop what waits and refuse all that comes."""
        self._closed = True
        self._full = None
        self._buffer = None
        self._used = 0
        self._waiting = 0
        self._capacity = 0

    cdef char* reserve(self, Py_ssize_t size) except NULL:
        """Room for `size` more bytes; the caller fills it and calls `advance`."""
        cdef Py_ssize_t capacity
        cdef object larger
        if self._used + size > self._capacity:
            if self._used and self._used + size > LARGEST_BUFFER:
                self._seal()
                self._next_capacity = LARGEST_BUFFER
            capacity = max(self._next_capacity, self._used + size)
            if self._capacity:
                capacity = max(capacity, min(self._capacity * 2, <Py_ssize_t>LARGEST_BUFFER))
            larger = PyBytes_FromStringAndSize(NULL, capacity)
            if self._used:
                memcpy(PyBytes_AS_STRING(larger), PyBytes_AS_STRING(self._buffer), self._used)
            self._buffer = larger
            self._capacity = capacity
        return PyBytes_AS_STRING(self._buffer) + self._used

    cdef int put_whole(self, bytes data) except -1:
        """Append a large bytes object as it is: nothing is copied, and it must not change any more."""
        self._seal()
        if self._full is None:
            self._full = []
        self._full.append(data)
        self._waiting += PyBytes_GET_SIZE(data)
        self._queue.written += PyBytes_GET_SIZE(data)
        return 0

    cdef inline void advance(self, Py_ssize_t size) noexcept:
        self._used += size
        self._waiting += size
        self._queue.written += size

    cdef int _flush_early(self) except -1:
        if self._queue._flush_now is None:
            self.early_at = self.limit
        else:
            self._queue._flush_now(self)
        return 0

    cdef int _touch(self) except -1:
        """Called after every write: ask for a flush once, notice an overflow once."""
        if self._waiting + self.in_flight > self.limit:
            if not self.overflowed:
                self.overflowed = True
                self.close()
                self._queue.overflowed.append(self)
                if not self._queue._dirty:
                    self._queue._schedule()
            return 0
        if not self._dirty:
            self._dirty = True
            if not self._queue._dirty and not self._queue.overflowed:
                self._queue._schedule()
            self._queue._dirty.append(self)
        return 0
