"""Percentiles of very many values in little memory: counts in buckets that each grow by two percent.

A value read back is within one percent of the true one. Sketches of ranges are added up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Sketch", "buckets_of"]

_GROWTH: Final = math.log(1.02)


def buckets_of(values: pa.Array) -> pa.Array:
    """The bucket of each number; nothing is in none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    safe = pc.max_element_wise(values.cast(pa.float64()), pa.scalar(1.0), skip_nulls=False)
    buckets = pc.floor(pc.divide(pc.ln(safe), _GROWTH)).cast(pa.int64())
    return pc.if_else(pc.less(values, 1), -1, buckets)


class Sketch:
    """Counts of values that are not negative."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        """Begin with the counts of another sketch, or with none."""
        self.counts: Counter[int] = Counter(counts or {})

    def add(self, values: pa.Array) -> None:
        """Add numbers; those below one count as zero."""
        import pyarrow.compute as pc

        if not len(values):
            return
        for entry in pc.value_counts(buckets_of(values)).to_pylist():
            self.counts[entry["values"]] += entry["counts"]

    def merge(self, counts: Mapping[int, int] | Mapping[str, int]) -> None:
        """Add another sketch, as JSON has it."""
        for bucket, count in counts.items():
            self.counts[int(bucket)] += count

    def percentiles(self, shares: Iterable[float]) -> list[float]:
        """The values that these shares of all values do not exceed; zeros for an empty sketch."""
        ordered = sorted(self.counts.items())
        total = sum(self.counts.values())
        found: list[float] = []
        for share in shares:
            rank, seen, value = share * total, 0, 0.0
            for bucket, count in ordered:
                seen += count
                value = 0.0 if bucket < 0 else math.exp((bucket + 0.5) * _GROWTH)
                if seen >= rank:
                    break
            found.append(value if total else 0.0)
        return found
