"""Advisories of an account: published only if somebody listens, so that nobody pays for them otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slipstream.jetstream.gojson import encode
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.ports import Ports, ServerFacts
from slipstream.jetstream.store.values import Lost
from slipstream.limits import ADVISED_LOST_MAX

__all__ = ["Advisories"]

_TYPE_PREFIX: Final = "io.nats.jetstream.advisory.v1."
_SUBJECT_PREFIX: Final = "$JS.EVENT.ADVISORY."


class Advisories:
    """Publishes events in the account."""

    def __init__(self, ports: Ports, facts: ServerFacts) -> None:
        """Speak for the server described by `facts`."""
        self._ports = ports
        self._facts = facts

    def publish(self, subject: str, event: str, fields: Mapping[str, object]) -> None:
        """One advisory.

        Args:
            subject: behind `$JS.EVENT.ADVISORY.`.
            event: type, behind `io.nats.jetstream.advisory.v1.`.
            fields: its own members; type, id, timestamp and domain are added.
        """
        target = (_SUBJECT_PREFIX + subject).encode()
        if not self._ports.has_interest(target):
            return
        message: dict[str, object] = {
            "type": _TYPE_PREFIX + event,
            "id": self._ports.new_nuid(),
            "timestamp": format_time(self._ports.now_ns()),
            **fields,
        }
        if self._facts.domain:
            message["domain"] = self._facts.domain
        self._ports.publish(target, None, None, encode(message))

    def stream_action(self, stream: str, action: str) -> None:
        """A stream was created (`create`), changed (`modify`) or removed (`delete`)."""
        verb = {"create": "CREATED", "modify": "UPDATED", "delete": "DELETED"}[action]
        self.publish(f"STREAM.{verb}.{stream}", "stream_action", {"stream": stream, "action": action})

    def stream_truncated(self, stream: str, first_seq: int, last_seq: int, messages: int, *, forced: bool) -> None:
        """The newest messages of a stream were dropped. nats-server has no such advisory."""
        fields = {"stream": stream, "first_seq": first_seq, "last_seq": last_seq, "messages": messages}
        self.publish(f"STREAM.TRUNCATED.{stream}", "stream_truncated", {**fields, "forced": forced})

    def stream_damaged(self, stream: str, lost: Lost) -> None:
        """Messages of a stream cannot be read any more. nats-server has no such advisory."""
        fields = {"stream": stream, "lost": {"msgs": lost.seqs[:ADVISED_LOST_MAX], "bytes": lost.size_bytes}}
        self.publish(f"STREAM.DAMAGED.{stream}", "stream_damaged", {**fields, "count": len(lost.seqs)})

    def api_audit(self, subject: str, request: bytes, response: bytes, client: Mapping[str, object] | None) -> None:
        """An API call was answered."""
        fields: dict[str, object] = {
            "server": self._facts.name,
            "client": dict(client) if client is not None else {},
            "subject": subject,
        }
        if request:
            fields["request"] = request.decode("utf-8", "replace")
        fields["response"] = response.decode()
        self.publish("API", "api_audit", fields)
