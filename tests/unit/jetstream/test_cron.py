"""Cron patterns: what they name, over changes of the clock too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.jetstream.stream.features.cron import parse_cron, utc


def following(pattern: str, after: str, zone: str = "UTC") -> str | None:
    cron = parse_cron(pattern)
    assert cron is not None
    info = ZoneInfo(zone)

    def offset_at(seconds: int) -> int:
        offset = datetime.fromtimestamp(seconds, info).utcoffset()
        assert offset is not None
        return round(offset.total_seconds())

    start = datetime.fromisoformat(after).replace(tzinfo=info)
    found = cron.next_after(round(start.timestamp()), offset_at)
    return None if found is None else datetime.fromtimestamp(found, info).isoformat()


@pytest.mark.parametrize(
    ("pattern", "after", "expected"),
    [
        ("* * * * * *", "2026-01-01T00:00:00", "2026-01-01T00:00:01+00:00"),
        ("0 * * * * *", "2026-01-01T00:00:00", "2026-01-01T00:01:00+00:00"),
        ("30 5 12 * * *", "2026-01-01T12:05:30", "2026-01-02T12:05:30+00:00"),
        ("0 0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00+00:00"),
        ("0 0 0 31 * *", "2026-04-01T00:00:00", "2026-05-31T00:00:00+00:00"),
        ("0 0 0 1 1 *", "2026-06-01T10:00:00", "2027-01-01T00:00:00+00:00"),
        ("0 0 0 * * MON", "2026-11-15T00:00:00", "2026-11-16T00:00:00+00:00"),
        ("0 0 0 13 * fri", "2026-11-15T00:00:00", "2026-11-20T00:00:00+00:00"),  # either day will do
        ("*/20 59 23 31 dec *", "2026-01-01T00:00:00", "2026-12-31T23:59:00+00:00"),
        ("5/25 0 0 1 1 *", "2026-01-01T00:00:05", "2026-01-01T00:00:30+00:00"),
        ("0 0 0 30 2 *", "2026-01-01T00:00:00", None),
        (", 0 0 1 1 *", "2026-01-01T00:00:00", None),
        ("0 0 0 , * *", "2026-01-01T00:00:00", None),
    ],
)
def test_next_time(pattern: str, after: str, expected: str | None) -> None:
    assert following(pattern, after) == expected


@pytest.mark.parametrize(
    ("pattern", "after", "zone", "expected"),
    [
        ("0 0 9 * * *", "2026-03-28T10:00:00", "Europe/Berlin", "2026-03-29T09:00:00+02:00"),
        ("0 0 9 * * *", "2026-10-24T10:00:00", "Europe/Berlin", "2026-10-25T09:00:00+01:00"),
        # A time that the clock skips is not made up for; one that comes twice is taken when it comes first.
        ("0 30 2 * * *", "2026-03-28T03:00:00", "Europe/Berlin", "2026-03-30T02:30:00+02:00"),
        ("0 30 2 * * *", "2026-10-24T03:00:00", "Europe/Berlin", "2026-10-25T02:30:00+02:00"),
        ("0 0 0 * * *", "2026-11-15T00:00:00", "Asia/Kathmandu", "2026-11-16T00:00:00+05:45"),
        ("0 0 0 1 * *", "2026-11-15T00:00:00", "America/New_York", "2026-12-01T00:00:00-05:00"),
    ],
)
def test_next_time_in_a_zone(pattern: str, after: str, zone: str, expected: str) -> None:
    assert following(pattern, after, zone) == expected


@pytest.mark.parametrize(
    "pattern",
    ["", "* * * * *", "60 * * * * *", "* 60 * * * *", "* * 24 * * *", "* * * 0 * *", "* * * 32 * *", "* * * * 13 *",
     "* * * * * 7", "a * * * * *", "5-1 * * * * *", "1-2-3 * * * * *", "1/2/3 * * * * *", "*/0 * * * * *",
     "1/x * * * * *", "-1 * * * * *", "* * * * foo *", "1_0 * * * * *"],
)  # fmt: skip
def test_what_is_no_pattern(pattern: str) -> None:
    assert parse_cron(pattern) is None


FIELD = st.one_of(st.just("*"), st.integers(0, 11).map(str), st.sampled_from(["*/3", "1-5", "2,7", "0-10/4", "6/2"]))


@settings(max_examples=60, deadline=None)
@given(FIELD, FIELD, st.integers(0, 10**6))
def test_every_time_between_is_not_named(minute: str, hour: str, start: int) -> None:
    cron = parse_cron(f"0 {minute} {hour} * * *")
    assert cron is not None
    found = cron.next_after(start * 60, utc)
    assert found is not None and found > start * 60

    def named(seconds: int) -> bool:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        return moment.minute in cron.minute and moment.hour in cron.hour

    assert named(found) and not any(named(seconds) for seconds in range(start * 60 + 60, found, 60))
