"""What a backup holds, as pieces in order: the one place that chooses its form.

Streams in files are written as nats-server before 2.15 does (`legacy_writer`), which every version since 2.10 restores,
newer ones too. Those versions back up no streams in memory, so these have the form of 2.15 (`archive`).

A piece is a slice of messages or less, so that making one takes a turn of the loop at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from slipstream.jetstream.backup.archive import MAGIC, Entry, encode_entry
from slipstream.jetstream.backup.consumers import encode_consumer
from slipstream.jetstream.backup.legacy_writer import tar_pieces
from slipstream.jetstream.backup.slices import slices
from slipstream.jetstream.config.enums import StorageType
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.stream.stream import Stream

__all__ = ["backup_content"]

Fields = Mapping[str, object]


def backup_content(
    stream: Stream, config: Fields, state: Fields, consumers: Sequence[Consumer], now_ns: int
) -> Iterator[bytes]:
    """The content of a backup of what is committed now; `config` and `state` are as clients are shown them."""
    last_seq = stream.store.committed_seq
    if stream.config.storage is StorageType.FILE:
        return tar_pieces(stream, config, consumers, last_seq, now_ns)
    state = {**state, "consumer_count": len(consumers)}
    entries = [Entry(b"state.json", now_ns, payload=encode(state))]
    for consumer in consumers:
        payload = encode_consumer(consumer.state, last_seq, consumer.ack_wait_ns(1))
        entries.append(Entry(f"consumers/{consumer.name}".encode(), now_ns, payload=payload))
    return _archive_pieces(stream, entries, last_seq)


def _archive_pieces(stream: Stream, first: list[Entry], last_seq: int) -> Iterator[bytes]:
    yield MAGIC
    for entry in first:
        yield encode_entry(entry)
    for batch in slices(stream.store, last_seq):
        yield b"".join(
            encode_entry(Entry(message.subject, message.ts_ns, message.seq, message.headers, message.payload))
            for message in batch
        )
    yield encode_entry(Entry())
