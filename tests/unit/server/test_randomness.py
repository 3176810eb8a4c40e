"""Random numbers that are fetched in bulk."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.ids import new_nuid
from slipstream.server.randomness import PooledRandom


@given(st.lists(st.integers(0, 4096), max_size=20))
def test_bytes_are_the_kernels_in_order_and_used_once(sizes: list[int]) -> None:
    given_out = bytearray()
    fetched: list[bytes] = []
    kernel = os.urandom

    def urandom(size: int) -> bytes:
        fetched.append(kernel(size))
        return fetched[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", urandom)
        rng = PooledRandom()
        for size in sizes:
            taken = rng.randbytes(size)
            assert len(taken) == size
            given_out += taken
    at = 0  # in what was fetched: the rest of a pool may be left, nothing is given out twice
    whole = b"".join(fetched)
    for size in sizes:
        taken, given_out = given_out[:size], given_out[size:]
        found = whole.find(taken, at)
        assert found >= at
        at = found + size


@given(st.integers(0, 300))
def test_integers_have_so_many_bits(bits: int) -> None:
    rng = PooledRandom()
    assert all(0 <= rng.getrandbits(bits) < 1 << bits for _ in range(20))
    assert len(rng.randbytes(10_000)) == 10_000


def test_all_values_come_about_equally_often() -> None:
    rng = PooledRandom()
    rolls = Counter(rng.randrange(10) for _ in range(20_000))
    assert all(1_600 < rolls[value] < 2_400 for value in range(10))
    shares = Counter(int(rng.random() * 4) for _ in range(20_000))
    assert set(shares) == {0, 1, 2, 3} and min(shares.values()) > 4_500


def test_many_ids_are_few_calls_and_all_different(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    kernel = os.urandom

    def urandom(size: int) -> bytes:
        nonlocal calls
        calls += 1
        return kernel(size)

    monkeypatch.setattr(os, "urandom", urandom)
    rng = PooledRandom()
    assert len({new_nuid(rng) for _ in range(1_000)}) == 1_000
    assert calls < 50


def test_a_shuffle_keeps_what_there_is_and_reaches_every_order() -> None:
    rng = PooledRandom()
    orders = Counter[str]()
    for _ in range(3_000):
        letters = list("abc")
        rng.shuffle(letters)
        orders["".join(letters)] += 1
    assert len(orders) == 6 and min(orders.values()) > 350
    assert all(sorted(order) == list("abc") for order in orders)


def test_no_integer_is_below_nothing() -> None:
    with pytest.raises(ValueError, match="below 0"):
        PooledRandom().randrange(0)
