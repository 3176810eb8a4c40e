"""Objects as the messages of an object store (ADR-20): chunks, then a description; the newest one counts.

Of rows with one name the last in a write stays: rows count in the order of partitions, then of rows.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from slipstream.ids import new_nuid
from slipstream.spark.runtime.errors import OptionError
from slipstream.spark.sink.checks import BadRow, Room, refusal
from slipstream.spark.sink.commits import TaskDone
from slipstream.spark.sink.dead_letters import DeadLetterRows
from slipstream.spark.sink.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["object_messages"]

_rng = random.SystemRandom()


def object_messages(
    options: SinkOptions,
    room: Room,
    done: TaskDone,
    dead_letters: DeadLetterRows | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch | None]]:
    """The messages of the objects of a task; what they replace is noted in `done`.

    Raises:
        OptionError: chunks would be larger than messages may be.
        SparkSideError: an object has no name, and there are no dead letters.
    """
    import pyarrow as pa

    if options.chunk_bytes > room.max_bytes:
        raise OptionError("chunkBytes", f"{options.chunk_bytes} is more than the {room.max_bytes} bytes of a message")
    for batch in batches:
        names = batch.schema.names
        descriptions = batch.column("description") if "description" in names else None
        for row in range(batch.num_rows):
            name, data = batch.column("name")[row].as_py(), batch.column("data")[row].as_py() or b""
            content = data.encode() if isinstance(data, str) else data
            if not name:
                bad = BadRow(row, "it has no name; every object of a store has one")
                if dead_letters is None:
                    raise refusal(room, [bad], batch.num_rows)
                done.dead += 1
                yield _batch(pa, []), dead_letters.batch(_batch(pa, [("", content)]), [BadRow(0, bad.reason)])
                continue
            text = descriptions[row].as_py() if descriptions is not None else None
            done.replacing.append(_description_subject(options.target.names[0], name))
            done.rows += 1
            yield _batch(pa, _messages(options, name, content, text)), None


def _batch(pa: Any, rows: list[tuple[str, bytes]]) -> pa.RecordBatch:
    arrays = [pa.array([one[0] for one in rows], pa.string()), pa.array([one[1] for one in rows], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["subject", "payload"])


def _messages(options: SinkOptions, name: str, content: bytes, description: str | None) -> list[tuple[str, bytes]]:
    store, size = options.target.names[0], options.chunk_bytes
    nuid = new_nuid(_rng)
    chunks = [content[at : at + size] for at in range(0, len(content), size)]
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
    info: dict[str, Any] = {
        "name": name,
        "bucket": store,
        "nuid": nuid,
        "size": len(content),
        "mtime": "0001-01-01T00:00:00Z",  # clients take the time of the message
        "chunks": len(chunks),
        "digest": f"SHA-256={digest}",
        "options": {"max_chunk_size": size},
    }
    if description is not None:
        info["description"] = description
    rows = [(f"$O.{store}.C.{nuid}", chunk) for chunk in chunks]
    rows.append((_description_subject(store, name), json.dumps(info).encode()))
    return rows


def _description_subject(store: str, name: str) -> str:
    return f"$O.{store}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"
