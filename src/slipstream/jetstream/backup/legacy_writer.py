"""Backups as nats-server before 2.15 writes them: a tar of a stream's files (`legacy` reads them and has the layout).

Every file of a tar begins with its length, so a block of messages is gathered before it is given out (`_Blocks`, which
works in threads, one piece after the other). What was removed
leaves gaps in the sequences, which nats-server fills in itself; only behind the last message it needs to be told, by a
record of an erased message. Indexes are left out: it derives them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Final

from slipstream.jetstream.backup.consumers import SavedState, saved_state
from slipstream.jetstream.backup.errors import UnreadableMessage
from slipstream.jetstream.backup.slices import Slice, slices
from slipstream.jetstream.backup.snapshot import Piece
from slipstream.jetstream.config.structs import CONSUMER_CONFIG
from slipstream.jetstream.consumer.consumer import Consumer
from slipstream.jetstream.gojson import encode
from slipstream.jetstream.gojson.times import format_time
from slipstream.jetstream.stream.stream import Stream
from slipstream.kernels.backup import natsblock
from slipstream.kernels.fastpath.handout import Batch
from slipstream.kernels.log.record import StoredMessage
from slipstream.units import MIB, SECOND_NS

__all__ = ["BLOCK_MESSAGE_BYTES_MAX", "TarPieces", "encode_state"]

# Subject, headers and payload of a message: what is longer, nats-server before 2.15 takes for damage.
BLOCK_MESSAGE_BYTES_MAX: Final = natsblock.RECORD_BYTES_MAX - natsblock.RECORD_BYTES

# Messages of a block, in bytes: nats-server's own are of this size, and no more than this waits in memory.
_BLOCK_BYTES: Final = 4 * MIB
_TAR_BLOCK: Final = 512
_ERASED: Final = 1 << 63
_STATE_MAGIC: Final = b"\x16\x02"
_UINT64: Final = (1 << 64) - 1


class TarPieces:
    """A tar of `stream` as it is now, up to `last_seq`, with these consumers."""

    def __init__(
        self,
        stream: Stream,
        config: Mapping[str, object],
        consumers: Sequence[Consumer],
        last_seq: int,
        now_ns: int,
    ) -> None:
        """Take down everything but the messages."""
        name = stream.name
        meta = encode({"Created": format_time(stream.created_ns), **config})
        self._first = b"".join(_with_sum("", meta, name, now_ns))
        last: list[bytes] = []
        for consumer in consumers:
            created = {"Created": format_time(consumer.state.created_ns), "Name": consumer.name}
            directory = f"obs/{consumer.name}/"
            meta = encode({**created, **CONSUMER_CONFIG.wire(consumer.config)})
            last += _with_sum(directory, meta, f"{name}/{consumer.name}", now_ns)
            state = saved_state(consumer.state, last_seq, consumer.ack_wait_ns(1))
            last += _file(f"{directory}o.dat", encode_state(state, now_ns), now_ns)
        self._last = b"".join((*last, bytes(2 * _TAR_BLOCK)))
        self._store = stream.store
        self._blocks = _Blocks(name, now_ns)
        self._last_seq = last_seq
        self._last_ts_ns = stream.store.last_ts_ns

    def pieces(self) -> Iterator[Piece]:
        """The tar, to be taken once."""
        yield lambda: self._first
        seq = 0
        for batch in slices(self._store, self._last_seq):
            seq = batch.seq(len(batch) - 1) if isinstance(batch, Batch) else batch[-1].seq
            yield partial(self._blocks.add, batch)
        if seq < self._last_seq:
            removed = StoredMessage(self._last_seq | _ERASED, self._last_ts_ns, b"", b"", b"")
            yield partial(self._blocks.add, [removed])
        yield self._blocks.close
        yield lambda: self._last


class _Blocks:
    """Files of messages in the making."""

    def __init__(self, stream: str, now_ns: int) -> None:
        self._stream = stream
        self._now_ns = now_ns
        self._number = 1
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, batch: Slice) -> bytes:
        """Take messages; the file that is full with them, or nothing.

        Raises:
            UnreadableMessage: one is too long.
        """
        key = _block_key(self._stream, self._number)
        self._parts.append(_encoded(batch, key))
        self._size += len(self._parts[-1])
        return self.close() if self._size >= _BLOCK_BYTES else b""

    def close(self) -> bytes:
        """The file as far as there is one."""
        if not self._parts:
            return b""
        file = b"".join(_joined(f"msgs/{self._number}.blk", self._parts, self._now_ns))
        self._number, self._parts, self._size = self._number + 1, [], 0
        return file


def _encoded(batch: Slice, key: bytes) -> bytes:
    try:
        if isinstance(batch, Batch):
            return natsblock.encode_batch(batch, key)
        return natsblock.encode([(one.seq, one.ts_ns, one.subject, one.headers, one.payload) for one in batch], key)
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
    import tarfile  # most backups are of the newer kind

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
