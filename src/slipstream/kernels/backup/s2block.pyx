# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""One block of S2, the compression of nats-server's backups: Snappy's block format, and repeats in what is read.

    block    uvarint size of the content, then elements
    element  xxxxxx00  literal: length - 1 in the upper bits, or 60..63: in the next 1..4 bytes
             ooolll01  copy of lll + 4 bytes from ooo oooooooo (11 bits) bytes back; offset 0: repeat the last offset,
                       lll 5..7: length in the next 1..3 bytes
             llllll10  copy of llllll + 1 bytes, offset in 2 bytes
             llllll11  copy of llllll + 1 bytes, offset in 4 bytes

What is written is plain Snappy: greedy, one hash table, positions of the last 64 KiB. Linear time in both directions.
Memory: the content and, to write, a table of 64 KiB. Everything read is checked against both ends: `n > end - p`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)

cdef enum:
    HASH_BITS = 14
    WINDOW = 65535           # farthest a copy looks back
    STEP = 16                # bytes copied at once
    INPUT_MAX = 65536        # content of one block that is written: a position fits 16 bits


cdef inline uint32_t load32(const uint8_t *p) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, p, 4)
    return value


def decode_block(bytes block not None, Py_ssize_t size_max):
    """The content of a block.

    Raises:
        ValueError: it is not a block, or its content is larger than `size_max`.
    """
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(block)
    cdef const uint8_t *end = p + PyBytes_GET_SIZE(block)
    cdef uint64_t size = 0
    cdef uint8_t byte
    cdef int shift = 0
    cdef bytes content
    cdef uint8_t *out
    cdef bint whole
    while True:
        if p == end or shift > 28:
            raise ValueError("the size of a block is cut short")
        byte = p[0]
        p += 1
        size |= <uint64_t>(byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > <uint64_t>size_max:
        raise ValueError("a block is too large")
    content = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    out = <uint8_t *>PyBytes_AS_STRING(content)
    with nogil:
        whole = _decode(p, end, out, <Py_ssize_t>size)
    if not whole:
        raise ValueError("a block is damaged")
    return content


cdef bint _decode(const uint8_t *p, const uint8_t *end, uint8_t *start, Py_ssize_t size) noexcept nogil:
    cdef uint8_t *out = start
    cdef uint8_t *limit = start + size
    cdef Py_ssize_t length, offset = 0, found, extra, i
    cdef uint8_t *source
    cdef uint8_t tag
    while p < end:
        tag = p[0]
        p += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                if extra > end - p:
                    return False
                length = 0
                for i in range(extra):
                    length |= <Py_ssize_t>p[i] << (8 * i)
                p += extra
            length += 1
            if length > end - p or length > limit - out:
                return False
            if length <= STEP and end - p >= STEP and limit - out >= STEP:
                memcpy(out, p, STEP)  # of a size that is known: two instructions instead of a call
            else:
                memcpy(out, p, length)
            p += length
            out += length
            continue
        if tag & 3 == 1:
            if p == end:
                return False
            found = (<Py_ssize_t>(tag & 0xE0) << 3) | p[0]
            p += 1
            length = (tag >> 2) & 7
            if found:
                offset = found
            elif length >= 5:
                extra = length - 4
                if extra > end - p:
                    return False
                length = 0
                for i in range(extra):
                    length |= <Py_ssize_t>p[i] << (8 * i)
                p += extra
                length += 4 if extra == 1 else (256 if extra == 2 else 65536)
            length += 4
        else:
            extra = 2 if tag & 3 == 2 else 4
            if extra > end - p:
                return False
            offset = 0
            for i in range(extra):
                offset |= <Py_ssize_t>p[i] << (8 * i)
            p += extra
            length = (tag >> 2) + 1
        if offset == 0 or offset > out - start or length > limit - out:
            return False
        source = out - offset
        if offset >= STEP and limit - out >= length + STEP:
            # In steps, the last of which may write behind the copy, where what follows is still to be written.
            i = 0
            while i < length:
                memcpy(out + i, source + i, STEP)
                i += STEP
            out += length
            continue
        while length > 0:
            # What was just written continues the pattern, so each step copies twice as much as the one before.
            extra = min(length, out - source)
            memcpy(out, source, extra)
            out += extra
            length -= extra
    return out == limit


def encode_block(bytes content not None):
    """A block that gives back `content`, which has at most 65,536 bytes.

    Raises:
        ValueError: it has more.
    """
    cdef Py_ssize_t size = PyBytes_GET_SIZE(content)
    cdef bytes room
    cdef Py_ssize_t used
    if size > INPUT_MAX:
        raise ValueError("more than one block")
    # A literal costs at most 3 bytes more than it holds, and there is one for each copy of at least 4.
    room = PyBytes_FromStringAndSize(NULL, 8 + size + size // 2)
    used = _encode(
        <const uint8_t *>PyBytes_AS_STRING(content), size, <uint8_t *>PyBytes_AS_STRING(room)
    )
    return room[:used]


cdef uint8_t *_literal(uint8_t *out, const uint8_t *p, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t code = length - 1
    if code < 60:
        out[0] = <uint8_t>(code << 2)
        out += 1
    elif code < 256:
        out[0] = 60 << 2
        out[1] = <uint8_t>code
        out += 2
    else:
        out[0] = 61 << 2
        out[1] = <uint8_t>(code & 255)
        out[2] = <uint8_t>(code >> 8)
        out += 3
    memcpy(out, p, length)
    return out + length


cdef uint8_t *_copy(uint8_t *out, Py_ssize_t offset, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t piece
    while length > 0:
        # The last piece must not be shorter than four, or it could not be a short copy.
        piece = 64 if length >= 68 else (60 if length > 64 else length)
        if 4 <= piece <= 11 and offset < 2048:
            out[0] = <uint8_t>(((offset >> 8) << 5) | ((piece - 4) << 2) | 1)
            out[1] = <uint8_t>(offset & 255)
            out += 2
        else:
            out[0] = <uint8_t>(((piece - 1) << 2) | 2)
            out[1] = <uint8_t>(offset & 255)
            out[2] = <uint8_t>(offset >> 8)
            out += 3
        length -= piece
    return out


cdef Py_ssize_t _encode(const uint8_t *p, Py_ssize_t size, uint8_t *start) noexcept nogil:
    cdef uint16_t table[1 << HASH_BITS]
    cdef uint8_t *out = start
    cdef Py_ssize_t at = 0, kept = 0, candidate, length, misses = 0, left = size
    cdef uint32_t word, slot
    while True:
        out[0] = <uint8_t>(left & 127) | (128 if left > 127 else 0)
        out += 1
        left >>= 7
        if not left:
            break
    memset(table, 0, sizeof(table))
    while at + 8 <= size:
        word = load32(p + at)
        slot = (word * <uint32_t>0x9E3779B1) >> (32 - HASH_BITS)
        candidate = table[slot]
        table[slot] = <uint16_t>at
        if candidate >= at or at - candidate > WINDOW or load32(p + candidate) != word:
            # The longer nothing is found, the wider the steps: what cannot be compressed costs little.
            misses += 1
            at += 1 + (misses >> 5)
            continue
        misses = 0
        length = 4
        while at + length < size and p[candidate + length] == p[at + length]:
            length += 1
        if at > kept:
            out = _literal(out, p + kept, at - kept)
        out = _copy(out, at - candidate, length)
        at += length
        kept = at
    if size > kept:
        out = _literal(out, p + kept, size - kept)
    return out - start


def encode_chunks(bytes content not None):
    """`content` as chunks of an S2 stream, of 64 KiB each and a last one of what is left; without the GIL.

    A chunk is its kind, its length, a masked checksum of its content, and a block, or the content itself where a block
    would save less than an eighth.
    """
    cdef Py_ssize_t size = PyBytes_GET_SIZE(content), left = size, part, used
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(content)
    cdef bytes room = PyBytes_FromStringAndSize(NULL, _chunks_room(size))
    cdef uint8_t *start = <uint8_t *>PyBytes_AS_STRING(room)
    cdef uint8_t *out = start
    cdef uint32_t crc
    with nogil:
        while left > 0:
            part = min(left, <Py_ssize_t>INPUT_MAX)
            used = _encode(p, part, out + 8)
            out[0] = 0
            if used >= part - part // 8:
                out[0] = 1
                memcpy(out + 8, p, part)
                used = part
            used += 4
            out[1] = <uint8_t>(used & 255)
            out[2] = <uint8_t>((used >> 8) & 255)
            out[3] = <uint8_t>(used >> 16)
            crc = slip_crc32c(0, p, part)
            crc = ((crc >> 15) | (crc << 17)) + <uint32_t>0xA282EAD8
            out[4] = <uint8_t>(crc & 255)
            out[5] = <uint8_t>((crc >> 8) & 255)
            out[6] = <uint8_t>((crc >> 16) & 255)
            out[7] = <uint8_t>(crc >> 24)
            out += used + 4
            p += part
            left -= part
    return room[:out - start]


cdef Py_ssize_t _chunks_room(Py_ssize_t size) noexcept nogil:
    """What all chunks take at most: the last one may be half longer while it is made, see `encode_block`."""
    cdef Py_ssize_t count = (size + INPUT_MAX - 1) // INPUT_MAX
    return count * (INPUT_MAX + 8) + 8 + INPUT_MAX // 2
