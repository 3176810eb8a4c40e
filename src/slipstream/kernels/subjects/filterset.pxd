# C types of a set of filters, for the kernels that judge many subjects. See filterset.pyx.

from libc.stdint cimport uint32_t, uint64_t

cdef struct Name:         # a literal filter, or a token below a node
    uint32_t node         # NO_NODE: an empty slot
    uint32_t hash
    uint32_t off, size    # its bytes in `arena`
    uint32_t child

cdef struct Node:
    uint32_t star         # child for any token, 0: none (0 is the root, which is nobody's child)
    bint ends             # a filter ends here
    bint rest             # a filter ends here with `>`

cdef struct Names:        # open addressing, never more than half full
    Name *slots
    uint32_t mask, used

cdef class FilterSet:
    cdef readonly tuple literals
    """Filters that one subject matches, each once."""
    cdef readonly Py_ssize_t patterns
    cdef uint64_t seed
    cdef Names whole, tokens
    cdef Node *nodes
    cdef uint32_t n_nodes, cap_nodes
    cdef uint32_t *todo_node     # branches of a walk that were put off
    cdef Py_ssize_t *todo_at
    cdef Py_ssize_t depth
    cdef char *arena
    cdef uint32_t arena_len, arena_cap

    cdef bint match(self, const char *s, Py_ssize_t n, uint32_t h) noexcept
    cdef bint match_patterns(self, const char *s, Py_ssize_t n) noexcept
    cdef uint32_t keep(self, const char *p, Py_ssize_t n) except? 0xFFFFFFFF
    cdef uint32_t new_node(self) except? 0xFFFFFFFF
    cdef int add_pattern(self, bytes pattern) except -1
