"""A table back into a stream: messages equal to the byte, in their order, each once.

A replay has a name made of the table and of what selects messages, and the stream remembers how far it has come
together with the messages (a fence of bulk commits). So a replay that was killed, or is run again when the table has
grown, goes on where it was; to replay the same once more is another name.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from slipstream.bulk import BulkClient, BulkError
from slipstream.jetstream.bulk.errors import FENCE_MOVED
from slipstream.lake.tables import LakeTable
from slipstream.spark.lake.base import LakeError, Wish
from slipstream.spark.lake.origins import CONTENT, with_origins

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Replayed", "replay"]

_COMMIT_BYTES: Final = 32 << 20


@dataclass(frozen=True)
class Replayed:
    """What a replay has done."""

    before: int  # sequences of the table up to here were replayed earlier
    upto: int
    messages: int
    left_out: int  # that the stream did not store, because nobody is interested in them
    commits: int


def replay(
    client: BulkClient,
    table: LakeTable,
    stream: str,
    wish: Wish,
    *,
    version: int | None = None,
    mark: bool = False,
    name: str = "",
) -> Replayed:
    """Publish messages of a table into a stream, exactly once.

    Args:
        client: of the server.
        table: where from.
        stream: where to; its subjects must cover those of the messages.
        wish: which messages.
        version: of the table; the newest by default.
        mark: add headers that say where a message was: `Nats-Orig-Stream`, `-Sequence` and `-Time-Stamp`. Without
            them a message is equal to the byte.
        name: another name makes the same replay a new one.

    Raises:
        LakeError: another replay of this name is at work.
        BulkError: the stream refused the messages.
    """
    identity = client.bulk_info(stream)["identity"]
    txn = _name(table, wish, name)
    fence = client.fence(stream, txn)
    before = upto = 0 if fence is None else fence.batch_id
    messages = left_out = commits = 0
    above = replace(wish, first_seq=max(wish.first_seq or 1, upto + 1))
    for piece in _pieces(table.read(above, version)):
        last = piece[-1].column("seq")[-1].as_py()
        with client.stage(stream, txn, attempt=secrets.randbits(31)) as part:
            for batch in piece:
                part.write(with_origins(batch) if mark else batch.select(list(CONTENT)))
            staged = part.close()
        try:
            done = client.commit(stream, txn, last, [staged], identity=identity, after=upto or -1, copied=True)
        except BulkError as error:
            if error.err_code == FENCE_MOVED.err_code:
                raise LakeError(f"another replay of {table.place} into {stream} is at work") from error
            raise
        if done.duplicate:
            raise LakeError(f"another replay of {table.place} into {stream} is at work")
        upto, commits = last, commits + 1
        messages += done.count
        left_out += done.left_out
    return Replayed(before, upto, messages, left_out, commits)


def _name(table: LakeTable, wish: Wish, name: str) -> str:
    what = (table.table_id, wish.first_seq or 1, wish.start_ns, wish.end_ns, sorted(wish.subjects), name)
    return f"lake-replay-{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:24]}"


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches of one commit."""
    piece: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        piece.append(batch)
        size += batch.nbytes
        if size >= _COMMIT_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
