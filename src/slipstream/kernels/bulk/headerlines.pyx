# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A block of headers cut into its lines, those of one name linked in the order they came.

    NATS/1.0 503 CRLF      the status: passed over
    A: 1 CRLF              lines[0]  first ──next──┐
    B: 2 CRLF              lines[1]  first         │
    A: 3 CRLF              lines[2]  <─────────────┘
    CRLF                   the end

Names and values lose blanks around them; lines without a colon or a name are passed over. Names are compared as bytes.
So a walk over the lines that are `first`, each with its chain, gives one entry per distinct name.

Bounds: nothing beyond `size` is read, whether the block ends as it should or not. Memory: the lines point into the block
and are as short-lived; the tables belong to the owner of the `HeaderLines` and are reused. Complexity: O(bytes), also for
thousands of lines: names are compared one by one only while they are few.
"""

from libc.stdint cimport uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memset

cdef enum:
    LINEAR_LINES = 16  # lines up to which names are compared one by one


cdef void free_headers(HeaderLines *h) noexcept nogil:
    free(h.lines)
    free(h.slots)


cdef bint split_headers(HeaderLines *h, const unsigned char *p, uint32_t size) noexcept nogil:
    """Cut a header block into lines and link those with the same name."""
    cdef const unsigned char *end = p + size
    cdef const unsigned char *stop
    cdef const unsigned char *colon
    cdef bint status_line = True
    h.n = 0
    while p < end:
        stop = line_end(p, end)
        if status_line:
            status_line = False
        else:
            if stop == p:
                break
            colon = <const unsigned char *>memchr(p, c":", stop - p)
            if colon != NULL and not add_line(h, p, colon, colon + 1, stop):
                return False
        p = stop + 2
    if h.n <= LINEAR_LINES:
        link_few(h)
        return True
    return link_many(h)


cdef bint add_line(
    HeaderLines *h, const unsigned char *name, const unsigned char *name_end, const unsigned char *value,
    const unsigned char *value_end,
) noexcept nogil:
    cdef void *grown
    cdef Line *line
    trim(&name, &name_end)
    trim(&value, &value_end)
    if name == name_end:
        return True
    if h.n == h.cap:
        grown = realloc(h.lines, (h.cap * 2 + 32) * sizeof(Line))
        if grown == NULL:
            return False
        h.lines = <Line *>grown
        h.cap = h.cap * 2 + 32
    line = h.lines + h.n
    line.name, line.name_size = name, <uint32_t>(name_end - name)
    line.value, line.value_size = value, <uint32_t>(value_end - value)
    line.next = 0
    line.tail = h.n
    line.first = True
    h.n += 1
    return True


cdef void link_few(HeaderLines *h) noexcept nogil:
    cdef uint32_t i, k
    for i in range(1, h.n):
        for k in range(i):
            if h.lines[k].first and same_name(h.lines + i, h.lines + k):
                link(h, k, i)
                break


cdef bint link_many(HeaderLines *h) noexcept nogil:
    """The same with a hash table: a block may hold thousands of lines."""
    cdef uint32_t need = 64, i, at
    cdef void *grown
    while need < 2 * h.n:
        need *= 2
    if need > h.n_slots:
        grown = realloc(h.slots, need * 4)
        if grown == NULL:
            return False
        h.slots = <uint32_t *>grown
        h.n_slots = need
    memset(h.slots, 0, need * 4)
    for i in range(h.n):
        at = hashed(h.lines[i].name, h.lines[i].name_size) & (need - 1)
        while h.slots[at] and not same_name(h.lines + i, h.lines + h.slots[at] - 1):
            at = (at + 1) & (need - 1)
        if h.slots[at]:
            link(h, h.slots[at] - 1, i)
        else:
            h.slots[at] = i + 1
    return True


cdef inline void link(HeaderLines *h, uint32_t head, uint32_t i) noexcept nogil:
    h.lines[i].first = False
    h.lines[h.lines[head].tail].next = i
    h.lines[head].tail = i


cdef const unsigned char *line_end(const unsigned char *p, const unsigned char *end) noexcept nogil:
    """Where the CRLF of this line begins; `end` when there is none."""
    cdef const unsigned char *found = p
    while True:
        found = <const unsigned char *>memchr(found, c"\r", end - found)
        if found == NULL:
            return end
        if end - found >= 2 and found[1] == c"\n":
            return found
        found += 1


cdef inline bint is_blank(unsigned char c) noexcept nogil:
    return c == c" " or c == c"\t"


cdef void trim(const unsigned char **p, const unsigned char **end) noexcept nogil:
    while p[0] < end[0] and is_blank(p[0][0]):
        p[0] += 1
    while end[0] > p[0] and is_blank((end[0] - 1)[0]):
        end[0] -= 1


cdef inline bint same_name(Line *a, Line *b) noexcept nogil:
    return a.name_size == b.name_size and memcmp(a.name, b.name, a.name_size) == 0


cdef uint32_t hashed(const unsigned char *p, uint32_t n) noexcept nogil:
    cdef uint32_t h = 2166136261, i
    for i in range(n):
        h = (h ^ p[i]) * <uint32_t>16777619
    return h ^ (h >> 15)
