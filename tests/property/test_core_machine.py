"""A whole server without sockets against the plain model of core NATS: random clients, random operations, random cuts.

Everything runs through the real parser, permissions, planner, route caches and delivery kernel. Every operation a
client receives must be one that the model expects of that step, and every expected one must come. An exception anywhere
is a failure. `HYPOTHESIS_PROFILE=deep` makes it long.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from models.core import Client, Core, Import, Op, Step, User
from models.permissions import Rules
from slipstream.protocol.texts import CloseReason
from support.hub_world import HubClient, HubWorld
from support.transcript import frames

NARROW: list[tuple[bytes, bytes | None]] = [
    (b"a.>", None),
    (b"c.*", None),
    (b"b", b"q1"),
    (b"d.>", b"v.*"),
    (b"in.>", None),
]
USERS = [
    {
        "all": User("all", "A"),
        "narrow": User(
            "narrow",
            "A",
            ([b"a.>", b"b", b"s.*"], [b"a.secret"]),
            Rules(NARROW, [(b"a.deny", None), (b"a.*.x", b"q2"), (b"c.*", b"q1")]),
        ),
        "service": User("service", "A", (None, [b"a.deny"]), Rules(), responses_max=2),
        "other": User("other", "B", (None, [b"x.>"]), Rules(None, [(b"imp.s.secret", None), (b"imp.>", b"q2")])),
    },
    {
        "all": User("all", "A", (None, [b"b"]), Rules(None, [(b"d.x", None)])),
        "narrow": User("narrow", "A", (None, []), Rules([(b">", None)], [(b"a.*", b"q1"), (b"*.secret", None)])),
        "service": User("service", "A", ([b"a.*"], []), Rules([(b"a.>", None)], []), responses_max=1),
        "other": User("other", "B"),
    },
]
IMPORTS = [Import("A", "B", b"s.>", b"imp.")]


def _listing(entries: list[bytes] | None) -> str:
    return "[]" if not entries else "[" + ", ".join(f'"{entry.decode()}"' for entry in entries) + "]"


def _user(user: User) -> str:
    allow, deny = user.publish
    sub_allow, sub_deny = user.subscribe.as_entries()
    publish = f"deny: {_listing(deny)}" + ("" if allow is None else f", allow: {_listing(allow)}")
    subscribe = f"deny: {_listing([e.encode() for e in sub_deny])}"
    if sub_allow is not None:
        subscribe += f", allow: {_listing([e.encode() for e in sub_allow])}"
    responses = (
        "" if user.responses_max is None else f', allow_responses: {{ max: {user.responses_max}, expires: "1h" }}'
    )
    return (
        f"{{ user: {user.name}, password: p, permissions: "
        f"{{ publish: {{ {publish} }}, subscribe: {{ {subscribe} }}{responses} }} }}"
    )


def _config(users: dict[str, User]) -> str:
    def of(account: str) -> str:
        return ", ".join(_user(user) for user in users.values() if user.account == account)

    return f"""
    accounts {{
      A: {{ users = [{of("A")}], exports = [{{ stream: "s.>" }}] }}
      B: {{ users = [{of("B")}], imports = [{{ stream: {{ account: A, subject: "s.>" }}, prefix: imp }}] }}
    }}
    """


tokens = st.sampled_from([b"a", b"b", b"c", b"d", b"s", b"x", b"secret", b"deny", b"imp", b"in"])
names = st.lists(tokens, min_size=1, max_size=3).map(b".".join)
common = st.sampled_from(
    [b"a.x", b"a.secret", b"a.deny", b"b", b"s.x", b"s.secret", b"c.x", b"imp.s.x", b"in.1", b"d.x.x"]
)
odd_names = st.sampled_from(
    [b"a..b", b".a", b"a.", b"a.*", b"a.>", b"*", b">", b"$GR.x", b"_GR_.x", b"$NRG.x", b"$SYS.x"]
)
published = st.one_of(common, common, names, odd_names)
wide = st.sampled_from(
    [b">", b"*", b"a.>", b"a.*", b"*.x", b"*.>", b"s.*", b"imp.>", b"imp.*.x", b"c.*", b"in.*", b"d.>"]
)
invalid = st.sampled_from([b"a..b", b">.a", b"a.>.b", b".", b"a.", b"*a", b"a*.>"])
patterns = st.one_of(common, wide, wide, wide, common, names, invalid)
queues = st.sampled_from([None, None, b"q1", b"q2", b"v.1"])
replies = st.sampled_from([None, None, b"in.1", b"in.2", b"a.x", b"b", b"_R_.x"])
sids = st.sampled_from([b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"sid-8"])
headers = st.sampled_from([b"", b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\n\r\n", b"junk"])
payloads = st.sampled_from([b"", b"x", b"hello\r\nPING\r\n", b"z" * 300])
steps = st.sampled_from([1, 2, 3, 7, 50, 1000])
which = st.integers(0, 1_000)
# What ends or changes much happens now and then only; else there is never much to end.
rarely = st.integers(0, 7).map(lambda number: number == 0)
TALKS = [(False, False), (False, False), (True, False), (False, True)]  # verbose, pedantic
ENDINGS = [
    (b"FOO\r\n", (b"-ERR", b"Unknown Protocol Operation")),
    (b"PUB a b c d\r\n", None),
    (b"PUB a -1\r\n", None),
    (b"SUB\r\n", (b"-ERR", b"Unknown Protocol Operation")),
    (b"PUB a\rb 0\r\n", None),
    (b"PUB a 99999999\r\n", (b"-ERR", b"Maximum Payload Violation")),
    (b"SUB " + b"a" * 5000, (b"-ERR", b"maximum control line exceeded")),
    (b"CONNECT {\r\n", None),
    (b'CONNECT {"user":"all","pass":"no"}\r\n', (b"-ERR", b"Authorization Violation")),
    (b'CONNECT {"account":"A"}\r\n', (b"-ERR", b"Authorization Violation")),
    (b"-ERR 'x'\r\n", None),
    (b"PUB a 3\r\nabcdef\r\n", (b"-ERR", b"Unknown Protocol Operation")),
]


def _operation(frame: bytes) -> Op:
    if frame.startswith(b"-ERR "):
        return (b"-ERR", frame[len(b"-ERR '") : -len(b"'\r\n")])
    words = frame.split(b"\r\n", 1)[0].split(b" ")
    if words[0] not in (b"MSG", b"HMSG"):
        return (frame.removesuffix(b"\r\n"),)
    body = frame.split(b"\r\n", 1)[1].removesuffix(b"\r\n")
    count = 2 if words[0] == b"HMSG" else 1
    header_size = int(words[-2]) if count == 2 else 0
    reply = words[3] if len(words) == 4 + count else b""
    assert len(body) == int(words[-1])
    return (words[0], words[1], words[2], reply, body[:header_size], body[header_size:])


class CoreMachine(RuleBasedStateMachine):
    """The server and the model, side by side."""

    @initialize(
        variant=st.integers(0, 1),
        crowd=st.lists(st.tuples(which, patterns, queues, sids), min_size=12, max_size=24),
        talks=st.lists(st.sampled_from(TALKS), min_size=4, max_size=4),
    )
    def start(
        self,
        variant: int,
        crowd: list[tuple[int, bytes, bytes | None, bytes]],
        talks: list[tuple[bool, bool]],
    ) -> None:
        """One client of each user, and some subscriptions, so that there is something to see from the first step on."""
        self.variant = variant
        self.world = HubWorld(_config(USERS[variant]))
        self.core = Core(IMPORTS)
        self.sockets: dict[Client, HubClient] = {}
        self.opened = 0
        for user, talk in zip(USERS[0], talks, strict=True):
            self.connect(user, talk, True, True, 1000)
        for at, subject, queue, sid in crowd:
            self.subscribe(at, subject, queue, sid, 1000)

    # --- rules ----------------------------------------------------------------------------------------------------

    @rule(
        user=st.sampled_from(sorted(USERS[0])),
        talk=st.sampled_from(TALKS),
        echo=st.booleans(),
        sees_headers=st.sampled_from([True, True, False]),
        step=steps,
    )
    def connect(self, user: str, talk: tuple[bool, bool], echo: bool, sees_headers: bool, step: int) -> None:
        if len(self.sockets) >= 6:
            return
        verbose, pedantic = talk
        self.opened += 1
        client = Client(
            f"c{self.opened}", USERS[self.variant][user], verbose, pedantic, echo, sees_headers, sees_headers
        )
        self.sockets[client] = self.world.open()
        self._say_connect(client, step)

    @precondition(lambda self: self.sockets)
    @rule(at=which, user=st.sampled_from(sorted(USERS[0])), echo=st.booleans(), step=steps, now=rarely)
    def connect_again(self, at: int, user: str, echo: bool, step: int, now: bool) -> None:
        """S6: a second CONNECT takes the subscriptions of the first with it."""
        if not now:
            return
        client = self._pick(at)
        client.user, client.echo = USERS[self.variant][user], echo
        self._say_connect(client, step)

    def _say_connect(self, client: Client, step: int) -> None:
        line = (
            f'CONNECT {{"user":"{client.user.name}","pass":"p","verbose":{str(client.verbose).lower()},'
            f'"pedantic":{str(client.pedantic).lower()},"echo":{str(client.echo).lower()},"protocol":1,'
            f'"headers":{str(client.headers).lower()},"no_responders":{str(client.no_responders).lower()}}}\r\n'
        )
        self.sockets[client].send(line.encode(), step=step)
        self._compare(self.core.connect(client))

    @precondition(lambda self: self.sockets)
    @rule(at=which, subject=patterns, queue=queues, sid=sids, step=steps)
    def subscribe(self, at: int, subject: bytes, queue: bytes | None, sid: bytes, step: int) -> None:
        client = self._pick(at)
        words = [b"SUB", subject, *([] if queue is None else [queue]), sid]
        self.sockets[client].send(b" ".join(words) + b"\r\n", step=step)
        self._compare(self.core.subscribe(client, subject, queue, sid))

    @precondition(lambda self: self.sockets)
    @rule(at=which, sid=sids, max_msgs=st.sampled_from([0, 0, 1, 2, 5]), step=steps)
    def unsubscribe(self, at: int, sid: bytes, max_msgs: int, step: int) -> None:
        client = self._pick(at)
        limit = b" %d" % max_msgs if max_msgs else b""
        self.sockets[client].send(b"UNSUB " + sid + limit + b"\r\n", step=step)
        self._compare(self.core.unsubscribe(client, sid, max_msgs))

    @precondition(lambda self: self.sockets)
    @rule(
        at=which,
        subject=published,
        reply=replies,
        header=headers,
        payload=payloads,
        step=steps,
        times=st.integers(1, 3),
    )
    def publish(
        self, at: int, subject: bytes, reply: bytes | None, header: bytes, payload: bytes, step: int, times: int
    ) -> None:
        """Several times, because the second one takes another way through the caches."""
        client = self._pick(at)
        if not client.headers:
            header = b""
        words = [b"HPUB" if header else b"PUB", subject, *([] if reply is None else [reply])]
        sizes = [b"%d" % len(header)] if header else []
        line = b" ".join([*words, *sizes, b"%d" % (len(header) + len(payload))])
        for _ in range(times):
            self.sockets[client].send(line + b"\r\n" + header + payload + b"\r\n", step=step)
            self._compare(self.core.publish(client, subject, reply, header, payload))

    @precondition(lambda self: self.sockets)
    @rule(at=which, subjects=st.lists(common, min_size=4, max_size=8), reply=replies)
    def publish_much(self, at: int, subjects: list[bytes], reply: bytes | None) -> None:
        """To subjects that others care about, so that routes and verdicts are remembered and used again."""
        for subject in subjects:
            self.publish(at, subject, reply, b"", b"x", 1000, 2)

    @precondition(lambda self: self.sockets)
    @rule(at=which, step=steps)
    def ping(self, at: int, step: int) -> None:
        client = self._pick(at)
        self.sockets[client].send(b"PING\r\n", step=step)
        expected = Step()
        expected.sent[client].append((b"PONG",))
        self._compare(expected)

    @precondition(lambda self: self.sockets)
    @rule(at=which, ending=st.sampled_from(ENDINGS), step=steps, now=rarely)
    def break_the_protocol(self, at: int, ending: tuple[bytes, Op | None], step: int, now: bool) -> None:
        if not now:
            return
        client = self._pick(at)
        data, error = ending
        self.sockets[client].send(data, step=step)
        assert self.sockets[client].is_closed
        expected = Step()
        if error is not None:
            expected.sent[client].append(error)
        self._compare(expected)
        self.core.close(client)
        del self.sockets[client]

    @precondition(lambda self: self.sockets)
    @rule(at=which, half=st.sampled_from([b"", b"SUB a.x", b"PUB a.x 10\r\nhalf", b"CONNECT {"]), now=rarely)
    def leave(self, at: int, half: bytes, now: bool) -> None:
        """Go, perhaps in the middle of a word."""
        if not now:
            return
        client = self._pick(at)
        self.sockets[client].send(half)
        self.sockets[client].connection.close(CloseReason.CLIENT_CLOSED)
        self.core.close(client)
        self._compare(Step())
        del self.sockets[client]

    @rule(now=rarely)
    def reload(self, now: bool) -> None:
        """Other permissions for everybody who is there."""
        if not now:
            return
        self.variant = 1 - self.variant
        self.world.hub.reload(HubWorld(_config(USERS[self.variant])).options)
        self._compare(self.core.reload(USERS[self.variant]))

    # --- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def tables_agree(self) -> None:
        if not hasattr(self, "world"):
            return
        hub = self.world.hub
        assert set(hub.connections.values()) == {socket.connection for socket in self.sockets.values()}
        for name, account in hub.accounts.items():
            theirs = [s for s in account.interest.subscriptions() if s.client is not None]
            ours = [s for c in self.core.clients if c.user.account == name for s in c.subs.values()]
            assert sorted((s.subject, s.queue or b"", s.sid, s.delivered, s.max_msgs) for s in theirs) == sorted(
                (s.subject, s.queue or b"", s.sid, s.delivered, s.max_msgs) for s in ours
            )

    def _pick(self, at: int) -> Client:
        return list(self.sockets)[at % len(self.sockets)]

    def _compare(self, step: Step) -> None:
        received = {client: Counter(map(_operation, frames(socket.take()))) for client, socket in self.sockets.items()}
        self.world.queue.take_dirty()
        for client, operations in step.sent.items():
            for operation in operations:
                assert received[client][operation] > 0, f"{client.name} did not get {operation} but {received[client]}"
                received[client][operation] -= 1
        for group in step.groups:
            took = [member for member in group if received[member[0].client][member[1]] > 0]
            assert took, f"nobody of {[(s.client.name, s.sid) for s, _, _ in group]} got {group[0][1]}"
            sub, operation, reply = took[0]
            received[sub.client][operation] -= 1
            if sub.queue is not None:
                self.core.delivered(sub, reply)
        rest = {client.name: +operations for client, operations in received.items() if +operations}
        assert not rest, f"not expected: {rest}"


CoreMachine.TestCase.settings = settings(
    max_examples=settings().max_examples // 2,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
test_core_machine = pytest.mark.timeout(0 if settings().max_examples > 1000 else 60)(CoreMachine.TestCase)
