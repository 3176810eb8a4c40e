"""When the next message may go: original speed and rate limit. Both say how long to wait, and wait for nothing."""

from __future__ import annotations

from slipstream.jetstream.consumer.limits import REPLAY_GAP_MIN_NS
from slipstream.units import SECOND_NS

__all__ = ["RateLimit", "Replay"]


class Replay:
    """Reproduces the gaps between stored messages until what was stored at the start is delivered."""

    __slots__ = ("_last_sent_ns", "_last_ts_ns", "until_seq")

    def __init__(self, until_seq: int) -> None:
        """Pace messages up to this sequence."""
        self.until_seq = until_seq
        self._last_ts_ns = 0
        self._last_sent_ns = 0

    def delay_ns(self, seq: int, ts_ns: int, now_ns: int) -> int:
        """How long the message has to wait; 0: it may go."""
        if seq > self.until_seq or not self._last_ts_ns:
            return 0
        gap_ns = ts_ns - self._last_ts_ns
        return max(self._last_sent_ns + gap_ns - now_ns, 0) if gap_ns > REPLAY_GAP_MIN_NS else 0

    def sent(self, ts_ns: int, now_ns: int) -> None:
        """The message has gone."""
        self._last_ts_ns, self._last_sent_ns = ts_ns, now_ns


class RateLimit:
    """A bucket of bytes that fills at a constant rate. A message may go when the bucket is not overdrawn."""

    __slots__ = ("_burst", "_bytes_per_s", "_level", "_level_ns")

    def __init__(self, bits_per_s: int, burst_bytes: int, now_ns: int) -> None:
        """Begin with a full bucket."""
        self._bytes_per_s = max(bits_per_s // 8, 1)
        self._burst = burst_bytes
        self._level = burst_bytes
        self._level_ns = now_ns

    def delay_ns(self, size: int, now_ns: int) -> int:
        """How long a message of this size has to wait; 0: it may go."""
        missing = min(size, self._burst) - self._filled(now_ns)
        return -(-missing * SECOND_NS // self._bytes_per_s) if missing > 0 else 0

    def sent(self, size: int, now_ns: int) -> None:
        """The message has gone."""
        self._level = self._filled(now_ns) - size
        self._level_ns = now_ns

    def _filled(self, now_ns: int) -> int:
        grown = max(now_ns - self._level_ns, 0) * self._bytes_per_s // SECOND_NS
        return min(self._level + grown, self._burst)
