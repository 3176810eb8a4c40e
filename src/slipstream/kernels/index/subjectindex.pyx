# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Questions to a stream's index: what passes a filter, from where, how many, which is the newest.

Filters are matched once per distinct subject, not per message: a `FilterView` remembers the verdict of each subject,
and a filtered scan is a walk over the subject numbers of `runtable` (about 1 ns a message). A verdict does not depend
on how many filters there are (`filterset`). Verdicts on very many subjects are asked for in pieces (`prepare`).

Complexity: next match O(distance); count O(messages behind the cut) or O(subjects + messages before it), the shorter;
literal filters are looked up, so instead of all subjects only theirs are met.
Memory: a byte a subject and filter, bounded for all filters together; `Selection` is reused between reads.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, qsort
from libc.string cimport memset

from slipstream.kernels.subjects.filterset cimport FilterSet
from slipstream.kernels.heap cimport grown
from slipstream.kernels.index.msgtable cimport MessageTable
from slipstream.kernels.index.runtable cimport LENGTH_HEADERS, LENGTH_MASK, Cursor, Run, lower, seq_at
from slipstream.kernels.subjects.subject cimport literal_span
from slipstream.kernels.index.subjectpages cimport SubjectPages
from slipstream.kernels.index.subjecttable cimport NO_SUBJECT, FilterView, Subject

cdef enum:
    CHAIN_MAX = 256           # messages of a subject up to which its chain is walked instead of scanning
    VIEW_BYTES_MAX = 32 << 20  # verdict tables of all filters of one stream together
    VIEWS_MAX = 4096
    SORT_COST = 8             # messages that are looked at in the time in which one subject's newest is sorted


cdef struct Newest:   # a sequence a subject, so there is room for all
    uint64_t *seq
    Py_ssize_t n


cdef int compare_seqs(const void *a, const void *b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t *>a)[0], y = (<const uint64_t *>b)[0]
    return (x > y) - (x < y)


cdef class Selection:
    """Places of messages, filled by `MessageIndex.select`, read by the record decoder. Reused between reads."""

    def __dealloc__(self):
        free(self.seq)
        free(self.seg)
        free(self.off)
        free(self.len)

    def __len__(self):
        return self.n

    def place(self, Py_ssize_t i):
        """`(seq, segment, offset, length)` of one entry; length without flags."""
        if i < 0 or i >= self.n:
            raise IndexError(i)
        return self.seq[i], self.seg[i], self.off[i], self.len[i] & LENGTH_MASK

    def reach(self, Py_ssize_t i, uint64_t limit):
        """Bytes from entry `i` to the end of the last entry that one read of `limit` bytes would still take in."""
        cdef Py_ssize_t k = i
        cdef uint64_t end = 0, stop
        if i < 0 or i >= self.n:
            raise IndexError(i)
        while k < self.n and self.seg[k] == self.seg[i]:
            stop = <uint64_t>self.off[k] + (self.len[k] & LENGTH_MASK) + 8 - self.off[i]
            if k > i and (self.off[k] < self.off[i] or stop > limit):
                break
            end = stop
            k += 1
        return end

    cdef int push(self, uint64_t seq, uint32_t seg, uint32_t off, uint32_t length) except -1:
        cdef Py_ssize_t cap
        if self.n == self.cap:
            cap = self.cap * 2 if self.cap else 64
            self.seq = <uint64_t *>grown(self.seq, cap * 8)
            self.seg = <uint32_t *>grown(self.seg, cap * 4)
            self.off = <uint32_t *>grown(self.off, cap * 4)
            self.len = <uint32_t *>grown(self.len, cap * 4)
            self.cap = cap
        self.seq[self.n] = seq
        self.seg[self.n] = seg
        self.off[self.n] = off
        self.len[self.n] = length
        self.n += 1
        return 0


cdef class MessageIndex(MessageTable):
    """Index over the messages of one stream; see `MessageTable` for the arguments."""

    cpdef Py_ssize_t select(
        self, object filters, uint64_t from_seq, uint64_t up_to, Py_ssize_t max_msgs, uint64_t max_bytes, Selection out
    ) except -1:
        """Fill `out` with the places of what passes; returns how many. At least one, if there is one."""
        cdef FilterView view = self.view(filters)
        cdef Cursor c
        cdef Run *r
        cdef uint64_t seq = from_seq, used = 0
        cdef uint32_t sid
        out.n = 0
        while out.n < max_msgs and self.seek(view, seq, up_to, &c):
            r = self.runs[c.run]
            used += (r.len[c.pos] & LENGTH_MASK) - 32
            if out.n and used > max_bytes:
                break
            out.push(c.seq, r.seg, r.off[c.pos], r.len[c.pos])
            seq = c.seq + 1
            if view.kind == 1:
                sid = r.sid[c.pos]
                seq = self.follow(sid, c.seq)
                if seq == 0 or seq > up_to:
                    break
        return out.n

    def next_with_headers(self, uint64_t from_seq):
        """First message at or above `from_seq` that has headers; 0 when there is none. No record is read."""
        cdef Py_ssize_t i = max(self.run_at(max(from_seq, self.first_seq)), 0)
        cdef Run *r
        cdef uint32_t pos
        while i < self.n_runs:
            r = self.runs[i]
            i += 1
            if r.live == 0:
                continue
            pos = lower(r, max(from_seq, self.first_seq))
            while pos < r.n:
                if r.len[pos] & LENGTH_HEADERS and r.sid[pos] != NO_SUBJECT:
                    return seq_at(r, pos)
                pos += 1
        return 0

    # --- filters ------------------------------------------------------------------------------------------------

    cdef FilterView view(self, object filters):
        cdef tuple key = filters if type(filters) is tuple else tuple(filters)
        cdef FilterView v
        found = self.views.get(key)
        if found is not None:
            return <FilterView>found
        if not all([type(f) is bytes for f in key]):
            raise TypeError("filters are bytes")
        v = FilterView()
        v.filters = key
        if not key or b">" in key:
            v.kind = 0
        elif len(key) == 1 and literal_span(<const unsigned char *>PyBytes_AS_STRING(key[0]), PyBytes_GET_SIZE(key[0])):
            v.kind = 1
        else:
            v.kind = 2
            v.judge = FilterSet(key, self.seed)
            v.listed = v.judge.patterns == 0
        if self.view_bytes > VIEW_BYTES_MAX or len(self.views) >= VIEWS_MAX:
            self.views.clear()
            self.view_bytes = 0
        self.views[key] = v
        return v

    cdef bint passes(self, FilterView v, uint32_t sid) except -1:
        """Verdict of a view of kind 2 on a subject."""
        cdef uint32_t cap
        cdef uint8_t verdict
        cdef Subject *s
        if sid >= v.cap:
            cap = self.n_subjects + (self.n_subjects >> 3) + 64
            v.verdicts = <uint8_t *>grown(v.verdicts, cap)
            memset(v.verdicts + v.cap, 0, cap - v.cap)
            self.view_bytes += cap - v.cap
            v.cap = cap
        verdict = v.verdicts[sid]
        if verdict == 0:
            s = &self.subjects[sid]
            verdict = 2 if v.judge.match(self.arena + (s.name >> 16), s.name & 0xFFFF, s.hash) else 1
            v.verdicts[sid] = verdict
        return verdict == 2

    def prepare(self, filters, Py_ssize_t limit):
        """Give verdicts on up to `limit` more subjects; True when none is left without one.

        What is asked about these filters afterwards does not have to. Subjects that come later are few.
        """
        cdef FilterView v = self.view(filters)
        cdef uint32_t sid = v.judged, end
        if v.kind != 2 or v.listed:
            return True
        end = self.n_subjects if self.n_subjects - sid <= <uint64_t>max(limit, 1) else sid + <uint32_t>max(limit, 1)
        while sid < end:
            if self.subjects[sid].count:
                self.passes(v, sid)
            sid += 1
        v.judged = max(v.judged, end)
        return v.judged >= self.n_subjects

    cdef uint32_t literal(self, FilterView v) noexcept:
        return self.lookup(<bytes>v.filters[0])

    cdef bint seek(self, FilterView view, uint64_t seq, uint64_t up_to, Cursor *c) except -1:
        """First message in [seq, up_to] that passes."""
        cdef Py_ssize_t i
        cdef Run *r
        cdef uint32_t pos, sid
        cdef Subject *s
        cdef uint64_t at
        if seq < self.first_seq:
            seq = self.first_seq
        if seq > up_to or self.messages == 0:
            return False
        if view.kind == 1:
            sid = self.literal(view)
            if sid == NO_SUBJECT:
                return False
            s = &self.subjects[sid]
            if seq > s.last:
                return False
            if seq <= s.first:
                at = s.first
            elif seq == s.last:
                at = seq
            elif s.count <= CHAIN_MAX:
                at = s.first
                while at and at < seq:
                    at = self.follow(sid, at)
            else:
                at = self.scan_for(sid, seq, s.last)
            return at != 0 and at <= up_to and self.locate_entry(at, c)
        i = self.run_at(seq)
        if i < 0:
            i = 0
        while i < self.n_runs:
            r = self.runs[i]
            if r.first > up_to:
                return False
            if r.live:
                pos = lower(r, seq)
                while pos < r.n:
                    sid = r.sid[pos]
                    if sid != NO_SUBJECT and (
                        view.kind == 0
                        or (sid < view.cap and view.verdicts[sid] == 2)
                        or ((sid >= view.cap or view.verdicts[sid] == 0) and self.passes(view, sid))
                    ):
                        c.run = i
                        c.pos = pos
                        c.seq = seq_at(r, pos)
                        return c.seq <= up_to
                    pos += 1
            i += 1
        return False

    cdef uint64_t count_between(self, FilterView view, uint64_t lo, uint64_t hi) except? 0xFFFFFFFFFFFFFFFF:
        """Messages that pass with lo <= sequence < hi."""
        cdef Py_ssize_t i
        cdef Run *r
        cdef uint32_t pos, end, sid, literal = NO_SUBJECT
        cdef uint64_t n = 0
        if lo >= hi:
            return 0
        if view.kind == 1:
            literal = self.literal(view)
            if literal == NO_SUBJECT:
                return 0
        i = self.run_at(lo)
        if i < 0:
            i = 0
        while i < self.n_runs and self.runs[i].first < hi:
            r = self.runs[i]
            i += 1
            if r.live == 0:
                continue
            pos = lower(r, lo)
            end = lower(r, hi)
            if view.kind == 0:
                if pos == 0 and end == r.n:
                    n += r.live
                    continue
                while pos < end:
                    n += r.sid[pos] != NO_SUBJECT
                    pos += 1
            elif view.kind == 1:
                while pos < end:
                    n += r.sid[pos] == literal
                    pos += 1
            else:
                while pos < end:
                    sid = r.sid[pos]
                    if sid != NO_SUBJECT:
                        if sid < view.cap and view.verdicts[sid]:
                            n += view.verdicts[sid] >> 1
                        elif self.passes(view, sid):
                            n += 1
                    pos += 1
        return n

    def count_matching(self, filters, uint64_t from_seq, uint64_t up_to=0xFFFFFFFFFFFFFFFF):
        """Exact number of messages that pass from `from_seq` to `up_to` inclusive."""
        cdef FilterView view = self.view(filters)
        if from_seq > up_to:
            return 0
        if up_to >= self.last_seq:
            return self.count_from(view, from_seq)
        return self.count_from(view, from_seq) - self.count_from(view, up_to + 1)

    cdef uint64_t count_from(self, FilterView view, uint64_t from_seq) except? 0xFFFFFFFFFFFFFFFF:
        """Exact number of messages that pass at or above `from_seq`."""
        cdef uint64_t total = 0
        cdef uint32_t sid
        if from_seq > self.last_seq or self.messages == 0:
            return 0
        if view.kind == 1:
            sid = self.literal(view)
            if sid == NO_SUBJECT or from_seq > self.subjects[sid].last:
                return 0
            total = self.subjects[sid].count
            if from_seq <= self.subjects[sid].first:
                return total
        if from_seq > self.first_seq and self.last_seq - from_seq < from_seq - self.first_seq:
            # The end is the shorter side, and needs no look at subjects that do not occur in it.
            return self.count_between(view, from_seq, self.last_seq + 1)
        if view.kind == 0:
            total = self.messages
        elif view.listed:
            for name in view.judge.literals:
                sid = self.lookup(<bytes>name)
                if sid != NO_SUBJECT:
                    total += self.subjects[sid].count
        elif view.kind == 2:
            for sid in range(self.n_subjects):
                if self.subjects[sid].count and self.passes(view, sid):
                    total += self.subjects[sid].count
        if from_seq <= self.first_seq or total == 0:
            return total
        return total - self.count_between(view, self.first_seq, from_seq)

    def next_seq(self, filters, uint64_t from_seq):
        """First stored sequence at or above `from_seq` that passes; 0 when there is none."""
        cdef Cursor c
        if self.seek(self.view(filters), from_seq, self.last_seq, &c):
            return c.seq
        return 0

    def last_matching(self, filters):
        """Newest sequence that passes; 0 when there is none."""
        cdef FilterView view = self.view(filters)
        cdef uint32_t sid
        cdef uint64_t best = 0
        if view.kind == 1:
            sid = self.literal(view)
            return 0 if sid == NO_SUBJECT else self.subjects[sid].last
        if view.listed:
            for name in view.judge.literals:
                sid = self.lookup(<bytes>name)
                if sid != NO_SUBJECT:
                    best = max(best, self.subjects[sid].last)
            return best
        for sid in range(self.n_subjects):
            if self.subjects[sid].count == 0 or self.subjects[sid].last <= best:
                continue
            if view.kind == 0 or self.passes(view, sid):
                best = self.subjects[sid].last
        return best

    def subject_state(self, bytes subject):
        """`(first, last, count)` of one literal subject; zeros when nothing is stored under it."""
        cdef uint32_t sid = self.lookup(subject)
        if sid == NO_SUBJECT:
            return 0, 0, 0
        return self.subjects[sid].first, self.subjects[sid].last, self.subjects[sid].count

    def place(self, key):
        """`(sequence, segment, offset, length)` of one message: of this sequence, or the newest of a literal subject.

        None when there is none.
        """
        cdef Cursor c
        cdef Run *r
        cdef uint32_t sid
        cdef uint64_t seq
        if type(key) is bytes:
            sid = self.lookup(<bytes>key)
            if sid == NO_SUBJECT:
                return None
            seq = self.subjects[sid].last
        else:
            seq = key
        if not self.locate_entry(seq, &c):
            return None
        r = self.runs[c.run]
        if r.sid[c.pos] == NO_SUBJECT:
            return None
        return seq, r.seg, r.off[c.pos], r.len[c.pos] & LENGTH_MASK

    def subjects_matching(self, filters):
        """Every stored subject that passes with its count, sorted."""
        cdef FilterView view = self.view(filters)
        cdef uint32_t sid
        cdef Subject *s
        cdef list out = []
        if view.kind == 1:
            sid = self.literal(view)
            if sid != NO_SUBJECT:
                out.append((view.filters[0], self.subjects[sid].count))
            return out
        if view.listed:
            for name in view.judge.literals:
                sid = self.lookup(<bytes>name)
                if sid != NO_SUBJECT:
                    out.append((name, self.subjects[sid].count))
            out.sort()
            return out
        for sid in range(self.n_subjects):
            s = &self.subjects[sid]
            if s.count and (view.kind == 0 or self.passes(view, sid)):
                out.append((PyBytes_FromStringAndSize(self.arena + (s.name >> 16), s.name & 0xFFFF), s.count))
        out.sort()
        return out

    def subject_pages(self, filters, uint64_t up_to=0xFFFFFFFFFFFFFFFF):
        """The same for reading in pages, as they are now without the messages behind `up_to`."""
        cdef FilterView view = self.view(filters)
        cdef SubjectPages pages = SubjectPages()
        cdef uint32_t sid
        cdef uint64_t count
        cdef Subject *s
        cdef dict later = {}  # number of a subject -> messages of it that are not shown
        if up_to < self.last_seq:
            for name, hidden in self.name_counts_since(up_to).items():
                later[self.lookup(<bytes>name)] = hidden
        pages.hold(self.arena, self.arena_len, self.num_subjects)
        if view.kind == 1:
            sid = self.literal(view)
            if sid != NO_SUBJECT:
                s = &self.subjects[sid]
                count = s.count - <uint64_t>later.get(sid, 0)
                if count:
                    pages.put(s.name >> 16, s.name & 0xFFFF, count)
            return pages
        for sid in range(self.n_subjects):
            s = &self.subjects[sid]
            if s.count and (view.kind == 0 or self.passes(view, sid)):
                count = s.count
                if later:
                    count -= <uint64_t>later.get(sid, 0)
                if count:
                    pages.put(s.name >> 16, s.name & 0xFFFF, count)
        return pages

    def last_per_subject(self, filters, uint64_t up_to):
        """Newest sequence not above `up_to` (0: no bound) of each subject that passes, ascending, in 64 bits each."""
        cdef FilterView view = self.view(filters)
        cdef uint32_t sid
        cdef uint64_t bound = up_to if up_to else self.last_seq
        cdef Newest found
        cdef Py_ssize_t in_order = 0
        found.n = 0
        found.seq = <uint64_t *>grown(NULL, <size_t>self.num_subjects * 8)
        try:
            if view.kind == 1 or view.listed:
                for name in view.filters if view.kind == 1 else view.judge.literals:
                    push_newest(self, self.lookup(<bytes>name), bound, &found)
            elif self.messages <= <uint64_t>self.num_subjects * SORT_COST:
                # As many messages as subjects, nearly: met in their order, they need no sorting.
                push_newest_in_order(self, view, bound, &found)
                in_order = found.n
                if self.last_seq > bound:
                    for sid in range(self.n_subjects):
                        if self.subjects[sid].count and self.subjects[sid].last > bound:
                            if view.kind == 0 or self.passes(view, sid):
                                push_newest(self, sid, bound, &found)
            else:
                for sid in range(self.n_subjects):
                    if self.subjects[sid].count and (view.kind == 0 or self.passes(view, sid)):
                        push_newest(self, sid, bound, &found)
            if found.n > in_order:
                qsort(found.seq, found.n, 8, compare_seqs)
            return PyBytes_FromStringAndSize(<char *>found.seq, found.n * 8)
        finally:
            free(found.seq)

    def matching_seqs(self, filters, uint64_t up_to, uint64_t keep):
        """Sequences that pass and are not above `up_to`, without the newest `keep` of them, packed in 64 bits each."""
        cdef FilterView view = self.view(filters)
        cdef Cursor c
        cdef uint64_t seq = self.first_seq
        cdef Selection found = Selection()
        while self.seek(view, seq, up_to, &c):
            found.push(c.seq, 0, 0, 0)
            seq = c.seq + 1
        if keep >= <uint64_t>found.n:
            return b""
        return PyBytes_FromStringAndSize(<char *>found.seq, (found.n - keep) * 8)

    def oldest_matching(self, filters, uint64_t from_seq, uint64_t up_to, Py_ssize_t limit):
        """Up to `limit` sequences that pass, from `from_seq` to `up_to`, ascending, packed in 64 bits each."""
        cdef FilterView view = self.view(filters)
        cdef Cursor c
        cdef uint64_t seq = max(from_seq, self.first_seq)
        cdef Selection found = Selection()
        while found.n < limit and self.seek(view, seq, up_to, &c):
            found.push(c.seq, 0, 0, 0)
            seq = c.seq + 1
        return PyBytes_FromStringAndSize(<char *>found.seq, found.n * 8)

    def deleted(self, Py_ssize_t limit, uint64_t up_to=0xFFFFFFFFFFFFFFFF):
        """Up to `limit` sequences between the first message and `up_to` without one, ascending."""
        cdef list out = []
        cdef uint64_t seq = self.first_seq, at
        cdef Py_ssize_t i
        cdef Run *r
        cdef uint32_t pos
        if self.messages == 0:
            return out
        up_to = min(up_to, self.last_seq)
        i = self.run_at(seq)
        while i < self.n_runs and len(out) < limit and self.runs[i].first <= up_to:
            r = self.runs[i]
            pos = lower(r, seq)
            while pos < r.n:
                if r.sid[pos] != NO_SUBJECT:
                    at = seq_at(r, pos)
                    while seq < at and seq <= up_to and len(out) < limit:
                        out.append(seq)
                        seq += 1
                    seq = at + 1
                pos += 1
            i += 1
        while seq <= up_to and len(out) < limit:
            out.append(seq)
            seq += 1
        return out


cdef void push_newest(MessageIndex index, uint32_t sid, uint64_t bound, Newest *out) noexcept:
    """The newest message of a subject that is not above `bound`, if there is one."""
    cdef Subject *s
    cdef uint64_t at = 0
    if sid == NO_SUBJECT:
        return
    s = &index.subjects[sid]
    if s.last <= bound:
        at = s.last
    elif s.first <= bound and index.run_at(bound + 1) >= 0:
        at = index.before(sid, bound + 1)
    if at:
        out.seq[out.n] = at
        out.n += 1


cdef int push_newest_in_order(MessageIndex index, FilterView view, uint64_t bound, Newest *out) except -1:
    """Every message up to `bound` that is the newest of its subject."""
    cdef Py_ssize_t i
    cdef Run *r
    cdef uint32_t pos, sid
    cdef uint64_t seq
    for i in range(index.n_runs):
        r = index.runs[i]
        if r.live == 0:
            continue
        for pos in range(r.n):
            sid = r.sid[pos]
            if sid == NO_SUBJECT:
                continue
            seq = seq_at(r, pos)
            if seq > bound:
                return 0
            if index.subjects[sid].last == seq and (view.kind == 0 or index.passes(view, sid)):
                out.seq[out.n] = seq
                out.n += 1
    return 0
