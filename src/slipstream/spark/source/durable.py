"""Tells a durable consumer how far a query has come: lag shows in `nats consumer info`, and streams that keep messages
until they are acknowledged know when that is.

The consumer belongs to the user and acknowledges `all`, so one ack covers everything before it. Servers count only
messages that were delivered, so they are pulled up to the place that was committed; a consumer with `headers_only`
makes that cheap. What was pulled beyond it is remembered for the next commit.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from slipstream.bulk import BulkError
from slipstream.bulk.link import BulkLink
from slipstream.spark.runtime.errors import OptionError

__all__ = ["DurableAcks"]

_CONSUMER_NOT_FOUND = 10014
_BATCH = 1_000
_BATCHES_MAX = 10_000  # pulls of one commit; then the next one goes on


class DurableAcks:
    """The acks on one consumer of one stream."""

    def __init__(self, link: BulkLink, stream: str, consumer: str) -> None:
        """Check that the consumer is there and acknowledges as needed.

        Raises:
            OptionError: it does not, or does not exist.
        """
        self._link = link
        self._next = f"{link.prefix}CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._ahead: deque[tuple[int, str]] = deque()  # sequence and ack subject of messages beyond the last commit
        try:
            config: dict[str, Any] = link.request(f"CONSUMER.INFO.{stream}.{consumer}")["config"]
        except BulkError as error:
            if error.retryable:
                raise
            if error.err_code == _CONSUMER_NOT_FOUND:
                raise OptionError(
                    "durable",
                    f"stream {stream!r} has no consumer {consumer!r}; create it first, as a pull consumer with ack "
                    f"policy 'all': slipstream consumer add {stream} {consumer} --pull --ack all --defaults",
                ) from error
            raise OptionError("durable", f"consumer {consumer!r} of stream {stream!r}: {error}") from error
        if config.get("ack_policy") != "all" or config.get("deliver_subject"):
            raise OptionError("durable", f"consumer {consumer!r} has to be a pull consumer with ack policy 'all'")

    def uses(self, link: BulkLink) -> bool:
        """Whether this is its connection; one that was lost is made anew."""
        return link is self._link

    def ack_through(self, last: int) -> None:
        """Acknowledge everything up to this sequence, itself included."""
        newest = ""
        while self._ahead and self._ahead[0][0] <= last:
            newest = self._ahead.popleft()[1]
        if not self._ahead:
            newest = self._pull(last) or newest
        if newest:
            self._link.publish(newest, b"+ACK")
            self._link.flush()

    def _pull(self, last: int) -> str:
        """Take delivery up to `last`; the ack subject of the last message not beyond it, or nothing."""
        newest = ""
        inbox = self._link.open_inbox()
        try:
            for _ in range(_BATCHES_MAX):
                self._link.publish(self._next, b'{"batch":%d,"no_wait":true}' % _BATCH, reply=inbox.subject)
                for _ in range(_BATCH):
                    message = self._link.next(inbox)
                    if message.header.startswith(b"NATS/1.0 ") and not message.reply:
                        return newest  # a status: there are no more
                    seq = int(message.reply.split(".")[-4])
                    if seq <= last:
                        newest = message.reply
                    else:
                        self._ahead.append((seq, message.reply))
                if self._ahead:
                    return newest
        finally:
            self._link.close_inbox(inbox)
        return newest
