# cython: language_level=3
"""Who wants a subject: the subscriptions of one account, and the routes derived from them.

    literals: subject ──► subscriptions                     exact subjects, one dict look-up
    trie:     token ──► node ──► ...  with `*` and `>` arms   patterns, at most two arms a token
    routes:   subject ──► Route                              what `match` found, kept until interest changes
    families: stem ──► Route                                the same for all subjects that differ in the last token only

A `Route` is a decision, taken once and repeated by the delivery kernel: which subscriptions get a copy, which queue
groups choose a member. Without a `planner` it holds every match; with one (permissions at delivery, subject mappings,
imports) the planner decides what goes in. The kernel itself never looks at a permission.

Complexity: match O(tokens x open arms); insert and remove O(tokens), however many share the subject. Adding or removing
a literal forgets one route, a pattern forgets all of them (they are refilled by use). At most `routes_max` are kept.
Routes of reply subjects are not kept: most are used once, and would push out the ones that matter.
Reply subjects of one client are a family, though (`_INBOX.client.1`, `.2`, ...): where no pattern names a last token,
one route serves them all.
What is addressed to another cluster (`_GR_.`) is found by links that lead there, and by nobody with a wildcard.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.string cimport memcmp, memset

from slipstream.kernels.wire.farparts cimport far_parts
from slipstream.kernels.wire.patterntrie cimport PatternTrie, joined, left
from slipstream.kernels.wire.receivers cimport Link, Presence, Route, Subscription

cdef extern from * nogil:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <string.h>
    """
    void *memrchr(const void *text, int byte, size_t size)


cdef enum:
    # Routes that found the cache full, in multiples of its size, before it starts over.
    REFUSALS_MAX = 4
    # Longer subjects have no route kept: what clients publish once must not take memory for ever.
    KEPT_SUBJECT_MAX = 512


cdef bint has_wildcard(bytes subject):
    """Whether a valid subscription subject has a `*` or `>` token."""
    cdef const char *p = PyBytes_AS_STRING(subject)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(subject)
    cdef Py_ssize_t i
    for i in range(n):
        if p[i] == b"*" or p[i] == b">":
            if (i == 0 or p[i - 1] == b".") and (i == n - 1 or p[i + 1] == b"."):
                return True
    return False


cdef bint is_used_once(bytes subject):
    """Whether a subject is an inbox or a reply that the server handed out."""
    cdef const char *p = PyBytes_AS_STRING(subject)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(subject)
    return n > 4 and p[0] == b"_" and (
        memcmp(p, b"_R_.", 4) == 0 or (n > 7 and memcmp(p, b"_INBOX.", 7) == 0) or memcmp(p, b"_GR_.", 5) == 0
    )


cdef bint is_addressed(bytes subject):
    """Whether a subject begins with the address of a cluster."""
    return PyBytes_GET_SIZE(subject) > 5 and memcmp(PyBytes_AS_STRING(subject), b"_GR_.", 5) == 0


cdef list addressees(list found):
    """Of those that match an address, the links that lead there: clients see no addresses."""
    cdef Subscription sub
    cdef list kept = []
    for sub in found:
        if sub.link is not None and is_addressed(sub.subject):
            kept.append(sub)
    return kept


cdef class Interest:
    """The subscriptions of one account."""

    def __cinit__(self, Py_ssize_t routes_max=32768):
        self._literals = {}
        self._patterns = PatternTrie()
        self._routes = {}
        self._routes_max = routes_max
        self._refused = 0
        self.planner = None
        self.arrival_planner = None
        self._arrivals = {}
        self._stamp = 1
        self._families = {}
        self._last_stem = None
        self._last_family = None
        memset(self._stems_seen, 0, sizeof(self._stems_seen))
        self._leaving = 0
        self.count = self.inserts = self.removes = self.matches = self.misses = 0

    @property
    def cached_routes(self):
        """How many routes are kept."""
        return len(self._routes)

    def insert(self, Subscription sub not None):
        """Add a subscription. Its subject has been validated."""
        cdef bytes subject = sub.subject
        cdef bint literal = not has_wildcard(subject)
        if literal:
            self._literals[subject] = joined(self._literals.get(subject), sub)
        else:
            self._patterns.insert(subject.split(b"."), sub)
        self.count += 1
        self.inserts += 1
        self._forget(subject, literal)

    def insert_wanted(
        self, list subjects not None, dict known not None, Link link not None, client, bytes sid not None,
        Presence presence, unsigned int base_cost, unsigned int token_cost,
    ):
        """Add what another server wants, each subject without a queue group; the subjects have been validated.

        Those in `known` are there already, the others are put into it. Each costs `base_cost`, its length, and for a
        pattern `token_cost` a token. Returns the new subscriptions and what they cost.
        """
        cdef list made = []
        cdef list tokens
        cdef bytes subject
        cdef Subscription sub
        cdef unsigned long long cost = 0
        cdef bint patterns = False
        for item in subjects:
            subject = <bytes?>item
            if subject in known:
                continue
            sub = Subscription(subject, None, sid, link.outbox, client, None, link)
            sub.presence = presence
            sub.echo = False
            sub.cost = base_cost + <unsigned int>PyBytes_GET_SIZE(subject)
            if has_wildcard(subject):
                patterns = True
                tokens = subject.split(b".")
                sub.cost += token_cost * <unsigned int>len(tokens)
                self._patterns.insert(tokens, sub)
            else:
                self._literals[subject] = joined(self._literals.get(subject), sub)
                self._forget(subject, True)
            cost += sub.cost
            known[subject] = sub
            made.append(sub)
        self.count += len(made)
        self.inserts += len(made)
        if patterns:
            self._forget(b"", False)
        return made, cost

    def remove(self, Subscription sub not None):
        """Take a subscription out; False if it was not there."""
        cdef bint literal = not has_wildcard(sub.subject)
        if not self._take(sub, literal):
            return False
        self.count -= 1
        self.removes += 1
        self._forget(sub.subject, literal)
        return True

    def leave(self, Presence presence not None, Py_ssize_t count):
        """A client with `count` subscriptions is gone: from now on nothing is found for it.

        The subscriptions themselves are still to be taken out. No route lists them meanwhile, so that costs nobody a
        route; finding receivers for a new one is a little slower until then.
        """
        presence.left = True
        self._leaving += 1
        self.count -= count
        self.removes += count
        self._forget(b"", False)

    def take_out(self, dict subscriptions not None, Py_ssize_t most):
        """Take at most so many subscriptions of a client that has left out of the dict and of here.

        Returns how many of them were `checked`, and what they cost. The call that empties the dict ends the leaving.
        """
        cdef Subscription sub
        cdef Py_ssize_t checked = 0
        cdef unsigned long long cost = 0
        while subscriptions and most > 0:
            sub = <Subscription?>subscriptions.popitem()[1]
            if self._take(sub, not has_wildcard(sub.subject)):
                checked += sub.checked
                cost += sub.cost
            most -= 1
        if not subscriptions:
            self._leaving -= 1
        return checked, cost

    def match(self, bytes subject not None):
        """Every subscription whose pattern matches the literal `subject`, in no particular order."""
        return self._collect(subject)

    def find_route(self, bytes subject not None):
        """The cached decision for `subject`, made now if there is none."""
        return self.route(subject)

    def find_answer_route(self, bytes subject not None):
        """The same for what the server itself sends: behind a dot it goes to clients alone."""
        return self.answer_route(subject)

    def reaches(self, bytes subject not None):
        """Whether a message that the server sends to `subject` would get to anybody."""
        return not self.answer_route(subject).empty

    def forget_all(self):
        """Drop every cached route, because something the planner looks at has changed."""
        self._forget(b"", False)

    def routes(self):
        """The remembered routes, for monitoring."""
        return list(self._routes.values())

    def subscriptions(self):
        """All subscriptions, for monitoring."""
        cdef list found = []
        for subs in self._literals.values():
            found.extend(subs)
        self._patterns.collect_all(found)
        return self._present(found)

    cdef Route route(self, bytes subject):
        cdef PyObject *cached = PyDict_GetItem(self._routes, subject)
        cdef Route route
        cdef Route shared = None
        self.matches += 1
        if cached != NULL:
            # What is in the cache is valid by definition, so a publisher may hold it from now on.
            route = <Route>cached
            route._stamp = self._stamp
            return route
        self.misses += 1
        if self.planner is None:
            shared = self._family(subject)
            route = plain_route(self._collect(subject)) if shared is None else shared
        else:
            route = <Route?>self.planner(subject)
        if shared is None:
            # A publisher may hold it until interest changes. A shared route changes its subjects without notice.
            route._stamp = self._stamp
        if is_used_once(subject) or PyBytes_GET_SIZE(subject) > KEPT_SUBJECT_MAX or not self._routes_max:
            return route
        if len(self._routes) >= self._routes_max:
            # The ones that are there stay, so that a rotation over more subjects than fit still finds most of them;
            # after many refusals they have probably gone out of use.
            self._refused += 1
            if self._refused < REFUSALS_MAX * self._routes_max:
                return route
            self._forget(b"", False)
        if shared is not None:
            route = shared.copy()
        route._stamp = self._stamp
        self._routes[subject] = route
        return route

    def find_arrival_route(self, bytes subject not None):
        """The decision for a message that another server of the cluster passes on."""
        return self.arrival_route(subject)

    cdef Route arrival_route(self, bytes subject):
        """What the server it came from has done is not done again: where that makes a difference, the planner knows."""
        cdef PyObject *cached
        cdef Route route
        if self.arrival_planner is None:
            return self.route(subject)
        cached = PyDict_GetItem(self._arrivals, subject)
        if cached != NULL:
            return <Route>cached
        route = <Route?>self.arrival_planner(subject)
        if is_used_once(subject) or PyBytes_GET_SIZE(subject) > KEPT_SUBJECT_MAX or not self._routes_max:
            return route
        if len(self._arrivals) >= self._routes_max:
            self._arrivals = {}
        self._arrivals[subject] = route
        return route

    cdef Route answer_route(self, bytes subject):
        """A dot in front, which no subject of a client begins with, leaves out whatever listens inside the server.

        So an answer to somebody who may not publish to that subject reaches the clients that subscribed to it, and
        nothing that would act on it.
        """
        if PyBytes_GET_SIZE(subject) == 0 or PyBytes_AS_STRING(subject)[0] != b".":
            return self.route(subject)
        return self.route(subject[1:]).outside()

    cdef int _forget(self, bytes subject, bint literal) except -1:
        # A planner may have looked at other subjects too (a mapping's destination), so its routes are all forgotten.
        # A new stamp outdates the routes that publishers still hold, without visiting them.
        self._stamp += 1
        if self._arrivals:
            self._arrivals = {}
        if literal and self.planner is None:
            self._routes.pop(subject, None)
            return 0
        self._last_stem = None
        if self._families:
            self._families = {}
        if self._routes:
            self._routes = {}
            self._refused = 0
        return 0

    cdef Route _family(self, bytes subject):
        """The route of all subjects that differ from this one in the last token only; None when each has its own."""
        cdef const char *p = PyBytes_AS_STRING(subject)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(subject)
        cdef const char *dot = <const char *>memrchr(p, b".", size)
        cdef Py_ssize_t stem_size
        cdef unsigned long long mixed = 1469598103934665603ULL
        cdef Py_ssize_t i
        cdef PyObject *known
        cdef bytes stem
        cdef Route route
        if dot == NULL or dot == p or dot == p + size - 1 or PyDict_GetItem(self._literals, subject) != NULL:
            return None
        if is_addressed(subject):
            return None
        stem_size = dot - p
        if (
            self._last_stem is not None
            and PyBytes_GET_SIZE(self._last_stem) == stem_size
            and memcmp(PyBytes_AS_STRING(self._last_stem), p, stem_size) == 0
        ):
            route = self._last_family
        else:
            for i in range(stem_size):
                mixed = (mixed ^ <unsigned char>p[i]) * 1099511628211ULL
            if self._stems_seen[mixed >> 56] != mixed:
                # Kept from the second use on, like a route.
                self._stems_seen[mixed >> 56] = mixed
                return None
            stem = PyBytes_FromStringAndSize(p, stem_size)
            known = PyDict_GetItem(self._families, stem)
            route = self._new_family(stem) if known == NULL else <Route>known
            self._last_stem = stem
            self._last_family = route
        return None if route.dynamic else route

    cdef Route _new_family(self, bytes stem):
        """Find what matches whatever the last token is. `dynamic` marks a stem where that depends on it."""
        cdef list found = []
        cdef list tokens = stem.split(b".")
        cdef bint varies = b"" in tokens
        cdef Route route
        if not varies:
            varies = self._patterns.collect_family(tokens, found)
        route = Route(dynamic=True) if varies else plain_route(self._present(found))
        if len(self._families) >= self._routes_max:
            self._families = {}
        self._families[stem] = route
        return route

    cdef bint _take(self, Subscription sub, bint literal) except -1:
        """Take a subscription out of its place; False if it was not there."""
        cdef object found
        sub.closed = True
        if not literal:
            return self._patterns.remove(sub.subject.split(b"."), sub)
        found = self._literals.get(sub.subject)
        if not left(found, sub):
            return False
        if not found:
            del self._literals[sub.subject]
        return True

    cdef list _present(self, list found):
        """Without those whose client has left."""
        cdef Subscription sub
        cdef list kept = []
        if not self._leaving:
            return found
        for sub in found:
            if sub.presence is None or not sub.presence.left:
                kept.append(sub)
        return kept

    cdef list _collect(self, bytes subject):
        cdef list found = []
        cdef list tokens
        cdef PyObject *exact = PyDict_GetItem(self._literals, subject)
        if exact != NULL:
            found.extend(<object>exact)
        if not self._patterns.empty():
            tokens = subject.split(b".")
            if b"" not in tokens:
                self._patterns.collect(tokens, found)
        if found and is_addressed(subject):
            found = addressees(found)
        return self._present(found)

cdef Route plain_route(list found):
    """Every match gets its copy; members of one queue group share one."""
    cdef Subscription sub
    cdef list plain
    cdef list far = None
    cdef dict groups = None
    if not found:
        return Route()
    plain = []
    for sub in found:
        if sub.link is not None:
            if far is None:
                far = []
            far.append((sub, None))
        elif sub.queue is None:
            plain.append(sub)
        else:
            if groups is None:
                groups = {}
            groups.setdefault(sub.queue, []).append(sub)
    if far is not None:
        links, names, elsewhere = far_parts(far, {} if groups is None else groups)
        return Route(
            tuple(plain), () if groups is None else tuple([tuple(members) for members in groups.values()]),
            links=links, link_names=names, elsewhere=elsewhere,
        )
    if groups is None:
        return Route(tuple(plain))
    return Route(tuple(plain), tuple([tuple(members) for members in groups.values()]))
