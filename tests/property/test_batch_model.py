"""Atomic batches beside ordinary publishes, against a plain model: a list of messages and the open batches."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from slipstream.jetstream.store.values import StoredMessage
from slipstream.testing.sim_disk import SimDisk
from support.disk_world import disk_world
from support.jetstream_world import FakePorts, World

SUBJECTS = st.sampled_from(["s.a", "s.b", "s.c"])
BATCHES = st.sampled_from(["x", "y"])
PER_SUBJECT = 4
OPEN_MAX = 3


class BatchMachine(RuleBasedStateMachine):
    """One stream, its disk, and what should be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk()
        self.world = disk_world(self.disk)
        self.world.facts.batches.msgs_max = OPEN_MAX
        self.world.create(subjects=["s.*"], allow_atomic=True, allow_rollup_hdrs=True, max_msgs_per_subject=PER_SUBJECT)
        self.messages: list[tuple[int, str, bytes]] = []
        self.ids: dict[str, int] = {}
        self.open: dict[str, list[tuple[str, bytes, str, str, int | None]]] = {}
        self.last_seq = 0
        self.counter = 0

    def body(self) -> bytes:
        self.counter += 1
        return b"%d" % self.counter

    def send(self, subject: str, payload: bytes, lines: dict[str, str]) -> Any:
        block = "NATS/1.0\r\n" + "".join(f"{key}: {value}\r\n" for key, value in lines.items()) + "\r\n"
        answer = self.world.request(subject, payload, block.encode() if lines else None)
        assert answer is not None
        return json.loads(answer[1]) if answer[1] else None

    def stored(self, subject: str, payload: bytes, rollup: str) -> None:
        self.last_seq += 1
        if rollup:
            self.messages = [m for m in self.messages if rollup == "sub" and m[1] != subject]
        self.messages.append((self.last_seq, subject, payload))
        same = [m for m in self.messages if m[1] == subject]
        if len(same) > PER_SUBJECT:
            self.messages.remove(same[0])

    def last_of(self, subject: str) -> int:
        return max((seq for seq, known, _ in self.messages if known == subject), default=0)

    @rule(subject=SUBJECTS)
    def publish(self, subject: str) -> None:
        payload = self.body()
        answer = self.send(subject, payload, {})
        self.stored(subject, payload, "")
        assert answer == {"stream": "S", "seq": self.last_seq}

    @rule(
        batch=BATCHES,
        subject=SUBJECTS,
        message_id=st.sampled_from(["", "", "", "1", "2"]),
        rollup=st.sampled_from(["", "", "", "sub", "all"]),
        expects=st.sampled_from([None, None, None, "right", "wrong"]),
        commit=st.sampled_from(["", "", "1", "eob"]),
        skew=st.sampled_from([0, 0, 0, 0, 0, 0, 1]),
    )
    def part(
        self, batch: str, subject: str, message_id: str, rollup: str, expects: str | None, commit: str, skew: int
    ) -> None:
        payload = self.body()
        waiting = self.open.get(batch)
        seq = (len(waiting) if waiting is not None else 0) + 1 + skew
        lines = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(seq)}
        expected = None if expects is None else self.last_of(subject) + (1 if expects == "wrong" else 0)
        if message_id:
            lines["Nats-Msg-Id"] = message_id
        if rollup:
            lines["Nats-Rollup"] = rollup
        if expected is not None:
            lines["Nats-Expected-Last-Subject-Sequence"] = str(expected)
        if commit:
            lines["Nats-Batch-Commit"] = commit
        answer = self.send(subject, payload, lines)
        size = seq - (commit == "eob")
        if skew or (commit == "eob" and seq == 1) or size > OPEN_MAX:
            assert answer["error"]["err_code"] in (10176, 10199)
            if waiting is not None or seq == 1:
                self.open.pop(batch, None)
            return
        parts = self.open.setdefault(batch, [])
        if commit != "eob":
            parts.append((subject, payload, message_id, rollup, expected))
        if not commit:
            assert answer is None
            return
        del self.open[batch]
        if self.refuses(parts):
            assert "error" in answer, answer
            return
        for own_subject, own_payload, own_id, own_rollup, _ in parts:
            self.stored(own_subject, own_payload, own_rollup)
            if own_id:
                self.ids[own_id] = self.last_seq
        assert answer == {"stream": "S", "seq": self.last_seq, "batch": batch, "count": len(parts)}

    def refuses(self, parts: list[tuple[str, bytes, str, str, int | None]]) -> bool:
        written: set[str] = set()
        seen: set[str] = set()
        for subject, _, message_id, rollup, expected in parts:
            if message_id and (message_id in self.ids or message_id in seen):
                return True
            if expected is not None and (subject in written or expected != self.last_of(subject)):
                return True
            if (rollup == "sub" and subject in written) or (rollup == "all" and written):
                return True
            seen.add(message_id)
            written.add(subject)
        return False

    @rule()
    def restart(self) -> None:
        self.world.account.shutdown()
        ports = FakePorts()
        ports.clock_ns = self.world.ports.clock_ns
        self.world = disk_world(self.disk, ports)
        self.world.facts.batches.msgs_max = OPEN_MAX
        self.open.clear()

    @invariant()
    def agree(self) -> None:
        stream = self.world.account.streams["S"]
        stream.check_invariants()
        assert stream.store.last_seq == self.last_seq
        assert found(self.world) == self.messages
        assert len(stream.ingest.batches.atomic) == len(self.open)


def found(world: World) -> list[tuple[int, str, bytes]]:
    """Everything stored."""
    store = world.account.streams["S"].store
    reads = [store.get(seq) for seq in world.seqs()]
    return [(m.seq, m.subject.decode(), m.payload) for m in reads if isinstance(m, StoredMessage)]


BatchMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestBatches = BatchMachine.TestCase
