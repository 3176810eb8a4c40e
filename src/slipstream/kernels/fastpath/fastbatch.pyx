# cython: language_level=3, boundscheck=False, wraparound=False
"""Reply subjects of fast batches, and how far an open batch is.

    <prefix>.<id>.<flow>.<gap: ok|fail>.<sequence>.<operation>.$FI

What the words mean for a batch is decided by `jetstream.stream.fast_batches`; here they are read. The stream's intake
reads the same way and takes what is next in a batch and due for no answer; both change the same `FastBatch`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

cdef enum:
    START = 0
    END = 3
    PING = 4
    DIGITS_MAX = 20
    WORDS = 5  # from the id to the operation
    FLOW_DEFAULT = 10
    FLOW_MAX = 65535

cdef uint64_t NUMBER_MAX = 0xFFFFFFFFFFFFFFFF


cdef uint64_t number(const char *text, Py_ssize_t size, uint64_t otherwise) noexcept nogil:
    """The number that all of the text is, at most `NUMBER_MAX`; `otherwise` if it is none."""
    cdef uint64_t value = 0
    cdef uint64_t digit
    cdef Py_ssize_t at
    if size < 1 or size > DIGITS_MAX:
        return otherwise
    for at in range(size):
        if text[at] < b"0" or text[at] > b"9":
            return otherwise
        digit = <uint64_t>(text[at] - 48)
        if value > (NUMBER_MAX - digit) // 10:
            value = NUMBER_MAX
        else:
            value = value * 10 + digit
    return value


cdef bint read_reply(const char *reply, Py_ssize_t size, FastReply *found) noexcept nogil:
    """Read a reply subject that ends with `.$FI`; False if it is malformed."""
    cdef const char *words[WORDS]
    cdef Py_ssize_t sizes[WORDS]
    cdef Py_ssize_t end = size - FAST_SUFFIX_SIZE
    cdef Py_ssize_t at
    cdef int word = WORDS - 1
    cdef uint64_t kind
    at = end - 1
    while word >= 0:
        while at >= 0 and reply[at] != b".":
            at -= 1
        if at < 0:
            return False  # fewer words
        words[word] = reply + at + 1
        sizes[word] = end - at - 1
        end = at
        at -= 1
        word -= 1
    found.gap_ok = sizes[2] == 2 and memcmp(words[2], b"ok", 2) == 0
    if not found.gap_ok and not (sizes[2] == 4 and memcmp(words[2], b"fail", 4) == 0):
        return False
    kind = number(words[4], sizes[4], NUMBER_MAX)
    found.seq = number(words[3], sizes[3], 0)
    if kind > PING or found.seq == 0 or found.seq == NUMBER_MAX:
        return False
    if (kind == START) != (found.seq == 1) and (kind == START or kind == APPEND or kind == END):
        return False  # a batch begins with its first message; a first message may also be all of it
    found.kind = <int>kind
    found.flow = number(words[1], sizes[1], 0)
    if found.flow == 0:
        found.flow = FLOW_DEFAULT
    elif found.flow > FLOW_MAX:
        found.flow = FLOW_MAX
    found.batch_id = words[0]
    found.batch_id_size = sizes[0]
    return True


def parse_reply(bytes reply not None):
    """What a reply subject that ends with `.$FI` says; None if it is malformed.

    Returns `(batch id, flow, gap is ok, sequence, operation)`.
    """
    cdef FastReply found
    cdef const char *text = PyBytes_AS_STRING(reply)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(reply)
    if size < FAST_SUFFIX_SIZE or memcmp(text + size - FAST_SUFFIX_SIZE, b".$FI", FAST_SUFFIX_SIZE) != 0:
        return None
    if not read_reply(text, size, &found):
        return None
    return (
        PyBytes_FromStringAndSize(found.batch_id, found.batch_id_size), found.flow, bool(found.gap_ok), found.seq,
        found.kind,
    )


cdef class FastBatch:
    """One open batch.

    Attributes:
        gap_ok: it goes on behind missing or refused messages.
        ack_every_max: what the client allows.
        ack_every: messages to the next ack.
        seq: highest sequence of the batch seen.
        stored: up to here everything was stored, refused or recognised.
        acked: up to here the client was told.
        ack_at: when `stored` is there, an ack is due.
        stream_seq: sequence of the last message stored.
        last_active_ns: when a message came last.
        timer: ends the watch over it.
    """

    def __cinit__(self, bint gap_ok, uint64_t ack_every_max):
        self.gap_ok = gap_ok
        self.ack_every_max = ack_every_max
        self.ack_every = 1
        self.ack_at = 1
