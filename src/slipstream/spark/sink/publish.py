"""Ordinary publishes to a stream, many at a time: for servers without staged writes, and for message ids.

Every message is acknowledged by the server before `finish` returns; an error in an ack is an error of the task.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from slipstream.bulk.options import open_wire
from slipstream.client.options import ClientError
from slipstream.spark.runtime.errors import SparkSideError
from slipstream.spark.runtime.target import Reach
from slipstream.spark.sink.headers import header_block

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ATOMIC_LINES_BYTES", "PlainMessage", "PublishError", "RowPublisher", "plain_messages"]

PlainMessage = tuple[str, bytes, bytes]
"""Subject, payload, header block."""
ATOMIC_LINES_BYTES = len(f"Nats-Batch-Id: {'0' * 22}\r\nNats-Batch-Sequence: 1000\r\n")
"""What every message of an atomic batch has besides its own headers; the first and the last one have more."""

_SEND_BYTES = 256 << 10  # frames collected before they are sent


class PublishError(SparkSideError):
    """A publish was refused, or its acknowledgement did not come."""


class RowPublisher:
    """A connection that publishes and counts acknowledgements. For one task."""

    def __init__(self, reach: Reach, max_in_flight: int) -> None:
        """Connect.

        Args:
            reach: the server.
            max_in_flight: messages that may wait for their acknowledgement.
        """
        self._wire = open_wire(reach)
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._wire.subscribe(f"{self._inbox}.*")
        self._max_in_flight = max_in_flight
        self._frames = bytearray()
        self._sent = 0
        self._acked = 0
        self.duplicates = 0
        """Messages the server had already."""

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self._wire.close()

    def publish(self, subject: str, payload: bytes, header: bytes = b"") -> None:
        """Send one message, sooner or later.

        Raises:
            PublishError: an earlier one was refused.
        """
        if any(char in subject for char in " \t\r\n") or not subject:
            raise PublishError(f"{subject!r} is no subject to publish to")
        size, most = len(header) + len(payload), self._wire.info.max_payload
        if most and size > most:
            raise PublishError(f"a message on {subject!r} has {size} bytes with its headers, the server takes {most}")
        self._sent += 1
        reply = f"{self._inbox}.{self._sent}"
        if header:
            head = f"HPUB {subject} {reply} {len(header)} {len(header) + len(payload)}\r\n"
        else:
            head = f"PUB {subject} {reply} {len(payload)}\r\n"
        self._frames += head.encode() + header + payload + b"\r\n"
        if len(self._frames) >= _SEND_BYTES:
            self._send()
        while self._sent - self._acked >= self._max_in_flight:
            self._send()
            self._receive()

    def publish_batch(self, messages: pa.RecordBatch) -> None:
        """Send the rows of a batch of messages, as `RowRules.messages` makes them."""
        for subject, payload, header in plain_messages(messages):
            self.publish(subject, payload, header)

    def publish_atomic(self, messages: Sequence[PlainMessage], last: int, mark: str) -> None:
        """Publish all of these or none (ADR-50).

        Args:
            messages: subject, payload and header block of each.
            last: the sequence the stream has to end with.
            mark: a header line for the last message.

        Raises:
            PublishError: refused; nothing was stored.
        """
        batch = secrets.token_hex(11)
        for number, (subject, payload, header) in enumerate(messages, 1):
            lines = [f"Nats-Batch-Id: {batch}", f"Nats-Batch-Sequence: {number}"]
            if number == 1:
                lines.append(f"Nats-Expected-Last-Sequence: {last}")
            if number == len(messages):
                lines += ["Nats-Batch-Commit: 1", mark]
            text = "".join(f"{line}\r\n" for line in lines).encode()
            self.publish(subject, payload, (header[:-2] if header else b"NATS/1.0\r\n") + text + b"\r\n")
        self.finish()

    def finish(self) -> None:
        """Wait for every acknowledgement.

        Raises:
            PublishError: a message was refused, or the connection was lost.
        """
        self._send()
        while self._acked < self._sent:
            self._receive()

    def _send(self) -> None:
        if not self._frames:
            return
        try:
            self._wire.send(self._frames)
        except ClientError as error:
            raise PublishError(f"the connection was lost while publishing: {error}") from error
        self._frames.clear()

    def _receive(self) -> None:
        try:
            messages = self._wire.next_messages()
        except ClientError as error:
            waiting = self._sent - self._acked
            raise PublishError(f"{waiting} messages were not acknowledged: {error}") from error
        for message in messages:
            if message.header.startswith(b"NATS/1.0 503"):
                raise PublishError("no stream takes a message: its subject is not among the subjects of any")
            self._acked += 1
            self._read_ack(message.payload)

    def _read_ack(self, payload: bytes) -> None:
        if b'"error"' in payload:
            text = json.loads(payload).get("error", {}).get("description", "refused")
            raise PublishError(f"the server refused a message: {text}")
        if b'"duplicate"' in payload:
            self.duplicates += 1


def plain_messages(messages: pa.RecordBatch) -> Iterator[PlainMessage]:
    """Rows as they are published."""
    for row in messages.to_pylist():
        payload = row["payload"] or b""
        yield row["subject"], payload.encode() if isinstance(payload, str) else payload, header_block(row)
