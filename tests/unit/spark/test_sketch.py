"""Percentiles of the sketch are within two percent of the true ones, also after adding up parts."""

from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slipstream.spark.jobs.sketch import Sketch

SHARES = (0.5, 0.9, 0.99, 1.0)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200), st.integers(0, 200))
def test_percentiles_are_close(values: list[int], cut: int) -> None:
    whole = Sketch()
    for part in (values[:cut], values[cut:]):
        one = Sketch()
        one.add(pa.array(part, pa.int64()))
        whole.merge({str(bucket): count for bucket, count in one.counts.items()})
    for share, found in zip(SHARES, whole.percentiles(SHARES), strict=True):
        true = sorted(values)[max(math.ceil(share * len(values)), 1) - 1]
        assert abs(found - true) <= max(true * 0.02, 1)


def test_nothing_has_no_percentiles() -> None:
    empty = Sketch()
    empty.add(pa.array([], pa.int64()))
    assert empty.percentiles(SHARES) == [0.0] * 4
