"""Streams that copy each other, without a server: a router that can lose, stop and forge deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from slipstream.jetstream.ports import Delivery
from slipstream.jetstream.stream.copies.mirror import Mirror
from slipstream.jetstream.stream.copies.source_feed import SourceFeed
from slipstream.jetstream.stream.copies.sources import Sources
from slipstream.kernels.subjects.subject import matches
from support.consumer_world import ConsumerPorts, ConsumerWorld
from support.jetstream_world import FakeStores, Recovered

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000 * MILLISECOND_NS


class CopyPorts(ConsumerPorts):
    """Ports whose deliveries reach internal listeners, unless `passes` says no."""

    def __init__(self) -> None:
        super().__init__()
        self.passes: Callable[[Delivery], bool] = lambda _: True

    def deliver_many(self, messages: Iterable[Delivery]) -> bool:
        for message in messages:
            super().deliver_many([message])
            target, subject, reply, header, payload = message
            if self.passes(message):
                for listener in [found for found in self.subscriptions if matches(found.subject, target)]:
                    listener.on_message(subject, reply, header, payload)
        return self.smooth


class CopyWorld(ConsumerWorld):
    """An account whose streams have mirrors and sources."""

    ports: CopyPorts

    def __init__(self, *, stores: FakeStores | None = None, **options: Any) -> None:
        super().__init__(ports=CopyPorts(), stores=stores, **options)

    def origin(self, name: str = "O", count: int = 0, **config: Any) -> None:
        """A stream to copy, with some messages."""
        self.stream(name, [f"{name.lower()}.>"], **config)
        self.fill(count, name)

    def fill(self, count: int, name: str = "O") -> None:
        for number in range(count):
            assert self.publish(f"{name.lower()}.{number % 3}", b"%d" % number)

    def mirror(self, name: str = "M", of: str = "O", **config: Any) -> None:
        mirror = {"name": of, **config.pop("mirror", {})}
        self.create(name, storage=config.pop("storage", "memory"), mirror=mirror, **config)

    def sources(self, *sources: Any, name: str = "S", **config: Any) -> None:
        self.create(name, storage=config.pop("storage", "memory"), sources=list(sources), **config)

    def wait(self, duration_ns: int = 250 * MILLISECOND_NS) -> None:
        """Let time pass; by default until a first attempt has come to its end."""
        self.ports.advance(duration_ns)

    def feed(self, name: str = "M", number: int = 0) -> SourceFeed:
        upstream = self.account.streams[name].upstream
        assert isinstance(upstream, Mirror | Sources)
        return upstream.feeds[number]

    def info(self, name: str = "M") -> Any:
        return self.api(f"STREAM.INFO.{name}")

    def last_seq(self, name: str = "M") -> int:
        return self.account.streams[name].store.last_seq

    def asked(self) -> list[bytes]:
        """Subjects of all requests for consumers so far."""
        return [subject for subject, *_ in self.ports.sent if subject.startswith(b"$JS.API.CONSUMER.")]

    def payloads(self, name: str = "M") -> list[bytes]:
        store = self.account.streams[name].store
        return [message.payload for seq in self.seqs(name) if hasattr(message := store.get(seq), "payload")]


def restarted(world: CopyWorld) -> CopyWorld:
    """The same streams after a start of the server."""
    stores = FakeStores()
    stores.recoverable = [
        Recovered(stream.store, stream.created_ns, stream.config) for stream in world.account.streams.values()
    ]
    for stream in world.account.streams.values():
        stream.stop(deleted=False)
    later = CopyWorld(stores=stores)
    later.ports.clock_ns = world.ports.clock_ns + SECOND_NS
    return later
