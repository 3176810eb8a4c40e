"""Celery with JetStream as its broker: a transport for kombu in a hundred lines, and a task that fails once.

pip install celery
python examples/integrations/celery_tasks.py

Every queue of Celery is a work queue stream. A task is acknowledged when Celery does so (after it ran, with
`acks_late`); one whose worker died is delivered again. With a URL `nats://host:4222` and the transport registered as
below, the rest of an application stays as it is.
"""

from __future__ import annotations

import json
import re
import time
from queue import Empty
from typing import Any
from urllib.parse import urlsplit

import kombu.transport
from celery import Celery
from celery.contrib.testing.worker import start_worker
from kombu.transport import virtual

import slipstream
from slipstream.sync import Delivered, JetStream, NoSuchItem
from slipstream.testing import ServerThread

ACK_WAIT_S = 300
POLL_S = 0.2


class QoS(virtual.QoS):
    """What a worker has taken and not acknowledged; JetStream remembers it, so nothing has to be put back."""

    restore_at_shutdown = False

    def ack(self, delivery_tag: str) -> None:
        """The task is done."""
        message = self.channel.taken.pop(delivery_tag, None)
        if message is not None:
            message.ack(wait=True)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """The task is not done, or never will be."""
        message = self.channel.taken.pop(delivery_tag, None)
        if message is not None:
            message.nak() if requeue else message.term("rejected")
        super().ack(delivery_tag)


class Channel(virtual.Channel):
    """Queues as streams."""

    QoS = QoS
    do_restore = False

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        url = urlsplit(f"//{self.connection.client.hostname}")
        port = self.connection.client.port or 4222
        self.taken: dict[str, Delivered] = {}  # by delivery tag
        self._client = slipstream.connect(f"nats://{url.hostname or '127.0.0.1'}:{port}")
        self._jetstream: JetStream = self._client.jetstream()

    def close(self) -> None:
        """Leave; what was taken and not acknowledged is delivered to others."""
        for message in self.taken.values():
            message.nak()
        self.taken.clear()
        super().close()
        self._client.close()

    def _stream(self, queue: str) -> str:
        return "CELERY_" + re.sub(r"[^A-Za-z0-9_-]", "_", queue)

    def _new_queue(self, queue: str, **_more: Any) -> None:
        name = self._stream(queue)
        self._jetstream.create_stream(name, subjects=[f"celery.{name}"], retention="workqueue")
        self._jetstream.stream(name).create_consumer("workers", ack_wait=ACK_WAIT_S * 10**9)

    def _has_queue(self, queue: str, **_more: Any) -> bool:
        try:
            self._jetstream.stream(self._stream(queue)).info()
        except NoSuchItem:
            return False
        return True

    def _put(self, queue: str, message: dict[str, Any], **_more: Any) -> None:
        self._jetstream.publish(f"celery.{self._stream(queue)}", json.dumps(message).encode())

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        found = self._jetstream.stream(self._stream(queue)).consumer("workers").fetch(1, timeout=POLL_S)
        if not found:
            raise Empty
        message: dict[str, Any] = json.loads(found[0].data)
        self.taken[message["properties"]["delivery_tag"]] = found[0]
        return message

    def _size(self, queue: str) -> int:
        return int(self._jetstream.stream(self._stream(queue)).info()["state"]["messages"])

    def _purge(self, queue: str) -> int:
        return int(self._jetstream.api(f"STREAM.PURGE.{self._stream(queue)}")["purged"])

    def _delete(self, queue: str, *_args: Any, **_more: Any) -> None:
        self._jetstream.delete_stream(self._stream(queue))


class Transport(virtual.Transport):
    """What kombu looks for."""

    Channel = Channel
    driver_type = driver_name = "nats"
    default_port = 4222
    polling_interval = POLL_S


def main() -> None:
    """A broker, a worker, and tasks of which one fails the first time."""
    kombu.transport.TRANSPORT_ALIASES["nats"] = f"{__name__}:Transport"
    done: list[int] = []
    failures = [3]
    with ServerThread(port=-1, jetstream=True) as server:
        celery = Celery("orders", broker=server.url)
        celery.conf.update(task_acks_late=True, task_ignore_result=True, worker_hijack_root_logger=False)

        @celery.task(name="orders.ship", bind=True, max_retries=3)  # type: ignore[untyped-decorator, unused-ignore]
        def ship(task: Any, number: int) -> None:
            if number in failures:
                failures.remove(number)
                raise task.retry(countdown=0)
            done.append(number)

        for number in range(1, 6):
            ship.delay(number)
        with slipstream.connect(server.url) as client:
            queue = client.jetstream().stream("CELERY_celery")
            print("tasks that wait:", queue.info()["state"]["messages"])
            with start_worker(celery, pool="solo", concurrency=1, perform_ping_check=False, loglevel="ERROR"):
                while len(done) < 5 or queue.info()["state"]["messages"]:
                    time.sleep(POLL_S)
        print("done:", done)
        assert sorted(done) == [1, 2, 3, 4, 5] and not failures


if __name__ == "__main__":
    main()
