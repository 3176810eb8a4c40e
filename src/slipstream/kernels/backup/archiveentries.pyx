# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Stored messages as the entries of a backup in nats-server's newer form, many in one call and without the GIL.

    entry    uvarint length of the subject, varint time in ns, uvarint sequence, uvarint length of the headers,
             uvarint length of the payload, subject, headers, payload

The records of a batch were checked when they were taken. Linear time; memory: the entries.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from slipstream.kernels.bytes_le cimport get16, get32, get64
from slipstream.kernels.fastpath.handout cimport Batch
from slipstream.kernels.log.record cimport FLAG_EXPIRES, HEAD


cdef inline Py_ssize_t digits(uint64_t number) noexcept nogil:
    """Bytes of a uvarint."""
    cdef Py_ssize_t n = 1
    while number > 127:
        number >>= 7
        n += 1
    return n


cdef inline uint8_t *put(uint8_t *p, uint64_t number) noexcept nogil:
    while number > 127:
        p[0] = <uint8_t>(number & 127) | 128
        p += 1
        number >>= 7
    p[0] = <uint8_t>number
    return p + 1


cdef inline uint64_t zigzag(int64_t number) noexcept nogil:
    return (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)


def encode(Batch batch not None):
    """The entries of a batch, one after the other."""
    cdef Py_ssize_t i, total = 0, n = batch.n, size, slen, hlen, plen
    cdef const uint8_t *q
    cdef uint8_t *p
    cdef bytes out
    with nogil:
        for i in range(n):
            q = batch.at[i]
            slen, hlen, plen = get16(q + 24), get32(q + 4), get32(q + 28)
            total += digits(slen) + digits(zigzag(<int64_t>get64(q + 16))) + digits(get64(q + 8))
            total += digits(hlen) + digits(plen) + slen + hlen + plen
    out = PyBytes_FromStringAndSize(NULL, total)
    p = <uint8_t *>PyBytes_AS_STRING(out)
    with nogil:
        for i in range(n):
            q = batch.at[i]
            slen, hlen, plen = get16(q + 24), get32(q + 4), get32(q + 28)
            p = put(p, slen)
            p = put(p, zigzag(<int64_t>get64(q + 16)))
            p = put(p, get64(q + 8))
            p = put(p, hlen)
            p = put(p, plen)
            size = slen + hlen + plen
            memcpy(p, q + HEAD + (8 if get16(q + 26) & FLAG_EXPIRES else 0), size)
            p += size
    return out
