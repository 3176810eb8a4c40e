# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Incoming WebSocket frames (RFC 6455): bytes in, unmasked payload out, however the bytes are cut. And masks for the
payload that a client sends.

     0 1 2 3 4 5 6 7   0 1 2 3 4 5 6 7
    +-+-+-+-+-------+ +-+-------------+----------------------+-----------------+---------
    |F|1|2|3|opcode | |M| 0..125      |                      | mask key, if M  | payload
    +-+-+-+-+-------+ +-+ 126         | 16-bit length        |                 |
                      |   127         | 64-bit length        |                 |

`feed` returns a list of (kind, payload). Payload of uncompressed frames comes as it arrives and the pieces of one
read are joined over frame borders, so one read is mostly one `DATA`, which may come after a ping or pong that stood in
its middle. Frames of a compressed message
come as `COMPRESSED`, the last piece as `COMPRESSED_END`. A control frame comes whole. What the peer did wrong is the last
entry, its kind `FAULT` or higher; after it, and after a close frame, the reader is dead and returns nothing.

Nothing is decided here: texts, close codes and limits belong to the caller. No payload is kept between two calls but that
of an incomplete control frame (at most 125 bytes), so a frame of any announced length costs no memory.

Every read of the input tests `end - p` first. A length is compared with what is there, never added to a pointer.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *, Py_ssize_t size) except NULL
    char *bytes_at "PyBytes_AS_STRING"(PyObject *whole)
    int _PyBytes_Resize(PyObject **whole, Py_ssize_t size) except -1

# Payload.
DATA = 0
COMPRESSED = 1
COMPRESSED_END = 2
# Control frames: their opcodes.
CLOSE = 8
PING = 9
PONG = 10
# Faults; everything from FAULT on. The payload is empty but for UNKNOWN_OPCODE: the opcode as one byte.
FAULT = 16
RESERVED_BITS = 16
COMPRESSION_NOT_NEGOTIATED = 17
MASK_MISSING = 18
CONTROL_TOO_LONG = 19
CONTROL_FRAGMENTED = 20
CONTROL_COMPRESSED = 21
MESSAGE_INTERLEAVED = 22
CONTINUATION_INVALID = 23
UNKNOWN_OPCODE = 24
LENGTH_INVALID = 25

cdef enum:
    FINAL_BIT = 0x80
    COMPRESSED_BIT = 0x40
    RESERVED_MASK = 0x30
    OPCODE_MASK = 0x0F
    MASK_BIT = 0x80
    LENGTH_MASK = 0x7F
    LENGTH_16 = 126
    LENGTH_64 = 127
    HEAD_MIN = 2
    HEAD_MAX = 14
    CONTROL_PAYLOAD_MAX = 125
    OPCODE_CONTINUATION = 0
    OPCODE_TEXT = 1
    OPCODE_BINARY = 2
    OPCODE_CLOSE = 8
    OPCODE_PONG = 10


cdef inline void unmask(const unsigned char *source, unsigned char *target, Py_ssize_t size, const unsigned char *key,
                        unsigned phase) noexcept nogil:
    """XOR with the key, which is already `phase` bytes further."""
    cdef unsigned char turned[8]
    cdef uint64_t mask, word
    cdef Py_ssize_t i = 0
    cdef unsigned k
    for k in range(8):
        turned[k] = key[(phase + k) & 3]
    memcpy(&mask, turned, 8)
    while size - i >= 8:
        memcpy(&word, source + i, 8)
        word ^= mask
        memcpy(target + i, &word, 8)
        i += 8
    while i < size:
        target[i] = source[i] ^ turned[i & 7]
        i += 1


cdef class FrameReader:
    """Reads the frames one peer sends.

    Args:
        require_mask: a frame without a mask is a fault (what clients send has to be masked).
        allow_compressed: permessage-deflate was negotiated, so RSV1 may mark a compressed message.
    """
    cdef readonly bint dead
    cdef bint _require_mask
    cdef bint _allow_compressed
    # The head being collected; `_head_need` grows from 2 when its length is known.
    cdef unsigned char _head[HEAD_MAX]
    cdef int _head_have
    cdef int _head_need
    # The frame whose payload is being read: opcode, bytes still to come, mask.
    cdef bint _in_payload
    cdef int _opcode
    cdef uint64_t _remaining
    cdef bint _masked
    cdef unsigned char _key[4]
    cdef unsigned _phase
    # The message: whether its last frame began (or none is open), whether it is compressed.
    cdef bint _final
    cdef bint _compressed
    # Payload of an incomplete control frame.
    cdef unsigned char _control[CONTROL_PAYLOAD_MAX]
    cdef int _control_have

    def __cinit__(self, bint require_mask, bint allow_compressed):
        self._require_mask = require_mask
        self._allow_compressed = allow_compressed
        self.dead = False
        self._head_have = 0
        self._head_need = HEAD_MIN
        self._in_payload = False
        self._opcode = 0
        self._remaining = 0
        self._masked = False
        self._phase = 0
        self._final = True
        self._compressed = False
        self._control_have = 0

    def feed(self, data):
        """Read the next bytes of the stream; returns what they held."""
        cdef Py_buffer view
        cdef list events = []
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self._read(<const unsigned char *>view.buf, view.len, events)
        finally:
            PyBuffer_Release(&view)
        return events

    cdef int _read(self, const unsigned char *p, Py_ssize_t size, list events) except -1:
        cdef const unsigned char *end = p + size
        cdef Py_ssize_t taken
        cdef int fault
        # Plain payload of this read, joined over frames until something has to come in between. The object is ours
        # alone until it is cut to size, so it may be written and resized.
        cdef PyObject *plain = NULL
        cdef Py_ssize_t plain_size = 0
        try:
            while not self.dead:
                if not self._in_payload:
                    p = self._collect_head(p, end, &fault)
                    if fault:
                        plain_size = emit_plain(events, plain, plain_size)
                        events.append((fault, bytes([self._opcode]) if fault == UNKNOWN_OPCODE else b""))
                        self.dead = True
                    if not self._in_payload:
                        break
                taken = end - p
                if <uint64_t>taken > self._remaining:
                    taken = <Py_ssize_t>self._remaining
                self._remaining -= <uint64_t>taken
                if self._opcode >= OPCODE_CLOSE:
                    self._take_control(p, taken)
                    if self._remaining == 0:
                        if self._opcode == OPCODE_CLOSE:
                            plain_size = emit_plain(events, plain, plain_size)
                            self.dead = True
                        events.append((self._opcode, PyBytes_FromStringAndSize(<char *>self._control, self._control_have)))
                elif self._compressed:
                    plain_size = emit_plain(events, plain, plain_size)
                    self._take_compressed(p, taken, events)
                elif taken:
                    if plain == NULL:
                        plain = new_bytes(NULL, end - p)
                    self._unmask(p, <unsigned char *>bytes_at(plain) + plain_size, taken)
                    plain_size += taken
                p += taken
                if self._remaining:
                    break
                self._in_payload = False
                self._head_have = 0
                self._head_need = HEAD_MIN
            if plain_size:
                _PyBytes_Resize(&plain, plain_size)
                events.append((DATA, <object>plain))
        finally:
            Py_XDECREF(plain)
        return 0

    cdef const unsigned char *_collect_head(self, const unsigned char *p, const unsigned char *end, int *fault) noexcept:
        """Take bytes of a frame head; sets `_in_payload` when it is complete. Returns where it stopped."""
        fault[0] = 0
        while self._head_have < self._head_need:
            if p == end:
                return p
            self._head[self._head_have] = p[0]
            self._head_have += 1
            p += 1
            if self._head_have == HEAD_MIN:
                fault[0] = self._check_head()
                if fault[0]:
                    return p
        fault[0] = self._finish_head()
        return p

    cdef int _check_head(self) noexcept:
        """The first two bytes are there: check them and find out how long the head is. Returns a fault or 0."""
        cdef unsigned char first = self._head[0]
        cdef unsigned char second = self._head[1]
        cdef bint final = (first & FINAL_BIT) != 0
        cdef bint compressed = (first & COMPRESSED_BIT) != 0
        cdef int length = second & LENGTH_MASK
        self._opcode = first & OPCODE_MASK
        self._masked = (second & MASK_BIT) != 0
        if first & RESERVED_MASK:
            return RESERVED_BITS
        if compressed and not self._allow_compressed:
            return COMPRESSION_NOT_NEGOTIATED
        if self._require_mask and not self._masked:
            return MASK_MISSING
        if OPCODE_CLOSE <= self._opcode <= OPCODE_PONG:
            if length > CONTROL_PAYLOAD_MAX:
                return CONTROL_TOO_LONG
            if not final:
                return CONTROL_FRAGMENTED
            if compressed:
                return CONTROL_COMPRESSED
            self._control_have = 0
        elif self._opcode == OPCODE_TEXT or self._opcode == OPCODE_BINARY:
            if not self._final:
                return MESSAGE_INTERLEAVED
            self._final = final
            self._compressed = compressed
        elif self._opcode == OPCODE_CONTINUATION:
            if self._final or compressed:
                return CONTINUATION_INVALID
            self._final = final
        else:
            return UNKNOWN_OPCODE
        if length == LENGTH_16:
            self._head_need += 2
        elif length == LENGTH_64:
            self._head_need += 8
        if self._masked:
            self._head_need += 4
        return 0

    cdef int _finish_head(self) noexcept:
        """The head is complete: read length and key. Returns a fault or 0."""
        cdef int length = self._head[1] & LENGTH_MASK
        cdef int size_bytes = 2 if length == LENGTH_16 else 8 if length == LENGTH_64 else 0
        cdef int i
        self._remaining = 0 if size_bytes else <uint64_t>length
        for i in range(size_bytes):
            self._remaining = (self._remaining << 8) | self._head[HEAD_MIN + i]
        # The top bit must be clear; a signed length elsewhere would be negative.
        if self._remaining >> 63:
            return LENGTH_INVALID
        if self._masked:
            memcpy(self._key, self._head + HEAD_MIN + size_bytes, 4)
        self._phase = 0
        self._in_payload = True
        return 0

    cdef void _take_control(self, const unsigned char *p, Py_ssize_t size) noexcept:
        # `_check_head` allowed no more than the buffer holds.
        self._unmask(p, self._control + self._control_have, size)
        self._control_have += <int>size

    cdef int _take_compressed(self, const unsigned char *p, Py_ssize_t size, list events) except -1:
        cdef bytes piece = PyBytes_FromStringAndSize(NULL, size)
        self._unmask(p, <unsigned char *>PyBytes_AS_STRING(piece), size)
        if self._final and self._remaining == 0:
            events.append((COMPRESSED_END, piece))
        elif size:
            events.append((COMPRESSED, piece))
        return 0

    cdef void _unmask(self, const unsigned char *source, unsigned char *target, Py_ssize_t size) noexcept:
        if self._masked:
            unmask(source, target, size, self._key, self._phase)
            self._phase = (self._phase + <unsigned>(size & 3)) & 3
        else:
            memcpy(target, source, size)


def masked(list chunks, bytes key):
    """The chunks as one payload, masked with a key of four bytes: what a client sends."""
    cdef Py_buffer view
    cdef Py_ssize_t size = 0, at = 0
    cdef bytes whole
    cdef const unsigned char *mask = <const unsigned char *>PyBytes_AS_STRING(key)
    if len(key) != 4:
        raise ValueError("a mask has four bytes")
    for chunk in chunks:
        size += len(chunk)
    whole = PyBytes_FromStringAndSize(NULL, size)
    for chunk in chunks:
        PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
        try:
            if view.len > size - at:
                raise ValueError("a chunk has items of more than a byte")
            unmask(<const unsigned char *>view.buf, <unsigned char *>PyBytes_AS_STRING(whole) + at, view.len, mask,
                   <unsigned>(at & 3))
            at += view.len
        finally:
            PyBuffer_Release(&view)
    return whole


cdef Py_ssize_t emit_plain(list events, PyObject *plain, Py_ssize_t size) except -1:
    """Append a copy of the plain payload so far; returns the new size, 0."""
    if size:
        events.append((DATA, PyBytes_FromStringAndSize(bytes_at(plain), size)))
    return 0
