# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The hash chain over the records of a log: filled in as they are written, recomputed as they are read.

    record ──BLAKE2b──► leaf (32 bytes)          leaves since the last CHAIN record ──BLAKE2b, with the link before──► link
    CHAIN record: payload = records linked so far (8), link (32)

A leaf is the digest of a record without its checksum, so it does not depend on the file. What was overwritten, or left out
by a compaction, stands in the chain by its leaf. MARK records say nothing and have none. A CHAIN record with nothing to
link repeats the last link. Frames of a unit that was given up do not count: whoever goes on after them says `go_back`.

Leaves are made four at a time where the machine can (`blake2b4.c`). Other digests are those of a function of libsodium,
called without the GIL by its address, or else of `hashlib`. What this is not:
deciding what a break means, or whether a leaf may stand for its record; callers get the sequences.

Invariants: every length is checked against the bytes before it is used. Memory: 32 bytes for each record that is not linked
yet. Complexity: O(bytes).
"""

import hashlib

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy

from slipstream.kernels.bytes_le cimport get16, get32, get64, put32, put64
from slipstream.kernels.heap cimport Store, store_append
from slipstream.kernels.log.record cimport (
    FLAG_EXPIRES, FRAME_FIRST, FRAME_HEAD, FRAME_LOCAL, FRAME_MORE, FRAME_UNIT, HEAD, KIND_CHAIN, KIND_ERASED, KIND_MARK,
    KIND_MASK, KIND_MSG, KIND_SKIP, Frame, read_frame, record_size,
)

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)

cdef extern from "blake2b4.h" nogil:
    bint slip_blake2b4_ready()
    void slip_blake2b4(
        unsigned char *const *out, const unsigned char *const *data, const size_t *length, const unsigned char *person
    )

ctypedef int (*Blake2b)(
    unsigned char *out, size_t out_size, const unsigned char *data, unsigned long long n, const unsigned char *key,
    size_t key_size, const unsigned char *salt, const unsigned char *person,
) noexcept nogil

cdef enum:
    DIGEST = 32
    UID = 16
    LINK = 40                # payload of a CHAIN record
    SEAL = 0                 # fill in the links
    CHECK = 1                # compare them
    FIND = 2                 # look for the last one
    TAIL = 3                 # take what is behind it
    LANES = 4                # records that are hashed side by side
    MEMORY = -2              # answers of a walk: no memory
    BROKEN = -3              # ... and what does not fit

LEAF_PERSON = b"slipstream.leaf"
LINK_PERSON = b"slipstream.link"
NO_LINK = bytes(LINK)

cdef unsigned char *LEAF = b"slipstream.leaf\0"
cdef unsigned char *LINKED = b"slipstream.link\0"


cdef class ChainLinks:
    """The end of a chain, and what is not linked yet.

    Args:
        head: the last link.
        count: records that it and those before it cover.
        uid: identity of the stream, 16 bytes: the same records in another stream have other links.
        blake2b: address of `crypto_generichash_blake2b_salt_personal`, 0 without one.
        many: hash several records at once where the machine can.
    """

    cdef Blake2b fast
    cdef unsigned char uid[UID]
    cdef unsigned char link[DIGEST]
    cdef readonly uint64_t count
    cdef Store leaves
    cdef uint64_t group_first, group_last  # messages among the leaves
    cdef uint64_t last_seen                # message
    cdef bint in_unit                      # the last frame belongs to a unit that goes on
    cdef unsigned char unit_link[DIGEST]
    cdef uint64_t unit_count
    cdef Py_ssize_t unit_leaves
    cdef bint begun                        # a CHAIN record was seen
    cdef object erased                     # of a check: leaves by sequence
    cdef readonly list gone
    """Of a check: first and last sequence of every run of leaves that stands for messages."""
    cdef readonly tuple broken
    """Of a check: first and last sequence that may be concerned, and what was found; None as long as all is well."""
    cdef uint64_t wanted
    cdef readonly bytes found
    """Of a check: the link at the count that was asked for."""
    cdef readonly tuple start
    """Of a check: count and link that it began with; None before the first."""
    cdef Py_ssize_t last_at                # of the last CHAIN record
    cdef bint many                         # whether this machine hashes several records at once
    cdef int waiting                       # records whose leaves have their place, and are not made yet
    cdef const unsigned char *records[LANES]
    cdef size_t lengths[LANES]
    cdef Py_ssize_t places[LANES]          # of their leaves
    cdef const char *problem

    def __cinit__(self, bytes head not None, uint64_t count, bytes uid not None, size_t blake2b=0, bint many=True):
        if PyBytes_GET_SIZE(head) != DIGEST or PyBytes_GET_SIZE(uid) != UID:
            raise ValueError("a link has 32 bytes, an identity 16")
        memcpy(self.uid, PyBytes_AS_STRING(uid), UID)
        memcpy(self.link, PyBytes_AS_STRING(head), DIGEST)
        self.count = count
        self.fast = <Blake2b><void *>blake2b
        self.many = many and slip_blake2b4_ready()
        self.gone = []

    def __dealloc__(self):
        free(self.leaves.at)

    @property
    def head(self):
        """The last link."""
        return PyBytes_FromStringAndSize(<char *>self.link, DIGEST)

    @property
    def unlinked(self):
        """Records that no link covers yet."""
        return self.leaves.size // DIGEST

    @property
    def unlinked_seqs(self):
        """First and last sequence of the messages among them; zeros if there are none."""
        return self.group_first, self.group_last

    # --- writing --------------------------------------------------------------------------------------------------

    def seal(self, bytes data not None, Py_ssize_t start, uint64_t salt):
        """Fill in the links of frames that were just made, before anybody else sees them."""
        self.walk(data, start, PyBytes_GET_SIZE(data), salt, SEAL)
        if self.broken is not None:
            raise ValueError(f"frames that cannot be sealed: {self.broken[2]}")

    def go_back(self):
        """A unit that has no end was given up: go on from where it began."""
        if self.in_unit:
            self.in_unit = False
            memcpy(self.link, self.unit_link, DIGEST)
            self.count = self.unit_count
            self.leaves.size = self.unit_leaves

    def resume(self, bytes data not None, Py_ssize_t start, Py_ssize_t end, uint64_t salt, dict erased not None):
        """Go on behind the last link of a segment that was read back. False: there is none, or it cannot be read through.
        """
        self.erased = erased
        self.last_at = -1
        self.walk(data, start, end, salt, FIND)
        if self.last_at < 0 or self.broken is not None:
            return False
        self.leaves.size = 0
        self.walk(data, start, end, salt, TAIL)
        self.broken = None  # what cannot be read has been told by who read it
        self.in_unit = False
        return True

    def absorb(self, bytes data not None, Py_ssize_t start, Py_ssize_t end, uint64_t salt, dict erased not None):
        """The same for a segment behind it that has no link."""
        self.erased = erased
        self.last_at = -1
        self.walk(data, start, end, salt, TAIL)
        self.broken = None
        self.in_unit = False

    # --- checking -------------------------------------------------------------------------------------------------

    def check(
        self, bytes data not None, Py_ssize_t start, Py_ssize_t end, uint64_t salt, dict erased not None,
        uint64_t wanted=0,
    ):
        """Whether every link of a segment is what its records make it; `broken` says what is not.

        The first CHAIN record of the first segment is where it begins.
        """
        self.erased = erased
        self.wanted = wanted
        self.walk(data, start, end, salt, CHECK)
        return self.broken is None

    # --- the walk -------------------------------------------------------------------------------------------------

    cdef int walk(self, bytes data, Py_ssize_t start, Py_ssize_t end, uint64_t salt, int mode) except -1:
        cdef unsigned char *p = <unsigned char *>PyBytes_AS_STRING(data)
        cdef int outcome
        if start < 0 or end > PyBytes_GET_SIZE(data):
            raise ValueError("beyond the bytes")
        self.problem = NULL
        with nogil:
            outcome = self.frames(p, start, end, salt, mode)
            if self.make_leaves() < 0:
                outcome = -1
        if outcome == MEMORY:
            raise MemoryError()
        if outcome == BROKEN and self.broken is None:
            self.broken = (self.group_first, self.group_last, self.problem.decode())
        return 0

    cdef int frames(self, unsigned char *p, Py_ssize_t at, Py_ssize_t end, uint64_t salt, int mode) except -1 nogil:
        cdef Frame frame
        cdef Py_ssize_t limit, size
        cdef uint32_t seen
        cdef int outcome
        while at < end:
            if not read_frame(p + at, end - at, salt, &frame):
                return self.breaks(0, "bytes that are no frame")
            self.enter(frame.flags)
            limit = min(at + <Py_ssize_t>frame.length, end)
            at += FRAME_HEAD
            seen = 0
            while seen < frame.count and at < limit:
                # What was just written is as it should be; only its place is looked at.
                size = placed(p + at, end - at) if mode == SEAL else record_size(p + at, end - at, <uint32_t>salt)
                if size == 0:
                    return self.breaks(0, "bytes that are no record")
                outcome = self.record(p + at, at, <uint32_t>salt, mode)
                if outcome < 0:
                    return outcome
                at += size
                seen += 1
            if seen < frame.count and at < end:
                return self.breaks(0, "a frame with fewer records than it says")
            if self.in_unit and not frame.flags & (FRAME_MORE | FRAME_LOCAL):
                self.in_unit = False
            at = max(at, limit)
        return 0

    cdef void enter(self, uint32_t flags) noexcept nogil:
        """A frame begins, perhaps the first of a unit."""
        if flags & FRAME_UNIT and flags & FRAME_FIRST:
            self.in_unit = True
            memcpy(self.unit_link, self.link, DIGEST)
            self.unit_count = self.count
            self.unit_leaves = self.leaves.size

    cdef int record(self, unsigned char *p, Py_ssize_t at, uint32_t salt, int mode) except -1 nogil:
        """One record; its lengths were checked."""
        cdef uint16_t flags = get16(p + 26)
        cdef int kind = flags & KIND_MASK
        cdef uint32_t hlen = get32(p + 4), plen = get32(p + 28)
        cdef uint16_t slen = get16(p + 24)
        cdef Py_ssize_t total = HEAD + <Py_ssize_t>hlen + slen + plen + (8 if flags & FLAG_EXPIRES else 0)
        cdef uint64_t seq = get64(p + 8)
        cdef unsigned char leaf[DIGEST]
        if kind == KIND_CHAIN:
            if plen != LINK or slen or hlen or flags & FLAG_EXPIRES:
                return self.breaks(seq, "a CHAIN record of another size")
            return self.chain_record(p, at, salt, mode)
        if kind == KIND_MARK or mode == FIND or (mode == TAIL and at < self.last_at):
            return 0
        if kind == KIND_ERASED or (kind == KIND_SKIP and slen):
            with gil:
                return self.stand_in(p, kind, seq, slen, plen)
        if kind == KIND_MSG:
            self.note(seq, seq)
        if self.many:
            return self.wait_for_leaf(p + 4, total - 4)
        if self.digest(leaf, LEAF, p + 4, total - 4) < 0:
            return -1
        return self.push(leaf, DIGEST)

    cdef int wait_for_leaf(self, const unsigned char *p, Py_ssize_t n) except -1 nogil:
        """Give the leaf of a record its place; it is made with others."""
        cdef int lane = self.waiting
        self.records[lane] = p
        self.lengths[lane] = <size_t>n
        self.places[lane] = self.leaves.size
        if not store_append(&self.leaves, <const char *>self.link, DIGEST):  # room; what is there means nothing
            return MEMORY
        self.waiting += 1
        return self.make_leaves() if self.waiting == LANES else 0

    cdef int make_leaves(self) except -1 nogil:
        """Make the leaves that wait."""
        cdef unsigned char *out[LANES]
        cdef unsigned char spare[DIGEST]
        cdef int lane, n = self.waiting
        self.waiting = 0
        if n == 1:
            return self.digest(<unsigned char *>self.leaves.at + self.places[0], LEAF, self.records[0], self.lengths[0])
        if n == 0:
            return 0
        for lane in range(LANES):
            if lane < n:
                out[lane] = <unsigned char *>self.leaves.at + self.places[lane]
            else:  # a lane without a record does what another does
                out[lane] = spare
                self.records[lane], self.lengths[lane] = self.records[0], self.lengths[0]
        slip_blake2b4(out, self.records, self.lengths, LEAF)
        return 0

    cdef int stand_in(self, unsigned char *p, int kind, uint64_t seq, uint16_t slen, uint32_t plen) except -1:
        """Leaves in the place of what they were made of."""
        cdef uint64_t last
        cdef bytes leaf
        if kind == KIND_ERASED:
            self.note(seq, seq)
            leaf = self.erased.get(seq) if self.erased is not None else None
            if leaf is None or PyBytes_GET_SIZE(leaf) != DIGEST:
                return self.breaks(seq, "an erased message whose digest is not known")
            return self.push(<unsigned char *>PyBytes_AS_STRING(leaf), DIGEST)
        if plen != 8 or slen % DIGEST or get64(p + 16):
            return self.breaks(seq, "digests of another size, or with a time")
        last = get64(p + HEAD + slen)
        if last < seq or last - seq + 1 != slen // DIGEST:
            return self.breaks(seq, "not a digest for each message")
        self.note(seq, last)
        self.gone.append((seq, last))
        return self.push(p + HEAD, slen)

    cdef int chain_record(self, unsigned char *p, Py_ssize_t at, uint32_t salt, int mode) except -1 nogil:
        cdef unsigned char *payload = p + HEAD
        if mode == FIND:
            self.last_at = at
            return 0
        if mode == TAIL:
            if at == self.last_at:
                self.count = get64(payload)
                memcpy(self.link, payload + 8, DIGEST)
            return 0
        if mode == CHECK and not self.begun:
            if self.leaves.size:
                return self.breaks(0, "records before the first link")
            self.count = get64(payload)
            memcpy(self.link, payload + 8, DIGEST)
            with gil:
                self.start = (self.count, self.head)
        self.begun = True
        if self.leaves.size and self.make_link() < 0:
            return -1
        if mode == SEAL:
            put64(payload, self.count)
            memcpy(payload + 8, self.link, DIGEST)
            put32(p, slip_crc32c(salt, p + 4, HEAD + LINK - 4))
        elif get64(payload) != self.count or memcmp(payload + 8, self.link, DIGEST) != 0:
            return self.breaks(0, "the link is not that of its records")
        if mode == CHECK and self.wanted and self.wanted == self.count:
            with gil:
                self.found = self.head
        self.group_first = self.group_last = 0
        return 0

    cdef int make_link(self) except -1 nogil:
        cdef uint64_t n = <uint64_t>(self.leaves.size // DIGEST)
        if self.make_leaves() < 0:
            return -1
        # The link before is hashed behind the leaves: they lie there already.
        if not store_append(&self.leaves, <char *>self.link, DIGEST):
            return MEMORY
        if self.digest(self.link, LINKED, <unsigned char *>self.leaves.at, self.leaves.size) < 0:
            return -1
        self.leaves.size = 0
        self.count += n
        return 0

    cdef int digest(self, unsigned char *out, unsigned char *person, const unsigned char *p, Py_ssize_t n) except -1 nogil:
        if self.fast != NULL:
            return self.fast(out, DIGEST, p, n, NULL, 0, self.uid if person == LINKED else NULL, person)
        with gil:
            made = hashlib.blake2b(
                PyBytes_FromStringAndSize(<const char *>p, n), digest_size=DIGEST,
                salt=b"" if person == LEAF else PyBytes_FromStringAndSize(<char *>self.uid, UID),
                person=LEAF_PERSON if person == LEAF else LINK_PERSON,
            ).digest()
            memcpy(out, PyBytes_AS_STRING(made), DIGEST)
        return 0

    cdef int push(self, const unsigned char *leaves, Py_ssize_t size) noexcept nogil:
        return 0 if store_append(&self.leaves, <const char *>leaves, size) else MEMORY

    cdef void note(self, uint64_t first, uint64_t last) noexcept nogil:
        if self.group_first == 0:
            self.group_first = first
        self.group_last = self.last_seen = last

    cdef int breaks(self, uint64_t seq, const char *problem) noexcept nogil:
        if not self.group_first:
            self.group_first = self.group_last = seq or self.last_seen + 1
        self.problem = problem
        return BROKEN


cdef Py_ssize_t placed(const unsigned char *p, Py_ssize_t room) noexcept nogil:
    """Bytes that the record at `p` takes with its padding; 0: it does not fit."""
    cdef uint64_t total
    if room < HEAD:
        return 0
    total = <uint64_t>HEAD + get32(p + 4) + get16(p + 24) + get32(p + 28) + (8 if get16(p + 26) & FLAG_EXPIRES else 0)
    total = (total + 7) & ~<uint64_t>7
    return <Py_ssize_t>total if total <= <uint64_t>room else 0


def leaf_of(bytes data not None, Py_ssize_t at, uint64_t salt):
    """Leaf of the record at this place; None if there is no valid one."""
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data) + at
    cdef Py_ssize_t total
    if at < 0 or at > PyBytes_GET_SIZE(data) or record_size(p, PyBytes_GET_SIZE(data) - at, <uint32_t>salt) == 0:
        return None
    total = HEAD + <Py_ssize_t>get32(p + 4) + get16(p + 24) + get32(p + 28) + (8 if get16(p + 26) & FLAG_EXPIRES else 0)
    return hashlib.blake2b(
        PyBytes_FromStringAndSize(<const char *>p + 4, total - 4), digest_size=DIGEST, person=LEAF_PERSON
    ).digest()


def records_of(bytes data not None, Py_ssize_t start, Py_ssize_t end, uint64_t salt):
    """Place, kind and sequence of every record of a segment without damage, in order; None where there is some."""
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t at = start, limit, size
    cdef Frame frame
    cdef uint32_t seen
    cdef list out = []
    if start < 0 or end > PyBytes_GET_SIZE(data):
        return None
    while at < end:
        if not read_frame(p + at, end - at, salt, &frame):
            return None
        limit = min(at + <Py_ssize_t>frame.length, end)
        at += FRAME_HEAD
        seen = 0
        while seen < frame.count and at < limit:
            size = record_size(p + at, end - at, <uint32_t>salt)
            if size == 0:
                return None
            out.append((at, get16(p + at + 26) & KIND_MASK, get64(p + at + 8)))
            at += size
            seen += 1
        if seen < frame.count and at < end:
            return None
        at = max(at, limit)
    return out
