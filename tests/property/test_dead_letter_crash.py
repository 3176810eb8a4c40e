"""Power cuts while dead letters are on their way: each message is with its consumer or has exactly one letter.

A work queue and the stream of its dead letters lie on one simulated disk. Before calls to that disk, images of what a
power cut could leave are kept together with what the client had been told by then. Each image is started.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from slipstream.jetstream.store.values import StoredMessage
from slipstream.testing.sim_disk import SimDisk
from support.consumer_machine import DiskStores, reopened
from support.consumer_world import SECOND_NS, ConsumerWorld, seq_of

ACK_WAIT_NS = 5 * SECOND_NS
IMAGES = 40


@dataclass
class Image:
    """A disk after a power cut, and what the client knew."""

    disk: SimDisk
    clock_ns: int
    stored: set[int]
    acked: set[int]  # acks that were sent
    ended: set[int]  # terminations that were confirmed


class Run:
    """One server life: publish, pull, acknowledge, terminate, or let it run out of deliveries."""

    def __init__(self, seed: int, retention: str) -> None:
        self.rng = random.Random(seed)
        self.disk = SimDisk()
        self.images: list[Image] = []
        self.stored: set[int] = set()
        self.acked: set[int] = set()
        self.ended: set[int] = set()
        self.world = ConsumerWorld(stores=DiskStores(self.disk))
        self.world.stream("S", ["s.>"], retention=retention, storage="file")
        self.world.stream("D", ["dead.>"], storage="file")
        self.world.add("C", ack_wait=ACK_WAIT_NS, max_deliver=2, metadata={"slipstream.dlq": "dead.letters"})
        self.disk.before_call = self.look

    def look(self, *_: object) -> None:
        if self.rng.random() < 0.25 and len(self.images) < IMAGES:
            keep = self.rng.choice([0.0, 0.5, 1.0])
            disk = self.disk.crash(random.Random(self.rng.random()), keep=keep, torn=self.rng.random() < 0.5)
            clock_ns = self.world.ports.clock_ns
            self.images.append(Image(disk, clock_ns, set(self.stored), set(self.acked), set(self.ended)))

    def go(self, steps: int) -> None:
        for _ in range(steps):
            action = self.rng.choice(["publish", "publish", "work", "work", "wait"])
            if action == "publish":
                self.stored.add(self.world.publish("s.a")["seq"])
            elif action == "wait":
                self.world.ports.advance(self.rng.choice([SECOND_NS // 4, ACK_WAIT_NS + SECOND_NS]))
            else:
                for message in self.world.pull({"batch": 3, "no_wait": True}).take():
                    if message[2]:
                        self.answer(message, self.rng.choice([b"+ACK", b"+TERM no good", b"-NAK", b""]))

    def answer(self, message: object, word: bytes) -> None:
        if not word:
            return
        if word == b"+ACK":
            self.acked.add(seq_of(message))  # type: ignore[arg-type]
        confirmed = self.world.ack(message, word, double=True)  # type: ignore[arg-type]
        assert confirmed
        if word.startswith(b"+TERM"):
            self.ended.add(seq_of(message))  # type: ignore[arg-type]


def letters(world: ConsumerWorld) -> Counter[int]:
    """Sequences of the dead letters that are stored."""
    found: Counter[int] = Counter()
    store = world.account.streams["D"].store
    for message in store.read_batch((), 0, max_msgs=1_000, max_bytes=1 << 20, up_to_seq=store.last_seq):
        assert isinstance(message, StoredMessage)
        fields = dict(line.split(b": ", 1) for line in message.headers.split(b"\r\n") if b": " in line)
        assert fields[b"Slipstream-Dlq-Stream"] == b"S" and fields[b"Slipstream-Dlq-Consumer"] == b"C"
        assert fields[b"Slipstream-Dlq-Subject"] == b"s.a" and message.payload == b"x"
        assert int(fields[b"Slipstream-Dlq-Deliveries"]) in (1, 2)
        assert fields[b"Slipstream-Dlq-Reason"] in (b"terminated: no good", b"max_deliver")
        found[int(fields[b"Slipstream-Dlq-Sequence"])] += 1
    return found


@pytest.mark.parametrize("retention", ["limits", "workqueue"])
@pytest.mark.parametrize("seed", range(3))
def test_each_message_is_with_its_consumer_or_has_one_letter(retention: str, seed: int) -> None:
    run = Run(seed, retention)
    run.go(50)
    assert len(run.images) > 20 and run.ended
    for image in run.images:
        # Long after any window in which the other stream would recognise a message id.
        world = reopened(image.disk, ["S", "D"], image.clock_ns + 3_600 * SECOND_NS)
        world.ports.advance(SECOND_NS)
        came = set(world.pull({"batch": 1_000, "no_wait": True}).seqs())
        first = letters(world)
        assert not came & first.keys(), "delivered although it has a letter"
        assert image.ended <= first.keys(), "a confirmed termination has no letter"
        # Whatever is still out is given up or delivered again; then everything is accounted for.
        for _ in range(3):
            world.ports.advance(ACK_WAIT_NS + SECOND_NS)
            came |= set(world.pull({"batch": 1_000, "no_wait": True}).seqs())
        world.ports.advance(10 * SECOND_NS)
        last = letters(world)
        assert all(count == 1 for count in last.values()), last
        assert image.stored - image.acked <= came | last.keys(), "neither delivered nor dead"
        if retention == "workqueue":
            assert not last.keys() & set(world.seqs()), "dead and still there"
        world.check()
