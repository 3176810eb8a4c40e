"""Streams for tests of the Spark side: made, filled and read without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from slipstream.bulk import ConnectOptions, connect
from slipstream.spark.runtime.target import Reach
from slipstream.spark.sink.publish import RowPublisher


class Streams:
    """One server seen by a test."""

    def __init__(self, url: str) -> None:
        self.url = url

    def api(self, call: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        with connect(ConnectOptions(self.url)) as client:
            return client.link.request(call, json.dumps(body or {}).encode())

    def create(self, name: str, **config: Any) -> None:
        self.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "storage": "file", **config})

    def delete(self, name: str) -> None:
        self.api(f"STREAM.DELETE.{name}")

    def purge(self, name: str, **how: Any) -> None:
        self.api(f"STREAM.PURGE.{name}", how)

    def publish(self, messages: Iterable[tuple[str, bytes]], header: bytes = b"") -> None:
        """Publish and wait for every ack."""
        with RowPublisher(Reach(servers=self.url), 4096) as publisher:
            for subject, payload in messages:
                publisher.publish(subject, payload, header)
            publisher.finish()

    def fill(self, name: str, count: int, begin: int = 0) -> list[bytes]:
        """Numbered messages on ten subjects; their payloads."""
        payloads = [b"%06d" % number for number in range(begin, begin + count)]
        self.publish((f"{name}.{number % 10}", payload) for number, payload in enumerate(payloads, begin))
        return payloads

    def state(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api(f"STREAM.INFO.{name}")["state"]
        return found

    def rows(self, name: str, *columns: str) -> list[dict[str, Any]]:
        """Every message of a stream."""
        with connect(ConnectOptions(self.url)) as client:
            last = client.stream_info(name)["state"]["last_seq"]
            if not last:
                return []
            batches = client.read(name, 1, last, columns=columns or ("seq", "subject", "headers", "payload"))
            return [row for batch in batches for row in batch.to_pylist()]

    def payloads(self, name: str) -> list[bytes]:
        """Every payload of a stream, in order."""
        return [row["payload"] for row in self.rows(name, "payload")]
