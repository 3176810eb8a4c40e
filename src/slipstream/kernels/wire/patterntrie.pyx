# cython: language_level=3
"""Subscriptions with wildcards, found by subject.

    token ──► node ──► ...      children by token, one for `*`; at a node those that end there, and those with `>` behind it

What is stored is not looked at: whoever asks knows what it is. Few to one pattern are a list, which is small; many are a
dict, where each is found at once.

Complexity: a match O(tokens x open arms), at most two arms a token; insert and remove O(tokens), however many share the
pattern.
"""

from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject

cdef enum:
    # Subscriptions to one subject that are kept in a list, which is small; more are kept in a dict, where each is found.
    CROWD = 32


cdef object joined(object members, object sub):
    """The subscriptions to one subject with one more: None, a list, or a dict of many."""
    if members is None:
        return [sub]
    if type(members) is list:
        if len(<list>members) < CROWD:
            (<list>members).append(sub)
            return members
        members = dict.fromkeys(<list>members)
    (<dict>members)[sub] = None
    return members


cdef bint left(object members, object sub) except -1:
    """Take one out of the subscriptions to one subject; False if it is not there."""
    if members is None or sub not in members:
        return False
    if type(members) is list:
        (<list>members).remove(sub)
    else:
        del (<dict>members)[sub]
    return True


cdef class TrieNode:
    """One token of a pattern."""

    def __cinit__(self):
        self.children = None
        self.any_token = None
        self.ending = None
        self.rest = None

    cdef bint barren(self):
        return not self.children and self.any_token is None and not self.ending and not self.rest


cdef class PatternTrie:
    """All patterns of one account."""

    def __cinit__(self):
        self._root = TrieNode()

    cdef bint empty(self):
        """Whether there is no pattern at all."""
        return self._root.barren()

    cdef int insert(self, list tokens, object sub) except -1:
        """Add a subscription under the tokens of its pattern."""
        cdef TrieNode node = self._root
        cdef TrieNode child
        cdef bytes token
        cdef Py_ssize_t last = len(tokens) - 1
        cdef Py_ssize_t i
        for i in range(last + 1):
            token = <bytes>tokens[i]
            if token == b">" and i == last:
                node.rest = joined(node.rest, sub)
                return 0
            if token == b"*":
                if node.any_token is None:
                    node.any_token = TrieNode()
                node = node.any_token
                continue
            if node.children is None:
                node.children = {}
            child = <TrieNode>node.children.get(token)
            if child is None:
                child = TrieNode()
                node.children[token] = child
            node = child
        node.ending = joined(node.ending, sub)
        return 0

    cdef bint remove(self, list tokens, object sub) except -1:
        """Take one out again, with the nodes that nobody needs any more; False if it is not there."""
        cdef list path = []
        cdef TrieNode node = self._root
        cdef TrieNode child
        cdef bytes token
        cdef Py_ssize_t last = len(tokens) - 1
        cdef Py_ssize_t i
        cdef bint at_rest = False
        for i in range(last + 1):
            token = <bytes>tokens[i]
            if token == b">" and i == last:
                at_rest = True
                break
            if token == b"*":
                child = node.any_token
            else:
                child = <TrieNode>node.children.get(token) if node.children is not None else None
            if child is None:
                return False
            path.append((node, token))
            node = child
        if not left(node.rest if at_rest else node.ending, sub):
            return False
        while path and node.barren():
            node, token = path.pop()
            if token == b"*":
                node.any_token = None
            else:
                del node.children[token]
        return True

    cdef int collect(self, list tokens, list found) except -1:
        """Put those that match a literal subject with what is found."""
        return collect_patterns(self._root, tokens, 0, len(tokens), found)

    cdef bint collect_family(self, list tokens, list found) except *:
        """The same for all subjects that go on with one more token; True when it depends on that token."""
        return collect_family(self._root, tokens, 0, len(tokens), found)

    cdef int collect_all(self, list found) except -1:
        """Put all of them with what is found."""
        cdef list stack = [self._root]
        cdef TrieNode node
        while stack:
            node = <TrieNode>stack.pop()
            if node.ending:
                found.extend(node.ending)
            if node.rest:
                found.extend(node.rest)
            if node.any_token is not None:
                stack.append(node.any_token)
            if node.children:
                stack.extend(node.children.values())
        return 0


cdef int collect_patterns(TrieNode node, list tokens, Py_ssize_t at, Py_ssize_t count, list found) except -1:
    """Walk the trie. Depth is bounded by the tokens of the published subject, which the control line bounds."""
    cdef PyObject *child
    while True:
        if at == count:
            if node.ending:
                found.extend(node.ending)
            return 0
        if node.rest:
            found.extend(node.rest)
        child = NULL
        if node.children is not None:
            child = PyDict_GetItem(node.children, tokens[at])
        at += 1
        if node.any_token is not None:
            if child != NULL:
                collect_patterns(<TrieNode>child, tokens, at, count, found)
            node = node.any_token
        elif child != NULL:
            node = <TrieNode>child
        else:
            return 0


cdef bint collect_family(TrieNode node, list tokens, Py_ssize_t at, Py_ssize_t count, list found) except *:
    """The same for a subject of which all but the last token are known; True when a pattern asks for that token."""
    cdef PyObject *child
    cdef bint varies = False
    while True:
        if node.rest:
            found.extend(node.rest)
        if at == count:
            if node.any_token is not None and node.any_token.ending:
                found.extend(node.any_token.ending)
            return varies or bool(node.children)
        child = NULL
        if node.children is not None:
            child = PyDict_GetItem(node.children, tokens[at])
        at += 1
        if node.any_token is not None:
            if child != NULL:
                varies = collect_family(<TrieNode>child, tokens, at, count, found) or varies
            node = node.any_token
        elif child != NULL:
            node = <TrieNode>child
        else:
            return varies
