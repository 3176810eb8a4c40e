"""The subjects of JetStream's technical preview, for streams that ask for it (`slipstream.preview`).

    $JS.RN.<stream>.<consumer>      request the next message, or so many as the payload says
    $JS.A.<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer sequence>   acknowledge
    $JS.OBSERVABLE.INFO             with "<stream> <consumer>": how far a consumer is, what is pending and since when

A publish into such a stream is acknowledged with `+OK`, or refused with `-ERR`. What was a message set is a stream,
what was an observable is a consumer.
"""

from __future__ import annotations

from typing import Final

from slipstream.jetstream.account.account import JetStreamAccount
from slipstream.jetstream.config.previewed import is_preview
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.consumer.consumers import Consumers
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.ports import LiveSubscription
from slipstream.jetstream.stream.stream import Stream

__all__ = ["Preview"]

_INFO: Final = b"$JS.OBSERVABLE.INFO"
_BAD_REQUEST: Final = b"-ERR 'bad request'"
_NOT_FOUND: Final = b"-ERR 'observable not found'"


class Preview:
    """Answers for one account."""

    def __init__(self, account: JetStreamAccount) -> None:
        """Watch the account's streams."""
        self._account = account
        self._ports = account.ports
        self._listening: dict[str, list[LiveSubscription]] = {}
        self._info: LiveSubscription | None = None  # there while some stream asks for it
        account.on_started.append(self._started)
        account.on_stopped.append(self._stopped)

    def _started(self, stream: Stream) -> None:
        if not is_preview(stream.config):
            return
        name = stream.name.encode()
        self._listening[stream.name] = [
            self._ports.subscribe(b"$JS.RN.%b.*" % name, self._on_request),
            self._ports.subscribe(b"$JS.A.%b.*.*.*.*" % name, self._on_ack),
        ]
        if self._info is None:
            self._info = self._ports.subscribe(_INFO, self._on_info)

    def _stopped(self, stream: Stream) -> None:
        for subscription in self._listening.pop(stream.name, ()):
            subscription.close()
        if not self._listening and self._info is not None:
            self._info.close()
            self._info = None

    def _on_request(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        _, _, stream, name = subject.decode("utf-8", "replace").split(".")
        consumer = self._consumer(stream, name)
        if reply and consumer is not None:
            consumer.on_preview_request(reply, payload)

    def _on_ack(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        _, _, stream, name, *_ = subject.decode("utf-8", "replace").split(".")
        consumer = self._consumer(stream, name)
        if consumer is not None:
            # The same numbers, in the form of today: without time and pending, which an ack does not use.
            today = b"$JS.ACK." + subject.removeprefix(b"$JS.A.") + b".0.0"
            consumer.replies.on_ack(today, reply, header, payload)

    def _on_info(self, subject: bytes, reply: bytes | None, header: bytes | None, payload: bytes) -> None:
        if not reply:
            return
        names = payload.decode("utf-8", "replace").split()
        if len(names) != 2:
            self._ports.publish(reply, None, None, _BAD_REQUEST)
            return
        consumer = self._consumer(*names)
        self._ports.publish(reply, None, None, _NOT_FOUND if consumer is None else encode(_state(consumer)))

    def _consumer(self, stream: str, name: str) -> Consumer | None:
        found = self._account.streams.get(stream)
        if found is None or not is_preview(found.config) or not isinstance(found.interest, Consumers):
            return None
        return found.interest.consumers.get(name)


def _state(consumer: Consumer) -> dict[str, object]:
    """How far a consumer is. The preview counted what comes next, not what came last."""
    acks = consumer.state.acks
    floor_dseq, floor_seq = acks.shown_floor
    wait_ns = consumer.config.ack_wait_ns
    return {
        "Delivered": {"ObsSeq": acks.dseq + 1, "SetSeq": consumer.state.next_seq},
        "AckFloor": {"ObsSeq": floor_dseq, "SetSeq": floor_seq},
        "Pending": {str(seq): max(acks.deadline_ns(seq) - wait_ns, 0) for seq in sorted(acks.pending)} or None,
        "Redelivery": {str(seq): count for seq, count in sorted(acks.redeliveries.items())} or None,
    }
