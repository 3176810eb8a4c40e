"""Servers that found a cluster, with a network that loses, repeats and reorders, and processes that die."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from slipstream.replication.ids import node_id
from slipstream.replication.meta.entries import Node
from slipstream.replication.meta.founding import Charter, Founding, Promise, decode_promise, encode_promise

CLUSTER = "C1"


class Founder:
    """One server: its disk, its life, what it was told."""

    def __init__(self, world: FoundingWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.disk: bytes | None = None
        self.unsaved: list[tuple[bytes, Callable[[], None]]] = []
        self.charters: list[Charter] = []
        self.troubles: list[str] = []
        self.founding = self._new()

    def _new(self) -> Founding:
        if self.disk is None:
            self.disk = encode_promise(Promise(incarnation=b"%d" % next(self.world.incarnations)))
        promise = decode_promise(self.disk)
        incarnation = promise.incarnation
        self.node = Node(id=node_id(self.name, incarnation), name=self.name, cluster=CLUSTER, incarnation=incarnation)
        return Founding(self.node, self.world.size, promise, self)

    def restart(self) -> None:
        """Die; what was on its way to the disk may be there or not."""
        if self.unsaved and self.world.rng.random() < 0.5:
            self.disk = self.unsaved[0][0]
        self.unsaved.clear()
        self.founding = self._new()
        self.founding.start()
        self.meet_all()

    def meet_all(self) -> None:
        for other in self.world.founders.values():
            if other is not self:
                self.founding.peer_up(other.name)

    # --- the ports ---

    def send(self, to: str, message: bytes) -> None:
        self.world.post(self.name, to, message)

    def met(self, node: Node) -> None:
        pass

    def save(self, promise: Promise, saved: Callable[[], None]) -> None:
        if self.world.forgetful:
            saved()
            return
        self.unsaved.append((encode_promise(promise), saved))

    def founded(self, charter: Charter) -> None:
        self.charters.append(charter)

    def trouble(self, text: str) -> None:
        self.troubles.append(text)

    def sync(self) -> None:
        if self.unsaved:
            self.disk, saved = self.unsaved.pop(0)
            saved()


class FoundingWorld:
    """All servers. `forgetful`: promises are told and never written, which must not go unnoticed."""

    def __init__(self, seed: int, names: list[str], size: int, *, forgetful: bool = False) -> None:
        self.rng = random.Random(seed)
        self.size = size
        self.forgetful = forgetful
        self.now = 0
        self.loss = 0.0
        self.mail: list[tuple[str, str, bytes]] = []
        self.cut: set[frozenset[str]] = set()
        self.incarnations = itertools.count(1)
        self.founders: dict[str, Founder] = {}
        for name in names:
            self.founders[name] = Founder(self, name)

    def post(self, sender: str, to: str, message: bytes) -> None:
        if frozenset((sender, to)) not in self.cut and self.rng.random() >= self.loss:
            self.mail.append((sender, to, message))
            if self.rng.random() < self.loss:
                self.mail.append((sender, to, message))

    def step(self) -> None:
        """Something happens."""
        rng, founders = self.rng, list(self.founders.values())
        chance, one = rng.random(), rng.choice(founders)
        if chance < 0.5 and self.mail:
            sender, to, message = self.mail.pop(rng.randrange(len(self.mail)))
            self.founders[to].founding.receive(sender, message)
        elif chance < 0.7:
            one.sync()
        elif chance < 0.85:
            self.now += 1
            one.founding.tick(self.now)
        elif chance < 0.9:
            one.restart()
        else:
            self.part(one, rng.choice(founders))

    def part(self, one: Founder, other: Founder) -> None:
        """Two servers lose sight of each other, or find each other again."""
        if one is other:
            return
        pair = frozenset((one.name, other.name))
        self.cut ^= {pair}
        for left, right in ((one, other), (other, one)):
            if pair in self.cut:
                left.founding.peer_down(right.name)
            else:
                left.founding.peer_up(right.name)

    def settle(self) -> None:
        """Everything works from now on, for long enough."""
        self.loss = 0.0
        self.cut.clear()
        for one in self.founders.values():
            one.meet_all()
        for _ in range(12):
            while self.mail or any(one.unsaved for one in self.founders.values()):
                for one in self.founders.values():
                    one.sync()
                for sender, to, message in [self.mail.pop(0) for _ in range(len(self.mail))]:
                    self.founders[to].founding.receive(sender, message)
            for one in self.founders.values():
                self.now += 1
                one.founding.tick(self.now)

    def conflicts(self) -> list[tuple[Charter, Charter]]:
        """Charters that were both taken to hold, and share a member."""
        found = [charter for one in self.founders.values() for charter in one.charters]
        return [(one, two) for one in found for two in found if one != two and set(one.members) & set(two.members)]
