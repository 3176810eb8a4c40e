"""A Raft group in one thread: the real core, simulated disks, a seeded network and a seeded clock.

Every run is a function of its seed. Messages are lost, delayed, overtaken and doubled, links are cut in one or both
directions, processes die, machines lose power with whatever was not synced, syncs take their time. At the end all is
healed, and the group has to agree. What is checked, at every step where it could break:

- election safety: a term has one leader
- log matching: an index and a term name one entry, with the same term before it
- leader completeness: what was applied at an index is never another entry, on any node, at any time
- order: a node applies every index, once, in order
- durability: what was acknowledged is in every state at the end, and all states are the same

`Mutant` breaks a node in one way; the same checks must notice.
"""

from __future__ import annotations

import enum
import hashlib
import heapq
import itertools
import random
from collections.abc import Sequence
from typing import Any

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file.replica.log import Entry
from slipstream.jetstream.store.file.replica.votes import VoteFile, Votes
from slipstream.replication.raft.group import Group
from slipstream.replication.raft.ports import GroupLog
from slipstream.replication.raft.settings import GroupSettings
from slipstream.testing.sim_disk import SimDisk
from support.raft_log import PlainLog

DIRECTORY = "/replica"
SETTINGS = GroupSettings(  # small, so that all of it is reached
    election_spread=10,
    message_bytes=256,
    messages_in_flight=8,
    uncommitted_bytes=1 << 20,
    apply_bytes=512,
    window_bytes=200,
)


class Mutant(enum.Enum):
    """One promise that a node does not keep."""

    EARLY_ACK = "an entry counts as persisted before it is synced"
    LOST_VOTE = "the vote of a term is not kept"
    EARLY_VOTE = "a vote is sent before it is saved"
    TAIL_NOT_CUT = "after a restart the old tail is in the log again, not what replaced it"
    APPLY_OUT_OF_ORDER = "entries of one ready are applied the last one first"


class Violation(AssertionError):
    """A promise was broken."""


class WatchedLog:
    """What a group writes to: the log, and who looks at it."""

    def __init__(self, replica: Replica, log: GroupLog) -> None:
        self.replica = replica
        self.log = log

    @property
    def first_index(self) -> int:
        return self.log.first_index

    @property
    def last_index(self) -> int:
        return self.log.last_index

    @property
    def synced_index(self) -> int:
        return self.log.last_index if self.replica.acks_early else self.log.synced_index

    def terms(self) -> list[tuple[int, int]]:
        return self.log.terms()

    def entries(self, low: int, high: int, max_bytes: int) -> Sequence[Entry]:
        return self.log.entries(low, high, max_bytes)

    def heads(self, low: int, high: int, max_bytes: int) -> Sequence[Entry]:
        """The simulation looks at what is applied: entries, if the heads are theirs."""
        entries, heads = self.log.entries(low, high, max_bytes), self.log.heads(low, high, max_bytes)
        if [
            (*one[:3], one[3] if one[2] or head[3] else b"") for one, head in zip(entries, heads, strict=True)
        ] != heads:
            raise Violation(f"{self.replica.id} has other heads than entries from {low} on")
        return entries

    def hold(self, index: int) -> None:
        """The simulation knows better what is needed."""

    def write(self, entries: Sequence[Entry]) -> None:
        self.replica.write(entries)
        self.replica.sim.logged(self.replica, entries)


class Replica:
    """One node: its group, its disk, what it applied. It does for the group what a server does."""

    settings = SETTINGS

    def __init__(self, sim: RaftSim, id_: int) -> None:
        self.sim = sim
        self.id = id_
        self.disk = SimDisk()
        self.disk.make_dir(DIRECTORY)
        self.disk.sync_dir("/")
        self.is_up = False
        self.start()

    def start(self) -> None:
        """Come up from what is on the disk."""
        sim = self.sim
        self.is_up = True
        self.file = VoteFile(self.disk, DIRECTORY)
        votes = self.file.load() or Votes(voters=sim.ids)
        self.unsaved: Votes | None = None
        self.is_due = False  # the log has to be synced
        self.applied: list[tuple[int, bytes]] = []
        self.leads_in = 0  # the term in which it may propose
        votes = self.open(votes)
        log = WatchedLog(self, self.log)
        try:
            self.group = Group(self.id, log, votes, self, sim.rng.randrange, self.settings, applied=self.last_applied)
        except StorageFault as error:
            raise Violation(f"{self.id} cannot start: {error}") from error

    def open(self, votes: Votes) -> Votes:
        """The log, as it was left."""
        self.log: Any = PlainLog(self.disk, DIRECTORY, cuts_tail=self.sim.mutant is not Mutant.TAIL_NOT_CUT)
        self.last_applied = 0
        if self.sim.mutant is Mutant.LOST_VOTE:
            return Votes(votes.version, max(votes.term, self.log.terms()[-1][1]), 0, votes.commit, self.sim.ids)
        return votes

    # --- what the simulation asks of a replica ----------------------------------------------------------------------

    @property
    def acks_early(self) -> bool:
        return self.sim.mutant is Mutant.EARLY_ACK

    @property
    def last_index(self) -> int:
        return int(self.log.last_index)

    def term_of(self, index: int) -> int:
        return int(self.log.term(index))

    def propose(self) -> None:
        """What a leader proposes, if it can now."""
        if self.leads_in:
            batch = [b"%d.%d.%d" % (self.id, self.sim.now, n) for n in range(self.sim.rng.randrange(1, 4))]
            self.sim.proposed.update(batch)
            self.group.propose(batch)

    def state(self) -> object:
        """What a client could read."""
        return self.applied

    def check_acked(self, acked: dict[int, bytes]) -> None:
        have = dict(self.applied)
        for index, data in acked.items():
            if have.get(index) != data:
                raise Violation(f"entry {index} was acknowledged as {data!r} and is {have.get(index)!r}")

    def sync(self) -> None:
        """What waits is on disk."""
        self.save_now()
        if self.is_due:
            self.is_due = False
            self.log.sync()
            self.group.persisted()

    def save_now(self) -> None:
        votes, self.unsaved = self.unsaved, None
        if votes is not None:
            self.file.save(votes)
            self.group.votes_saved(votes.version)

    def write(self, entries: Sequence[Entry]) -> None:
        self.log.write(entries)

    # --- what a group has done for it -------------------------------------------------------------------------------

    def send(self, to: int, message: bytes) -> None:
        self.sim.send(self.id, to, message)

    def save_votes(self, votes: Votes) -> None:
        self.unsaved = votes
        if self.sim.mutant is Mutant.EARLY_VOTE:
            self.group.votes_saved(votes.version)
        elif self.sim.rng.random() < 0.5:  # else it takes as long as a sync
            self.save_now()

    def sync_log(self) -> None:
        self.is_due = True

    def committed(self, entries: Sequence[Entry]) -> None:
        for index, term, _kind, data in entries[::-1] if self.sim.mutant is Mutant.APPLY_OUT_OF_ORDER else entries:
            self.sim.apply(self, index, term, data)

    def leads(self, term: int) -> None:
        self.leads_in = term
        if self.last_index != self.last_applied or self.term_of(self.last_index) != term:
            raise Violation(f"{self.id} begins to lead before it has everything")

    def steps_down(self) -> None:
        self.leads_in = 0

    def behind(self, to: int) -> None:
        raise Violation("the log is never compacted here")

    def rests(self) -> None:
        """Nobody rests here."""

    def wakes(self) -> None:
        """Nobody rests here."""

    def stopped(self, error: Exception) -> None:
        raise Violation(f"{self.id} stopped: {error}") from error


class RaftSim:
    """`steps` of trouble, then peace."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        steps: int = 300,
        mutant: Mutant | None = None,
        replica: type[Replica] | None = None,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.mutant = mutant
        self.steps = steps
        self.ids = list(range(1, nodes + 1))
        self.now = 0
        self.peace = False
        self.leaders: dict[int, int] = {}
        self.known: dict[tuple[int, int], tuple[int, bytes]] = {}
        self.committed: dict[int, tuple[int, bytes]] = {}
        self.proposed: set[bytes] = set()
        self.acked: dict[int, bytes] = {}
        self.queue: list[tuple[int, int, int, int, bytes]] = []
        self.numbers = itertools.count()
        self.cut: set[tuple[int, int]] = set()
        self.trace = hashlib.sha256()
        self.loss, self.delay = self.rng.choice([(0.0, 2), (0.05, 6), (0.2, 12)])
        self.down: dict[int, int] = {}  # node, and when it comes back
        self.replicas = {id_: (replica or Replica)(self, id_) for id_ in self.ids}

    def run(self) -> RaftSim:
        """The whole of it.

        Raises:
            Violation: with the seed that shows it again.
        """
        try:
            for _ in range(self.steps):
                self.step()
            self.heal()
        except Violation as error:
            raise Violation(f"seed {self.seed}, {len(self.ids)} nodes, step {self.now}: {error}") from error
        return self

    # --- one step ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One tick of every clock, what arrives meanwhile, and perhaps an accident."""
        self.now += 1
        rng = self.rng
        if not self.peace:
            self.accident()
        for id_, when in list(self.down.items()):
            if when <= self.now:
                del self.down[id_]
                self.replicas[id_].start()
        for id_, replica in self.replicas.items():
            if id_ in self.down:
                continue
            if self.peace or rng.random() < 0.95:  # no two clocks go the same
                replica.group.tick()
            if rng.random() < 0.3:
                replica.propose()
            self.look(replica)
        while self.queue and self.queue[0][0] <= self.now:
            _, _, sender, to, message = heapq.heappop(self.queue)
            if to in self.down or (sender, to) in self.cut:
                continue
            self.note(b"in", to, message)
            self.deliver(self.replicas[to], sender, message)
            self.look(self.replicas[to])
        for id_, replica in self.replicas.items():
            if id_ not in self.down and (self.peace or rng.random() < 0.6):  # a sync may take some steps
                replica.sync()
                self.look(replica)

    def deliver(self, replica: Replica, sender: int, message: bytes) -> None:
        """A message has arrived."""
        if not replica.group.receive(message):
            raise Violation("a message was refused")

    def accident(self) -> None:
        rng = self.rng
        chance = rng.random()
        if chance < 0.02:
            self.stop(rng.choice(self.ids), power=rng.random() < 0.7)
        elif chance < 0.025:  # the power of the whole room
            for id_ in self.ids:
                self.stop(id_, power=True)
        elif chance < 0.04:
            side = set(rng.sample(self.ids, rng.randrange(1, len(self.ids))))
            one_way = rng.random() < 0.3
            for a, b in itertools.permutations(self.ids, 2):
                if (a in side) != (b in side) and (a in side or not one_way):
                    self.cut.add((a, b))
        elif chance < 0.07:
            self.cut.clear()
        elif chance < 0.075:
            for replica in self.replicas.values():
                if replica.is_up and replica.group.is_leader:
                    replica.group.transfer(rng.choice(self.ids))

    def stop(self, id_: int, *, power: bool) -> None:
        if id_ in self.down:
            return
        rng, replica = self.rng, self.replicas[id_]
        self.note(b"power" if power else b"kill", id_, b"")
        if power:
            replica.disk = replica.disk.crash(rng, keep=rng.choice([0.0, 0.5, 0.9]), torn=True)
        else:
            replica.disk = replica.disk.kill()
        replica.group.stop()
        replica.is_up = False
        self.down[id_] = self.now + rng.randrange(1, 60)

    def heal(self) -> None:
        """Everything works: the group must agree, take one more proposal, and apply all of it everywhere."""
        self.peace = True
        self.loss, self.delay = 0.0, 1
        self.cut.clear()
        self.down = dict.fromkeys(self.down, self.now)
        least = None
        for _ in range(600):
            self.step()
            states = [replica.last_applied for replica in self.replicas.values() if replica.is_up]
            if least is None:
                leader = [r for r in self.replicas.values() if r.is_up and r.leads_in]
                if len(leader) == 1 and not self.down:
                    least = leader[0].last_index + 1
            elif len(states) == len(self.ids) and min(states) >= least and len(set(states)) == 1:
                break
        else:
            raise Violation("the group does not agree though everything works again")
        state = self.replicas[1].state()
        for replica in self.replicas.values():
            if replica.state() != state:
                raise Violation(f"the states of 1 and {replica.id} are different")
            replica.check_acked(self.acked)
        self.note(b"end", 0, repr(state).encode())

    # --- the network ------------------------------------------------------------------------------------------------

    def send(self, sender: int, to: int, message: bytes) -> None:
        rng = self.rng
        copies = 0 if rng.random() < self.loss else 2 if rng.random() < self.loss / 2 else 1
        for _ in range(copies):
            when = self.now + rng.randrange(self.delay)
            heapq.heappush(self.queue, (when, next(self.numbers), sender, to, message))

    # --- what must hold ---------------------------------------------------------------------------------------------

    def look(self, replica: Replica) -> None:
        """Whether it leads now."""
        if replica.group.is_leader:
            term, id_ = replica.group.term, replica.id
            if term not in self.leaders:
                self.note(b"elected", id_, b"%d" % term)
            if self.leaders.setdefault(term, id_) != id_:
                raise Violation(f"{self.leaders[term]} and {id_} lead in term {term}")

    def logged(self, replica: Replica, entries: Sequence[Entry]) -> None:
        for index, term, _kind, data in entries:
            before = replica.term_of(index - 1)
            known = self.known.setdefault((index, term), (before, data))
            if known[0] != before or not self.is_same(known[1], data):
                raise Violation(f"there are two entries with index {index} and term {term}")

    def apply(self, replica: Replica, index: int, term: int, data: bytes) -> None:
        if index != replica.last_applied + 1:
            raise Violation(f"{replica.id} applies {index} behind {replica.last_applied}")
        replica.last_applied = index
        committed = self.committed.setdefault(index, (term, data))
        if committed[0] != term or not self.is_same(committed[1], data):
            raise Violation(f"{replica.id} applies another entry {index} than was committed")
        replica.applied.append((index, data))
        if self.leaders.get(term) == replica.id and data in self.proposed:
            self.acked[index] = data

    def is_same(self, one: bytes, other: bytes) -> bool:
        """Whether two entries say the same."""
        return one == other

    def note(self, what: bytes, id_: int, data: bytes) -> None:
        self.trace.update(b"%d %s %d %s\n" % (self.now, what, id_, data))
