"""Digests depend on messages alone, not on how they were cut; any changed bit shows."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.spark.jobs.digest import BLOCK, COLUMNS, BlockDigest, Digester, combined

Row = tuple[int, int, str, bytes | None, bytes]
_TYPES = (pa.int64(), pa.int64(), pa.string(), pa.binary(), pa.binary())


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, _TYPES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def digest(batches: list[pa.RecordBatch], *, places: bool = True) -> list[BlockDigest]:
    digester = Digester(places=places)
    for batch in batches:
        digester.add(batch)
    digester.close()
    return digester.blocks


ROWS: list[Row] = [(BLOCK - 3 + n, n * 7, f"s.{n % 3}", b"h%d" % n if n % 2 else None, b"p" * n) for n in range(9)]


@given(st.lists(st.integers(0, len(ROWS)), max_size=4), st.integers(0, 5))
def test_cutting_does_not_matter(cuts: list[int], before: int) -> None:
    bounds = [0, *sorted(cuts), len(ROWS)]
    # Slices of a longer batch have offsets into shared buffers.
    whole = batch_of([(1, 1, "x", b"y", b"z")] * before + ROWS).slice(before)
    pieces = [whole.slice(start, end - start) for start, end in itertools.pairwise(bounds)]
    blocks = digest(pieces)
    assert blocks == digest([batch_of(ROWS)])
    assert [block.messages for block in blocks] == [3, 6]
    assert (blocks[0].first, blocks[0].last, blocks[1].first) == (BLOCK - 3, BLOCK - 1, BLOCK)


@pytest.mark.parametrize("column", range(5))
def test_any_change_shows(column: int) -> None:
    changed = list(ROWS)
    row = list(changed[4])
    row[column] = {0: row[0] + 1, 1: 5, 2: "s.9", 3: b"other", 4: b"ppp"}[column]
    changed[4] = tuple(row)  # type: ignore[assignment]
    if column == 0:
        changed = changed[:5] + [(r[0] + 1, *r[1:]) for r in changed[5:]]  # type: ignore[misc]
    assert combined(digest([batch_of(changed)])) != combined(digest([batch_of(ROWS)]))


def test_bytes_that_move_between_rows_show() -> None:
    left, right = (
        [(1, 0, "a", None, b"xy"), (2, 0, "a", None, b"z")],
        [(1, 0, "a", None, b"x"), (2, 0, "a", None, b"yz")],
    )
    assert digest([batch_of(left)]) != digest([batch_of(right)])


def test_without_places_only_content_counts() -> None:
    moved = [(row[0] + 2 * BLOCK, row[1] + 5, *row[2:]) for row in ROWS]
    ours, theirs = digest([batch_of(ROWS)], places=False), digest([batch_of(moved)], places=False)
    assert [block.digest for block in ours] == [block.digest for block in theirs]
