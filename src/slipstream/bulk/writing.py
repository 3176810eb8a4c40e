"""Writing in bulk: parts are staged, then committed all at once.

    writer = client.stage("ORDERS", txn, part=0, attempt=0)
    writer.write(record_batch)
    part = writer.close()                      # a plain dict: travels from a worker to whoever commits
    client.commit("ORDERS", txn, batch_id=7, parts=[part])

Nothing of a part is visible before its commit. A part that is not committed is removed by the server after a day. It is
there after a restart of the server; where a power cut came before the commit, the commit is refused.

A server on this machine shares memory with us: records are encoded into it, and a message says where. Else, and for
what does not fit, they are in messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict

import msgspec

from slipstream.bulk.errors import BulkError
from slipstream.bulk.link import BulkLink, Inbox, answer
from slipstream.bulk.shared import attach
from slipstream.kernels.bulk.rowrecords import RowEncoder
from slipstream.units import KIB, MINUTE_NS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CommitResult", "StageWriter", "StagedPart", "commit"]

_WINDOW = 16  # messages that may be unconfirmed
_MESSAGE_BYTES = 256 * KIB
_COMMIT_TIMEOUT_NS = 10 * MINUTE_NS  # a large commit takes as long as its bytes take to be written


class StagedPart(TypedDict):
    """A part that is staged, as JSON holds it."""

    txn: str
    part: int
    attempt: int
    name: str
    count: int
    crc: int
    bytes: int


@dataclass(frozen=True)
class CommitResult:
    """What a commit did.

    `duplicate`: the batch, or a later one of the transaction, was committed before and nothing was added now; the
    sequences are those of then, or 0 if they are not known any more. `left_out` messages were not stored because their
    message id was seen before or nobody wants them. `offered` is how many the parts of this batch had when it was
    committed, if that is known: a batch that is repeated with another number is not the same.
    """

    first_seq: int
    last_seq: int
    count: int
    duplicate: bool
    left_out: int = 0
    offered: int | None = None


class StageWriter:
    """Stages one part. After an error it is of no use; stage another attempt."""

    def __init__(
        self,
        link: BulkLink,
        stream: str,
        txn: str,
        part: int,
        attempt: int,
        subject: str | None,
        keep_s: int | None = None,
    ) -> None:
        """Begin the part at the server."""
        self._link = link
        self._stream = stream
        self._key = (txn, part, attempt)
        self._subject = subject
        self._encoder = RowEncoder()
        self._sent = 0
        self._unconfirmed: deque[int] = deque()  # offsets that answers will say
        body: dict[str, object] = {"txn": txn, "part": part, "attempt": attempt}
        if link.may_share_memory:
            body["memory"] = True
        if keep_s is not None:
            body["keep_s"] = keep_s
        begun = link.request(f"BULK.STAGE.{stream}", body)
        self._id = str(begun["id"])
        self._slots: list[memoryview] = []  # of the shared memory, in the order they are filled
        self._filled = 0  # slots, one after the other and over again
        self._share(begun)
        self._message_bytes = min(_MESSAGE_BYTES, link.max_payload)
        self._inbox: Inbox | None = link.open_inbox()

    @property
    def count(self) -> int:
        """Rows written so far."""
        return self._encoder.rows

    def write(self, batch: pa.RecordBatch) -> Self:
        """Add the rows of a batch: see `slipstream.bulk.encode` for the columns.

        Raises:
            BulkError: a row cannot be a message, or the server refused.
        """
        from slipstream.bulk.encode import begin_batch, refused

        encoder = self._encoder
        begin_batch(encoder, batch, self._subject)
        try:
            while encoder.left:
                if not self._fill_room():
                    self._send(encoder.next_piece() or b"")
        except ValueError as error:
            raise refused(error) from error
        return self

    def close(self) -> StagedPart:
        """Make the part whole; what names it in a commit.

        Raises:
            BulkError: the server has not got what was sent.
        """
        while self._unconfirmed:
            self._confirm()
        encoder = self._encoder
        end = {"count": encoder.rows, "crc": encoder.crc, "bytes": encoder.size}
        try:
            found = self._link.request(f"BULK.STAGE.{self._stream}.{self._id}.END", end)
        finally:
            self._leave()
        txn, part, attempt = self._key
        return StagedPart(
            txn=txn,
            part=part,
            attempt=attempt,
            name=str(found["name"]),
            count=encoder.rows,
            crc=encoder.crc,
            bytes=encoder.size,
        )

    def abort(self) -> None:
        """Leave the part unfinished; the server forgets it."""
        self._leave()

    def __enter__(self) -> Self:
        """For `with`: close it yourself, for the part is what you get."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give up what was not closed."""
        self._leave()

    def _share(self, begun: dict[str, Any]) -> None:
        """Open the memory we are offered, if any."""
        if "memory" not in begun:
            return
        memory, size = attach(begun["memory"], to_write=True), begun.get("room_bytes")
        if memory is None or not isinstance(size, int) or size < 1:
            self._link.may_share_memory = False
        else:
            self._slots = [memory[at : at + size] for at in range(0, len(memory) - size + 1, size)]

    def _fill_room(self) -> bool:
        """Encode rows into the next slot of the memory; False when there is none, or a row does not fit."""
        if not self._slots:
            return False
        number = self._filled % len(self._slots)
        while len(self._unconfirmed) >= len(self._slots):
            self._confirm()  # so that the server has taken what was in this slot
        used = self._encoder.fill(self._slots[number])
        if not used:
            return False
        self._filled += 1
        self._publish(f"M{self._sent}", b"%d %d" % (number * len(self._slots[0]), used), used)
        return True

    def _send(self, data: bytes) -> None:
        for at in range(0, len(data), self._message_bytes):
            piece = data[at : at + self._message_bytes]
            while len(self._unconfirmed) >= _WINDOW:
                self._confirm()
            self._publish(f"{self._sent}", piece, len(piece))

    def _publish(self, what: str, body: bytes, size: int) -> None:
        link, inbox = self._link, self._inbox
        if inbox is None:
            raise BulkError("the part is closed")
        link.publish(f"{link.prefix}BULK.STAGE.{self._stream}.{self._id}.{what}", body, reply=inbox.subject)
        self._sent += size
        self._unconfirmed.append(self._sent)

    def _confirm(self) -> None:
        """Wait for one answer."""
        assert self._inbox is not None
        fields: dict[str, Any] = answer("BULK.STAGE", self._link.next(self._inbox).payload)
        expected = self._unconfirmed.popleft()
        if fields.get("offset") != expected:
            raise BulkError(f"the server has {fields.get('offset')} bytes of a part where {expected} were sent")

    def _leave(self) -> None:
        if self._inbox is not None:
            self._link.close_inbox(self._inbox)
            self._inbox = None
            self._slots = []


def commit(
    link: BulkLink,
    stream: str,
    txn: str,
    batch_id: int,
    parts: Sequence[StagedPart],
    identity: str | None,
    *,
    brief: bool,
    after: int | None = None,
    copied: bool = False,
) -> CommitResult:
    """Ask for a commit; the answer comes when the messages are on disk."""
    body = msgspec.json.encode(
        {
            "txn": txn,
            "batch_id": batch_id,
            "identity": identity,
            "brief": brief,
            "after": after,
            "copied": copied,
            "parts": [{name: part[name] for name in ("name", "count", "crc", "bytes")} for part in parts],
        }
    )
    found = link.request_again(f"BULK.COMMIT.{stream}", body, timeout_ns=max(link.timeout_ns, _COMMIT_TIMEOUT_NS))
    return CommitResult(
        first_seq=found["first_seq"],
        last_seq=found["last_seq"],
        count=found["count"],
        duplicate=found["duplicate"],
        left_out=found["left_out"],
        offered=found.get("offered"),
    )
