"""Power cuts while consumers work: a confirmed ack is never forgotten, an unacknowledged message never lost.

A run publishes, pulls and acknowledges on a simulated disk. Before calls to that disk, images of what a power cut could
leave are kept together with what clients had been told by then. Each image is started, and everything is pulled.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from slipstream.jetstream.config.structs import StreamConfig
from slipstream.jetstream.ports import Recovered
from slipstream.testing.sim_disk import SimDisk
from support.consumer_world import SECOND_NS, ConsumerPorts, ConsumerWorld, seq_of
from support.jetstream_world import FakeStores
from support.stores import new_file_store, reopen

ACK_WAIT_NS = 5 * SECOND_NS


class DiskStores(FakeStores):
    """Stores on one simulated disk."""

    def __init__(self, disk: SimDisk) -> None:
        super().__init__()
        self.disk = disk

    def create(self, config: StreamConfig, created_ns: int) -> Any:
        store = new_file_store(self.disk)
        store.set_config(config.to_json())
        self.made[config.name] = store
        return store


@dataclass
class Image:
    """A disk after a power cut, and what clients knew."""

    disk: SimDisk
    stored: set[int]  # publishes that were acknowledged
    confirmed: set[int]  # acks that were confirmed
    acked: set[int]  # acks that were sent at all


class Run:
    """One server life."""

    def __init__(self, seed: int, retention: str, order: str = "") -> None:
        self.rng = random.Random(seed)
        self.disk = SimDisk()
        self.images: list[Image] = []
        self.stored: set[int] = set()
        self.confirmed: set[int] = set()
        self.acked: set[int] = set()
        self.world = ConsumerWorld(stores=DiskStores(self.disk))
        self.world.stream(retention=retention, storage="file")
        self.subjects = ["s.1", "s.2", "s.3"] if order else ["s.a"]
        config: dict[str, Any] = {"max_ack_pending": -1}
        if order:
            metadata = {"slipstream.delivery": order, "slipstream.delivery.key": "token:2"}
            config = {"max_ack_pending": 100, "metadata": metadata}
        self.world.add("C", ack_wait=ACK_WAIT_NS, **config)
        self.disk.before_call = self.look

    def look(self, *_: object) -> None:
        if self.rng.random() < 0.3 and len(self.images) < 60:
            keep = self.rng.choice([0.0, 0.5, 1.0])
            disk = self.disk.crash(random.Random(self.rng.random()), keep=keep, torn=self.rng.random() < 0.5)
            self.images.append(Image(disk, set(self.stored), set(self.confirmed), set(self.acked)))

    def go(self, steps: int) -> None:
        out = {}
        for _ in range(steps):
            action = self.rng.choice(["publish", "publish", "pull", "ack", "ack", "double", "double", "wait"])
            if action == "publish":
                self.stored.add(self.world.publish(self.rng.choice(self.subjects))["seq"])
            elif action == "pull":
                inbox = self.world.pull({"batch": self.rng.randint(1, 5), "no_wait": True})
                out.update({seq_of(message): message for message in inbox.take() if message[2]})
            elif action == "wait":
                self.world.ports.advance(self.rng.choice([SECOND_NS // 4, 6 * SECOND_NS]))
            elif out:
                seq = self.rng.choice(sorted(out))
                self.acked.add(seq)
                if self.world.ack(out.pop(seq), double=action == "double"):
                    self.confirmed.add(seq)


def recovered(image: Image) -> ConsumerWorld:
    """The server after the power cut."""
    store = reopen(image.disk)
    config = StreamConfig.from_json(store.config)
    stores = DiskStores(image.disk)
    stores.made["S"] = store
    stores.recoverable.append(Recovered(store, 1, config))
    ports = ConsumerPorts()
    ports.clock_ns += 3_600 * SECOND_NS
    return ConsumerWorld(stores=stores, ports=ports)


@pytest.mark.parametrize("retention", ["limits", "interest", "workqueue"])
@pytest.mark.parametrize("seed", range(4))
def test_power_cuts(retention: str, seed: int) -> None:
    run = Run(seed, retention)
    run.go(60)
    assert len(run.images) > 10
    for image in run.images:
        world = recovered(image)
        world.ports.advance(ACK_WAIT_NS + SECOND_NS)
        world.check()
        came = set(world.pull({"batch": 1_000, "no_wait": True}).seqs())
        assert not came & image.confirmed, "a confirmed ack was forgotten"
        assert image.stored - image.acked <= came, "a message that was not acknowledged did not come"
        world.ports.advance(SECOND_NS)
        if retention != "limits":
            assert set(world.seqs()) == came, "what is acknowledged leaves, what is not stays"


@pytest.mark.parametrize("retention", ["limits", "workqueue"])
@pytest.mark.parametrize("order", ["key-shared", "fair", "priority"])
@pytest.mark.parametrize("seed", range(2))
def test_power_cuts_of_orders(order: str, retention: str, seed: int) -> None:
    """What was passed over is not forgotten, and what was confirmed does not come again, out of order as well."""
    run = Run(seed, retention, order)
    run.go(60)
    assert len(run.images) > 10
    for image in run.images:
        world = recovered(image)
        world.ports.advance(ACK_WAIT_NS + SECOND_NS)
        world.check()
        came: set[int] = set()
        while messages := [each for each in world.pull({"batch": 1_000, "no_wait": True}).take() if each[2]]:
            for message in messages:
                world.ack(message)
            assert not came & {seq_of(message) for message in messages}
            came |= {seq_of(message) for message in messages}
        assert not came & image.confirmed, "a confirmed ack was forgotten"
        assert image.stored - image.acked <= came, "a message that was not acknowledged did not come"
        world.check()
