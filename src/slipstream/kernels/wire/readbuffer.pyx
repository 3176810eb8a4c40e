# cython: language_level=3, boundscheck=False, wraparound=False
"""What a connection has sent and nobody has parsed yet: between the reads of a socket and a parser of operations.

    lend ──► the socket reads ──► filled ─┐
                     bytes from elsewhere ─┴─► Unparsed ──► the parser ──► keep: what is left of an operation

A read goes into a buffer that all connections share, behind what was left of the last one. What is incomplete is kept: a
line or a message up to `HELD_MESSAGE_MAX` as it is, a larger message in a buffer of its own that the next reads fill
directly. While the parser is paused, reads go into a small buffer of this connection's own, and wait.

Not parsing: nothing in here knows what an operation is. It does not call the parser either, but hands out what is to be
parsed, with the object that owns these bytes; whoever parses holds on to it.

Memory: `waiting_max` while it is paused, else what the parser lets an operation have. Complexity: O(bytes kept) a read; a
large message is copied once.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

cdef enum:
    # Larger incomplete messages are received in place; smaller ones are cheaper to copy than an extra system call.
    HELD_MESSAGE_MAX = 65536
    # Reads that arrive while an answer about the peer is awaited; the listener stops reading, so they are few. And reads
    # behind a line that is so long that the shared buffer has no room left.
    ASIDE_SIZE = 16384


cdef class ReadBuffer:
    """Of one connection, for its parser.

    Attributes:
        paused: nothing is parsed now.
        waiting_max: bytes that may wait meanwhile.
    """

    @property
    def held(self):
        """Bytes kept of an incomplete operation."""
        return self.size()

    cdef Py_ssize_t size(self):
        """The same, for kernels."""
        if self._message is not None:
            return self._have
        return 0 if self._held is None else PyBytes_GET_SIZE(self._held)

    cdef int stop(self) except -1:
        """Keep nothing."""
        self._held = None
        self._message = None
        self._aside = None
        return 0

    cdef bytes resume(self):
        """Parsing goes on; with these bytes, if some have waited."""
        cdef bytes held = self._held
        self.paused = False
        self._aside = None
        self._held = None
        return held

    cdef object lend(self, bytearray shared):
        """Where the next read should put its bytes. `shared` is used until `filled` is called, then free again."""
        cdef Py_ssize_t held
        if self.reads_aside(shared):
            if self._aside is None:
                self._aside = bytearray(ASIDE_SIZE)
            return self._aside
        if self._message is not None:
            return memoryview(self._message)[self._have:]
        if self._held is None:
            return shared
        held = PyBytes_GET_SIZE(self._held)
        memcpy(PyByteArray_AS_STRING(shared), PyBytes_AS_STRING(self._held), held)
        return memoryview(shared)[held:]

    cdef bint reads_aside(self, bytearray shared):
        """Whether reads go to a buffer of this connection's own: they are not parsed now, or do not fit behind the rest."""
        if self.paused or self._message is not None or self._held is None:
            return self.paused
        return PyBytes_GET_SIZE(self._held) > PyByteArray_GET_SIZE(shared) // 2

    cdef bytes aside(self, Py_ssize_t size):
        """What a read put there."""
        return bytes(self._aside[:size])

    cdef object filled(self, bytearray shared, Py_ssize_t size, Unparsed *found):
        """The read put `size` bytes where `lend` said, which was not aside: what is to be parsed now, and who owns it."""
        if self._message is not None:
            self._have += size
            return self._whole_message(found)
        found.at = PyByteArray_AS_STRING(shared)
        found.size = size
        if self._held is not None:
            found.size += PyBytes_GET_SIZE(self._held)
        return shared

    cdef object fed(self, bytes data, Py_ssize_t *at, Unparsed *found):
        """Bytes that were read elsewhere, from `at` on, which is moved: what is to be parsed now, and who owns it."""
        cdef Py_ssize_t left = PyBytes_GET_SIZE(data) - at[0]
        cdef Py_ssize_t taken
        if not self.paused and self._message is not None:
            taken = min(left, self._need - self._have)
            memcpy(PyByteArray_AS_STRING(self._message) + self._have, PyBytes_AS_STRING(data) + at[0], taken)
            self._have += taken
            at[0] += taken
            return self._whole_message(found)
        if self._held is not None:
            data = self._held + data[at[0]:]
            found.at = PyBytes_AS_STRING(data)
            found.size = PyBytes_GET_SIZE(data)
        else:
            found.at = PyBytes_AS_STRING(data) + at[0]
            found.size = left
        at[0] += left
        if self.paused:
            self._held = PyBytes_FromStringAndSize(found.at, found.size)
            return None
        return data

    cdef object _whole_message(self, Unparsed *found):
        """The large message under way, if all of it is there."""
        cdef object message = self._message
        if self._have != self._need:
            return None
        self._message = None
        found.at = PyByteArray_AS_STRING(message)
        found.size = self._need
        return message

    cdef int parsed(self) except -1:
        """What was handed out is parsed, and nothing of it has to be kept."""
        self._held = None
        return 0

    cdef int keep(self, const char *rest, Py_ssize_t size, Py_ssize_t need) except -1:
        """Keep what is left of it: an operation that takes `need` bytes in all, as far as that is known."""
        if need > HELD_MESSAGE_MAX:
            self._message = PyByteArray_FromStringAndSize(NULL, need)
            memcpy(PyByteArray_AS_STRING(self._message), rest, size)
            self._have = size
            self._need = need
            self._held = None
        else:
            self._held = PyBytes_FromStringAndSize(rest, size)
        return 0

    cdef int hold(self, bytes rest) except -1:
        """The same for a part of it that stands for the whole."""
        self._held = rest
        return 0

    cdef bytes overflow(self):
        """What waits while this is paused, if that is more than may: it is not kept then."""
        cdef bytes held = self._held
        if not self.paused or held is None or PyBytes_GET_SIZE(held) <= self.waiting_max:
            return None
        self._held = None
        return held
