# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What one segment holds, found by scanning its bytes.

    segment bytes --step()--> SegmentScan --segindex--> .sdx file beside the segment
                                          --segload---> the index of the stream

A scan is a pure function of the bytes. It never stops at damage: it notes the region and goes on at the next frame or
record whose checksum holds, at 8-byte steps. Sequences that no record accounts for are `holes`. Deciding whether a
region is a torn tail or damage is the caller's (`recovery.py`); `cut` then forgets everything from a region on.

Bounds: a record or frame is looked at only when `record` says that its lengths fit and its checksum holds; a record that
says what cannot be (a sequence without a successor, a payload of another size than its kind has) is treated as damage.
Memory: 20 bytes a message on the C heap, or borrowed from the bytes of an index file, which are kept alive. Complexity:
O(bytes).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free

from slipstream.kernels.bytes_le cimport get16, get32, get64, put64
from slipstream.kernels.heap cimport grown
from slipstream.kernels.log.record cimport (
    FLAG_EXPIRES, FRAME_FIRST, FRAME_HEAD, FRAME_LOCAL, FRAME_MORE, FRAME_UNIT, HEAD, KIND_CHAIN, KIND_ERASE, KIND_ERASED,
    KIND_MARK, KIND_MASK, KIND_MSG, KIND_SKIP, KIND_STATE, KIND_TOMBS, KIND_TRIM, Frame, read_frame, record_size,
)
from slipstream.kernels.index.runtable cimport LENGTH_EXPIRES, LENGTH_HEADERS, LENGTH_MASK
from slipstream.kernels.index.subjecttable cimport NO_SUBJECT, SubjectTable

cdef enum:
    STATE_BYTES = 24          # payloads of these kinds have one size, which whoever unpacks them relies on
    SKIP_BYTES = 8
    ERASE_BYTES = 20
    CHAIN_BYTES = 40
    TOMB_BYTES = 8            # and this one a multiple of it
    LARGE_PAYLOAD = 65536     # from here on a checksum takes longer than giving up the GIL and getting it back

cdef uint64_t OFFSET_MAX = 0xFFFFFFFF  # of a record in its segment
cdef uint64_t FRAMES_LOST_MAX = <uint64_t>1 << 48  # between two that are there; numbers must not come near their end


class Region:
    """A stretch of bytes that could not be read.

    `frame_no` is the frame it belongs to (the next expected one when no header survived); `messages` and `controls`
    say how much was read before it; `unit` is the same at the start of the unit it lies in, or None; `frame` is that of
    the frame it lies in, if the head of that was read.
    """

    __slots__ = ("controls", "end", "frame", "frame_no", "messages", "start", "unit")

    def __init__(self, start, end, frame_no, messages, controls, unit, frame=None):
        self.start = start
        self.end = end
        self.frame_no = frame_no
        self.messages = messages
        self.controls = controls
        self.unit = unit
        self.frame = frame


cdef class SegmentScan:
    """Content of one segment. Made by `SegmentScan(data, ...)` and `step`, or by `segindex.decode_index`."""

    def __cinit__(
        self, bytes data not None, Py_ssize_t start, uint64_t salt, uint64_t first_seq, uint64_t last_frame_no
    ):
        self.data = data
        self.p = <const unsigned char *>PyBytes_AS_STRING(data)
        self.at = (start + 7) & ~<Py_ssize_t>7
        self.end = PyBytes_GET_SIZE(data)
        self.good_end = self.at
        self.used_end = self.end
        # Space reserved ahead is megabytes of zeros: by words first.
        while self.used_end >= 8 and get64(self.p + self.used_end - 8) == 0:
            self.used_end -= 8
        while self.used_end > 0 and self.p[self.used_end - 1] == 0:
            self.used_end -= 1
        self.salt = salt
        self.names = SubjectTable(salt)
        self.owned = True
        self.first_seq = self.expect = first_seq
        self.last_seq = first_seq - 1
        self.last_frame_no = last_frame_no
        self.bad_from = self.link_at = -1
        self.controls = []
        self.expiries = []
        self.holes = []
        self.regions = []

    def __dealloc__(self):
        if self.owned:
            free(<void *>self.seqs)
            free(self.off)
            free(self.len)
            free(self.sid)

    def __len__(self):
        return self.n

    # --- scanning -----------------------------------------------------------------------------------------------

    def step(self, Py_ssize_t records):
        """Read up to this many records or damaged words; True while there is more. Lets other threads in between."""
        cdef Py_ssize_t size
        cdef Frame frame
        if self.loaded:
            return False
        while records > 0:
            records -= 1
            if self.frame_end and self.bad_from < 0 and (
                self.frame_seen >= self.frame.count or self.at >= self.frame_end
            ):
                self.leave_frame()
            if self.at >= self.end or (self.frame_end == 0 and self.at >= self.used_end):
                self.finish()
                return False
            if self.end - self.at >= HEAD and get32(self.p + self.at + 28) > LARGE_PAYLOAD:
                with nogil:  # so long that others would wait
                    size = record_size(self.p + self.at, self.end - self.at, <uint32_t>self.salt)
            else:
                size = record_size(self.p + self.at, self.end - self.at, <uint32_t>self.salt)
            if size and self.accept(size):
                continue
            if (
                read_frame(self.p + self.at, self.end - self.at, self.salt, &frame)
                and frame.no + (1 if frame.flags & FRAME_LOCAL else 0) > self.last_frame_no
                and frame.no - self.last_frame_no < FRAMES_LOST_MAX
            ):
                self.enter_frame(&frame)
                continue
            if self.bad_from < 0:
                self.bad_from = self.at
            self.at += 8
            if self.frame_end and self.at >= self.frame_end:
                self.at = self.frame_end
                self.close_region(self.at)
                self.frame_end = 0
                self.good_end = min(self.at, self.end)
                if not self.frame.flags & (FRAME_MORE | FRAME_LOCAL):
                    self.end_unit()
        return True

    cdef int enter_frame(self, Frame *frame) except -1:
        if self.bad_from >= 0:
            self.close_region(self.at)
        elif self.frame_end:
            self.regions.append(self.region(self.at, self.at))
        if frame.flags & FRAME_LOCAL:
            pass
        elif not frame.flags & FRAME_UNIT:
            self.unit = None
        elif self.unit is None or frame.flags & FRAME_FIRST:
            self.unit = (self.at, self.n, len(self.controls))
            self.link_at = -1  # nor does one in a unit, which may be cut off as a whole
            if self.first_frame_no == 0 and not frame.flags & FRAME_FIRST:
                self.unit_before = self.unit
        self.frame = frame[0]
        self.frame_begin = (self.at, self.n, len(self.controls))
        if self.first_frame_no == 0 and not frame.flags & FRAME_LOCAL:
            self.first_frame_no = frame.no
        self.last_frame_no = frame.no
        self.synced_upto = max(self.synced_upto, frame.synced_upto)
        self.epoch = max(self.epoch, frame.epoch)
        self.frame_end = self.at + frame.length
        self.frame_seen = 0
        self.at += FRAME_HEAD
        return 0

    cdef int leave_frame(self) except -1:
        # A record may reach beyond the end that its frame says: what was read is not read again.
        cdef Py_ssize_t end = max(self.at, self.frame_end)
        if self.frame_seen < self.frame.count:
            self.regions.append(self.region(self.at, end))
        elif end <= self.end:
            self.at = end
        if not self.frame.flags & (FRAME_MORE | FRAME_LOCAL) and self.frame_seen >= self.frame.count:
            self.end_unit()
        self.frame_end = 0
        self.good_end = min(self.at, self.end)
        return 0

    cdef int end_unit(self) except -1:
        if self.unit is not None and self.unit is self.unit_before:
            self.unit_ended = True
        self.unit = None
        return 0

    cdef uint64_t owner(self) noexcept nogil:
        """Number of the frame that what is read belongs to.

        Local frames count as the next one: who has that on stable storage has them, who has the one before may not.
        """
        return self.frame.no if self.frame_end and not self.frame.flags & FRAME_LOCAL else self.last_frame_no + 1

    cdef object region(self, Py_ssize_t start, Py_ssize_t end):
        """A stretch that ends what was read so far."""
        frame = self.frame_begin if self.frame_end else None
        self.link_at = -1  # a link behind it does not take the place of one that a cut leaves
        return Region(start, end, self.owner(), self.n, len(self.controls), self.unit, frame)

    cdef int close_region(self, Py_ssize_t end) except -1:
        if self.bad_from >= 0:
            self.regions.append(self.region(self.bad_from, end))
            self.bad_from = -1
        return 0

    cdef int finish(self) except -1:
        if self.frame_end and self.bad_from < 0 and self.frame_seen < self.frame.count:
            self.bad_from = self.at
        self.close_region(min(self.at, self.end))
        self.frame_end = 0
        self.last_seq = max(self.last_seq, self.expect - 1)
        self.data = None
        self.p = NULL
        self.loaded = True
        return 0

    cdef bint accept(self, Py_ssize_t size) except -1:
        """Take one valid record into account; False when it cannot belong here."""
        cdef const unsigned char *q = self.p + self.at
        cdef uint16_t flags = get16(q + 26)
        cdef int kind = flags & KIND_MASK
        cdef uint64_t seq = get64(q + 8), to
        cdef uint32_t hlen = get32(q + 4), plen = get32(q + 28), length, sid
        cdef uint16_t slen = get16(q + 24)
        cdef int64_t ts = <int64_t>get64(q + 16)
        cdef const unsigned char *body = q + HEAD + (8 if flags & FLAG_EXPIRES else 0)
        cdef const unsigned char *payload = body + slen + hlen
        if kind == KIND_MSG or kind == KIND_ERASED:
            if seq < self.expect or seq > SEQ_TOP or (kind == KIND_MSG and slen == 0):
                return False
            if <uint64_t>HEAD + slen + hlen + plen > LENGTH_MASK or <uint64_t>self.at > OFFSET_MAX:
                return False
        elif not is_sound(kind, payload, plen):
            return False
        # A region ends here: noted before this record counts, so that a cut at the region takes the record with it.
        self.close_region(self.at)
        if kind == KIND_MSG or kind == KIND_ERASED:
            self.account(seq, seq)
            length = HEAD + slen + hlen + plen
            if kind == KIND_MSG:
                if hlen:
                    length |= LENGTH_HEADERS
                if flags & FLAG_EXPIRES:
                    length |= LENGTH_EXPIRES
                    self.expiries.append((seq, <int64_t>get64(q + HEAD)))
                sid = self.names.intern(<const char *>body, slen)
                self.names.subjects[sid].count += 1
            else:
                sid = NO_SUBJECT
            self.push(seq, <uint32_t>self.at, length, sid)
            if kind == KIND_MSG:
                self.last_ts = ts
                if self.first_ts == 0:
                    self.first_ts = ts
        else:
            if kind == KIND_SKIP:
                to = get64(payload)
                if to >= seq and to >= self.expect:
                    self.account(max(seq, self.expect), to)
            elif kind == KIND_TRIM and seq > self.expect:
                self.expect = seq
            elif kind == KIND_STATE and get64(payload + 8) + 1 > self.expect:
                self.expect = get64(payload + 8) + 1
            control = (
                kind, seq, ts, PyBytes_FromStringAndSize(<const char *>body, slen),
                PyBytes_FromStringAndSize(<const char *>payload, plen),
            )
            if kind == KIND_CHAIN and self.link_at >= 0:
                self.controls[self.link_at] = control  # every commit has one; the last counts
            else:
                if kind == KIND_CHAIN:
                    self.link_at = len(self.controls)
                self.controls.append(control)
        if kind != KIND_MARK:
            self.said_frame_no = self.owner() if self.frame_end else self.last_frame_no
        elif self.frame_end and self.frame.flags & FRAME_LOCAL:
            self.vouched_end = self.frame_end - self.frame.length
            self.said_frame_no = min(self.said_frame_no, self.frame.synced_upto)
        self.frame_seen += 1
        self.at += size
        if not self.frame_end:
            self.good_end = self.at
        return True

    cdef int account(self, uint64_t lo, uint64_t hi) except -1:
        if lo > self.expect:
            self.holes.append((self.expect, lo - 1))
        self.expect = hi + 1
        return 0

    cdef int push(self, uint64_t seq, uint32_t off, uint32_t length, uint32_t sid) except -1:
        cdef uint32_t cap
        if self.n == 0:
            self.base_seq = seq
        if self.n == self.cap:
            cap = self.cap + (self.cap >> 1) + 256
            self.seqs = <const unsigned char *>grown(<void *>self.seqs, <size_t>cap * 8)
            self.off = <uint32_t *>grown(self.off, <size_t>cap * 4)
            self.len = <uint32_t *>grown(self.len, <size_t>cap * 4)
            self.sid = <uint32_t *>grown(self.sid, <size_t>cap * 4)
            self.cap = cap
        put64(<unsigned char *>self.seqs + <size_t>self.n * 8, seq)
        self.off[self.n] = off
        self.len[self.n] = length
        self.sid[self.n] = sid
        self.n += 1
        return 0

    def place(self, uint64_t seq):
        """Offset of the record of a message; None when it is not here."""
        cdef uint32_t lo = 0, hi = self.n, mid
        while lo < hi:
            mid = lo + (hi - lo) // 2
            if scanned_seq(self, mid) < seq:
                lo = mid + 1
            else:
                hi = mid
        return self.off[lo] if lo < self.n and scanned_seq(self, lo) == seq else None

    # --- cutting a torn tail ------------------------------------------------------------------------------------

    def seqs_from(self, uint32_t messages):
        """`(first, last)` sequence of the messages from this one on; None when there are none."""
        if messages >= self.n:
            return None
        return scanned_seq(self, messages), scanned_seq(self, self.n - 1)

    def cut(self, region):
        """Forget everything from a region on (from the start of its unit, if it lies in one). Returns the new end."""
        start, messages, controls = region.unit or (region.start, region.messages, region.controls)
        return self.cut_at(start, messages, controls)

    def cut_frame(self, region):
        """Forget everything from the frame on that a region lies in, or from the region on. Returns the new end.

        The last frame is then the one before: a log whose frames have no gaps goes on with the next number.
        """
        start, messages, controls = region.frame or (region.start, region.messages, region.controls)
        self.last_frame_no = region.frame_no - 1
        return self.cut_at(start, messages, controls)

    cdef object cut_at(self, Py_ssize_t start, uint32_t messages, Py_ssize_t controls):
        self.regions = [r for r in self.regions if r.start < start]
        self.forget(messages, controls)
        if self.unit_before is not None and start <= self.unit_before[0]:
            self.unit_ended = False
        self.unit = None
        self.good_end = start
        return start

    @property
    def unit_continues(self):
        """Whether the segment begins inside a unit that an earlier one began."""
        return self.unit_before is not None

    def open_unit(self):
        """A unit that was begun and never completed, as a region to cut; None when there is none."""
        if self.unit is None:
            return None
        start, messages, controls = self.unit
        return Region(start, self.good_end, self.last_frame_no, messages, controls, self.unit)

    cdef int forget(self, uint32_t messages, Py_ssize_t controls) except -1:
        """Go back to the first `messages` and `controls`."""
        cdef uint32_t i
        cdef uint64_t last
        for i in range(messages, self.n):
            if self.sid[i] != NO_SUBJECT:
                self.names.subjects[self.sid[i]].count -= 1
        self.n = min(self.n, messages)
        last = scanned_seq(self, self.n - 1) if self.n else self.first_seq - 1
        del self.controls[controls:]
        for kind, seq, _ts, _key, payload in self.controls:
            if kind == KIND_SKIP:
                last = max(last, int.from_bytes(payload, "little"))
            elif kind == KIND_TRIM:
                last = max(last, seq - 1)
            elif kind == KIND_STATE:
                last = max(last, int.from_bytes(payload[8:16], "little"))
        self.holes = [(lo, hi) for lo, hi in self.holes if hi < last]
        self.expiries = [pair for pair in self.expiries if pair[0] <= last]
        self.last_seq = last
        self.expect = last + 1
        return 0


cdef bint is_sound(int kind, const unsigned char *payload, uint32_t size) noexcept nogil:
    """Whether a control record holds what its kind does: nothing behind this looks at sizes again."""
    if kind == KIND_SKIP:
        return size == SKIP_BYTES and get64(payload) <= SEQ_TOP
    if kind == KIND_STATE:
        return size == STATE_BYTES and get64(payload) <= SEQ_TOP + 1 and get64(payload + 8) <= SEQ_TOP
    if kind == KIND_ERASE:
        return size == ERASE_BYTES
    if kind == KIND_CHAIN:
        return size == CHAIN_BYTES
    return kind != KIND_TOMBS or size % TOMB_BYTES == 0
