"""Streams as a running server sends them: backups, of 2.15 and later or of any before, saved in a file each.

stream.tar.s2   an S2 stream of an archive (`jetstream.backup.archive`), or of a tar with the files of the stream
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import RawIOBase
from types import MappingProxyType
from typing import Any, Final

import msgspec

from slipstream.jetstream.backup.archive import MAGIC, ArchiveEntry, ArchiveReader, encode_entry
from slipstream.jetstream.backup.consumers import SavedState, encode_consumer
from slipstream.jetstream.backup.errors import BadBackup
from slipstream.jetstream.backup.s2 import S2Reader, S2Writer
from slipstream.jetstream.config.structs import STREAM_CONFIG, StreamConfig
from slipstream.jetstream.consumer.state import ConsumerState
from slipstream.jetstream.gojson import JsonError, encode
from slipstream.jetstream.gojson.times import parse_time
from slipstream.jetstream.store.file import FileStore
from slipstream.migrate.blocks import Record
from slipstream.migrate.consumers import SourceConsumer, consumer_from
from slipstream.migrate.copying import stored_messages
from slipstream.migrate.directory import StreamFiles
from slipstream.migrate.errors import MigrationError
from slipstream.migrate.keys import Keys
from slipstream.migrate.natsstream import NatsStream
from slipstream.migrate.source import Findings, SourceStream

__all__ = ["SavedStream", "open_saved", "write_archive"]

_PIECE_BYTES: Final = 1024 * 1024  # read from a file at a time
_BATCH_MSGS: Final = 2000
_FILE = re.compile(r"meta\.(inf|sum)|msgs/(\d+\.blk|index\.db)|obs/[^/]+/(meta\.(inf|sum)|o\.dat)")
_ERRORS: Final = "errors.txt"  # what a server writes into a backup that it could not complete


class _State(msgspec.Struct):
    last_seq: int = 0
    last_ts: str = ""
    consumer_count: int = 0


class _Consumer(msgspec.Struct):
    config: msgspec.Raw = msgspec.Raw(b"")
    state: SavedState | None = None


def open_saved(
    path: str, info: dict[str, Any], account: str, now_ns: int, created: Mapping[str, str] = MappingProxyType({})
) -> SourceStream:
    """The stream in a backup. Unpacks files of older servers beside it.

    Args:
        path: the backup.
        info: what the server said of the stream.
        account: whose it will be.
        now_ns: wall clock.
        created: when its consumers were made, which a backup does not always say.

    Raises:
        MigrationError: it is not a backup.
    """
    head = b""
    for content in _contents(path):
        head += content
        if len(head) >= len(MAGIC):
            break
    if head[: len(MAGIC)] == MAGIC:
        return SavedStream(path, info, account, now_ns, {name: parse_time(text) for name, text in created.items()})
    directory = path + ".files"
    _unpack(path, directory)
    return NatsStream(StreamFiles(directory), account, info["config"]["name"], Keys((), account), now_ns)


def _contents(path: str) -> Iterator[bytes]:
    reader = S2Reader()
    try:
        with open(path, "rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield from reader.feed(piece)
    except BadBackup as error:
        raise MigrationError(f"what the server sent is damaged: {error}") from None
    if not reader.is_between_chunks:
        raise MigrationError("what the server sent is cut short")


class _Content(RawIOBase):
    """The content of a backup as a file that can only be read on."""

    def __init__(self, path: str) -> None:
        self._pieces = _contents(path)
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = piece
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def _unpack(path: str, directory: str) -> None:
    try:
        with tarfile.open(fileobj=_Content(path), mode="r|") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                if file is None or not _FILE.fullmatch(member.name):
                    if file is not None and member.name == _ERRORS:
                        raise MigrationError(
                            f"the server could not complete it: {file.read().decode(errors='replace')}"
                        )
                    continue
                target = os.path.join(directory, member.name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as out:
                    while piece := file.read(_PIECE_BYTES):
                        out.write(piece)
    except tarfile.TarError as error:
        raise MigrationError(f"what the server sent is not a backup: {error}") from None


@dataclass(slots=True)
class _Bounds:
    last_seq: int = 0
    last_ts_ns: int = 0


class SavedStream:
    """Implements `SourceStream` over an archive."""

    limits_due = False
    subjects: dict[bytes, int] | None = None

    def __init__(self, path: str, info: dict[str, Any], account: str, now_ns: int, created: Mapping[str, int]) -> None:
        """Nothing is read yet."""
        self.account = account
        self.name: str = info["config"]["name"]
        self.findings = Findings()
        self._path = path
        self._info = info
        self._now_ns = now_ns
        self._created = created
        self._bounds = _Bounds()
        self._consumers: list[SourceConsumer] = []

    @property
    def size_bytes(self) -> int:
        """See `SourceStream.size_bytes`."""
        return int(self._info["state"]["bytes"])

    @property
    def config(self) -> StreamConfig:
        """See `SourceStream.config`."""
        try:
            return STREAM_CONFIG.decode(encode(self._info["config"]))
        except JsonError as error:
            raise MigrationError(f"its configuration cannot be used here: {error}") from None

    @property
    def created_ns(self) -> int:
        """See `SourceStream.created_ns`."""
        return parse_time(self._info["created"]) if self._info.get("created") else self._now_ns

    @property
    def last_seq(self) -> int:
        """See `SourceStream.last_seq`."""
        return self._bounds.last_seq

    @property
    def last_ts_ns(self) -> int:
        """See `SourceStream.last_ts_ns`."""
        return self._bounds.last_ts_ns

    def fingerprint(self) -> str:
        """See `SourceStream.fingerprint`. A file that was saved does not change."""
        return ""

    def messages(self) -> Iterator[tuple[list[Record], int]]:
        """See `SourceStream.messages`."""
        entries = self._entries()
        try:
            self._begin(entries)
            batch: list[Record] = []
            size = 0
            for entry in entries:
                if entry.is_end:
                    yield batch, size
                    return
                batch.append((entry.seq, entry.ts_ns, entry.name, entry.headers, entry.payload))
                size += len(entry.headers) + len(entry.payload)
                if len(batch) >= _BATCH_MSGS:
                    yield batch, size
                    batch, size = [], 0
        except (BadBackup, msgspec.MsgspecError, JsonError) as error:
            raise MigrationError(f"what the server sent is damaged: {error}") from None
        raise MigrationError("what the server sent is cut short")

    def positions(self) -> tuple[int, dict[str, int]]:
        """See `SourceStream.positions`. They are in the headers of the messages alone."""
        return 0, {}

    def consumers(self) -> Iterator[SourceConsumer]:
        """See `SourceStream.consumers`."""
        return iter(self._consumers)

    def close(self) -> None:
        """See `SourceStream.close`. No file stays open."""

    def _entries(self) -> Iterator[ArchiveEntry]:
        reader = ArchiveReader()
        for content in _contents(self._path):
            yield from reader.feed(content)

    def _begin(self, entries: Iterator[ArchiveEntry]) -> None:
        first = next(entries, ArchiveEntry())
        if first.name != b"state.json":
            raise BadBackup("expected state.json first")
        state = msgspec.json.decode(first.payload, type=_State)
        last_ts_ns = parse_time(state.last_ts) if state.last_ts else 0
        self._bounds = _Bounds(state.last_seq, max(last_ts_ns, 0))
        for _ in range(state.consumer_count):
            entry = next(entries, ArchiveEntry())
            name = entry.name.decode("utf-8", "replace").removeprefix("consumers/")
            saved = msgspec.json.decode(entry.payload, type=_Consumer, strict=False)
            created_ns = self._created.get(name, self._now_ns)
            self._consumers.append(consumer_from(name, bytes(saved.config), saved.state, created_ns))


def write_archive(store: FileStore, path: str) -> dict[str, Any]:
    """Save what a store holds as a backup; its state, to restore it with."""
    consumers = {name: ConsumerState.decode(parts) for name, parts in store.journal.entries().items()}
    state: dict[str, Any] = {
        "messages": store.messages,
        "bytes": store.size_bytes,
        "first_seq": store.first_seq if store.last_seq else 0,
        "last_seq": store.last_seq,
        "consumer_count": len(consumers),
    }
    writer = S2Writer()
    with open(path, "wb") as file:
        file.write(writer.write(MAGIC + encode_entry(ArchiveEntry(b"state.json", payload=encode(state)))))
        for name, consumer in sorted(consumers.items()):
            payload = encode_consumer(consumer, store.last_seq, consumer.config.ack_wait_ns)
            file.write(writer.write(encode_entry(ArchiveEntry(b"consumers/" + name, payload=payload))))
        for records in stored_messages(store):
            entries = (ArchiveEntry(subject, ts, seq, head, body) for seq, ts, subject, head, body in records)
            file.write(writer.write(b"".join(map(encode_entry, entries))))
        file.write(writer.write(encode_entry(ArchiveEntry())) + writer.close())
    return state
