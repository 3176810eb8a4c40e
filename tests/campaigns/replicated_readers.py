"""Who reads a replicated stream while its servers are in trouble, and what they must never see.

- a consumer shared by all: what was acknowledged, with a confirmation, is not in the answer to a later request
- an ordered reader a server, which begins again where it was cut off: every sequence, once, in order
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field

import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

CONSUMER = "WORKERS"
_ACK_WAIT_S = 2.0
_ANSWER_S = 3.0
_PULL_S = 0.5
_BATCH = 5


@dataclass
class Readers:
    """What was read of a stream."""

    stream: str
    confirmed: dict[int, int] = field(default_factory=dict)
    """Sequences whose acknowledgement was confirmed, and when."""
    delivered: int = 0
    watched: dict[int, int] = field(default_factory=dict)
    """By server: the last sequence that its ordered reader got."""
    payloads: dict[int, bytes] = field(default_factory=dict)
    """What ordered readers got under each sequence."""
    broken: list[str] = field(default_factory=list)

    async def make(self, js: JetStreamContext, copies: int) -> None:
        """The shared consumer, if it is not there."""
        config = ConsumerConfig(
            durable_name=CONSUMER,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=_ACK_WAIT_S,
            max_ack_pending=1000,
            num_replicas=copies,
        )
        await js.add_consumer(self.stream, config)

    async def work(self, client: Client) -> None:
        """Take some messages, and acknowledge each with a confirmation."""
        inbox = client.new_inbox()
        answers = await client.subscribe(inbox)
        try:
            began_ns = time.monotonic_ns()
            asked = json.dumps({"batch": _BATCH, "expires": int(_PULL_S * 1e9)}).encode()
            await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{CONSUMER}", asked, reply=inbox)
            for _ in range(_BATCH):
                message = await answers.next_msg(timeout=_PULL_S + 1)
                if not message.reply:
                    return  # there is no more
                seq = message.metadata.sequence.stream
                self.delivered += 1
                if self.confirmed.get(seq, began_ns) < began_ns:
                    self.broken.append(f"{seq} was delivered again, and its acknowledgement had been confirmed")
                await message.ack_sync(timeout=_ANSWER_S)
                self.confirmed.setdefault(seq, time.monotonic_ns())
        except (TimeoutError, nats.errors.TimeoutError):
            return
        finally:
            await answers.unsubscribe()

    async def watch(self, js: JetStreamContext, server: int, stop: asyncio.Event) -> None:
        """Read on, in order, from where this server's reader was."""
        after = self.watched.setdefault(server, 0)
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE if after else DeliverPolicy.ALL,
            opt_start_seq=after + 1 if after else None,
        )
        reader = await js.subscribe("q.>", stream=self.stream, ordered_consumer=True, config=config)
        try:
            quiet = 0
            while not stop.is_set() and quiet < 4:  # a reader that hears nothing for long begins again
                try:
                    message = await reader.next_msg(timeout=1.0)
                except nats.errors.TimeoutError:
                    quiet += 1
                    continue
                quiet = 0
                self.seen(server, message.metadata.sequence.stream, message.data)
        finally:
            await reader.unsubscribe()

    def seen(self, server: int, seq: int, payload: bytes) -> None:
        """An ordered reader got a message."""
        last = self.watched[server]
        if seq != last + 1:
            self.broken.append(f"the reader of server {server} got {seq} behind {last}")
        self.watched[server] = seq
        known = self.payloads.setdefault(seq, payload)
        if known != payload:
            self.broken.append(f"the reader of server {server} got {payload!r} as {seq}, and another {known!r}")

    def check(self, messages: dict[int, bytes]) -> list[str]:
        """Whether what was read is what is there."""
        other = [seq for seq, payload in self.payloads.items() if messages.get(seq) != payload]
        told = f"{len(other)} messages were read that are not there, as {other[:5]}"
        return self.broken[:20] + ([told] if other else [])
