"""A table as a new stream that is the old one again: subjects, headers, payloads, and also sequences and times.

`replaying` publishes into a stream that is there, where messages get new sequences. This makes a backup of the table
while it is sent (`jetstream.backup.archive`), so the server restores it as it does any backup: whole, or not at all.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from slipstream.bulk import BulkClient, BulkError
from slipstream.bulk.link import Inbox, answer
from slipstream.jetstream.backup.archive import MAGIC, ArchiveEntry, encode_entry
from slipstream.jetstream.backup.s2 import IDENTITY, S2Writer
from slipstream.lake.tables import LakeTable
from slipstream.spark.lake.base import LakeError, Wish
from slipstream.units import SECOND_NS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Restored", "restore"]

_CHUNK_BYTES: Final = 128 << 10
_CHUNKS_AHEAD: Final = 16  # read, and not sent
_UNCONFIRMED: Final = 8  # sent, and not stored
_ANSWER_NS: Final = 60 * SECOND_NS
# The server gives up who says nothing for five seconds; a store of files may take longer for its next one.
_SILENCE_SECONDS: Final = 2.0
_NOTHING: Final = b"\xfe\x00\x00\x00"  # a chunk of S2 that is padding, without any
_COLUMNS: Final = ("seq", "ts_ns", "subject", "hdr_raw", "payload")


@dataclass(frozen=True)
class Restored:
    """What a stream has now."""

    messages: int
    first_seq: int
    last_seq: int


def restore(client: BulkClient, table: LakeTable, config: Mapping[str, Any], *, version: int | None = None) -> Restored:
    """Make a stream of a table; there must be none of its name.

    Args:
        client: of the server.
        table: where from.
        config: of the stream: its name, its subjects, and what else it shall be.
        version: of the table; the newest by default.

    Raises:
        LakeError: the table has no messages.
        BulkError: the server refuses the stream, or a message; nothing of it is there then.
    """
    name = config["name"]
    batches = table.read(Wish(), version)
    begin = next(batches, None)
    if begin is None:
        raise LakeError(f"{table.place} has no messages: a stream is made without it")
    # What follows the last message of an older version is not known.
    last = table.position() if version is None else 0
    state = {"first_seq": begin.column("seq")[0].as_py(), "last_seq": last}
    asked = client.link.request(f"STREAM.RESTORE.{name}", {"config": config, "state": state})
    inbox = client.link.open_inbox()
    try:
        found = _send(client, str(asked["deliver_subject"]), inbox, _Content(state, chain([begin], batches)))
    finally:
        client.link.close_inbox(inbox)
    now = found["state"]
    return Restored(now["messages"], now["first_seq"], now["last_seq"])


def _send(client: BulkClient, target: str, inbox: Inbox, content: _Content) -> dict[str, Any]:
    waiting = 0

    def confirmed() -> dict[str, Any] | None:
        message = client.link.poll(inbox, _ANSWER_NS)
        if message is None:
            raise BulkError("the restore is not complete: the server does not answer")
        return answer("STREAM.RESTORE", message.payload) if message.payload else None

    with content:
        for chunk in content.chunks():
            client.link.publish(target, chunk, reply=inbox.subject)
            waiting += 1
            if waiting > _UNCONFIRMED:
                confirmed()
                waiting -= 1
    client.link.publish(target, b"", reply=inbox.subject)
    for _ in range(waiting):
        confirmed()
    found = confirmed()
    if found is None:
        raise BulkError("the restore is not complete: the server did not say what it has")
    return found


class _Content:
    """A backup in chunks, made ahead by a thread, so that a slow table does not look like a client that has gone."""

    def __init__(self, state: Mapping[str, int], batches: Iterator[pa.RecordBatch]) -> None:
        self._state = state
        self._batches = batches
        self._ready: queue.Queue[bytes | BaseException | None] = queue.Queue(_CHUNKS_AHEAD)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="slipstream-lake-restore", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        while self._thread.is_alive():  # it may wait for room
            try:
                self._ready.get(timeout=0.1)
            except queue.Empty:
                continue
        self._thread.join()

    def chunks(self) -> Iterator[bytes]:
        """All of it; padding where the next one takes long."""
        is_begun = False
        while True:
            try:
                found = self._ready.get(timeout=_SILENCE_SECONDS if is_begun else None)
            except queue.Empty:
                yield _NOTHING
                continue
            is_begun = True
            if isinstance(found, BaseException):
                raise found
            if found is None:
                return
            yield found

    def _work(self) -> None:
        try:
            waiting = b""
            for piece in self._compressed():
                # Padding may follow every chunk, so that each ends where a chunk of S2 does; the first one begins it.
                if waiting and (waiting[:4] == IDENTITY[:4] or len(waiting) + len(piece) > _CHUNK_BYTES):
                    self._ready.put(waiting)
                    waiting = b""
                waiting += piece
                if self._stop.is_set():
                    return
            self._ready.put(waiting)
            self._ready.put(None)
        except BaseException as error:  # whoever sends has to know
            self._ready.put(error)

    def _compressed(self) -> Iterator[bytes]:
        """A stream of S2, cut between its chunks, which are of 64 KiB at most."""
        writer = S2Writer()
        for content in self._content():
            for begin in range(0, len(content), _CHUNK_BYTES // 2):
                yield writer.write(content[begin : begin + _CHUNK_BYTES // 2])
        yield writer.close()

    def _content(self) -> Iterator[bytes]:
        yield MAGIC + encode_entry(ArchiveEntry(b"state.json", payload=msgspec.json.encode(self._state)))
        for batch in self._batches:
            yield b"".join(map(encode_entry, _entries(batch)))
        yield encode_entry(ArchiveEntry())


def _entries(batch: pa.RecordBatch) -> Iterator[ArchiveEntry]:
    columns = (batch.column(name).to_pylist() for name in _COLUMNS)
    for seq, ts_ns, subject, headers, payload in zip(*columns, strict=True):
        yield ArchiveEntry(subject.encode(), ts_ns, seq, headers or b"", payload or b"")
