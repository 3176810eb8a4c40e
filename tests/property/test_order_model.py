"""Orders by keys against what they promise, whatever clients do: order of a key, nobody left out, nothing lost.

The model knows what was published and what is in flight, and looks at each delivery as it comes.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slipstream.jetstream.ports import Delivery
from support.consumer_world import SECOND_NS, ConsumerWorld, Inbox, status, tokens

KINDS: dict[str, dict[str, str]] = {
    "key-shared": {},
    "fair": {},
    "priority": {"slipstream.delivery.key": "token:2"},
    "rate": {"slipstream.delivery.rate": "1/s"},
}
STEP_NS = SECOND_NS // 4  # time is looked at this often


class OrderMachine(RuleBasedStateMachine):
    """One consumer and what clients do to it."""

    world: ConsumerWorld
    kind: str

    @initialize(
        kind=st.sampled_from(sorted(KINDS)),
        ahead=st.sampled_from(["2", "5", "4096"]),
        pending=st.integers(1, 6),
        pushed=st.booleans(),
    )
    def begin(self, kind: str, ahead: str, pending: int, pushed: bool) -> None:
        self.kind, self.ahead, self.pushed = kind, int(ahead), pushed
        self.world = ConsumerWorld()
        self.world.stream()
        metadata = {"slipstream.delivery": kind, "slipstream.delivery.ahead": ahead, **KINDS[kind]}
        config: dict[str, Any] = {"metadata": metadata, "max_ack_pending": pending, "ack_wait": 5 * SECOND_NS}
        if pushed:
            config["deliver_subject"] = "dlv"
        self.world.add(**config)
        self.keys: dict[int, str] = {}  # what was published and is there
        self.waiting: list[int] = []  # not delivered yet, as published
        self.flying: dict[int, Delivery] = {}
        self.acked: set[int] = set()
        self.last_of: dict[str, int] = {}  # key → last first delivery
        self.went_ns: dict[str, int] = {}
        self.passed_by: dict[str, dict[str, int]] = {}  # key that waits → deliveries of others meanwhile
        self.inboxes: list[Inbox] = []
        self.last_seq = 0
        if pushed:
            self.inboxes.append(self.world.listen("dlv"))

    # --- what clients do ---

    @rule(keys=st.lists(st.sampled_from("0239"), min_size=1, max_size=6))
    def publish(self, keys: list[str]) -> None:
        for key in keys:
            self.last_seq += 1
            self.keys[self.last_seq] = key
            self.waiting.append(self.last_seq)
            self.world.ports.route(f"s.{key}".encode(), None, None, b"x")
        self.look()

    @precondition(lambda self: not self.pushed)
    @rule(batch=st.integers(1, 8), budget=st.sampled_from([0, 0, 60, 200]))
    def pull(self, batch: int, budget: int) -> None:
        self.inboxes.append(self.world.pull({"batch": batch, "max_bytes": budget, "expires": 20 * SECOND_NS}))
        self.look()

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), answer=st.sampled_from([b"+ACK", b"+ACK", b"+ACK", b"+TERM", b"-NAK", b"+WPI"]))
    def answer(self, data: st.DataObject, answer: bytes) -> None:
        seq = data.draw(st.sampled_from(sorted(self.flying)))
        message = self.flying[seq]
        if answer in (b"+ACK", b"+TERM"):
            self.finish(seq)
        self.world.ack(message, answer)
        self.look()

    @rule(steps=st.sampled_from([1, 4, 24]))
    def wait(self, steps: int) -> None:
        for _ in range(steps):
            self.world.ports.advance(STEP_NS)
            self.look()

    @precondition(lambda self: self.keys)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.keys)))
        self.gone(seq)
        self.world.api("STREAM.MSG.DELETE.S", {"seq": seq})
        self.look()

    @rule()
    def restart(self) -> None:
        self.world = self.world.restart()
        self.inboxes = [self.world.listen("dlv")] if self.pushed else []
        self.went_ns.clear()
        self.passed_by.clear()
        self.look()

    # --- what must hold ---

    def finish(self, seq: int) -> None:
        del self.flying[seq]
        self.acked.add(seq)

    def gone(self, seq: int) -> None:
        self.keys.pop(seq)
        self.flying.pop(seq, None)
        if seq in self.waiting:
            self.waiting.remove(seq)

    def look(self) -> None:
        self.world.ports.settle()
        found = sorted(
            (message for inbox in self.inboxes for message in inbox.take() if status(message) is None),
            key=lambda message: tokens(message)[2],
        )
        # What comes together was chosen together, among the messages that were looked at by then.
        self.all_seen = self.ahead > len(self.waiting)
        if not self.all_seen:
            self.passed_by.clear()
        for message in found:
            self.delivered(message)

    def delivered(self, message: Delivery) -> None:
        deliveries, seq, *_ = tokens(message)
        assert seq not in self.acked and seq in self.keys
        key = self.keys[seq]
        if deliveries > 1:
            assert seq in self.flying
            self.flying[seq] = message
            return
        assert seq in self.waiting
        if self.kind == "key-shared":
            assert all(self.keys[other] != key for other in self.flying), "two of a key in flight"
        if seq in self.waiting[: self.ahead]:
            mine = [other for other in self.waiting if self.keys[other] == key]
            assert mine[0] == seq, "out of the order of its key"
        if self.kind == "rate":
            now_ns = self.world.ports.now_ns()
            assert now_ns - self.went_ns.get(key, -SECOND_NS) > SECOND_NS - STEP_NS
            self.went_ns[key] = now_ns
        if self.kind == "priority" and self.all_seen:
            lowest = min(self.keys[other] for other in self.waiting)
            assert key == lowest or seq == self.waiting[0]
        if self.kind == "fair" and self.all_seen:
            self.fair(key)
        assert self.last_of.get(key, 0) < seq
        self.last_of[key] = seq
        self.waiting.remove(seq)
        self.flying[seq] = message

    def fair(self, key: str) -> None:
        """While a key waits, each other one has one turn, and not a second."""
        for other in {self.keys[seq] for seq in self.waiting} - {key}:
            passed = self.passed_by.setdefault(other, {})
            passed[key] = passed.get(key, 0) + 1
            assert passed[key] <= 1, f"{other} was passed over"
        self.passed_by.pop(key, None)
        left = {self.keys[seq] for seq in self.waiting}
        self.passed_by = {waits: passed for waits, passed in self.passed_by.items() if waits in left}

    @invariant()
    def figures(self) -> None:
        if not hasattr(self, "waiting"):
            return
        self.world.check()
        info = self.world.info()
        assert info["num_pending"] == len(self.waiting)
        assert info["num_ack_pending"] == len(self.flying)
        left = [*self.waiting, *self.flying]
        assert info["ack_floor"]["stream_seq"] < min(left, default=1 << 60)

    def teardown(self) -> None:
        """All that is left comes, in a bounded number of steps: nothing is lost, and no key waits for ever."""
        if not hasattr(self, "waiting"):
            return
        for _ in range(4 * len(self.keys) + 8):
            if not self.waiting and not self.flying:
                break
            for seq in list(self.flying):
                message = self.flying[seq]
                self.finish(seq)
                self.world.ack(message)
            if not self.pushed:
                self.inboxes.append(self.world.pull(50))
            self.look()
            self.wait(4)
        assert not self.waiting and not self.flying
        assert self.acked >= self.keys.keys()


TestOrders = OrderMachine.TestCase
TestOrders.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
