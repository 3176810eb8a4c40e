"""Durations are read and written as Go does."""

from __future__ import annotations

import pytest

from slipstream.config.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("0", 0),
        ("1ns", 1),
        ("1us", 1_000),
        ("1µs", 1_000),
        ("1μs", 1_000),  # the other Greek letter
        ("250ms", 250_000_000),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("1.s", 1_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("-2m", -120_000_000_000),
        ("+1s", 1_000_000_000),
        ("1m0.000000001s", 60_000_000_001),
    ],
)
def test_parsed(text: str, expected_ns: int) -> None:
    assert parse_duration(text) == expected_ns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("abc", 'time: invalid duration "abc"'),
        (".", 'time: invalid duration "."'),
        ("5", 'time: missing unit in duration "5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("1m5", 'time: missing unit in duration "1m5"'),
        ("99999999999h", 'time: invalid duration "99999999999h"'),
        ("1" * 5000 + "s", 'time: invalid duration "' + "1" * 5000 + 's"'),
        ('1"s', 'time: unknown unit "\\"s" in duration "1\\"s"'),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="time: ") as caught:
        parse_duration(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("duration_ns", "expected"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (50_000_000, "50ms"),
        (1_000_000_000, "1s"),
        (1_500_000_000, "1.5s"),
        (120_000_000_000, "2m0s"),
        (3_600_000_000_000, "1h0m0s"),
        (-30_000_000_000, "-30s"),
        (5_025_500_000_000, "1h23m45.5s"),
    ],
)
def test_formatted(duration_ns: int, expected: str) -> None:
    assert format_duration(duration_ns) == expected
    assert parse_duration(expected) == duration_ns
