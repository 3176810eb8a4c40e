"""How much a micro-batch takes: limits by messages and bytes, a least number, a longest delay, combined.

Spark's own read limits cannot be combined, so the options are kept here and Spark's limit only says whether they count
(`Trigger.Once` asks for everything, whatever the options say).

What this is not: talk to a server. It asks `Measure`, which does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slipstream.spark.runtime.stream_state import Measure, StreamState
from slipstream.spark.source.offsets import Offset, StreamPosition
from slipstream.spark.source.options import ReadLimits

__all__ = ["IDLE_SEQUENCES_MAX", "BatchAdmission"]

IDLE_SEQUENCES_MAX: Final = 65_536
"""Sequences without a wanted message that a filtered query lets pass before it makes an empty batch to move on.

Without a batch its place stays behind and the server would look at the same messages, and hold them, for ever."""


@dataclass(frozen=True)
class _Ahead:
    """What one stream has for the next batch."""

    name: str
    begin: StreamPosition
    last: int  # end of the stream
    messages: int  # counted only as far as the limits ask
    bytes: int
    cut: int  # where the count ended


class BatchAdmission:
    """Decides where the next batch ends. Remembers only when the last one was made."""

    def __init__(self, limits: ReadLimits, *, filtered: bool, now_ns: int) -> None:
        """Start counting.

        Args:
            limits: of one batch.
            filtered: whether some messages of the streams are not wanted.
            now_ns: the delay counts from here.
        """
        self._limits = limits
        self._filtered = filtered
        self._last_batch_ns = now_ns

    def next_end(
        self,
        begin: Mapping[str, StreamPosition],
        states: Mapping[str, StreamState],
        measure: Measure,
        *,
        now_ns: int,
        everything: bool = False,
        may_wait: bool = True,
    ) -> Offset:
        """The end of the next batch; equal to `begin` when there shall be none.

        Args:
            begin: where the batch begins, for every stream.
            states: the streams now; `last` bounds the batch.
            measure: asks the server.
            now_ns: the time.
            everything: no limit counts.
            may_wait: whether a least number of messages may hold a batch back; not when the query is to finish.
        """
        limits = ReadLimits() if everything else self._limits
        ahead = [self._look(name, at, states[name].last, measure, limits) for name, at in begin.items()]
        found = [one for one in ahead if one.last >= one.begin.seq and (one.messages or self._idle_long(one))]
        if not found or (may_wait and self._too_few(found, limits, now_ns)):
            return Offset(dict(begin))
        ends = dict(begin)
        messages, size = sum(one.messages for one in found), sum(one.bytes for one in found)
        for one in found:
            last = self._cut(one, messages, size, measure, limits)
            ends[one.name] = StreamPosition(max(last + 1, one.begin.seq), one.begin.identity)
        if ends != dict(begin):
            self._last_batch_ns = now_ns
        return Offset(ends)

    def _look(self, name: str, begin: StreamPosition, last: int, measure: Measure, limits: ReadLimits) -> _Ahead:
        """Count what is new, but no further than matters: a query may be far behind."""
        if last < begin.seq:
            return _Ahead(name, begin, last, 0, 0, last)
        if not self._filtered and limits == ReadLimits():
            return _Ahead(name, begin, last, last - begin.seq + 1, 0, last)
        found = measure(name, begin.seq, last, *_caps(limits))
        return _Ahead(name, begin, last, found.messages, found.bytes, found.last)

    def _idle_long(self, ahead: _Ahead) -> bool:
        return ahead.last - ahead.begin.seq >= IDLE_SEQUENCES_MAX

    def _too_few(self, found: list[_Ahead], limits: ReadLimits, now_ns: int) -> bool:
        least = limits.min_messages
        if least is None or sum(one.messages for one in found) >= least:
            return False
        return limits.max_delay_ns is None or now_ns - self._last_batch_ns < limits.max_delay_ns

    def _cut(self, one: _Ahead, messages: int, size: int, measure: Measure, limits: ReadLimits) -> int:
        """Each stream gets the share of the limits that it has of what was counted, and at least one message."""
        if (limits.max_messages is None and limits.max_bytes is None) or not one.messages:
            return one.last
        most = _share(limits.max_messages, one.messages, messages)
        bytes_most = _share(limits.max_bytes, one.bytes, size)
        fits = (most is None or one.messages <= most) and (bytes_most is None or one.bytes <= bytes_most)
        return one.cut if fits else measure(one.name, one.begin.seq, one.last, most, bytes_most).last


def _caps(limits: ReadLimits) -> tuple[int | None, int | None]:
    """How many messages and bytes have to be counted to know where a batch ends, and whether there are enough."""
    least = limits.min_messages or 1
    if limits.max_messages is None and limits.max_bytes is None:
        return least, None
    messages = None if limits.max_messages is None else max(limits.max_messages, least)
    # Bytes must not end the count before the least number of messages is reached.
    return messages, limits.max_bytes if limits.min_messages is None else None


def _share(limit: int | None, part: int, whole: int) -> int | None:
    if limit is None:
        return None
    return max(limit * part // whole, 1) if whole else limit
