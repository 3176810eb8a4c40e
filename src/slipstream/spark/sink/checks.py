"""Rows that cannot be messages of the target, found before anything of them is sent.

Every check judges a whole batch first, by its columns, and looks at rows only if something may be wrong: 65,536 rows
without fault take a few milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slipstream.kernels.subjects.subject import is_valid_publish, matches
from slipstream.spark.runtime.errors import SparkSideError
from slipstream.spark.sink.headers import BLOCK_BYTES, bad_headers, header_block, header_bytes_bound, joined_texts

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BadRow", "Room", "bad_keys", "bad_messages", "refusal"]

_KEY = re.compile(r"[-/_=A-Za-z0-9]+(\.[-/_=A-Za-z0-9]+)*")
_KEY_CHARACTERS = b"-/_=.ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_NOT_IN_SUBJECTS = (b" ", b"\t", b"\r", b"\n", b"\0", b"*", b">")  # the last two are fine in some places
_NAMED = 3  # rows in an error text


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be a message."""

    row: int  # in its batch
    reason: str


@dataclass(frozen=True)
class Room:
    """What the target takes."""

    stream: str
    subjects: tuple[str, ...]
    max_bytes: int  # of a message with its headers
    added_bytes: int = 0  # of header lines that are added when a message is published


def refusal(room: Room, bad: Sequence[BadRow], rows: int) -> SparkSideError:
    """What to say of bad rows that have nowhere to go."""
    text = "; ".join(f"row {one.row}: {one.reason}" for one in bad[:_NAMED])
    return SparkSideError(
        f"{len(bad)} of {rows} rows cannot be messages of {room.stream}: {text}; "
        "set onError=dlq and dlqSubject to put such rows aside"
    )


def bad_messages(messages: pa.RecordBatch, room: Room) -> dict[int, str]:
    """Rows that the server would not take, and why.

    Args:
        messages: the columns `subject`, `payload` and those of headers.
        room: what the target takes.
    """
    found = bad_headers(messages)
    found |= _oversized(messages, room, found)
    subjects = messages.column("subject")
    if room.subjects and not _surely_taken(subjects, room.subjects):
        found |= _foreign(subjects, room.subjects)
    if subjects.null_count:
        found |= {row: "it has no subject" for row, one in enumerate(subjects.is_null().to_pylist()) if one}
    return found


def bad_keys(keys: pa.Array) -> dict[int, str]:
    """Rows whose key is none."""
    import pyarrow.compute as pc

    text = joined_texts(keys)
    lengths = pc.min(pc.binary_length(keys)).as_py()
    if not keys.null_count and lengths and not text.translate(None, _KEY_CHARACTERS) and not _has_odd_dots(keys, text):
        return {}
    return {
        row: "it has no key" if key is None else f"{key!r} is no key"
        for row, key in enumerate(keys.to_pylist())
        if key is None or not _KEY.fullmatch(key)
    }


def _has_odd_dots(texts: pa.Array, joined: bytes) -> bool:
    """Whether a text may begin or end with a dot, or have an empty token."""
    import pyarrow.compute as pc

    return b".." in joined or pc.any(pc.or_(pc.starts_with(texts, "."), pc.ends_with(texts, "."))).as_py() is True


def _surely_taken(subjects: pa.Array, accepts: Sequence[str]) -> bool:
    """Whether all subjects are such that the stream takes them; False when in doubt."""
    import pyarrow.compute as pc

    joined = joined_texts(subjects)
    if any(part in joined for part in _NOT_IN_SUBJECTS) or _has_odd_dots(subjects, joined):
        return False
    if not pc.min(pc.binary_length(subjects)).as_py():
        return False
    taken = None
    for one in accepts:
        if one == ">":
            return True
        if "*" in one or (">" in one and not one.endswith(".>")):
            continue
        hits = pc.starts_with(subjects, one[:-1]) if one.endswith(".>") else pc.equal(subjects, one)
        taken = hits if taken is None else pc.or_(taken, hits)
    return taken is not None and pc.all(taken).as_py() is True


def _foreign(subjects: pa.Array, accepts: Sequence[str]) -> dict[int, str]:
    """Rows whose subject cannot be published to, or is of no interest to the stream."""
    known = subjects.dictionary_encode()
    filters = [one.encode() for one in accepts]
    wrong = {}
    for number, subject in enumerate(known.dictionary.to_pylist()):
        text = subject.encode()
        if not is_valid_publish(text):
            wrong[number] = f"{subject!r} is no subject to publish to"
        elif not any(matches(one, text) for one in filters):
            wrong[number] = f"{subject!r} is not among the subjects of the stream ({', '.join(accepts)})"
    if not wrong:
        return {}
    return {row: wrong[at] for row, at in enumerate(known.indices.to_pylist()) if at in wrong}


def _oversized(messages: pa.RecordBatch, room: Room, bad: dict[int, str]) -> dict[int, str]:
    """Rows whose message, with its headers, is larger than the server takes.

    Args:
        messages: to be judged.
        room: what the target takes.
        bad: rows with headers that cannot be written; they are left out.
    """
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.binary_length(messages.column("payload")), 0)
    added = room.added_bytes + BLOCK_BYTES if room.added_bytes else 0
    bound = header_bytes_bound(messages) + added
    if (pc.max(lengths).as_py() or 0) + bound <= room.max_bytes:
        return {}
    names = [name for name in messages.schema.names if name not in ("subject", "payload")]
    found = {}
    for number in pc.indices_nonzero(pc.greater(lengths, room.max_bytes - bound)).to_pylist():
        if number in bad:
            continue
        headers = 0
        if bound:
            headers = len(header_block(messages.select(names).slice(number, 1).to_pylist()[0])) if names else 0
            headers += room.added_bytes if headers else added
        size = lengths[number].as_py()
        if size + headers > room.max_bytes:
            more = f" and {headers} of headers" if headers else ""
            found[number] = f"its payload has {size} bytes{more}, the server takes messages of {room.max_bytes} bytes"
    return found
