# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The messages of a stream: added, chained by subject, removed. The tables behind `subjectindex.MessageIndex`.

    runs (runtable)                        subjects (subjecttable)
    +-------------------------+           +----------------------+
    | off[] len[] sid[] next[]|   sid --> | first last count     |
    +-------------------------+           +----------------------+
                   next: distance to the next message of the same subject

`next` chains the messages of a subject from old to new, so the oldest of a subject is removed in O(1). Removed entries
keep their place and their link: a chain walks over them. Where a chain leads into a run that is gone, the walk falls back
to scanning forward.

Complexity: add, delete of the oldest O(log runs); delete of the newest of a subject O(messages behind it), at worst.
Memory: that of the layers below, see `subjecttable`. Invariants are checked by `check()`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from slipstream.kernels.heap cimport grown
from slipstream.kernels.index.runtable cimport (
    LENGTH_HEADERS, LENGTH_MASK, RELATIVE_MAX, Cursor, Run, RunTable, lower, push_entry, seq_at,
)
from slipstream.kernels.index.subjecttable cimport NO_SUBJECT, FilterView, Subject

cdef enum:
    MOVE_FROM = 256           # shorter runs of another table are copied, so that runs stay few


cdef class MessageTable(RunTable):
    """Messages and subjects of one stream.

    Args:
        seed: key of the hash; random, not shared between processes.
        file_sizes: count message sizes as nats-server's file store does (else as its memory store does).
    """

    def __cinit__(self, uint64_t seed, bint file_sizes=True):
        self.file_sizes = file_sizes
        self.first_seq = 1
        self.last_seq = 0

    cdef uint64_t stated_size(self, uint32_t length) noexcept:
        """nats-server's size of a message from the length of our record (32 + subject + headers + payload)."""
        cdef uint64_t n = length & LENGTH_MASK
        if not self.file_sizes:
            return n - 16
        return n + 2 if length & LENGTH_HEADERS else n - 2

    def count_as_memory(self):
        """From now on message sizes are counted as nats-server's memory store does. O(messages), once."""
        cdef Py_ssize_t i
        cdef Run *r
        cdef uint32_t pos
        if not self.file_sizes:
            return
        self.file_sizes = False
        self.size_bytes = 0
        for i in range(self.n_runs):
            r = self.runs[i]
            for pos in range(r.n):
                if r.sid[pos] != NO_SUBJECT:
                    self.size_bytes += self.stated_size(r.len[pos])

    cdef int link(self, uint32_t sid, uint64_t seq) except -1:
        """Make `seq` the newest message of a subject."""
        cdef Subject *s = &self.subjects[sid]
        cdef Cursor c
        cdef uint64_t distance
        if s.count == 0:
            s.first = seq
        else:
            distance = seq - s.last
            if distance < RELATIVE_MAX and self.locate_entry(s.last, &c):
                self.runs[c.run].next[c.pos] = <uint32_t>distance
        s.last = seq
        s.count += 1
        return 0

    cdef int add(
        self, uint64_t seq, const char *name, Py_ssize_t n, uint32_t off, uint32_t length, uint32_t seg
    ) except -1:
        """Add the newest message. `seq` must be above `last_seq`."""
        cdef uint32_t sid = self.recent
        cdef Subject *s = &self.subjects[sid] if sid < self.n_subjects else NULL
        cdef Run *r
        if (
            s == NULL or s.count == 0 or <Py_ssize_t>(s.name & 0xFFFF) != n
            or memcmp(self.arena + (s.name >> 16), name, n) != 0
        ):
            sid = self.recent = self.intern(name, n)
        r = self.open_run(seq, seg)
        push_entry(r, seq, off, length, sid)
        r.live += 1
        self.link(sid, seq)
        if self.messages == 0:
            self.first_seq = seq
        self.last_seq = seq
        self.messages += 1
        self.size_bytes += self.stated_size(length)
        return 0

    def absorb(self, MessageTable other not None):
        """Take over all messages of `other`, which are newer than all here. `other` is not to be used any more.

        A subject costs a lookup, a message a few nanoseconds: its arrays change hands.
        """
        cdef uint32_t *numbers
        cdef uint32_t i, pos
        cdef Py_ssize_t k
        cdef Subject *s
        cdef Run *r
        cdef Run *to
        if other is self or (other.n_runs and other.runs[0].first <= self.last_seq):
            raise ValueError("the messages are not newer")
        if not self.file_sizes:
            other.count_as_memory()  # staged before anybody knew
        self.make_room(other.num_subjects, other.arena_len - other.arena_dead)
        numbers = <uint32_t *>grown(NULL, (<size_t>other.n_subjects + 1) * 4)
        try:
            for i in range(other.n_subjects):
                s = &other.subjects[i]
                if s.count:
                    numbers[i] = self.intern(other.arena + (s.name >> 16), s.name & 0xFFFF)
                    self.link(numbers[i], s.first)
                    self.subjects[numbers[i]].last = s.last
                    self.subjects[numbers[i]].count += s.count - 1
            for k in range(other.n_runs):
                r = other.runs[k]
                for pos in range(r.n):
                    if r.sid[pos] != NO_SUBJECT:
                        r.sid[pos] = numbers[r.sid[pos]]
                if r.n >= MOVE_FROM:
                    to = self.new_run(self.n_runs, r.first, r.seg, 1, False)
                    self.free_run(to)
                    self.runs[self.n_runs - 1] = r
                    continue
                for pos in range(r.n):
                    if r.len[pos]:
                        to = self.open_run(seq_at(r, pos), r.seg)
                        push_entry(to, seq_at(r, pos), r.off[pos], r.len[pos], r.sid[pos])
                        to.next[to.n - 1] = r.next[pos]
                        to.live += r.sid[pos] != NO_SUBJECT
                self.free_run(r)
        finally:
            free(numbers)
            other.n_runs = 0
        if self.messages == 0:
            self.first_seq = other.first_seq if other.messages else other.last_seq + 1
        self.messages += other.messages
        self.size_bytes += other.size_bytes
        self.last_seq = max(self.last_seq, other.last_seq)

    def append(self, uint64_t seq, bytes subject, uint32_t off, uint32_t length, uint32_t seg):
        """Add one message from Python: `length` carries the LENGTH_* flags."""
        if seq <= self.last_seq:
            raise ValueError("sequence does not grow")
        if not 0 < PyBytes_GET_SIZE(subject) < 65536:
            raise ValueError("subject length")
        self.add(seq, PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject), off, length, seg)

    def skip_to(self, uint64_t last_seq):
        """Raise `last_seq`; the sequences between hold nothing."""
        if last_seq > self.last_seq:
            self.last_seq = last_seq
            if self.messages == 0:
                self.first_seq = last_seq + 1

    cdef uint64_t follow(self, uint32_t sid, uint64_t seq) noexcept:
        """The next live message of a subject after `seq`, which may be removed; 0 when there is none."""
        cdef Cursor c
        if not self.locate_entry(seq, &c):
            return self.scan_for(sid, seq + 1, self.subjects[sid].last)
        return self.follow_step(sid, seq, self.runs[c.run].next[c.pos])

    cdef uint64_t follow_step(self, uint32_t sid, uint64_t seq, uint32_t step) noexcept:
        """The same from an entry that was found already: `step` is its distance to the next one of its chain."""
        cdef Cursor c
        cdef uint64_t at = seq, last = self.subjects[sid].last
        while step and at < last:
            at += step
            if not self.locate_entry(at, &c):
                break
            if self.runs[c.run].sid[c.pos] == sid:
                return at
            step = self.runs[c.run].next[c.pos]
        return self.scan_for(sid, seq + 1, last)

    cdef uint64_t scan_for(self, uint32_t sid, uint64_t seq, uint64_t up_to) noexcept:
        """First message of a subject in [seq, up_to], by looking at every entry; 0 when there is none."""
        cdef Py_ssize_t i = self.run_at(seq)
        cdef Run *r
        cdef uint32_t pos
        if i < 0:
            i = 0
        while i < self.n_runs:
            r = self.runs[i]
            if r.first > up_to:
                return 0
            if r.live:
                pos = lower(r, seq)
                while pos < r.n:
                    if r.sid[pos] == sid:
                        return seq_at(r, pos) if seq_at(r, pos) <= up_to else 0
                    pos += 1
            i += 1
        return 0

    cdef uint64_t before(self, uint32_t sid, uint64_t seq) noexcept:
        """The newest live message of a subject below `seq`: chain from the front and scan from behind, in turns."""
        cdef Subject *s = &self.subjects[sid]
        cdef uint64_t front = s.first, step
        cdef Py_ssize_t i = self.run_at(seq)
        cdef Run *r = self.runs[i]
        cdef uint32_t pos = lower(r, seq)
        cdef int _k
        while True:
            for _k in range(32):
                step = self.chain_step(front)
                if step == 0:
                    break
                if step >= seq:
                    return front
                front = step
            for _k in range(512):
                if pos == 0:
                    i -= 1
                    while i >= 0 and self.runs[i].live == 0:
                        i -= 1
                    if i < 0:
                        return 0
                    r = self.runs[i]
                    pos = r.n
                pos -= 1
                if r.sid[pos] == sid:
                    return seq_at(r, pos)

    cdef uint64_t chain_step(self, uint64_t seq) noexcept:
        """One step along the chain to a live entry; 0 when the chain does not tell."""
        cdef Cursor c
        cdef uint32_t sid = NO_SUBJECT, step
        if not self.locate_entry(seq, &c):
            return 0
        sid = self.runs[c.run].sid[c.pos]
        while True:
            step = self.runs[c.run].next[c.pos]
            if step == 0 or not self.locate_entry(c.seq + step, &c):
                return 0
            if self.runs[c.run].sid[c.pos] == sid:
                return c.seq

    cdef uint32_t remove_entry(self, Cursor *c) noexcept:
        """Take a live message out; its entry stays as a removed one. Returns its LENGTH_*."""
        cdef Run *r = self.runs[c.run]
        cdef uint32_t sid = r.sid[c.pos], length = r.len[c.pos]
        cdef Subject *s = &self.subjects[sid]
        r.sid[c.pos] = NO_SUBJECT
        r.live -= 1
        self.messages -= 1
        self.size_bytes -= self.stated_size(length)
        s.count -= 1
        if s.count == 0:
            self.release(sid)
        elif c.seq == s.first:
            s.first = s.last if s.count == 1 else self.follow(sid, c.seq)
        elif c.seq == s.last:
            s.last = s.first if s.count == 1 else self.before(sid, c.seq)
        if c.seq == self.first_seq:
            self.first_seq = self.first_live(c.seq + 1)
        return length

    cdef uint64_t first_live(self, uint64_t seq) noexcept:
        cdef Py_ssize_t i = self.run_at(seq)
        cdef Run *r
        cdef uint32_t pos
        if i < 0:
            i = 0
        if self.messages:
            while i < self.n_runs:
                r = self.runs[i]
                if r.live:
                    pos = lower(r, seq)
                    while pos < r.n:
                        if r.sid[pos] != NO_SUBJECT:
                            return seq_at(r, pos)
                        pos += 1
                i += 1
        return self.last_seq + 1

    def delete(self, uint64_t seq):
        """Remove one message: True if there was one."""
        cdef Cursor c
        if not self.locate_entry(seq, &c) or self.runs[c.run].sid[c.pos] == NO_SUBJECT:
            return False
        self.remove_entry(&c)
        return True

    def delete_many(self, bytes seqs):
        """Remove the messages whose sequences are packed as native 64-bit numbers; unknown ones are passed over."""
        cdef Py_ssize_t i, n = PyBytes_GET_SIZE(seqs) // 8
        cdef uint64_t seq
        cdef Cursor c
        for i in range(n):
            memcpy(&seq, PyBytes_AS_STRING(seqs) + i * 8, 8)
            if self.locate_entry(seq, &c) and self.runs[c.run].sid[c.pos] != NO_SUBJECT:
                self.remove_entry(&c)

    def trim_to(self, uint64_t first_seq):
        """Remove every message below `first_seq`; returns how many. Raises `last_seq` when it is below.

        O(messages that go) or O(entries / 8 + messages that stay), the shorter: few that stay are put back one by one.
        """
        cdef uint64_t before = self.messages, stay
        cdef Cursor c
        cdef Py_ssize_t i = 0
        cdef Run *r
        if first_seq > self.last_seq:
            self.clear(first_seq - 1)
            return before
        stay = self.between(first_seq, self.last_seq + 1)[0]
        if stay < before // 8:
            self.clear_below(first_seq)
            return before - self.messages
        while i < self.n_runs and self.runs[i].first < first_seq:
            r = self.runs[i]
            c.run = i
            c.pos = 0
            while c.pos < r.n and r.live:
                c.seq = seq_at(r, c.pos)
                if c.seq >= first_seq:
                    break
                if r.sid[c.pos] != NO_SUBJECT:
                    self.remove_first(&c)
                c.pos += 1
            i += 1
        self.first_seq = self.first_live(first_seq)
        return before - self.messages

    cdef int clear_below(self, uint64_t first_seq) except -1:
        """Remove everything, and put back what is at or above `first_seq`."""
        cdef list names = []
        cdef Py_ssize_t i, k = 0, start = max(self.run_at(first_seq), 0)
        cdef Run *r
        cdef uint32_t pos, sid
        cdef Subject *s
        cdef bytes name
        for i in range(start, self.n_runs):
            r = self.runs[i]
            for pos in range(lower(r, first_seq), r.n):
                if r.sid[pos] == NO_SUBJECT:
                    names.append(None)
                else:
                    s = &self.subjects[r.sid[pos]]
                    names.append(PyBytes_FromStringAndSize(self.arena + (s.name >> 16), s.name & 0xFFFF))
        self.clear(self.last_seq)
        for i in range(start, self.n_runs):
            r = self.runs[i]
            for pos in range(lower(r, first_seq), r.n):
                r.next[pos] = 0
                if names[k] is not None:
                    name = names[k]
                    sid = self.intern(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
                    r.sid[pos] = sid
                    r.live += 1
                    self.link(sid, seq_at(r, pos))
                    self.messages += 1
                    self.size_bytes += self.stated_size(r.len[pos])
                k += 1
        self.first_seq = self.first_live(first_seq)
        return 0

    cpdef tuple between(self, uint64_t lo, uint64_t hi):
        """`(messages, their size)` with lo <= sequence < hi."""
        cdef Py_ssize_t i = max(self.run_at(lo), 0)
        cdef Run *r
        cdef uint32_t pos, end
        cdef uint64_t count = 0, size = 0
        if lo <= self.first_seq and hi > self.last_seq:
            return self.messages, self.size_bytes
        while i < self.n_runs and self.runs[i].first < hi:
            r = self.runs[i]
            i += 1
            if r.live:
                end = lower(r, hi)
                for pos in range(lower(r, lo), end):
                    if r.sid[pos] != NO_SUBJECT:
                        count += 1
                        size += self.stated_size(r.len[pos])
        return count, size

    def subjects_since(self, uint64_t seq):
        """How many subjects have no message up to `seq`, but some behind it. O(messages behind it)."""
        cdef Py_ssize_t i = max(self.run_at(seq + 1), 0)
        cdef Run *r
        cdef uint32_t pos, sid
        cdef uint64_t count = 0
        while i < self.n_runs:
            r = self.runs[i]
            i += 1
            if r.live:
                for pos in range(lower(r, seq + 1), r.n):
                    sid = r.sid[pos]
                    # Only its first message speaks for a subject.
                    if sid != NO_SUBJECT and self.subjects[sid].first == seq_at(r, pos):
                        count += 1
        return count

    def name_counts_since(self, uint64_t seq):
        """Subject and number of the messages behind `seq`, as a dict. O(messages behind it)."""
        cdef Py_ssize_t i = max(self.run_at(seq + 1), 0)
        cdef Run *r
        cdef uint32_t pos
        cdef Subject *s
        cdef bytes name
        cdef dict out = {}
        while i < self.n_runs:
            r = self.runs[i]
            i += 1
            if r.live:
                for pos in range(lower(r, seq + 1), r.n):
                    if r.sid[pos] != NO_SUBJECT:
                        s = &self.subjects[r.sid[pos]]
                        name = PyBytes_FromStringAndSize(self.arena + (s.name >> 16), s.name & 0xFFFF)
                        out[name] = out.get(name, 0) + 1
        return out

    cdef void remove_first(self, Cursor *c) noexcept:
        """`remove_entry` for the oldest message of the stream, leaving `first_seq` to the caller."""
        cdef uint64_t first = self.first_seq
        self.first_seq = 0
        self.remove_entry(c)
        self.first_seq = first

    def clear(self, uint64_t last_seq):
        """Remove everything at once, keeping entries so that `drop_segment` finds them; `last_seq` may only grow."""
        cdef Py_ssize_t i
        cdef Run *r
        cdef FilterView view
        for i in range(self.n_runs):
            r = self.runs[i]
            memset(r.sid, 0xFF, <size_t>r.n * 4)
            r.live = 0
        memset(self.slots, 0xFF, <size_t>self.n_slots * 4)
        self.n_subjects = self.num_subjects = self.free_subject = 0
        self.arena_len = self.arena_dead = 0
        self.messages = self.size_bytes = 0
        if last_seq > self.last_seq:
            self.last_seq = last_seq
        self.first_seq = self.last_seq + 1
        for view in self.views.values():
            if view.cap:
                memset(view.verdicts, 0, view.cap)

    def memory(self):
        """Bytes on the heap: `(entries, subjects, views)`."""
        cdef uint64_t entries = 0
        cdef Py_ssize_t i
        for i in range(self.n_runs):
            entries += sizeof(Run) + <uint64_t>self.runs[i].cap * (20 if self.runs[i].rel != NULL else 16)
        return (
            entries,
            <uint64_t>self.cap_subjects * sizeof(Subject) + <uint64_t>self.n_slots * 4 + self.arena_cap,
            self.view_bytes,
        )

    def check(self):
        """Verify every invariant by brute force; raises AssertionError. For tests."""
        cdef Py_ssize_t i
        cdef Run *r
        cdef uint32_t pos, sid
        cdef uint64_t seq = 0, previous = 0, messages = 0, size = 0, first = 0
        cdef dict seen = {}
        for i in range(self.n_runs):
            r = self.runs[i]
            live = 0
            for pos in range(r.n):
                seq = seq_at(r, pos)
                assert seq > previous, "entries out of order"
                previous = seq
                sid = r.sid[pos]
                if sid != NO_SUBJECT:
                    live += 1
                    first = first or seq
                    size += self.stated_size(r.len[pos])
                    seen.setdefault(sid, []).append(seq)
            assert live == r.live, "live count of a run"
            assert r.n == 0 or seq == r.last, "last of a run"
            messages += live
        assert messages == self.messages and size == self.size_bytes, "totals"
        assert self.first_seq == (first if first else self.last_seq + 1), "first sequence"
        assert len(seen) == self.num_subjects, "subjects"
        for sid, seqs in seen.items():
            s = &self.subjects[sid]
            assert (s.first, s.last, s.count) == (seqs[0], max(seqs), len(seqs)), "state of a subject"
            assert self.find_subject(self.arena + (s.name >> 16), s.name & 0xFFFF, s.hash) == sid, "slot of a subject"
            for k in range(len(seqs) - 1):
                assert self.follow(sid, seqs[k]) == seqs[k + 1], "chain of a subject"
