"""Replicas of a stream that is mostly idle: they rest, and whatever happens then, somebody leads soon."""

from __future__ import annotations

import random
from typing import Any

from support.replica_world import Cluster, Node

LEADER_STEPS = 80
"""So soon somebody leads again and acknowledges: silence, two elections at most, and the client's tries."""
REST_STEPS = 90
"""So soon all rest, if nothing happens: some tries may meet a message on its way."""


class QuietStorm:
    """Publish a little, let all rest, have something happen, publish again; at the end all is compared."""

    def __init__(self, seed: int, *, nodes: int = 3, rounds: int = 6, **options: Any) -> None:
        self.cluster = Cluster(nodes, seed=seed, **options)
        self.rng = random.Random(seed)
        self.rounds = rounds
        self.acked: dict[int, bytes] = {}
        self.kinds: set[str] = set()
        self.ended: Node | None = None

    def run(self) -> QuietStorm:
        for number in range(self.rounds):
            self.publish(b"%d.a" % number)
            self.all_rest()
            leader = self.cluster.leader
            before = leader.member.term
            kind = self.rng.choice(["die", "stall", "pause", "cut", "fail", "other", "lossy", "nothing"])
            self.kinds.add(kind)
            getattr(self, f"_{kind}")(leader)
            self.publish(b"%d.b" % number)
            if kind in ("stall", "other", "nothing"):
                assert self.cluster.leader.member.term == before, f"an election for nothing: {kind}"
            if self.ended is not None:
                self.cluster.kill(self.ended)
                self.ended = None
            self.cluster.heal()
        shown = {seq: payload for seq, _, payload in self.cluster.agree()}
        assert all(shown.get(seq) == payload for seq, payload in self.acked.items())
        self.all_rest()
        return self

    def publish(self, payload: bytes) -> None:
        """A client finds a leader in good time."""
        cluster = self.cluster
        end = cluster.now + LEADER_STEPS
        while True:
            for node in [node for node in cluster.awake() if node.leads]:
                reply = cluster.publish(node, payload)
                cluster.steps(2)
                answer = node.answer(reply) if node.is_up else None
                if answer is not None and "error" not in answer:
                    self.acked[answer["seq"]] = payload
                    return
            assert cluster.now < end, "nobody leads a group that had rested"
            cluster.step()

    def all_rest(self) -> None:
        self.cluster.until(lambda: all(node.groups.resting for node in self.cluster.nodes.values()), REST_STEPS)
        terms = {node.member.term for node in self.cluster.nodes.values()}
        self.cluster.steps(30)
        assert terms == {node.member.term for node in self.cluster.nodes.values()}

    # --- what happens -----------------------------------------------------------------------------------------------

    def _die(self, leader: Node) -> None:
        self.cluster.kill(leader, power=self.rng.random() < 0.5, noticed=self.rng.random() < 0.5)

    def _stall(self, leader: Node) -> None:
        """So shortly that nobody may mind."""
        self.cluster.pause(self.rng.choice(list(self.cluster.nodes.values())), self.rng.randrange(1, 9))
        self.cluster.steps(40)

    def _pause(self, leader: Node) -> None:
        self.cluster.pause(leader, 40)

    def _cut(self, leader: Node) -> None:
        self.cluster.isolate([leader])
        self.cluster.steps(30)

    def _fail(self, leader: Node) -> None:
        """The leader's replica alone takes part no more, and what it says about that may be lost."""
        self.cluster.loss = self.rng.choice([0.0, 1.0])
        leader.replica.stop(lambda: None)
        leader.settle()
        self.cluster.loss = 0.0
        self.ended = leader

    def _other(self, leader: Node) -> None:
        """One that does not lead dies, and comes back; the others rest meanwhile."""
        cluster = self.cluster
        node = next(node for node in cluster.nodes.values() if node is not leader)
        cluster.kill(node, noticed=True)
        cluster.until(lambda: all(one.groups.resting for one in cluster.up()), REST_STEPS)
        if self.rng.random() < 0.5:
            self.publish(b"without")
        node.start()
        cluster.steps(10)

    def _lossy(self, leader: Node) -> None:
        self.cluster.loss = 0.4
        self.cluster.steps(60)
        self.cluster.loss = 0.0

    def _nothing(self, leader: Node) -> None:
        self.cluster.steps(self.rng.randrange(100))
