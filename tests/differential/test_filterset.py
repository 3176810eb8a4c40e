"""Many filters asked at once against asking them one by one."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.subject import matches
from slipstream.kernels.subjects.filterset import FilterSet

TOKENS = st.sampled_from([b"a", b"b", b"cc", b"*", b">", b"a*", b">b", b""])
NAMES = st.lists(TOKENS, min_size=1, max_size=5).map(b".".join)


@settings(max_examples=500, deadline=None)
@given(st.lists(NAMES, max_size=12), st.lists(NAMES, min_size=1, max_size=12), st.integers(0, 2**64 - 1))
@example([b"*.a", b"b.*.a", b"b.c.*"], [b"b.c.a", b"b.c.d", b"x.a", b"b.x.x"], 0)
@example([b"a.*.c", b"a.b.d", b"*.b.c.>"], [b"a.b.c", b"a.b.c.d", b"a.b.d", b"a.b"], 7)
def test_a_set_matches_what_one_of_its_filters_matches(filters: list[bytes], subjects: list[bytes], seed: int) -> None:
    asked = FilterSet(filters, seed)
    for subject in [*subjects, *filters]:
        assert asked.matches(subject) == any(matches(one, subject) for one in filters), (filters, subject)


def test_thousands_of_filters_share_their_tokens() -> None:
    patterns = [b"left.%d.*.end" % i for i in range(3000)] + [b"*.%d.>" % i for i in range(3000, 4000)]
    literals = [b"left.%d.middle" % i for i in range(3000)]
    asked = FilterSet([*patterns, *literals, *literals], 3)
    assert asked.patterns == 4000
    assert asked.literals == tuple(literals)
    for i in range(0, 5000, 7):
        assert asked.matches(b"left.%d.x.end" % i) == (i < 4000)
        assert asked.matches(b"right.%d.x" % i) == (3000 <= i < 4000)
        assert asked.matches(b"left.%d.middle" % i) == (i < 4000)


def test_a_deep_filter_is_no_deep_recursion() -> None:
    deep = b".".join([b"*"] * 20_000)
    asked = FilterSet([deep, b".".join([b"a"] * 20_000)], 1)
    assert asked.matches(b".".join([b"a"] * 20_000))
    assert asked.matches(b".".join([b"b"] * 20_000))
    assert not asked.matches(b".".join([b"a"] * 20_001))


def test_filters_are_bytes() -> None:
    with pytest.raises(TypeError):
        FilterSet(["a.b"], 1)  # type: ignore[list-item]
