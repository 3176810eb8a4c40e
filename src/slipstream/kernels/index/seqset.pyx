# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A set of sequences: bitmaps of 2048 sequences each, kept sorted.

    blocks:  [ base 0, bits ... ] [ base 2048, bits ... ] [ base 10240, bits ... ]

Sequences of one stream lie close together, so a block is well filled: acks above a floor, deleted sequences, sequences
lost. Membership, add and remove are a binary search over the blocks (the last one used is tried first) and one bit.
An empty block is given back. Memory: 272 bytes a block, at worst one block a sequence. The memory belongs to the set.

Persistent form (`to_bytes`): ranges as pairs of LEB128 numbers (distance from the end of the last range, length - 1).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memmove

cdef extern from *:
    """
    static inline int slip_ctz(unsigned long long w) { return __builtin_ctzll(w); }
    static inline int slip_clz(unsigned long long w) { return __builtin_clzll(w); }
    static inline int slip_pop(unsigned long long w) { return __builtin_popcountll(w); }
    """
    int slip_ctz(unsigned long long w) noexcept nogil
    int slip_clz(unsigned long long w) noexcept nogil
    int slip_pop(unsigned long long w) noexcept nogil

cdef enum:
    WORDS = 32
    SPAN = 2048  # WORDS * 64

cdef uint64_t LAST = <uint64_t>0 - SPAN - 1  # highest number of a set

cdef struct Block:
    uint64_t base
    uint32_t count
    uint64_t bits[WORDS]


cdef class SeqSet:
    """A set of numbers from 0 to 2**64 - 2049."""

    cdef Block **blocks
    cdef Py_ssize_t n, cap, hot
    cdef uint64_t count

    def __init__(self, seqs=()):
        for seq in seqs:
            self.add(seq)

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n):
            free(self.blocks[i])
        free(self.blocks)

    cdef Py_ssize_t find(self, uint64_t base) noexcept:
        """Index of the first block whose base is not below this one."""
        cdef Py_ssize_t lo = 0, hi = self.n, mid
        if self.hot < self.n and self.blocks[self.hot].base == base:
            return self.hot
        while lo < hi:
            mid = (lo + hi) // 2
            if self.blocks[mid].base < base:
                lo = mid + 1
            else:
                hi = mid
        self.hot = lo
        return lo

    cdef Block *block_for(self, uint64_t base) except NULL:
        cdef Py_ssize_t i = self.find(base)
        cdef Block *b
        cdef void *grown
        if i < self.n and self.blocks[i].base == base:
            return self.blocks[i]
        if self.n == self.cap:
            grown = realloc(self.blocks, (self.cap * 2 + 4) * sizeof(Block *))
            if grown == NULL:
                raise MemoryError()
            self.blocks = <Block **>grown
            self.cap = self.cap * 2 + 4
        b = <Block *>calloc(1, sizeof(Block))
        if b == NULL:
            raise MemoryError()
        b.base = base
        memmove(&self.blocks[i + 1], &self.blocks[i], (self.n - i) * sizeof(Block *))
        self.blocks[i] = b
        self.n += 1
        return b

    cdef void drop(self, Py_ssize_t i) noexcept:
        free(self.blocks[i])
        memmove(&self.blocks[i], &self.blocks[i + 1], (self.n - i - 1) * sizeof(Block *))
        self.n -= 1

    def add(self, uint64_t seq):
        """Put one in; False when it was there."""
        cdef Block *b = self.block_for(seq & ~<uint64_t>(SPAN - 1))
        cdef uint32_t bit = seq & (SPAN - 1)
        if b.bits[bit >> 6] >> (bit & 63) & 1:
            return False
        b.bits[bit >> 6] |= <uint64_t>1 << (bit & 63)
        b.count += 1
        self.count += 1
        return True

    def add_range(self, uint64_t first, uint64_t last):
        """Put `first` to `last` in, both included."""
        cdef uint64_t seq = first, stop
        cdef Block *b
        cdef uint64_t before, mask
        cdef uint32_t lo, hi
        if last < first:
            return
        while True:
            b = self.block_for(seq & ~<uint64_t>(SPAN - 1))
            lo = seq & (SPAN - 1)
            stop = min(last, b.base + (SPAN - 1))
            hi = stop & (SPAN - 1)
            while lo <= hi:
                mask = ~<uint64_t>0 << (lo & 63)
                if (lo | 63) > hi:
                    mask &= ~<uint64_t>0 >> (63 - (hi & 63))
                before = b.bits[lo >> 6]
                b.bits[lo >> 6] = before | mask
                b.count += slip_pop(mask & ~before)
                self.count += slip_pop(mask & ~before)
                lo = (lo | 63) + 1
            if stop == last:
                return
            seq = stop + 1

    def discard(self, uint64_t seq):
        """Take one out; False when it was not there."""
        cdef uint64_t base = seq & ~<uint64_t>(SPAN - 1)
        cdef Py_ssize_t i = self.find(base)
        cdef uint32_t bit = seq & (SPAN - 1)
        cdef Block *b
        if i >= self.n or self.blocks[i].base != base:
            return False
        b = self.blocks[i]
        if not (b.bits[bit >> 6] >> (bit & 63) & 1):
            return False
        b.bits[bit >> 6] &= ~(<uint64_t>1 << (bit & 63))
        b.count -= 1
        self.count -= 1
        if b.count == 0:
            self.drop(i)
        return True

    def discard_below(self, uint64_t seq):
        """Take out everything below; how many went."""
        cdef uint64_t before = self.count, kept
        cdef Block *b
        cdef uint32_t w, bit
        cdef Py_ssize_t gone = 0
        while gone < self.n and self.blocks[gone].base + (SPAN - 1) < seq:
            self.count -= self.blocks[gone].count
            free(self.blocks[gone])
            gone += 1
        if gone:
            memmove(&self.blocks[0], &self.blocks[gone], (self.n - gone) * sizeof(Block *))
            self.n -= gone
        if self.n and self.blocks[0].base < seq:
            b = self.blocks[0]
            bit = seq & (SPAN - 1)
            for w in range((bit >> 6) + 1):
                kept = 0 if w < bit >> 6 else b.bits[w] & (~<uint64_t>0 << (bit & 63))
                b.count -= slip_pop(b.bits[w] & ~kept)
                self.count -= slip_pop(b.bits[w] & ~kept)
                b.bits[w] = kept
            if b.count == 0:
                self.drop(0)
        return before - self.count

    def clear(self):
        """Take everything out."""
        cdef Py_ssize_t i
        for i in range(self.n):
            free(self.blocks[i])
        self.n = 0
        self.count = 0

    def __contains__(self, uint64_t seq):
        cdef uint64_t base = seq & ~<uint64_t>(SPAN - 1)
        cdef Py_ssize_t i = self.find(base)
        cdef uint32_t bit = seq & (SPAN - 1)
        return i < self.n and self.blocks[i].base == base and self.blocks[i].bits[bit >> 6] >> (bit & 63) & 1 == 1

    def __len__(self):
        return self.count

    def __bool__(self):
        return self.count > 0

    def __iter__(self):
        for first, last in self.ranges():
            yield from range(first, last + 1)

    @property
    def first(self):
        """The lowest; None when empty."""
        return self.next_from(0)

    @property
    def last(self):
        """The highest; None when empty."""
        cdef Block *b
        cdef int w
        if self.n == 0:
            return None
        b = self.blocks[self.n - 1]
        for w in range(WORDS - 1, -1, -1):
            if b.bits[w]:
                return b.base + <uint64_t>w * 64 + 63 - slip_clz(b.bits[w])
        return None

    def next_from(self, uint64_t seq):
        """The lowest at or above `seq`; None when there is none."""
        cdef Py_ssize_t i = self.find(seq & ~<uint64_t>(SPAN - 1))
        cdef uint32_t w
        cdef uint64_t word
        cdef Block *b
        while i < self.n:
            b = self.blocks[i]
            w = 0 if b.base > seq else (seq & (SPAN - 1)) >> 6
            while w < WORDS:
                word = b.bits[w]
                if b.base <= seq and w == (seq & (SPAN - 1)) >> 6:
                    word &= ~<uint64_t>0 << (seq & 63)
                if word:
                    return b.base + <uint64_t>w * 64 + slip_ctz(word)
                w += 1
            i += 1
        return None

    def next_missing(self, uint64_t seq):
        """The lowest at or above `seq` that is not in the set: a floor moves here."""
        cdef Py_ssize_t i = self.find(seq & ~<uint64_t>(SPAN - 1))
        cdef uint32_t w
        cdef uint64_t word
        cdef Block *b
        while i < self.n:
            b = self.blocks[i]
            if b.base > seq:
                return seq
            w = (seq & (SPAN - 1)) >> 6
            word = ~b.bits[w] & (~<uint64_t>0 << (seq & 63))
            while True:
                if word:
                    return b.base + <uint64_t>w * 64 + slip_ctz(word)
                w += 1
                if w == WORDS:
                    break
                word = ~b.bits[w]
            seq = b.base + SPAN
            i += 1
        return seq

    def ranges(self):
        """The set as a list of inclusive ranges, ascending."""
        cdef list out = []
        at = self.next_from(0)
        while at is not None:
            end = self.next_missing(at)
            out.append((at, end - 1))
            at = self.next_from(end)
        return out

    def to_bytes(self):
        """The persistent form."""
        cdef bytearray out = bytearray()
        cdef uint64_t at = 0, value
        for first, last in self.ranges():
            for value in (<uint64_t>first - at, <uint64_t>last - <uint64_t>first):
                while value >= 128:
                    out.append((value & 127) | 128)
                    value >>= 7
                out.append(value)
            at = last + 1
        return bytes(out)

    @staticmethod
    def from_bytes(bytes data not None):
        """Read the persistent form.

        Raises:
            ValueError: it is cut off, or names sequences beyond 64 bits.
        """
        cdef SeqSet s = SeqSet()
        cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data)
        cdef const unsigned char *end = p + PyBytes_GET_SIZE(data)
        cdef uint64_t at = 0
        cdef uint64_t pair[2]
        cdef int k, shift
        cdef unsigned char byte
        while p < end:
            for k in range(2):
                pair[k] = 0
                shift = 0
                while True:
                    if p >= end or shift > 63 or (shift == 63 and p[0] > 1):
                        raise ValueError("set of sequences is cut off or out of range")
                    byte = p[0]
                    p += 1
                    pair[k] |= <uint64_t>(byte & 127) << shift
                    shift += 7
                    if not byte & 128:
                        break
            if pair[1] > RANGE_MAX or s.count + pair[1] > TOTAL_MAX:
                raise ValueError("set of sequences is out of range")
            if at > LAST or pair[0] > LAST - at or pair[1] > LAST - at - pair[0]:
                raise ValueError("set of sequences is out of range")
            s.add_range(at + pair[0], at + pair[0] + pair[1])
            at += pair[0] + pair[1] + 1
        return s

    def memory(self):
        """Bytes on the heap."""
        return self.n * sizeof(Block) + self.cap * sizeof(Block *)


cdef enum:
    RANGE_MAX = 1 << 30
    TOTAL_MAX = 1 << 30
