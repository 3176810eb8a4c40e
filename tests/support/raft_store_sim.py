"""The simulated group over the store's own log: frames are entries, and what is compared are the streams.

A leader appends and removes as a stream does; its frames are proposed and its commits write them. Followers write
frames and replay what is committed. A leader that was deposed opens its log again.
"""

from __future__ import annotations

import enum
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slipstream.errors import StorageFault
from slipstream.jetstream.store.file import FileStore
from slipstream.jetstream.store.file.jobs import CommitJob
from slipstream.jetstream.store.file.replica.applied_file import Applied
from slipstream.jetstream.store.file.replica.log import Entry
from slipstream.jetstream.store.file.replica.segment_import import SegmentImport, replace_by_import
from slipstream.jetstream.store.file.replica.segment_transfer import Membership
from slipstream.jetstream.store.file.replica.votes import Votes
from slipstream.kernels.log.record import ERASE, ERASED, TOMBS, StoredMessage
from slipstream.kernels.log.segscan import SegmentScan
from slipstream.replication.raft.groups import TICK_NS
from slipstream.replication.replica.segment_catch_up import HAVE, MANIFEST, PIECE, WANTED, SegmentSender, SegmentTaker
from slipstream.testing.sim_disk import SimDisk
from support.raft_sim import DIRECTORY, SETTINGS, RaftSim, Replica, Violation, WatchedLog
from support.stores import UID, options

STREAM = f"{DIRECTORY}/stream"


class StoreMutant(enum.Enum):
    """One promise that a replica's store does not keep."""

    EARLY_ACK = "a commit counts as persisted before it is synced"
    INDEXED_EARLY = "a follower indexes what is not committed"
    SEQUENCE_REUSED = "a deposed leader gives up what it wrote, and uses the sequences again"
    TAIL_NOT_CUT = "entries that replace others are written behind them"
    STATE_NOT_REPLAYED = "a follower takes the messages of a frame and not the states of consumers"
    GONE_UNSAVED = "segments go before the file of what is applied says so"
    ERASED_HERE_ONLY = "a follower removes a message that is erased, and leaves its bytes"
    HALF_UNIT = "a follower shows the frames of a unit as they come"
    SAVED_AHEAD = "the file of what is applied is written before the majority has its frame"


@dataclass(slots=True)
class Unit:
    """Messages that are stored together, or not at all."""

    messages: list[tuple[int, bytes]] = field(default_factory=list)
    is_whole: bool = False

    @property
    def seqs(self) -> list[int]:
        return [seq for seq, _ in self.messages]


class Aside(bytes):
    """A message of replicas that is not Raft's."""


class SimPorts:
    """What sender and taker need of a server; threads are quick."""

    def __init__(self, sim: StoreSim) -> None:
        self._sim = sim
        self._timers: list[tuple[int, Callable[[], None]]] = []

    def now_ns(self) -> int:
        return self._sim.now * TICK_NS

    def run_blocking(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        work()
        done()

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> Callable[[], None]:
        timer = (self.now_ns() + delay_ns, callback)
        self._timers.append(timer)

        def cancel() -> None:
            self._timers = [other for other in self._timers if other is not timer]

        return cancel

    def fire(self) -> None:
        """Call what is due."""
        due = [timer for timer in self._timers if timer[0] <= self.now_ns()]
        self._timers = [timer for timer in self._timers if timer not in due]
        for _, callback in due:
            callback()

    def log(self, level: str, text: str) -> None:
        pass

    def report(self, what: str, error: Exception) -> None:
        raise error


class StoreReplica(Replica):
    """One node: its group, its disk, its stream."""

    settings = replace(SETTINGS, message_bytes=2048, apply_bytes=4096, window_bytes=1000)
    sim: StoreSim

    def open(self, votes: Votes) -> Votes:
        self.mutant = self.sim.store_mutant
        self.job: CommitJob | None = None
        self.is_reopening = False
        self.promised: dict[tuple[int, int], list[tuple[int, bytes]]] = {}  # by index and term
        self.ports = SimPorts(self.sim)
        self.sender = SegmentSender(self.ports, self._send_aside)
        self.taker = SegmentTaker(self.ports, self, self._send_aside, self._replace)
        replace_by_import(self.disk, STREAM)
        if not self.disk.is_dir(STREAM):
            FileStore.create(self.disk, STREAM, uid=UID, config=b"{}", options=self._options())
            self.disk.sync_dir(DIRECTORY)
        self.last_applied = votes.commit
        self._open()
        self.last_applied = self.frames.applied_index
        return votes

    def _options(self) -> Any:
        seed = random.Random(f"{self.sim.seed} {self.id} {self.sim.now}").getrandbits(32)
        return replace(options(segment_bytes=4096 + 3000, seed=seed), replicated=True)

    def _opened(self, disk: SimDisk) -> FileStore:
        try:
            return FileStore.open(disk, STREAM, self._options(), committed=self.last_applied)
        except StorageFault as error:
            raise Violation(f"{self.id} cannot open its log: {error}") from error

    def _open(self) -> None:
        self.store = self._opened(self.disk)
        assert self.store.replica is not None
        self.log = self.frames = self.store.replica
        if self.store.lost().seqs:
            raise Violation(f"{self.id} says that it lost {self.store.lost().seqs}")
        self.unit: Unit | None = None
        self.owes_frame = False
        committed, self.last_applied = self.last_applied, max(self.frames.applied_index, self.last_applied)
        if self.frames.applied_index < committed:
            place = self.frames._places[committed - self.frames._first]
            if not place.goes_on or place.unit - 1 != self.frames.applied_index:
                applied = self.frames.applied_index
                raise Violation(f"{self.id} knew that {committed} is committed, and now {applied}")
        if self.mutant is StoreMutant.STATE_NOT_REPLAYED:
            self.frames._states = _Deaf(self.frames._states)
        if self.mutant is StoreMutant.SAVED_AHEAD:
            self.store._applied._replica = _Rash(self.frames)
        if self.mutant is StoreMutant.GONE_UNSAVED:
            self.store._applied.saved, self.store._applied.saved_first = 1 << 60, 1 << 60
        if self.mutant is StoreMutant.ERASED_HERE_ONLY:
            self.frames._removals._erasures = _Deaf(self.frames._removals._erasures)

    # --- whole segments ---------------------------------------------------------------------------------------------

    def _send_aside(self, to: int, kind: int, message: bytes) -> None:
        self.sim.send(self.id, to, Aside(bytes((kind,)) + message))

    def begin_import(self, manifest: bytes) -> SegmentImport:
        return SegmentImport(self.disk, STREAM, manifest)

    def _replace(self, copy: SegmentImport) -> bool:
        """As a process that dies and starts again; False: the log has the end of the copy by now."""
        if not self.frames.lacks(copy.manifest.frame, copy.manifest.term):
            return False
        self.sim.replaced += 1
        copy.finish(self._options())
        self.group.stop()
        self.start()
        return True

    def aside(self, sender: int, kind: int, body: bytes) -> None:
        """A message that is not Raft's."""
        if kind == WANTED:
            self.sender.wanted(sender, body)
        elif kind == HAVE:
            if (taken := self.sender.has(sender, body)) is not None:
                self.group.has_taken(sender, *taken)
        elif kind == MANIFEST and not self.leads_in and not self.is_reopening:
            self.taker.offered(sender, body, self.frames)
        elif kind == PIECE and not self.leads_in and not self.is_reopening:
            self.taker.piece(sender, body)

    def behind(self, to: int) -> None:
        if self.leads_in:
            votes = self.group.votes
            self.sender.offer(to, self.store, Membership(votes.voters, [], [], [], False, votes.applied_conf))

    # --- what the simulation asks -----------------------------------------------------------------------------------

    @property
    def acks_early(self) -> bool:
        return self.mutant is StoreMutant.EARLY_ACK

    @property
    def least_index(self) -> int:
        """It has the entries up to this one, whatever happens."""
        return min(self.last_applied, self.frames.synced_index)

    def term_of(self, index: int) -> int:
        return next((term for first, term in reversed(self.frames.terms()) if first <= index), 0)

    def propose(self) -> None:
        """What a stream would do in a turn, as frames."""
        store, rng = self.store, self.sim.rng
        if not self.leads_in or self.job is not None or (store.log.pending_bytes and not self.owes_frame):
            return
        self.owes_frame = False
        messages: list[tuple[int, bytes]] = []
        if self.unit is not None or rng.random() < 0.15:
            messages = self._write_unit()
        if self.unit is None:
            self._write_messages(messages)
        job = store.begin_commit()
        assert isinstance(job, CommitJob)
        packed = self.frames.proposals(job)
        last, term = self.frames.last_index, self.leads_in
        self.sim.proposed.update(packed)
        if self.group.propose(packed):
            self.job = job
            self.promised[last, term] = messages

    def _write_unit(self) -> list[tuple[int, bytes]]:
        """Begin a unit, or write more of it; what was in it if it is whole now."""
        store, rng = self.store, self.sim.rng
        if self.unit is None:
            store.begin_atomic()
            self.unit = Unit()
            self.sim.units.append(self.unit)
        messages = self.unit.messages
        for n in range(rng.randrange(1, 6)):
            seq = (messages[-1][0] if messages else store.last_seq) + 1
            payload = b"unit %d-%d-%d" % (self.id, self.sim.now, n) + bytes(rng.choice([0, 0, 700]))
            store.append_atomic(seq, self.sim.now * 10 + n, b"s.u", b"", payload)
            messages.append((seq, payload))
        chance = rng.random()
        if chance < 0.4:
            store.end_atomic({b"unit": b"%d" % self.sim.now})
            self.unit.is_whole, self.unit = True, None
            return list(messages)
        if chance < 0.55:
            store.abort_atomic()
            self.unit = None
        return []

    def _write_messages(self, messages: list[tuple[int, bytes]]) -> None:
        store, rng = self.store, self.sim.rng
        for n in range(rng.randrange(1, 4)):
            payload = b"%d.%d.%d" % (self.id, self.sim.now, n)
            store.append(store.last_seq + 1, self.sim.now * 10 + n, b"s.%d" % rng.randrange(3), b"", payload)
            messages.append((store.last_seq, payload))
        self._consume()
        chance = rng.random()
        if chance < 0.1:
            store.delete(rng.randrange(1, store.last_seq + 1))
        elif chance < 0.3:
            store.erase(rng.randrange(max(store.last_seq - 15, 1), store.last_seq + 1))
        elif chance < 0.36:
            store.trim_to(max(store.last_seq - (20 if self.sim.is_kind else 4), 1))
        elif chance < 0.44:
            store.put_note(b"note", b"%d" % self.sim.now)
        elif chance < 0.47:
            store.skip_to(store.last_seq + 2)

    def _consume(self) -> None:
        """Consumers come and go, and remember how far they are."""
        rng, journal = self.sim.rng, self.store.journal
        for _ in range(rng.randrange(3)):
            name = b"consumer.%d" % rng.randrange(4)
            chance = rng.random()
            if name not in journal.entries() or chance < 0.2:
                journal.put(name, b"whole %d" % self.sim.now + bytes(rng.choice([0, 0, 900])))
            elif chance < 0.9:
                journal.add(name, b"change %d" % self.sim.now)
            else:
                journal.remove(name)

    def state(self) -> object:
        """What readers see, and what the next process would: the same, with the facts that are no messages."""
        again = self._opened(self.disk.kill())
        # A leader shows its commits whole; the last may be committed in part.
        settled = self.job is None and not self.store._commits.persisted
        if settled and _shown(again) != _shown(self.store):
            raise Violation(f"{self.id} shows {_shown(self.store)}, and opened again {_shown(again)}")
        if settled and again.journal.entries() != self.store.journal.entries():
            raise Violation(f"{self.id} has other consumers than the next process")
        return _shown(again), again.notes(), again.config, again.journal.entries()

    def check_erased(self) -> None:
        """What was erased is on no disk: not in any part of a segment that is one of the log."""
        for _ in range(20):
            self.write_all()
            self.keep_up()
        if self.store._commits.persisted:
            return  # a leader with more to come
        if self.store.erasing:
            raise Violation(f"{self.id} is still erasing")
        files = [self.disk.read(segment.path, 0, segment.end) for segment in self.store.log.segments]
        for seq in self.sim.erased:
            payload = self.sim.acked_messages.get(seq)
            if payload is not None and any(payload in data for data in files):
                raise Violation(f"{self.id} still has {payload!r}, which was erased")

    def check_acked(self, acked: dict[int, bytes]) -> None:
        self.check_erased()
        self.sim.check_units(self)
        gone = self.sim.removed
        for seq, payload in self.sim.acked_messages.items():
            message = self.store.get(seq)
            if message is None and seq >= self.store.first_seq and seq not in gone:
                raise Violation(f"message {seq} was acknowledged and is not there")
            if message is not None and message.payload != payload:
                raise Violation(f"message {seq} was acknowledged as {payload!r} and is {message.payload!r}")

    def sync(self) -> None:
        self.ports.fire()
        self.save_now()
        if self.is_reopening:
            self.reopen()
        if self.is_due or self.job is not None or self.store.erasing or self.acks_early:
            self.is_due = False
            self.write_all()
            self.group.persisted()
        if self.sim.rng.random() < 0.2:
            self.keep_up()

    def keep_up(self) -> None:
        """A piece of background work; now and then somebody falls behind what is left of the log."""
        least = min(r.least_index for r in self.sim.replicas.values()) + 1
        self.frames.hold(least if self.sim.is_kind else 1 << 62)
        if (piece := self.store.begin_upkeep()) is not None:
            piece.run()
            self.store.finish_upkeep(piece)

    def write_all(self) -> None:
        """End the commit in flight, and commit what waits behind it."""
        while True:
            job = self.job or (None if self.leads_in and self.owes_frame else self.store.begin_commit())
            self.job = None
            if job is None:
                break
            job.run()
            done = self.store.finish_commit(job)
            if done.fault is not None:
                raise Violation(f"{self.id}: {done.fault}")

    def write(self, entries: Sequence[Entry]) -> None:
        if self.mutant is StoreMutant.TAIL_NOT_CUT:
            del self.frames._places[entries[0][0] - self.frames._first :]
        self.frames.write(entries)
        if self.mutant is StoreMutant.HALF_UNIT:
            places = self.frames._places
            places[-len(entries) :] = [replace(place, unit=0, goes_on=False) for place in places[-len(entries) :]]
        if self.mutant is StoreMutant.INDEXED_EARLY:
            self.frames.commit(self.frames.last_index)

    # --- what a group has done for it -------------------------------------------------------------------------------

    def committed(self, entries: Sequence[Entry]) -> None:
        for index, term, _kind, data in entries:
            self.sim.apply(self, index, term, data)
            self.sim.acked_messages.update(self.promised.pop((index, term), ()))
        self.frames.commit(entries[-1][0])
        self.sim.check_seen(self)

    def leads(self, term: int) -> None:
        super().leads(term)
        self.frames.lead(term)
        self.owes_frame = self.store.log.pending_bytes > 0  # which ends a unit that it had left open

    def steps_down(self) -> None:
        """Drop what was indexed ahead of the majority, keep the frames: now, or when there is time."""
        self.leads_in = 0
        self.sender.stop()
        self.group.hold()
        self.is_reopening = True
        if self.sim.rng.random() < 0.5:
            self.reopen()

    def reopen(self) -> None:
        if self.job is not None:  # Raft knows of these frames
            self.write_all()
        self.is_reopening = False
        self._open()
        if self.mutant is StoreMutant.SEQUENCE_REUSED and self.frames.last_index > self.last_applied:
            self.frames._cut(self.last_applied + 1)
        self.group.resume(WatchedLog(self, self.log))


class StoreSim(RaftSim):
    """`RaftSim` over file stores."""

    def __init__(self, seed: int, *, nodes: int = 3, steps: int = 300, mutant: StoreMutant | None = None) -> None:
        self.store_mutant = mutant
        self.acked_messages: dict[int, bytes] = {}
        self.units: list[Unit] = []
        self.replaced = 0  # logs
        self.is_kind = seed % 2 == 0  # nobody needs whole segments
        super().__init__(seed, nodes=nodes, steps=steps, replica=StoreReplica)

    @property
    def removed(self) -> set[int]:
        """Sequences that committed frames remove one by one."""
        out: set[int] = set()
        for _, data in self.committed.values():
            for kind, _, _, _, payload in _controls(data):
                if kind == TOMBS:
                    out.update(memoryview(payload).cast("Q"))
        return out | self.erased

    @property
    def erased(self) -> set[int]:
        """Sequences that committed frames erase."""
        frames = (_controls(data) for _, data in self.committed.values())
        return {seq for controls in frames for kind, seq, *_ in controls if kind == ERASE}

    def is_same(self, one: bytes, other: bytes) -> bool:
        """A copy may have erased messages that the other still has."""
        if len(one) != len(other):
            return False
        at = {place for data in (one, other) for place, kind, _ in _records(data) if kind == ERASED}
        return _without(one, at) == _without(other, at)

    def stop(self, id_: int, *, power: bool) -> None:
        super().stop(id_, power=power)
        if not self.is_kind and len(self.down) == 1:  # so long that what it lacks is gone
            self.down[id_] += self.rng.randrange(150)

    def deliver(self, replica: Replica, sender: int, message: bytes) -> None:
        if isinstance(message, Aside):
            assert isinstance(replica, StoreReplica)
            replica.aside(sender, message[0], message[1:])
        else:
            super().deliver(replica, sender, message)

    def check_seen(self, replica: StoreReplica) -> None:
        """No reader may see what is not committed."""
        if replica.last_applied > replica.last_index:
            raise Violation(f"{replica.id} has applied {replica.last_applied} and has {replica.last_index}")
        if replica.last_applied and replica.store.committed_seq:
            frames = replica.frames
            if replica.last_applied < frames._first:
                return
            place = frames._places[replica.last_applied - frames._first]
            if replica.store.committed_seq > place.last_seq:
                raise Violation(f"{replica.id} shows {replica.store.committed_seq}, committed is {place.last_seq}")
        for unit in self.units[-3:]:
            if self.seen_of(replica, unit) and (
                not unit.is_whole or unit.messages[-1][0] > replica.store.committed_seq
            ):
                raise Violation(f"{replica.id} shows a part of the unit {unit.seqs}")

    def seen_of(self, replica: StoreReplica, unit: Unit) -> set[int]:
        """Which messages of a unit a replica shows."""
        store = replica.store
        found = [(seq, payload, store.get(seq)) for seq, payload in unit.messages if seq <= store.committed_seq]
        return {seq for seq, payload, message in found if message is not None and message.payload == payload}

    def check_units(self, replica: StoreReplica) -> None:
        """Of a unit all is there that was not removed, or nothing; a leader may have to show a removal yet."""
        gone, first_seq = self.removed, replica.store.first_seq
        for unit in self.units:
            seen = self.seen_of(replica, unit)
            kept = {seq for seq in unit.seqs if seq >= first_seq and seq not in gone}
            if seen and (not seen >= kept or not unit.is_whole):
                raise Violation(f"{replica.id} shows {seen} of the unit {unit.seqs}")


class _Deaf:
    """A part that hears nothing of other replicas."""

    def __init__(self, part: Any) -> None:
        self._part = part

    def replay(self, controls: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class _Rash:
    """A log that calls all of it applied."""

    def __init__(self, frames: Any) -> None:
        self._frames = frames

    def applied(self, saved: int) -> Applied | None:
        frame, place = self._frames.last_index, self._frames._places[-1:]
        states = self._frames._states.entries()
        return Applied(UID, frame, place[0].epoch, self._frames._log.first_kept, states) if frame > saved else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frames, name)


def _shown(store: FileStore) -> tuple[list[tuple[int, int, bytes, bytes]], int, int, int]:
    found = [store.get(seq) for seq in range(1, store.committed_seq + 1)]
    messages = [(m.seq, m.ts_ns, m.subject, m.payload) for m in found if isinstance(m, StoredMessage)]
    return messages, store.first_seq, store.committed_seq, store.messages


def _records(packed: bytes) -> list[tuple[int, int, int]]:
    """Place, kind and end of the records of a packed frame."""
    out, at = [], 64
    while at < len(packed):
        headers, subject, flags, payload = struct.unpack_from("<I16xHHI", packed, at + 4)
        end = at + 32 + headers + subject + payload + (8 if flags & 16 else 0)
        out.append((at, flags & 15, end + -end % 8))
        at = out[-1][2]
    return out


def _without(packed: bytes, places: set[int]) -> list[bytes]:
    """A frame without its checksum and without what lies at these places, but for the sequences."""
    return [packed[4:60]] + [packed[at + 8 : at + 16 if at in places else end] for at, _, end in _records(packed)]


def _controls(packed: bytes) -> list[tuple[int, int, int, bytes, bytes]]:
    scan = SegmentScan(packed, 0, 0, 1, 0)
    while scan.step(1 << 20):
        pass
    return scan.controls
