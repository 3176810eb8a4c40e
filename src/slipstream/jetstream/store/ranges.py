"""Sets of sequences as sorted lists of inclusive ranges: for damage reports, which are short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

__all__ = ["Range", "cover", "each", "subtract", "total"]

Range = tuple[int, int]


def cover(ranges: Iterable[Range]) -> list[Range]:
    """The same set with touching and overlapping ranges joined, sorted."""
    out: list[Range] = []
    for lo, hi in sorted(ranges):
        if lo > hi:
            continue
        if out and lo <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], hi))
        else:
            out.append((lo, hi))
    return out


def subtract(ranges: list[Range], removed: list[Range]) -> list[Range]:
    """What of `ranges` is not in `removed`; both as `cover` gives them."""
    out: list[Range] = []
    k = 0
    for lo, hi in ranges:
        while k < len(removed) and removed[k][1] < lo:
            k += 1
        at, j = lo, k
        while j < len(removed) and removed[j][0] <= hi:
            if removed[j][0] > at:
                out.append((at, removed[j][0] - 1))
            at = max(at, removed[j][1] + 1)
            j += 1
        if at <= hi:
            out.append((at, hi))
    return out


def total(ranges: Iterable[Range]) -> int:
    """How many sequences."""
    return sum(hi - lo + 1 for lo, hi in ranges)


def each(ranges: Iterable[Range], limit: int) -> Iterator[int]:
    """The sequences one by one, at most `limit`."""
    for lo, hi in ranges:
        for seq in range(lo, hi + 1):
            if limit <= 0:
                return
            limit -= 1
            yield seq
