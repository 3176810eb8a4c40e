"""Measurements with bars of their own, small: they come to an end and judge what they found."""

from __future__ import annotations

import re

import pytest
from benchmarks import orders, product, sql
from benchmarks.figure import Figure, NotHere
from click.testing import CliRunner


def test_a_figure_says_whether_its_bar_is_met() -> None:
    slow, fast = (Figure("first paint", value, 300, "ms") for value in (301, 300))
    assert not slow.holds and str(slow) == "first paint: 301.0 ms (bar <= 300 ms): MISSED"
    assert fast.holds and str(fast).endswith("holds")
    rates = [Figure("publishes", value, 20_000, "a second", more_is_better=True).holds for value in (19_999, 20_000)]
    assert rates == [False, True]


def test_what_cannot_be_measured_is_said() -> None:
    with pytest.raises(NotHere, match="--wheel"):
        next(product.MEASURES["install"](None))
    (figure,) = product.MEASURES["import"](None)
    assert figure.value > 0


def test_orders_by_keys() -> None:
    done = CliRunner().invoke(orders.main, ["--messages", "2000", "--workers", "8", "--rounds", "1"])
    assert done.exit_code in (0, 1), done.output + str(done.exception)
    assert [line.partition(":")[0] for line in done.output.splitlines()[:3]] == ["plain", "key-shared", "fair"]
    (share,) = re.findall(r"key-shared of plain, 8 workers: (\d+\.\d\d) times \(bar >= 0.70 times\)", done.output)
    assert float(share) > 0


def test_sql_beside_parquet() -> None:
    done = CliRunner().invoke(sql.main, ["--messages", "20000", "--rounds", "1"])
    assert done.exit_code in (0, 1), done.output + str(done.exception)
    assert done.output.count("DuckDB over Parquet") == 3 and done.output.count("(bar ") == 2
