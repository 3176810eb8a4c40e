# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The subjects of a stream, each with a number: names, what is known of each, and the way from a name to its number.

    name --hash--> slots (open addressing) --sid--> subjects[sid]: first, last, count, hash --name--> arena

Numbers are small and reused; a subject is there as long as it has messages. Names lie one behind the other in an arena,
which is swept when half of it belongs to subjects that are gone. `seed` keys the hash, so that publishers cannot aim at
one slot.

This is the lowest layer of one object: `runtable` adds where messages lie, `msgtable` the messages, `subjectindex` the
questions. A layer is a base class, so what a message needs of any of them is a field of the same object.

Complexity: O(1) for finding, making and releasing, amortised. Memory: 32 bytes a subject, 4 to 8 for its slot, and the
name; C heap, owned by the object, no Python object a subject. `slots` is never full, so every search ends.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from slipstream.kernels.heap cimport grown
from slipstream.kernels.subjects.namehash cimport slip_hash


cdef class FilterView:
    """The verdict of one set of filters on each subject, filled in as subjects are met."""

    def __dealloc__(self):
        free(self.verdicts)


cdef class SubjectTable:
    """Subjects and their numbers.

    Args:
        seed: key of the hash; random, not shared between processes.
    """

    def __cinit__(self, uint64_t seed, *_others, **_named):
        # What else is given is for the layers above.
        self.seed = seed
        self.views = {}
        self.n_slots = 64
        self.slots = <uint32_t *>grown(NULL, 64 * 4)
        memset(self.slots, 0xFF, 64 * 4)

    def __dealloc__(self):
        free(self.subjects)
        free(self.slots)
        free(self.arena)

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
