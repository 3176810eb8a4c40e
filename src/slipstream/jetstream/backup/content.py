"""What a backup holds, as pieces in order: the one place that chooses its form.

Streams in files are written as nats-server before 2.15 does (`legacy_writer`), which every version since 2.10 restores,
newer ones too. Those versions back up no streams in memory, so these have the form of 2.15 (`archive`); so has a stream
with a message that is too long for their blocks.

A piece comes in two steps: the iterator reads a slice of messages, which takes a turn of the loop at most, and what it
gives makes bytes of it, in a thread. Pieces are made one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from slipstream.jetstream.backup.archive import MAGIC, ArchiveEntry, encode_entry
from slipstream.jetstream.backup.consumers import encode_consumer
from slipstream.jetstream.backup.legacy_writer import BLOCK_MESSAGE_BYTES_MAX, TarPieces
from slipstream.jetstream.backup.slices import Slice, lengths, slices
from slipstream.jetstream.backup.snapshot import Piece
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels.backup import archiveentries
from slipstream.kernels.fastpath.handout import Batch

__all__ = ["backup_content"]

Fields = Mapping[str, object]


def backup_content(
    stream: Stream, config: Fields, state: Fields, consumers: Sequence[Consumer], now_ns: int
) -> Iterator[Piece]:
    """The content of a backup of what is committed now; `config` and `state` are as clients are shown them."""
    last_seq = stream.store.committed_seq
    # Consumers go on working: what they are now is written down before anything else is done.
    tar = TarPieces(stream, config, consumers, last_seq, now_ns) if stream.config.storage is StorageType.FILE else None
    state = {**state, "consumer_count": len(consumers)}
    entries = [ArchiveEntry(b"state.json", now_ns, payload=encode(state))]
    for consumer in consumers:
        payload = encode_consumer(consumer.state, last_seq, consumer.ack_wait_ns(1))
        entries.append(ArchiveEntry(f"consumers/{consumer.name}".encode(), now_ns, payload=payload))
    return _pieces(stream, tar, entries, last_seq)


def _pieces(stream: Stream, tar: TarPieces | None, entries: list[ArchiveEntry], last_seq: int) -> Iterator[Piece]:
    if tar is not None:
        longest = 0
        for length in lengths(stream.store, last_seq):
            longest = max(longest, length)
            yield bytes
        if longest <= BLOCK_MESSAGE_BYTES_MAX:
            yield from tar.pieces()
            return
    yield from _archive_pieces(stream, entries, last_seq)


def _archive_pieces(stream: Stream, first: list[ArchiveEntry], last_seq: int) -> Iterator[Piece]:
    begin = b"".join((MAGIC, *map(encode_entry, first)))
    yield lambda: begin
    for batch in slices(stream.store, last_seq):
        yield partial(_entries, batch)
    end = encode_entry(ArchiveEntry())
    yield lambda: end


def _entries(batch: Slice) -> bytes:
    if isinstance(batch, Batch):
        return archiveentries.encode(batch)
    return b"".join(
        encode_entry(ArchiveEntry(message.subject, message.ts_ns, message.seq, message.headers, message.payload))
        for message in batch
    )
