"""Advisories and metrics about one consumer. Built only if somebody listens."""

from __future__ import annotations

from slipstream.jetstream.advisories import Advisories
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.gojson.times import ZERO_TIME_NS, format_time
from slipstream.jetstream.ports import Ports, ServerFacts

__all__ = ["ConsumerEvents"]


class ConsumerEvents:
    """Speaks for one consumer."""

    def __init__(
        self, advisories: Advisories, ports: Ports, facts: ServerFacts, account: str, stream: str, consumer: str
    ) -> None:
        """Name the consumer."""
        self._advisories = advisories
        self._ports = ports
        self._facts = facts
        self._account = account
        self._names: dict[str, object] = {"stream": stream, "consumer": consumer}
        self._suffix = f"{stream}.{consumer}"

    def created(self) -> None:
        """It was made."""
        self._publish("CREATED", "consumer_action", {"action": "create"})

    def deleted(self) -> None:
        """It was removed, by a request or because nobody used it."""
        self._publish("DELETED", "consumer_action", {"action": "delete"})

    def paused(self, until_ns: int | None) -> None:
        """It was paused or resumed, or a pause has ended."""
        paused = until_ns is not None and until_ns > self._ports.now_ns()
        until = format_time(ZERO_TIME_NS if until_ns is None else until_ns)
        self._publish("PAUSE", "consumer_pause", {"paused": paused, "pause_until": until})

    def pinned(self, group: str, pin_id: str) -> None:
        """A client of a group was pinned."""
        fields = {"account": self._account, **self._names, "group": group, "pinned_id": pin_id}
        self._advisories.publish(f"CONSUMER.PINNED.{self._suffix}", "consumer_group_pinned", fields)

    def unpinned(self, group: str, reason: str) -> None:
        """The pinned client lost its pin."""
        fields = {"account": self._account, **self._names, "group": group, "reason": reason}
        self._advisories.publish(f"CONSUMER.UNPINNED.{self._suffix}", "consumer_group_unpinned", fields)

    def max_deliver(self, seq: int, deliveries: int) -> None:
        """A message was delivered as often as allowed."""
        self._publish("MAX_DELIVERIES", "max_deliver", {"stream_seq": seq, "deliveries": deliveries})

    def nak(self, seq: int, dseq: int, deliveries: int) -> None:
        """A client could not handle a message."""
        fields: dict[str, object] = {"consumer_seq": dseq, "stream_seq": seq, "deliveries": deliveries}
        self._publish("MSG_NAKED", "nak", fields)

    def terminated(self, seq: int, dseq: int, deliveries: int, reason: str) -> None:
        """A message will not be delivered again."""
        fields: dict[str, object] = {"consumer_seq": dseq, "stream_seq": seq, "deliveries": deliveries}
        if reason:
            fields["reason"] = reason
        self._publish("MSG_TERMINATED", "terminated", fields)

    def acked(self, seq: int, dseq: int, deliveries: int, ack_time_ns: int) -> None:
        """A sampled ack: how long the client took."""
        target = f"$JS.EVENT.METRIC.CONSUMER.ACK.{self._suffix}".encode()
        if not self._ports.has_interest(target):
            return
        fields: dict[str, object] = {
            "type": "io.nats.jetstream.metric.v1.consumer_ack",
            "id": self._ports.new_nuid(),
            "timestamp": format_time(self._ports.now_ns()),
            **self._names,
            "consumer_seq": dseq,
            "stream_seq": seq,
            "ack_time": ack_time_ns,
            "deliveries": deliveries,
        }
        if self._facts.domain:
            fields["domain"] = self._facts.domain
        self._ports.publish(target, None, None, encode(fields))

    def _publish(self, verb: str, event: str, fields: dict[str, object]) -> None:
        self._advisories.publish(f"CONSUMER.{verb}.{self._suffix}", event, {**self._names, **fields})
