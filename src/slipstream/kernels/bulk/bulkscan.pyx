# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Bulk reads of a log: copies of records as they leave the server, and looks at their heads.

    Selection ──stretches──► what to read to where it belongs ──► Chunk.settle ──► bytes for the reader
              └─extent──► one read with gaps ──► Chunk.fill, a copy ──┘

A chunk holds whole records, back to back, each a multiple of 8 bytes long. Their layout is that of the log (record.pyx)
with one difference: the checksum is keyed by 0, not by the salt of the segment, which stays a secret of the file. The
key is exchanged without reading the record: CRC is linear, so `crc(salt, record) ^ crc(0, record)` depends on the salt
and the length alone. What a reader verifies is therefore the checksum made when the message was stored.

`Chunk.crc` runs over the checksums of the records in order, not over their bytes: equal messages give equal values,
wherever and however they are stored.

The head of every record is compared with the index (kind, sequence, length) before it is copied; what does not match is
left out and listed in `missing`. `fill` and `settle` work without the GIL on memory of the chunk, its own or one that
was given to it; the selection must not change meanwhile. What is selected: see bulkchoose.pyx.
"""

from cpython.buffer cimport PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove, memset

from slipstream.kernels.bytes_le cimport get16, get32, get64
from slipstream.kernels.log.record cimport FLAG_EXPIRES, HEAD, KIND_MASK, KIND_MSG, StoredMessage
from slipstream.kernels.index.runtable cimport LENGTH_EXPIRES, LENGTH_MASK, padded
from slipstream.kernels.index.subjectindex cimport Selection

cdef extern from *:
    """
    #define prefetch(p) __builtin_prefetch(p)
    """
    void prefetch(const void *p) noexcept nogil

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)

cdef enum:
    POLYNOMIAL = 0x82F63B78
    SHIFTS = 4096  # lengths whose shift is remembered, direct mapped
    AHEAD = 2048   # bytes to ask memory for in advance


cdef uint32_t POWERS[64]  # x^(2^k) modulo the polynomial, reflected


cdef uint32_t multiplied(uint32_t a, uint32_t b) noexcept nogil:
    """Product of two polynomials, reflected as CRC registers are."""
    cdef uint32_t m = <uint32_t>1 << 31, p = 0
    while m:
        if a & m:
            p ^= b
            if not a & (m - 1):
                break
        m >>= 1
        b = (b >> 1) ^ POLYNOMIAL if b & 1 else b >> 1
    return p


cdef uint32_t shifted(uint32_t register, uint64_t n) noexcept nogil:
    """What becomes of a CRC register after `n` zero bytes."""
    cdef uint32_t p = <uint32_t>1 << 31
    cdef int k = 3
    while n:
        if n & 1:
            p = multiplied(POWERS[k], p)
        n >>= 1
        k += 1
    return multiplied(p, register)


cdef int k_
POWERS[0] = <uint32_t>1 << 30
for k_ in range(1, 64):
    POWERS[k_] = multiplied(POWERS[k_ - 1], POWERS[k_ - 1])


def crc_shift(uint32_t register, uint64_t n):
    """`register` after `n` zero bytes; for tests."""
    return shifted(register, n)


cdef inline bint is_entry(Selection c, Py_ssize_t k, const unsigned char *p) noexcept nogil:
    """Whether the head at `p` is that of the message which the index has."""
    cdef uint16_t flags = get16(p + 26)
    return (
        (flags & KIND_MASK) == KIND_MSG
        and get64(p + 8) == c.seq[k]
        and <uint64_t>HEAD + get32(p + 4) + get16(p + 24) + get32(p + 28) + (8 if flags & FLAG_EXPIRES else 0)
        == <uint64_t>((c.len[k] & LENGTH_MASK) + (8 if c.len[k] & LENGTH_EXPIRES else 0))
    )


cdef class Chunk:
    """Copies of selected records, keyed by 0.

    Args:
        chosen: what to copy; must stay as it is until the last `fill`.
        start: first entry to copy.
        crc: checksum of checksums so far.
        room: where the records go, if it has room for all of them; else the chunk makes its own.
    """

    cdef Selection chosen
    cdef bytes own               # where records go, unless that was given
    cdef unsigned char[::1] given
    cdef unsigned char *room     # either of them
    cdef readonly bint in_given
    cdef Py_ssize_t total        # bytes of all that is chosen
    cdef readonly Py_ssize_t used
    cdef Py_ssize_t start
    cdef uint32_t *shifts        # pairs (length, shift of the salt)
    cdef uint32_t salt
    cdef readonly Py_ssize_t rows
    cdef readonly uint32_t crc
    cdef readonly list missing

    def __cinit__(
        self, Selection chosen not None, Py_ssize_t start=0, uint32_t crc=0, unsigned char[::1] room=None
    ):
        cdef Py_ssize_t i, total = 0
        if start < 0 or start > chosen.n:
            raise IndexError(start)
        for i in range(start, chosen.n):
            total += padded(chosen.len[i])
        self.chosen = chosen
        self.start = start
        self.total = total
        self.own = None
        self.given = room
        self.in_given = room is not None and 0 < total <= room.shape[0]
        self.room = &room[0] if self.in_given else NULL
        self.crc = crc
        self.missing = []
        self.shifts = <uint32_t *>calloc(SHIFTS * 2, 4)
        if self.shifts == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.shifts)

    def extent(self, Py_ssize_t i, Py_ssize_t gap_max, Py_ssize_t read_max):
        """`(segment, offset, length, next entry)` of one read that takes in entry `i` and those close behind it.

        Entries are close when at most `gap_max` bytes lie between them; the read is not longer than `read_max` unless
        one record is. None at the end.
        """
        cdef Selection c = self.chosen
        cdef Py_ssize_t k = i + 1
        cdef uint64_t begin, end, stop
        if i < self.start or i >= c.n:
            return None
        begin = c.off[i]
        end = begin + padded(c.len[i])
        while k < c.n and c.seg[k] == c.seg[i] and c.off[k] >= end and c.off[k] - end <= <uint64_t>gap_max:
            stop = c.off[k] + <uint64_t>padded(c.len[k])
            if stop - begin > <uint64_t>read_max:
                break
            end = stop
            k += 1
        return c.seg[i], begin, end - begin, k

    def breaks(self, Py_ssize_t gap_max):
        """How many gaps there are between entries of one segment: of at most `gap_max` bytes, and wider."""
        cdef Selection c = self.chosen
        cdef Py_ssize_t k, narrow = 0, wide = 0
        cdef uint64_t end
        for k in range(self.start + 1, c.n):
            end = c.off[k - 1] + <uint64_t>padded(c.len[k - 1])
            if c.seg[k] == c.seg[k - 1] and c.off[k] != end:
                if c.off[k] > end and c.off[k] - end <= <uint64_t>gap_max:
                    narrow += 1
                else:
                    wide += 1
        return narrow, wide

    def stretches(self, Py_ssize_t i, Py_ssize_t max_stretches):
        """`(segment, stretches, length, next entry)`: what of one segment to read for entry `i` and those behind it.

        Stretches without gaps, packed as `kernels.stretches` takes them, and their bytes. One behind the other they are
        where they belong in the chunk, if what was chosen before entry `i` is there. None at the end.
        """
        cdef Selection c = self.chosen
        cdef Py_ssize_t k = i, count = 0, capacity
        cdef uint64_t *pair
        cdef uint64_t length = 0
        cdef bytes packed
        if i < self.start or i >= c.n:
            return None
        capacity = min(max(max_stretches, 1), c.n - i)
        packed = PyBytes_FromStringAndSize(NULL, 16 * capacity)
        pair = <uint64_t *>PyBytes_AS_STRING(packed)
        while k < c.n and c.seg[k] == c.seg[i]:
            if count and c.off[k] == pair[0] + pair[1]:
                pair[1] += <uint64_t>padded(c.len[k])
            elif count == capacity:
                break
            else:
                pair += 2 if count else 0
                count += 1
                pair[0] = c.off[k]
                pair[1] = <uint64_t>padded(c.len[k])
            length += <uint64_t>padded(c.len[k])
            k += 1
        return c.seg[i], packed[:16 * count], length, k

    def space(self):
        """Where the records belong, to be filled before `settle`. Not to be used when the chunk is no more."""
        self.ensure_room()
        return PyMemoryView_FromMemory(<char *>self.room, self.total, PyBUF_WRITE)

    cdef ensure_room(self):
        if self.room == NULL:
            self.own = PyBytes_FromStringAndSize(NULL, self.total)
            self.room = <unsigned char *>PyBytes_AS_STRING(self.own)

    def fill(self, Py_ssize_t i, Py_ssize_t stop, bytes data not None, uint64_t base, uint64_t salt):
        """Copy the entries from `i` to `stop` out of `data`, which begins at `base` of their segment."""
        if i < self.start or stop > self.chosen.n:
            raise IndexError(i)
        self.ensure_room()
        self.copy_all(i, stop, <const unsigned char *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), base, True, salt)

    def settle(self, Py_ssize_t i, Py_ssize_t stop, Py_ssize_t at, Py_ssize_t size, uint64_t salt):
        """The same for entries that are in the chunk's space already, back to back: `size` bytes from `at` on.

        That is where they belong, or further back if entries before them were left out.
        """
        if i < self.start or stop > self.chosen.n:
            raise IndexError(i)
        if self.room == NULL or size < 0 or at < self.used or at > self.total or size > self.total - at:
            raise ValueError("they cannot be there")
        self.copy_all(i, stop, self.room + at, <uint64_t>size, 0, False, salt)

    cdef copy_all(
        self, Py_ssize_t k, Py_ssize_t stop, const unsigned char *p, uint64_t size, uint64_t base, bint as_in_log,
        uint64_t salt,
    ):
        """Take in entries: `as_in_log` they lie where their offsets say, from `base` on, else back to back."""
        cdef Selection c = self.chosen
        cdef uint64_t at = 0
        if self.salt != <uint32_t>salt:
            self.salt = <uint32_t>salt
            memset(self.shifts, 0, SHIFTS * 2 * 4)
        while k < stop:
            with nogil:
                while k < stop:
                    if as_in_log:
                        at = c.off[k] - base  # wraps when the data begins behind it, and is then beyond the size
                    if not self.copy(c, k, p, size, at):
                        break
                    at += <uint64_t>padded(c.len[k])
                    k += 1
            if k < stop:
                self.missing.append(c.seq[k])
                at += <uint64_t>padded(c.len[k])
                k += 1

    cdef bint copy(self, Selection c, Py_ssize_t k, const unsigned char *p, uint64_t size, uint64_t at) noexcept nogil:
        cdef Py_ssize_t total = (c.len[k] & LENGTH_MASK) + (8 if c.len[k] & LENGTH_EXPIRES else 0)
        cdef Py_ssize_t whole = (total + 7) & ~<Py_ssize_t>7
        cdef uint32_t crc
        cdef unsigned char *target = self.room + self.used
        cdef uint32_t *known
        if at > size or <uint64_t>total > size - at:
            return False
        p += at
        if not is_entry(c, k, p):
            return False
        known = self.shifts + 2 * (total & (SHIFTS - 1))
        if known[0] != <uint32_t>total:
            known[0] = <uint32_t>total
            known[1] = shifted(self.salt, total - 4)
        crc = get32(p) ^ known[1]
        if target != p:
            memmove(target, p, total)  # a room may hold both, when a record before this one was left out
        memset(target + total, 0, whole - total)
        memcpy(target, &crc, 4)
        self.crc = slip_crc32c(self.crc, &crc, 4)
        self.used += whole
        self.rows += 1
        return True

    def take(self):
        """The records copied so far, if no room was given. The chunk is of no use afterwards."""
        cdef bytes own = b"" if self.own is None else self.own
        self.own, self.room, self.total = b"", NULL, 0
        return own if self.used == PyBytes_GET_SIZE(own) else own[:self.used]


def are_messages(const unsigned char[::1] data not None, Py_ssize_t rows, uint64_t first, uint64_t last):
    """Whether the data is `rows` messages, whole and back to back, with growing sequences from `first` to `last`.

    Only heads are looked at; checksums are for the decoder to verify.
    """
    cdef const unsigned char *p
    cdef uint64_t total, seq, at = 0, size = <uint64_t>data.shape[0], before = 0
    cdef uint16_t flags
    if size == 0:
        return rows == 0
    with nogil:
        while at < size and size - at >= HEAD:
            p = &data[0] + at
            # Where the next record begins is known only from this one, so memory is not asked in time by itself.
            prefetch(p + AHEAD)
            prefetch(p + AHEAD + 64)
            prefetch(p + AHEAD + 128)
            flags = get16(p + 26)
            total = <uint64_t>HEAD + get32(p + 4) + get16(p + 24) + get32(p + 28) + (8 if flags & FLAG_EXPIRES else 0)
            seq = get64(p + 8)
            if (
                (flags & KIND_MASK) != KIND_MSG or total > size - at or seq < first or seq > last
                or (seq <= before and at > 0)
            ):
                break
            before = seq
            at += (total + 7) & ~<uint64_t>7
            rows -= 1
    return at == size and rows == 0


def records_end(const unsigned char[::1] data not None, Py_ssize_t start, Py_ssize_t most):
    """Where the last record ends that is whole within `most` bytes from `start` on, where one begins; at least one.

    The data is as `are_messages` has found it.
    """
    cdef uint64_t size = <uint64_t>data.shape[0], at = <uint64_t>start, stop
    cdef const unsigned char *p
    if start < 0 or at > size:
        raise IndexError(start)
    while size - at >= HEAD:
        p = &data[0] + at
        stop = (
            at + HEAD + get32(p + 4) + get16(p + 24) + get32(p + 28) + (8 if get16(p + 26) & FLAG_EXPIRES else 0) + 7
        ) & ~<uint64_t>7
        if stop > size or (stop - <uint64_t>start > <uint64_t>max(most, 0) and at > <uint64_t>start):
            break
        at = stop
    return at if at > <uint64_t>start else size


def encode_message(StoredMessage message not None):
    """One message as a record keyed by 0."""
    cdef Py_ssize_t slen = PyBytes_GET_SIZE(message.subject), hlen = PyBytes_GET_SIZE(message.headers)
    cdef Py_ssize_t plen = PyBytes_GET_SIZE(message.payload), total, whole
    cdef bytes out
    cdef unsigned char *p
    cdef unsigned char *at
    cdef uint32_t crc, hlen32, plen32
    cdef uint16_t slen16, flags = KIND_MSG
    if slen == 0 or slen > 65535 or hlen + plen > 0x1FFFFFFF - 65536 - HEAD:
        raise ValueError("a part of the message is too long, or the subject is empty")
    total = HEAD + slen + hlen + plen
    if message.expires_ns:
        total += 8
        flags |= FLAG_EXPIRES
    whole = (total + 7) & ~<Py_ssize_t>7
    out = PyBytes_FromStringAndSize(NULL, whole)
    p = <unsigned char *>PyBytes_AS_STRING(out)
    hlen32, slen16, plen32 = <uint32_t>hlen, <uint16_t>slen, <uint32_t>plen
    memcpy(p + 4, &hlen32, 4)
    memcpy(p + 8, &message.seq, 8)
    memcpy(p + 16, &message.ts_ns, 8)
    memcpy(p + 24, &slen16, 2)
    memcpy(p + 26, &flags, 2)
    memcpy(p + 28, &plen32, 4)
    at = p + HEAD
    if message.expires_ns:
        memcpy(at, &message.expires_ns, 8)
        at += 8
    memcpy(at, PyBytes_AS_STRING(message.subject), slen)
    memcpy(at + slen, PyBytes_AS_STRING(message.headers), hlen)
    memcpy(at + slen + hlen, PyBytes_AS_STRING(message.payload), plen)
    memset(p + total, 0, whole - total)
    crc = slip_crc32c(0, p + 4, total - 4)
    memcpy(p, &crc, 4)
    return out
