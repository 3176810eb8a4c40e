"""Servers of a meta group in one process: simulated disks, a network without sockets, threads that are steps."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from slipstream.jetstream.store.values import Job
from slipstream.replication.ids import node_id
from slipstream.replication.meta.entries import Assignment, Node
from slipstream.replication.meta.founding import Charter
from slipstream.replication.meta.group import MetaGroup
from slipstream.replication.meta.log import make_log
from slipstream.replication.meta.placement import Surroundings
from slipstream.replication.peer_calls import PeerCalls
from slipstream.replication.raft.groups import TICK_NS, Groups
from slipstream.replication.replica.files import ReplicaFiles
from slipstream.replication.servers import ClusterServers
from slipstream.testing.sim_disk import SimDisk
from support.stores import options

DIRECTORY = "/store/jetstream/meta"
Entry = Node | Assignment | None


class MetaServer:
    """One process, and its disk."""

    def __init__(self, world: MetaWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.incarnation = b""
        self.disk = _empty_disk()
        self.lives = 0
        self.is_up = False
        self.changes: list[tuple[Entry, Entry]] = []
        self.led = 0

    @property
    def id(self) -> int:
        return node_id(self.name, self.incarnation)

    def wipe(self, *, keeps_id: bool = False) -> None:
        """The process dies, and its files are gone; `keeps_id`: it comes back as if nothing had happened."""
        self.is_up = False
        self.disk = _empty_disk()
        if not keeps_id:
            self.incarnation = b"%d" % self.lives

    def start(self) -> None:
        self.lives += 1
        self.is_up = True
        self.changes.clear()
        self.was_told = False
        self.calls = PeerCalls(self.id, self.world.tell, lambda *_: None, self.call_soon, lambda *_: None)
        self.queue: list[Callable[[], None]] = []
        seed = random.Random(f"{self.world.seed} {self.name} {self.lives}").getrandbits(32)
        files = ReplicaFiles(
            self.disk,
            DIRECTORY,
            lambda: replace(options(segment_bytes=self.world.segment_bytes, seed=seed), replicated=True),
            made=f"{DIRECTORY}/log.made",
        )
        make_log(files, self.world.charter, was_made=False)
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.lines: list[str] = []
        self.groups = Groups(self, self.call_soon)
        self.meta = MetaGroup(self.id, files, self, self.groups, self, lambda: list(self.reachable))
        self.meta.start()
        self.servers = ClusterServers(
            self, self.calls, self.world.name_of, lambda: Surroundings({self.id, *self.reachable})
        )

    # --- as a place of its cluster ---

    @property
    def node(self) -> Node:
        return Node(id=self.id, name=self.name, cluster="C1", incarnation=self.incarnation)

    @property
    def reachable(self) -> dict[int, Node]:
        others = [other for other in self.world.servers.values() if other is not self and other.is_up]
        return {other.id: other.node for other in others if not {self.name, other.name} & self.world.cut_off}

    @property
    def charter(self) -> Charter:
        return self.world.charter

    @property
    def is_removed(self) -> bool:
        return self.was_told

    def leave(self) -> None:
        self.was_told = True

    def kill(self) -> None:
        """The process dies, the machine goes on."""
        self.is_up = False
        self.disk = self.disk.kill()

    def lose_power(self) -> None:
        """... and the machine does not."""
        self.is_up = False
        self.disk = self.disk.crash(self.world.rng, keep=self.world.rng.random(), torn=True)

    # --- the ports ---

    def now_ns(self) -> int:
        return self.world.ticks * TICK_NS + next(self.world.clock)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.queue.append(callback)

    def run_commit(self, job: Job, on_done: Callable[[], None]) -> None:
        self.run_blocking(job.run, on_done)

    def run_blocking(self, job: Callable[[], None], on_done: Callable[[], None]) -> None:
        def run() -> None:
            job()
            self.queue.append(on_done)

        self.queue.append(run)

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Callable[[], None]:
        timer = (self.world.ticks + max(delay_ns // TICK_NS, 1), callback)
        self.timers.append(timer)

        def cancel() -> None:
            if timer in self.timers:
                self.timers.remove(timer)

        return cancel

    def fire(self) -> None:
        """Timers that are due."""
        for timer in [timer for timer in self.timers if timer[0] <= self.world.ticks]:
            if timer in self.timers:
                self.timers.remove(timer)
                timer[1]()

    @property
    def alone(self) -> bool:
        return self.world.rng.random() < 0.5

    def flush(self) -> None:
        pass

    def log(self, level: str, text: str) -> None:
        self.lines.append(f"{level} {text}")

    def report(self, what: str, error: Exception) -> None:
        raise AssertionError(what) from error

    def random_below(self, bound: int) -> int:
        return self.world.rng.randrange(bound)

    def send(self, to: int, batch: Sequence[tuple[int, bytes]]) -> bool:
        return self.world.post(self, to, batch)

    # --- what the group tells ---

    def changed(self, old: Entry, new: Entry) -> None:
        self.changes.append((old, new))

    def leads(self) -> None:
        self.led += 1
        assert self.world.leaders.setdefault(self.meta.term, self.id) == self.id, "two led in one term"

    def steps_down(self) -> None:
        pass


class MetaWorld:
    """All servers, and time."""

    def __init__(
        self,
        seed: int = 1,
        names: Sequence[str] = ("a", "b", "c"),
        *,
        members_change: bool = False,
        segment_bytes: int = 8192,
        starts: bool = True,
    ) -> None:
        self.members_change = members_change
        self.segment_bytes = segment_bytes
        self.ticks = 0
        self.seed = seed
        self.rng = random.Random(seed)
        self.clock = itertools.count(1_000_000)
        self.charter = Charter("C1", sorted(names), b"c" * 16)
        self.servers = {name: MetaServer(self, name) for name in names}
        self.mail: list[tuple[int, int, list[tuple[int, bytes]]]] = []
        self.loss = 0.0
        self.cut_off: set[str] = set()
        self.leaders: dict[int, int] = {}  # by their terms
        for server in self.servers.values() if starts else ():
            server.start()
        self.settle()

    def named(self, number: int) -> MetaServer | None:
        return next((server for server in self.servers.values() if server.id == number), None)

    def name_of(self, number: int) -> str:
        """Also of those that were wiped since."""
        for server in self.servers.values():
            if number in (node_id(server.name), *(node_id(server.name, b"%d" % life) for life in range(server.lives))):
                return server.name
        return ""

    def tell(self, to: int, _question: bytes) -> None:
        """A server is told that it was removed, which is all that they ask here."""
        found = self.named(to)
        if found is not None:
            found.leave()

    def join(self, name: str) -> MetaServer:
        """One more, which nobody knows."""
        server = self.servers[name] = MetaServer(self, name)
        server.incarnation = b"0"
        server.start()
        return server

    def post(self, sender: MetaServer, to: int, batch: Sequence[tuple[int, bytes]]) -> bool:
        receiver = self.named(to)
        if receiver is None or {sender.name, receiver.name} & self.cut_off or not receiver.is_up:
            return False
        if self.rng.random() >= self.loss:
            self.mail.append((sender.id, to, list(batch)))
        return True

    def step(self) -> bool:
        """One thing happens, if anything can: a message, or a piece of work."""
        busy = [server for server in self.servers.values() if server.is_up and server.queue]
        if self.mail and (not busy or self.rng.random() < 0.5):
            sender, to, batch = self.mail.pop(self.rng.randrange(len(self.mail)) if self.loss else 0)
            receiver = self.named(to)
            if receiver is not None and receiver.is_up:
                receiver.groups.received(sender, batch)
            return True
        if busy:
            self.rng.choice(busy).queue.pop(0)()
            return True
        return False

    def settle(self) -> None:
        while self.step():
            pass

    def tick(self, *, settle: bool = True) -> None:
        self.ticks += 1
        for server in self.servers.values():
            if server.is_up:
                server.fire()
                server.groups.tick()
                server.meta.tick()
                if self.members_change:
                    server.servers.tick()
        if settle:
            self.settle()

    def until(self, holds: Callable[[], bool], ticks: int = 200) -> None:
        for _ in range(ticks):
            if holds():
                return
            self.tick()
        raise AssertionError("it never came to it")

    def leader(self) -> MetaServer:
        """Who leads, sooner or later, as all who can be reached see it."""
        self.until(lambda: self._leader() is not None)
        found = self._leader()
        assert found is not None
        return found

    def _leader(self) -> MetaServer | None:
        up = [server for server in self.servers.values() if server.is_up and server.name not in self.cut_off]
        for server in up:
            if server.meta.is_leader and all(other.meta.leader == server.id for other in up):
                return server
        return None

    def agree(self) -> None:
        """All servers that are up have the same state, and what they were told adds up to it."""
        up = [server for server in self.servers.values() if server.is_up]
        states = [dict(server.meta.state.keys()) for server in up]
        assert all(state == states[0] for state in states)
        for server in up:
            told: dict[object, Entry] = {}
            for old, new in server.changes:
                key = _key(old or new)
                assert told.get(key) == old
                told[key] = new
            assert {key: one for key, one in told.items() if one is not None} == {
                _key(one): one for one in states[0].values()
            }


def _empty_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_dir("/store")
    disk.sync_dir("/")
    return disk


def _key(entry: Entry) -> object:
    assert entry is not None
    return entry.id if isinstance(entry, Node) else (entry.account, entry.name)
