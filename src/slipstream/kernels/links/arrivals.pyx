# cython: language_level=3, boundscheck=False, wraparound=False
"""Messages that came over one link, on their way to receivers in their accounts.

    message ──► account admitted? ──► subject taken? ──► route of the subject there ──► delivery
                 └── the sink is asked ──┘                └── `dynamic`, traced, or not `fast`: a call of the sink

The account and the route of the message before are kept: messages of a kind mostly follow each other.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.string cimport memcmp

from slipstream.kernels.wire.clientlines cimport Span, span_bytes
from slipstream.kernels.wire.delivery cimport Delivery
from slipstream.kernels.wire.interest cimport Interest
from slipstream.kernels.wire.publishing cimport memmem
from slipstream.kernels.wire.receivers cimport TO_GATEWAY, TO_ROUTE, Link, Route, Subscription

cdef enum:
    VERDICTS_MAX = 4096
    REMEMBERED_BYTES_MAX = 128
    # Of the address of a cluster and a server in front of a subject.
    ADDRESS_SIZE = 19


cdef inline bint is_traced(const char *header, Py_ssize_t size) noexcept nogil:
    """Whether another server traces the message: it says where to, or which hop this is."""
    return memmem(header, size, b"\r\nNats-Trace-", 13) != NULL


cdef class Arrivals:
    """Of one link.

    Attributes:
        fast: messages go straight to delivery; else each is a call of the sink.
        restricted: the sink is asked which subjects are taken; `verdicts` keeps its answers while it is a dict.
        addressed: subjects may begin with the address of a cluster (`_GR_.`); such messages are calls of the sink.
        traceparents: an account traces by W3C header, so every message with headers is a call of the sink.
    """

    def __cinit__(self, sink, Link link not None, Delivery delivery not None):
        self._sink = sink
        self._link = link
        self._delivery = delivery
        self._accounts = {}
        self.restricted = self.addressed = self.traceparents = self._stopped = False
        self.fast = True
        self.verdicts = {}

    def admit(self, bytes account not None, Interest interest not None, publisher):
        """Take messages for an account from now on; they are published as by `publisher`."""
        self._accounts[account] = (interest, publisher)
        self._forget()

    def expel(self, bytes account not None):
        """Take no more messages for an account."""
        self._accounts.pop(account, None)
        self._forget()

    cdef int _forget(self) except -1:
        self._last_account = None
        self._last_interest = None
        self._last_publisher = None
        self._last_subject = None
        self._last_route = None
        return 0

    def stop(self):
        """Take no further message, and keep nothing."""
        self._stopped = True
        self._accounts = {}
        self.verdicts = None
        self._sink = None
        self._forget()

    cdef int take(
        self, Span account, Span subject, Span reply, tuple queues, bytes origin, Py_ssize_t header_size, const char *body,
        Py_ssize_t size,
    ) except -1:
        """Hand a message to the receivers in its account."""
        cdef Route route = self._last_route
        cdef bytes name
        if not self._is_last_account(account) and not self._find_account(account):
            return 0
        if self.addressed and subject.size > ADDRESS_SIZE and memcmp(subject.at, b"_GR_.", 5) == 0:
            self._sink.on_addressed(
                self._last_account, span_bytes(subject), span_bytes(reply) if reply.size else None, header_size,
                PyBytes_FromStringAndSize(body, size),
            )
            return 0
        if (
            route is not None
            and self._last_subject is not None
            and (not self.restricted or self.verdicts is not None)
            and route._stamp == self._last_interest._stamp
            and subject.size == PyBytes_GET_SIZE(self._last_subject)
            and memcmp(subject.at, PyBytes_AS_STRING(self._last_subject), subject.size) == 0
        ):
            name = self._last_subject
        else:
            name = span_bytes(subject)
            if self.restricted and not self._is_taken(name):
                return 0
            if self._last_interest is None:
                return 0
            if self._link.kind == TO_ROUTE or self._link.kind == TO_GATEWAY:
                route = self._last_interest.arrival_route(name)
            else:
                route = self._last_interest.route(name)
            # An answer that is allowed once is asked about again.
            self._last_subject = None if self.restricted and self.verdicts is None else name
            self._last_route = route
        if not self.fast or route.dynamic or (header_size and (self.traceparents or is_traced(body, header_size))):
            self._sink.on_message(
                self._last_account, name, span_bytes(reply) if reply.size else None, queues, origin, header_size,
                PyBytes_FromStringAndSize(body, size),
            )
            return 0
        if (
            queues is None and route.subject is not None
            and self._link.kind != TO_ROUTE and self._link.kind != TO_GATEWAY
        ):
            # The sender could not know the groups that a mapping leads to.
            queues = groups_of(route)
        self._delivery.send_arrived(
            route, self._link, queues, origin, self._last_publisher, subject.at, subject.size, reply.at, reply.size,
            header_size, body, size,
        )
        return 0

    cdef bint _is_last_account(self, Span account) noexcept:
        return (
            self._last_account is not None
            and account.size == PyBytes_GET_SIZE(self._last_account)
            and memcmp(account.at, PyBytes_AS_STRING(self._last_account), account.size) == 0
        )

    cdef bint _find_account(self, Span account) except -1:
        cdef bytes name = PyBytes_FromStringAndSize(account.at, account.size) if account.size else b""
        cdef PyObject *found = PyDict_GetItem(self._accounts, name)
        self._forget()
        if found == NULL:
            if not self._sink.on_unknown_account(name) or self._stopped:
                return False
            found = PyDict_GetItem(self._accounts, name)
            if found == NULL:
                return False
        self._last_interest, self._last_publisher = <tuple>found
        self._last_account = name
        return True

    cdef bint _is_taken(self, bytes name) except -1:
        """Whether the sink takes messages on a subject."""
        cdef PyObject *verdict = NULL
        cdef object taken
        if self.verdicts is not None:
            verdict = PyDict_GetItem(self.verdicts, name)
            if verdict != NULL and <object>verdict is True:
                return True
        # What is refused is asked about each time: the sink answers it.
        taken = self._sink.may_publish(self._last_account, name)
        if self._stopped:
            return False
        if taken is True and self.verdicts is not None and PyBytes_GET_SIZE(name) <= REMEMBERED_BYTES_MAX:
            if len(self.verdicts) >= VERDICTS_MAX:
                self.verdicts = {}
            self.verdicts[name] = True
        return bool(taken)


cdef tuple groups_of(Route route):
    """The names of all queue groups that a route leads to."""
    cdef list names = []
    cdef tuple members
    for members in route.queues:
        names.append((<Subscription>PyTuple_GET_ITEM(members, 0)).queue)
    if route.elsewhere is not None:
        for group in route.elsewhere:
            if group.queue not in names:
                names.append(group.queue)
    return tuple(names)
