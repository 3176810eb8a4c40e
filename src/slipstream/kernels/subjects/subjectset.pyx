# cython: language_level=3, boundscheck=False, wraparound=False
"""Many patterns at once: does any of these overlap any of those, is any contained in another.

    root ──token──► node ──token──► node     a pattern is a path; what it belongs to stands at its end
         └──*────► node                      `>` stands at the node whose further tokens it takes

Two sets are compared by walking both tries together, from pair to pair of nodes that some subject can reach: literal
arms meet by look-up, and only a wildcard meets every arm of the other side. So n patterns against m cost about n + m
steps instead of n × m, unless most tokens of most patterns are wildcards in ever different places. For those there is
no shortcut; a walk that takes more than `steps_max` steps ends with `TooManySteps`.

Invariants: a node but the root leads to at least one pattern. A subject with an empty token is not kept: it overlaps
nothing. Tokens beyond `DEPTH_MAX` are no nodes; such patterns are kept whole and compared one by one.

Complexity: add and remove O(tokens). Memory: about 300 bytes a node, at most `DEPTH_MAX` nodes a pattern.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from slipstream.kernels.subjects.subject cimport match_span, overlap_span, subset_span

cdef enum:
    DEPTH_MAX = 32          # subjects are rarely deeper; a deeper one must not cost a node for every two bytes
    BYTES_A_STEP = 32       # of patterns that are compared whole


class TooManySteps(Exception):
    """The patterns have wildcards in too many different places to be compared in reasonable time."""


cdef class _Node:
    cdef dict arms          # literal token → node
    cdef _Node star
    cdef list ends          # owners of patterns that end here
    cdef list tails         # owners of patterns whose last token, here, is `>`
    cdef list deep          # (pattern, owner) that have more tokens than there are nodes for

    cdef bint leads_on(self):
        """Whether some pattern has one more token."""
        return self.arms is not None or self.star is not None or self.tails is not None or self.deep is not None

    cdef bint is_bare(self):
        return self.ends is None and not self.leads_on()


cdef class SubjectSet:
    """Patterns, each with an owner; the same pattern may be there several times."""

    cdef _Node root
    cdef Py_ssize_t size

    def __init__(self, subjects=()):
        """Take patterns, each owned by its position."""
        self.root = _Node()
        for owner, subject in enumerate(subjects):
            self.add(subject, owner)

    def __len__(self):
        return self.size

    cpdef add(self, bytes subject, object owner):
        """Keep one more pattern."""
        cdef list tokens = subject.split(b".")
        cdef _Node node = self.root, below
        cdef Py_ssize_t i, last = len(tokens) - 1
        cdef bytes token
        if b"" in tokens:
            return
        self.size += 1
        for i in range(last + 1):
            token = <bytes>tokens[i]
            if i == DEPTH_MAX:
                if node.deep is None:
                    node.deep = []
                node.deep.append((subject, owner))
                return
            if token == b"*":
                if node.star is None:
                    node.star = _Node()
                node = node.star
            elif i == last and token == b">":
                if node.tails is None:
                    node.tails = []
                node.tails.append(owner)
                return
            else:
                if node.arms is None:
                    node.arms = {}
                below = <_Node>node.arms.get(token)
                if below is None:
                    below = _Node()
                    node.arms[token] = below
                node = below
        if node.ends is None:
            node.ends = []
        node.ends.append(owner)

    cpdef remove(self, bytes subject, object owner):
        """Forget one pattern of this owner.

        Raises:
            KeyError: it is not there.
        """
        cdef list tokens = subject.split(b".")
        cdef list path = [self.root]
        cdef _Node node = self.root
        cdef Py_ssize_t i, last = len(tokens) - 1
        cdef bytes token
        cdef list kept
        if b"" in tokens:
            return
        for i in range(last + 1):
            token = <bytes>tokens[i]
            if i == DEPTH_MAX or (i == last and token == b">"):
                break
            node = node.star if token == b"*" else (None if node.arms is None else <_Node>node.arms.get(token))
            if node is None:
                raise KeyError(subject)
            path.append(node)
        else:
            i = last + 1
        kept = node.ends if i > last else (node.deep if i == DEPTH_MAX else node.tails)
        entry = (subject, owner) if i == DEPTH_MAX and i <= last else owner
        if kept is None or entry not in kept:
            raise KeyError(subject)
        kept.remove(entry)
        self.size -= 1
        if not kept:
            if i > last:
                node.ends = None
            elif i == DEPTH_MAX:
                node.deep = None
            else:
                node.tails = None
        self._prune(path, tokens)

    cdef _prune(self, list path, list tokens):
        """Take away nodes at the end of a path that lead nowhere any more."""
        cdef _Node node, above
        cdef Py_ssize_t i
        for i in range(len(path) - 1, 0, -1):
            node = <_Node>path[i]
            above = <_Node>path[i - 1]
            if not node.is_bare():
                return
            if above.star is node:
                above.star = None
            else:
                del above.arms[tokens[i - 1]]
                if not above.arms:
                    above.arms = None

    # --- one subject against the set ---

    def overlapping(self, bytes subject, Py_ssize_t steps_max):
        """Owners of all patterns that overlap this one; an owner may come several times."""
        cdef SubjectSet one = SubjectSet((subject,))
        cdef list found = []
        _overlap(self.root, one.root, steps_max, found)
        return [pair[0] for pair in found]

    def covering(self, bytes subject, Py_ssize_t steps_max):
        """Owners of all patterns that take everything this one takes; an owner may come several times."""
        cdef SubjectSet one = SubjectSet((subject,))
        cdef list found = []
        _subset(one.root, self.root, steps_max, found)
        return [pair[1] for pair in found]

    def matching(self, bytes literal):
        """Owners of all patterns that a message on this subject reaches; wildcards in it are plain tokens."""
        cdef list owners = []
        self._match(literal, owners)
        return owners

    def matches(self, bytes literal):
        """Whether a message on this subject reaches any pattern."""
        return self._match(literal, None)

    cdef bint _match(self, bytes literal, list owners) except -1:
        cdef list tokens = literal.split(b".")
        cdef list stack = [self.root]
        cdef list depths = [0]
        cdef Py_ssize_t depth, count = len(tokens)
        cdef _Node node, below
        if b"" in tokens:
            return False
        while stack:
            node = <_Node>stack.pop()
            depth = <Py_ssize_t>depths.pop()
            if depth == count:
                if node.ends is not None:
                    if owners is None:
                        return True
                    owners.extend(node.ends)
                continue
            if node.tails is not None:
                if owners is None:
                    return True
                owners.extend(node.tails)
            if node.deep is not None:
                for pattern, owner in node.deep:
                    if _reaches(<bytes>pattern, literal):
                        if owners is None:
                            return True
                        owners.append(owner)
            if node.star is not None:
                stack.append(node.star)
                depths.append(depth + 1)
            if node.arms is not None:
                below = <_Node>node.arms.get(tokens[depth])
                if below is not None:
                    stack.append(below)
                    depths.append(depth + 1)
        return False

    # --- sets against each other ---

    def overlap_with(self, SubjectSet other, Py_ssize_t steps_max):
        """Owners of a pattern here and one in another set that overlap; None if there are none."""
        if other is self:
            raise ValueError("a set always overlaps itself")
        return _overlap(self.root, other.root, steps_max, None)

    def overlap_within(self, Py_ssize_t steps_max):
        """Owners of two patterns of this set that overlap; None if there are none."""
        return _overlap(self.root, self.root, steps_max, None)

    def subset_within(self, Py_ssize_t steps_max):
        """Owners of two patterns of this set, the first contained in the second; None if there are none."""
        return _subset(self.root, self.root, steps_max, None)


cdef object _first(list owners):
    return owners[0]


cdef object _any_below(_Node node):
    """The owner of some pattern that has one more token."""
    while True:
        if node.tails is not None:
            return _first(node.tails)
        if node.deep is not None:
            return node.deep[0][1]
        node = node.star if node.star is not None else <_Node>next(iter(node.arms.values()))
        if node.ends is not None:
            return _first(node.ends)


cdef Py_ssize_t _all_below(_Node node, list owners, Py_ssize_t steps) except -1:
    """Append the owners of all patterns that have one more token; returns the steps left."""
    cdef list stack = [node]
    cdef bint begins = True
    while stack:
        node = <_Node>stack.pop()
        if node.ends is not None and not begins:
            owners.extend(node.ends)
        begins = False
        if node.tails is not None:
            owners.extend(node.tails)
        if node.deep is not None:
            owners.extend([owner for _, owner in node.deep])
        if node.star is not None:
            stack.append(node.star)
        if node.arms is not None:
            stack.extend(node.arms.values())
        steps -= 1
        if steps <= 0:
            raise TooManySteps
    return steps


cdef object _pairs(list first, list second, list found):
    """All pairs of two lists of owners, or one of them."""
    if found is None:
        return first[0], second[0]
    found.extend([(one, two) for one in first for two in second])
    return None


cdef Py_ssize_t _same_tokens(dict first, dict second, list stack) except -1:
    """Put the nodes that the same token leads to on the stack, in pairs; how many tokens were looked up."""
    if len(first) <= len(second):
        for token, below in first.items():
            other = second.get(token)
            if other is not None:
                stack.extend((below, other))
        return len(first)
    for token, other in second.items():
        below = first.get(token)
        if below is not None:
            stack.extend((below, other))
    return len(second)


cdef object _at_one_node(_Node node, Py_ssize_t *steps, bint subset):
    """Two owners of different patterns that are related by what stands at this node; None: none are."""
    for owners in (node.ends, node.tails):
        if owners is not None and len(owners) > 1:
            return owners[0], owners[1]
    if node.tails is not None and (node.arms is not None or node.star is not None or node.deep is not None):
        return _other_than_tail(node)
    if node.deep is None:
        return None
    result, steps[0] = _deep_within(node.deep, steps[0], subset)
    return result


cdef object _overlap(_Node first, _Node second, Py_ssize_t steps, list found):
    """Two owners whose patterns overlap, or all of them into `found`. The same node twice: of different patterns."""
    cdef list stack = [first, second]
    cdef _Node u, v, below
    cdef list owners
    while stack:
        v = <_Node>stack.pop()
        u = <_Node>stack.pop()
        steps -= 1
        if steps <= 0:
            raise TooManySteps
        if u is v:
            result = _at_one_node(u, &steps, False)
            if result is not None:
                return result
            if u.star is not None:
                stack.extend((u.star, u.star))
            if u.arms is not None:
                steps -= len(u.arms)
                for below in u.arms.values():
                    stack.extend((below, below))
                    if u.star is not None:
                        stack.extend((below, u.star))
            continue
        if u.ends is not None and v.ends is not None:
            result = _pairs(u.ends, v.ends, found)
            if result is not None:
                return result
        if u.tails is not None and v.leads_on():
            if found is None:
                return _first(u.tails), _any_below(v)
            owners = []
            steps = _all_below(v, owners, steps)
            _pairs(u.tails, owners, found)
        if v.tails is not None and u.leads_on():
            if found is None:
                return _any_below(u), _first(v.tails)
            owners = []
            steps = _all_below(u, owners, steps)
            # What ends in `>` on both sides was just paired.
            if u.tails is not None:
                for owner in u.tails:
                    owners.remove(owner)
            _pairs(owners, v.tails, found)
        if u.deep is not None and v.deep is not None:
            result, steps = _deep(u.deep, v.deep, steps, found, False)
            if result is not None:
                return result
        if u.star is not None:
            if v.star is not None:
                stack.extend((u.star, v.star))
            if v.arms is not None:
                steps -= len(v.arms)
                for below in v.arms.values():
                    stack.extend((u.star, below))
        if v.star is not None and u.arms is not None:
            steps -= len(u.arms)
            for below in u.arms.values():
                stack.extend((below, v.star))
        if u.arms is not None and v.arms is not None:
            steps -= _same_tokens(u.arms, v.arms, stack)
    return None


cdef object _subset(_Node first, _Node second, Py_ssize_t steps, list found):
    """Two owners, the pattern of the first contained in that of the second, or all of them into `found`."""
    cdef list stack = [first, second]
    cdef _Node u, v, below
    cdef list owners
    while stack:
        v = <_Node>stack.pop()
        u = <_Node>stack.pop()
        steps -= 1
        if steps <= 0:
            raise TooManySteps
        if u is v:
            result = _at_one_node(u, &steps, True)
            if result is not None:
                return result
        else:
            if u.ends is not None and v.ends is not None:
                result = _pairs(u.ends, v.ends, found)
                if result is not None:
                    return result
            if v.tails is not None and u.leads_on():
                if found is None:
                    return _any_below(u), _first(v.tails)
                owners = []
                steps = _all_below(u, owners, steps)
                _pairs(owners, v.tails, found)
            if u.deep is not None and v.deep is not None:
                result, steps = _deep(u.deep, v.deep, steps, found, True)
                if result is not None:
                    return result
        if u.star is not None and v.star is not None:
            stack.extend((u.star, v.star))
        if u.arms is None:
            continue
        if v.star is not None:
            steps -= len(u.arms)
            for below in u.arms.values():
                stack.extend((below, v.star))
        if v.arms is not None:
            steps -= _same_tokens(u.arms, v.arms, stack)
    return None


cdef object _other_than_tail(_Node node):
    """A node with `>` and something else below: both owners, that of `>` last."""
    cdef list tails = node.tails
    node.tails = None
    try:
        return _any_below(node), tails[0]
    finally:
        node.tails = tails


cdef bint _reaches(bytes pattern, bytes literal):
    return match_span(
        <const unsigned char *>PyBytes_AS_STRING(pattern),
        PyBytes_GET_SIZE(pattern),
        <const unsigned char *>PyBytes_AS_STRING(literal),
        PyBytes_GET_SIZE(literal),
    )


cdef bint _related(bytes one, bytes two, bint subset):
    cdef const unsigned char *a = <const unsigned char *>PyBytes_AS_STRING(one)
    cdef const unsigned char *b = <const unsigned char *>PyBytes_AS_STRING(two)
    if subset:
        return subset_span(a, PyBytes_GET_SIZE(one), b, PyBytes_GET_SIZE(two))
    return overlap_span(a, PyBytes_GET_SIZE(one), b, PyBytes_GET_SIZE(two))


cdef tuple _deep(list first, list second, Py_ssize_t steps, list found, bint subset):
    """Patterns that are kept whole, against each other; the result and the steps left."""
    cdef bytes one, two
    for one, owner in first:
        for two, other in second:
            steps -= 1 + min(len(one), len(two)) // BYTES_A_STEP
            if steps <= 0:
                raise TooManySteps
            if _related(one, two, subset):
                if found is None:
                    return (owner, other), steps
                found.append((owner, other))
    return None, steps


cdef tuple _deep_within(list deep, Py_ssize_t steps, bint subset):
    cdef Py_ssize_t i, k
    cdef bytes one, two
    for i in range(len(deep)):
        for k in range(len(deep)):
            if i == k:
                continue
            one, owner = deep[i]
            two, other = deep[k]
            steps -= 1 + min(len(one), len(two)) // BYTES_A_STEP
            if steps <= 0:
                raise TooManySteps
            if _related(one, two, subset):
                return (owner, other), steps
    return None, steps
