"""Random permissions at every entrance and on every way of delivery: what is allowed on the concrete subject comes.

A witness who may have everything sees each message first; then everybody is asked what came to him. A message reaches
all subscriptions of a server in one step, so what a reader does not have then, he does not get.

Short form: two worlds. Long form (`-m long`): forty.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from models.permissions import Rules
from slipstream.testing import ServerThread
from support.config_loading import options as load_text
from support.entrances import Client, Received, http_publish
from support.permitted_readers import CONCRETE, READERS, Reader, check_deliveries, entries, rules
from tlsfiles import Authority

DOORS = ("tcp", "tls", "websocket")
WAIT_S = 30.0
LATER = "NATS/1.0\r\nNats-Schedule: @at 2020-01-01T00:00:00Z\r\nNats-Schedule-Target: schedule.{0}\r\n\r\n"
TRACE = "NATS/1.0\r\nNats-Trace-Dest: {0}\r\nNats-Trace-Only: true\r\n\r\n"
# Ways through a stream of that name, with what a message to `name.x.y` needs besides.
AGAIN = {"src": "*.*.*", "dest": "{{wildcard(2)}}.{{wildcard(3)}}"}
STREAMS: dict[str, dict[str, object]] = {
    "republish": {"republish": AGAIN},
    "origin": {},
    "mirror": {"mirror": {"name": "origin"}, "republish": AGAIN},
    "copied": {},
    "source": {"sources": [{"name": "copied"}], "republish": AGAIN},
    "schedule": {"allow_msg_schedules": True, "republish": {"src": "schedule.*.*", "dest": "$1.$2"}},
    "push": {},
    "pull": {},
    "dead": {},
    "direct": {"allow_direct": True},
    "ack": {},
}


class World:
    """A server with all doors, one behind it and one whose link has a reader's rights."""

    def __init__(self, stack: ExitStack, directory: Path, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.reads = [rules(rng) for _ in range(READERS)]
        self.writes = [Rules([(p, None) for p, _ in r.allow or []] or None, [(p, None) for p, _ in r.deny])
                       for r in (rules(rng) for _ in range(READERS))]  # fmt: skip
        authority = Authority(directory)
        self.tls = authority.client_context()
        users = "\n".join(
            f"{{ user: r{number}, password: x, "
            f"permissions: {{ subscribe: {entries(read)}, publish: {entries(write)} }} }}"
            for number, (read, write) in enumerate(zip(self.reads, self.writes, strict=True))
        )
        text = f"""
            listen: "127.0.0.1:-1"
            tls {{ {authority.issue("127.0.0.1").block} }}
            allow_non_tls: true
            websocket {{ listen: "127.0.0.1:-1", no_tls: true }}
            http_api {{ listen: "127.0.0.1:-1" }}
            leafnodes {{ listen: "127.0.0.1:-1" }}
            jetstream {{ store_dir: "{directory}" }}
            accounts {{
              A {{
                jetstream: enabled
                users = [ {{ user: all, password: x }}
                          {users} ]
                mappings = {{ "map.*.*": "$1.$2" }}
                exports = [ {{ service: "*.*" }} ]
                imports = [ {{ stream: {{ account: B, subject: "out.*.*" }}, to: "$1.$2" }}
                            {{ service: {{ account: B, subject: "far.svc" }}, to: "near.svc" }} ]
              }}
              B {{
                users = [ {{ user: other, password: x }} ]
                exports = [ {{ stream: "out.*.*" }}, {{ service: "far.svc" }} ]
                imports = [ {{ service: {{ account: A, subject: "*.*" }}, to: "ask.*.*" }} ]
              }}
            }}
        """
        self.server = stack.enter_context(ServerThread(load_text(text)))
        self._stack = stack
        leafs = self.server.server.leafnodes
        assert leafs is not None
        self._leaf_port = leafs.port
        self.behind, self.limited = self._leaf("all"), self._leaf("r0")
        self.witness = self.client("all")
        self.witness.send(b"SUB > 1\r\n")
        for sid, subject in enumerate(CONCRETE, 2):  # a push consumer is bound by who listens to its very subject
            self.witness.send(f"SUB {subject} {sid}\r\n".encode())
        self.witness.sync()

    def _leaf(self, user: str) -> ServerThread:
        remote = f'leafnodes {{ remotes: [{{ url: "nats://{user}:x@127.0.0.1:{self._leaf_port}" }}] }}'
        return self._stack.enter_context(ServerThread(load_text(f'listen: "127.0.0.1:-1"\n{remote}')))

    def client(self, user: str, door: str = "tcp", at: ServerThread | None = None) -> Client:
        server = (at or self.server).server
        port = server.port
        if door == "websocket":
            assert server.websocket is not None
            port = server.websocket.port
        made = Client(port, user, door=door, tls=self.tls)
        self._stack.callback(made.close)
        made.sync()
        return made

    @property
    def http_port(self) -> int:
        api = self.server.server.http_api
        assert api is not None
        return api.port

    def witnessed(self) -> list[Received]:
        """What the witness has got by now, once each."""
        return [one for one in self.witness.sync()[0] if one.sid == 1]

    def seen(self, count: int, is_one: Callable[[Received], bool]) -> list[Received]:
        """Wait until the witness has got so many of them."""
        found: list[Received] = []
        everything: list[Received] = []
        deadline = time.monotonic() + WAIT_S
        while len(found) < count:
            came = self.witnessed()
            everything += came
            found += [one for one in came if is_one(one)]
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {count}: {everything[-10:]}")
        return found


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def ways(world: World) -> dict[str, Callable[[str], None]]:
    """How a message comes to a subject of account A; the body says which way and which subject."""

    def lines(client: Client, to: str, *, way: str, head: str = "") -> Callable[[str], None]:
        def send(subject: str) -> None:
            body, fields = f"{way}:{subject}" if way else "", head.format(subject)
            sizes = f"{len(fields)} {len(fields) + len(body)}" if head else len(body)
            client.send(f"{'HPUB' if head else 'PUB'} {to.format(subject)} {sizes}\r\n{fields}{body}\r\n".encode())

        return send

    out: dict[str, Callable[[str], None]] = {}
    doors = {door: world.client("all", door) for door in DOORS}
    for door, client in doors.items():
        out[door] = lines(client, "{}", way=door)
    writer, other = doors["tcp"], world.client("other")
    behind = world.client("", at=world.behind)
    out["leaf"] = lines(behind, "{}", way="leaf")
    out["http"] = lambda subject: _published(world, subject)
    out["mapping"] = lines(writer, "map.{}", way="mapping")
    out["import"] = lines(other, "out.{}", way="import")
    out["request"] = lines(other, "ask.{}", way="request")
    for way in ("republish", "push"):
        out[way] = lines(writer, f"{way}.{{}}", way=way)
    out["mirror"] = lines(writer, "origin.{}", way="mirror")
    out["source"] = lines(writer, "copied.{}", way="source")
    out["schedule"] = lines(writer, "planned.{}", way="schedule", head=LATER)
    out["direct"] = lines(writer, "$JS.API.DIRECT.GET.direct.direct.{0} {0}", way="")
    out["ack"] = lines(writer, "ack.{0} {0}", way="stored")
    out["api"] = lines(writer, "$JS.API.INFO {0}", way="")
    terminator = world.client("all")
    terminator.send("".join(f"SUB dying.{name} {sid}\r\n" for sid, name in enumerate(CONCRETE)).encode())

    def pull(subject: str) -> None:
        lines(writer, "pull.{}", way="pull")(subject)
        writer.send(f"PUB $JS.API.CONSUMER.MSG.NEXT.pull.all {subject} 0\r\n\r\n".encode())

    def die(subject: str) -> None:
        lines(writer, "dead.{}", way="dead")(subject)
        terminator.send(f"PUB {_next(terminator).reply} 5\r\n+TERM\r\n".encode())

    out |= {"pull": pull, "dead": die}
    other.send(b"SUB far.svc 1\r\n")
    other.sync()

    def service(subject: str) -> None:
        lines(writer, "near.svc {}", way="answer")(subject)
        asked = _next(other)
        other.send(f"PUB {asked.reply} {len(asked.body)}\r\n".encode() + asked.body + b"\r\n")

    out["answer"] = service

    def trace(subject: str) -> None:
        head = TRACE.format(subject)
        writer.send(f"HPUB nobody {len(head)} {len(head)}\r\n{head}\r\n".encode())

    out["trace"] = trace
    return out


def _next(client: Client) -> Received:
    """The one message that is on its way."""
    came: list[Received] = []
    deadline = time.monotonic() + WAIT_S
    while not came:
        came = client.sync()[0]
        assert time.monotonic() < deadline, "nothing came"
    (one,) = came
    return one


def _published(world: World, subject: str) -> None:
    assert http_publish(world.http_port, "all", subject, f"http:{subject}".encode()) == 204


def make_streams(world: World) -> None:
    """One that publishes again, and one whose consumers push to each of the subjects."""
    import slipstream

    with slipstream.connect(f"nats://all:x@127.0.0.1:{world.server.server.port}") as client:

        def ask(call: str, **body: object) -> None:
            answer = json.loads(client.request(f"$JS.API.{call}", json.dumps(body).encode(), timeout=60).data)
            assert "error" not in answer, answer

        def subjects_of(name: str) -> list[str]:
            return [f"{name}.>", "planned.>"] if name == "schedule" else [f"{name}.>"]

        for name, more in STREAMS.items():
            copies = "mirror" in more or "sources" in more
            ask(
                f"STREAM.CREATE.{name}",
                name=name,
                subjects=[] if copies else subjects_of(name),
                storage="memory",
                **more,
            )

        def add(stream: str, name: str, **config: object) -> None:
            config = {"durable_name": name, "ack_policy": "none", **config}
            ask(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", stream_name=stream, config=config)

        add("pull", "all")
        for subject in CONCRETE:
            name = subject.replace(".", "-")
            add("push", name, deliver_subject=subject, filter_subject=f"push.{subject}")
            dying = {"deliver_subject": f"dying.{subject}", "filter_subject": f"dead.{subject}"}
            add("dead", name, ack_policy="explicit", metadata={"slipstream.dlq": subject}, **dying)
            client.request(f"direct.{subject}", f"direct:{subject}".encode(), timeout=60)


def came_to(way: str, one: Received) -> str | None:
    """The subject that a message came to on a way; None if it is another message."""
    if way == "trace":
        return one.subject if one.subject in CONCRETE and one.body.startswith(b'{"server"') else None
    if way in ("api", "ack"):
        start = b'{"type"' if way == "api" else b'{"stream":"ack"'
        return one.subject if one.subject in CONCRETE and one.body.startswith(start) else None
    said, _, subject = one.body.decode(errors="replace").partition(":")
    if said != way:
        return None
    if way in ("push", "pull"):
        return subject if one.reply.startswith("$JS.ACK.") else None
    return subject if one.subject == subject else None


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 3, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, *range(4, 43)))])
def test_delivered_is_what_is_allowed(stack: ExitStack, tmp_path: Path, seed: int) -> None:
    """CVE-2022-29946, advisories 2026-17, 2026-18, 2026-26, on all ways at once."""
    world = World(stack, tmp_path, seed)
    make_streams(world)
    readers = [
        Reader(world.rng, granted, world.client(f"r{number}", DOORS[number % len(DOORS)]))
        for number, granted in enumerate(world.reads)
    ]
    for way, send in ways(world).items():
        if way == "leaf":
            _until_heard(world, send)
        for reader in readers:
            reader.client.sync()
        for subject in CONCRETE:
            send(subject)
        world.seen(len(CONCRETE), lambda one, way=way: came_to(way, one) is not None)  # type: ignore[misc]
        assert not check_deliveries(way, readers, came_to)
    # Not before: a server that a traced message could go to writes a trace as well.
    _check_limited_link(world, _behind_limited_link(world))
    _check_publishing(world)


def _until_heard(world: World, send: Callable[[str], None]) -> None:
    """Interest has to reach the server behind the link first."""
    deadline = time.monotonic() + WAIT_S
    while not any(came_to("leaf", one) for one in world.witnessed()):
        send(CONCRETE[0])
        assert time.monotonic() < deadline, "the link does not come up"
    # What was sent meanwhile has come when one more has.
    send("c.c")
    world.seen(1, lambda one: came_to("leaf", one) == "c.c")


def _behind_limited_link(world: World) -> Client:
    client = world.client("", at=world.limited)
    for sid, subject in enumerate([*CONCRETE, "ready"], 1):
        client.send(f"SUB {subject} {sid}\r\n".encode())
    client.send(b"SUB > 99\r\n")
    client.sync()
    return client


def _check_limited_link(world: World, client: Client) -> None:
    """A server whose link has the rights of a reader hears what he may, and no more."""
    rule = world.reads[0]
    granted = {subject for subject in CONCRETE if rule.grants(subject.encode(), None)}
    writer = world.client("all")
    heard: set[str] = set()
    forbidden: set[str] = set()
    rounds, deadline = 0, time.monotonic() + WAIT_S
    # Interest travels: the same is said until all that may come has come, and then once more for what may not.
    while heard != granted or rounds < 3:
        for subject in CONCRETE:
            writer.send(f"PUB {subject} 1\r\nx\r\n".encode())
        writer.sync()
        for one in client.sync()[0]:
            heard.add(one.subject)
            forbidden |= {one.subject} - granted
        assert not forbidden, (forbidden, rule)
        assert time.monotonic() < deadline, (granted - heard, rule)
        rounds += 1


def _check_publishing(world: World) -> None:
    """What a user publishes gets through exactly where he may publish, at every door."""
    for number, rule in enumerate(world.writes):
        for door in (*DOORS, "http"):
            allowed = [subject for subject in CONCRETE if rule.grants(subject.encode(), None)]
            mark = f"{door} of {number}"
            if door == "http":
                codes = [http_publish(world.http_port, f"r{number}", one, mark.encode()) for one in CONCRETE]
                assert codes == [204 if one in allowed else 403 for one in CONCRETE], (rule, codes)
            else:
                client = world.client(f"r{number}", door)
                client.send(b"".join(f"PUB {one} {len(mark)}\r\n{mark}\r\n".encode() for one in CONCRETE))
                _, errors = client.sync()
                refused = re.findall(r'Publish to "([^"]*)"', " ".join(errors))
                assert refused == [one for one in CONCRETE if one not in allowed], (door, rule)
            came = [one.subject for one in world.witnessed() if one.body == mark.encode()]
            assert came == allowed, (door, rule)


def test_who_may_answer_may_do_so_as_often_as_it_says(stack: ExitStack) -> None:
    """A reply subject that nobody may publish to is open for as many answers as are allowed, at every door."""
    rng = random.Random(5)
    users = "\n".join(
        f'{{ user: r{most}, password: x, permissions: {{ publish: {{ deny: ">" }}, '
        f'allow_responses: {{ max: {most}, expires: "1m" }} }} }}'
        for most in (1, 2, 3)
    )
    text = f"""
        listen: "127.0.0.1:-1"
        websocket {{ listen: "127.0.0.1:-1", no_tls: true }}
        accounts {{ A {{ users = [ {{ user: all, password: x }}, {users.replace(chr(10), ",")} ] }} }}
    """
    server = stack.enter_context(ServerThread(load_text(text))).server
    assert server.websocket is not None
    asker = Client(server.port, "all")
    stack.callback(asker.close)
    asker.send(b"SUB in.* 1\r\n")
    for most in (1, 2, 3):
        for door, port in (("tcp", server.port), ("websocket", server.websocket.port)):
            service = Client(port, f"r{most}", door=door)
            stack.callback(service.close)
            service.send(f"SUB svc.{most}.{door} 1\r\n".encode())
            service.sync()
            for _ in range(3):
                reply, tries = f"in.{rng.randrange(10**9)}", rng.randint(0, 5)
                service.send(f"PUB {reply} 1\r\n0\r\n".encode())  # nobody has asked yet
                service.sync()
                asker.send(f"PUB svc.{most}.{door} {reply} 1\r\n?\r\n".encode())
                asker.sync()
                service.sync()
                service.send(f"PUB {reply} 1\r\n1\r\n".encode() * tries)
                _, errors = service.sync()
                came = [one.body for one in asker.sync()[0] if one.subject == reply]
                assert came == [b"1"] * min(tries, most)
                assert len(errors) == max(tries - most, 0)
