# cython: language_level=3
"""Who may get a message: clients and other servers with their subscriptions, and the routes made of them.

    Subscription ──► Presence   of the client, in one account
                 └─► Link       to another server, for what is wanted there
    Route ──► subscriptions, queue groups, links, Elsewhere (members of queue groups on other servers)

These are values: `interest` finds subscriptions and makes routes of them, a planner may make others, and `delivery` repeats
them. Whoever holds one keeps its subscriptions alive; a subscription that is gone is `closed`, and skipped.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

# What is at the other end of a link: a server of the same cluster, one that is a leaf of this one, one of which this is a leaf,
# one of another cluster.
ROUTE = TO_ROUTE
HUB_LEAF = TO_HUB_LEAF
SPOKE_LEAF = TO_SPOKE
GATEWAY = TO_GATEWAY


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
        name: the peer's, in the list of those that had nobody for a message; None: it does not know such lists.
        readdress: of a gateway: given a subscription of it and a reply, says as what the reply leaves; None: as it is.
    """

    def __cinit__(self, int kind, Outbox outbox not None, bint headers=True, bytes cluster=None):
        self.kind = kind
        self.outbox = outbox
        self.headers = headers
        self.cluster = cluster
        self.distance = 0
        self.readdress = None
        self.name = None


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
