# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Stored messages on their way to clients, many in one call and without an object for each.

    index ──select──► Selection ──bytes of segments──► Batch ──hand_out──► routes ──► outboxes

A `Batch` holds the bytes it was given and where in them the records lie, each checked. `hand_out` writes them as
MSG or HMSG with their ack subjects. Who gets them and how many is the caller's decision.

Memory: a batch keeps the bytes of its segments alive until it goes; nothing is copied before the outbox.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from slipstream.kernels.bytes_le cimport get16, get32, get64
from slipstream.kernels.decimal cimport DIGITS, put_number
from slipstream.kernels.wire.delivery cimport Delivery
from slipstream.kernels.heap cimport grown
from slipstream.kernels.wire.interest cimport Interest
from slipstream.kernels.wire.receivers cimport Route, Subscription
from slipstream.kernels.log.record cimport FLAG_EXPIRES, HEAD, KIND_MASK, KIND_MSG, StoredMessage, record_size
from slipstream.kernels.index.runtable cimport LENGTH_EXPIRES, LENGTH_MASK, Cursor, Run, lower, seq_at
from slipstream.kernels.index.subjectindex cimport MessageIndex, Selection
from slipstream.kernels.index.subjecttable cimport NO_SUBJECT, Subject

cdef enum:
    # Four numbers and the dots between them.
    NUMBERS = 4 * DIGITS + 3
    # The line that says how long a payload is, and the empty one.
    SIZE_LINE = 15 + DIGITS + 4


cdef inline const unsigned char *text_of(const unsigned char *p) noexcept nogil:
    """Where the subject of a record begins; headers and payload follow it."""
    return p + HEAD + (8 if get16(p + 26) & FLAG_EXPIRES else 0)


cdef class Batch:
    """Messages found in a store, in order. `chosen` says where they lie; `take` gives the bytes.

    `record_bytes` is the size of the records taken so far.
    """

    def __cinit__(self):
        self.chosen = Selection()
        self.parts = []

    def __dealloc__(self):
        free(self.at)

    def __len__(self):
        """Messages that were taken and are whole."""
        return self.n

    def choose(
        self, MessageIndex index not None, filters, uint64_t from_seq, uint64_t up_to, Py_ssize_t max_msgs,
        uint64_t max_bytes, uint32_t segment, Py_ssize_t base, bytes data not None, uint64_t salt,
    ):
        """Find what passes (`MessageIndex.select`), and take it if it lies in `data`, which is a guess.

        `data` begins at offset `base` of `segment`. True: all that was found is taken; else `take` goes on.
        """
        if not index.select(filters, from_seq, up_to, max_msgs, max_bytes, self.chosen):
            return True
        if self.chosen.seg[0] != segment or not base <= <Py_ssize_t>self.chosen.off[0] < base + PyBytes_GET_SIZE(data):
            return False
        return self.take(data, base, salt) == self.chosen.n

    cpdef Py_ssize_t take(self, bytes data, Py_ssize_t base, uint64_t salt) except -1:
        """Take records that lie in `data`, which begins at offset `base` of the segment of the next one.

        Returns how many are taken altogether. Stops at a record of another segment or outside `data`, and before one
        that is damaged: no progress means that the next one cannot be had this way.
        """
        cdef Selection chosen = self.chosen
        cdef Py_ssize_t at, need, size
        cdef const unsigned char *p
        cdef const unsigned char *q
        cdef uint32_t seg
        if self.n >= chosen.n:
            return self.n
        if data is None:
            raise TypeError("data is bytes")
        size = PyBytes_GET_SIZE(data)
        p = <const unsigned char *>PyBytes_AS_STRING(data)
        if self.cap < chosen.n:
            self.at = <const unsigned char **>grown(self.at, chosen.n * sizeof(void *))
            self.cap = chosen.n
        seg = chosen.seg[self.n]
        self.parts.append(data)
        while self.n < chosen.n and chosen.seg[self.n] == seg:
            at = <Py_ssize_t>chosen.off[self.n] - base
            need = (chosen.len[self.n] & LENGTH_MASK) + (8 if chosen.len[self.n] & LENGTH_EXPIRES else 0)
            if at < 0 or at + need > size:
                break
            q = p + at
            if (
                record_size(q, size - at, <uint32_t>salt) == 0
                or (get16(q + 26) & KIND_MASK) != KIND_MSG
                or get64(q + 8) != chosen.seq[self.n]
            ):
                break
            self.at[self.n] = q
            self.n += 1
            self.record_bytes += need
        return self.n

    def seq(self, Py_ssize_t i):
        """Sequence of one message."""
        if i < 0 or i >= self.n:
            raise IndexError(i)
        return self.chosen.seq[i]

    def seqs(self, Py_ssize_t start, Py_ssize_t stop):
        """Sequences of some of them."""
        cdef Py_ssize_t i
        if start < 0 or stop > self.n:
            raise IndexError(stop)
        return [self.chosen.seq[i] for i in range(start, stop)]

    def head(self, Py_ssize_t i):
        """Subject and headers of one message, without its payload."""
        cdef const unsigned char *text
        cdef Py_ssize_t slen
        if i < 0 or i >= self.n:
            raise IndexError(i)
        text = text_of(self.at[i])
        slen = get16(self.at[i] + 24)
        return (<const char *>text)[:slen], (<const char *>text + slen)[:get32(self.at[i] + 4)]

    def message(self, Py_ssize_t i):
        """One message as an object."""
        cdef const unsigned char *p
        cdef const unsigned char *text
        cdef Py_ssize_t slen, hlen, plen
        if i < 0 or i >= self.n:
            raise IndexError(i)
        p = self.at[i]
        text = text_of(p)
        slen, hlen, plen = get16(p + 24), get32(p + 4), get32(p + 28)
        return StoredMessage(
            self.chosen.seq[i], <int64_t>get64(p + 16), (<const char *>text)[:slen],
            (<const char *>text + slen)[:hlen], (<const char *>text + slen + hlen)[:plen],
            <int64_t>get64(p + HEAD) if get16(p + 26) & FLAG_EXPIRES else 0,
        )


def select_seqs(MessageIndex index not None, list seqs not None, uint64_t max_bytes, Selection out not None):
    """Fill `out` with the places of these messages, up to the first that is not there; at least one, if it is."""
    cdef Cursor c
    cdef Run *r
    cdef uint64_t seq, used = 0
    out.n = 0
    for seq in seqs:
        if not index.locate_entry(seq, &c) or index.runs[c.run].sid[c.pos] == NO_SUBJECT:
            break
        r = index.runs[c.run]
        used += (r.len[c.pos] & LENGTH_MASK) - HEAD
        if out.n and used > max_bytes:
            break
        out.push(seq, r.seg, r.off[c.pos], r.len[c.pos])


def subjects_between(MessageIndex index not None, uint64_t first, uint64_t last):
    """Subjects of the messages in [first, last], each once, in order of appearance."""
    cdef list out = []
    cdef set seen = set()
    cdef Py_ssize_t i = max(index.run_at(max(first, index.first_seq)), 0)
    cdef Run *r
    cdef Subject *s
    cdef uint32_t pos, sid, before = NO_SUBJECT
    while i < index.n_runs and index.runs[i].first <= last:
        r = index.runs[i]
        i += 1
        if r.live == 0:
            continue
        pos = lower(r, first)
        while pos < r.n and seq_at(r, pos) <= last:
            sid = r.sid[pos]
            pos += 1
            if sid == NO_SUBJECT or sid == before or sid in seen:
                continue
            before = sid
            seen.add(sid)
            s = &index.subjects[sid]
            out.append((index.arena + (s.name >> 16))[:s.name & 0xFFFF])
    return out


def subjects_from(
    MessageIndex index not None, filters, uint64_t from_seq, uint64_t up_to, Py_ssize_t max_msgs
):
    """Sequences and subjects of the next messages that pass, two lists of one length. Reads no message."""
    cdef Selection chosen = Selection()
    cdef list seqs = [], subjects = []
    cdef Cursor c
    cdef Subject *s
    cdef Py_ssize_t i
    cdef uint32_t sid, before = NO_SUBJECT
    cdef bytes subject = b""
    index.select(filters, from_seq, up_to, max_msgs, <uint64_t>-1, chosen)
    for i in range(chosen.n):
        if not index.locate_entry(chosen.seq[i], &c):
            break
        sid = index.runs[c.run].sid[c.pos]
        if sid != before:
            s = &index.subjects[sid]
            subject = (index.arena + (s.name >> 16))[:s.name & 0xFFFF]
            before = sid
        seqs.append(chosen.seq[i])
        subjects.append(subject)
    return seqs, subjects


def longest_record(MessageIndex index not None, uint64_t from_seq, uint64_t up_to, Py_ssize_t limit):
    """Bytes of the longest message among the next `limit` entries from `from_seq` on: `(bytes, where to go on)`.

    The bytes are those of head, subject, headers and payload. 0 to go on: there is nothing more up to `up_to`.
    """
    cdef Py_ssize_t i = max(index.run_at(max(from_seq, index.first_seq)), 0)
    cdef Run *r
    cdef uint32_t pos, longest = 0
    while i < index.n_runs and index.runs[i].first <= up_to:
        r = index.runs[i]
        i += 1
        if r.live == 0:
            continue
        pos = lower(r, from_seq)
        while pos < r.n and seq_at(r, pos) <= up_to:
            if limit <= 0:
                return longest, seq_at(r, pos)
            limit -= 1
            if r.sid[pos] != NO_SUBJECT and (r.len[pos] & LENGTH_MASK) > longest:
                longest = r.len[pos] & LENGTH_MASK
            pos += 1
    return longest, 0


cdef class SizedHeaders:
    """A header block with one more line, which says how long the payload is."""

    cdef char *block
    cdef Py_ssize_t cap

    def __dealloc__(self):
        free(self.block)

    cdef Py_ssize_t put(self, const char *headers, Py_ssize_t size, Py_ssize_t payload) except -1:
        """Make the block in `block`; how long it is."""
        cdef char *end
        if size == 0:
            headers, size = b"NATS/1.0\r\n\r\n", 12
        if self.cap < size + SIZE_LINE:
            self.block = <char *>grown(self.block, size + SIZE_LINE)
            self.cap = size + SIZE_LINE
        size = max(size - 2, 0)  # the empty line comes last again
        memcpy(self.block, headers, size)
        memcpy(self.block + size, b"Nats-Msg-Size: ", 15)
        end = put_number(self.block + size + 15, <uint64_t>payload)
        memcpy(end, b"\r\n\r\n", 4)
        return end + 4 - self.block


cdef inline bint congested(Subscription sub, Py_ssize_t most) noexcept:
    if sub.outbox is None:
        return False
    return sub.outbox._waiting + sub.outbox.in_flight > min(sub.outbox.stall_at, most)


def is_congested(Interest interest not None, bytes target not None, Py_ssize_t most):
    """Whether more than `most` bytes wait for somebody who may receive what is sent to `target`, or it is near its limit."""
    cdef Route route = interest.answer_route(target)
    cdef Subscription sub
    cdef tuple members
    for sub in route.subscriptions:
        if congested(sub, most):
            return True
    for members in route.queues:
        for sub in members:
            if congested(sub, most):
                return True
    return False


def hand_out(
    Delivery delivery not None, Interest interest not None, targets, Batch batch not None, Py_ssize_t start,
    Py_ssize_t count, bytes prefix not None, uint64_t dseq, uint64_t pending, Py_ssize_t max_bytes,
    bint headers_only=False,
):
    """Deliver messages of a batch; returns `(messages, their bytes, bytes of the last one)`.

    Args:
        delivery: of the server.
        interest: of the account.
        targets: the subject that all are routed by, or a list with one for each.
        batch: where they are from.
        start: the first of them.
        count: how many at most.
        prefix: of the ack subject, up to and including the dot before the stream sequence.
        dseq: consumer sequence of the last delivery before; grows by one for each.
        pending: messages that wait, these included; falls by one for each.
        max_bytes: end behind the message with which subjects, ack subjects, headers and payloads exceed this.
        headers_only: leave payloads away; a header says how long they are.
    """
    cdef char reply[65536]
    cdef char *end
    cdef Py_ssize_t prefix_size = PyBytes_GET_SIZE(prefix), i, slen, hlen, plen, last = 0, total = 0
    cdef const unsigned char *p
    cdef const char *text
    cdef list each = None
    cdef Route route = None
    cdef SizedHeaders sized = SizedHeaders() if headers_only else None
    if start < 0 or count < 0 or start + count > batch.n:
        raise IndexError(start + count)
    if prefix_size + NUMBERS > <Py_ssize_t>sizeof(reply):
        raise ValueError("the prefix is too long")
    if type(targets) is list:
        each = <list>targets
        if len(each) < count:
            raise IndexError("a target for each message is needed")
    else:
        route = interest.answer_route(<bytes?>targets).unnamed_for(<bytes>targets)
    memcpy(reply, PyBytes_AS_STRING(prefix), prefix_size)
    for i in range(count):
        p = batch.at[start + i]
        text = <const char *>text_of(p)
        slen = get16(p + 24)
        hlen = get32(p + 4)
        plen = get32(p + 28)
        dseq += 1
        if pending:
            pending -= 1
        end = put_number(reply + prefix_size, batch.chosen.seq[start + i])
        end[0] = b"."
        end = put_number(end + 1, dseq)
        end[0] = b"."
        end = put_number(end + 1, get64(p + 16))
        end[0] = b"."
        end = put_number(end + 1, pending)
        if each is not None:
            route = interest.answer_route(<bytes?>each[i])
            route = route.unnamed_for(<bytes>each[i])
        if sized is not None:
            hlen = sized.put(text + slen, hlen, plen)
            plen = 0
            delivery.send(route, None, text, slen, reply, end - reply, hlen, sized.block, hlen)
        else:
            delivery.send(route, None, text, slen, reply, end - reply, hlen, text + slen, hlen + plen)
        last = slen + (end - reply) + hlen + plen
        total += last
        if total > max_bytes:
            return i + 1, total, last
    return count, total, last
