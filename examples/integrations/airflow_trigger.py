"""A trigger for Airflow: a task that waits for a message sleeps, and costs no worker, until it is there.

pip install apache-airflow-core
python examples/integrations/airflow_trigger.py

A deferrable operator calls `self.defer(trigger=NatsMessageTrigger(...), method_name="execute_complete")`. The message
is acknowledged when Airflow has the event: one that the triggerer lost on the way is delivered again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import nats
from airflow.triggers.base import BaseTrigger, TriggerEvent
from nats.errors import TimeoutError as NothingCame

import slipstream


class NatsMessageTrigger(BaseTrigger):
    """Fires with the next message of a stream's durable consumer."""

    def __init__(self, url: str, stream: str, consumer: str, subject: str = ">") -> None:
        super().__init__()
        self.url, self.stream, self.consumer, self.subject = url, stream, consumer, subject

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What Airflow stores to make this trigger again in another process."""
        fields = {"url": self.url, "stream": self.stream, "consumer": self.consumer, "subject": self.subject}
        return f"{type(self).__module__}.{type(self).__qualname__}", fields

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait as long as it takes."""
        client = await nats.connect(self.url)
        try:
            messages = await client.jetstream().pull_subscribe(self.subject, self.consumer, stream=self.stream)
            while True:
                try:
                    message = (await messages.fetch(1, timeout=30))[0]
                except NothingCame:
                    continue
                event = {"subject": message.subject, "seq": message.metadata.sequence.stream}
                yield TriggerEvent({**event, "data": message.data.decode()})
                await message.ack_sync()
                return
        finally:
            await client.close()


async def main() -> None:
    """A server, a trigger that waits, and a file that arrives."""
    async with slipstream.Server(port=-1, jetstream=True) as server:
        client = await nats.connect(server.url)
        jetstream = client.jetstream()
        await jetstream.add_stream(name="FILES", subjects=["files.>"])
        path, fields = NatsMessageTrigger(server.url, "FILES", "nightly", "files.sales").serialize()
        trigger = NatsMessageTrigger(**fields)  # as the triggerer makes it
        waiting = asyncio.ensure_future(_events(trigger))
        await jetstream.publish("files.other", b"not this one")
        await jetstream.publish("files.sales", b"s3://lake/sales.parquet")
        events = await asyncio.wait_for(waiting, 20)
        print(path, "fired with", events)
        assert events == [{"subject": "files.sales", "seq": 2, "data": "s3://lake/sales.parquet"}]
        info = await jetstream.consumer_info("FILES", "nightly")
        assert info.num_ack_pending == 0 and info.num_pending == 0
        await client.close()


async def _events(trigger: NatsMessageTrigger) -> list[Any]:
    return [event.payload async for event in trigger.run()]


if __name__ == "__main__":
    asyncio.run(main())
