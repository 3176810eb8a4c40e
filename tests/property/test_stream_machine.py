"""A stream with one consumer against the plain model, over random histories with restarts and power cuts.

All retention and discard policies, limits and their changes, message ids, expected sequences, roll-ups, purges,
deletions, and the passing of time. Every answer and, after every step, everything that is stored is compared.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from models.stream import StoredModel, StreamModel
from slipstream.jetstream.account.directory import DirectoryStores
from slipstream.jetstream.store import pieces
from slipstream.jetstream.stream import slices
from slipstream.jetstream.stream.retention import expirer, limit_keeper
from slipstream.testing.sim_disk import SimDisk
from support.consumer_world import SECOND_NS, ConsumerPorts, ConsumerWorld
from support.disk_world import ROOT, make_root
from support.stores import options

SUBJECTS = ["s.a", "s.b", "s.c"]
# Whole seconds pass between steps; what ends, ends between them.
AGE_NS = SECOND_NS * 5 // 2
WINDOW_NS = SECOND_NS * 3 // 2

limits = st.fixed_dictionaries(
    {
        "max_msgs": st.sampled_from([-1, 1, 3, 5]),
        "max_bytes": st.sampled_from([-1, 60, 150]),
        "max_msgs_per_subject": st.sampled_from([-1, 1, 2]),
        "max_age": st.sampled_from([0, AGE_NS]),
        "discard": st.sampled_from(["old", "new"]),
        "discard_new_per_subject": st.booleans(),
    }
).filter(
    lambda config: (
        not config["discard_new_per_subject"] or (config["discard"] == "new" and config["max_msgs_per_subject"] > 0)
    )
)


class StreamMachine(RuleBasedStateMachine):
    """One history, told twice."""

    steps = 0  # of all histories, for those who count them

    @initialize(
        config=limits,
        retention=st.sampled_from(["limits", "interest", "workqueue"]),
        consumer=st.booleans(),
        window=st.sampled_from([WINDOW_NS, 120 * SECOND_NS]),
    )
    def make(self, config: dict[str, Any], retention: str, consumer: bool, window: int) -> None:
        self.disk = SimDisk()
        make_root(self.disk, "/js")
        self.rng = random.Random(1)
        self.world = self.opened(ConsumerPorts())
        if config["max_age"]:
            window = min(window, WINDOW_NS)
        self.config = {**config, "retention": retention, "duplicate_window": window}
        self.world.create("S", **self.full_config())
        self.model = StreamModel(self.config, consumer)
        if consumer:
            self.world.add("C", "S")

    def full_config(self) -> dict[str, Any]:
        return {"subjects": ["s.*"], "storage": "file", "allow_rollup_hdrs": True, **self.config}

    def opened(self, ports: ConsumerPorts) -> ConsumerWorld:
        stores = DirectoryStores(
            self.disk,
            ROOT,
            options=lambda _: options(segment_bytes=1 << 16, seed=self.rng.getrandbits(32)),
            new_uid=lambda: self.rng.randbytes(16),
            log=ports.log,
        )
        world = ConsumerWorld(stores=stores, ports=ports)
        ports.settle()
        return world

    # --- publishing ---

    @rule(
        subject=st.sampled_from(SUBJECTS),
        payload=st.binary(max_size=40),
        message_id=st.sampled_from(["", "", "1", "2", "3"]),
        expected=st.sampled_from(["", "", "", "last", "subject"]),
        off=st.sampled_from([0, 0, 1]),
        rollup=st.sampled_from(["", "", "", "", "sub", "all"]),
    )
    def publish(self, subject: str, payload: bytes, message_id: str, expected: str, off: int, rollup: str) -> None:
        model, header = self.model, {}
        wanted: dict[str, int] = {}
        if message_id:
            header["Nats-Msg-Id"] = message_id
        if expected == "last":
            wanted["expected_last"] = model.last_seq + off
            header["Nats-Expected-Last-Sequence"] = str(model.last_seq + off)
        elif expected == "subject":
            value = max(model.of(subject), default=0) + off
            wanted["expected_subject_last"] = value
            header["Nats-Expected-Last-Subject-Sequence"] = str(value)
        if rollup:
            header["Nats-Rollup"] = rollup
        lines = "".join(f"{key}: {value}\r\n" for key, value in header.items())
        block = f"NATS/1.0\r\n{lines}\r\n".encode() if header else b""
        message = StoredModel(subject, block, payload, self.world.ports.clock_ns, message_id)
        said, number = model.publish(message, rollup=rollup, **wanted)
        answer = self.world.publish(subject, payload, **{key.replace("-", "_"): text for key, text in header.items()})
        if said == "stored":
            assert answer == {"stream": "S", "seq": number}
        elif said == "duplicate":
            assert answer == {"stream": "S", "seq": number, "duplicate": True}
        else:
            assert (answer["error"]["err_code"], answer["error"]["description"]) == (number, said)

    # --- removing ---

    @rule(back=st.integers(-1, 8), erase=st.booleans())
    def delete(self, back: int, erase: bool) -> None:
        seq = max(self.model.last_seq - back, 0)
        removed = self.model.delete(seq, erase=erase)
        answer = self.world.api("STREAM.MSG.DELETE.S", {"seq": seq, "no_erase": not erase})
        assert answer.get("success", False) == removed

    @rule(
        subject=st.sampled_from(["", "", *SUBJECTS]),
        how=st.sampled_from(["", "keep", "seq"]),
        number=st.integers(0, 4),
    )
    def purge(self, subject: str, how: str, number: int) -> None:
        request: dict[str, Any] = {"filter": subject} if subject else {}
        bounds = {}
        if how == "keep" and number:
            request["keep"] = bounds["keep"] = number
        elif how == "seq":
            below = max(self.model.last_seq + 2 - number, 0)
            if subject and below > self.model.last_seq + 1:
                below = self.model.last_seq + 1
            request["seq"] = bounds["below"] = below
        expected = self.model.purge(subject, **bounds)
        assert self.world.api("STREAM.PURGE.S", request)["purged"] == expected

    @precondition(lambda self: self.model.consumer)
    @rule()
    def consume(self) -> None:
        expected = self.model.take_next()
        ports = self.world.ports
        seen = len(ports.delivered)
        self.world.pull({"batch": 1, "no_wait": True})
        got = [delivery for delivery in ports.delivered[seen:] if (delivery[2] or b"").startswith(b"$JS.ACK.")]
        assert [int((delivery[2] or b"").split(b".")[5]) for delivery in got] == ([expected] if expected else [])
        for delivery in got:
            assert self.world.ack(delivery, double=True)

    # --- the surroundings ---

    @rule(config=limits)
    def update(self, config: dict[str, Any]) -> None:
        window = self.config["duplicate_window"]
        if config["max_age"]:
            window = min(window, WINDOW_NS)
        shrinks = window < self.config["duplicate_window"]
        self.config = self.model.config = {**self.config, **config, "duplicate_window": window}
        answer = self.world.api("STREAM.UPDATE.S", {"name": "S", **self.full_config()})
        assert "error" not in answer, answer
        self.model.enforce()
        self.model.pass_time(self.world.ports.clock_ns)
        if shrinks:
            self.world.ports.advance(0)

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        self.world.ports.advance(seconds * SECOND_NS)
        self.model.pass_time(self.world.ports.clock_ns)

    @rule(clean=st.booleans(), keep=st.sampled_from([0.0, 0.5, 1.0]), seed=st.integers(0, 2**16))
    def restart(self, clean: bool, keep: float, seed: int) -> None:
        if clean:
            self.world.account.shutdown()
        else:
            self.disk = self.disk.crash(random.Random(seed), keep=keep, torn=True)
        ports = ConsumerPorts()
        ports.clock_ns = self.world.ports.clock_ns
        self.world = self.opened(ports)
        self.model.restart(ports.clock_ns)

    # --- comparing ---

    @invariant()
    def agree(self) -> None:
        StreamMachine.steps += 1
        self.world.check()
        model, store = self.model, self.world.account.streams["S"].store
        stored = {}
        for seq in range(store.first_seq, store.last_seq + 1):
            message = store.get(seq)
            if message is not None:
                stored[seq] = (message.subject.decode(), message.headers, message.payload, message.ts_ns)
        assert stored == {seq: (m.subject, m.header, m.payload, m.ts_ns) for seq, m in model.messages.items()}
        state = self.world.state("S", subjects_filter=">")
        assert (state["last_seq"], state["messages"], state["bytes"]) == (
            model.last_seq,
            len(model.messages),
            model.size_bytes,
        )
        if model.last_seq:
            assert state["first_seq"] == model.first_seq
        gaps = [seq for seq in range(model.first_seq, model.last_seq + 1) if seq not in model.messages]
        assert state.get("deleted", []) == gaps and state.get("num_deleted", 0) == len(gaps)
        counts = {subject: len(model.of(subject)) for subject in SUBJECTS if model.of(subject)}
        assert state.get("subjects", {}) == counts and state.get("num_subjects", 0) == len(counts)
        assert "lost" not in state


class SlicedMachine(StreamMachine):
    """The same with slices of one or two messages, so that every removal takes several turns."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for module, name, size in (
            (slices, "PURGE_SLICE_MSGS", 2),
            (limit_keeper, "PURGE_SLICE_MSGS", 2),
            (expirer, "PURGE_SLICE_MSGS", 2),
            (limit_keeper, "LIMIT_SLICE_MSGS", 1),
            (limit_keeper, "LIMIT_SLICE_SUBJECTS", 1),
            (pieces, "PURGE_SLICE_SEQS", 3),
        ):
            self.patch.setattr(module, name, size)

    def teardown(self) -> None:
        self.patch.undo()


TestSlicedMachine = SlicedMachine.TestCase
TestSlicedMachine.settings = settings(stateful_step_count=30, deadline=None)
TestStreamMachine = StreamMachine.TestCase
TestStreamMachine.settings = settings(stateful_step_count=30, deadline=None)
