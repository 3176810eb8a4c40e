# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Publishes in bulk, ready to send: equal PUB frames, and stamps in their payloads that tell what became of each.

    PUB <subject> [reply] <size> CRLF <payload> CRLF      repeated `count` times
                                       │
                                       └─ stamp: u64 source << 48 | sequence, u64 time in ns; little endian

`serverscan.Scanner` reads the stamps at the other end. Not a client: no socket, no clock; the time is given.

Bounds: a batch has at most `LOADGEN_BATCH_BYTES_MAX` bytes; a stamp is written only where the caller's numbers say that
the payload has room for it. Complexity: O(bytes) to encode, O(frames) to stamp.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint64_t

from slipstream import limits

from slipstream.kernels.bytes_le cimport put64

cdef Py_ssize_t LINE_MAX = limits.LOADGEN_LINE_BYTES_MAX
cdef Py_ssize_t BATCH_MAX = limits.LOADGEN_BATCH_BYTES_MAX


def encode_pubs(bytes subject not None, bytes payload not None, Py_ssize_t count, bytes reply not None=b""):
    """Return `count` equal PUB frames, ready to send.

    Raises:
        ValueError: for a subject or reply no PUB line can carry, a negative count, or more than
            `LOADGEN_BATCH_BYTES_MAX` bytes.
    """
    check_word(subject, "subject")
    if reply:
        check_word(reply, "reply")
        frame = b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)
    else:
        frame = b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)
    if count < 0:
        raise ValueError(f"count is negative: {count}")
    if count > BATCH_MAX // len(frame):
        raise ValueError(f"{count} frames of {len(frame)} bytes exceed the batch limit of {BATCH_MAX} bytes")
    return frame * count


def stamp_pubs(frames not None, Py_ssize_t frame_size, Py_ssize_t payload_at, uint64_t first_seq, uint64_t now_ns,
               unsigned int source=0):
    """Write source, sequence and time into the payloads of equally long frames, in place; return the next sequence.

    Args:
        frames: a writable buffer that holds whole frames and nothing else.
        frame_size: bytes from one frame to the next.
        payload_at: where in a frame the payload begins; 16 bytes of it are overwritten.
        first_seq: sequence of the first frame; scanners expect every source to begin at 1.
        now_ns: the time written into every frame.
        source: which publisher this is, below 256.

    Raises:
        ValueError: when the frames do not fit these numbers.
    """
    cdef Py_buffer view
    cdef Py_ssize_t at = payload_at
    cdef uint64_t seq = first_seq
    if frame_size <= 0 or payload_at < 0 or payload_at > frame_size or frame_size - payload_at < STAMP_BYTES:
        raise ValueError("a stamp of 16 bytes does not fit into the payload")
    if source >= SOURCES:
        raise ValueError(f"source is not below {SOURCES}: {source}")
    PyObject_GetBuffer(frames, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
    try:
        if view.len % frame_size:
            raise ValueError("the buffer does not hold whole frames")
        if first_seq >> SEQ_BITS or (first_seq + <uint64_t>(view.len // frame_size)) >> SEQ_BITS:
            raise ValueError(f"sequence does not fit into {SEQ_BITS} bits")
        while at < view.len:
            put64(<unsigned char*>view.buf + at, (<uint64_t>source << SEQ_BITS) | seq)
            put64(<unsigned char*>view.buf + at + 8, now_ns)
            seq += 1
            at += frame_size
    finally:
        PyBuffer_Release(&view)
    return seq


cdef int check_word(bytes word, str what) except -1:
    if not word or len(word) > LINE_MAX or any(byte in b" \t\r\n\f" for byte in word):
        raise ValueError(f"{what} is empty, too long or has blanks: {word!r}")
    return 0
