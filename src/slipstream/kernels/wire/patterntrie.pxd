cdef object joined(object members, object sub)
cdef bint left(object members, object sub) except -1


cdef class TrieNode:
    cdef dict children
    cdef TrieNode any_token
    cdef object ending
    cdef object rest

    cdef bint barren(self)


cdef class PatternTrie:
    cdef TrieNode _root

    cdef bint empty(self)
    cdef int insert(self, list tokens, object sub) except -1
    cdef bint remove(self, list tokens, object sub) except -1
    cdef int collect(self, list tokens, list found) except -1
    cdef bint collect_family(self, list tokens, list found) except *
    cdef int collect_all(self, list found) except -1
