# cython: language_level=3, boundscheck=False, wraparound=False
"""The fast path into a stream: a plain message goes from the read buffer into the open frame of the log.

    delivery ──take──► open?  ──yes──► LogWriter.put ──► acks (reply, sequence)
                         └──no, or a header, or too large, or no room──► slow(subject, reply, header, payload)

The stream decides whether the way is open, at the first message of each batch. A commit closes it, or leaves it on
stand-by: then `resume` is asked before the next batch's first append. Nothing is decided here: whatever is not an
ordinary append is `slow`'s, which says what happens in every case, this one included. A message of a fast batch is
ordinary when it is the next one of an open batch and no ack is due with it.

Invariant: while the way is open and not on stand-by a commit is on its way, so nobody need be woken. Memory: bytes are
copied once.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp

from slipstream.kernels.wire.msgwriter cimport BufferListener
from slipstream.kernels.fastpath.fastbatch cimport APPEND, FAST_SUFFIX_SIZE, FastBatch, FastReply, read_reply
from slipstream.kernels.index.subjectindex cimport MessageIndex
from slipstream.kernels.log.logwriter cimport LogWriter
from slipstream.kernels.log.record cimport HEAD


cdef unsigned long long SEQ_LAST = 0xFFFFFFFFFFFFFFFD  # the last sequence a message can have, as for the stores


cdef class Intake(BufferListener):
    """What arrives for one stream.

    Attributes:
        last_seq: sequence assigned last.
        last_ts_ns: time given last; times do not fall.
        last_id: message id of the last message, empty when it had none.
        acks: `(reply, sequence)` of what waits for the next commit, in order.
        buffered_bytes: payload bytes that wait for it.
        payload_bytes_max: larger messages are `slow`'s.
        full_msgs: so are those for a stream that has so many, what is about to be removed included; 0: never.
        full_bytes: and those that would make it larger than this, by nats-server's formula; 0: never.
        answers: publishers get an ack.
        batches: fast batches that are open, by id.
        appended: called with `(sequence, subject, 0)` after each append, or None.

    Args:
        slow: what takes every other message.
        resume: called when a message ends a stand-by; it sees to the next commit, or is False, and the message `slow`'s.
        now_ns: the clock.
        bytes_max: payload bytes that may wait.
        msgs_max: acks that may wait.
    """

    def __cinit__(self, slow, resume, now_ns, Py_ssize_t bytes_max, Py_ssize_t msgs_max):
        self._slow = slow
        self._now = now_ns
        self._writer = None
        self._standing_by = False
        self.appended = None
        self._resume = resume
        self.last_seq = 0
        self.last_ts_ns = 0
        self.last_id = b""
        self.acks = []
        self.buffered_bytes = 0
        self.payload_bytes_max = 0
        self.full_msgs = 0
        self.full_bytes = 0
        self.answers = True
        self.batches = {}
        self._room_bytes = bytes_max
        self._room_msgs = msgs_max

    @property
    def is_open(self):
        """Whether plain messages take the fast path now."""
        return self._writer is not None

    def open(self, LogWriter writer):
        """Append to `writer` until `close`; None opens nothing."""
        self._writer = writer
        self._standing_by = False

    def stand_by(self):
        """The commit that was on its way is done. The way stays open, if it is, but `resume` has to be asked first."""
        self._standing_by = True

    def close(self):
        """Everything is `slow`'s from here on."""
        self._writer = None

    def take_acks(self):
        """Hand over what waits, and begin anew."""
        cdef list taken = self.acks
        self.acks = []
        self.buffered_bytes = 0
        return taken

    cdef Py_ssize_t fast(
        self, const char *subject, Py_ssize_t subject_size, const char *reply, Py_ssize_t reply_size,
        Py_ssize_t header_size, const char *body, Py_ssize_t size,
    ) except -1:
        """1 when the message was appended; 0 when nothing was done."""
        cdef int64_t now_ns
        cdef int64_t ts_ns
        cdef FastBatch batch = None
        if header_size or self._writer is None:
            return 0
        if size > self.payload_bytes_max or self.buffered_bytes > self._room_bytes:
            return 0
        if reply_size > FAST_SUFFIX_SIZE and memcmp(reply + reply_size - FAST_SUFFIX_SIZE, b".$FI", FAST_SUFFIX_SIZE) == 0:
            batch = self._next_in_batch(reply, reply_size)
            if batch is None:
                return 0
        if len(self.acks) > self._room_msgs or self.last_seq >= SEQ_LAST:
            return 0
        if self._standing_by:
            if not self._resume() or self._writer is None:
                return 0
            self._standing_by = False
        if (self.full_msgs or self.full_bytes) and not self._has_room(subject_size + size):
            return 0
        now_ns = self._now()
        ts_ns = now_ns if now_ns > self.last_ts_ns else self.last_ts_ns
        if not self._writer.put(self.last_seq + 1, ts_ns, subject, subject_size, NULL, 0, body, size, 0):
            return 0
        self.last_seq += 1
        self.last_ts_ns = ts_ns
        self.last_id = b""
        self.buffered_bytes += size
        if batch is not None:
            batch.seq += 1
            batch.stored = batch.seq
            batch.stream_seq = self.last_seq
            batch.last_active_ns = now_ns
        elif reply_size and self.answers:
            self.acks.append((PyBytes_FromStringAndSize(reply, reply_size), self.last_seq))
        if self.appended is not None:
            self.appended(self.last_seq, PyBytes_FromStringAndSize(subject, subject_size), 0)
        return 1

    cdef bint _has_room(self, Py_ssize_t size) noexcept:
        """Whether the stream is not full with a message whose subject and payload have this size."""
        cdef MessageIndex index = self._writer.index
        if self.full_msgs and index.messages >= self.full_msgs:
            return False
        return not self.full_bytes or index.size_bytes + index.stated_size(<uint32_t>(HEAD + size)) <= self.full_bytes

    cdef FastBatch _next_in_batch(self, const char *reply, Py_ssize_t size):
        """The open batch whose next message this is, if nothing has to be said with it."""
        cdef FastReply found
        cdef PyObject *known
        cdef FastBatch batch
        if not self.batches or not read_reply(reply, size, &found) or found.kind != APPEND:
            return None
        known = PyDict_GetItem(self.batches, PyBytes_FromStringAndSize(found.batch_id, found.batch_id_size))
        if known == NULL:
            return None
        batch = <FastBatch?><object>known
        return batch if found.seq == batch.seq + 1 and found.seq < batch.ack_at else None
