"""Messages of a consumer, one after the other: by pull requests, or from the subject a push consumer delivers to.

A consumer that exists is used as it is. Without one an ephemeral consumer is made from a configuration, and made again
behind the last message that was seen when the connection was lost. Status messages are dealt with here: commands see
only messages of the stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Self

from slipstream.cli.connection import Failure, Session
from slipstream.cli.link import ClientLink, Reply
from slipstream.cli.listening import listen
from slipstream.cli.messages import read_delivery
from slipstream.client.ephemeral import ephemeral_config
from slipstream.client.wire import ClientError, Message
from slipstream.units import SECOND_NS

__all__ = ["Feed", "acknowledge", "filter_fields", "status_of"]

_BATCH: Final = 100
_EXPIRES_NS: Final = 30 * SECOND_NS
_IDLE_NS: Final = 30 * SECOND_NS  # an ephemeral consumer outlives short pauses of this program


def status_of(message: Message) -> int:
    """The status in a header, such as 404; 0 for an ordinary message."""
    if message.payload or not message.header.startswith(b"NATS/1.0 "):
        return 0
    word = message.header[9:12]
    return int(word) if word.isdigit() else 0


def filter_fields(subjects: list[str]) -> Reply:
    """The fields of a consumer for the subjects it wants; none for all."""
    if len(subjects) == 1:
        return {"filter_subject": subjects[0]}
    return {"filter_subjects": subjects} if subjects else {}


def acknowledge(link: ClientLink, message: Message, word: bytes = b"+ACK") -> None:
    """Answer a delivered message: `+ACK`, `-NAK`, `+TERM`."""
    if message.reply:
        link.publish(message.reply, word)
        link.client.flush()


class Feed:
    """The messages of one consumer."""

    def __init__(
        self,
        session: Session,
        stream: str,
        *,
        info: Reply | None = None,
        config: Reply | None = None,
        wait_ns: int = 0,
        count: int = 0,
    ) -> None:
        """Read from an existing consumer (`info`) or from an ephemeral one (`config`).

        With `count` no more is asked for, so that nothing is delivered that nobody will acknowledge.
        """
        self._session = session
        self._stream = stream
        self._config = config
        self._wait_ns = wait_ns
        self._name: str = info["name"] if info else ""
        self.pending: int = info["num_pending"] if info else 0  # messages behind the last one, as the server counts
        self._push: Reply = info["config"] if info and info["config"].get("deliver_subject") else {}
        self._inbox = ""
        self._batch = min(count, _BATCH) if count else _BATCH
        self._left = 0  # messages that may still come for the last pull request
        self._last_seq = 0

    def __iter__(self) -> Iterator[tuple[ClientLink, Message]]:
        """Messages, each with the connection to acknowledge on.

        Raises:
            Failure: the consumer is gone or cannot be used so.
        """
        feed = listen(
            self._session, self._prepare, wait_ns=self._wait_ns, is_traffic=lambda message: not status_of(message)
        )
        for link, message in feed:
            status = status_of(message)
            if status:
                self._on_status(link, message, status)
                continue
            delivery = read_delivery(message.reply)
            if delivery is not None:
                self._last_seq, self.pending = delivery.stream_seq, delivery.pending
            yield link, message
            self._left -= 1
            if self._left <= 0 and not self._push:
                self._pull(link)

    def open(self) -> None:
        """Make an ephemeral consumer now, so that `pending` is known before the first message."""
        if self._config is not None:
            self._make(self._session.link())

    def close(self) -> None:
        """Delete the ephemeral consumer; one that the server does not give up now goes by itself later."""
        if self._config is not None and self._name:
            with suppress(ClientError):
                self._session.link().api(f"CONSUMER.DELETE.{self._stream}.{self._name}")

    def __enter__(self) -> Self:
        """Open it."""
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def _prepare(self, link: ClientLink) -> None:
        if self._push:
            link.client.subscribe(self._push["deliver_subject"], queue=self._push.get("deliver_group", ""))
            return
        if self._config is not None and (not self._name or self._last_seq):
            self._make(link)
        self._inbox = link.client.new_inbox()
        link.client.subscribe(self._inbox)
        self._pull(link)

    def _make(self, link: ClientLink) -> None:
        assert self._config is not None
        config = ephemeral_config(self._config, self._last_seq, _IDLE_NS)
        info = link.api(f"CONSUMER.CREATE.{self._stream}", {"stream_name": self._stream, "config": config})
        self._name, self.pending = info["name"], info["num_pending"]

    def _pull(self, link: ClientLink) -> None:
        self._left = self._batch
        body = json.dumps({"batch": self._batch, "expires": _EXPIRES_NS}).encode()
        subject = f"{link.settings.api_prefix}.CONSUMER.MSG.NEXT.{self._stream}.{self._name}"
        link.publish(subject, body, reply=self._inbox)

    def _on_status(self, link: ClientLink, message: Message, status: int) -> None:
        text = message.header.decode(errors="replace").split("\r\n")[0]
        if status == 100:
            if message.reply:  # flow control waits for an answer
                link.publish(message.reply)
            return
        if status == 503 or "Consumer Deleted" in text or "push based" in text.lower():
            reason = "it is gone" if "push" not in text.lower() else "it pushes its messages"
            raise Failure(f"messages of consumer {self._stream} > {self._name} cannot be read: {reason}")
        self._pull(link)
