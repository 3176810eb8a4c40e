"""Messages on their way to the server: one by one, many at once, acknowledged by a stream, or as one atomic batch."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from typing import Final

from slipstream.cli.bodies import Filled, messages_to_send
from slipstream.cli.connection import Failure, Session
from slipstream.cli.human import format_number
from slipstream.cli.link import ClientLink, Reply, decoded
from slipstream.cli.listening import connect_again
from slipstream.cli.messages import Headers, encode_header
from slipstream.cli.progress import Advance, progress
from slipstream.cli.render import note
from slipstream.client.wire import ConnectionLost, NoResponders
from slipstream.units import MIB, SECOND_NS

__all__ = ["AtomicBatch", "MessagePublisher"]

_LINES_MAX: Final = 20  # more messages than this are counted, not listed
# Messages in one send, and their bytes.
_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = MIB
_BATCH_MAX: Final = 1_000  # servers refuse larger ones


class MessagePublisher:
    """Publishes, and says so unless it is to be quiet."""

    def __init__(self, session: Session, *, reply: str, sleep_ns: int, jetstream: bool, quiet: bool) -> None:
        """Connect."""
        self._session = session
        self._link = session.link()
        self._reply = reply
        self._sleep_ns = sleep_ns
        self._jetstream = jetstream
        self._quiet = quiet

    def publish(self, filled: Filled, count: int) -> None:
        """Publish the messages of one body."""
        if count <= _LINES_MAX or self._sleep_ns:
            for number in messages_to_send(count):
                started_ns = time.monotonic_ns()
                self._steadily(filled, number, count)
                if number != count:
                    self._pause(started_ns)
            return
        with progress("Publishing", count, shown=not self._quiet) as advance:
            if self._jetstream:
                for number in range(1, count + 1):
                    self._one(filled, number, quiet=True)
                    advance(1)
            elif filled.is_constant:
                self._many_equal(filled, count, advance)
            else:
                self._many_different(filled, count, advance)
            self._link.client.flush()
        if not self._quiet:
            note(f"Published {format_number(count)} messages")

    def _steadily(self, filled: Filled, number: int, count: int) -> None:
        """Publish one message of some; without an end to them a lost connection is none either."""
        while True:
            try:
                self._one(filled, number, quiet=self._quiet)
            except ConnectionLost as error:
                if count > 0:
                    raise
                note(f"Disconnected: {error}")
                self._link = connect_again(self._session)
            else:
                return

    def finish(self) -> None:
        """Wait until the server has everything, and hear what it objects to."""
        self._link.client.flush()

    def _one(self, filled: Filled, number: int, *, quiet: bool) -> None:
        subject, body, headers = filled.message(number)
        check_size(self._link, body)
        header = encode_header(headers)
        if self._jetstream:
            ack = stored(self._link, subject, body, header)
            if not quiet:
                note(_ack_words(ack))
            return
        self._link.publish(subject, body, reply=self._reply, header=header)
        if not quiet:
            note(f'Published {format_number(len(body))} bytes to "{subject}"')

    def _many_equal(self, filled: Filled, count: int, advance: Advance) -> None:
        subject, body, headers = filled.message(1)
        if headers or self._reply:
            self._many_different(filled, count, advance)
            return
        check_size(self._link, body)
        at_once = max(min(_AT_ONCE, _BYTES_AT_ONCE // max(len(body), 1)), 1)
        for sent in range(0, count, at_once):
            size = min(at_once, count - sent)
            self._link.publish_equal(subject, body, size)
            advance(size)

    def _many_different(self, filled: Filled, count: int, advance: Advance) -> None:
        messages: list[tuple[str, bytes, bytes]] = []
        size = 0
        for number in range(1, count + 1):
            subject, body, headers = filled.message(number)
            check_size(self._link, body)
            messages.append((subject, body, encode_header(headers)))
            size += len(body)
            if number == count or len(messages) == _AT_ONCE or size >= _BYTES_AT_ONCE:
                self._link.publish_together(messages, self._reply)
                advance(len(messages))
                messages, size = [], 0

    def _pause(self, started_ns: int) -> None:
        """Wait for the next message, and answer the server meanwhile."""
        if self._sleep_ns:
            left_ns = self._sleep_ns - (time.monotonic_ns() - started_ns)
            with suppress(ConnectionLost):  # the next message finds out
                self._link.idle(max(left_ns, 0) / SECOND_NS)


class AtomicBatch:
    """Messages that a stream stores all together or not at all (ADR-50)."""

    def __init__(self, link: ClientLink, *, quiet: bool) -> None:
        """An empty batch."""
        self._link = link
        self._quiet = quiet
        self._messages: list[tuple[str, bytes, Headers]] = []

    def publish(self, filled: Filled, count: int) -> None:
        """Add the messages of one body.

        Raises:
            Failure: the batch has no end or is larger than servers take.
        """
        if count < 1 or len(self._messages) + count > _BATCH_MAX:
            raise Failure(f"an atomic batch has between 1 and {_BATCH_MAX:,} messages")
        for number in range(1, count + 1):
            subject, body, headers = filled.message(number)
            check_size(self._link, body)
            self._messages.append((subject, body, headers))

    def finish(self) -> None:
        """Send the batch; the last message commits it."""
        if not self._messages:
            raise Failure("there are no messages for an atomic batch")
        batch = secrets.token_hex(11)
        last = len(self._messages)
        for number, (subject, body, headers) in enumerate(self._messages, 1):
            marks = [("Nats-Batch-Id", batch), ("Nats-Batch-Sequence", str(number))]
            if number == last:
                ack = stored(self._link, subject, body, encode_header([*headers, *marks, ("Nats-Batch-Commit", "1")]))
                if not self._quiet:
                    note(f"Wrote batch ID: {batch} Messages: {format_number(last)} {_ack_words(ack)}")
            elif number == 1:
                # The first one is confirmed, so that a stream that takes no batches says so at once.
                answer = self._link.request(subject, body, header=encode_header([*headers, *marks]))
                if answer.payload:
                    decoded(answer)
            else:
                self._link.publish(subject, body, header=encode_header([*headers, *marks]))


def stored(link: ClientLink, subject: str, body: bytes, header: bytes) -> Reply:
    """Publish one message and return the stream's acknowledgement.

    Raises:
        Failure: no stream listens, or what answers is none.
    """
    try:
        ack = decoded(link.request(subject, body, header=header))
    except NoResponders:
        raise Failure(f"no stream listens on {subject!r}") from None
    if "stream" not in ack:
        raise Failure(f"the answer on {subject!r} is not an acknowledgement of a stream")
    return ack


def check_size(link: ClientLink, body: bytes) -> None:
    """Refuse a body that the server would refuse by closing the connection."""
    most = link.client.info.max_payload
    if most and len(body) > most:
        raise Failure(f"the body has {format_number(len(body))} bytes, the server takes {format_number(most)}")


def _ack_words(ack: Reply) -> str:
    words = [f"Stored in Stream: {ack['stream']} Sequence: {format_number(ack.get('seq', 0))}"]
    words += [f'Domain: "{ack["domain"]}"'] if ack.get("domain") else []
    words += ["Duplicate: true"] if ack.get("duplicate") else []
    words += [f"Counter Value: {ack['val']}"] if ack.get("val") else []
    return " ".join(words)
