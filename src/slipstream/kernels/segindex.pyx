# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The index file beside a segment: a `SegmentScan` as bytes, so that a restart need not read the segment.

    SegmentScan --encode_index()--> .sdx file --decode_index()--> SegmentScan

    .sdx: head (18 words of 8 bytes, see encode_index) | rel u32[n] unless dense | off u32[n] | len u32[n] | sid u32[n]
          | subject ends u32[m] | subject names | expiries (seq, ns)[] | holes (lo, hi)[] | control records | crc32c u32

Subjects are numbered anew: only those that still have messages are written.

Bounds: the lengths in an index file are checked against its size before use; its checksum is keyed with the segment's
salt and covers everything. Memory: a scan that was read borrows its arrays from the file's bytes, which it keeps alive.
Complexity: O(bytes) to write; to read, O(bytes) for the checksum and nothing else per message.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free

from slipstream.kernels.bytes_le cimport get32, get64
from slipstream.kernels.heap cimport grown
from slipstream.kernels.segscan cimport SegmentScan
from slipstream.kernels.subjecttable cimport NO_SUBJECT, SubjectTable

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)

cdef uint64_t SDX_MAGIC = 0x3130584453504C53  # "SLPSDX01"

cdef enum:
    SDX_HEAD_WORDS = 18
    DENSE = 1


def encode_index(SegmentScan scan not None, bytes control_records not None):
    """The index file. `control_records` comes from the caller, who knows how to encode them."""
    cdef uint32_t i, m = 0
    cdef list names = []
    cdef bint dense = scan.n > 0 and scan.rel[scan.n - 1] == scan.n - 1
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
        SDX_MAGIC, scan.salt, DENSE if dense else 0, scan.base_seq, scan.n, m, total, len(scan.expiries),
        len(scan.holes), scan.first_seq, scan.last_seq, scan.first_ts & 0xFFFFFFFFFFFFFFFF,
        scan.last_ts & 0xFFFFFFFFFFFFFFFF, scan.first_frame_no, scan.good_end, len(control_records),
        scan.last_frame_no, 0,
    )
    body = b"".join((
        b"".join([(<object>word).to_bytes(8, "little") for word in head]),
        b"" if dense else PyBytes_FromStringAndSize(<char *>scan.rel, <size_t>scan.n * 4),
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


def decode_index(bytes data not None, uint64_t salt):
    """Read an index file: `(scan, control record bytes)`, or None when it is damaged or of another segment."""
    cdef SegmentScan s
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef uint64_t size = PyBytes_GET_SIZE(data), need, n, m, total, n_exp, n_holes, n_control, _i
    cdef bint dense
    if size < SDX_HEAD_WORDS * 8 + 4 or get64(p) != SDX_MAGIC or get64(p + 8) != salt:
        return None
    if slip_crc32c(<uint32_t>salt, p, size - 4) != get32(p + size - 4):
        return None
    dense = get64(p + 16) & DENSE
    n, m, total = get64(p + 32), get64(p + 40), get64(p + 48)
    n_exp, n_holes, n_control = get64(p + 56), get64(p + 64), get64(p + 120)
    if n > size or m > size or total > size or n_exp > size or n_holes > size or n_control > size:
        return None
    need = SDX_HEAD_WORDS * 8 + n * (12 if dense else 16) + m * 4 + total + (n_exp + n_holes) * 16 + n_control + 4
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
    if not dense:
        s.rel = <uint32_t *>p
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
    for _i in range(n_exp):
        s.expiries.append((get64(p), <int64_t>get64(p + 8)))
        p += 16
    for _i in range(n_holes):
        s.holes.append((get64(p), get64(p + 8)))
        p += 16
    if m and get32(s.name_ends + (m - 1) * 4) != total:
        return None
    return s, PyBytes_FromStringAndSize(<const char *>p, n_control)


cdef void fill_sids(uint32_t *out, uint32_t *sid, uint32_t *numbers, uint32_t n) noexcept nogil:
    cdef uint32_t i
    for i in range(n):
        out[i] = numbers[sid[i]] if sid[i] != NO_SUBJECT else NO_SUBJECT
