"""Servers between which a stream moves: `replica_world` with `Hosting`, and wishes in the place of a meta group.

What was agreed on is a list that only grows. Each server knows some of it, later than the others, and after a start
perhaps less than before. What leaders say of a wish may be late, lost, or of another time.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import replace
from typing import Any

from slipstream.replication.hosting import Hosting
from slipstream.replication.meta.entries import Assignment
from slipstream.replication.meta.moves import Left, Settled, noted, wish
from slipstream.replication.raft.groups import Groups
from slipstream.replication.replica.stream_replica import StreamReplica
from support.consumer_world import ConsumerPorts
from support.disk_world import ROOT, disk_world
from support.jetstream_world import START_NS
from support.replica_world import GROUP, TICK_NS, UID, Cluster, Node, Storm, shown_by
from support.stores import options

ACCOUNT = "$G"
REPLICAS = f"{ROOT}/replicas"
ALONE = f"{ROOT}/streams"


class HostingNode(Node):
    """A server that keeps what it is told to keep."""

    cluster: MovingCluster

    def start(self) -> None:
        cluster = self.cluster
        self.is_up = True
        self.ports = ConsumerPorts()
        self.ports.clock_ns = START_NS + cluster.now * TICK_NS
        self.ports._random.seed(cluster.rng.getrandbits(32))
        seen = cluster.disk_over(self.disk, self.id)
        self.world = disk_world(self.disk, self.ports, seen=seen, cluster=cluster)
        seed = cluster.rng.getrandbits(32)
        self.groups = Groups(self, self.ports.call_soon)
        self.hosting = Hosting(
            self.id,
            seen,
            REPLICAS,
            lambda: replace(options(segment_bytes=1 << 14, seed=seed), now_ns=self.ports.now_ns, replicated=True),
            self.groups,
            self.ports,
            lambda _: self.world.account,
            lambda _: None,
            lambda _: None,
            lambda _: None,
            cluster.said,
        )
        self.knows = max(cluster.known.get(self.id, 0) - cluster.rng.randrange(3), 0)
        self.hosting.assigned(None, cluster.agreed[self.knows])

    def look(self) -> None:
        """`Hosting` does."""

    def hear(self) -> bool:
        """The next that was agreed on, if there is more."""
        agreed = self.cluster.agreed
        if self.knows + 1 == len(agreed):
            return False
        self.knows += 1
        self.cluster.known[self.id] = max(self.knows, self.cluster.known.get(self.id, 0))
        self.hosting.assigned(agreed[self.knows - 1], agreed[self.knows])
        return True

    @property
    def replica(self) -> StreamReplica | None:  # type: ignore[override]
        return self.hosting.kept.replica(ACCOUNT, "S")

    def shown(self) -> list[tuple[int, bytes, bytes]]:
        if self.replica is not None:
            return super().shown()
        store = self.world.account.streams["S"].store
        return list(shown_by(store))

    @property
    def leads(self) -> bool:
        return self.is_up and self.hosting.kept.led(ACCOUNT, "S") is not None

    @property
    def files(self) -> list[str]:  # type: ignore[override]
        """What is left of the stream."""
        replicas = [(REPLICAS, group) for group in self.disk.list_dir(REPLICAS)]
        alone = [(ALONE, name) for name in self.disk.list_dir(ALONE)]
        return [name for place, one in [*replicas, *alone] for name in self.disk.list_dir(f"{place}/{one}")]


class MovingCluster(Cluster):
    """A stream on some of the servers."""

    node_type = HostingNode
    nodes: dict[int, HostingNode]  # type: ignore[assignment]

    def __init__(self, nodes: int = 5, *, copies: int = 3, **options: Any) -> None:
        self.known: dict[int, int] = {}
        self.agreed: list[Assignment] = []
        self._said: list[tuple[int, int, Settled | Left]] = []
        self._said_numbers = itertools.count()
        self._copies = copies
        super().__init__(nodes, copies=copies, **options)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "founders":  # what nodes are made of is known: they are started next
            peers = value[: self._copies]
            self.agreed = [
                Assignment(
                    account=ACCOUNT,
                    config=self.config,
                    uid=UID,
                    group=GROUP,
                    peers=peers,
                    preferred=peers[0],
                    cluster="C",
                    created_ns=START_NS,
                    founders=peers if len(peers) > 1 else [],
                )
            ]

    @property
    def assignment(self) -> Assignment:
        return self.agreed[-1]

    def move(self, *peers: int) -> None:
        """Wish for these servers."""
        self.agreed.append(wish(self.assignment, peers))

    def said(self, said: Settled | Left) -> None:
        """A leader says that a wish is fulfilled, or a server that its files are gone."""
        if self.rng.random() >= self.loss:
            when = self.now + self.rng.randrange(self.delay * 4)
            heapq.heappush(self._said, (when, next(self._said_numbers), said))

    def step(self) -> None:
        for node in self.awake():
            if self.rng.random() < 0.3:
                node.hear()
            node.hosting.tick()
        while self._said and self._said[0][0] <= self.now:
            changed = noted(self.assignment, heapq.heappop(self._said)[2])
            if changed is not None:
                self.agreed.append(changed)
        super().step()

    def settled(self) -> bool:
        """Whether all is where it should be, and known to all."""
        peers = self.assignment.peers
        return (
            not self.assignment.is_moving
            and not self.assignment.gone
            and all(node.knows == len(self.agreed) - 1 for node in self.nodes.values())
            and any(node.leads for node in self.nodes.values())
            and all(
                node.id not in peers and node.replica is None and node.files in ([], ["LEFT"])
                for node in self.nodes.values()
                if node.id not in peers
            )
            and all(self._is_member(self.nodes[peer]) for peer in peers)
            and len({node.member.applied for peer in peers if (node := self.nodes[peer]).replica is not None}) <= 1
            and len({str(self.nodes[peer].shown()) for peer in peers}) == 1
        )

    def block(self, account: str, stream: str) -> dict[str, object]:
        """See `ClusterFacts`."""
        del account, stream
        return {}

    def _is_member(self, node: HostingNode) -> bool:
        if not self.assignment.is_replicated:
            return node.leads
        group = node.replica.group if node.replica is not None else None
        return group is not None and sorted(group.votes.voters) == sorted(self.assignment.peers)

    def agree(self) -> list[tuple[int, bytes, bytes]]:
        self.heal()
        self.until(self.settled, 600)
        return self.nodes[self.assignment.peers[0]].shown()


class MovingStorm(Storm):
    """... and the stream moves."""

    cluster_type = MovingCluster
    cluster: MovingCluster

    def __init__(self, seed: int, *, nodes: int = 5, **options: Any) -> None:
        super().__init__(seed, nodes=nodes, **options)
        self.moves = 0
        self.terms: dict[tuple[int, int], int] = {}

    def accident(self) -> None:
        cluster, rng = self.cluster, self.rng
        for node in cluster.awake():
            group = node.replica.group if node.replica is not None else None
            if group is not None and group.is_leader:
                kept = node.hosting.kept.find(ACCOUNT, "S")
                assert kept is not None
                other = self.terms.setdefault((kept.assignment.group, group.term), node.id)
                assert other == node.id, f"{other} and {node.id} lead in term {group.term}"
        if rng.random() < 0.06:
            self.moves += 1
            cluster.move(*rng.sample(cluster.ids, rng.choice([1, 1, 2, 3, 3, 3, 4, 5])))
        elif rng.random() < 0.02:  # ... and back again
            cluster.move(*cluster.assignment.moving_from[: len(cluster.ids)] or cluster.assignment.peers)
        super().accident()
