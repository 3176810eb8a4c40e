# cython: language_level=3, boundscheck=False, wraparound=False
"""What becomes of a publish: the fast path to its receivers, or the sink that decides.

    subject ──► the last one again? ──► its route ─────────────────────┐
       └──► verdict of the client's permissions ──► interest.route ──► delivery.send ──► copies in outboxes

A publish takes the fast path when the sink allows it (`fast`): permission verdict and route are looked up where the
sink's earlier decisions are kept, and the delivery kernel writes the copies. Only what was never decided before, or cannot
be decided once for all, comes back to the sink: replies and subjects that only servers use, traces, schedules of a
client that may not publish everywhere, dynamic routes.

Not parsing: `wire.Parser` is this class with the bytes in front of it. Invariant: a route is used only while its stamp is
that of the interest it came from. Complexity: O(1) for the same subject again, one lookup for another; then O(receivers).
Memory: at most `SUBJECT_CACHE_MAX` verdicts a client, of subjects up to `REMEMBERED_BYTES_MAX`: less than 1 MB.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.string cimport memcmp

from slipstream.kernels.wire.clientlines cimport Span, span_bytes
from slipstream.kernels.wire.delivery cimport Delivery
from slipstream.kernels.wire.interest cimport Interest
from slipstream.kernels.wire.receivers cimport Route

cdef enum:
    SUBJECT_CACHE_MAX = 4096
    # Longer subjects are decided each time: a cache of a client's making must not outgrow its connection.
    REMEMBERED_BYTES_MAX = 128


cdef inline bint reserved_reply(Span reply) noexcept nogil:
    """Reply subjects that only the server itself may hand out."""
    if reply.size < 4:
        return False
    if reply.at[0] == b"$":
        return (reply.size > 8 and memcmp(reply.at, b"$JS.ACK.", 8) == 0) or (
            reply.size > 4 and memcmp(reply.at, b"$GR.", 4) == 0
        )
    if reply.at[0] == b"_":
        if memcmp(reply.at, b"_R_.", 4) == 0:
            return True
        return reply.size > 5 and memcmp(reply.at, b"_GR_.", 5) == 0
    return False


cdef inline bint reserved_subject(Span subject) noexcept nogil:
    """Subjects that travel between servers only; the sink refuses them to clients."""
    if subject.size < 4:
        return False
    if subject.at[0] == b"$":
        return memcmp(subject.at, b"$GR.", 4) == 0 or (subject.size >= 5 and memcmp(subject.at, b"$NRG.", 5) == 0)
    return subject.at[0] == b"_" and subject.size >= 5 and memcmp(subject.at, b"_GR_.", 5) == 0


cdef inline bint names_a_schedule(const char *header, Py_ssize_t size) noexcept nogil:
    return memmem(header, size, b"\r\nNats-Schedule-", 17) != NULL


cdef class Publishing:
    """Publishes of one client.

    The sink decides; the client is who publishes, as receivers know it.

    Attributes:
        fast: publishes may take the fast path. Set by the sink once the client is known and nothing watches it.
        no_responders: tell the sink when a request found nobody.
        restricted: `verdicts` count; else everything is allowed.
        traceparents: the account traces by W3C header, so every message with headers goes to the sink.
        verdicts: subject -> True/False as decided by `sink.may_publish`, or None when everything is allowed.
        interest: where routes are looked up.
        msgs, msg_bytes: what was published, and the bytes of it.
        dead: nothing more is taken.
    """

    def __cinit__(self, sink, client, Delivery delivery not None, *_others, **_named):
        # What else is given is for the parser.
        self._sink = sink
        self._client = client
        self._delivery = delivery

    def rebind(self, Interest interest):
        """Publish into another account from now on; earlier verdicts and routes are forgotten."""
        self.interest = interest
        self._last_subject = None
        self._last_route = None
        if self.verdicts is not None:
            self.verdicts = {}

    cdef int _publish(self, Span subject, Span reply, Py_ssize_t header_size, const char *body, Py_ssize_t size) except -1:
        cdef bytes name
        cdef Route route
        cdef PyObject *verdict
        cdef bint lasting = True
        cdef Py_ssize_t sent
        self.msgs += 1
        self.msg_bytes += size
        if (
            not self.fast
            or reserved_reply(reply)
            or reserved_subject(subject)
            or (header_size and (
                self.traceparents
                or asks_for_trace(body, header_size)
                or (self.restricted and names_a_schedule(body, header_size))
            ))
        ):
            self._sink.on_publish(
                span_bytes(subject), span_bytes(reply) if reply.size else None, header_size, PyBytes_FromStringAndSize(body, size)
            )
            return 0
        route = self._last_route
        if (
            route is not None
            and route._stamp == self.interest._stamp
            and subject.size == PyBytes_GET_SIZE(self._last_subject)
            and memcmp(subject.at, PyBytes_AS_STRING(self._last_subject), subject.size) == 0
        ):
            name = self._last_subject
        else:
            name = span_bytes(subject)
            if self.restricted:
                if self.verdicts is None:
                    self.verdicts = {}
                verdict = PyDict_GetItem(self.verdicts, name)
                if verdict == NULL:
                    if len(self.verdicts) >= SUBJECT_CACHE_MAX:
                        self.verdicts = {}
                    if not self._decide(name):
                        return 0
                    # A response permission counts each use, so the next publish asks again.
                    lasting = name in self.verdicts
                elif <object>verdict is False:
                    self._sink.on_publish_denied(name)
                    return 0
            route = self.interest.route(name)
            self._last_subject = name
            self._last_route = route if lasting else None
        if route.dynamic:
            self._sink.on_publish(
                name, span_bytes(reply) if reply.size else None, header_size, PyBytes_FromStringAndSize(body, size)
            )
            return 0
        sent = self._delivery.send(route, self._client, subject.at, subject.size, reply.at, reply.size, header_size, body, size)
        # A listener inside the server may have closed this very connection.
        if sent == 0 and reply.size and self.no_responders and not self.dead:
            self._sink.on_no_responders(name if route.subject is None else route.subject, span_bytes(reply))
        return 0

    cdef bint _decide(self, bytes name) except -1:
        """Ask the sink once whether the client may publish to `name`."""
        cdef object allowed = self._sink.may_publish(name)
        if allowed is None:
            # Allowed this time only (a response permission): not remembered.
            return True
        if PyBytes_GET_SIZE(name) <= REMEMBERED_BYTES_MAX:
            self.verdicts[name] = allowed
        if allowed:
            return True
        self._sink.on_publish_denied(name)
        return False
