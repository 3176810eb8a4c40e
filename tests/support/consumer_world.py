"""JetStream of one account with consumers: a client that pulls, listens and acknowledges, without a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from slipstream.jetstream import headers
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.consumers import Consumers
from slipstream.jetstream.ports import Delivery, OnMessage, Recovered
from slipstream.kernels.fastpath.handout import Batch
from support.jetstream_world import FakePorts, FakeStores, FakeSubscription, World

SECOND_NS = 1_000_000_000


class ConsumerPorts(FakePorts):
    """Ports with a client that listens on every inbox."""

    def __init__(self) -> None:
        super().__init__()
        self.delivered: list[Delivery] = []  # everything handed out, statuses too, in order
        self.gone: set[bytes] = set()  # inboxes whose client has left
        self.smooth = True  # False: receivers are congested
        self.waiting_bytes = 0  # what receivers have not read yet
        self._watchers: list[tuple[bytes, bytes | None, Callable[[bool], None]]] = []

    def deliver_many(self, messages: Iterable[Delivery]) -> bool:
        for message in messages:
            target, _, reply, header, payload = message
            self.delivered.append(message)
            self.sent.append((target, reply, header, payload))
        return self.smooth

    def hand_out(
        self,
        targets: bytes | list[bytes],
        batch: Batch,
        start: int,
        count: int,
        prefix: bytes,
        dseq: int,
        pending: int,
        max_bytes: int,
        *,
        headers_only: bool,
    ) -> tuple[int, int, int]:
        """What the kernel does, in plain words."""
        total = size = 0
        for i in range(count):
            message = batch.message(start + i)
            header, payload = message.headers, message.payload
            if headers_only:
                header, payload = headers.append(header, b"Nats-Msg-Size", b"%d" % len(payload)), b""
            reply = b"%b%d.%d.%d.%d" % (prefix, message.seq, dseq + i + 1, message.ts_ns, max(pending - i - 1, 0))
            target = targets if isinstance(targets, bytes) else targets[i]
            self.deliver_many([(target, message.subject, reply, header or None, payload)])
            size = len(message.subject) + len(reply) + len(header) + len(payload)
            total += size
            if total > max_bytes:
                return i + 1, total, size
        return count, total, size

    def is_congested(self, target: bytes, most: int) -> bool:
        return not self.smooth or self.waiting_bytes > most

    def flush(self) -> None:
        """Everything is sent at once anyway."""

    def has_interest(self, subject: bytes) -> bool:
        if subject.startswith(b"_INBOX."):
            return subject not in self.gone
        return super().has_interest(subject)

    def watch_interest(
        self, subject: bytes, queue: bytes | None, on_change: Callable[[bool], None]
    ) -> Callable[[], None]:
        watcher = (subject, queue, on_change)
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher) if watcher in self._watchers else None

    def subscribe(self, subject: bytes, on_message: OnMessage, queue: bytes | None = None) -> FakeSubscription:
        subscription = super().subscribe(subject, on_message, queue)
        self._notify(subject)
        plain_close = subscription.close

        def close() -> None:
            plain_close()
            self._notify(subject)

        subscription.close = close  # type: ignore[method-assign]
        return subscription

    def _notify(self, subject: bytes) -> None:
        for watched, queue, on_change in list(self._watchers):
            if watched == subject:
                self._try("a watcher", partial(on_change, self.is_bound(watched, queue)))


class ConsumerWorld(World):
    """An account with streams and consumers."""

    ports: ConsumerPorts

    def __init__(self, **options: Any) -> None:
        options.setdefault("ports", ConsumerPorts())
        super().__init__(**options)
        self.inboxes = 0

    # --- making ---

    def stream(self, name: str = "S", subjects: Iterable[str] = ("s.>",), **config: Any) -> None:
        """Make a stream, in memory unless said otherwise."""
        self.create(name, subjects=list(subjects), **{"storage": "memory", **config})

    def add(self, name: str = "C", stream: str = "S", **config: Any) -> Any:
        """Make a durable consumer (a named ephemeral with `durable=False`) with explicit acks; its info."""
        durable = config.pop("durable", True)
        body = {"name": name, "ack_policy": "explicit", **config}
        if durable:
            body["durable_name"] = name
        answer = self.api(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": body})
        assert "error" not in answer, answer
        return answer

    def consumer(self, name: str = "C", stream: str = "S") -> Consumer:
        """The machine itself."""
        return self.consumers(stream).consumers[name]

    def consumers(self, stream: str = "S") -> Consumers:
        """All of a stream."""
        interest = self.account.streams[stream].interest
        assert isinstance(interest, Consumers)
        return interest

    def fill(self, count: int, subject: str = "s.a", payload: bytes = b"x") -> None:
        """Publish so many messages."""
        for _ in range(count):
            self.ports.route(subject.encode(), None, None, payload)
        self.ports.settle()

    # --- reading ---

    def pull(self, body: Any = b"", name: str = "C", stream: str = "S", header: bytes | None = None) -> Inbox:
        """Send a pull request; what arrives is in the inbox."""
        self.inboxes += 1
        inbox = Inbox(self, b"_INBOX.pull.%d" % self.inboxes)
        if not isinstance(body, bytes):
            body = str(body).encode() if isinstance(body, int) else json.dumps(body).encode()
        self.ports.route(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}".encode(), inbox.subject, header, body)
        self.ports.settle()
        return inbox

    def listen(self, subject: str = "dlv") -> Inbox:
        """Subscribe to a deliver subject."""
        inbox = Inbox(self, subject.encode())
        inbox.subscription = self.ports.subscribe(subject.encode(), lambda *_: None)
        self.ports.settle()
        return inbox

    def ack(self, message: Delivery, payload: bytes = b"+ACK", *, double: bool = False) -> bool:
        """Acknowledge; whether a double ack was confirmed."""
        self.inboxes += 1
        reply = b"_INBOX.ack.%d" % self.inboxes if double else None
        assert message[2] is not None
        self.ports.route(message[2], reply, None, payload)
        self.ports.settle()
        return any(sent[0] == reply for sent in self.ports.sent)

    def info(self, name: str = "C", stream: str = "S") -> Any:
        """CONSUMER.INFO."""
        return self.api(f"CONSUMER.INFO.{stream}.{name}")

    def numbers(self, name: str = "C", stream: str = "S") -> tuple[int, int, int, int, int]:
        """Delivered and floor stream sequences, ack pending, redelivered, pending."""
        info = self.info(name, stream)
        return (
            info["delivered"]["stream_seq"],
            info["ack_floor"]["stream_seq"],
            info["num_ack_pending"],
            info["num_redelivered"],
            info["num_pending"],
        )

    def restart(self) -> ConsumerWorld:
        """The server is killed a while after the last step and starts again: what the stores hold is left."""
        for stream in self.account.streams.values():
            for consumer in self.consumers(stream.name).consumers.values():
                consumer.journal.flush()
        self.ports.settle()
        stores = FakeStores()
        for name, stream in self.account.streams.items():
            stores.recoverable.append(Recovered(self.stores.made[name], stream.created_ns, stream.config))
            stores.made[name] = self.stores.made[name]
        ports = ConsumerPorts()
        ports.clock_ns = self.ports.clock_ns
        world = ConsumerWorld(stores=stores, ports=ports)
        ports.settle()
        return world

    def check(self) -> None:
        """All invariants."""
        for stream in self.account.streams.values():
            stream.check_invariants()
            assert isinstance(stream.interest, Consumers)
            stream.interest.check_invariants()


class Inbox:
    """What arrived on one subject since it was last looked at."""

    def __init__(self, world: ConsumerWorld, subject: bytes) -> None:
        self._world = world
        self._seen = len(world.ports.delivered)
        self.subject = subject
        self.subscription: Any = None

    def take(self) -> list[Delivery]:
        """Everything new."""
        self._world.ports.settle()
        found = [message for message in self._world.ports.delivered[self._seen :] if message[0] == self.subject]
        self._seen = len(self._world.ports.delivered)
        return found

    def messages(self) -> list[Delivery]:
        """What is new and no status; statuses must not be among it."""
        found = self.take()
        assert all(status(message) is None for message in found), found
        return found

    def seqs(self) -> list[int]:
        """Stream sequences of the new messages, statuses left out."""
        return [seq_of(message) for message in self.take() if status(message) is None]

    def statuses(self) -> list[str]:
        """Status lines among what is new."""
        return [line for message in self.take() if (line := status(message)) is not None]


def status(message: Delivery) -> str | None:
    """The status line of a message, None if it is none."""
    header = message[3] or b""
    if not header.startswith(b"NATS/1.0 "):
        return None
    return header[9:].split(b"\r\n")[0].decode()


def seq_of(message: Delivery) -> int:
    """The stream sequence in the ack subject."""
    return tokens(message)[1]


def tokens(message: Delivery) -> tuple[int, int, int, int, int]:
    """Deliveries, stream sequence, consumer sequence, time, pending."""
    assert message[2] is not None
    deliveries, seq, dseq, ts_ns, pending = map(int, message[2].split(b".")[-5:])
    return deliveries, seq, dseq, ts_ns, pending
