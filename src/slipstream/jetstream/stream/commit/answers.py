"""What a publisher is told, and when.

Everything but an overload waits for the commit of what was decided before: a refusal, too, may depend on something that
is not committed yet, and after a fault none of it may say success.

What this is not: the bytes of an answer (`pubacks`), or the acks of ordinary messages, which wait as plain pairs in the
intake's `acks` and are built when they leave.
"""

from __future__ import annotations

from slipstream.errors import ApiError
from slipstream.jetstream import errors_table as table
from slipstream.jetstream.errors import TableError
from slipstream.jetstream.ports import Ports
from slipstream.jetstream.stream.admission.traced import REPEATED
from slipstream.jetstream.stream.commit.committer import Committer
from slipstream.jetstream.stream.commit.pubacks import PubAcks

__all__ = ["Answers"]

_OVERLOAD_STATUS = b"NATS/1.0 429 Too Many Requests\r\n\r\n"


class Answers:
    """The answers of one stream to its publishers."""

    __slots__ = ("_acks", "_committer", "_ports", "refusal", "wanted")

    def __init__(self, ports: Ports, committer: Committer, acks: PubAcks) -> None:
        """Answer behind the commits of `committer`."""
        self._ports = ports
        self._committer = committer
        self._acks = acks
        self.refusal: ApiError | str | None = None  # why a message was not stored, until somebody who asks sets it back
        self.wanted = True  # False: the stream is configured not to answer

    def refuse(self, reply: bytes | None, error: ApiError) -> None:
        """Answer with an error, if an answer is wanted."""
        self.refusal = error
        if reply and self.wanted:
            self._committer.answer(reply, self._acks.refused(error))

    def repeated(self, reply: bytes | None, seq: int) -> None:
        """Answer that the message was stored before, with this sequence."""
        self.refusal = REPEATED
        if reply and self.wanted:
            self._committer.answer(reply, self._acks.duplicate(seq))

    def overloaded(self, reply: bytes | None) -> None:
        """Too much waits for the disk. Answered at once, because the queue is what is full."""
        self.refusal = error = TableError(table.STREAM_TOO_MANY_REQUESTS)
        if reply and self.wanted:
            body = self._acks.refused(error)
            self._ports.publish(reply, None, _OVERLOAD_STATUS, body)

    def stored(self, reply: bytes | None, seq: int, tail: bytes) -> None:
        """Answer that a message is stored, and more, when that is committed."""
        if reply and self.wanted:
            self._committer.answer(reply, self._acks.stored(seq)[:-1] + tail + b"}")

    def tell(self, reply: bytes | None, payload: bytes) -> None:
        """Answer something that is true once everything decided before is committed."""
        if reply:
            self._committer.answer(reply, payload)
