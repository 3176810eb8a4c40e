"""Backups as nats-server before 2.15 writes them: a tar of a stream's files (`legacy` reads them and has the layout).

Every file of a tar begins with its length, so a block of messages is gathered before it is given out. What was removed
leaves gaps in the sequences, which nats-server fills in itself; only behind the last message it needs to be told, by a
record of an erased message. Indexes are left out: it derives them.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final

from slipstream.jetstream.backup.consumers import SavedState, saved_state
from slipstream.jetstream.backup.errors import UnreadableMessage
from slipstream.jetstream.backup.slices import slices
from slipstream.jetstream.config.structs import CONSUMER_CONFIG
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels import natsblock
from slipstream.limits import MIB, SECOND_NS

__all__ = ["encode_state", "tar_pieces"]

# Messages of a block, in bytes: nats-server's own are of this size, and no more than this waits in memory.
_BLOCK_BYTES: Final = 4 * MIB
_TAR_BLOCK: Final = 512
_ERASED: Final = 1 << 63
_STATE_MAGIC: Final = b"\x16\x02"
_UINT64: Final = (1 << 64) - 1

Record = tuple[int, int, bytes, bytes, bytes]


def tar_pieces(
    stream: Stream, config: Mapping[str, object], consumers: Sequence[Consumer], last_seq: int, now_ns: int
) -> Iterator[bytes]:
    """A tar of `stream` as it is now, up to `last_seq`, with these consumers."""
    name = stream.name
    meta = encode({"Created": format_time(stream.created_ns), **config})
    first = [*_with_sum("", meta, name, now_ns)]
    last: list[bytes] = []
    for consumer in consumers:
        created = {"Created": format_time(consumer.state.created_ns), "Name": consumer.name}
        directory = f"obs/{consumer.name}/"
        last += _with_sum(
            directory, encode({**created, **CONSUMER_CONFIG.wire(consumer.config)}), f"{name}/{consumer.name}", now_ns
        )
        state = saved_state(consumer.state, last_seq, consumer.ack_wait_ns(1))
        last += _file(f"{directory}o.dat", encode_state(state, now_ns), now_ns)
    last_ts_ns = stream.store.last_ts_ns
    return _pieces(first, _blocks(stream, last_seq, last_ts_ns, now_ns), last)


def _pieces(first: list[bytes], blocks: Iterator[bytes], last: list[bytes]) -> Iterator[bytes]:
    yield b"".join(first)
    yield from blocks
    yield from last
    yield bytes(2 * _TAR_BLOCK)


def _blocks(stream: Stream, last_seq: int, last_ts_ns: int, now_ns: int) -> Iterator[bytes]:
    number, size, parts, seq = 1, 0, list[bytes](), 0
    key = _block_key(stream.name, number)
    for batch in slices(stream.store, last_seq):
        records: list[Record] = [
            (message.seq, message.ts_ns, message.subject, message.headers, message.payload) for message in batch
        ]
        seq = records[-1][0]
        parts.append(_encoded(records, key))
        size += len(parts[-1])
        if size >= _BLOCK_BYTES:
            yield from _joined(f"msgs/{number}.blk", parts, now_ns)
            number, size, parts = number + 1, 0, []
            key = _block_key(stream.name, number)
    if seq < last_seq:
        parts.append(_encoded([(last_seq | _ERASED, last_ts_ns, b"", b"", b"")], key))
    if parts:
        yield from _joined(f"msgs/{number}.blk", parts, now_ns)


def _encoded(records: list[Record], key: bytes) -> bytes:
    try:
        return natsblock.encode(records, key)
    except ValueError as error:
        raise UnreadableMessage(str(error)) from None


def _block_key(stream: str, number: int) -> bytes:
    return sha256(f"{stream}-{number}".encode()).digest()


def _with_sum(directory: str, meta: bytes, hashed: str, now_ns: int) -> Iterator[bytes]:
    """A configuration, and its hash in a file beside it."""
    yield from _file(f"{directory}meta.inf", meta, now_ns)
    digest = natsblock.hash64(sha256(hashed.encode()).digest(), meta)
    yield from _file(f"{directory}meta.sum", digest.hex().encode(), now_ns)


def _file(name: str, content: bytes, now_ns: int) -> Iterator[bytes]:
    yield b"".join(_joined(name, [content], now_ns))


def _joined(name: str, parts: list[bytes], now_ns: int) -> Iterator[bytes]:
    """A file of the tar, in pieces."""
    size = sum(map(len, parts))
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, now_ns // SECOND_NS
    info.uname = info.gname = "nats"
    yield info.tobuf(tarfile.PAX_FORMAT)
    yield from parts
    if size % _TAR_BLOCK:
        yield bytes(-size % _TAR_BLOCK)


def encode_state(state: SavedState, now_ns: int) -> bytes:
    """A consumer's state as in its `o.dat`; times in seconds, before a common one."""
    floor_dseq, floor_seq = state.ack_floor.consumer_seq, state.ack_floor.stream_seq
    delivered = state.delivered
    pending, again = state.pending or {}, state.redelivered or {}
    numbers = [floor_dseq, floor_seq, delivered.consumer_seq, delivered.stream_seq, len(pending)]
    base_s = now_ns // SECOND_NS
    if pending:
        numbers.append(_zigzag(base_s))
    for seq, entry in pending.items():
        numbers += (seq - floor_seq, entry.sequence - floor_dseq, _zigzag(base_s - entry.timestamp // SECOND_NS))
    numbers.append(len(again))
    for seq, count in again.items():
        # Below the floor, what was given up wraps around, as in nats-server.
        numbers += ((seq - floor_seq) & _UINT64, count)
    return _STATE_MAGIC + b"".join(map(_uvarint, numbers))


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else ((-number) << 1) - 1


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
