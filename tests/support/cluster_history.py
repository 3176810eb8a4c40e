"""Random histories of a cluster: who subscribes, publishes, is cut off or killed, and what must be delivered then.

A history is a list of steps made from a seed, so that clusters of either kind live through the same one. The model is
plain: a message reaches every matching subscription of the servers that its own server is connected to, and one member
of each queue group there. Between two points where everybody knows everything (`settle`) deliveries are exact; while
links break, nothing is delivered twice and nothing where it does not belong.

Each server is dialled by each other one through a proxy of that pair, so any pair can be cut.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nats
from nats.aio.subscription import Subscription as NatsSubscription

from slipstream.kernels.subjects.subject import matches
from support.clusters import Node, connected
from support.ports import free_port
from support.superclusters import Member, supercluster
from support.tcp_proxy import TcpProxy

PATTERNS = ("a", "b", "a.x", "a.*", "a.>", "*", ">", "b.y.z", "b.*.z", "*.x")
SUBJECTS = ("a", "b", "a.x", "a.y", "b.y.z", "b.q.z", "c.x")
QUEUES = (None, None, "g1", "g2")
SETTLE_SECONDS = 30.0
Step = tuple[str, tuple[int, ...]]


def make_history(seed: int, servers: int, length: int, *, breaks: bool = True, cuts: bool = True) -> list[Step]:
    """Steps by name, with numbers that stand for servers, subjects and so on; `cuts`: pairs can be parted."""
    rng = random.Random(seed)
    kinds = ["subscribe"] * 6 + ["unsubscribe"] * 3 + ["publish"] * 6 + ["storm"] * 2 + ["settle"] * 2
    kinds += (["cut", "heal", "restart"] if cuts else ["restart"]) if breaks else []
    steps = [(rng.choice(kinds), tuple(rng.randrange(1 << 16) for _ in range(4))) for _ in range(length)]
    pairs = [("heal", (number, 0, 0, 0)) for number in range(servers * servers if cuts else 0)]
    return [*steps, *pairs, ("settle", (0, 0, 0, 0)), ("publish", (1, 2, 3, 4)), ("settle", (0, 0, 0, 0))]


@dataclass
class Wanted:
    """A subscription of the model, and what it got."""

    server: int
    pattern: str
    queue: str | None
    handle: NatsSubscription | None = None
    got: Counter[bytes] = field(default_factory=Counter)


class ClusterHistory:
    """One cluster on its way through a history."""

    def __init__(
        self, nodes: list[Node], proxies: dict[tuple[int, int], TcpProxy], texts: list[str], *, hub: bool = False
    ) -> None:
        """Nothing has happened yet.

        Args:
            nodes: the servers.
            proxies: ways from one to another.
            texts: their configurations.
            hub: all others are leafs of the first, and reach each other through it.
        """
        self.nodes = nodes
        self._hub = hub
        self._proxies = proxies
        self._texts = texts
        self._cut: set[frozenset[int]] = set()
        self._clients: dict[int, nats.NATS] = {}
        self._wanted: list[Wanted] = []
        self._gone: list[Wanted] = []
        self._sent = 0
        self._epoch = 0
        self._subjects: dict[bytes, str] = {}  # of every message
        self._exact: dict[bytes, tuple[int, ...]] = {}  # message → servers that it must reach, since the last settling
        self._seen: dict[int, set[bytes]] = {}  # tokens of settling that a server's client heard
        self.published = self.delivered = 0

    # --- steps -------------------------------------------------------------------------------------------------------

    async def run(self, steps: list[Step]) -> None:
        """Live through all of it; raises AssertionError with what went wrong."""
        await self.begin()
        for name, numbers in steps:
            await self.do(name, *numbers)
        await self.end()

    async def begin(self) -> None:
        """A client at each server, and all servers know each other."""
        for number in range(len(self.nodes)):
            await self._connect(number)
        await self.settle()

    async def do(self, name: str, *numbers: int) -> None:
        """One step."""
        await getattr(self, f"_do_{name}")(*numbers)

    async def end(self) -> None:
        """Nobody wants anything any more, and all clients leave."""
        for wanted in list(self._wanted):
            await self._drop(wanted)
        await self.settle()
        for client in self._clients.values():
            await client.close()

    def heal_all(self) -> None:
        """All ways are open again."""
        for pair in self._cut:
            for way in self._ways(pair):
                way.heal()
        self._cut.clear()
        self._exact.clear()

    def forget_past(self) -> None:
        """What was checked need not be kept: a long history would be nothing but its memory."""
        self._gone.clear()
        for wanted in self._wanted:
            wanted.got.clear()
        for seen in self._seen.values():
            seen.clear()
        for node in self.nodes:
            node.lines.clear()

    async def _do_subscribe(self, a: int, b: int, c: int, _d: int) -> None:
        number = a % len(self.nodes)
        wanted = Wanted(number, PATTERNS[b % len(PATTERNS)], QUEUES[c % len(QUEUES)])

        async def take(message: nats.aio.msg.Msg) -> None:
            if not message.subject.startswith("settle."):
                wanted.got[message.data] += 1
                self.delivered += 1

        client = self._clients[number]
        wanted.handle = await client.subscribe(wanted.pattern, queue=wanted.queue or "", cb=take)
        await client.flush()
        self._exact.clear()  # who is asked from here on depends on when others hear of it
        self._wanted.append(wanted)

    async def _do_unsubscribe(self, a: int, _b: int, _c: int, _d: int) -> None:
        if self._wanted:
            await self._drop(self._wanted[a % len(self._wanted)])

    async def _do_settle(self, _a: int, _b: int, _c: int, _d: int) -> None:
        await self.settle()

    async def _do_publish(self, a: int, b: int, c: int, _d: int) -> None:
        """A settled cluster delivers exactly."""
        await self.settle()
        for place in range(1 + c % 5):
            await self._publish((a + place) % len(self.nodes), SUBJECTS[(b + place) % len(SUBJECTS)], exact=True)
        await self._arrived()
        self._check()

    async def _do_storm(self, a: int, b: int, c: int, _d: int) -> None:
        """Messages while nobody waits for anything to be known."""
        for place in range(1 + c % 20):
            await self._publish((a + place) % len(self.nodes), SUBJECTS[(b + place) % len(SUBJECTS)], exact=False)

    async def _do_cut(self, a: int, b: int, c: int, d: int) -> None:
        pair = self._pair(a, b)
        await self._do_storm(c, d, 5, 0)
        self._cut.add(pair)
        for way in self._ways(pair):
            way.cut()
        self._exact.clear()

    async def _do_heal(self, a: int, b: int, _c: int, _d: int) -> None:
        pair = self._pair(a, b)
        self._cut.discard(pair)
        for way in self._ways(pair):
            way.heal()
        self._exact.clear()

    async def _do_restart(self, a: int, b: int, _c: int, _d: int) -> None:
        number = a % len(self.nodes)
        await self._do_storm(number, b, 10, 0)
        for wanted in [one for one in self._wanted if one.server == number]:
            self._wanted.remove(wanted)
            self._gone.append(wanted)
        await self._clients.pop(number).close()
        await self.nodes[number].stop()
        self._exact.clear()
        await self.nodes[number].start(self._texts[number])
        await self._connect(number)

    # --- what it takes -----------------------------------------------------------------------------------------------

    def _pair(self, a: int, b: int) -> frozenset[int]:
        size = len(self.nodes)
        if self._hub:
            return frozenset((0, 1 + (a + b) % (size - 1)))
        first = a % size
        return frozenset((first, (first + 1 + b % (size - 1)) % size))

    def _ways(self, pair: frozenset[int]) -> list[TcpProxy]:
        first, second = pair
        return [self._proxies[way] for way in ((first, second), (second, first)) if way in self._proxies]

    def _reached(self, number: int) -> list[int]:
        others = (other for other in range(len(self.nodes)) if other != number)
        if self._hub:
            parted = {leaf for pair in self._cut for leaf in pair if leaf}
            return [number, *(other for other in others if number not in parted and other not in parted)]
        return [number, *(other for other in others if frozenset((number, other)) not in self._cut)]

    async def _connect(self, number: int) -> None:
        client = await connected(self.nodes[number].url)
        self._clients[number] = client
        self._seen[number] = set()

        async def note(message: nats.aio.msg.Msg) -> None:
            self._seen[number].add(message.data)

        await client.subscribe(f"settle.{number}.*", cb=note)

    async def _drop(self, wanted: Wanted) -> None:
        assert wanted.handle is not None
        await wanted.handle.unsubscribe()
        await self._clients[wanted.server].flush()
        self._wanted.remove(wanted)
        self._gone.append(wanted)
        self._exact.clear()

    async def _publish(self, number: int, subject: str, *, exact: bool) -> None:
        self._sent += 1
        self.published += 1
        name = b"%d" % self._sent
        self._subjects[name] = subject
        if exact:
            self._exact[name] = tuple(self._reached(number))
        await self._clients[number].publish(subject, name)

    async def settle(self) -> None:
        """Wait until every server knows what all that it is connected to want, and links are as they shall be."""
        self._epoch += 1
        fresh = []
        for number, client in self._clients.items():

            async def note(message: nats.aio.msg.Msg, number: int = number) -> None:
                self._seen[number].add(message.data)

            # Interest is told in order: who knows of this one knows of all that was asked for before.
            fresh.append(await client.subscribe(f"settle.new.{self._epoch}.{number}", cb=note))
            await client.flush()
        await self._exchange(f"settle.new.{self._epoch}.")
        for subscription in fresh:
            await subscription.unsubscribe()
        for client in self._clients.values():
            await client.flush()

    async def _arrived(self) -> None:
        """Wait until what was published before is delivered: it comes the same way, in order."""
        self._epoch += 1
        await self._exchange("settle.", f".{self._epoch}", repeats=False)

    async def _exchange(self, prefix: str, suffix: str = "", *, repeats: bool = True) -> None:
        size = len(self.nodes)
        ways = [(a, b) for a in range(size) for b in self._reached(a)]
        loop, missing = asyncio.get_running_loop(), ways
        end = loop.time() + SETTLE_SECONDS
        first = True
        while missing:
            if repeats or first:
                for a, b in missing:
                    await self._clients[a].publish(f"{prefix}{b}{suffix}", b"%d %d" % (self._epoch, a))
                for client in self._clients.values():
                    await client.flush()
            first = False
            missing = [(a, b) for a, b in missing if b"%d %d" % (self._epoch, a) not in self._seen[b]]
            assert loop.time() < end, f"servers never heard of each other: {missing}, cut: {self._cut}"
            if missing:
                await asyncio.sleep(0.02)

    def _check(self) -> None:
        for wanted in (*self._wanted, *self._gone):
            for name, count in wanted.got.items():
                assert count == 1, f"{self._subjects[name]} came {count} times to {wanted.pattern}"
                subject = self._subjects[name]
                assert matches(wanted.pattern.encode(), subject.encode()), f"{subject} came to {wanted.pattern}"
        for name, servers in self._exact.items():
            self._check_exact(name, servers)
        everything = (*self._wanted, *self._gone)
        for group in {one.queue for one in everything if one.queue}:
            members = [one for one in everything if one.queue == group]
            for pattern in {one.pattern for one in members}:
                taken: Counter[bytes] = Counter()
                for one in members:
                    if one.pattern == pattern:
                        taken.update(one.got)
                assert all(count == 1 for count in taken.values()), f"two of group {group} got one message"

    def _check_exact(self, name: bytes, servers: tuple[int, ...]) -> None:
        subject = self._subjects[name]
        asked = [one for one in self._wanted if matches(one.pattern.encode(), subject.encode())]
        for one in asked:
            if one.queue is None:
                expected = 1 if one.server in servers else 0
                assert one.got[name] == expected, (
                    f"{subject} of servers {servers} came {one.got[name]} times to {one.pattern} at {one.server}"
                )
        for queue in {one.queue for one in asked if one.queue}:
            members = [one for one in asked if one.queue == queue]
            reached = any(one.server in servers for one in members)
            taken = sum(one.got[name] for one in members)
            assert taken == (1 if reached else 0), f"{subject}: {taken} members of {queue} got it"


def leaked_interest(history: ClusterHistory) -> list[bytes]:
    """What our servers believe that others want, when nobody wants anything any more."""
    found = set[bytes]()
    for node in history.nodes:
        if node.server is not None:
            for one in node.server.hub.accounts["$G"].interest.subscriptions():
                if one.link is not None and not one.subject.startswith((b"settle.", b"$", b"_GR_.")):
                    found.add(one.subject)
    return sorted(found)


@asynccontextmanager
async def _living(nodes: list[Node], proxies: dict[tuple[int, int], TcpProxy]) -> AsyncIterator[None]:
    """Ways that are open, and the end of all that was started."""
    try:
        for proxy in proxies.values():
            await proxy.start()
        yield
    finally:
        for node in nodes:
            await node.stop()
        for proxy in proxies.values():
            await proxy.stop()


@asynccontextmanager
async def history_cluster(kinds: str, directory: Path) -> AsyncIterator[ClusterHistory]:
    """Servers that dial each other through proxies."""
    nodes = [Node(kind, number, directory) for number, kind in enumerate(kinds)]
    places = range(len(nodes))
    proxies = {(a, b): TcpProxy(nodes[b].route_port) for a in places for b in places if a != b}
    async with _living(nodes, proxies):
        texts = []
        for a, node in enumerate(nodes):
            routes = [f"nats://127.0.0.1:{proxies[a, b].port}" for b in places if b != a]
            # What others hear of it leads nowhere: a way around a cut would spoil the test.
            text = node.text(routes, f'advertise: "127.0.0.1:{free_port()}"')
            texts.append(text)
            await node.start(text)
        yield ClusterHistory(nodes, proxies, texts)


@asynccontextmanager
async def history_leafs(kinds: str, directory: Path) -> AsyncIterator[ClusterHistory]:
    """A hub, and servers that are leafs of it through proxies."""
    nodes = [Node(kind, number, directory) for number, kind in enumerate(kinds)]
    leaf_port = free_port()
    proxies = {(number, 0): TcpProxy(leaf_port) for number in range(1, len(nodes))}
    async with _living(nodes, proxies):
        texts = []
        for number, node in enumerate(nodes):
            block = f'listen: "127.0.0.1:{leaf_port}"'
            if number:
                url = f"nats-leaf://127.0.0.1:{proxies[number, 0].port}"
                # What the hub tells of itself would be a way around a cut.
                block = f'reconnect: "50ms", remotes [{{ url: "{url}", ignore_discovered_servers: true }}]'
            text = f'listen: "127.0.0.1:{node.client_port}"\nserver_name: {node.name}\nleafnodes {{ {block} }}\n'
            texts.append(text)
            await node.start(text)
        yield ClusterHistory(nodes, proxies, texts, hub=True)


@asynccontextmanager
async def history_pair(kinds: str, directory: Path) -> AsyncIterator[ClusterHistory]:
    """Two clusters of one server each that dial each other's gateways through proxies.

    Three could not be parted: who is told of a cluster by a second one learns the second one's way to it.
    """
    members = [Member(Node(kind, number, directory), "AB"[number]) for number, kind in enumerate(kinds)]
    nodes = [member.node for member in members]
    proxies = {(a, b): TcpProxy(members[b].gateway_port) for a, b in ((0, 1), (1, 0))}
    async with _living(nodes, proxies):
        for a, b in proxies:
            remotes = {members[b].cluster: [f"nats://127.0.0.1:{proxies[a, b].port}"]}
            members[a].compose([], remotes, f'advertise: "127.0.0.1:{free_port()}"', "")
        for member in members:
            await member.start()
        yield ClusterHistory(nodes, proxies, [member.text for member in members])


@asynccontextmanager
async def history_supercluster(kinds: str, directory: Path) -> AsyncIterator[ClusterHistory]:
    """Clusters of any number of servers; nothing can be parted, servers may go and come back."""
    async with supercluster(kinds, directory) as whole:
        yield ClusterHistory([member.node for member in whole.members], {}, [member.text for member in whole.members])
