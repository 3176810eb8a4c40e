# cython: language_level=3, boundscheck=False, wraparound=False
"""What another server wants, and wants no more: its lines taken apart, and told to the sink of the link.

    RS+ <account> <subject> [queue weight]     RS- <account> <subject> [queue]              routes and gateways
    LS+ <origin> <account> <subject> [...]     LS- <origin> <account> <subject> [queue]     routes, for a leaf
    LS+ <subject> [queue weight]               LS- <subject> [queue]                        leafs

What a peer wants without a queue group is told in one call for all such lines that follow each other (`on_wanted`): it waits
in `wanted` until a line of another kind comes, or the end of the read.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.string cimport memcmp

from slipstream.kernels.links.linklines cimport (
    HAS_BAD_ARGUMENTS, IS_TOO_LONG, IS_UNKNOWN, clean, first_word, number_of, words,
)
from slipstream.kernels.wire.clientlines cimport Span, skip_blanks, span_bytes
from slipstream.kernels.wire.receivers cimport TO_GATEWAY, TO_ROUTE, Link

cdef enum:
    # Subjects that a peer wants, in one call of the sink: a few milliseconds of work.
    WANTED_MAX = 1024


cdef class InterestLines:
    """Of one link."""

    def __cinit__(self, sink, Link link not None):
        self._sink = sink
        self._link = link
        self._stopped = False
        self.wanted = None

    cdef int stop(self) except -1:
        """Tell nothing more."""
        self._stopped = True
        self._sink = None
        self.wanted = None
        return 0

    cdef int take(
        self, const char *line, char verb, const char *end, bint named_accounts, Py_ssize_t max_control_line
    ) except -1:
        """One line; what is wrong with it, or 0."""
        cdef bint routed = self._link.kind == TO_ROUTE or self._link.kind == TO_GATEWAY
        cdef bint for_leaf = self._link.kind == TO_ROUTE and verb == b"l"
        cdef bint wanted = line[2] == b"+"
        cdef const char *p = line + 4
        cdef tuple args
        cdef bytes origin = None
        cdef bytes account = b""
        cdef Py_ssize_t weight = 1
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t left
        if (verb == b"r" and not routed) or (verb == b"l" and self._link.kind == TO_GATEWAY):
            return IS_UNKNOWN
        if end - skip_blanks(p, end) > max_control_line:
            return IS_TOO_LONG
        if not clean(p, end):
            return HAS_BAD_ARGUMENTS
        if wanted and not for_leaf and self._is_plain(p, end, named_accounts):
            return 0
        if self.wanted is not None:
            self.tell()
            if self._stopped:
                return 0
        args = words(p, end)
        left = PyTuple_GET_SIZE(args)
        if for_leaf and left:
            origin = args[0]
            at += 1
            left -= 1
        if named_accounts and left:
            account = args[at]
            at += 1
            left -= 1
        if left != 1 and left != (3 if wanted else 2) or (for_leaf and origin is None):
            return HAS_BAD_ARGUMENTS
        if not wanted:
            self._sink.on_interest_gone(account, args[at], args[at + 1] if left == 2 else None, origin)
            return 0
        if left == 3:
            weight = number_of(<bytes>args[at + 2])
            if weight < 0:
                return HAS_BAD_ARGUMENTS
        self._sink.on_interest(account, args[at], args[at + 1] if left == 3 else None, max(weight, <Py_ssize_t>1), origin)
        return 0

    cdef bint _is_plain(self, const char *p, const char *end, bint named_accounts) except -1:
        """Whether a peer wants just a subject; then it is kept for `tell`, with those before it."""
        cdef Span account, subject
        account.size = 0
        if named_accounts:
            account = first_word(&p, end)
            if not account.size:
                return False
        subject = first_word(&p, end)
        if not subject.size or skip_blanks(p, end) < end:
            return False
        if self.wanted is not None and (
            len(self.wanted) >= WANTED_MAX
            or account.size != PyBytes_GET_SIZE(self._account)
            or memcmp(account.at, PyBytes_AS_STRING(self._account), account.size) != 0
        ):
            self.tell()
            if self._stopped:
                return True
        if self.wanted is None:
            self.wanted = []
            self._account = PyBytes_FromStringAndSize(account.at, account.size) if account.size else b""
        self.wanted.append(span_bytes(subject))
        return True

    cdef int tell(self) except -1:
        """Tell the sink of all that the peer wants since the last operation of another kind, in one call."""
        cdef list subjects = self.wanted
        self.wanted = None
        self._sink.on_wanted(self._account, subjects)
        return 0
