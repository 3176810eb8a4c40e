# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What one segment holds: found by scanning its bytes, kept beside it as an index file, loaded into a stream's index.

    segment bytes --step()--> SegmentScan --to_bytes()--> .sdx file --from_bytes()--> SegmentScan --load_into()--> index

A scan is a pure function of the bytes. It never stops at damage: it notes the region and goes on at the next frame or
record whose checksum holds, at 8-byte steps. Sequences that no record accounts for are `holes`. Deciding whether a
region is a torn tail or damage is the caller's (`recovery.py`); `cut` then forgets everything from a region on.

    .sdx: head (18 words of 8 bytes, see to_bytes) | rel u32[n] unless dense | off u32[n] | len u32[n] | sid u32[n]
          | subject ends u32[m] | subject names | expiries (seq, ns)[] | holes (lo, hi)[] | control records | crc32c u32

Lengths in an index file are checked against its size before use; its checksum is keyed with the segment's salt and
covers everything. Memory: arrays on the C heap, or borrowed from the file's bytes, which are kept alive.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from slipstream.kernels.bytes_le cimport get16, get32, get64
from slipstream.kernels.record cimport (
    FLAG_EXPIRES, FRAME_FIRST, FRAME_HEAD, FRAME_MORE, FRAME_UNIT, HEAD, KIND_ERASED, KIND_MASK, KIND_MSG,
    KIND_SKIP, KIND_STATE, KIND_TRIM, Frame, read_frame, record_size,
)
from slipstream.kernels.msgtable cimport LENGTH_EXPIRES, LENGTH_HEADERS, NO_SUBJECT, Run, seq_at
from slipstream.kernels.subjectindex cimport MessageIndex

cdef extern from "crc32c.h" nogil:
    uint32_t slip_crc32c(uint32_t crc, const void *data, size_t n)

cdef uint64_t SDX_MAGIC = 0x3130584453504C53  # "SLPSDX01"

cdef enum:
    SDX_HEAD_WORDS = 18
    DENSE = 1


class Region:
    """A stretch of bytes that could not be read.

    `frame_no` is the frame it belongs to (the next expected one when no header survived); `messages` and `controls`
    say how much was read before it; `unit` is the same at the start of the unit it lies in, or None.
    """

    __slots__ = ("controls", "end", "frame_no", "messages", "start", "unit")

    def __init__(self, start, end, frame_no, messages, controls, unit):
        self.start = start
        self.end = end
        self.frame_no = frame_no
        self.messages = messages
        self.controls = controls
        self.unit = unit


cdef class SegmentScan:
    """Content of one segment. Made by `SegmentScan(data, ...)` and `step`, or by `from_bytes`."""

    cdef bytes data                 # segment bytes while scanning, index bytes when loaded from them
    cdef const unsigned char *p
    cdef Py_ssize_t at, end, used_end
    cdef uint64_t salt
    cdef MessageIndex names         # only its subject table is used
    cdef bint owned, loaded
    cdef uint32_t n, cap
    cdef uint32_t *rel
    cdef uint32_t *off
    cdef uint32_t *len
    cdef uint32_t *sid
    cdef uint32_t n_names           # when loaded from an index file: the name table
    cdef const unsigned char *name_ends
    cdef const unsigned char *name_bytes
    cdef uint64_t expect            # next sequence to account for
    cdef object unit                # (offset, messages, controls) where the open unit began
    cdef object unit_before         # the same for a unit that goes on from an earlier segment
    cdef Frame frame                # frame being read
    cdef Py_ssize_t frame_end       # 0: between frames
    cdef uint32_t frame_seen
    cdef Py_ssize_t bad_from        # start of the damage being skipped, -1 when none
    cdef readonly uint64_t base_seq  # sequence of message 0, base of `rel`
    cdef readonly uint64_t first_seq
    cdef readonly uint64_t last_seq  # highest sequence accounted for
    cdef readonly int64_t first_ts, last_ts
    cdef readonly uint64_t first_frame_no, last_frame_no, synced_upto, epoch
    cdef readonly Py_ssize_t good_end
    cdef readonly bint unit_ended   # the unit that goes on from an earlier segment ends in this one
    cdef readonly list controls     # (kind, seq, ts, key, payload)
    cdef readonly list expiries     # (seq, expires_ns)
    cdef readonly list holes        # (lo, hi) inclusive
    cdef readonly list regions      # Region

    def __cinit__(
        self, bytes data not None, Py_ssize_t start, uint64_t salt, uint64_t first_seq, uint64_t last_frame_no
    ):
        self.data = data
        self.p = <const unsigned char *>PyBytes_AS_STRING(data)
        self.at = (start + 7) & ~<Py_ssize_t>7
        self.end = PyBytes_GET_SIZE(data)
        self.good_end = self.at
        self.used_end = self.end
        while self.used_end > 0 and self.p[self.used_end - 1] == 0:
            self.used_end -= 1
        self.salt = salt
        self.names = MessageIndex(salt)
        self.owned = True
        self.first_seq = self.expect = first_seq
        self.last_seq = first_seq - 1
        self.last_frame_no = last_frame_no
        self.bad_from = -1
        self.controls = []
        self.expiries = []
        self.holes = []
        self.regions = []

    def __dealloc__(self):
        if self.owned:
            free(self.rel)
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
            size = record_size(self.p + self.at, self.end - self.at, <uint32_t>self.salt)
            if size and self.accept(size):
                continue
            if read_frame(self.p + self.at, self.end - self.at, self.salt, &frame) and frame.no > self.last_frame_no:
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
                if not self.frame.flags & FRAME_MORE:
                    self.end_unit()
        return True

    cdef int enter_frame(self, Frame *frame) except -1:
        if self.bad_from >= 0:
            self.close_region(self.at)
        elif self.frame_end:
            self.regions.append(Region(self.at, self.at, self.frame.no, self.n, len(self.controls), self.unit))
        if not frame.flags & FRAME_UNIT:
            self.unit = None
        elif self.unit is None or frame.flags & FRAME_FIRST:
            self.unit = (self.at, self.n, len(self.controls))
            if self.first_frame_no == 0 and not frame.flags & FRAME_FIRST:
                self.unit_before = self.unit
        self.frame = frame[0]
        if self.first_frame_no == 0:
            self.first_frame_no = frame.no
        self.last_frame_no = frame.no
        self.synced_upto = max(self.synced_upto, frame.synced_upto)
        self.epoch = max(self.epoch, frame.epoch)
        self.frame_end = self.at + frame.length
        self.frame_seen = 0
        self.at += FRAME_HEAD
        return 0

    cdef int leave_frame(self) except -1:
        if self.frame_seen < self.frame.count:
            self.regions.append(Region(self.at, self.frame_end, self.frame.no, self.n, len(self.controls), self.unit))
        elif self.frame_end <= self.end:
            self.at = self.frame_end
        if not self.frame.flags & FRAME_MORE and self.frame_seen >= self.frame.count:
            self.end_unit()
        self.frame_end = 0
        self.good_end = min(self.at, self.end)
        return 0

    cdef int end_unit(self) except -1:
        if self.unit is not None and self.unit is self.unit_before:
            self.unit_ended = True
        self.unit = None
        return 0

    cdef int close_region(self, Py_ssize_t end) except -1:
        cdef uint64_t no = self.frame.no if self.frame_end else self.last_frame_no + 1
        if self.bad_from >= 0:
            self.regions.append(Region(self.bad_from, end, no, self.n, len(self.controls), self.unit))
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
        if (kind == KIND_MSG or kind == KIND_ERASED) and (seq < self.expect or (kind == KIND_MSG and slen == 0)):
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
            if kind == KIND_SKIP and plen == 8:
                to = get64(body + slen + hlen)
                if to >= seq and to >= self.expect:
                    self.account(max(seq, self.expect), to)
            elif kind == KIND_TRIM and seq > self.expect:
                self.expect = seq
            elif kind == KIND_STATE and plen >= 16 and get64(body + slen + hlen + 8) + 1 > self.expect:
                self.expect = get64(body + slen + hlen + 8) + 1
            self.controls.append((
                kind, seq, ts, PyBytes_FromStringAndSize(<const char *>body, slen),
                PyBytes_FromStringAndSize(<const char *>body + slen + hlen, plen),
            ))
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
        if seq - self.base_seq >= 0xFFFFFFF0:
            raise ValueError("segment spans too many sequences")
        if self.n == self.cap:
            cap = self.cap + (self.cap >> 1) + 256
            self.rel = <uint32_t *>grown(self.rel, <size_t>cap * 4)
            self.off = <uint32_t *>grown(self.off, <size_t>cap * 4)
            self.len = <uint32_t *>grown(self.len, <size_t>cap * 4)
            self.sid = <uint32_t *>grown(self.sid, <size_t>cap * 4)
            self.cap = cap
        self.rel[self.n] = <uint32_t>(seq - self.base_seq)
        self.off[self.n] = off
        self.len[self.n] = length
        self.sid[self.n] = sid
        self.n += 1
        return 0

    def place(self, uint64_t seq):
        """Offset of the record of a message; None when it is not here."""
        cdef uint32_t lo = 0, hi = self.n, mid
        if self.n == 0 or seq < self.base_seq or seq - self.base_seq > 0xFFFFFFF0:
            return None
        if self.rel == NULL:
            return self.off[seq - self.base_seq] if seq - self.base_seq < self.n else None
        while lo < hi:
            mid = lo + (hi - lo) // 2
            if self.rel[mid] < seq - self.base_seq:
                lo = mid + 1
            else:
                hi = mid
        return self.off[lo] if lo < self.n and self.rel[lo] == seq - self.base_seq else None

    # --- cutting a torn tail ------------------------------------------------------------------------------------

    def seqs_from(self, uint32_t messages):
        """`(first, last)` sequence of the messages from this one on; None when there are none."""
        if messages >= self.n:
            return None
        return self.base_seq + self.rel[messages], self.base_seq + self.rel[self.n - 1]

    def cut(self, region):
        """Forget everything from a region on (from the start of its unit, if it lies in one). Returns the new end."""
        start, messages, controls = region.unit or (region.start, region.messages, region.controls)
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
        last = self.base_seq + self.rel[self.n - 1] if self.n else self.first_seq - 1
        del self.controls[controls:]
        for kind, seq, _ts, _key, payload in self.controls:
            if kind == KIND_SKIP and len(payload) == 8:
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

    # --- index file ---------------------------------------------------------------------------------------------

    def to_bytes(self, bytes control_records not None):
        """The index file. `control_records` comes from the caller, who knows how to encode them."""
        cdef uint32_t i, m = 0
        cdef list names = []
        cdef bint dense = self.n > 0 and self.rel[self.n - 1] == self.n - 1
        cdef bytes body, table
        cdef uint32_t *ends
        cdef uint32_t *numbers
        cdef uint64_t total = 0
        cdef MessageIndex t = self.names
        if self.name_ends != NULL:
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
            sids = PyBytes_FromStringAndSize(NULL, <size_t>self.n * 4)
            fill_sids(<uint32_t *>PyBytes_AS_STRING(sids), self.sid, numbers, self.n)
        finally:
            free(numbers)
        head = (
            SDX_MAGIC, self.salt, DENSE if dense else 0, self.base_seq, self.n, m, total, len(self.expiries),
            len(self.holes), self.first_seq, self.last_seq, self.first_ts & 0xFFFFFFFFFFFFFFFF,
            self.last_ts & 0xFFFFFFFFFFFFFFFF, self.first_frame_no, self.good_end, len(control_records),
            self.last_frame_no, 0,
        )
        body = b"".join((
            b"".join([(<object>word).to_bytes(8, "little") for word in head]),
            b"" if dense else PyBytes_FromStringAndSize(<char *>self.rel, <size_t>self.n * 4),
            PyBytes_FromStringAndSize(<char *>self.off, <size_t>self.n * 4),
            PyBytes_FromStringAndSize(<char *>self.len, <size_t>self.n * 4),
            sids, table, b"".join(names),
            b"".join([
                a.to_bytes(8, "little") + (b & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little") for a, b in self.expiries
            ]),
            b"".join([a.to_bytes(8, "little") + b.to_bytes(8, "little") for a, b in self.holes]),
            control_records,
        ))
        crc = slip_crc32c(<uint32_t>self.salt, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))
        return body + (<object>crc).to_bytes(4, "little")

    @staticmethod
    def from_bytes(bytes data not None, uint64_t salt):
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

    # --- into a stream's index ----------------------------------------------------------------------------------

    cdef uint32_t *map_names(self, MessageIndex index) except NULL:
        """Numbers of our subjects in the stream's table. The caller frees it."""
        cdef uint32_t m = self.n_names if self.name_ends != NULL else self.names.n_subjects
        cdef uint32_t *out = <uint32_t *>grown(NULL, (<size_t>m + 1) * 4)
        cdef uint32_t i, begin = 0, end
        cdef MessageIndex t = self.names
        try:
            for i in range(m):
                if self.name_ends != NULL:
                    end = get32(self.name_ends + <size_t>i * 4)
                    if end < begin or end - begin > 65535:
                        raise ValueError("name table")
                    out[i] = index.intern(<const char *>self.name_bytes + begin, end - begin)
                    begin = end
                elif t.subjects[i].count:
                    out[i] = index.intern(t.arena + (t.subjects[i].name >> 16), t.subjects[i].name & 0xFFFF)
                else:
                    out[i] = NO_SUBJECT
                    continue
                # A subject with no message yet would be taken for a free entry while names are moved around.
                index.subjects[out[i]].count += 1
        except BaseException:
            free(out)
            raise
        return out

    def load_into(self, MessageIndex index not None, uint32_t seg):
        """Add every message; the segment must come after all that the index holds."""
        cdef uint32_t *numbers
        cdef uint32_t i, m = self.n_names if self.name_ends != NULL else self.names.n_subjects
        cdef uint32_t sid
        cdef uint64_t seq, span
        cdef Run *r
        cdef bint dense
        if self.n == 0:
            index.skip_to(self.last_seq)
            return
        if self.base_seq <= index.last_seq:
            raise ValueError("segments out of order")
        span = <uint64_t>(self.rel[self.n - 1] if self.rel != NULL else self.n - 1) + 1
        dense = span <= <uint64_t>self.n + self.n // 4 + 64
        for i in range(self.n):
            if self.sid[i] != NO_SUBJECT and self.sid[i] >= m:
                raise ValueError("subject number")
        numbers = self.map_names(index)
        try:
            r = index.new_run(index.n_runs, self.base_seq, seg, <uint32_t>span if dense else self.n, not dense)
            if dense and span != self.n:
                memset(r.len, 0, <size_t>span * 4)
                memset(r.off, 0, <size_t>span * 4)
                memset(r.sid, 0xFF, <size_t>span * 4)
            r.n = <uint32_t>span if dense else self.n
            memset(r.next, 0, <size_t>r.n * 4)
            r.last = self.base_seq + span - 1
            for i in range(self.n):
                sid = self.sid[i]
                if sid != NO_SUBJECT:
                    sid = numbers[sid]
                if dense:
                    set_entry(r, self.rel[i] if self.rel != NULL else i, self.off[i], self.len[i], sid)
                else:
                    r.rel[i] = self.rel[i]
                    set_entry(r, i, self.off[i], self.len[i], sid)
            for i in range(m):
                if numbers[i] != NO_SUBJECT:
                    index.subjects[numbers[i]].count -= 1
            for i in range(r.n):
                sid = r.sid[i]
                if sid == NO_SUBJECT:
                    continue
                seq = r.first + (i if r.rel == NULL else r.rel[i])
                index.link(sid, seq)
                r.live += 1
                if index.messages == 0:
                    index.first_seq = seq
                index.messages += 1
                index.size_bytes += index.stated_size(r.len[i])
        finally:
            free(numbers)
        index.skip_to(max(r.last, self.last_seq))

    def replace_in(self, MessageIndex index not None, set old not None, uint32_t seg):
        """Point the messages of neighbouring segments to this rewritten form of them, which holds all that live."""
        cdef Py_ssize_t first = 0, count = 0, k, run
        cdef uint32_t i, sid, pos = 0, live = 0
        cdef uint64_t seq, following
        cdef Run *r
        cdef uint32_t *next_of = <uint32_t *>grown(NULL, (<size_t>self.n + 1) * 4)
        cdef uint32_t *sid_of
        while first < index.n_runs and index.runs[first].seg not in old:
            first += 1
        while first + count < index.n_runs and index.runs[first + count].seg in old:
            live += index.runs[first + count].live
            count += 1
        run = first
        try:
            sid_of = <uint32_t *>grown(NULL, (<size_t>self.n + 1) * 4)
            try:
                # Both are in order, so the two are walked side by side. This runs on the event loop.
                for i in range(self.n):
                    seq = self.base_seq + self.rel[i]
                    sid_of[i] = NO_SUBJECT
                    next_of[i] = 0
                    while run < first + count and index.runs[run].last < seq:
                        run += 1
                        pos = 0
                    if run == first + count:
                        continue
                    r = index.runs[run]
                    while pos < r.n and seq_at(r, pos) < seq:
                        pos += 1
                    if pos == r.n or seq_at(r, pos) != seq or r.sid[pos] == NO_SUBJECT:
                        continue
                    sid = r.sid[pos]
                    sid_of[i] = sid
                    live -= 1
                    if seq != index.subjects[sid].last:
                        following = index.follow_step(sid, seq, r.next[pos])
                        if following and following - seq < 0xFFFFFFF0:
                            next_of[i] = <uint32_t>(following - seq)
                if live != 0:
                    raise ValueError("the rewritten segment does not hold every live message")
                for k in range(count):
                    index.free_run(index.runs[first + k])
                for k in range(first, index.n_runs - count):
                    index.runs[k] = index.runs[k + count]
                index.n_runs -= count
                if self.n:
                    r = index.new_run(first, self.base_seq, seg, self.n, True)
                    r.n = self.n
                    r.last = self.base_seq + self.rel[self.n - 1]
                    memcpy(r.rel, self.rel, <size_t>self.n * 4)
                    memcpy(r.off, self.off, <size_t>self.n * 4)
                    memcpy(r.len, self.len, <size_t>self.n * 4)
                    memcpy(r.sid, sid_of, <size_t>self.n * 4)
                    memcpy(r.next, next_of, <size_t>self.n * 4)
                    for i in range(self.n):
                        r.live += r.sid[i] != NO_SUBJECT
            finally:
                free(sid_of)
        finally:
            free(next_of)


cdef void set_entry(Run *r, uint32_t pos, uint32_t off, uint32_t length, uint32_t sid) noexcept nogil:
    r.off[pos] = off
    r.len[pos] = length
    r.sid[pos] = sid


cdef void fill_sids(uint32_t *out, uint32_t *sid, uint32_t *numbers, uint32_t n) noexcept nogil:
    cdef uint32_t i
    for i in range(n):
        out[i] = numbers[sid[i]] if sid[i] != NO_SUBJECT else NO_SUBJECT


cdef void *grown(void *p, size_t n) except NULL:
    cdef void *q = realloc(p, n if n else 1)
    if q == NULL:
        raise MemoryError()
    return q
