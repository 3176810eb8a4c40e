"""Consumers and retention against a plain model: any order of publishing, reading, answering, removing and restarting.

The model knows sets and counters only. After every step the numbers of each consumer and the contents of the stream
must be the model's; at the end everything that is not acknowledged must still come.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slipstream.jetstream.ports import Delivery
from support.consumer_world import SECOND_NS, ConsumerWorld, seq_of, status, tokens

SUBJECTS = ("s.a", "s.b", "s.c.d")
FILTERS = {"": SUBJECTS, "s.a": ("s.a",), "s.c.>": ("s.c.d",), "s.*": ("s.a", "s.b")}
WORDS = (b"+ACK", b"+ACK", b"-NAK", b"+TERM", b"+WPI", b"")
ACK_WAIT_S = 10


@dataclass
class ModelConsumer:
    """What one consumer must know."""

    wanted: tuple[str, ...]
    max_deliver: int
    next_seq: int
    pending: dict[int, int] = field(default_factory=dict)  # sequence → deliveries
    exhausted: set[int] = field(default_factory=set)
    queued: list[int] = field(default_factory=list)
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


class ConsumersMachine(RuleBasedStateMachine):
    """One stream, a few consumers."""

    @initialize(retention=st.sampled_from(["limits", "interest", "workqueue"]))
    def begin(self, retention: str) -> None:
        self.world = ConsumerWorld()
        self.retention = retention
        self.world.stream(retention=retention)
        self.stored: dict[int, str] = {}
        self.last_seq = 0
        self.models: dict[str, ModelConsumer] = {}

    # --- the stream ---

    @rule(subject=st.sampled_from(SUBJECTS), count=st.integers(1, 3))
    def publish(self, subject: str, count: int) -> None:
        for _ in range(count):
            self.world.publish(subject)
            self.last_seq += 1
            kept = self.retention != "interest" or any(subject in model.wanted for model in self.models.values())
            if kept:
                self.stored[self.last_seq] = subject

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
    @rule(name=st.sampled_from("ABC"), chosen=st.sampled_from(sorted(FILTERS)), max_deliver=st.sampled_from([-1, 1, 2]))
    def create(self, name: str, chosen: str, max_deliver: int) -> None:
        if name in self.models:
            return
        wanted = FILTERS[chosen]
        if self.retention == "workqueue" and any(set(wanted) & set(model.wanted) for model in self.models.values()):
            return
        self.world.add(name, filter_subject=chosen, ack_wait=ACK_WAIT_S * SECOND_NS, max_deliver=max_deliver)
        first = min(self.stored, default=self.last_seq + 1)
        self.models[name] = ModelConsumer(wanted, max_deliver, first)

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        assert self.world.api(f"CONSUMER.DELETE.S.{name}")["success"]
        del self.models[name]
        if self.retention == "interest":
            for seq, subject in list(self.stored.items()):
                if not any(model.needs(seq, subject) for model in self.models.values()):
                    del self.stored[seq]

    @rule()
    def restart(self) -> None:
        self.world = self.world.restart()
        self.world.ports.advance(2_000_000)
        for model in self.models.values():
            # What waited to be delivered again is due at once, in order.
            model.queued.sort()

    # --- reading and answering ---

    @precondition(lambda self: self.models)
    @rule(data=st.data(), count=st.integers(1, 4))
    def pull(self, data: st.DataObject, count: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[name]
        expected = model.queued[:count]
        del model.queued[: len(expected)]
        for seq in expected:
            model.pending[seq] += 1
        fresh = [seq for seq in sorted(self.stored) if seq >= model.next_seq and self.stored[seq] in model.wanted]
        fresh = fresh[: count - len(expected)]
        for seq in fresh:
            model.pending[seq] = 1
            model.next_seq = seq + 1
        inbox = self.world.pull({"batch": count, "no_wait": True}, name)
        got = [message for message in inbox.take() if status(message) is None]
        assert [seq_of(message) for message in got] == expected + fresh
        for message in got:
            deliveries, seq, _, _, _ = tokens(message)
            assert deliveries == model.pending[seq]
            assert message[1].decode() == self.stored[seq]
            model.replies[seq] = message

    @precondition(lambda self: any(model.replies for model in self.models.values()))
    @rule(
        data=st.data(), word=st.sampled_from([b"+ACK", b"+ACK", b"-NAK", b"+TERM", b"+WPI", b""]), double=st.booleans()
    )
    def answer(self, data: st.DataObject, word: bytes, double: bool) -> None:
        name = data.draw(st.sampled_from(sorted(name for name, model in self.models.items() if model.replies)))
        model = self.models[name]
        seq = data.draw(st.sampled_from(sorted(model.replies)))
        assert self.world.ack(model.replies[seq], word, double=double) is double
        if word == b"-NAK":
            if seq in model.pending:
                model.failed(seq)
        elif word != b"+WPI" and (seq in model.pending or seq in model.exhausted):
            model.forget(seq)
            self._released(seq)

    def _released(self, seq: int) -> None:
        if self.retention == "limits" or seq not in self.stored:
            return
        subject = self.stored[seq]
        if self.retention == "workqueue" or not any(model.needs(seq, subject) for model in self.models.values()):
            del self.stored[seq]

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
        self.world.check()
        assert self.world.seqs() == sorted(self.stored)
        for name, model in self.models.items():
            info = self.world.info(name)
            waiting = [seq for seq, subject in self.stored.items() if seq >= model.next_seq and subject in model.wanted]
            assert info["num_pending"] == len(waiting), name
            assert info["num_ack_pending"] == len(model.pending), name
            assert info["ack_floor"]["stream_seq"] < min(model.pending, default=1 << 60)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for name, model in self.models.items():
            self.world.ports.advance((ACK_WAIT_S + 1) * SECOND_NS)
            for seq in sorted(model.pending):
                model.failed(seq)
            inbox = self.world.pull({"batch": 1000, "no_wait": True}, name)
            fresh = {seq for seq, stored in self.stored.items() if seq >= model.next_seq and stored in model.wanted}
            assert set(inbox.seqs()) == set(model.pending) | fresh


TestConsumers = ConsumersMachine.TestCase
TestConsumers.settings = settings(stateful_step_count=40)
