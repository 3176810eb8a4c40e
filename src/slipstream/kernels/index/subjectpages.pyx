# cython: language_level=3, boundscheck=False, wraparound=False
"""Subjects of a stream with their counts as they were at one moment, to be handed out in sorted pages.

Taking them is one copy of the names (20 to 30 ms for a million); sorting them takes much longer, needs nothing but the
copy, and gives the interpreter to others meanwhile: it belongs in a thread.

Invariant: a list is filled once, then only read. Memory: the names, and 16 bytes a subject; freed with the object.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcmp, memcpy


cdef int _compare(const void *a, const void *b) noexcept nogil:
    cdef const Entry *x = <const Entry *>a
    cdef const Entry *y = <const Entry *>b
    cdef int order = memcmp(x.name, y.name, min(x.length, y.length))
    if order:
        return order
    return (x.length > y.length) - (x.length < y.length)


cdef class SubjectPages:
    """A list of subjects; made by `MessageIndex.subject_pages`."""

    def __dealloc__(self):
        free(self.entries)
        free(self.names)

    def __len__(self):
        return self.n

    cdef int hold(self, const char *arena, uint64_t arena_len, Py_ssize_t cap) except -1:
        """Copy all names, and have room for this many subjects."""
        self.names = <char *>malloc(arena_len or 1)
        self.entries = <Entry *>malloc((cap or 1) * sizeof(Entry))
        if self.names == NULL or self.entries == NULL:
            raise MemoryError
        if arena_len:
            memcpy(self.names, arena, arena_len)
        self.cap = cap
        return 0

    cdef void put(self, uint64_t at, uint32_t length, uint32_t count) noexcept:
        """One more subject, whose name is at this place."""
        cdef Entry *entry = &self.entries[self.n]
        entry.name = self.names + at
        entry.length = length
        entry.count = count
        self.n += 1

    def sort(self):
        """Bring the subjects into order. In a thread, and before any page is asked for."""
        if self.is_sorted:
            return
        with nogil:
            qsort(self.entries, self.n, sizeof(Entry), _compare)
        self.is_sorted = True

    def page(self, Py_ssize_t offset, Py_ssize_t limit):
        """Subjects and counts from this position on."""
        cdef Py_ssize_t i
        cdef Entry *entry
        cdef list out = []
        if not self.is_sorted:
            raise ValueError("not sorted yet")
        offset = max(offset, 0)
        for i in range(offset, min(offset + max(limit, 0), self.n)):
            entry = &self.entries[i]
            out.append((PyBytes_FromStringAndSize(entry.name, entry.length), entry.count))
        return out
