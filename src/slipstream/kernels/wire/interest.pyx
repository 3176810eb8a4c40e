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

cdef extern from * nogil:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <string.h>
    """
    void *memrchr(const void *text, int byte, size_t size)


# What is at the other end of a link: a server of the same cluster, one that is a leaf of this one, one of which this is a leaf,
# one of another cluster.
ROUTE = 0
HUB_LEAF = 1
SPOKE_LEAF = 2
GATEWAY = 3

cdef enum:
    # Subscriptions to one subject that are kept in a list, which is small; more are kept in a dict, where each is found.
    CROWD = 32
    # Routes that found the cache full, in multiples of its size, before it starts over.
    REFUSALS_MAX = 4
    # Longer subjects have no route kept: what clients publish once must not take memory for ever.
    KEPT_SUBJECT_MAX = 512


cdef class Presence:
    """That a client is in an account: what all its subscriptions there have in common.

    Who leaves with very many is gone for everybody at once, and its subscriptions are taken out bit by bit.
    """

    def __cinit__(self):
        self.left = False


cdef class Link:
    """A connection to another server: one message goes there once, whatever number of subscriptions it matches.

    Attributes:
        kind: `ROUTE`, `HUB_LEAF`, `SPOKE_LEAF` or `GATEWAY`.
        headers: the peer understands HMSG.
        cluster: of a leaf: the cluster it belongs to, which never gets back what came from it.
        distance: of a gateway: the nearest cluster is asked first.
        readdress: of a gateway: given a subscription of it and a reply, says as what the reply leaves; None: as it is.
    """

    def __cinit__(self, int kind, Outbox outbox not None, bint headers=True, bytes cluster=None):
        self.kind = kind
        self.outbox = outbox
        self.headers = headers
        self.cluster = cluster
        self.distance = 0
        self.readdress = None


cdef class Subscription:
    """One SUB of one client, one internal listener (`callback` instead of an outbox), or interest of another server.

    Attributes:
        max_msgs: deliveries after which the client wants it gone; 0 for none.
        headers: the client understands HMSG.
        echo: the client wants its own publishes back.
        watched: the client is told of each delivery (`on_delivered`), because it may answer the reply subject.
        checked: the planner has to ask the client's permissions for each concrete subject.
        closed: removed; a route that still lists it skips it.
        cost: memory that it counts for, whoever counts it.
        presence: of its client; None for an internal listener.
        link: over which messages leave, for interest of another server. Its `sid` is what stands there between the verb
            and the subject: the account and a blank, or nothing.
        weight: members that a queue group has there.
        origin: the cluster of the leaf that stands behind it, when another server forwards its interest.
    """

    def __cinit__(
        self, bytes subject not None, bytes queue, bytes sid, Outbox outbox=None, client=None, callback=None,
        Link link=None, unsigned int weight=1, bytes origin=None,
    ):
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.outbox = outbox
        self.client = client
        self.callback = callback
        self.delivered = 0
        self.max_msgs = 0
        self.headers = True
        self.echo = True
        self.watched = False
        self.checked = False
        self.closed = False
        self.cost = 0
        self.presence = None
        self.link = link
        self.weight = weight
        self.origin = origin

    def __repr__(self):
        return f"Subscription({self.subject!r}, queue={self.queue!r}, sid={self.sid!r})"


cdef class Elsewhere:
    """The members that one queue group has on other servers.

    `local` is the place of its local members in `Route.queues`, -1 if it has none. `members` are those that count like local
    ones, each as often as its weight says; `spare` those that get something when nobody else does: behind leafs. `beyond` are
    those of other clusters, the nearest first, for what nobody takes here.
    """

    def __cinit__(
        self, bytes queue not None, Py_ssize_t local, tuple members, tuple spare, tuple spare_names=None, tuple beyond=(),
    ):
        cdef Subscription sub
        self.queue = queue
        self.local = local
        self.members = members
        self.spare = spare
        self.spare_names = spare_names
        self.beyond = beyond
        self.weight = 0
        for sub in members:
            self.weight += sub.weight


cdef class Route:
    """Where one published subject goes.

    `renamed` runs parallel to `subscriptions`, `queue_renamed` to `queues`: the subject under which that copy is
    delivered, or None for the published one. `subject` is set when the whole message travels under another subject (a
    static mapping).
    `dynamic` tells the publisher to ask the planner for every message.
    `links` has one subscription for each other server that wants it, with `link_names` parallel to it as above, and
    `elsewhere` the queue groups with members on other servers; both None where there are none.
    `via` is the subject that other servers route it by, when it is delivered under another one.
    """

    def __cinit__(
        self, tuple subscriptions=(), tuple queues=(), tuple renamed=None, tuple queue_renamed=None, bytes subject=None,
        bint dynamic=False, tuple links=None, tuple link_names=None, tuple elsewhere=None, bytes via=None,
    ):
        self.subscriptions = subscriptions
        self.queues = queues
        self.renamed = renamed
        self.queue_renamed = queue_renamed
        self.subject = subject
        self.dynamic = dynamic
        self.links = links
        self.link_names = link_names
        self.elsewhere = elsewhere
        self.via = via
        self._stamp = 0

    @property
    def empty(self):
        """True when nobody would get a copy."""
        return not self.subscriptions and not self.queues and not self.links and not self.elsewhere

    cdef Route copy(self):
        return Route(
            self.subscriptions, self.queues, self.renamed, self.queue_renamed, self.subject, self.dynamic, self.links,
            self.link_names, self.elsewhere, self.via,
        )

    cdef Route unnamed_for(self, bytes target):
        """`unnamed` for what is routed by `target`: there may be a mark in front, which stays at home."""
        if self.links is None and self.elsewhere is None:
            if self.renamed is None and self.queue_renamed is None and self.subject is None:
                return self
            return Route(self.subscriptions, self.queues)
        if PyBytes_GET_SIZE(target) and PyBytes_AS_STRING(target)[0] == b".":
            target = target[1:]
        return Route(self.subscriptions, self.queues, links=self.links, elsewhere=self.elsewhere, via=target)

    cdef Route outside(self):
        """The same without the server's own listeners."""
        cdef Subscription sub
        cdef tuple members
        cdef Py_ssize_t i
        cdef list groups = []
        cdef list names = None if self.queue_renamed is None else []
        cdef list places = []
        cdef Elsewhere group
        cdef bint clean = True
        for sub in self.subscriptions:
            clean = clean and sub.outbox is not None
        for members in self.queues:
            for sub in members:
                clean = clean and sub.outbox is not None
        if clean:
            return self
        for i, members in enumerate(self.queues):
            kept = of_clients(members, members)
            places.append(len(groups) if kept else -1)
            if kept:
                groups.append(kept)
                if names is not None:
                    names.append(of_clients(members, self.queue_renamed[i]))
        return Route(
            of_clients(self.subscriptions, self.subscriptions),
            tuple(groups),
            None if self.renamed is None else of_clients(self.subscriptions, self.renamed),
            None if names is None else tuple(names),
            self.subject,
            self.dynamic,
            self.links,
            self.link_names,
            None if self.elsewhere is None else tuple([
                Elsewhere(
                    group.queue, places[group.local] if group.local >= 0 else -1, group.members, group.spare, group.spare_names,
                    group.beyond,
                )
                for group in self.elsewhere
            ]),
            self.via,
        )

    def unnamed(self):
        """The same receivers for a message that keeps its own subject wherever it goes."""
        if self.renamed is None and self.queue_renamed is None and self.subject is None:
            return self
        return Route(self.subscriptions, self.queues, links=self.links, elsewhere=self.elsewhere, via=self.via)

    def unnamed_by(self, bytes target not None):
        """The same, when other servers have to route it by `target`."""
        return self.unnamed_for(target)


cdef tuple of_clients(tuple members, tuple parallel):
    """Of what runs parallel to `members`, that of clients."""
    return tuple([one for member, one in zip(members, parallel) if (<Subscription>member).outbox is not None])


cdef class _Node:
    """One token of the pattern trie."""
    cdef dict children
    cdef _Node any_token
    cdef object ending
    cdef object rest

    def __cinit__(self):
        self.children = None
        self.any_token = None
        self.ending = None
        self.rest = None

    cdef bint barren(self):
        return not self.children and self.any_token is None and not self.ending and not self.rest


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


cdef object joined(object members, Subscription sub):
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


cdef bint left(object members, Subscription sub) except -1:
    """Take one out of the subscriptions to one subject; False if it is not there."""
    if members is None or sub not in members:
        return False
    if type(members) is list:
        (<list>members).remove(sub)
    else:
        del (<dict>members)[sub]
    return True


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
        self._root = _Node()
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
            self._insert_pattern(subject.split(b"."), sub)
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
                self._insert_pattern(tokens, sub)
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
        cdef list stack = [self._root]
        cdef _Node node
        for subs in self._literals.values():
            found.extend(subs)
        while stack:
            node = <_Node>stack.pop()
            if node.ending:
                found.extend(node.ending)
            if node.rest:
                found.extend(node.rest)
            if node.any_token is not None:
                stack.append(node.any_token)
            if node.children:
                stack.extend(node.children.values())
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
            varies = collect_family(<_Node>self._root, tokens, 0, len(tokens), found)
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
            return self._remove_pattern(sub.subject.split(b"."), sub)
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
        if not (<_Node>self._root).barren():
            tokens = subject.split(b".")
            if b"" not in tokens:
                collect_patterns(<_Node>self._root, tokens, 0, len(tokens), found)
        if found and is_addressed(subject):
            found = addressees(found)
        return self._present(found)

    def _insert_pattern(self, list tokens, Subscription sub):
        cdef _Node node = <_Node>self._root
        cdef _Node child
        cdef bytes token
        cdef Py_ssize_t last = len(tokens) - 1
        cdef Py_ssize_t i
        for i in range(last + 1):
            token = <bytes>tokens[i]
            if token == b">" and i == last:
                node.rest = joined(node.rest, sub)
                return
            if token == b"*":
                if node.any_token is None:
                    node.any_token = _Node()
                node = node.any_token
                continue
            if node.children is None:
                node.children = {}
            child = <_Node>node.children.get(token)
            if child is None:
                child = _Node()
                node.children[token] = child
            node = child
        node.ending = joined(node.ending, sub)

    def _remove_pattern(self, list tokens, Subscription sub):
        cdef list path = []
        cdef _Node node = <_Node>self._root
        cdef _Node child
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
                child = <_Node>node.children.get(token) if node.children is not None else None
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


cdef int collect_patterns(_Node node, list tokens, Py_ssize_t at, Py_ssize_t count, list found) except -1:
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
                collect_patterns(<_Node>child, tokens, at, count, found)
            node = node.any_token
        elif child != NULL:
            node = <_Node>child
        else:
            return 0


cdef bint collect_family(_Node node, list tokens, Py_ssize_t at, Py_ssize_t count, list found) except *:
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
                varies = collect_family(<_Node>child, tokens, at, count, found) or varies
            node = node.any_token
        elif child != NULL:
            node = <_Node>child
        else:
            return varies


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


def distance_of(Subscription sub not None):
    """How far away the cluster is that a subscription belongs to."""
    return sub.link.distance


def far_parts(list far not None, dict groups not None):
    """What other servers want, as `links`, `link_names` and `elsewhere` of a route.

    `far` has `(subscription, alias)` pairs; `groups` the local queue groups in the order of the route's `queues`.
    """
    cdef Subscription sub
    cdef list links = []
    cdef list names = []
    cdef list known = []
    cdef list result = []
    cdef dict queues = {}
    cdef dict places = {}
    for place, queue in enumerate(groups):
        places[queue] = place
    for sub, alias in far:
        if sub.queue is not None:
            members, spare, spare_names, beyond = queues.setdefault(sub.queue, ([], [], [], []))
            if sub.link.kind == GATEWAY:
                beyond.append(sub)
            elif sub.link.kind == ROUTE and sub.origin is None:
                members.append(sub)
            else:
                spare.append(sub)
                spare_names.append(alias)
        elif sub.link not in known:
            known.append(sub.link)
            links.append(sub)
            names.append(alias)
    for queue, (members, spare, spare_names, beyond) in queues.items():
        beyond.sort(key=distance_of)
        result.append(
            Elsewhere(
                queue, places.get(queue, -1), tuple(members), tuple(spare), tuple(spare_names) if any(spare_names) else None,
                tuple(beyond),
            )
        )
    return (
        tuple(links) if links else None,
        tuple(names) if any(names) else None,
        tuple(result) if result else None,
    )
