# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The index file beside a segment: a `SegmentScan` as bytes, so that a restart need not read the segment.

    SegmentScan --encode_index()--> .sdx file --decode_index()--> SegmentScan

    .sdx: head (18 words of 8 bytes, see encode_index) | sequences | off u32[n] | len u32[n] | sid u32[n]
          | subject ends u32[m] | subject names | expiries (seq, ns)[] | holes (lo, hi)[] | control records | crc32c u32

Sequences are not written where they have no gaps (DENSE); they are distances to the first, u32[n], or numbers, u64[n], if
the segment spans more than that (WIDE). Subjects are numbered anew: only those that still have messages are written.

Bounds: the checksum of an index file is keyed with the segment's salt and covers everything, but it does not prove that
the file was written by `encode_index`. So nothing in it is believed: every length is checked against the size of the file,
sequences must grow within the segment's, records lie within it, and every subject has a name and a message. A file that
says anything else is as good as none. Memory: a scan that was read borrows its arrays from the file's bytes, which it
keeps alive. Complexity: O(bytes).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from slipstream.kernels.bytes_le cimport get32, get64, put32
from slipstream.kernels.heap cimport grown
from slipstream.kernels.log.record cimport HEAD
from slipstream.kernels.index.runtable cimport LENGTH_EXPIRES, LENGTH_MASK, RELATIVE_MAX
from slipstream.kernels.log.segscan cimport SEQ_TOP, SegmentScan, scanned_seq
from slipstream.kernels.index.subjecttable cimport NO_SUBJECT, SubjectTable

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)

cdef uint64_t SDX_MAGIC = 0x3130584453504C53  # "SLPSDX01"

cdef enum:
    SDX_HEAD_WORDS = 18
    DENSE = 1
    WIDE = 2
    NAME_BYTES_MAX = 65535

cdef uint64_t COUNT_MAX = 0xFFFFFFF0  # of messages, and of subjects


def encode_index(SegmentScan scan not None, bytes control_records not None):
    """The index file. `control_records` comes from the caller, who knows how to encode them."""
    cdef uint32_t i, m = 0
    cdef list names = []
    cdef uint64_t span = scanned_seq(scan, scan.n - 1) - scan.base_seq if scan.n else 0
    cdef uint64_t form = DENSE if scan.n and span == scan.n - 1 else WIDE if span >= RELATIVE_MAX else 0
    cdef bytes body, table
    cdef uint32_t *ends
    cdef uint32_t *numbers
    cdef uint64_t total = 0
    cdef SubjectTable t = scan.names
    if scan.name_ends != NULL:
        raise ValueError("already an index file")
    numbers = <uint32_t *>grown(NULL, (<size_t>t.n_subjects + 1) * 4)
    try:
        ends = <uint32_t *>grown(NULL, (<size_t>t.n_subjects + 1) * 4)
        try:
            for i in range(t.n_subjects):
                if t.subjects[i].count:
                    numbers[i] = m
                    total += t.subjects[i].name & 0xFFFF
                    ends[m] = <uint32_t>total
                    m += 1
                    names.append(PyBytes_FromStringAndSize(
                        t.arena + (t.subjects[i].name >> 16), t.subjects[i].name & 0xFFFF))
            table = PyBytes_FromStringAndSize(<char *>ends, <size_t>m * 4)
        finally:
            free(ends)
        sids = PyBytes_FromStringAndSize(NULL, <size_t>scan.n * 4)
        fill_sids(<uint32_t *>PyBytes_AS_STRING(sids), scan.sid, numbers, scan.n)
    finally:
        free(numbers)
    head = (
        SDX_MAGIC, scan.salt, form, scan.base_seq, scan.n, m, total, len(scan.expiries),
        len(scan.holes), scan.first_seq, scan.last_seq, scan.first_ts & 0xFFFFFFFFFFFFFFFF,
        scan.last_ts & 0xFFFFFFFFFFFFFFFF, scan.first_frame_no, scan.good_end, len(control_records),
        scan.last_frame_no, 0,
    )
    body = b"".join((
        b"".join([(<object>word).to_bytes(8, "little") for word in head]),
        sequences(scan, form),
        PyBytes_FromStringAndSize(<char *>scan.off, <size_t>scan.n * 4),
        PyBytes_FromStringAndSize(<char *>scan.len, <size_t>scan.n * 4),
        sids, table, b"".join(names),
        b"".join([
            a.to_bytes(8, "little") + (b & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little") for a, b in scan.expiries
        ]),
        b"".join([a.to_bytes(8, "little") + b.to_bytes(8, "little") for a, b in scan.holes]),
        control_records,
    ))
    crc = slip_crc32c(<uint32_t>scan.salt, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))
    return body + (<object>crc).to_bytes(4, "little")


cdef bytes sequences(SegmentScan scan, uint64_t form):
    """The sequences of a scan as the file has them."""
    cdef uint32_t i
    cdef bytes out
    cdef unsigned char *p
    if form == DENSE:
        return b""
    if form == WIDE:
        return PyBytes_FromStringAndSize(<const char *>scan.seqs, <size_t>scan.n * 8)
    out = PyBytes_FromStringAndSize(NULL, <size_t>scan.n * 4)
    p = <unsigned char *>PyBytes_AS_STRING(out)
    for i in range(scan.n):
        put32(p + <size_t>i * 4, <uint32_t>(scanned_seq(scan, i) - scan.base_seq))
    return out


def decode_index(bytes data not None, uint64_t salt):
    """Read an index file: `(scan, control record bytes)`, or None when it is damaged, of another segment or unsound."""
    cdef SegmentScan s
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef uint64_t size = PyBytes_GET_SIZE(data), need, n, m, total, n_exp, n_holes, n_control, form, each, _i
    if size < SDX_HEAD_WORDS * 8 + 4 or get64(p) != SDX_MAGIC or get64(p + 8) != salt:
        return None
    if slip_crc32c(<uint32_t>salt, p, size - 4) != get32(p + size - 4):
        return None
    form = get64(p + 16)
    n, m, total = get64(p + 32), get64(p + 40), get64(p + 48)
    n_exp, n_holes, n_control = get64(p + 56), get64(p + 64), get64(p + 120)
    if n > size or m > size or total > size or n_exp > size or n_holes > size or n_control > size:
        return None
    if form > WIDE or n > COUNT_MAX or m > COUNT_MAX or (get64(p + 112) | get64(p + 128)) >> 62:
        return None
    each = 12 + (0 if form == DENSE else 8 if form == WIDE else 4)
    need = SDX_HEAD_WORDS * 8 + n * each + m * 4 + total + (n_exp + n_holes) * 16 + n_control + 4
    if need != size:
        return None
    s = SegmentScan(b"", 0, salt, get64(p + 72), 0)
    s.data = data
    s.loaded = True
    s.owned = False
    s.base_seq = get64(p + 24)
    s.n = <uint32_t>n
    s.last_seq = get64(p + 80)
    s.expect = s.last_seq + 1
    s.first_ts = <int64_t>get64(p + 88)
    s.last_ts = <int64_t>get64(p + 96)
    s.first_frame_no = get64(p + 104)
    s.last_frame_no = get64(p + 128)
    s.good_end = get64(p + 112)
    p += SDX_HEAD_WORDS * 8
    if form == WIDE:
        s.seqs = p
        p += n * 8
    elif form != DENSE:
        s.rel = p
        p += n * 4
    s.off = <uint32_t *>p
    p += n * 4
    s.len = <uint32_t *>p
    p += n * 4
    s.sid = <uint32_t *>p
    p += n * 4
    s.n_names = <uint32_t>m
    s.name_ends = p
    p += m * 4
    s.name_bytes = p
    p += total
    if not are_messages_sound(s) or not are_names_sound(s, total):
        return None
    for _i in range(n_exp):
        s.expiries.append((get64(p), <int64_t>get64(p + 8)))
        p += 16
    for _i in range(n_holes):
        if not s.first_seq <= get64(p) <= get64(p + 8) <= s.last_seq:
            return None
        s.holes.append((get64(p), get64(p + 8)))
        p += 16
    return s, PyBytes_FromStringAndSize(<const char *>p, n_control)


cdef bint are_messages_sound(SegmentScan s) noexcept nogil:
    """Whether sequences grow within those of the segment, and records lie within it and are as long as records are."""
    cdef uint32_t i
    cdef uint64_t seq, length, before = 0
    if s.first_seq == 0 or s.first_seq > SEQ_TOP or s.last_seq > SEQ_TOP:
        return False
    if s.n == 0:
        return True
    if s.base_seq < s.first_seq or scanned_seq(s, 0) != s.base_seq:
        return False
    for i in range(s.n):
        seq = scanned_seq(s, i)  # one that wrapped around is below the first, and so does not grow
        if seq > s.last_seq or (i > 0 and seq <= before):
            return False
        before = seq
        length = (s.len[i] & LENGTH_MASK) + (8 if s.len[i] & LENGTH_EXPIRES else 0)
        if (s.len[i] & LENGTH_MASK) < HEAD or s.off[i] + length > <uint64_t>s.good_end:
            return False
    return True


cdef bint are_names_sound(SegmentScan s, uint64_t total) except -1:
    """Whether every name has a length that one can have, and every subject has a name and a message."""
    cdef uint32_t i, begin = 0, end, used = 0
    cdef unsigned char *seen
    for i in range(s.n_names):
        end = get32(s.name_ends + <size_t>i * 4)
        if end <= begin or end - begin > NAME_BYTES_MAX or end > total:
            return False
        begin = end
    if begin != total:
        return False
    seen = <unsigned char *>calloc(<size_t>s.n_names + 1, 1)
    if seen == NULL:
        raise MemoryError()
    try:
        for i in range(s.n):
            if s.sid[i] == NO_SUBJECT:
                continue
            if s.sid[i] >= s.n_names or (s.len[i] & LENGTH_MASK) <= HEAD:
                return False
            used += not seen[s.sid[i]]
            seen[s.sid[i]] = 1
    finally:
        free(seen)
    return used == s.n_names


cdef void fill_sids(uint32_t *out, uint32_t *sid, uint32_t *numbers, uint32_t n) noexcept nogil:
    cdef uint32_t i
    for i in range(n):
        out[i] = numbers[sid[i]] if sid[i] != NO_SUBJECT else NO_SUBJECT
