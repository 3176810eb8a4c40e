"""Records from BULK.READ: chunks under flow control, then an end mark that is compared with what came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from slipstream.bulk.errors import BulkError
from slipstream.bulk.link import Inbox, Link, answer, api_error
from slipstream.bulk.reading import Wanted

__all__ = ["BulkSource"]

_CREDIT_STEP = 2  # chunks confirmed at once


class _End(msgspec.Struct):
    """The body of an end mark."""

    rows: int
    crc: int
    last: int
    bytes: int = 0
    lost: list[int] = []
    lost_count: int = 0


class BulkSource:
    """One BULK.READ. It begins with the first chunk that is asked for."""

    transport = "bulk"
    exact = True

    def __init__(self, link: Link, wanted: Wanted) -> None:
        """Prepare to read `wanted`."""
        self._link = link
        self._wanted = wanted
        self._inbox: Inbox | None = None
        self._end: _End | None = None

    def __iter__(self) -> Iterator[bytes]:
        """See `RecordSource`."""
        wanted, link = self._wanted, self._link
        call = f"BULK.READ.{wanted.stream}"
        body: dict[str, object] = {"first": wanted.first, "last": wanted.last, "subjects": list(wanted.subjects)}
        for name in ("start_time_ns", "end_time_ns", "identity"):
            value = getattr(wanted, name)
            if value is not None:
                body[name] = value
        self._inbox = inbox = link.open_inbox()
        link.publish(link.prefix + call, msgspec.json.encode(body), reply=inbox.subject)
        id_ = str(answer(call, link.next(inbox).payload)["id"])
        credit = f"{link.prefix}BULK.CREDIT.{wanted.stream}.{id_}"
        unconfirmed = 0
        while True:
            message = link.next(inbox)
            if message.header:
                self._end = self._ended(call, message.header, message.payload)
                return
            yield message.payload
            unconfirmed += 1
            if unconfirmed >= _CREDIT_STEP:
                link.publish(credit, b"%d" % unconfirmed)
                unconfirmed = 0

    def check(self, records: int, crc: int, damaged: Sequence[int]) -> None:
        """See `RecordSource`."""
        end, wanted = self._end, self._wanted
        if end is None:
            raise BulkError(f"the read of {wanted.stream} has no end mark", retryable=True)
        if records != end.rows or (crc != end.crc and not damaged):
            raise BulkError(f"{records} records of {wanted.stream} came, {end.rows} were sent", retryable=True)
        if end.lost and wanted.fail_on_data_loss:
            count = max(end.lost_count, len(end.lost))
            raise BulkError(
                f"{count} messages of {wanted.stream} can no longer be read, the first is {end.lost[0]}", seqs=end.lost
            )

    def close(self) -> None:
        """See `RecordSource`: the server drops a reader that listens no more."""
        if self._inbox is not None:
            self._link.close_inbox(self._inbox)
            self._inbox = None

    def _ended(self, call: str, header: bytes, payload: bytes) -> _End:
        if header.startswith(b"NATS/1.0 204"):
            try:
                return msgspec.json.decode(payload, type=_End)
            except msgspec.DecodeError as error:
                raise BulkError(f"the end mark of {call} is not usable: {error}", retryable=True) from error
        if header.startswith(b"NATS/1.0 503") and not payload:
            raise BulkError(f"{call}: nobody answers bulk reads here")
        fields = msgspec.json.decode(payload)
        raise api_error(call, fields.get("error", {}))
