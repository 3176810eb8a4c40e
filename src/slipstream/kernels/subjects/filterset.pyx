# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Many filters asked at once: does any of them match this subject?

Literal filters are one table of whole names, so a thousand of them cost one look-up. Patterns are a trie of tokens:

    node --token--> child      (one table for all nodes, keyed by node and token)
    node --`*`----> star       any one token
    node  `>`       rest       one or more tokens follow

A walk goes down both the named child and the star of a node, the second later. A node lies as deep as the token it
is asked about, so a walk meets each node once at most.

The meaning is that of `subject.matches` for each filter: nothing matches a subject with an empty token, and a filter
with one matches nothing.

Complexity: a literal O(1), patterns O(tokens) times the stars that fit, at most O(nodes); independent of the number of
filters otherwise. Memory: 20 to 40 bytes a token of the filters and their bytes, C heap, owned by the object. Immutable
after it is made; a walk uses scratch space of the object, so one thread at a time.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp, memcpy, memset

from slipstream.kernels.heap cimport grown
from slipstream.kernels.subjects.namehash cimport slip_hash
from slipstream.kernels.subjects.subject cimport literal_span, whole_tokens

cdef enum:
    NO_NODE = 0xFFFFFFFF
    NAMES_MIN = 8             # slots of a table, a power of two
    ARENA_MAX = 0x7FFFFFFF    # bytes of all filters together


cdef int names_grow(Names *names) except -1:
    """Twice the slots."""
    cdef uint32_t size = 2 * (names.mask + 1) if names.slots != NULL else NAMES_MIN, i, at
    cdef Name *old = names.slots
    cdef Name *fresh = <Name *>grown(NULL, <size_t>size * sizeof(Name))
    memset(fresh, 0xFF, <size_t>size * sizeof(Name))
    if old != NULL:
        for i in range(names.mask + 1):
            if old[i].node != NO_NODE:
                at = old[i].hash & (size - 1)
                while fresh[at].node != NO_NODE:
                    at = (at + 1) & (size - 1)
                fresh[at] = old[i]
        free(old)
    names.slots = fresh
    names.mask = size - 1
    return 0


cdef inline Name *names_find(
    Names *names, const char *arena, uint32_t node, uint32_t h, const char *p, Py_ssize_t n
) noexcept:
    cdef uint32_t at
    cdef Name *name
    if names.slots == NULL:
        return NULL
    at = h & names.mask
    while True:
        name = &names.slots[at]
        if name.node == NO_NODE:
            return NULL
        if name.hash == h and name.node == node and name.size == <uint32_t>n and memcmp(arena + name.off, p, n) == 0:
            return name
        at = (at + 1) & names.mask


cdef int names_add(Names *names, Name *name) except -1:
    """Add one that is not there."""
    cdef uint32_t at
    if names.slots == NULL or 2 * (names.used + 1) > names.mask + 1:
        names_grow(names)
    at = name.hash & names.mask
    while names.slots[at].node != NO_NODE:
        at = (at + 1) & names.mask
    names.slots[at] = name[0]
    names.used += 1
    return 0


cdef inline uint64_t below(uint64_t seed, uint32_t node) noexcept:
    """Seed of the tokens below a node."""
    return seed ^ ((<uint64_t>node + 1) * <uint64_t>0x9E3779B97F4A7C15)


cdef class FilterSet:
    """A set of filters.

    Args:
        filters: literal subjects and patterns.
        seed: key of the hash; whole subjects are hashed with it alone, so that a caller with the same key can bring
            their hashes along.
    """

    def __cinit__(self, object filters, uint64_t seed):
        cdef Name name
        cdef bytes given
        cdef const char *p
        cdef Py_ssize_t n
        cdef list literals = []
        self.seed = seed
        self.depth = 1
        self.new_node()
        for given in filters:
            p, n = PyBytes_AS_STRING(given), PyBytes_GET_SIZE(given)
            if not whole_tokens(<const unsigned char *>p, 0, n):
                continue
            if not literal_span(<const unsigned char *>p, n):
                self.add_pattern(given)
                continue
            name.hash = slip_hash(seed, p, n)
            if names_find(&self.whole, self.arena, 0, name.hash, p, n) != NULL:
                continue
            name.node = name.child = 0
            name.off, name.size = self.keep(p, n), <uint32_t>n
            names_add(&self.whole, &name)
            literals.append(given)
        self.literals = tuple(literals)
        self.todo_node = <uint32_t *>grown(NULL, <size_t>self.depth * sizeof(uint32_t))
        self.todo_at = <Py_ssize_t *>grown(NULL, <size_t>self.depth * sizeof(Py_ssize_t))

    def __dealloc__(self):
        free(self.whole.slots)
        free(self.tokens.slots)
        free(self.nodes)
        free(self.todo_node)
        free(self.todo_at)
        free(self.arena)

    def matches(self, bytes subject):
        """Whether any filter matches this literal subject."""
        cdef Py_ssize_t n = PyBytes_GET_SIZE(subject)
        return self.match(PyBytes_AS_STRING(subject), n, slip_hash(self.seed, PyBytes_AS_STRING(subject), n))

    cdef bint match(self, const char *s, Py_ssize_t n, uint32_t h) noexcept:
        """The same for a subject whose hash is known."""
        if names_find(&self.whole, self.arena, 0, h, s, n) != NULL:
            return True
        return self.patterns != 0 and self.match_patterns(s, n)

    cdef bint match_patterns(self, const char *s, Py_ssize_t n) noexcept:
        cdef uint32_t node = 0, h
        cdef Py_ssize_t at = 0, size, todo = 0
        cdef const char *dot
        cdef Name *name
        if not whole_tokens(<const unsigned char *>s, 0, n):
            return False
        while True:
            # A token begins at `at`, or the subject has ended and `at` is behind it.
            if at > n:
                if self.nodes[node].ends:
                    return True
            else:
                if self.nodes[node].rest:
                    return True
                dot = <const char *>memchr(s + at, 46, n - at) if at < n else NULL
                size = (dot - s - at) if dot != NULL else n - at
                h = slip_hash(below(self.seed, node), s + at, size)
                name = names_find(&self.tokens, self.arena, node, h, s + at, size)
                at += size + 1
                if name != NULL:
                    if self.nodes[node].star:
                        self.todo_node[todo], self.todo_at[todo] = self.nodes[node].star, at
                        todo += 1
                    node = name.child
                    continue
                if self.nodes[node].star:
                    node = self.nodes[node].star
                    continue
            if todo == 0:
                return False
            todo -= 1
            node, at = self.todo_node[todo], self.todo_at[todo]

    cdef int add_pattern(self, bytes pattern) except -1:
        cdef const char *p = PyBytes_AS_STRING(pattern)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(pattern), at = 0, size, depth = 1
        cdef const char *dot
        cdef uint32_t node = 0, h
        cdef Name *found
        cdef Name name
        self.patterns += 1
        while at <= n:
            dot = <const char *>memchr(p + at, 46, n - at) if at < n else NULL
            size = (dot - p - at) if dot != NULL else n - at
            depth += 1
            if size == 1 and p[at] == 62 and at + 1 == n:
                self.nodes[node].rest = True
                self.depth = max(self.depth, depth)
                return 0
            if size == 1 and p[at] == 42:
                if self.nodes[node].star == 0:
                    h = self.new_node()
                    self.nodes[node].star = h
                node = self.nodes[node].star
            else:
                h = slip_hash(below(self.seed, node), p + at, size)
                found = names_find(&self.tokens, self.arena, node, h, p + at, size)
                if found != NULL:
                    node = found.child
                else:
                    name.node, name.hash = node, h
                    name.off, name.size = self.keep(p + at, size), <uint32_t>size
                    name.child = self.new_node()
                    names_add(&self.tokens, &name)
                    node = name.child
            at += size + 1
        self.nodes[node].ends = True
        self.depth = max(self.depth, depth)
        return 0

    cdef uint32_t keep(self, const char *p, Py_ssize_t n) except? 0xFFFFFFFF:
        """A copy of these bytes in the arena: where it begins."""
        cdef uint32_t at = self.arena_len
        if n > ARENA_MAX - <Py_ssize_t>at:
            raise ValueError("filters are too long")
        if at + n > self.arena_cap:
            self.arena_cap = <uint32_t>(at + n + (at >> 1) + 256)
            self.arena = <char *>grown(self.arena, self.arena_cap)
        if n:
            memcpy(self.arena + at, p, n)
        self.arena_len = <uint32_t>(at + n)
        return at

    cdef uint32_t new_node(self) except? 0xFFFFFFFF:
        cdef uint32_t node = self.n_nodes
        if node == self.cap_nodes:
            self.cap_nodes = 2 * node + 8
            self.nodes = <Node *>grown(self.nodes, <size_t>self.cap_nodes * sizeof(Node))
        memset(&self.nodes[node], 0, sizeof(Node))
        self.n_nodes += 1
        return node
