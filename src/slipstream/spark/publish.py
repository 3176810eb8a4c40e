"""Ordinary publishes to a stream, many at a time: for servers without staged writes, and for message ids.

Every message is acknowledged by the server before `finish` returns; an error in an ack is an error of the task.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from slipstream.bulk.options import open_wire
from slipstream.client.options import ClientError
from slipstream.spark.errors import SparkSideError
from slipstream.spark.target import Reach

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PublishError", "Publisher", "header_block"]

_SEND_BYTES = 256 << 10  # frames collected before they are sent
_OWN_HEADERS = {
    "msg_id": "Nats-Msg-Id",
    "ttl": "Nats-TTL",
    "expected_last_subject_seq": "Nats-Expected-Last-Subject-Sequence",
}


class PublishError(SparkSideError):
    """A publish was refused, or its acknowledgement did not come."""


class Publisher:
    """A connection that publishes and counts acknowledgements. For one task."""

    def __init__(self, reach: Reach, max_in_flight: int) -> None:
        """Connect.

        Args:
            reach: the server.
            max_in_flight: messages that may wait for their acknowledgement.
        """
        self._wire = open_wire(reach.connect_options())
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

    def publish_batch(self, messages: pa.RecordBatch, extra: Mapping[str, Sequence[str]] | None = None) -> None:
        """Send the rows of a batch of messages.

        Args:
            messages: as `RowRules.messages` makes them.
            extra: further headers, a value for each row.
        """
        for number, row in enumerate(messages.to_pylist()):
            more = {name: values[number] for name, values in (extra or {}).items()}
            payload = row["payload"] or b""
            self.publish(
                row["subject"], payload.encode() if isinstance(payload, str) else payload, header_block(row, more)
            )

    def publish_atomic(self, messages: Sequence[tuple[str, bytes, bytes]], last: int, mark: str) -> None:
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


def header_block(row: Mapping[str, Any], more: Mapping[str, str] | None = None) -> bytes:
    """The headers of a row as a block, empty if it has none.

    Raises:
        PublishError: a name or value cannot be in a header.
    """
    lines: list[str] = []
    raw = row.get("hdr_raw")
    for name, values in _pairs(row.get("headers")):
        lines += [f"{name}: {value}" for value in ([values] if isinstance(values, str) else values)]
    for column, name in _OWN_HEADERS.items():
        value = row.get(column)
        if value is not None:
            lines.append(f"{name}: {value}")
    lines += [f"{name}: {value}" for name, value in (more or {}).items()]
    for line in lines:
        if "\r" in line or "\n" in line or line.startswith(":") or " " in line.partition(":")[0]:
            raise PublishError(f"{line!r} cannot be a header")
    text = "".join(f"{line}\r\n" for line in lines).encode()
    if raw:
        return bytes(raw[:-2]) + text + b"\r\n"
    return b"NATS/1.0\r\n" + text + b"\r\n" if text else b""


def _pairs(headers: Any) -> list[tuple[str, Any]]:
    """A map as Arrow gives it: pairs, or nothing."""
    return [] if headers is None else list(headers)
