# cython: language_level=3, boundscheck=False, wraparound=False
"""The fast path of an ack: from the read buffer to the pending messages of its consumer.

    delivery ──take──► "+ACK" or nothing, and out for the first time? ──yes──► forget it, note it in `acked`
                                                  └──no──► slow(subject, reply, header, payload)

The acks of a turn are noted and journalled together, by the owner, who is called with the first of them. Nothing is
decided here: whatever is not the plain ack of a message that was delivered once is `slow`'s, which says what happens in
every case, this one included. Memory: one number an ack.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_DelItem, PyDict_GetItem
from libc.string cimport memcmp

from slipstream.kernels.wire.msgwriter cimport BufferListener

cdef enum:
    # More digits than that may not fit into 64 bits.
    DIGITS_MAX = 18


cdef class AckIntake(BufferListener):
    """What arrives on the ack subjects of one consumer.

    Attributes:
        plain: plain acks may take the fast path.
        acked: sequences acknowledged and not taken over yet, in order.
        confirm: who wants to hear when these are committed, in order.
    """

    cdef Py_ssize_t _prefix_size
    cdef object _began
    cdef object _emptied
    cdef dict _pending
    cdef dict _due
    cdef dict _again
    cdef public bint plain
    cdef public list acked
    cdef public list confirm

    def __cinit__(self, Py_ssize_t prefix_size, slow, began):
        """`prefix_size` bytes precede the count of deliveries in the subject; `began` is called with the first ack."""
        self._prefix_size = prefix_size
        self._slow = slow
        self._began = began
        self._pending = {}
        self.plain = False
        self.acked = []
        self.confirm = []

    def bind(self, dict pending not None, dict due not None, dict again not None, emptied not None):
        """Work on these: what is out, what waits for a deadline, what was delivered again; and when nothing is out."""
        self._pending = pending
        self._due = due
        self._again = again
        self._emptied = emptied

    cdef Py_ssize_t fast(
        self, const char *subject, Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size,
        Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1:
        """1 when the ack was noted; 0 when nothing was done."""
        cdef unsigned long long seq
        if not self.plain or header_size or not (size == 0 or (size == 4 and memcmp(body, b"+ACK", 4) == 0)):
            return 0
        seq = self._number(subject, subject_size)
        return self._note(seq, reply, reply_size) if seq else 0

    cdef unsigned long long _number(self, const char *subject, Py_ssize_t size) noexcept:
        """The stream sequence, which is the second number; 0 when it is none or has too many digits."""
        cdef Py_ssize_t at = self._prefix_size, start
        cdef unsigned long long seq = 0
        while at < size and subject[at] != b".":
            at += 1
        at += 1
        start = at
        while at < size and subject[at] != b".":
            if subject[at] < b"0" or subject[at] > b"9":
                return 0
            seq = seq * 10 + <unsigned long long>(subject[at] - 48)
            at += 1
            if at - start > DIGITS_MAX:
                return 0
        return seq

    cdef Py_ssize_t _note(self, object seq, const char *reply, Py_ssize_t reply_size) except -1:
        """Note the ack of a message that is out for the first time; 0 when it is not."""
        if self._again or PyDict_GetItem(self._pending, seq) == NULL or PyDict_GetItem(self._due, seq) == NULL:
            return 0
        PyDict_DelItem(self._pending, seq)
        PyDict_DelItem(self._due, seq)
        if not self._pending:
            self._emptied()
        if not self.acked and not self.confirm:
            self._began()
        self.acked.append(seq)
        if reply_size:
            self.confirm.append(PyBytes_FromStringAndSize(reply, reply_size))
        return 1
