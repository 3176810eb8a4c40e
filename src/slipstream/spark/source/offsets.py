"""Positions in streams as Spark keeps them in its checkpoint.

    {"v": 1, "s": {"ORDERS": {"q": 2000001, "id": "1763164800000000000/Rw3x…"}}}

`q` is the next sequence to read, so an offset is an exclusive end. `id` says which stream it was: a stream that was
deleted and created again has the same name and other messages. `t`, for streams that replace messages, is a time in
nanoseconds before which nothing from `q` on was stored. `f` is where a stream begins that the offset before does not
know: it joined a pattern, or was created anew. `w` says that a query is to begin where the stream has not come to yet.

Invariant: the same pair of offsets names the same messages, always.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from slipstream.spark.runtime.errors import SparkSideError

__all__ = ["Offset", "OffsetError", "StreamPosition"]

_VERSION = 1


class OffsetError(SparkSideError):
    """A checkpoint holds an offset that this version cannot read."""


@dataclass(frozen=True)
class StreamPosition:
    """A place in one stream."""

    seq: int  # next to read
    identity: str
    oldest_ns: int = field(default=0, compare=False)  # nothing from `seq` on was stored before; 0: not known
    waits: bool = field(default=False, compare=False)  # a start that was asked for, beyond the end of the stream
    joined_at: int = field(default=0, compare=False)  # first sequence for a query that did not know the stream before


@dataclass(frozen=True)
class Offset:
    """A place in every stream of a query."""

    positions: Mapping[str, StreamPosition]

    def to_json(self) -> dict[str, Any]:
        """What Spark writes to its checkpoint; streams are sorted, so that equal offsets are equal texts."""
        return {"v": _VERSION, "s": {name: _json(at) for name, at in sorted(self.positions.items())}}

    @classmethod
    def from_json(cls, value: object) -> Offset:
        """Read what `to_json` wrote.

        Raises:
            OffsetError: it is something else.
        """
        if not isinstance(value, dict) or not isinstance(value.get("s"), dict):
            raise OffsetError(f"the checkpoint's offset is not one of this source: {str(value)[:200]}")
        if value.get("v") != _VERSION:
            raise OffsetError(f"the checkpoint's offset has version {value.get('v')!r}; this source reads {_VERSION}")
        return cls({str(name): _position(name, at) for name, at in value["s"].items()})

    def streams_with(self, other: Offset) -> Iterator[tuple[str, StreamPosition, StreamPosition]]:
        """The streams that moved from here to `other`: name, from, to.

        A stream that is new, or another one of the same name, is read from where it joined.
        """
        for name, end in sorted(other.positions.items()):
            begin = self.positions.get(name)
            if begin is None or begin.identity != end.identity:
                begin = StreamPosition(end.joined_at or 1, end.identity)
            if end.seq > begin.seq:
                yield name, begin, end


def _json(at: StreamPosition) -> dict[str, Any]:
    more = {"t": at.oldest_ns, "f": at.joined_at, "w": at.waits}
    return {"q": at.seq, "id": at.identity, **{name: value for name, value in more.items() if value}}


def _position(name: object, value: object) -> StreamPosition:
    if isinstance(value, dict):
        seq, identity, oldest, joined = value.get("q"), value.get("id"), value.get("t", 0), value.get("f", 0)
        if _whole(seq) and seq >= 1 and isinstance(identity, str) and _whole(oldest) and _whole(joined):
            return StreamPosition(seq, identity, oldest, value.get("w") is True, joined)
    raise OffsetError(f"the checkpoint's offset of stream {name!r} cannot be read: {str(value)[:200]}")


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
