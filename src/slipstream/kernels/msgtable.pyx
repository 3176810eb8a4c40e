# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Where every message of a stream lies and which subject it has: the tables behind `subjectindex.MessageIndex`.

    runs (sorted by sequence)             subjects                      slots (open addressing)
    +-------------------------+           +----------------------+      +---+
    | first last seg n live   |   sid --> | first last count     | <--- |sid|  hash of the name
    | off[] len[] sid[] next[]|           | name (in the arena)  |      +---+
    +-------------------------+           +----------------------+
      16 bytes a message                    32 bytes + 4-8 slot + the name

A run is a stretch of sequences inside one segment: dense (entry = sequence - first) or sparse (a sorted `rel` array
beside it, chosen when most sequences are holes). `next` chains the messages of a subject from old to new, so the
oldest of a subject is removed in O(1). Removed entries keep their place and their link: a chain walks over them. Where
a chain leads into a run that is gone, the walk falls back to scanning forward.

Complexity: add, locate, delete of the oldest O(log runs).
Memory: all C heap, owned by the object; no Python object a message or a subject. `seed` keys the hash, so that
publishers cannot aim at one slot. Invariants are checked by `check()`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint64_t slip_mix(uint64_t a, uint64_t b) {
        unsigned __int128 m = (unsigned __int128)a * b;
        return (uint64_t)m ^ (uint64_t)(m >> 64);
    }
    static inline uint32_t slip_hash(uint64_t seed, const char *p, size_t n) {
        uint64_t h = seed ^ (n * 0x9E3779B97F4A7C15ull), w;
        while (n >= 8) { memcpy(&w, p, 8); h = slip_mix(h ^ w, 0xA0761D6478BD642Full); p += 8; n -= 8; }
        w = 0; memcpy(&w, p, n);
        h = slip_mix(h ^ w, 0xE7037ED1A0B428DBull);
        return (uint32_t)(h ^ (h >> 32));
    }
    """
    uint32_t slip_hash(uint64_t seed, const char *p, size_t n) noexcept nogil

cdef enum:
    HOLES_MAX = 64            # a wider gap in a dense run is not filled with empty entries
    SPARSE_BELOW = 1024       # a dense run this short becomes sparse at a wide gap; a longer one is closed
    RUN_ENTRIES_MAX = 1 << 22  # bounds the copy when arrays grow
    RELATIVE_MAX = 0xFFFFFFF0
    MOVE_FROM = 256           # shorter runs of another table are copied, so that runs stay few


cdef class FilterView:
    """The verdict of one set of filters on each subject, filled in as subjects are met."""

    def __dealloc__(self):
        free(self.verdicts)


cdef void *grown(void *p, size_t n) except NULL:
    cdef void *q = realloc(p, n)
    if q == NULL:
        raise MemoryError()
    return q


cdef class MessageTable:
    """Messages and subjects of one stream.

    Args:
        seed: key of the hash; random, not shared between processes.
        file_sizes: count message sizes as nats-server's file store does (else as its memory store does).
    """

    def __cinit__(self, uint64_t seed, bint file_sizes=True):
        self.seed = seed
        self.file_sizes = file_sizes
        self.first_seq = 1
        self.last_seq = 0
        self.views = {}
        self.n_slots = 64
        self.slots = <uint32_t *>grown(NULL, 64 * 4)
        memset(self.slots, 0xFF, 64 * 4)

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n_runs):
            self.free_run(self.runs[i])
        free(self.runs)
        free(self.subjects)
        free(self.slots)
        free(self.arena)

    # --- memory -------------------------------------------------------------------------------------------------

    cdef void free_run(self, Run *run) noexcept:
        free(run.off)
        free(run.len)
        free(run.sid)
        free(run.next)
        free(run.rel)
        free(run)

    cdef Run *new_run(self, Py_ssize_t at, uint64_t first, uint32_t seg, uint32_t cap, bint sparse) except NULL:
        """Insert an empty run at place `at`; the caller fills its entries."""
        cdef Run *r
        if self.n_runs == self.cap_runs:
            self.cap_runs = self.cap_runs * 2 if self.cap_runs else 8
            self.runs = <Run **>grown(self.runs, self.cap_runs * sizeof(Run *))
        r = <Run *>malloc(sizeof(Run))
        if r == NULL:
            raise MemoryError()
        memset(r, 0, sizeof(Run))
        r.first = first
        r.last = first - 1
        r.seg = seg
        memmove(&self.runs[at + 1], &self.runs[at], (self.n_runs - at) * sizeof(Run *))
        self.runs[at] = r
        self.n_runs += 1
        grow_run(r, cap, sparse)
        return r

    def shrink(self):
        """Give back what the arrays were grown by beyond their content, as when a segment is sealed."""
        cdef Py_ssize_t i
        cdef Run *r
        for i in range(self.n_runs):
            r = self.runs[i]
            if r.cap > r.n and r.n:
                grow_run(r, r.n, r.rel != NULL)

    # --- subjects -----------------------------------------------------------------------------------------------

    cdef uint32_t lookup(self, bytes name) noexcept:
        """Number of a subject, NO_SUBJECT when nothing is stored under it."""
        cdef Py_ssize_t n = PyBytes_GET_SIZE(name)
        return self.find_subject(PyBytes_AS_STRING(name), n, slip_hash(self.seed, PyBytes_AS_STRING(name), n))

    cdef uint32_t find_subject(self, const char *name, Py_ssize_t n, uint32_t h) noexcept:
        cdef uint32_t mask = self.n_slots - 1, i = h & mask, sid
        cdef Subject *s
        while True:
            sid = self.slots[i]
            if sid == NO_SUBJECT:
                return NO_SUBJECT
            s = &self.subjects[sid]
            if s.hash == h and <Py_ssize_t>(s.name & 0xFFFF) == n and memcmp(self.arena + (s.name >> 16), name, n) == 0:
                return sid
            i = (i + 1) & mask

    cdef uint32_t intern(self, const char *name, Py_ssize_t n) except? 0xFFFFFFFF:
        """The subject with this name, made if it is new (then with count 0: the caller adds a message at once)."""
        cdef uint32_t h = slip_hash(self.seed, name, n), sid = self.find_subject(name, n, h), cap
        cdef Subject *s
        if sid != NO_SUBJECT:
            return sid
        if (self.num_subjects + 1) * 5 > <uint64_t>self.n_slots * 4:
            self.rehash()
        if self.arena_dead > 65536 and self.arena_dead * 2 > self.arena_len:
            self.sweep_arena()
        if self.arena_len + n > self.arena_cap:
            self.arena_cap = self.arena_len + n + (self.arena_len >> 3) + 4096
            self.arena = <char *>grown(self.arena, self.arena_cap)
        if self.free_subject:
            sid = self.free_subject - 1
            self.free_subject = <uint32_t>self.subjects[sid].first
        else:
            if self.n_subjects == self.cap_subjects:
                cap = self.cap_subjects
                cap += (cap >> 3) + 64 if cap > 65536 else cap + 16
                self.subjects = <Subject *>grown(self.subjects, <size_t>cap * sizeof(Subject))
                self.cap_subjects = cap
            sid = self.n_subjects
            self.n_subjects += 1
        s = &self.subjects[sid]
        s.name = (self.arena_len << 16) | <uint64_t>n
        memcpy(self.arena + self.arena_len, name, n)
        self.arena_len += n
        s.hash = h
        s.count = 0
        s.first = s.last = 0
        self.place_slot(sid, h)
        self.num_subjects += 1
        return sid

    cdef int make_room(self, uint32_t subjects, uint64_t name_bytes) except -1:
        """Grow once for this many new subjects, rather than again and again."""
        cdef size_t cap = <size_t>self.n_subjects + subjects
        while (<uint64_t>self.num_subjects + subjects) * 5 > <uint64_t>self.n_slots * 4:
            self.rehash()
        if self.arena_len + name_bytes > self.arena_cap:
            self.arena_cap = self.arena_len + name_bytes + 4096
            self.arena = <char *>grown(self.arena, self.arena_cap)
        if cap > self.cap_subjects:
            self.subjects = <Subject *>grown(self.subjects, cap * sizeof(Subject))
            self.cap_subjects = <uint32_t>cap
        return 0

    cdef void place_slot(self, uint32_t sid, uint32_t h) noexcept:
        cdef uint32_t mask = self.n_slots - 1, i = h & mask
        while self.slots[i] != NO_SUBJECT:
            i = (i + 1) & mask
        self.slots[i] = sid

    cdef int rehash(self) except -1:
        cdef uint32_t n = self.n_slots * 2, sid
        self.slots = <uint32_t *>grown(self.slots, <size_t>n * 4)
        memset(self.slots, 0xFF, <size_t>n * 4)
        self.n_slots = n
        for sid in range(self.n_subjects):
            if self.subjects[sid].count:
                self.place_slot(sid, self.subjects[sid].hash)
        return 0

    cdef int sweep_arena(self) except -1:
        """Copy the names still in use together: subjects come and go, their names must not pile up."""
        cdef uint64_t need = self.arena_len - self.arena_dead + 4096, at = 0
        cdef char *fresh = <char *>malloc(need)
        cdef uint32_t sid
        cdef Subject *s
        if fresh == NULL:
            raise MemoryError()
        for sid in range(self.n_subjects):
            s = &self.subjects[sid]
            if s.count:
                memcpy(fresh + at, self.arena + (s.name >> 16), s.name & 0xFFFF)
                s.name = (at << 16) | (s.name & 0xFFFF)
                at += s.name & 0xFFFF
        free(self.arena)
        self.arena = fresh
        self.arena_len = at
        self.arena_cap = need
        self.arena_dead = 0
        return 0

    cdef void release(self, uint32_t sid) noexcept:
        """Forget a subject without messages: backward-shift its slot, reset every filter's verdict on its number."""
        cdef uint32_t mask = self.n_slots - 1, i, j, home, other
        cdef Subject *s = &self.subjects[sid]
        cdef FilterView view
        i = s.hash & mask
        while self.slots[i] != sid:
            i = (i + 1) & mask
        j = i
        while True:
            j = (j + 1) & mask
            other = self.slots[j]
            if other == NO_SUBJECT:
                break
            home = self.subjects[other].hash & mask
            if ((j - home) & mask) >= ((j - i) & mask):
                self.slots[i] = other
                i = j
        self.slots[i] = NO_SUBJECT
        self.arena_dead += s.name & 0xFFFF
        s.count = 0
        s.first = self.free_subject
        self.free_subject = sid + 1
        self.num_subjects -= 1
        for view in self.views.values():
            if sid < view.cap:
                view.verdicts[sid] = 0

    # --- entries ------------------------------------------------------------------------------------------------

    cdef uint64_t stated_size(self, uint32_t length) noexcept:
        """nats-server's size of a message from the length of our record (32 + subject + headers + payload)."""
        cdef uint64_t n = length & LENGTH_MASK
        if not self.file_sizes:
            return n - 16
        return n + 2 if length & LENGTH_HEADERS else n - 2

    cdef Py_ssize_t run_at(self, uint64_t seq) noexcept:
        """The last run that starts at or below `seq`; -1 when none does."""
        cdef Py_ssize_t lo = 0, hi = self.n_runs, mid
        if hi and self.runs[hi - 1].first <= seq:
            return hi - 1
        while lo < hi:
            mid = (lo + hi) // 2
            if self.runs[mid].first <= seq:
                lo = mid + 1
            else:
                hi = mid
        return lo - 1

    cdef bint locate_entry(self, uint64_t seq, Cursor *c) noexcept:
        """Find the entry of a sequence, live or not."""
        cdef Py_ssize_t i = self.run_at(seq)
        cdef Run *r
        cdef uint32_t pos
        if i < 0:
            return False
        r = self.runs[i]
        if seq > r.last:
            return False
        pos = lower(r, seq)
        if pos >= r.n or seq_at(r, pos) != seq:
            return False
        c.run = i
        c.pos = pos
        c.seq = seq
        return True

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
        cdef Subject *s = &self.subjects[sid]
        cdef Run *r
        if (
            sid >= self.n_subjects or s.count == 0 or <Py_ssize_t>(s.name & 0xFFFF) != n
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

    cdef Run *open_run(self, uint64_t seq, uint32_t seg) except NULL:
        """The run whose next entry is this sequence of this segment."""
        cdef Run *r = NULL
        cdef uint64_t gap
        if self.n_runs:
            r = self.runs[self.n_runs - 1]
            gap = seq - r.last - 1
            if r.seg != seg or r.n >= RUN_ENTRIES_MAX or seq - r.first >= RELATIVE_MAX:
                r = NULL
            elif r.rel == NULL and gap > HOLES_MAX:
                if r.n > SPARSE_BELOW:
                    r = NULL
                else:
                    make_sparse(r)
        if r == NULL:
            r = self.new_run(self.n_runs, seq, seg, 16, False)
        if r.rel == NULL:
            while r.last + 1 < seq:
                push_entry(r, r.last + 1, 0, 0, NO_SUBJECT)
        return r

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
        """Remove every message below `first_seq`; returns how many. Raises `last_seq` when it is below."""
        cdef uint64_t before = self.messages
        cdef Cursor c
        cdef Py_ssize_t i = 0
        cdef Run *r
        if first_seq > self.last_seq:
            self.clear(first_seq - 1)
            return before
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

    # --- places -------------------------------------------------------------------------------------------------

    def locate(self, uint64_t seq):
        """`(segment, offset, length)` of a stored message; None when there is none."""
        cdef Cursor c
        cdef Run *r
        if not self.locate_entry(seq, &c):
            return None
        r = self.runs[c.run]
        if r.sid[c.pos] == NO_SUBJECT:
            return None
        return r.seg, r.off[c.pos], r.len[c.pos] & LENGTH_MASK

    def record_place(self, uint64_t seq):
        """As `locate`, with the LENGTH_* flags, and also for a removed message whose record still lies there."""
        cdef Cursor c
        cdef Run *r
        if not self.locate_entry(seq, &c):
            return None
        r = self.runs[c.run]
        if r.len[c.pos] == 0:
            return None
        return r.seg, r.off[c.pos], r.len[c.pos]

    def segment_live(self, uint32_t seg):
        """`(messages, bytes of their records with padding)` alive in one segment."""
        cdef Py_ssize_t i
        cdef Run *r
        cdef uint32_t pos
        cdef uint64_t count = 0, used = 0
        for i in range(self.n_runs):
            r = self.runs[i]
            if r.seg != seg:
                continue
            count += r.live
            for pos in range(r.n):
                if r.sid[pos] != NO_SUBJECT:
                    used += ((r.len[pos] & LENGTH_MASK) + 7 + (8 if r.len[pos] & LENGTH_EXPIRES else 0)) & ~<uint64_t>7
        return count, used

    def segment_counts(self):
        """`(segment, entries, live ones)` of every run: the cheap first look for segments worth rewriting."""
        return [(self.runs[i].seg, self.runs[i].n, self.runs[i].live) for i in range(self.n_runs)]

    def segment_has_live(self, uint32_t seg):
        """Whether any message lives in the segment."""
        cdef Py_ssize_t i
        for i in range(self.n_runs):
            if self.runs[i].seg == seg and self.runs[i].live:
                return True
        return False

    def live_seqs(self, uint32_t seg):
        """Sequences alive in one segment, ascending, packed as native 64-bit numbers."""
        cdef Py_ssize_t i, n = 0
        cdef Run *r
        cdef uint32_t pos
        cdef bytes out
        cdef uint64_t seq
        cdef char *p
        for i in range(self.n_runs):
            if self.runs[i].seg == seg:
                n += self.runs[i].live
        out = PyBytes_FromStringAndSize(NULL, n * 8)
        p = PyBytes_AS_STRING(out)
        for i in range(self.n_runs):
            r = self.runs[i]
            if r.seg != seg:
                continue
            for pos in range(r.n):
                if r.sid[pos] != NO_SUBJECT:
                    seq = seq_at(r, pos)
                    memcpy(p, &seq, 8)
                    p += 8
        return out

    def removed_seqs(self, set except_segs not None, bint with_headers=False):
        """Removed sequences whose records still lie in segments other than these, packed as `live_seqs`.

        With `with_headers` only those that have some.
        """
        cdef Py_ssize_t i, n = 0
        cdef Run *r
        cdef uint32_t pos
        cdef uint64_t seq
        cdef bytes out = b""
        cdef char *p = NULL
        cdef uint32_t wanted = LENGTH_HEADERS if with_headers else 0xFFFFFFFF
        cdef int fill
        for fill in range(2):  # first count, then write
            for i in range(self.n_runs):
                r = self.runs[i]
                if r.live == r.n or r.seg in except_segs:
                    continue
                for pos in range(r.n):
                    if r.sid[pos] == NO_SUBJECT and r.len[pos] & wanted:
                        if fill:
                            seq = seq_at(r, pos)
                            memcpy(p, &seq, 8)
                            p += 8
                        else:
                            n += 1
            if not fill:
                out = PyBytes_FromStringAndSize(NULL, n * 8)
                p = PyBytes_AS_STRING(out)
        return out

    def drop_segment(self, uint32_t seg):
        """Forget the entries of a segment that holds no message any more and whose file is gone."""
        cdef Py_ssize_t i, kept = 0
        for i in range(self.n_runs):
            if self.runs[i].seg == seg and self.runs[i].live:
                raise ValueError("segment still holds messages")
        for i in range(self.n_runs):
            if self.runs[i].seg == seg:
                self.free_run(self.runs[i])
            else:
                self.runs[kept] = self.runs[i]
                kept += 1
        self.n_runs = kept

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


cdef int grow_run(Run *r, uint32_t cap, bint sparse) except -1:
    r.off = <uint32_t *>grown(r.off, <size_t>cap * 4)
    r.len = <uint32_t *>grown(r.len, <size_t>cap * 4)
    r.sid = <uint32_t *>grown(r.sid, <size_t>cap * 4)
    r.next = <uint32_t *>grown(r.next, <size_t>cap * 4)
    if sparse:
        r.rel = <uint32_t *>grown(r.rel, <size_t>cap * 4)
    r.cap = cap
    return 0


cdef int make_sparse(Run *r) except -1:
    cdef uint32_t pos
    cdef uint32_t *rel = <uint32_t *>grown(NULL, <size_t>r.cap * 4)
    for pos in range(r.n):
        rel[pos] = pos
    r.rel = rel
    return 0


cdef int push_entry(Run *r, uint64_t seq, uint32_t off, uint32_t length, uint32_t sid) except -1:
    if r.n == r.cap:
        grow_run(r, r.cap + (r.cap >> 2) + 16, r.rel != NULL)
    r.off[r.n] = off
    r.len[r.n] = length
    r.sid[r.n] = sid
    r.next[r.n] = 0
    if r.rel != NULL:
        r.rel[r.n] = <uint32_t>(seq - r.first)
    r.n += 1
    r.last = seq
    return 0
