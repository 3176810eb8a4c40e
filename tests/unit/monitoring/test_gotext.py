"""Texts as Go prints them."""

from __future__ import annotations

import pytest

from slipstream.monitoring.gotext import encode_indented, number, round_trip, round_trip_text, seconds, uptime

SECOND = 10**9
DAY = 24 * 3600


@pytest.mark.parametrize(
    ("total_seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m0s"),
        (3600, "1h0m0s"),
        (3 * 60 + 4, "3m4s"),
        (DAY + 3 * 60 + 4, "1d0h3m4s"),
        (365 * DAY, "1y0d0h0m0s"),
        (366 * DAY + 3661, "1y1d1h1m1s"),
        (-5, "0s"),
    ],
)
def test_uptime(total_seconds: int, text: str) -> None:
    assert uptime(total_seconds * SECOND + 999) == text


@pytest.mark.parametrize(
    ("rtt_ns", "shown_ns", "text"),
    [
        (0, 0, "0s"),
        (950, 950, "950ns"),
        (323_805, 323_000, "323µs"),
        (3_366_789, 3_366_789, "3.366789ms"),
        (1_500_000_000, 1_500_000_000, "1.5s"),
    ],
)
def test_round_trip_is_cut_to_microseconds_below_a_millisecond(rtt_ns: int, shown_ns: int, text: str) -> None:
    assert round_trip(rtt_ns) == shown_ns
    assert round_trip_text(rtt_ns) == text


def test_whole_numbers_have_no_point() -> None:
    assert repr(number(2.0)) == "2"
    assert repr(number(1.5)) == "1.5"
    assert repr(seconds(1_500_000_000)) == "1.5"
    assert repr(seconds(2_000_000_000)) == "2"


def test_json_is_indented_and_escaped_as_go_does() -> None:
    text = encode_indented({"a": "x.>", "b": [], "c": {}, "d": ["<&>"]})
    assert text == b'{\n  "a": "x.\\u003e",\n  "b": [],\n  "c": {},\n  "d": [\n    "\\u003c\\u0026\\u003e"\n  ]\n}'
    assert encode_indented({"a": 1}, 3) == b'{\n   "a": 1\n}'
