"""Sizes, durations and times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.cli.human import (
    format_age,
    format_bytes,
    format_duration,
    format_number,
    format_time,
    parse_bytes,
    parse_duration,
    parse_timestamp,
    to_rfc3339,
    visible,
    visible_in_colour,
)

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("2s", 2 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("250ms", SECOND // 4),
        ("7d", 7 * 86_400 * SECOND),
        ("1y", 365 * 86_400 * SECOND),
        ("1M", 30 * 86_400 * SECOND),
        ("-1", -1),
        ("0", 0),
    ],
)
def test_durations_are_read(text: str, duration_ns: int) -> None:
    assert parse_duration(text) == duration_ns


@pytest.mark.parametrize("text", ["", "s", "5", "5x", "1h 3m", "-2s", "9999999999999999999y"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("512", 512), ("16KB", 16_384), ("16k", 16_384), ("1.5GiB", 1_610_612_736), ("1 MB", 1_048_576), ("-1", -1)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "x", "1X", "-5", "9999999999999999999P"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a size|more than"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (1_500, "2µs"),
        (250_000_000, "250ms"),
        (1_500_000_000, "1.50s"),
        (120 * SECOND, "2m0s"),
        (93_784 * SECOND, "1d2h3m4s"),
        (400 * 86_400 * SECOND, "1y35d"),
        (7 * 86_400 * SECOND, "7d"),
        (86_400 * SECOND + 60 * SECOND, "1d0h1m"),
        (3_600 * SECOND, "1h0m0s"),
        (2**63 - 1, "never"),
        (-2 * SECOND, "-2.00s"),
    ],
)
def test_durations_are_written(duration_ns: int, text: str) -> None:
    assert format_duration(duration_ns) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10 * 1024, "10 KiB"),
        (168_820_736, "161 MiB"),
        (-1, "unlimited"),
    ],
)
def test_sizes_are_written(size: int, text: str) -> None:
    assert format_bytes(size) == text


@given(st.integers(0, 2**62))
def test_every_size_and_duration_can_be_written(number: int) -> None:
    assert format_bytes(number)
    assert format_duration(number)
    assert int(format_number(number).replace(",", "")) == number


def test_what_others_wrote_does_not_steer_the_terminal() -> None:
    assert visible("a\x1b[31mb\x1b]0;title\x07\tc\r\nd\r\x9b2J") == "a\\x1b[31mb\\x1b]0;title\\x07\tc\r\nd\\x0d\\x9b2J"
    assert visible_in_colour("\x1b[31mred\x1b[0m\x1b[2J") == "\x1b[31mred\x1b[0m\\x1b[2J"


def test_times() -> None:
    text = "2026-01-31T12:30:00.123456789Z"
    moment = parse_timestamp(text)
    assert moment == datetime(2026, 1, 31, 12, 30, 0, 123456, UTC)
    assert to_rfc3339(moment) == "2026-01-31T12:30:00.123456Z"
    assert format_time("0001-01-01T00:00:00Z") == ""
    assert format_age("0001-01-01T00:00:00Z", moment) == "never"
    assert format_age("2026-01-31T12:28:00Z", moment) == "2m0s"
