"""Records from BULK.READ: chunks under flow control, then an end mark that is compared with what came.

A server on this machine says where in its files a chunk lies, or puts it into memory that it shares with us; else
chunks are messages. A file can change between the word and the look, when messages are erased: what is not there as
promised is asked for again, in messages.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from slipstream.bulk.errors import BulkError
from slipstream.bulk.lent import LentFiles, Places
from slipstream.bulk.link import BulkLink, Inbox, answer, api_error
from slipstream.bulk.reading import WantedRange
from slipstream.bulk.shared import attach
from slipstream.errors import UNREADABLE
from slipstream.kernels.bulk.bulkscan import records_end
from slipstream.limits import BULK_PAUSE_BYTES, BULK_PAUSE_NS_MAX

__all__ = ["BulkSource"]

_IN_MEMORY = b"NATS/1.0 100"
_IN_FILES = b"NATS/1.0 101"
_PAUSE = struct.Struct("<q")


class _End(msgspec.Struct):
    """The body of an end mark."""

    rows: int
    crc: int | None  # unknown to the server if we have read files
    last: int
    bytes: int = 0
    lost: list[int] = []
    lost_count: int = 0


class BulkSource:
    """One BULK.READ. It begins with the first chunk that is asked for."""

    transport = "bulk"
    exact = True

    def __init__(self, link: BulkLink, wanted: WantedRange, *, memory: bool = True, files: bool = False) -> None:
        """Prepare to read `wanted`, through memory and from files if that is allowed and possible."""
        self.salt = 0
        self._link = link
        self._wanted = wanted
        self._memory = memory
        self._may_read_files = files
        self._inbox: Inbox | None = None
        self._end: _End | None = None
        self._files = LentFiles()
        self._gone = 0  # rows that were promised and not there any more
        self._lost: list[int] = []  # sequences of them that are damaged

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """See `RecordSource`."""
        wanted, link = self._wanted, self._link
        call = f"BULK.READ.{wanted.stream}"
        body: dict[str, object] = {"first": wanted.first, "last": wanted.last, "subjects": list(wanted.subjects)}
        for name in ("start_time_ns", "end_time_ns", "identity"):
            value = getattr(wanted, name)
            if value is not None:
                body[name] = value
        if self._memory and link.may_share_memory:
            body["memory"] = True
            body["files"] = self._may_read_files and link.may_read_files
        self._inbox = inbox = link.open_inbox()
        link.publish(link.prefix + call, msgspec.json.encode(body), reply=inbox.subject)
        begun = answer(call, link.next(inbox).payload)
        credit = f"{link.prefix}BULK.CREDIT.{wanted.stream}.{begun['id']}"
        memory = self._begin_memory(credit, begun)
        window, unconfirmed = int(begun.get("credit", 1)), 0
        while True:
            message = link.next(inbox)
            if not message.header:
                yield message.payload
            elif memory is not None and message.header.startswith(_IN_MEMORY):
                yield _place(memory, message.payload)
            elif memory is not None and message.header.startswith(_IN_FILES):
                yield from self._read_files(bytes(_place(memory, message.payload)), memory)
            else:
                self._end = self._ended(call, message.header, message.payload)
                if self._end.crc is None and unconfirmed:
                    link.publish(credit, b"%d" % unconfirmed)  # it keeps the files open until then
                return
            unconfirmed += 1
            if 2 * unconfirmed >= window:  # half of what may be on the way
                link.publish(credit, b"%d" % unconfirmed)
                unconfirmed = 0

    def check(self, records: int, crc: int, damaged: Sequence[int]) -> None:
        """See `RecordSource`."""
        end, wanted = self._end, self._wanted
        if end is None:
            raise BulkError(f"the read of {wanted.stream} has no end mark", retryable=True)
        promised = end.rows - self._gone
        if records != promised or (end.crc is not None and crc != end.crc and not damaged):
            raise BulkError(f"{records} records of {wanted.stream} came, {promised} were sent", retryable=True)
        lost = sorted({*end.lost, *self._lost})
        if lost and wanted.fail_on_data_loss:
            count = max(end.lost_count, len(lost))
            raise BulkError(
                f"{count} messages of {wanted.stream} can no longer be read, the first is {lost[0]}", seqs=lost
            )

    def close(self) -> None:
        """See `RecordSource`: the server drops a reader that listens no more."""
        self._files.close()
        if self._inbox is not None:
            self._link.close_inbox(self._inbox)
            self._inbox = None

    def _read_files(self, said: bytes, memory: memoryview) -> Iterator[bytes | memoryview]:
        """A chunk that we read ourselves."""
        try:
            places = msgspec.json.decode(said, type=Places)
        except UNREADABLE as error:
            raise BulkError(f"the server named places that are none: {error}", retryable=True) from error
        left = places.rows
        for place in places.places:
            records = self._files.look(place, places.last)
            if records is None:
                yield from self._read_again(place.first, places.last, left)
                return
            self.salt = place.salt & 0xFFFFFFFF
            yield from _in_steps(records, memory) if self._link.may_pause else (records,)
            self.salt = 0
            left -= place.rows

    def _read_again(self, first: int, last: int, promised: int) -> Iterator[bytes | memoryview]:
        """The same messages without looking at files, also in later reads if that can never work."""
        self._link.may_read_files = self._files.usable
        again = BulkSource(self._link, replace(self._wanted, first=first, last=last), memory=False)
        try:
            yield from again
        finally:
            again.close()
        if again._end is not None:
            self._gone += promised - again._end.rows
            self._lost += again._end.lost

    def _begin_memory(self, credit: str, begun: dict[str, Any]) -> memoryview | None:
        """Open the memory we are offered, if any, and let the server begin."""
        if "memory" not in begun:
            return None
        memory = attach(begun["memory"])
        if memory is None or len(memory) < _PAUSE.size:
            memory, self._link.may_share_memory = None, False
        self._link.publish(credit, b"%d" % begun["credit"] if memory is not None else b"%d messages" % begun["credit"])
        return memory

    def _ended(self, call: str, header: bytes, payload: bytes) -> _End:
        if header.startswith(b"NATS/1.0 204"):
            try:
                return msgspec.json.decode(payload, type=_End)
            except UNREADABLE as error:
                raise BulkError(f"the end mark of {call} is not usable: {error}", retryable=True) from error
        if header.startswith(b"NATS/1.0 503") and not payload:
            raise BulkError(f"{call}: nobody answers bulk reads here")
        fields = msgspec.json.decode(payload)
        raise api_error(call, fields.get("error", {}))


def _in_steps(records: memoryview, memory: memoryview) -> Iterator[memoryview]:
    """The same at once, or in small parts with a pause after each while the memory ends with how long to pause.

    Others need the machine then, and a step is what they wait for.
    """
    at = 0
    while at < len(records):
        pause_ns = min(_PAUSE.unpack_from(memory, len(memory) - _PAUSE.size)[0], BULK_PAUSE_NS_MAX)
        end = records_end(records, at, BULK_PAUSE_BYTES) if pause_ns > 0 else len(records)
        yield records[at:end]
        at = end
        if pause_ns > 0:
            time.sleep(pause_ns / 1e9)


def _place(memory: memoryview, said: bytes) -> memoryview:
    """Where a chunk lies.

    Raises:
        BulkError: not in the memory.
    """
    at, _, size = said.partition(b" ")
    if not (at.isdigit() and size.isdigit()) or int(at) + int(size) > len(memory):
        raise BulkError(f"the server named a chunk outside of its memory: {said[:40]!r}", retryable=True)
    return memory[int(at) : int(at) + int(size)]
