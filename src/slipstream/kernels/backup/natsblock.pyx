# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages in the files of nats-server: HighwayHash-64, and the records of a block, checked by it or made.

    record   length (4; highest bit: with headers), sequence (8), time (8), length of the subject (2), subject,
             [length of the headers (4), headers,] payload, hash (8); little endian
    hash     of sequence, time, subject, headers and payload, keyed by stream and block

The hash does not cover the three lengths. A wrong length of the record or of the headers moves what is hashed; a wrong
one of the subject does not, so whoever gets a record has to judge its subject. Linear time; every length is checked
against what is left before it is used.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from slipstream.kernels.bytes_le cimport get16, get32, get64
from slipstream.kernels.fastpath.handout cimport Batch
from slipstream.kernels.log.record cimport FLAG_EXPIRES, HEAD as STORED_HEAD

cdef enum:
    HEAD = 22               # bytes of a record before its subject
    HASH = 8
    PACKET = 32             # what the hash takes at a time

cdef uint32_t WITH_HEADERS = 1u << 31
cdef uint32_t LENGTH_MAX = 32 * 1024 * 1024      # of a record; nats-server takes more for damage
RECORD_BYTES_MAX = 32 * 1024 * 1024
RECORD_BYTES = HEAD + HASH + 4  # of a record beside its subject, headers and payload, at most

cdef uint64_t[4] MUL0 = [0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3]
cdef uint64_t[4] MUL1 = [0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377]


cdef struct Hash:
    uint64_t v0[4]
    uint64_t v1[4]
    uint64_t mul0[4]
    uint64_t mul1[4]
    uint8_t waiting[32]
    Py_ssize_t used


cdef inline uint64_t load64(const uint8_t *p) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, p, 8)
    return value


cdef inline uint32_t load32(const uint8_t *p) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, p, 4)
    return value


cdef inline uint16_t load16(const uint8_t *p) noexcept nogil:
    cdef uint16_t value
    memcpy(&value, p, 2)
    return value


cdef inline uint64_t halves_swapped(uint64_t x) noexcept nogil:
    return (x >> 32) | (x << 32)


cdef inline void zipper(uint64_t *add0, uint64_t *add1, uint64_t a0, uint64_t a1) noexcept nogil:
    """Mix the bytes of two lanes and add them to two others."""
    add0[0] += (
        (((a0 & <uint64_t>0xff000000) | (a1 & <uint64_t>0xff00000000)) >> 24)
        | (((a0 & <uint64_t>0xff0000000000) | (a1 & <uint64_t>0xff000000000000)) >> 16)
        | (a0 & <uint64_t>0xff0000)
        | ((a0 & <uint64_t>0xff00) << 32)
        | ((a1 & <uint64_t>0xff00000000000000) >> 8)
        | (a0 << 56)
    )
    add1[0] += (
        (((a1 & <uint64_t>0xff000000) | (a0 & <uint64_t>0xff00000000)) >> 24)
        | (a1 & <uint64_t>0xff0000)
        | ((a1 & <uint64_t>0xff0000000000) >> 16)
        | ((a1 & <uint64_t>0xff00) << 24)
        | ((a0 & <uint64_t>0xff000000000000) >> 8)
        | ((a1 & <uint64_t>0xff) << 48)
        | (a0 & <uint64_t>0xff00000000000000)
    )


cdef inline void mix(Hash *h, uint64_t a, uint64_t b, uint64_t c, uint64_t d) noexcept nogil:
    """Take four lanes."""
    cdef uint64_t[4] lanes = [a, b, c, d]
    cdef int i
    for i in range(4):
        h.v1[i] += h.mul0[i] + lanes[i]
        h.mul0[i] ^= (h.v1[i] & <uint64_t>0xffffffff) * (h.v0[i] >> 32)
        h.v0[i] += h.mul1[i]
        h.mul1[i] ^= (h.v0[i] & <uint64_t>0xffffffff) * (h.v1[i] >> 32)
    zipper(&h.v0[0], &h.v0[1], h.v1[0], h.v1[1])
    zipper(&h.v0[2], &h.v0[3], h.v1[2], h.v1[3])
    zipper(&h.v1[0], &h.v1[1], h.v0[0], h.v0[1])
    zipper(&h.v1[2], &h.v1[3], h.v0[2], h.v0[3])


cdef inline void packet(Hash *h, const uint8_t *p) noexcept nogil:
    mix(h, load64(p), load64(p + 8), load64(p + 16), load64(p + 24))


cdef void begin(Hash *h, const uint8_t *key) noexcept nogil:
    cdef int i
    cdef uint64_t lane
    for i in range(4):
        lane = load64(key + 8 * i)
        h.mul0[i] = MUL0[i]
        h.mul1[i] = MUL1[i]
        h.v0[i] = MUL0[i] ^ lane
        h.v1[i] = MUL1[i] ^ halves_swapped(lane)
    h.used = 0


cdef void feed(Hash *h, const uint8_t *p, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t piece
    if h.used:
        piece = min(size, PACKET - h.used)
        memcpy(h.waiting + h.used, p, piece)
        h.used += piece
        p += piece
        size -= piece
        if h.used < PACKET:
            return
        packet(h, h.waiting)
        h.used = 0
    while size >= PACKET:
        packet(h, p)
        p += PACKET
        size -= PACKET
    if size:
        memcpy(h.waiting, p, size)
        h.used = size


cdef uint64_t finish(Hash *h) noexcept nogil:
    cdef uint8_t[32] last
    cdef Py_ssize_t size = h.used, whole = h.used & ~3, rest = h.used & 3
    cdef uint32_t low, high
    cdef int i, _i
    if size:
        for i in range(4):
            h.v0[i] += (<uint64_t>size << 32) + <uint64_t>size
            low = <uint32_t>h.v1[i]
            high = <uint32_t>(h.v1[i] >> 32)
            h.v1[i] = (
                <uint64_t>((low << size) | (low >> (32 - size)))
                | (<uint64_t>((high << size) | (high >> (32 - size))) << 32)
            )
        memset(last, 0, PACKET)
        memcpy(last, h.waiting, whole)
        if size & 16:
            # The last four bytes, whatever their place.
            memcpy(last + 28, h.waiting + size - 4, 4)
        elif rest:
            last[16] = h.waiting[whole]
            last[17] = h.waiting[whole + (rest >> 1)]
            last[18] = h.waiting[size - 1]
        packet(h, last)
    for _i in range(4):
        mix(h, halves_swapped(h.v0[2]), halves_swapped(h.v0[3]), halves_swapped(h.v0[0]), halves_swapped(h.v0[1]))
    return h.v0[0] + h.v1[0] + h.mul0[0] + h.mul1[0]


def hash64(bytes key not None, bytes data not None):
    """HighwayHash-64 of some bytes, as the 8 bytes nats-server writes.

    Raises:
        ValueError: the key has not 32 bytes.
    """
    cdef Hash h
    cdef uint64_t found
    if PyBytes_GET_SIZE(key) != 32:
        raise ValueError("the key has 32 bytes")
    begin(&h, <const uint8_t *>PyBytes_AS_STRING(key))
    feed(&h, <const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    found = finish(&h)
    return PyBytes_FromStringAndSize(<char *>&found, 8)


cdef Py_ssize_t _whole(const Hash *fresh, const uint8_t *p, Py_ssize_t left) noexcept nogil:
    """Length of the record here if it is whole and its hash holds, else 0."""
    cdef Hash h
    cdef uint32_t length
    cdef Py_ssize_t size, body
    if left < HEAD + HASH:
        return 0
    length = load32(p)
    size = <Py_ssize_t>(length & ~WITH_HEADERS)
    body = load16(p + 20) + (4 if length & WITH_HEADERS else 0)
    if size > LENGTH_MAX or size > left or size < HEAD + HASH or body > size - HEAD - HASH:
        return 0
    h = fresh[0]
    feed(&h, p + 4, 16)
    if length & WITH_HEADERS:
        feed(&h, p + HEAD, body - 4)
        feed(&h, p + HEAD + body, size - HASH - HEAD - body)
    else:
        feed(&h, p + HEAD, size - HASH - HEAD)
    return size if finish(&h) == load64(p + size - HASH) else 0


def records(bytes block not None, bytes key not None, Py_ssize_t at, Py_ssize_t count_max):
    """Records from `at` on, until one does not hold: a list of them, and where the next begins.

    A record is `(sequence with its flags, time, subject, headers, payload)`; headers are None when their length points
    outside. Fewer than `count_max` records before the end of the block: what follows is damaged or cut off.
    """
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(block)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(block), size, subject, headers, payload
    cdef const uint8_t *p
    cdef Hash fresh
    cdef list found = []
    cdef object head
    if PyBytes_GET_SIZE(key) != 32:
        raise ValueError("the key has 32 bytes")
    if at < 0:
        raise ValueError("before the block")
    begin(&fresh, <const uint8_t *>PyBytes_AS_STRING(key))
    while at < end and count_max > 0:
        p = start + at
        size = _whole(&fresh, p, end - at)
        if size == 0:
            break
        subject = load16(p + 20)
        payload = HEAD + subject
        head = b""
        if load32(p) & WITH_HEADERS:
            headers = <Py_ssize_t>load32(p + payload)
            payload += 4
            if headers > size - HASH - payload:
                head = None
            else:
                head = PyBytes_FromStringAndSize(<const char *>p + payload, headers)
                payload += headers
        found.append((
            load64(p + 4),
            <int64_t>load64(p + 12),
            PyBytes_FromStringAndSize(<const char *>p + HEAD, subject),
            head,
            PyBytes_FromStringAndSize(<const char *>p + payload, size - HASH - payload),
        ))
        at += size
        count_max -= 1
    return found, at


def next_record(bytes block not None, bytes key not None, Py_ssize_t at):
    """Where the first record at or behind `at` begins whose hash holds; the end of the block if there is none."""
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(block)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(block)
    cdef Hash fresh
    if PyBytes_GET_SIZE(key) != 32:
        raise ValueError("the key has 32 bytes")
    if at < 0:
        raise ValueError("before the block")
    begin(&fresh, <const uint8_t *>PyBytes_AS_STRING(key))
    with nogil:
        while at < end and _whole(&fresh, start + at, end - at) == 0:
            at += 1
    return min(at, end)


def encode(list messages not None, bytes key not None):
    """The records of messages, one after the other: the inverse of `records`.

    A message is `(sequence with its flags, time, subject, headers, payload)`, headers empty if there are none.

    Raises:
        ValueError: a message is longer than nats-server reads.
    """
    cdef Py_ssize_t total = 0, size, subject_size, head_size, payload_size
    cdef bytes subject, head, payload, block
    cdef uint64_t seq, found
    cdef int64_t ts
    cdef uint32_t length
    cdef uint16_t short_size
    cdef uint32_t long_size
    cdef uint8_t *p
    cdef Hash fresh, h
    if PyBytes_GET_SIZE(key) != 32:
        raise ValueError("the key has 32 bytes")
    for seq, _ts, subject, head, payload in messages:
        size = HEAD + len(subject) + len(payload) + HASH
        if head:
            size += 4 + len(head)
        if size > <Py_ssize_t>LENGTH_MAX or len(subject) > 0xffff:
            raise ValueError(f"message {seq} is too long for a block")
        total += size
    begin(&fresh, <const uint8_t *>PyBytes_AS_STRING(key))
    block = PyBytes_FromStringAndSize(NULL, total)
    p = <uint8_t *>PyBytes_AS_STRING(block)
    for seq, ts, subject, head, payload in messages:
        subject_size, head_size, payload_size = len(subject), len(head), len(payload)
        size = HEAD + subject_size + payload_size + HASH + (4 + head_size if head_size else 0)
        length = <uint32_t>size | (WITH_HEADERS if head_size else 0)
        short_size = <uint16_t>subject_size
        memcpy(p, &length, 4)
        memcpy(p + 4, &seq, 8)
        memcpy(p + 12, &ts, 8)
        memcpy(p + 20, &short_size, 2)
        h = fresh
        feed(&h, p + 4, 16)
        p += HEAD
        memcpy(p, PyBytes_AS_STRING(subject), subject_size)
        feed(&h, p, subject_size)
        p += subject_size
        if head_size:
            long_size = <uint32_t>head_size
            memcpy(p, &long_size, 4)
            p += 4
            memcpy(p, PyBytes_AS_STRING(head), head_size)
            feed(&h, p, head_size)
            p += head_size
        memcpy(p, PyBytes_AS_STRING(payload), payload_size)
        feed(&h, p, payload_size)
        p += payload_size
        found = finish(&h)
        memcpy(p, &found, 8)
        p += HASH
    return block


def encode_batch(Batch batch not None, bytes key not None):
    """The same for stored messages as they are, without the GIL.

    Raises:
        ValueError: a message is longer than nats-server reads.
    """
    cdef Py_ssize_t total = 0, size, slen, hlen, i, n = batch.n, plen
    cdef const uint8_t *q
    cdef uint8_t *p
    cdef bytes block
    cdef uint64_t found
    cdef uint32_t length
    cdef Hash fresh, h
    if PyBytes_GET_SIZE(key) != 32:
        raise ValueError("the key has 32 bytes")
    for i in range(n):
        q = batch.at[i]
        size = HEAD + get16(q + 24) + <Py_ssize_t>get32(q + 4) + get32(q + 28) + HASH + (4 if get32(q + 4) else 0)
        if size > <Py_ssize_t>LENGTH_MAX:
            raise ValueError(f"message {get64(q + 8)} is too long for a block")
        total += size
    begin(&fresh, <const uint8_t *>PyBytes_AS_STRING(key))
    block = PyBytes_FromStringAndSize(NULL, total)
    p = <uint8_t *>PyBytes_AS_STRING(block)
    with nogil:
        for i in range(n):
            q = batch.at[i]
            slen, hlen, plen = get16(q + 24), get32(q + 4), get32(q + 28)
            size = HEAD + slen + hlen + plen + HASH + (4 if hlen else 0)
            length = <uint32_t>size | (WITH_HEADERS if hlen else 0)
            memcpy(p, &length, 4)
            memcpy(p + 4, q + 8, 16)  # sequence and time are stored alike
            memcpy(p + 20, q + 24, 2)
            h = fresh
            feed(&h, p + 4, 16)
            p += HEAD
            q += STORED_HEAD + (8 if get16(q + 26) & FLAG_EXPIRES else 0)
            feed(&h, q, slen + hlen + plen)
            memcpy(p, q, slen)
            p += slen
            if hlen:
                length = <uint32_t>hlen
                memcpy(p, &length, 4)
                p += 4
            memcpy(p, q + slen, hlen + plen)
            p += hlen + plen
            found = finish(&h)
            memcpy(p, &found, 8)
            p += HASH
    return block
