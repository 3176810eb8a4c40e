"""Digests of messages that do not depend on how they were read: batches, files, pieces may be cut anywhere.

Messages are hashed in blocks of sequences, each block by columns: sequences, times, subjects, headers, payloads. Two
copies of a stream are equal if the digests of all blocks are, and the first block that differs says where to look.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BLOCK", "COLUMNS", "CONTENT", "BlockDigest", "ContentDigest", "Digester", "combined"]

BLOCK: Final = 100_000  # sequences of a block
COLUMNS: Final = ("seq", "ts_ns", "subject", "hdr_raw", "payload")
CONTENT: Final = ("subject", "hdr_raw", "payload")


@dataclass(frozen=True)
class BlockDigest:
    """What is in one block of sequences."""

    number: int  # sequences number * BLOCK to (number + 1) * BLOCK - 1
    messages: int
    bytes: int  # of payloads
    first: int
    last: int
    digest: str


class Digester:
    """Takes messages in order and closes one block after the other."""

    def __init__(self, *, places: bool = True) -> None:
        """With `places` sequences and times count too; without them only what the messages say."""
        self.blocks: list[BlockDigest] = []
        self._places = places
        self._number = -1
        self._hashes: dict[str, tuple[Any, Any]] = {}  # of a column: lengths, and bytes or numbers
        self._messages = self._bytes = self._first = self._last = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add messages; columns `COLUMNS`."""
        import pyarrow.compute as pc

        numbers = pc.divide(batch.column("seq"), BLOCK)
        start = 0
        while start < batch.num_rows:
            number = numbers[start].as_py()
            end = start + pc.sum(pc.equal(numbers.slice(start), number)).as_py()
            if number != self._number:
                self.close()
                self._open(number)
            self._hash(batch.slice(start, end - start))
            start = end

    def close(self) -> None:
        """Finish the block under way."""
        if not self._messages:
            return
        parts = b"".join(hasher.digest() for hashers in self._hashes.values() for hasher in hashers)
        digest = hashlib.sha256(parts).hexdigest()
        block = BlockDigest(self._number, self._messages, self._bytes, self._first, self._last, digest)
        self.blocks.append(block)
        self._messages = 0

    def _open(self, number: int) -> None:
        self._number = number
        names = COLUMNS if self._places else CONTENT
        self._hashes = {name: (hashlib.sha256(), hashlib.sha256()) for name in names}
        self._messages = self._bytes = 0

    def _hash(self, rows: pa.RecordBatch) -> None:
        if not self._messages:
            self._first = rows.column("seq")[0].as_py()
        self._last = rows.column("seq")[-1].as_py()
        self._messages += rows.num_rows
        for name, hashers in self._hashes.items():
            for hasher, buffer in zip(hashers, _bytes_of(rows.column(name)), strict=True):
                hasher.update(buffer)
        self._bytes += _data_bytes(rows.column("payload"))


class ContentDigest:
    """One digest of what messages say, in their order; wherever they are stored, and however they are cut."""

    def __init__(self) -> None:
        """Begin."""
        self._hashes = {name: (hashlib.sha256(), hashlib.sha256()) for name in CONTENT}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add messages; columns `CONTENT`."""
        if not batch.num_rows:
            return
        for name, hashers in self._hashes.items():
            for hasher, buffer in zip(hashers, _bytes_of(batch.column(name)), strict=True):
                hasher.update(buffer)

    def hexdigest(self) -> str:
        """The digest of all of them."""
        return hashlib.sha256(b"".join(one.digest() for pair in self._hashes.values() for one in pair)).hexdigest()


def combined(blocks: Iterable[BlockDigest]) -> str:
    """One digest of all blocks."""
    whole = hashlib.sha256()
    for block in blocks:
        whole.update(bytes.fromhex(block.digest))
    return whole.hexdigest()


def _bytes_of(column: pa.Array) -> tuple[Any, Any]:
    """Lengths and values of a column; no value and an empty one are the same."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_int64(column.type):
        _, data = column.buffers()
        return b"", memoryview(data)[column.offset * 8 : (column.offset + len(column)) * 8]
    lengths = pc.fill_null(pc.binary_length(column), 0).cast(pa.int32())
    _, size_data = lengths.buffers()
    sizes = memoryview(size_data)[lengths.offset * 4 : (lengths.offset + len(lengths)) * 4]
    return sizes, _data_of(column)


def _data_of(column: pa.Array) -> Any:
    import pyarrow as pa

    if column.null_count:
        column = column.fill_null(b"" if pa.types.is_binary(column.type) else "")
    _, offsets, data = column.buffers()
    if data is None:
        return b""
    places = memoryview(offsets).cast("i")
    return memoryview(data)[places[column.offset] : places[column.offset + len(column)]]


def _data_bytes(column: pa.Array) -> int:
    return len(_data_of(column))
