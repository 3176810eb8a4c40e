# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Records and frames: how a message becomes bytes in a segment, and comes back.

    frame: one or more make a group commit           record: one message or one fact, 8-byte aligned
     0 magic u32 xor salt   4 length u32             0 crc32c u32 of all that follows, keyed by the salt
     8 frame number u64    16 first_seq u64          4 headers length u32     8 seq u64      16 ts ns i64
    24 records u32         28 flags u32             24 subject length u16    26 flags u16    28 payload length u32
    32 synced_upto u64     40 epoch u64             32 [expiry i64] subject, headers, payload, zeros to 8 bytes
    48 ts of first i64     56 crc of body, or 0
    60 crc32c of 0..59, keyed by the salt

All numbers little endian. The salt is random per file, so that bytes of another file, or a payload that imitates a
record, never check out. `synced_upto` names the newest frame known to be on stable storage when this one was written:
it tells a torn tail (never acknowledged) from damage. The checksum of a record covers every length in it. The checksum
of the body is for bodies that are compressed or encrypted; it is 0 for plain ones, so that one record can be
overwritten in place without touching its frame.

Here is the layout and what reads it; `logwriter` writes. Readers check every length against the room that is left, and
then the checksum, before they use anything. Complexity: O(bytes of the record). Memory: nothing is kept.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from slipstream.kernels.bytes_le cimport get16, get32, get64, put16, put32, put64
from slipstream.kernels.index.runtable cimport LENGTH_EXPIRES, LENGTH_MASK
from slipstream.kernels.index.subjectindex cimport Selection

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)
    uint32_t slip_crc32c_table(uint32_t crc, const void *data, size_t n)
    void slip_crc32c_copy(uint32_t *first, uint32_t *second, void *to, const void *source, size_t n)

RECORD_HEAD = HEAD
FRAME_HEAD_BYTES = FRAME_HEAD

MSG = KIND_MSG
TOMBS = KIND_TOMBS
TRIM = KIND_TRIM
SKIP = KIND_SKIP
CONFIG = KIND_CONFIG
STATE = KIND_STATE
ERASE = KIND_ERASE
ERASED = KIND_ERASED
PUT = KIND_PUT
ADD = KIND_ADD
REMOVE = KIND_REMOVE
MARK = KIND_MARK
NOTE = KIND_NOTE
CHAIN = KIND_CHAIN


def crc32c(bytes data, uint32_t crc=0):
    """CRC-32C of `data`, continuing `crc`."""
    return slip_crc32c(crc, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


def crc32c_table(bytes data, uint32_t crc=0):
    """The same by table, for tests."""
    return slip_crc32c_table(crc, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


def crc32c_copy(bytes data, uint32_t first, uint32_t second):
    """A copy of `data`, made while both checksums were continued over it, and the two; for tests."""
    cdef Py_ssize_t n = PyBytes_GET_SIZE(data)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, n)
    slip_crc32c_copy(&first, &second, PyBytes_AS_STRING(out), PyBytes_AS_STRING(data), n)
    return out, first, second


cdef class StoredMessage:
    """One message as it was stored."""

    def __init__(
        self, seq, ts_ns, bytes subject not None, bytes headers not None, bytes payload not None, expires_ns=0
    ):
        self.seq = seq
        self.ts_ns = ts_ns
        self.subject = subject
        self.headers = headers
        self.payload = payload
        self.expires_ns = expires_ns

    def __eq__(self, other):
        cdef StoredMessage o
        if not isinstance(other, StoredMessage):
            return NotImplemented
        o = <StoredMessage>other
        return (
            self.seq == o.seq and self.ts_ns == o.ts_ns and self.expires_ns == o.expires_ns
            and self.subject == o.subject and self.headers == o.headers and self.payload == o.payload
        )

    def __hash__(self):
        return hash((self.seq, self.subject))

    def __repr__(self):
        return f"StoredMessage(seq={self.seq}, subject={self.subject!r}, {len(self.headers)}+{len(self.payload)} bytes)"


cdef Py_ssize_t record_size(const unsigned char *p, Py_ssize_t room, uint32_t salt) noexcept nogil:
    """Bytes the record at `p` occupies with padding (at most `room`), 0 when there is no valid record."""
    cdef uint16_t flags
    cdef uint64_t total
    if room < HEAD:
        return 0
    flags = get16(p + 26)
    if (flags & KIND_MASK) == 0 or (flags & KIND_MASK) > KIND_LAST or flags > 31:
        return 0
    total = <uint64_t>HEAD + get32(p + 4) + get16(p + 24) + get32(p + 28) + (8 if flags & FLAG_EXPIRES else 0)
    if total > <uint64_t>room:
        return 0
    if slip_crc32c(salt, p + 4, total - 4) != get32(p):
        return 0
    total = (total + 7) & ~<uint64_t>7
    return <Py_ssize_t>total if total < <uint64_t>room else room


cdef bint read_frame(const unsigned char *p, Py_ssize_t room, uint64_t salt, Frame *out) noexcept nogil:
    """Whether a frame header is at `p`; its fields in `out`. The body may be cut off or damaged."""
    if room < FRAME_HEAD or get32(p) != (FRAME_MAGIC ^ <uint32_t>salt):
        return False
    if slip_crc32c(<uint32_t>salt, p, 60) != get32(p + 60):
        return False
    out.length = get32(p + 4)
    out.no = get64(p + 8)
    out.first_seq = get64(p + 16)
    out.count = get32(p + 24)
    out.flags = get32(p + 28)
    out.synced_upto = get64(p + 32)
    out.epoch = get64(p + 40)
    out.ts = <int64_t>get64(p + 48)
    return out.length >= FRAME_HEAD and out.length % 8 == 0


cdef StoredMessage decode(const unsigned char *p):
    """The message at `p`, whose checksum and lengths were verified."""
    cdef StoredMessage m = StoredMessage.__new__(StoredMessage)
    cdef uint32_t hlen = get32(p + 4), plen = get32(p + 28)
    cdef uint16_t slen = get16(p + 24)
    cdef const unsigned char *at = p + HEAD
    m.seq = get64(p + 8)
    m.ts_ns = <int64_t>get64(p + 16)
    if get16(p + 26) & FLAG_EXPIRES:
        m.expires_ns = <int64_t>get64(at)
        at += 8
    m.subject = PyBytes_FromStringAndSize(<const char *>at, slen)
    m.headers = PyBytes_FromStringAndSize(<const char *>at + slen, hlen)
    m.payload = PyBytes_FromStringAndSize(<const char *>at + slen + hlen, plen)
    return m


def read_message(bytes data, Py_ssize_t pos, uint64_t salt, uint64_t seq):
    """The message with this sequence at `pos`; None when what lies there is not it."""
    cdef Py_ssize_t room = PyBytes_GET_SIZE(data) - pos
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data) + pos
    if pos < 0 or record_size(p, room, <uint32_t>salt) == 0:
        return None
    if (get16(p + 26) & KIND_MASK) != KIND_MSG or get64(p + 8) != seq:
        return None
    return decode(p)


def record_kind(bytes data, Py_ssize_t pos, uint64_t salt):
    """Kind of the valid record at `pos`, 0 when there is none."""
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data) + pos
    if pos < 0 or record_size(p, PyBytes_GET_SIZE(data) - pos, <uint32_t>salt) == 0:
        return 0
    return get16(p + 26) & KIND_MASK


def read_selection(Selection chosen, Py_ssize_t start, bytes data, Py_ssize_t base, uint64_t salt, list out):
    """Decode selected records that lie in `data`, which begins at offset `base` of the segment of the first one.

    Stops at the first record of another segment or outside `data`. Appends to `out` a message, or the bare sequence
    where the record is damaged. Returns the index of the first record not decoded.
    """
    cdef Py_ssize_t i = start, at, size = PyBytes_GET_SIZE(data)
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef uint32_t seg
    cdef Py_ssize_t need
    if start < 0 or start >= chosen.n:
        return start
    seg = chosen.seg[start]
    while i < chosen.n and chosen.seg[i] == seg:
        at = <Py_ssize_t>chosen.off[i] - base
        need = (chosen.len[i] & LENGTH_MASK) + (8 if chosen.len[i] & LENGTH_EXPIRES else 0)
        if at < 0 or at + need > size:
            break
        if (
            record_size(p + at, size - at, <uint32_t>salt) == 0
            or (get16(p + at + 26) & KIND_MASK) != KIND_MSG
            or get64(p + at + 8) != chosen.seq[i]
        ):
            out.append(chosen.seq[i])
        else:
            out.append(decode(p + at))
        i += 1
    return i


def erased_record(uint64_t seq, int64_t ts, uint32_t length, uint64_t salt, bytes noise):
    """The record that replaces an erased message of the same size: `noise` where subject, headers and payload were."""
    cdef Py_ssize_t total = length & LENGTH_MASK
    cdef bytes out
    cdef unsigned char *p
    if length & LENGTH_EXPIRES:
        total += 8
    if total < HEAD or PyBytes_GET_SIZE(noise) != total - HEAD:
        raise ValueError("noise must fill the body")
    out = PyBytes_FromStringAndSize(NULL, total)
    p = <unsigned char *>PyBytes_AS_STRING(out)
    put32(p + 4, 0)
    put64(p + 8, seq)
    put64(p + 16, <uint64_t>ts)
    put16(p + 24, 0)
    put16(p + 26, KIND_ERASED)
    put32(p + 28, <uint32_t>(total - HEAD))
    memcpy(p + HEAD, PyBytes_AS_STRING(noise), total - HEAD)
    put32(p, slip_crc32c(<uint32_t>salt, p + 4, total - 4))
    return out
