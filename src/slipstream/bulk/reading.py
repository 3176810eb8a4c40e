"""From a source of records to Arrow batches, with the checks that make a read complete or an error.

    source (bulk, direct, consumer) ──chunks of records──► ArrowReader ──► pyarrow.RecordBatch

Invariant: an `ArrowReader` that ends without an exception has given every message of the range that the server has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from slipstream.bulk.errors import BulkError
from slipstream.kernels.bulk.arrowrows import RowDecoder

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowReader", "RecordSource", "WantedRange"]


@dataclass(frozen=True)
class WantedRange:
    """The messages of a read."""

    stream: str
    first: int
    last: int
    subjects: tuple[str, ...] = ()
    start_time_ns: int | None = None
    end_time_ns: int | None = None
    identity: str | None = None
    fail_on_data_loss: bool = True
    expect_messages: int | None = None


class RecordSource(Protocol):
    """Chunks of records in the order of their sequences."""

    transport: str
    """`bulk`, `direct` or `consumer`."""
    exact: bool
    """Whether only wanted messages come; else rows are filtered here."""
    salt: int
    """Key of the checksums in the chunk that came last."""

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """Each chunk once; a view is good until the next one is asked for.

        Raises:
            BulkError: the read cannot be completed.
        """
        ...

    def check(self, records: int, crc: int, damaged: Sequence[int]) -> None:
        """Compare what came with what the server says it sent; called after the last chunk.

        Raises:
            BulkError: they differ, or messages are lost and that matters.
        """
        ...

    def close(self) -> None:
        """Stop; idempotent."""
        ...


class ArrowReader:
    """An iterator of record batches; `rows` and `crc` are complete after the end."""

    def __init__(
        self, source: RecordSource, wanted: WantedRange, columns: Sequence[str], *, batch_rows: int, batch_bytes: int
    ) -> None:
        """Read `source` into `columns`, whose names were checked."""
        from slipstream.bulk.arrow import message_schema

        self.schema: pa.Schema = message_schema(columns)
        self.transport = source.transport
        self.rows = 0
        self.crc = 0
        self.damaged: list[int] = []
        """Sequences that were skipped because they are damaged; empty unless data loss is allowed."""
        self._source = source
        self._wanted = wanted
        self._decoder = _decoder(source, wanted, columns, batch_rows, batch_bytes)
        self._batches = self._read()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """This is its own iterator: a read can be consumed once."""
        return self._batches

    def __next__(self) -> pa.RecordBatch:
        """The next batch."""
        return next(self._batches)

    def close(self) -> None:
        """Give up the rest."""
        self._batches.close()  # type: ignore[attr-defined]  # it is a generator
        self._source.close()

    def __enter__(self) -> Self:
        """For `with`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _read(self) -> Iterator[pa.RecordBatch]:
        from slipstream.bulk.arrow import record_batch

        decoder = self._decoder
        try:
            for chunk in self._source:
                at = 0
                decoder.salt = self._source.salt
                while True:
                    try:
                        at = decoder.feed(chunk, at)
                    except ValueError as error:
                        raise BulkError(
                            f"the server sent bytes that are no records: {error}", retryable=True
                        ) from error
                    self._judge(decoder.damaged)
                    if at == len(chunk):
                        break
                    self.rows += decoder.rows
                    yield record_batch(decoder, self.schema)
            if decoder.rows:
                self.rows += decoder.rows
                yield record_batch(decoder, self.schema)
            self.crc = decoder.crc
            self._source.check(decoder.records, decoder.crc, decoder.damaged)
            self._check_expected()
        finally:
            self._source.close()

    def _judge(self, damaged: list[int]) -> None:
        if damaged and self._wanted.fail_on_data_loss:
            raise BulkError(f"message {damaged[0]} of {self._wanted.stream} is damaged", seqs=damaged)
        self.damaged = damaged

    def _check_expected(self) -> None:
        wanted = self._wanted
        expected = wanted.expect_messages
        if expected is not None and wanted.fail_on_data_loss and self.rows != expected:
            raise BulkError(
                f"{wanted.stream} has {self.rows} messages from {wanted.first} to {wanted.last} where {expected} were "
                "planned: some were removed meanwhile"
            )


def _decoder(
    source: RecordSource, wanted: WantedRange, columns: Sequence[str], batch_rows: int, batch_bytes: int
) -> RowDecoder:
    stream = wanted.stream.encode()
    if batch_rows < 1 or not 1 <= batch_bytes <= 1 << 30:
        raise BulkError("batch_rows and batch_bytes must be at least 1, batch_bytes at most a gibibyte")
    if source.exact:
        return RowDecoder(columns, stream, batch_rows, batch_bytes)
    return RowDecoder(
        columns,
        stream,
        batch_rows,
        batch_bytes,
        first_seq=max(wanted.first, 0),
        last_seq=wanted.last,
        start_ns=-(2**63) + 1 if wanted.start_time_ns is None else wanted.start_time_ns,
        end_ns=2**63 - 1 if wanted.end_time_ns is None else wanted.end_time_ns,
        filters=tuple(subject.encode() for subject in wanted.subjects),
    )
