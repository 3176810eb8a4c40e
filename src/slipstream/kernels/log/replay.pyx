# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One frame of a log put into the index, when it is committed: how a replica follows another's log.

    frame where it lies --replay_frame()--> MessageIndex.add for messages; everything else is told to the caller

The same as `segscan` and `segload` do for a whole segment; here a frame at a time, into the run that is open.

Bounds: a frame is put in whole or not at all. First it is read through: head and checksums hold, records fill it, sequences
grow from the index's last one on; only then is anything added. Complexity: O(bytes), read twice. Memory: what is told.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from slipstream.kernels.bytes_le cimport get16, get32, get64
from slipstream.kernels.index.runtable cimport LENGTH_EXPIRES, LENGTH_HEADERS, LENGTH_MASK
from slipstream.kernels.index.subjectindex cimport MessageIndex
from slipstream.kernels.log.record cimport (
    FLAG_EXPIRES, FRAME_HEAD, HEAD, KIND_ERASED, KIND_MASK, KIND_MSG, KIND_SKIP, KIND_TRIM, Frame, read_frame, record_size,
)
from slipstream.kernels.log.segscan cimport SEQ_TOP

cdef enum:
    FRAME_ROOM_MAX = 256  # for a seal, at the end of a frame

cdef uint64_t OFFSET_MAX = 0xFFFFFFFF  # of a record in its segment


def frame_end(bytes data not None, Py_ssize_t pos, uint64_t salt, uint64_t last_seq):
    """`(last sequence, time of the last message or 0)` behind the frame at `pos`; None when it does not follow that one."""
    cdef Frame frame
    cdef int64_t last_ts = 0
    if not read_at(data, pos, salt, &frame):
        return None
    if not is_sound(<const unsigned char *>PyBytes_AS_STRING(data) + pos, &frame, salt, &last_seq, &last_ts):
        return None
    return last_seq, last_ts


def replay_frame(
    bytes data not None, Py_ssize_t pos, uint64_t salt, MessageIndex index not None, uint32_t segment, uint64_t offset
):
    """Index the frame at `pos`, which lies at `offset` of its segment.

    Returns `(controls, expiries)`: what is no message, as `(kind, seq, time, key, payload)`, and which messages expire
    when. None, and nothing was done: it is damaged, or does not follow what the index holds.
    """
    cdef Frame frame
    cdef const unsigned char *p
    cdef const unsigned char *q
    cdef const unsigned char *body
    cdef Py_ssize_t at = FRAME_HEAD, size
    cdef uint64_t last_seq = index.last_seq, seq
    cdef int64_t last_ts = 0
    cdef uint16_t flags, slen
    cdef uint32_t hlen, plen, length, count
    cdef list controls = [], expiries = []
    if not read_at(data, pos, salt, &frame) or offset + frame.length > OFFSET_MAX:
        return None
    p = <const unsigned char *>PyBytes_AS_STRING(data) + pos
    if not is_sound(p, &frame, salt, &last_seq, &last_ts):
        return None
    count = frame.count
    while count:
        q = p + at
        size = record_size(q, frame.length - at, <uint32_t>salt)
        flags, slen, hlen, plen, seq = get16(q + 26), get16(q + 24), get32(q + 4), get32(q + 28), get64(q + 8)
        body = q + HEAD + (8 if flags & FLAG_EXPIRES else 0)
        if (flags & KIND_MASK) == KIND_MSG:
            length = HEAD + slen + hlen + plen
            if hlen:
                length |= LENGTH_HEADERS
            if flags & FLAG_EXPIRES:
                length |= LENGTH_EXPIRES
                expiries.append((seq, <int64_t>get64(q + HEAD)))
            index.add(seq, <const char *>body, slen, <uint32_t>(offset + at), length, segment)
        elif (flags & KIND_MASK) == KIND_ERASED:
            index.skip_to(seq)  # what removes it is in the log as well, further on
        else:
            if (flags & KIND_MASK) == KIND_SKIP:
                index.skip_to(get64(body + slen))
            elif (flags & KIND_MASK) == KIND_TRIM and seq > index.last_seq + 1:
                index.skip_to(seq - 1)
            controls.append((
                flags & KIND_MASK, seq, <int64_t>get64(q + 16), PyBytes_FromStringAndSize(<const char *>body, slen),
                PyBytes_FromStringAndSize(<const char *>body + slen + hlen, plen),
            ))
        at += size
        count -= 1
    return controls, expiries


cdef bint read_at(bytes data, Py_ssize_t pos, uint64_t salt, Frame *frame) noexcept:
    cdef Py_ssize_t room = PyBytes_GET_SIZE(data) - pos
    if pos < 0 or room <= 0:
        return False
    if not read_frame(<const unsigned char *>PyBytes_AS_STRING(data) + pos, room, salt, frame):
        return False
    return frame.length <= <uint64_t>room


cdef bint is_sound(
    const unsigned char *p, Frame *frame, uint64_t salt, uint64_t *last_seq, int64_t *last_ts
) noexcept nogil:
    """Whether records fill the frame, but for room for a seal, and sequences go on; the last of them."""
    cdef Py_ssize_t at = FRAME_HEAD, size
    cdef const unsigned char *q
    cdef uint32_t count = frame.count
    cdef uint64_t seq, to
    cdef uint16_t flags
    while count:
        if at >= <Py_ssize_t>frame.length:
            return False
        q = p + at
        size = record_size(q, frame.length - at, <uint32_t>salt)
        if size == 0 or size % 8:
            return False
        flags, seq = get16(q + 26), get64(q + 8)
        if (flags & KIND_MASK) == KIND_MSG:
            if seq != last_seq[0] + 1 or seq > SEQ_TOP or get16(q + 24) == 0:
                return False
            if <uint64_t>HEAD + get16(q + 24) + get32(q + 4) + get32(q + 28) > LENGTH_MASK:
                return False
            last_seq[0] = seq
            last_ts[0] = <int64_t>get64(q + 16)
        elif (flags & KIND_MASK) == KIND_ERASED:
            if seq != last_seq[0] + 1 or seq > SEQ_TOP:
                return False
            last_seq[0] = seq
        elif (flags & KIND_MASK) == KIND_SKIP:
            if get32(q + 28) != 8 or get32(q + 4) or flags & FLAG_EXPIRES:
                return False
            to = get64(q + HEAD + get16(q + 24))
            if seq != last_seq[0] + 1 or to < seq or to > SEQ_TOP:
                return False
            last_seq[0] = to
        elif (flags & KIND_MASK) == KIND_TRIM and seq > last_seq[0] + 1:
            if seq > SEQ_TOP:
                return False
            last_seq[0] = seq - 1
        at += size
        count -= 1
    return <Py_ssize_t>frame.length - at <= FRAME_ROOM_MAX
