"""Names that might be meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.nearness import near

NAMES = ("--header", "--headers-only", "--queue", "--server", "--user", "--description", "-q", "ls", "rm", "sub", "pub")
WORDS = st.text("abcde", max_size=6)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("--sever", ["--server"]),
        ("--queeu", ["--queue"]),
        ("--desc", ["--description"]),
        ("--head", ["--header", "--headers-only"]),
        ("sbu", ["sub"]),
        ("--bogus", []),
        ("lm", []),
        ("x", []),
        ("", []),
        ("--", []),
    ],
)
def test_what_is_near(wrong: str, meant: list[str]) -> None:
    assert near(wrong, NAMES) == meant


@given(WORDS, WORDS)
def test_words_of_a_length_are_near_each_other_or_not(one: str, other: str) -> None:
    other = other[: len(one)].ljust(len(one), "f")
    assert bool(near(one, [other])) == bool(near(other, [one]))
