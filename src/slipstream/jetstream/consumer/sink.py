"""Where the messages of a consumer go: to those who ask for them (`pull`), or to a subject (`push`)."""

from __future__ import annotations

from typing import Protocol

from slipstream.jetstream.config.structs import ConsumerConfig
from slipstream.jetstream.consumer.plan import DeliveryPlan
from slipstream.jetstream.ports import Delivery

__all__ = ["Expected", "Sink", "SinkOwner"]


class SinkOwner(Protocol):
    """The consumer, as far as a sink needs it."""

    @property
    def config(self) -> ConsumerConfig:
        """Its configuration."""
        ...

    @property
    def out(self) -> list[Delivery]:
        """What is to be sent, in order."""
        ...

    def available(self) -> int:
        """Messages that could be delivered: new ones and those to be delivered again."""
        ...

    def ack_pending(self) -> int:
        """Messages handed out and not acknowledged."""
        ...

    def heartbeat(self) -> bytes:
        """A header block that says how far the consumer is."""
        ...

    def wake(self) -> None:
        """Look for something to deliver at the end of this turn, and send what is in `out`."""
        ...

    def on_listening(self, listening: bool) -> None:
        """Somebody came to the deliver subject, or the last one left."""
        ...


class Expected(Protocol):
    """Who gets the next message, known before it comes."""

    @property
    def target(self) -> bytes:
        """Where it goes."""
        ...

    def holds(self) -> bool:
        """Whether that is still so."""
        ...

    def took(self) -> None:
        """The message went there."""
        ...


class Sink(Protocol):
    """Takes messages, one by one or a batch at a time."""

    last_active_ns: int
    """When somebody last showed that the consumer is used."""

    def start(self) -> None:
        """Messages may come from now on."""
        ...

    def close(self, status: bytes, *, counts: bool) -> None:
        """Take no more; those who wait are told why, and with `counts` what they have not got."""
        ...

    def demand(self) -> int:
        """How many messages to read now; 0: nobody wants any."""
        ...

    def plan(self, most: int) -> DeliveryPlan | None:
        """Where the next messages go, if that can be said before they are read; None: ask for each."""
        ...

    def took(self, plan: DeliveryPlan, count: int, size: int, last_size: int) -> None:
        """The first so many messages of a plan went out."""
        ...

    def take(self, size: int, pending: int) -> bytes | None:
        """Who gets one message of this size; None: nobody takes it now. `pending` counts the message too."""
        ...

    def sent(self, size: int) -> None:
        """The message of this size that was taken is on its way, and recorded."""
        ...

    def expect(self) -> Expected | None:
        """Who gets the next message, if that can be said before it comes."""
        ...

    def on_end(self) -> None:
        """There is nothing more to deliver."""
        ...
