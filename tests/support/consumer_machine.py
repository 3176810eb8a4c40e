"""Consumers and retention against a plain model: any order of publishing, reading, answering, removing and dying.

The model knows sets and counters only. After every step the numbers of each consumer and the contents of the stream
must be the model's; at the end everything that is not acknowledged must still come. The store lies on a simulated disk.

`restart` kills the server a while after the last step: everything is remembered. `crash` cuts the power, between steps
or in the middle of one: what was promised must hold, what was not may be forgotten, and the model goes on from what the
server then knows.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.ports import Delivery, Recovered
from slipstream.testing.sim_disk import SimDisk
from support.consumer_world import SECOND_NS, ConsumerPorts, ConsumerWorld, seq_of, status, tokens
from support.jetstream_world import FakeStores
from support.stores import new_file_store, reopen

SUBJECTS = ("s.a", "s.b", "s.c.d")
FILTERS = {"": SUBJECTS, "s.a": ("s.a",), "s.c.>": ("s.c.d",), "s.*": ("s.a", "s.b")}
WORDS = (b"+ACK", b"+ACK", b"-NAK", b"+TERM", b"+WPI", b"")
ACK_WAIT_S = 1_000  # longer than all restarts of a run together


class DiskStores(FakeStores):
    """Stores on one simulated disk, a directory for each stream."""

    def __init__(self, disk: SimDisk) -> None:
        super().__init__()
        self.disk = disk

    def create(self, config: StreamConfig, created_ns: int) -> Any:
        store = new_file_store(self.disk, _directory(config.name))
        store.set_config(config.to_json())
        self.made[config.name] = store
        return store


def _directory(stream: str) -> str:
    return f"/store/A/{stream}"


def reopened(disk: SimDisk, streams: list[str], clock_ns: int) -> ConsumerWorld:
    """A new server on what a disk holds."""
    stores, ports = DiskStores(disk), ConsumerPorts()
    ports.clock_ns = clock_ns
    for name in streams:
        store = reopen(disk, _directory(name))
        stores.made[name] = store
        stores.recoverable.append(Recovered(store, 1, StreamConfig.from_json(store.config)))
    world = ConsumerWorld(stores=stores, ports=ports)
    ports.settle()
    return world


@dataclass
class ModelConsumer:
    """What one consumer must know."""

    wanted: tuple[str, ...]
    acks: bool
    max_deliver: int
    max_ack_pending: int
    next_seq: int
    pending: dict[int, int] = field(default_factory=dict)  # sequence → deliveries
    exhausted: set[int] = field(default_factory=set)
    queued: list[int] = field(default_factory=list)
    confirmed: set[int] = field(default_factory=set)  # acks that the server has confirmed
    replies: dict[int, Delivery] = field(default_factory=dict)

    def needs(self, seq: int, subject: str) -> bool:
        return subject in self.wanted and (seq >= self.next_seq or seq in self.pending or seq in self.exhausted)

    def forget(self, seq: int) -> None:
        self.pending.pop(seq, None)
        self.exhausted.discard(seq)
        if seq in self.queued:
            self.queued.remove(seq)

    def failed(self, seq: int) -> None:
        if seq in self.queued:
            return
        if self.max_deliver > 0 and self.pending[seq] >= self.max_deliver:
            del self.pending[seq]
            self.exhausted.add(seq)
        else:
            self.queued.append(seq)

    def room(self) -> int:
        return self.max_ack_pending - len(self.pending) if self.acks and self.max_ack_pending > 0 else 1 << 30

    def adopt(self, known: Any, stored: dict[int, str]) -> None:
        """After a power cut: what the server knows must not contradict what it promised; go on from there."""
        pending = {seq: known.acks.deliveries(seq) for seq in known.acks.pending}
        for seq, subject in stored.items():
            if subject not in self.wanted:
                continue
            ahead, out = seq >= known.next_seq, seq in pending or seq in known.acks.exhausted
            if seq in self.confirmed:
                assert not ahead and not out, f"a confirmed ack of {seq} was forgotten"
            elif seq >= self.next_seq:
                assert ahead, f"{seq} was never delivered and counts as delivered"
            elif seq in self.pending or seq in self.exhausted:
                assert ahead or out, f"{seq} was not acknowledged and counts as acknowledged"
                assert not out or known.acks.deliveries(seq) <= max(self.pending.get(seq, 0), self.max_deliver)
            if seq in known.acks.exhausted:
                assert 0 < self.max_deliver <= known.acks.deliveries(seq), f"{seq} was given up too early"
        self.next_seq = known.next_seq
        self.pending, self.exhausted = pending, set(known.acks.exhausted)
        # Whatever waited to be delivered again is due: time has passed.
        self.queued = []
        for seq in sorted(pending):
            self.failed(seq)


class ConsumersMachine(RuleBasedStateMachine):
    """One stream, a few consumers."""

    tally: Counter[str] = Counter()
    """What happened in all runs of this process."""

    @initialize(
        retention=st.sampled_from(["limits", "interest", "workqueue"]),
        max_msgs=st.sampled_from([-1, -1, 6]),
        max_deliver=st.sampled_from([-1, 2]),
    )
    def begin(self, retention: str, max_msgs: int, max_deliver: int) -> None:
        self.world = ConsumerWorld(stores=DiskStores(SimDisk()))
        self.retention, self.max_msgs = retention, max_msgs
        self.world.stream(retention=retention, storage="file", max_msgs=max_msgs)
        self.stored: dict[int, str] = {}
        self.released: dict[int, str] = {}  # removed because of acks that nobody has promised to remember
        self.last_seq = 0
        self.models: dict[str, ModelConsumer] = {}
        self.create("A", "s.*", max_deliver, 1000, True)
        self.publish("s.a", 2)

    @property
    def disk(self) -> SimDisk:
        stores = self.world.stores
        assert isinstance(stores, DiskStores)
        return stores.disk

    # --- the stream ---

    @rule(subject=st.sampled_from(SUBJECTS), count=st.integers(1, 3))
    def publish(self, subject: str, count: int) -> None:
        for _ in range(count):
            assert self.world.publish(subject)["seq"] == self.last_seq + 1
            self._published(subject)

    def _published(self, subject: str) -> None:
        self.tally["published"] += 1
        self.last_seq += 1
        kept = self.retention != "interest" or any(subject in model.wanted for model in self.models.values())
        if kept:
            self.stored[self.last_seq] = subject
            if 0 < self.max_msgs < len(self.stored):
                self._removed(min(self.stored))

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def delete_message(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.stored)))
        assert self.world.api("STREAM.MSG.DELETE.S", {"seq": seq})["success"]
        self._removed(seq)

    @rule(subject=st.sampled_from(["", *SUBJECTS]))
    def purge(self, subject: str) -> None:
        self.world.api("STREAM.PURGE.S", {"filter": subject} if subject else b"")
        for seq, stored in list(self.stored.items()):
            if not subject or stored == subject:
                self._removed(seq)

    def _removed(self, seq: int) -> None:
        del self.stored[seq]
        for model in self.models.values():
            model.forget(seq)

    # --- consumers come and go ---

    @precondition(lambda self: len(self.models) < 3)
    @rule(
        name=st.sampled_from("ABC"),
        chosen=st.sampled_from(sorted(FILTERS)),
        max_deliver=st.sampled_from([-1, 1, 2]),
        max_ack_pending=st.sampled_from([-1, 1000, 3]),
        acks=st.sampled_from([True, True, False]),
    )
    def create(self, name: str, chosen: str, max_deliver: int, max_ack_pending: int, acks: bool) -> None:
        if name in self.models:
            return
        wanted = FILTERS[chosen]
        if self.retention == "workqueue":
            acks = True
            if any(set(wanted) & set(model.wanted) for model in self.models.values()):
                return
        config: dict[str, Any] = {"filter_subject": chosen, "max_deliver": max_deliver}
        if acks:
            config |= {"ack_wait": ACK_WAIT_S * SECOND_NS, "max_ack_pending": max_ack_pending}
        else:
            config |= {"ack_policy": "none"}
        self.world.add(name, **config)
        first = min(self.stored, default=self.last_seq + 1)
        self.models[name] = ModelConsumer(wanted, acks, max_deliver, max_ack_pending, first)

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        assert self.world.api(f"CONSUMER.DELETE.S.{name}")["success"]
        del self.models[name]
        if self.retention == "interest":
            self._release_unneeded()

    def _release_unneeded(self) -> None:
        for seq, subject in list(self.stored.items()):
            if not any(model.needs(seq, subject) for model in self.models.values()):
                self.released[seq] = self.stored.pop(seq)

    # --- dying ---

    @rule()
    def restart(self) -> None:
        """Killed a while after the last step."""
        self.tally["restarts"] += 1
        self.world.ports.advance(SECOND_NS)
        self.world = reopened(self.disk.copy(), ["S"], self.world.ports.clock_ns)
        self.world.ports.advance(2_000_000)
        for model in self.models.values():
            # What waited to be delivered again is due at once, in order.
            model.queued.sort()

    @rule(
        keep=st.sampled_from([0.0, 0.5, 1.0]),
        torn=st.booleans(),
        seed=st.integers(0, 1 << 16),
        within=st.sampled_from(["", "publish", "ack", "tick"]),
        calls=st.integers(0, 3),
    )
    def crash(self, keep: float, torn: bool, seed: int, within: str, calls: int) -> None:
        """The power is cut, now or at one of the next calls to the disk."""
        self.tally["crashes"] += 1
        rng = random.Random(seed)
        images: list[SimDisk] = []

        def look(disk: SimDisk) -> None:
            nonlocal calls
            calls -= 1
            if calls < 0 and not images:
                images.append(disk.crash(rng, keep=keep, torn=torn))

        disk = self.disk
        if within:
            disk.before_call = look
            self._in_doubt(within)
            disk.before_call = None
        image = images[0] if images else disk.crash(rng, keep=keep, torn=torn)
        self.world = reopened(image, ["S"], self.world.ports.clock_ns + (ACK_WAIT_S + 1) * SECOND_NS)
        self.world.ports.advance(SECOND_NS)
        self._adopt()

    def _in_doubt(self, step: str) -> None:
        """A step whose outcome nobody was told before the power was cut."""
        if step == "publish":
            self.world.publish("s.a")
            self.released[self.last_seq + 1] = "s.a"  # it may be there
        elif step == "tick":
            self.world.ports.advance(SECOND_NS)
        else:
            for model in self.models.values():
                for seq in list(model.pending):
                    self.world.ack(model.replies[seq], double=True)
                    model.forget(seq)
                    if seq in self.stored:
                        self.released[seq] = self.stored[seq]
                    return

    def _adopt(self) -> None:
        """What the server has now must be what it promised; go on from there."""
        store = self.world.account.streams["S"].store
        found = self.world.seqs()
        lost = [seq for seq in self.stored if seq not in found and seq not in self.released]
        if self.max_msgs > 0:
            # A message that is in doubt may have pushed out the oldest.
            lost = [seq for seq in lost if seq != min(self.stored)]
        assert not lost, f"premature removal of {lost}"
        back = [seq for seq in found if seq not in self.stored and seq not in self.released]
        assert not back, f"removed messages are back: {back}"
        self.stored = {seq: self.stored.get(seq) or self.released[seq] for seq in found}
        assert self.last_seq <= store.last_seq <= self.last_seq + 1
        self.last_seq = store.last_seq
        assert set(self.world.consumers().consumers) == set(self.models)
        for name, model in self.models.items():
            model.adopt(self.world.consumer(name).state, self.stored)

    # --- reading and answering ---

    @precondition(lambda self: self.models)
    @rule(data=st.data(), count=st.integers(1, 4))
    def pull(self, data: st.DataObject, count: int) -> None:
        self._pull(data, count)

    def _pull(self, data: st.DataObject, count: int) -> str:
        name = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[name]
        expected = model.queued[:count]
        del model.queued[: len(expected)]
        for seq in expected:
            model.pending[seq] += 1
        fresh = [seq for seq in sorted(self.stored) if seq >= model.next_seq and self.stored[seq] in model.wanted]
        fresh = fresh[: max(min(count - len(expected), model.room()), 0)]
        subjects = {seq: self.stored[seq] for seq in expected + fresh}
        for seq in fresh:
            model.next_seq = seq + 1
            if model.acks:
                model.pending[seq] = 1
            else:
                self._released(seq)
        inbox = self.world.pull({"batch": count, "no_wait": True}, name)
        got = [message for message in inbox.take() if status(message) is None]
        self.world.ports.gone.add(inbox.subject)
        assert [seq_of(message) for message in got] == expected + fresh
        for message in got:
            deliveries, seq, _, _, _ = tokens(message)
            assert deliveries == model.pending.get(seq, 1)
            assert message[1].decode() == subjects[seq]
            model.replies[seq] = message
        self.tally["delivered"] += len(got)
        return name

    @precondition(lambda self: self.models)
    @rule(data=st.data(), count=st.integers(1, 4), double=st.booleans())
    def work(self, data: st.DataObject, count: int, double: bool) -> None:
        """What most clients do: read some, acknowledge them all."""
        name = self._pull(data, count)
        model = self.models[name]
        for seq in [seq for seq in model.replies if seq in model.pending and seq not in model.queued]:
            assert self.world.ack(model.replies[seq], double=double) is double
            self._acknowledged(model, seq, double)

    @precondition(lambda self: any(model.replies and model.acks for model in self.models.values()))
    @rule(data=st.data(), word=st.sampled_from(WORDS), double=st.booleans())
    def answer(self, data: st.DataObject, word: bytes, double: bool) -> None:
        self.tally["answers"] += 1
        names = [name for name, model in self.models.items() if model.replies and model.acks]
        model = self.models[data.draw(st.sampled_from(sorted(names)))]
        seq = data.draw(st.sampled_from(sorted(model.replies)))
        confirmed = self.world.ack(model.replies[seq], word, double=double)
        # A reply from before a power cut may be about a message that was not delivered, as far as the server knows.
        assert confirmed is double or seq >= model.next_seq
        if word == b"-NAK":
            if seq in model.pending:
                model.failed(seq)
        elif word != b"+WPI" and (seq in model.pending or seq in model.exhausted):
            self._acknowledged(model, seq, double)

    def _acknowledged(self, model: ModelConsumer, seq: int, confirmed: bool) -> None:
        self.tally["acknowledged"] += 1
        model.forget(seq)
        if confirmed:
            model.confirmed.add(seq)
        self._released(seq)

    def _released(self, seq: int) -> None:
        if self.retention == "limits" or seq not in self.stored:
            return
        subject = self.stored[seq]
        if self.retention == "workqueue" or not any(model.needs(seq, subject) for model in self.models.values()):
            del self.stored[seq]
            if not any(seq in model.confirmed for model in self.models.values()):
                self.released[seq] = subject

    @rule()
    def acks_expire(self) -> None:
        self.world.ports.advance((ACK_WAIT_S + 1) * SECOND_NS)
        for model in self.models.values():
            for seq in sorted(model.pending):
                model.failed(seq)

    # --- what must hold ---

    @invariant()
    def numbers_agree(self) -> None:
        if not hasattr(self, "world"):
            return
        self.tally["steps"] += 1
        self.world.check()
        found, expected = self.world.seqs(), sorted(self.stored)
        assert not set(found) - set(expected), f"acknowledged and left over: {set(found) - set(expected)}"
        assert found == expected, f"premature removal of {set(expected) - set(found)}"
        for name, model in self.models.items():
            info = self.world.info(name)
            waiting = [seq for seq, subject in self.stored.items() if seq >= model.next_seq and subject in model.wanted]
            assert info["num_pending"] == len(waiting), f"pending of {name} differs"
            assert info["num_ack_pending"] == len(model.pending), f"ack pending of {name} differs"
            assert info["ack_floor"]["stream_seq"] < min(model.pending, default=1 << 60)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for name, model in self.models.items():
            self.world.ports.advance((ACK_WAIT_S + 1) * SECOND_NS)
            for seq in sorted(model.pending):
                model.failed(seq)
            fresh = {seq for seq, stored in self.stored.items() if seq >= model.next_seq and stored in model.wanted}
            assert self._drained(name, model) == set(model.pending) | fresh, f"{name} is stuck"

    def _drained(self, name: str, model: ModelConsumer) -> set[int]:
        """Everything a consumer still gives, acknowledged as it comes so that `max_ack_pending` is no obstacle."""
        came: set[int] = set()
        while True:
            inbox = self.world.pull({"batch": 100, "no_wait": True}, name)
            got = [message for message in inbox.take() if status(message) is None]
            self.world.ports.gone.add(inbox.subject)
            if not got:
                return came
            for message in got:
                came.add(seq_of(message))
                if model.acks:
                    self.world.ack(message)
