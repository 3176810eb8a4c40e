"""Servers of a cluster without sockets or processes: real accounts, streams and groups over simulated disks.

Every node has its account, its API and its replica of the stream `S`. A network with a seed lies between them: batches
are lost, delayed and overtaken, links are cut. Time moves by `step`: one tick for all, what arrives, what disks do.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from slipstream_raft import GroupStopped

from slipstream.jetstream.config.stored import to_stored
from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.config.validate import checked
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.disk.disk import Disk
from slipstream.kernels.log.record import StoredMessage
from slipstream.replication.raft.group import Group
from slipstream.replication.raft.groups import TICK_NS, Batch, Groups
from slipstream.replication.replica.files import ReplicaFiles
from slipstream.replication.replica.stream_replica import StreamReplica
from slipstream.testing.sim_disk import SimDisk
from support.consumer_world import ConsumerPorts
from support.disk_world import ROOT, disk_world
from support.jetstream_world import START_NS, World
from support.stores import options

GROUP = 7
UNAVAILABLE = (10008, 10059)
"""Not led here any more. Whoever decides which server answers keeps the second to itself."""
UID = bytes(range(16))


class Node:
    """A server: its disk stays when the process ends."""

    def __init__(self, cluster: Cluster, id_: int) -> None:
        """Not started."""
        self.cluster = cluster
        self.id = id_
        self.disk = SimDisk()
        self.is_up = False
        self.was_made = False

    def start(self) -> None:
        cluster = self.cluster
        self.is_up = True
        self.ports = ConsumerPorts()
        self.ports.clock_ns = START_NS + cluster.now * TICK_NS
        self.ports._random = random.Random(cluster.rng.getrandbits(32))
        seen = cluster.disk_over(self.disk, self.id)
        self.world: World = disk_world(self.disk, self.ports, seen=seen)
        seed = cluster.rng.getrandbits(32)
        self.files = ReplicaFiles(
            seen,
            f"{ROOT}/replicas/{UID.hex()}",
            lambda: replace(options(segment_bytes=1 << 14, seed=seed), now_ns=self.ports.now_ns, replicated=True),
        )
        if not self.was_made:
            self.files.create(UID, to_stored(cluster.config, START_NS), cluster.founders)
            self.was_made = True
        self.groups = Groups(self, self.ports.call_soon)
        self.replica = cluster.replica(
            "S",
            GROUP,
            self.id,
            self.world.account,
            self.files,
            self.groups,
            self.ports,
            peers=lambda: cluster.founders,
        )
        self.replica.start()
        if self.id in cluster.noticed:
            cluster.noticed.discard(self.id)
            for other in cluster.up():
                other.groups.peer_up(self.id)

    def send(self, to: int, batch: Batch) -> bool:
        return self.cluster.send(self.id, to, list(batch))

    def look(self) -> None:
        self.replica.care.look()

    @property
    def member(self) -> Group:
        group = self.replica.group
        assert group is not None
        return group

    @property
    def leads(self) -> bool:
        return self.is_up and self.replica.stream is not None

    @property
    def term(self) -> int:
        """Of the group, 0 if it takes no part in one."""
        return self.replica.group.term if self.replica is not None and self.replica.group is not None else 0

    def settle(self) -> None:
        self.ports.settle()

    def answer(self, reply: bytes) -> Any:
        """What came back on this subject, if anything."""
        found = [sent[3] for sent in self.ports.sent if sent[0] == reply]
        assert len(found) <= 1
        return json.loads(found[0]) if found else None

    def shown(self) -> list[tuple[int, bytes, bytes]]:
        """What readers of its store see."""
        store = self.replica.store
        assert store is not None
        return list(shown_by(store))


def shown_by(store: FileStore) -> Iterator[tuple[int, bytes, bytes]]:
    """What readers of a store see; of what is damaged, that it is."""
    for seq in range(store.first_seq, store.committed_seq + 1):
        message = store.get(seq)
        if isinstance(message, StoredMessage):
            yield seq, message.subject, message.payload
        elif message is not None:
            yield seq, b"", b"damaged"


class Cluster:
    """So many of them, and time."""

    node_type: type[Node] = Node

    def __init__(
        self,
        nodes: int = 3,
        *,
        seed: int = 1,
        replica: type[StreamReplica] = StreamReplica,
        copies: int = 0,
        disk_over: Callable[[SimDisk, int], Disk] = lambda disk, _node: disk,
        **config: Any,
    ) -> None:
        """`disk_over`: what a node sees of its disk."""
        self.disk_over = disk_over
        self.rng = random.Random(seed)
        self.replica = replica
        self.ids = list(range(1, nodes + 1))
        asked = StreamConfig(name="S", subjects=["s.>"], num_replicas=copies or nodes, **config)
        self.config = checked(asked, World().account.checks.context())
        self.now = 0
        self.loss, self.delay = 0.0, 1
        self.lazy = 0.0  # how often disks take their time
        self.cut: set[tuple[int, int]] = set()
        self.paused: dict[int, int] = {}  # until when
        self.noticed: set[int] = set()  # who is known to be dead
        self._queue: list[tuple[int, int, int, int, Batch]] = []
        self._numbers = itertools.count()
        self._replies = itertools.count(1)
        self.founders = list(self.ids)
        self.nodes = {id_: self.node_type(self, id_) for id_ in self.ids}
        for node in self.nodes.values():
            node.start()

    def join(self) -> Node:
        """One more server, with an empty replica."""
        id_ = max(self.ids) + 1
        self.ids.append(id_)
        self.nodes[id_] = node = Node(self, id_)
        node.start()
        self.settle()
        return node

    # --- time -------------------------------------------------------------------------------------------------------

    def send(self, sender: int, to: int, batch: Batch) -> bool:
        if self.rng.random() < self.loss:
            return self.rng.random() < 0.5  # it may be known, or not
        when = self.now + self.rng.randrange(self.delay)
        heapq.heappush(self._queue, (when, next(self._numbers), sender, to, batch))
        return True

    def step(self) -> None:
        """A tick, and all that follows from it within."""
        self.now += 1
        for node in self.awake():
            node.ports.jobs_held = self.rng.random() < self.lazy
            node.ports.alone = (self.now + node.id) % 2 == 0  # commits are waited for, or threads have them
            node.ports.advance(TICK_NS)
            node.groups.tick()
            if self.now % 7 == 0:
                node.look()
        self.settle()
        for node in self.awake():
            if node.replica is not None:
                assert not isinstance(node.replica.fault, GroupStopped), f"{node.id}: {node.replica.fault}"

    def settle(self) -> None:
        """Until nothing is left to do at this time."""
        moved = True
        while moved:
            moved = False
            for node in self.awake():
                node.settle()
            while self._queue and self._queue[0][0] <= self.now:
                _, _, sender, to, batch = heapq.heappop(self._queue)
                if self.paused.get(to, 0) >= self.now:
                    heapq.heappush(self._queue, (self.now + 1, next(self._numbers), sender, to, batch))
                elif self.nodes[to].is_up and (sender, to) not in self.cut:
                    self.nodes[to].groups.received(sender, batch)
                moved = True

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def until(self, condition: Callable[[], bool], steps: int = 200) -> None:
        """Let time pass until it is so."""
        for _ in range(steps):
            if condition():
                return
            self.step()
        raise AssertionError("it did not come to be")

    # --- accidents --------------------------------------------------------------------------------------------------

    def up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_up]

    def awake(self) -> list[Node]:
        return [node for node in self.up() if self.paused.get(node.id, 0) < self.now]

    def pause(self, node: Node, steps: int) -> None:
        """The process stands still; what comes in waits."""
        self.paused[node.id] = self.now + steps

    def kill(self, node: Node, *, power: bool = False, noticed: bool = False) -> None:
        """The process ends; what it had not synced goes with the power. Links may break at once, or say nothing."""
        node.is_up = False
        self.noticed |= {node.id} if noticed else set()
        for other in self.up() if noticed else ():
            other.groups.peer_down(node.id)
        node.disk = node.disk.crash(self.rng, keep=0.5, torn=True) if power else node.disk.kill()

    def damage(self, node: Node) -> str:
        """The process ends, and one of its files is not what it was: what happened."""
        self.kill(node)
        rng, disk = self.rng, node.disk
        path = rng.choice([path for path in disk.paths() if "/replicas/" in path and disk.size(path)])
        content = disk.content(path)
        how = rng.choice(("flip", "flip", "remove", "empty", "cut"))
        used = len(bytes(content).rstrip(b"\0")) or 1
        if how == "flip":
            content[rng.randrange(used)] ^= 1 << rng.randrange(8)
        elif how == "cut":
            del content[rng.randrange(used) :]
        elif how == "empty":
            del content[:]
        else:
            disk.remove(path)
            disk.sync_dir(path.rsplit("/", 1)[0])
        return f"{how} {path}"

    def is_whole(self) -> bool:
        """Whether all replicas take part, and are voters as far as they know."""
        return all(
            node.is_up
            and node.replica.group is not None
            and node.replica.fault is None
            and sorted(node.replica.group.votes.voters) == sorted(self.founders)
            for node in self.nodes.values()
        )

    def isolate(self, nodes: Iterable[Node]) -> None:
        """Cut these off from the others, both ways."""
        side = {node.id for node in nodes}
        self.cut = {(a, b) for a, b in itertools.permutations(self.ids, 2) if (a in side) != (b in side)}

    def heal(self) -> None:
        self.cut.clear()
        self.paused.clear()
        self.loss, self.delay, self.lazy = 0.0, 1, 0.0
        for node in self.nodes.values():
            if not node.is_up:
                node.start()

    # --- clients ----------------------------------------------------------------------------------------------------

    @property
    def leader(self) -> Node:
        """The one that leads, in the latest term; there is one soon."""
        self.until(lambda: any(node.leads for node in self.up()))
        return max((node for node in self.up() if node.leads), key=lambda node: node.term)

    def publish(self, node: Node, payload: bytes = b"x", *, subject: str = "s.a", id_: str = "") -> bytes:
        """Where the ack will be."""
        reply = b"_INBOX.p.%d" % next(self._replies)
        header = f"NATS/1.0\r\nNats-Msg-Id: {id_}\r\n\r\n".encode() if id_ else None
        node.ports.route(subject.encode(), reply, header, payload)
        return reply

    def ask(self, node: Node, subject: str, body: Any = None) -> bytes:
        """Where the answer of the API of one node will be."""
        reply = b"_INBOX.a.%d" % next(self._replies)
        node.ports.route(f"$JS.API.{subject}".encode(), reply, None, json.dumps(body or {}).encode())
        return reply

    def call(self, node: Node, subject: str, body: Any = None) -> Any:
        """An answer of the API of one node."""
        reply = self.ask(node, subject, body)
        self.until(lambda: node.answer(reply) is not None, 50)
        return node.answer(reply)

    def stored(self, payload: bytes = b"x", *, subject: str = "s.a", id_: str = "") -> Any:
        """Publish as a client does that tries again: until it is acknowledged."""
        for _ in range(20):
            leader = self.leader
            reply = self.publish(leader, payload, subject=subject, id_=id_)
            for _ in range(30):
                self.settle()
                if leader.is_up and leader.answer(reply) is not None:
                    return leader.answer(reply)
                if not leader.leads:
                    break
                self.step()
        raise AssertionError("nobody acknowledges")

    def agree(self) -> list[tuple[int, bytes, bytes]]:
        """All are up and show the same: that."""
        self.heal()
        self.until(
            lambda: (
                any(node.leads for node in self.up())
                and len({node.replica.group.applied if node.replica.group else -1 for node in self.up()}) == 1
                and len({str(node.shown()) for node in self.up() if node.replica.store is not None}) == 1
            ),
            400,
        )
        return self.leader.shown()


class Storm:
    """Clients publish while everything happens to the servers; at the end all of it is healed, and compared."""

    cluster_type: type[Cluster] = Cluster

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        steps: int = 150,
        padding: int = 0,
        damages: float = 0.0,
        **options: Any,
    ) -> None:
        """`padding` makes segments fill up, so that those go of which nothing is kept; `damages`: how often files are
        damaged, of one server at a time."""
        self.damages = damages
        self.damaged: list[str] = []
        self.padding = bytes(padding)
        self.cluster = self.cluster_type(nodes, seed=seed, **options)
        self.rng = random.Random(seed)
        self.steps = steps
        self.acked: dict[int, bytes] = {}
        self.waiting: list[tuple[Node, bytes, bytes]] = []
        self.leaders: set[int] = set()
        self.reading: list[tuple[Node, bytes, int]] = []
        self.read = 0
        self.read_behind = 0  # of those who do not lead
        self.stale: list[str] = []  # what these must not show

    def run(self) -> Storm:
        cluster, rng = self.cluster, self.rng
        cluster.loss, cluster.delay = rng.choice([(0.0, 1), (0.05, 3), (0.15, 5)])
        cluster.lazy = rng.choice([0.0, 0.3, 0.8])
        for number in range(self.steps):
            self.accident()
            for node in cluster.awake():
                if not node.leads:
                    self.read_follower(node)
                else:
                    self.leaders.add(node.id)
                    if rng.random() < 0.7:
                        asked = {"last_by_subj": "s.a"}
                        newest = max(self.acked, default=0)
                        self.reading.append((node, cluster.ask(node, "STREAM.MSG.GET.S", asked), newest))
                    for n in range(rng.choice([0, 0, 1, 2])):
                        payload = b"%d.%d.%d" % (number, node.id, n)
                        id_ = payload.decode() if rng.random() < 0.5 else ""
                        payload += self.padding
                        self.waiting.append((node, cluster.publish(node, payload, id_=id_), payload))
            cluster.step()
            self.collect()
        shown = {seq: payload for seq, _, payload in cluster.agree()}
        self.collect()
        first = min(shown, default=0)
        for seq, payload in self.acked.items():
            is_kept = not self.cluster.config.max_msgs > 0 or seq >= first
            assert not is_kept or shown.get(seq) == payload, (
                f"{seq} was acknowledged as {payload!r} and is {shown.get(seq)!r}"
            )
        assert len(set(shown.values())) == len(shown)
        return self

    def read_follower(self, node: Node) -> None:
        """What was acknowledged before is in what a follower shows when it may be read."""
        newest = max(self.acked, default=0)

        replica = node.replica
        if replica is None:
            return  # it keeps nothing now

        def read() -> None:
            store = replica.readable
            if store is not None and node.is_up:
                self.read_behind += 1
                if store.committed_seq < newest:
                    self.stale.append(f"{newest} was acknowledged, and {node.id} shows {store.committed_seq}")

        replica.reads.read(read)

    def accident(self) -> None:
        cluster, rng, chance = self.cluster, self.rng, self.rng.random()
        if self.damages and rng.random() < self.damages and cluster.is_whole():
            victim = rng.choice(cluster.up())
            self.damaged.append(cluster.damage(victim))
            victim.start()
        for node in cluster.nodes.values():
            if not node.is_up and rng.random() < 0.08:
                node.start()
        if chance < 0.03 and cluster.up():
            cluster.kill(rng.choice(cluster.up()), power=rng.random() < 0.7)
        elif chance < 0.05:
            cluster.isolate(rng.sample(list(cluster.nodes.values()), rng.randrange(1, len(cluster.ids))))
        elif chance < 0.08:
            leading = [node for node in cluster.awake() if node.leads]
            cluster.pause(rng.choice(leading or list(cluster.nodes.values())), rng.randrange(10, 40))
        elif chance < 0.13:
            cluster.cut.clear()
        elif chance < 0.15:
            for node in cluster.awake():
                if node.leads and node.term:
                    node.member.transfer(rng.choice(cluster.ids))

    def collect(self) -> None:
        """Acks that have come; those of a server that died before are never seen."""
        assert not self.stale, self.stale[0]
        left = []
        for node, reply, payload in self.waiting:
            answer = node.answer(reply) if node.is_up else None
            if answer is None:
                left.append((node, reply, payload))
            elif "error" not in answer and not answer.get("duplicate"):
                known = self.acked.setdefault(answer["seq"], payload)
                assert known == payload, f"{answer['seq']} was acknowledged as {known!r} and as {payload!r}"
        self.waiting = left[-200:]
        unread = []
        for node, reply, newest in self.reading:
            answer = node.answer(reply) if node.is_up else None
            if answer is None:
                unread.append((node, reply, newest))
            else:
                if answer.get("error", {}).get("err_code") in UNAVAILABLE:
                    continue
                self.read += 1
                seq = answer["message"]["seq"] if "message" in answer else 0
                assert seq >= newest, f"{newest} was acknowledged before somebody asked, and read {answer}"
        self.reading = unread[-50:]
