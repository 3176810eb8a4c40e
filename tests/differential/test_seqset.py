"""The compiled set of sequences against Python's own set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.kernels.index.seqset import SeqSet

SEQS = (
    st.integers(0, 300)
    | st.integers(2000, 6300)
    | st.sampled_from([2047, 2048, 4095, 4096, 1 << 40, (1 << 62) + 5, (1 << 63) + 5, (1 << 64) - 9000])
)
EDITS = st.one_of(
    st.tuples(st.just("add"), SEQS),
    st.tuples(st.just("discard"), SEQS),
    st.tuples(st.just("range"), SEQS, st.integers(0, 4500)),
    st.tuples(st.just("below"), SEQS),
)


@given(st.lists(EDITS, max_size=30), st.lists(SEQS, max_size=8))
def test_agrees_with_a_set(edits: list[tuple], probes: list[int]) -> None:
    fast, plain = SeqSet(), set()
    for edit in edits:
        match edit:
            case ("add", seq):
                assert fast.add(seq) == (seq not in plain)
                plain.add(seq)
            case ("discard", seq):
                assert fast.discard(seq) == (seq in plain)
                plain.discard(seq)
            case ("range", first, length):
                fast.add_range(first, first + length)
                plain.update(range(first, first + length + 1))
            case ("below", seq):
                gone = {s for s in plain if s < seq}
                assert fast.discard_below(seq) == len(gone)
                plain -= gone
    assert len(fast) == len(plain) and bool(fast) == bool(plain)
    assert list(fast) == sorted(plain)
    assert (fast.first, fast.last) == (min(plain, default=None), max(plain, default=None))
    for seq in probes:
        assert (seq in fast) == (seq in plain)
        assert fast.next_from(seq) == min((s for s in plain if s >= seq), default=None)
        missing = seq
        while missing in plain:
            missing += 1
        assert fast.next_missing(seq) == missing
    assert list(SeqSet.from_bytes(fast.to_bytes())) == sorted(plain)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = SeqSet.from_bytes(data)
    except ValueError:
        return
    assert SeqSet.from_bytes(found.to_bytes()).ranges() == found.ranges()


def test_dense_sets_are_small() -> None:
    dense = SeqSet()
    dense.add_range(1, 1_000_000)
    assert dense.memory() < 200_000 and len(dense.to_bytes()) < 10
    dense.discard_below(1_000_001)
    assert len(dense) == 0 and dense.memory() < 10_000


def test_cut_off_form_is_refused() -> None:
    with pytest.raises(ValueError):
        SeqSet.from_bytes(b"\x05\x85")
