"""A set of patterns against every pair of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.subject_set import SubjectSetModel
from slipstream.kernels.subjects.subjectset import SubjectSet, TooManySteps

PLENTY = 1_000_000  # steps

_LITERALS = st.sampled_from([b"a", b"b", b"c", b"a>", b"**"])
_TOKENS = st.one_of(_LITERALS, st.just(b"*"))


def _joined(parts: tuple[list[bytes], bytes, bytes]) -> bytes:
    tokens, last, prefix = parts
    return prefix + b".".join([*tokens, last])


# Some begin so deep that there are no nodes for all of their tokens.
_PREFIXES = st.sampled_from([b"", b"", b"", b"x." * 30, b"*." * 31, b"x." * 33])
PATTERNS = st.tuples(
    st.lists(_TOKENS, max_size=3), st.one_of(_TOKENS, st.just(b">"), st.sampled_from([b"", b"a..b"])), _PREFIXES
).map(_joined)


def _both(patterns: list[bytes]) -> tuple[SubjectSet[int], SubjectSetModel]:
    kernel: SubjectSet[int] = SubjectSet()
    model = SubjectSetModel()
    for owner, pattern in enumerate(patterns):
        kernel.add(pattern, owner)
        model.add(pattern, owner)
    return kernel, model


@given(st.lists(PATTERNS, max_size=12), PATTERNS)
def test_one_pattern_against_a_set(patterns: list[bytes], asked: bytes) -> None:
    kernel, model = _both(patterns)
    assert len(kernel) == len(model.members)
    assert sorted(kernel.overlapping(asked, PLENTY)) == model.overlapping(asked)
    assert sorted(kernel.covering(asked, PLENTY)) == model.covering(asked)
    assert sorted(kernel.matching(asked)) == model.matching(asked)
    assert kernel.matches(asked) == bool(model.matching(asked))


@given(st.lists(PATTERNS, max_size=8), st.lists(PATTERNS, max_size=8))
def test_two_sets(first: list[bytes], second: list[bytes]) -> None:
    (one, one_model), (two, two_model) = _both(first), _both(second)
    expected = one_model.overlaps_with(two_model)
    found = one.overlap_with(two, PLENTY)
    assert (found in expected) if expected else (found is None)


@given(st.lists(PATTERNS, max_size=8))
def test_a_set_within_itself(patterns: list[bytes]) -> None:
    kernel, model = _both(patterns)
    overlapping, subsets = model.overlaps_within(), model.subsets_within()
    found = kernel.overlap_within(PLENTY)
    assert (found in overlapping) if overlapping else (found is None)
    found = kernel.subset_within(PLENTY)
    assert (found in subsets) if subsets else (found is None)


@given(st.lists(PATTERNS, max_size=10), st.data())
def test_what_is_removed_leaves_nothing(patterns: list[bytes], data: st.DataObject) -> None:
    kernel, model = _both(patterns)
    order = data.draw(st.permutations(list(model.members)))
    for removed, (pattern, owner) in enumerate(order, 1):
        kernel.remove(pattern, owner)
        model.remove(pattern, owner)
        with pytest.raises(KeyError):
            kernel.remove(pattern, owner)
        assert len(kernel) == len(order) - removed
        for asked in (b">", b"*.>", b"a.*", *patterns):
            assert sorted(kernel.overlapping(asked, PLENTY)) == model.overlapping(asked)


@pytest.mark.parametrize(
    "patterns",
    [
        [b"BENCH.*.%d" % number for number in range(20_000)],
        [b"a%d.*" % number for number in range(20_000)],
        [b"*.a%d" % number for number in range(10_000)] + [b"b%d.c.d" % number for number in range(10_000)],
        [b"L.%d.>" % number for number in range(20_000)],
        [b"s%d" % number for number in range(20_000)],
    ],
    ids=["star inside", "star last", "stars against literals", "tails", "literals"],
)
def test_long_lists_take_few_steps_for_each_member(patterns: list[bytes]) -> None:
    kernel = SubjectSet(patterns)
    assert kernel.overlap_within(10 * len(patterns)) is None
    assert kernel.subset_within(10 * len(patterns)) is None
    assert kernel.overlap_with(SubjectSet([b"z." + pattern for pattern in patterns]), 10 * len(patterns)) is None


def test_wildcards_in_all_places_are_given_up() -> None:
    """Two thousand patterns that differ in where their wildcards are, and in their last token."""
    patterns = [
        b".".join([b"*" if number >> bit & 1 else b"a" for bit in range(11)] + [b"%d" % number])
        for number in range(2048)
    ]
    with pytest.raises(TooManySteps):
        SubjectSet(patterns).overlap_within(500_000)


def test_a_set_is_not_compared_with_itself() -> None:
    kernel = SubjectSet([b"a"])
    with pytest.raises(ValueError, match="overlaps itself"):
        kernel.overlap_with(kernel, PLENTY)
