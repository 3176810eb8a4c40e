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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from models import subject as subjects
from models.permissions import Rules
from slipstream.testing import ServerThread
from support.config_loading import options as load_text
from support.entrances import Client, Received, http_publish
from tlsfiles import Authority

WORDS = ("a", "b", "c")
CONCRETE = [f"{one}.{two}" for one in WORDS for two in WORDS]
QUEUES = (None, None, "q1", "q2", "v.1")
QUEUE_RULES = (None, None, None, "q1", "v.*", "*", ">")
DOORS = ("tcp", "tls", "websocket")
READERS = 6
WAIT_S = 30.0
TRACE = "NATS/1.0\r\nNats-Trace-Dest: {0}\r\nNats-Trace-Only: true\r\n\r\n"


def pattern(rng: random.Random) -> str:
    return f"{rng.choice((*WORDS, '*'))}.{rng.choice((*WORDS, '*', '>'))}"


def coded(queue: str | None) -> bytes | None:
    return None if queue is None else queue.encode()


def rules(rng: random.Random) -> Rules:
    def some(most: int) -> list[tuple[bytes, bytes | None]]:
        queues = [rng.choice(QUEUE_RULES) for _ in range(rng.randint(0, most))]
        return [(pattern(rng).encode(), coded(queue)) for queue in queues]

    return Rules(some(5) or None if rng.random() < 0.5 else None, some(3))


def entries(made: Rules) -> str:
    """As a block of the configuration."""
    allow, deny = made.as_entries()
    allowed = "" if allow is None else f"allow: {json.dumps(allow)}, "
    return f"{{ {allowed}deny: {json.dumps(deny)} }}"


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
                imports = [ {{ stream: {{ account: B, subject: "out.*.*" }}, to: "$1.$2" }}
                            {{ service: {{ account: B, subject: "far.svc" }}, to: "near.svc" }} ]
              }}
              B {{
                users = [ {{ user: other, password: x }} ]
                exports = [ {{ stream: "out.*.*" }}, {{ service: "far.svc" }} ]
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

    def lines(client: Client, text: str, to: Callable[[str], str], *, way: str) -> Callable[[str], None]:
        def send(subject: str) -> None:
            body = f"{way}:{subject}"
            client.send(f"{text} {to(subject)} {len(body)}\r\n{body}\r\n".encode())

        return send

    out: dict[str, Callable[[str], None]] = {}
    doors = {door: world.client("all", door) for door in DOORS}
    for door, client in doors.items():
        out[door] = lines(client, "PUB", str, way=door)
    writer, other = doors["tcp"], world.client("other")
    behind = world.client("", at=world.behind)
    out["leaf"] = lines(behind, "PUB", str, way="leaf")
    out["http"] = lambda subject: _published(world, subject)
    out["mapping"] = lines(writer, "PUB", lambda subject: f"map.{subject}", way="mapping")
    out["import"] = lines(other, "PUB", lambda subject: f"out.{subject}", way="import")
    out["republish"] = lines(writer, "PUB", lambda subject: f"rp.{subject}", way="republish")
    out["push"] = lines(writer, "PUB", lambda subject: f"pd.{subject}", way="push")
    other.send(b"SUB far.svc 1\r\n")
    other.sync()

    def service(subject: str) -> None:
        lines(writer, "PUB", lambda subject: f"near.svc {subject}", way="answer")(subject)
        asked: list[Received] = []
        while not asked:
            asked = other.sync()[0]
        other.send(f"PUB {asked[0].reply} {len(asked[0].body)}\r\n".encode() + asked[0].body + b"\r\n")

    out["answer"] = service

    def trace(subject: str) -> None:
        head = TRACE.format(subject)
        writer.send(f"HPUB nobody {len(head)} {len(head)}\r\n{head}\r\n".encode())

    out["trace"] = trace
    return out


def _published(world: World, subject: str) -> None:
    assert http_publish(world.http_port, "all", subject, f"http:{subject}".encode()) == 204


def make_streams(world: World) -> None:
    """One that publishes again, and one whose consumers push to each of the subjects."""
    import slipstream

    with slipstream.connect(f"nats://all:x@127.0.0.1:{world.server.server.port}") as client:

        def ask(call: str, **body: object) -> None:
            answer = json.loads(client.request(f"$JS.API.{call}", json.dumps(body).encode(), timeout=60).data)
            assert "error" not in answer, answer

        again = {"src": "rp.*.*", "dest": "{{wildcard(1)}}.{{wildcard(2)}}"}
        ask("STREAM.CREATE.RP", name="RP", subjects=["rp.>"], republish=again, storage="memory")
        ask("STREAM.CREATE.PD", name="PD", subjects=["pd.>"], storage="memory")
        for subject in CONCRETE:
            name = subject.replace(".", "-")
            config = {"durable_name": name, "deliver_subject": subject, "filter_subject": f"pd.{subject}"}
            ask(f"CONSUMER.DURABLE.CREATE.PD.{name}", stream_name="PD", config={**config, "ack_policy": "none"})


def came_to(way: str, one: Received) -> str | None:
    """The subject that a message came to on a way; None if it is another message."""
    if way == "trace":
        return one.subject if one.subject in CONCRETE and one.body.startswith(b'{"server"') else None
    said, _, subject = one.body.decode(errors="replace").partition(":")
    if said != way:
        return None
    if way == "push":
        return subject if one.reply.startswith("$JS.ACK.") else None
    return subject if one.subject == subject else None


class Reader:
    """Somebody with random subscriptions."""

    def __init__(self, world: World, number: int, door: str) -> None:
        rng = world.rng
        self.rules = world.reads[number]
        self.client = world.client(f"r{number}", door)
        self.subs: dict[int, tuple[str, str | None]] = {}
        wanted = [*CONCRETE, ">", "*.*", *(pattern(rng) for _ in range(6))]
        for sid, subject in enumerate(wanted, 1):
            queue = rng.choice(QUEUES)
            self.client.send(f"SUB {subject} {queue or ''} {sid}\r\n".encode())
            refused = bool(self.client.sync()[1])
            if subject in CONCRETE:
                # A subscription to the very subject is granted exactly when the rules grant it.
                granted = self.rules.grants(subject.encode(), coded(queue))
                assert refused is not granted, (subject, queue, self.rules)
            if not refused:
                self.subs[sid] = (subject, queue)

    def may_have(self, sid: int, subject: str) -> bool:
        wanted, queue = self.subs[sid]
        return subjects.matches(wanted.encode(), subject.encode()) and self.rules.grants(subject.encode(), coded(queue))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 43))])
def test_delivered_is_what_is_allowed(stack: ExitStack, tmp_path: Path, seed: int) -> None:
    """CVE-2022-29946, advisories 2026-17, 2026-18, 2026-26, on all ways at once."""
    world = World(stack, tmp_path, seed)
    make_streams(world)
    readers = [Reader(world, number, DOORS[number % len(DOORS)]) for number in range(READERS)]
    for way, send in ways(world).items():
        if way == "leaf":
            _until_heard(world, send)
        for reader in readers:
            reader.client.sync()
        for subject in CONCRETE:
            send(subject)
        world.seen(len(CONCRETE), lambda one, way=way: came_to(way, one) is not None)  # type: ignore[misc]
        group: Counter[tuple[str, str]] = Counter()
        may: set[tuple[str, str]] = set()
        for reader in readers:
            came = Counter((one.sid, came_to(way, one)) for one in reader.client.sync()[0])
            for sid, (_, queue) in reader.subs.items():
                for subject in CONCRETE:
                    allowed, times = reader.may_have(sid, subject), came[sid, subject]
                    if queue is None:
                        assert times == allowed, (way, subject, reader.subs[sid], reader.rules)
                        continue
                    assert times <= allowed, (way, subject, reader.subs[sid], reader.rules)
                    group[queue, subject] += times
                    may |= {(queue, subject)} if allowed else set()
        # One of each queue group has it, if any member may.
        assert {place: times for place, times in group.items() if times} == dict.fromkeys(may, 1), way
    # Not before: a server that a traced message could go to writes a trace as well.
    _check_limited_link(world, _behind_limited_link(world))
    _check_publishing(world)


def _until_heard(world: World, send: Callable[[str], None]) -> None:
    """Interest has to reach the server behind the link first."""
    while not any(came_to("leaf", one) for one in world.witnessed()):
        send(CONCRETE[0])
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
    rounds = 0
    # Interest travels: the same is said until all that may come has come, and then once more for what may not.
    while heard != granted or rounds < 3:
        for subject in CONCRETE:
            writer.send(f"PUB {subject} 1\r\nx\r\n".encode())
        writer.sync()
        for one in client.sync()[0]:
            heard.add(one.subject)
            forbidden |= {one.subject} - granted
        assert not forbidden, (forbidden, rule)
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
