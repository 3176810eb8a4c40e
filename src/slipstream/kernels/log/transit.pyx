# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Frames on their way from one copy of a log to another.

    segment of one replica --pack_frame()--> packed frame --unpack_frame()--> the same frame for the segment of another

A packed frame has the layout of `record` with salt 0 and without what only one file knows: what was synced there, where
an erased message lies, the noise in its place, and room for a seal. So every copy of a frame packs to the same bytes, but
for messages that one of them has erased by now. Local frames do not travel.

Bounds: nothing in a packed frame is believed. It is as long as it says, its records fill it without a rest, their
checksums hold, each says what its kind can say, and number and epoch are those that it is expected to have; else there is
no frame. A frame of a segment is believed as far as its checksums hold. Memory: one copy. Complexity: O(bytes).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from slipstream.kernels.bytes_le cimport get16, get32, get64, put32, put64
from slipstream.kernels.log.record cimport (
    FLAG_EXPIRES, FRAME_HEAD, FRAME_LOCAL, FRAME_MAGIC, FRAME_UNIT, HEAD, KIND_ADD, KIND_CONFIG, KIND_ERASE, KIND_ERASED,
    KIND_MARK, KIND_MASK, KIND_MSG, KIND_NOTE, KIND_PUT, KIND_REMOVE, KIND_SKIP, KIND_TOMBS, KIND_TRIM, Frame, read_frame,
    record_size,
)
from slipstream.kernels.log.segscan cimport SEQ_TOP

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)

cdef enum:
    FLAGS_IN_TRANSIT = 7  # those of units
    ERASE_BYTES = 20
    SKIP_BYTES = 8
    TOMB_BYTES = 8
    FRAME_ROOM_MAX = 256  # for a seal, at the end of a frame


def frame_heads(bytes data not None, Py_ssize_t pos, uint64_t salt):
    """`(number, epoch, flags, offset, length)` of the frames from `pos` on, to the first place where no head is."""
    cdef list out = []
    cdef Frame frame
    cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data)
    if pos < 0:
        raise ValueError("before the data")
    while pos < end and read_frame(p + pos, end - pos, salt, &frame):
        out.append((frame.no, frame.epoch, frame.flags, pos, frame.length))
        pos += frame.length
    return out


def pack_frame(bytes data not None, Py_ssize_t pos, uint64_t salt):
    """The frame at `pos` of a segment as it travels; None when it is damaged, cut off or local."""
    cdef Frame frame
    cdef Py_ssize_t room = PyBytes_GET_SIZE(data) - pos
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data) + pos
    cdef bytes out
    cdef Py_ssize_t end
    if pos < 0 or room <= 0 or not read_frame(p, room, salt, &frame) or frame.length > <uint64_t>room:
        return None
    if frame.flags & FRAME_LOCAL:
        return None
    out = PyBytes_FromStringAndSize(<const char *>p, frame.length)
    end = rekeyed(<unsigned char *>PyBytes_AS_STRING(out), frame.length, frame.count, <uint32_t>salt, 0)
    if end == 0 or <Py_ssize_t>frame.length - end > FRAME_ROOM_MAX:
        return None
    put_head(<unsigned char *>PyBytes_AS_STRING(out), end, 0, 0)
    return out if end == <Py_ssize_t>frame.length else out[:end]


def unpack_frame(
    bytes packed not None, uint64_t no, uint64_t epoch, uint64_t synced_upto, uint64_t salt, Py_ssize_t room=0
):
    """A packed frame as it lies in a segment with this salt, with `room` for a seal at its end.

    None when it is not the frame with this number and epoch.
    """
    cdef Frame frame
    cdef Py_ssize_t size = PyBytes_GET_SIZE(packed)
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(packed)
    cdef bytes out
    if not read_frame(p, size, 0, &frame) or frame.length != <uint64_t>size or frame.no != no or frame.epoch != epoch:
        return None
    if frame.flags > FLAGS_IN_TRANSIT or (frame.flags and not frame.flags & FRAME_UNIT):
        return None
    if frame.synced_upto or get32(p + 56) or frame.count == 0 or frame.first_seq != get64(p + FRAME_HEAD + 8):
        return None
    if room < 0 or room % 8 or room > FRAME_ROOM_MAX:
        raise ValueError("room that no frame has")
    out = PyBytes_FromStringAndSize(NULL, size + room)
    memcpy(PyBytes_AS_STRING(out), p, size)
    memset(PyBytes_AS_STRING(out) + size, 0, room)
    if rekeyed(<unsigned char *>PyBytes_AS_STRING(out), size, frame.count, 0, <uint32_t>salt) != size:
        return None
    put_head(<unsigned char *>PyBytes_AS_STRING(out), size + room, synced_upto, <uint32_t>salt)
    return out


cdef void put_head(unsigned char *p, Py_ssize_t length, uint64_t synced_upto, uint32_t salt) noexcept nogil:
    put32(p, FRAME_MAGIC ^ salt)
    put32(p + 4, <uint32_t>length)
    put64(p + 32, synced_upto)
    put32(p + 60, slip_crc32c(salt, p, 60))


cdef Py_ssize_t rekeyed(unsigned char *p, Py_ssize_t length, uint32_t count, uint32_t old, uint32_t new) noexcept nogil:
    """Give every record of a frame its checksum under another key; where they end, 0 if one is not what it should be."""
    cdef Py_ssize_t at = FRAME_HEAD, size, total
    cdef unsigned char *q
    cdef uint16_t flags
    while count:
        if at >= length:
            return 0
        q = p + at
        size = record_size(q, length - at, old)
        if size == 0 or size % 8:
            return 0
        flags = get16(q + 26)
        total = HEAD + <Py_ssize_t>get32(q + 4) + get16(q + 24) + get32(q + 28) + (8 if flags & FLAG_EXPIRES else 0)
        if not may_travel(q, flags):
            return 0
        if (flags & KIND_MASK) == KIND_ERASE:  # where a message lies is another place in each copy
            memset(q + total - ERASE_BYTES, 0, ERASE_BYTES)
        elif (flags & KIND_MASK) == KIND_ERASED:
            memset(q + HEAD, 0, total - HEAD)
        memset(q + total, 0, size - total)
        put32(q, slip_crc32c(new, q + 4, total - 4))
        at += size
        count -= 1
    return at


cdef bint may_travel(const unsigned char *q, uint16_t flags) noexcept nogil:
    """Whether a record is of a kind that is the log's, and says what that can say."""
    cdef int kind = flags & KIND_MASK
    cdef uint32_t hlen = get32(q + 4), plen = get32(q + 28)
    cdef uint16_t slen = get16(q + 24)
    cdef uint64_t seq = get64(q + 8)
    if kind == KIND_MSG:
        return slen > 0 and 0 < seq <= SEQ_TOP
    if hlen or flags & FLAG_EXPIRES:
        return False
    if kind == KIND_ERASED:
        return slen == 0 and 0 < seq <= SEQ_TOP
    if kind == KIND_PUT or kind == KIND_ADD:
        return slen > 0
    if kind == KIND_REMOVE:
        return slen > 0 and plen == 0
    if kind == KIND_SKIP:
        return plen == SKIP_BYTES and seq <= get64(q + HEAD + slen) <= SEQ_TOP
    if kind == KIND_ERASE:
        return plen == ERASE_BYTES
    if kind == KIND_TOMBS:
        return plen % TOMB_BYTES == 0
    return kind == KIND_TRIM or kind == KIND_CONFIG or kind == KIND_NOTE or kind == KIND_MARK
