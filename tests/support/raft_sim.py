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
from typing import Any

from slipstream_raft import GroupStopped, ProposalDropped, RaftError, RawNode

from slipstream.jetstream.store.file.votes import VoteFile, Votes
from slipstream.testing.sim_disk import SimDisk
from support.raft_log import PlainLog

DIRECTORY = "/replica"
ELECTION_TICK = 10


class Mutant(enum.Enum):
    """One promise that a node does not keep."""

    EARLY_ACK = "an entry counts as persisted before it is synced"
    LOST_VOTE = "the vote of a term is not kept"
    TAIL_NOT_CUT = "after a restart the old tail is in the log again, not what replaced it"
    APPLY_OUT_OF_ORDER = "entries of one ready are applied the last one first"


class Violation(AssertionError):
    """A promise was broken."""


class Replica:
    """One node: its core, its disk, what it applied."""

    def __init__(self, sim: RaftSim, id_: int) -> None:
        self.sim = sim
        self.id = id_
        self.disk = SimDisk()
        self.disk.make_dir(DIRECTORY)
        self.disk.sync_dir("/")
        self.node: Any = None
        self.start()

    def start(self) -> None:
        """Come up from what is on the disk."""
        sim = self.sim
        self.file = VoteFile(self.disk, DIRECTORY)
        self.log = PlainLog(self.disk, DIRECTORY, cuts_tail=sim.mutant is not Mutant.TAIL_NOT_CUT)
        votes = self.file.load() or Votes(voters=sim.ids)
        terms = self.log.terms()
        if sim.mutant is Mutant.LOST_VOTE:
            votes = Votes(votes.version, max(votes.term, terms[-1][1]), 0, votes.commit, sim.ids)
        self.votes = votes
        self.synced_index = self.log.last_index
        self.applied: list[tuple[int, bytes]] = []
        self.last_applied = 0
        self.waiting: list[tuple[int, list[Any]]] = []  # readies to be synced, with what is sent then
        self.hard_state = (votes.term, votes.vote, min(votes.commit, self.log.last_index))
        self.seen = (-1, "")
        self.node = RawNode(
            self.id,
            self,
            hard_state=self.hard_state,
            conf_state=(sim.ids, [], [], [], False),
            first_index=1,
            last_index=self.log.last_index,
            terms=terms,
            applied=0,
            election_tick=ELECTION_TICK,
            heartbeat_tick=2,
            max_size_per_msg=256,
            max_inflight_msgs=8,
            max_uncommitted_size=1 << 20,
            max_committed_size_per_ready=512,
            window_bytes=200,
        )
        self.roll()

    # --- the log's reader -------------------------------------------------------------------------------------------

    def entries(self, low: int, high: int, max_bytes: int) -> list[tuple[int, int, int, bytes]]:
        return self.log.entries[low - 1 : high - 1]

    def snapshot(self, request_index: int, to: int) -> None:
        raise Violation("the log is never compacted here")

    # --- what the simulation asks of a replica ----------------------------------------------------------------------

    @property
    def last_index(self) -> int:
        return self.log.last_index

    def term_of(self, index: int) -> int:
        return self.log.entries[index - 1][1] if index else 0

    def batch(self) -> list[bytes]:
        """What a leader proposes, if it can now."""
        return [b"%d.%d.%d" % (self.id, self.sim.now, n) for n in range(self.sim.rng.randrange(1, 4))]

    def accepted(self, first: int) -> None:
        """The batch is proposed, from this index on."""

    def dropped(self) -> None:
        """It is not."""

    def state(self) -> object:
        """What a client could read."""
        return self.applied

    def check_acked(self, acked: dict[int, bytes]) -> None:
        have = dict(self.applied)
        for index, data in acked.items():
            if have.get(index) != data:
                raise Violation(f"entry {index} was acknowledged as {data!r} and is {have.get(index)!r}")

    # --- events -----------------------------------------------------------------------------------------------------

    def roll(self) -> None:
        """New dice for the election timeout when the term or the role changed."""
        status = self.node.status()
        if (status.term, status.role) != self.seen:
            self.seen = (status.term, status.role)
            self.node.set_randomized_election_timeout(self.sim.rng.randrange(ELECTION_TICK, 2 * ELECTION_TICK))
            if status.role == "leader":
                self.sim.elected(status.term, self.id)

    def work(self) -> None:
        """Everything the core wants done, but for syncs."""
        while (ready := self.node.ready()) is not None:
            if ready.hard_state is not None:
                self.hard_state = ready.hard_state
                self.save_votes()
            self.log.append(ready.entries)
            if ready.entries:
                self.synced_index = min(self.synced_index, ready.entries[0][0] - 1)
            self.sim.logged(self, ready.entries)
            self.waiting.append((ready.number, ready.persisted_messages))
            self.sim.send(self.id, ready.messages)
            self.apply(ready.committed)
            self.roll()
            if self.sim.mutant is Mutant.EARLY_ACK:
                self.persisted()

    def apply(self, committed: list[tuple[int, int, int, bytes]]) -> None:
        if self.sim.mutant is Mutant.APPLY_OUT_OF_ORDER:
            committed = committed[::-1]
        for index, term, _kind, data in committed:
            self.sim.apply(self, index, term, data)
        if committed:
            self.node.advance_apply_to(max(entry[0] for entry in committed))

    def save_votes(self) -> None:
        """Before the log is written: what is not synced may survive all the same, and must be of a known term."""
        term, vote, commit = self.hard_state
        if (term, vote) != (self.votes.term, self.votes.vote):
            self.votes = Votes(self.votes.version + 1, term, vote, min(commit, self.synced_index), self.sim.ids)
            self.file.save(self.votes)

    def sync(self) -> None:
        """What waits is on disk."""
        if self.waiting:
            self.log.sync()
            self.synced_index = self.log.last_index
            self.persisted()

    def persisted(self) -> None:
        waiting, self.waiting = self.waiting, []
        self.node.on_persist_ready(waiting[-1][0])
        for _, messages in waiting:
            self.sim.send(self.id, messages)


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
        self.proposed: dict[tuple[int, int], bytes] = {}
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
        except (Violation, GroupStopped, RaftError) as error:
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
                replica.node.tick()
            replica.roll()
            if rng.random() < 0.3:
                self.propose(replica)
            replica.work()
        while self.queue and self.queue[0][0] <= self.now:
            _, _, sender, to, message = heapq.heappop(self.queue)
            if to in self.down or (sender, to) in self.cut:
                continue
            self.note(b"in", to, message)
            try:
                self.replicas[to].node.step(message)
            except RaftError as error:
                raise Violation(f"a message was refused: {error}") from error
            self.replicas[to].roll()
            self.replicas[to].work()
        for id_, replica in self.replicas.items():
            if id_ not in self.down and (self.peace or rng.random() < 0.6):  # a sync may take some steps
                replica.sync()
                replica.work()

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

    def stop(self, id_: int, *, power: bool) -> None:
        if id_ in self.down:
            return
        rng, replica = self.rng, self.replicas[id_]
        self.note(b"power" if power else b"kill", id_, b"")
        if power:
            replica.disk = replica.disk.crash(rng, keep=rng.choice([0.0, 0.5, 0.9]), torn=True)
        else:
            replica.disk = replica.disk.kill()
        replica.node = None
        self.down[id_] = self.now + rng.randrange(1, 60)

    def propose(self, replica: Replica) -> None:
        if replica.node.status().role != "leader":
            return
        batch = replica.batch()
        if not batch:
            return
        try:
            first = replica.node.propose(batch)
        except ProposalDropped:
            replica.dropped()
            return
        replica.accepted(first)
        term = replica.node.status().term
        for index, data in enumerate(batch, first):
            self.proposed[index, term] = data

    def heal(self) -> None:
        """Everything works: the group must agree, take one more proposal, and apply all of it everywhere."""
        self.peace = True
        self.loss, self.delay = 0.0, 1
        self.cut.clear()
        self.down = dict.fromkeys(self.down, self.now)
        least = None
        for _ in range(600):
            self.step()
            states = [replica.last_applied for replica in self.replicas.values() if replica.node is not None]
            if least is None:
                leader = [r for r in self.replicas.values() if r.node is not None and r.seen[1] == "leader"]
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

    def send(self, sender: int, messages: list[tuple[int, int, bytes]]) -> None:
        rng = self.rng
        for to, _kind, message in messages:
            copies = 0 if rng.random() < self.loss else 2 if rng.random() < self.loss / 2 else 1
            for _ in range(copies):
                when = self.now + rng.randrange(self.delay)
                heapq.heappush(self.queue, (when, next(self.numbers), sender, to, message))

    # --- what must hold ---------------------------------------------------------------------------------------------

    def elected(self, term: int, id_: int) -> None:
        self.note(b"elected", id_, b"%d" % term)
        if self.leaders.setdefault(term, id_) != id_:
            raise Violation(f"{self.leaders[term]} and {id_} lead in term {term}")

    def logged(self, replica: Replica, entries: list[tuple[int, int, int, bytes]]) -> None:
        for index, term, _kind, data in entries:
            before = replica.term_of(index - 1)
            if self.known.setdefault((index, term), (before, data)) != (before, data):
                raise Violation(f"there are two entries with index {index} and term {term}")

    def apply(self, replica: Replica, index: int, term: int, data: bytes) -> None:
        if index != replica.last_applied + 1:
            raise Violation(f"{replica.id} applies {index} behind {replica.last_applied}")
        replica.last_applied = index
        if self.committed.setdefault(index, (term, data)) != (term, data):
            raise Violation(f"{replica.id} applies another entry {index} than was committed")
        replica.applied.append((index, data))
        if self.leaders.get(term) == replica.id and self.proposed.get((index, term)) == data:
            self.acked[index] = data

    def note(self, what: bytes, id_: int, data: bytes) -> None:
        self.trace.update(b"%d %s %d %s\n" % (self.now, what, id_, data))
