"""Core NATS in plain Python: clients, subscriptions, permissions, queue groups, one stream import. No caches, no bytes.

Every step returns what clients have to be sent: for each client a list of operations, and for each queue group the
copies of which exactly one is sent. Order between operations of one step is not part of the model.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from models import subject as subjects
from models.permissions import Rules

Op = tuple[bytes, ...]


@dataclass
class User:
    """A configured user."""

    name: str
    account: str
    publish: tuple[list[bytes] | None, list[bytes]] = (None, [])  # allow, deny
    subscribe: Rules = field(default_factory=Rules)
    responses_max: int | None = None  # allow_responses: how often a reply subject may be used


@dataclass(eq=False)
class Client:
    """A connected client."""

    name: str
    user: User
    verbose: bool = False
    pedantic: bool = False
    echo: bool = True
    headers: bool = True
    no_responders: bool = True
    subs: dict[bytes, Sub] = field(default_factory=dict)
    grants: dict[bytes, int] = field(default_factory=dict)  # reply subject → times used


@dataclass(eq=False)
class Sub:
    """A subscription."""

    client: Client
    subject: bytes
    queue: bytes | None
    sid: bytes
    max_msgs: int = 0
    delivered: int = 0


@dataclass
class Step:
    """What has to be sent."""

    sent: defaultdict[Client, list[Op]] = field(default_factory=lambda: defaultdict(list))
    # One of these is sent, and the subscription it belongs to counts it.
    groups: list[list[tuple[Sub, Op, bytes | None]]] = field(default_factory=list)


@dataclass(frozen=True)
class Import:
    """Messages of one account that another sees under a prefix."""

    exporter: str
    importer: str
    pattern: bytes
    prefix: bytes


class Core:
    """The model of a server."""

    def __init__(self, imports: list[Import]) -> None:
        self.clients: list[Client] = []
        self.imports = imports

    # --- operations -----------------------------------------------------------------------------------------------

    def connect(self, client: Client) -> Step:
        """CONNECT, also a second one: the subscriptions of the first are gone."""
        step = Step()
        client.subs.clear()
        client.grants.clear()
        if client not in self.clients:
            self.clients.append(client)
        if client.verbose:
            step.sent[client].append((b"+OK",))
        return step

    def close(self, client: Client) -> None:
        self.clients.remove(client)
        client.subs.clear()

    def subscribe(self, client: Client, subject: bytes, queue: bytes | None, sid: bytes) -> Step:
        step = Step()
        if not client.user.subscribe.grants(subject, queue):
            using = f' using queue "{queue.decode()}"' if queue is not None else ""
            text = f'Permissions Violation for Subscription to "{subject.decode()}"{using}'
            step.sent[client].append(_error(text))
            return step
        if sid not in client.subs:
            if not subjects.is_valid_subscription(subject):
                step.sent[client].append(_error("Invalid Subject"))
                return step
            client.subs[sid] = Sub(client, subject, queue, sid)
        if client.verbose:
            step.sent[client].append((b"+OK",))
        return step

    def unsubscribe(self, client: Client, sid: bytes, max_msgs: int) -> Step:
        sub = client.subs.get(sid)
        if sub is not None:
            if max_msgs > sub.delivered:
                sub.max_msgs = max_msgs
            else:
                del client.subs[sid]
        step = Step()
        if client.verbose:
            step.sent[client].append((b"+OK",))
        return step

    def publish(self, client: Client, subject: bytes, reply: bytes | None, header: bytes, payload: bytes) -> Step:
        step = Step()
        if client.pedantic and not subjects.is_valid_publish(subject):
            step.sent[client].append(_error("Invalid Publish Subject"))
        if subject.startswith((b"$GR.", b"_GR_.", b"$NRG.")) or not self._may_publish(client, subject):
            step.sent[client].append(_error(f'Permissions Violation for Publish to "{subject.decode()}"'))
            return step
        if reply is not None and reply.startswith(b"_R_."):
            step.sent[client].append(_error(f'Permissions Violation for Publish with Reply of "{reply.decode()}"'))
            return step
        if client.verbose:
            step.sent[client].append((b"+OK",))
        self._deliver(step, client, subject, reply, header, payload)
        nobody = not step.groups and not any(op[0] in (b"MSG", b"HMSG") for ops in step.sent.values() for op in ops)
        if nobody and reply is not None and client.no_responders:
            told = [s for s in client.subs.values() if s.queue is None and subjects.matches(s.subject, reply)]
            block = b"NATS/1.0 503\r\nNats-Subject: " + subject + b"\r\n\r\n"
            if told:
                step.groups.append([(s, (b"HMSG", reply, s.sid, b"", block, b""), None) for s in told])
        return step

    def reload(self, users: dict[str, User]) -> Step:
        """Other permissions for the same users."""
        step = Step()
        for client in self.clients:
            client.user = users[client.user.name]
            client.grants.clear()
            for sub in list(client.subs.values()):
                if not client.user.subscribe.grants(sub.subject, sub.queue):
                    del client.subs[sub.sid]
                    using = f' using queue "{sub.queue.decode()}"' if sub.queue is not None else ""
                    text = f'Permissions Violation for Subscription to "{sub.subject.decode()}"{using}'
                    step.sent[client].append(_error(f'{text} (sid "{sub.sid.decode()}")'))
        return step

    # --- consequences ---------------------------------------------------------------------------------------------

    def delivered(self, sub: Sub, reply: bytes | None) -> None:
        """A copy went to a subscription."""
        sub.delivered += 1
        if sub.client.user.responses_max is not None and reply is not None and not _listed(sub.client.user, reply):
            sub.client.grants[reply] = 0
        if sub.max_msgs and sub.delivered >= sub.max_msgs:
            sub.client.subs.pop(sub.sid, None)

    def _deliver(
        self, step: Step, publisher: Client, subject: bytes, reply: bytes | None, header: bytes, payload: bytes
    ) -> None:
        groups: defaultdict[bytes, list[tuple[Sub, Op, bytes | None]]] = defaultdict(list)
        # Everybody is found before anybody gets anything: a delivery may end a subscription.
        for sub, name in list(self._receivers(publisher.user.account, subject)):
            if not sub.client.echo and sub.client is publisher:
                continue
            verb, block = (b"HMSG", header) if header and sub.client.headers else (b"MSG", b"")
            op = (verb, name, sub.sid, reply or b"", block, payload)
            if sub.queue is not None:
                groups[sub.queue].append((sub, op, reply))
                continue
            step.sent[sub.client].append(op)
            self.delivered(sub, reply)
        step.groups = list(groups.values())

    def _receivers(self, account: str, subject: bytes) -> list[tuple[Sub, bytes]]:
        names = [(account, subject)]
        names += [
            (link.importer, link.prefix + subject)
            for link in self.imports
            if link.exporter == account and subjects.matches(link.pattern, subject)
        ]
        return [
            (sub, name)
            for where, name in names
            for client in self.clients
            if client.user.account == where
            for sub in client.subs.values()
            if subjects.matches(sub.subject, name) and client.user.subscribe.grants(name, sub.queue)
        ]

    def _may_publish(self, client: Client, subject: bytes) -> bool:
        if _listed(client.user, subject):
            return True
        limit = client.user.responses_max
        if limit is None or subject not in client.grants:
            return False
        client.grants[subject] += 1
        if client.grants[subject] == limit:
            del client.grants[subject]
        return True


def _listed(user: User, subject: bytes) -> bool:
    allow, deny = user.publish
    if allow is None:
        allowed = user.responses_max is None
    else:
        allowed = any(subjects.matches(pattern, subject) for pattern in allow)
    return allowed and not any(subjects.matches(pattern, subject) for pattern in deny)


def _error(text: str) -> Op:
    return (b"-ERR", text.encode())
