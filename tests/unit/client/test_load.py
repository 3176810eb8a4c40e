"""Percentiles, tallies and the frames a publisher repeats."""

import pytest

from slipstream.client.load import Tally, percentile
from slipstream.client.throughput import _chunks, publish_frames


@pytest.mark.parametrize(
    ("fraction", "value"), [(0.0, 10), (0.25, 10), (0.26, 20), (0.5, 20), (0.75, 30), (0.99, 40), (1.0, 40)]
)
def test_percentile_is_a_value_that_enough_do_not_exceed(fraction: float, value: int) -> None:
    assert percentile([10, 20, 30, 40], fraction) == value


@pytest.mark.parametrize(("values", "fraction"), [([], 0.5), ([1], -0.1), ([1], 1.1)])
def test_no_percentile(values: list[int], fraction: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile(values, fraction)


def test_rate_of_an_instant_run_is_a_number() -> None:
    tally = Tally(messages=3, payload_bytes=0, started_ns=7, ended_ns=7)
    assert tally.rate > 0


def test_frames_rotate_over_the_subjects() -> None:
    frames = publish_frames(["a", "bb"], 2, 5)
    assert frames == b"".join(b"PUB %b 2\r\nxx\r\n" % subject for subject in (b"a", b"bb", b"a", b"bb", b"a"))


@pytest.mark.parametrize("subjects", [["one"], ["one", "two", "three"], [f"s.{n}" for n in range(5000)]])
@pytest.mark.parametrize("messages", [0, 1, 999, 12_345])
def test_chunks_are_exactly_the_messages(subjects: list[str], messages: int) -> None:
    sent = b"".join(_chunks(subjects, 128, messages))
    assert sent == publish_frames(subjects, 128, messages)
