"""Hashes and records of nats-server: kernel and model agree with each other and with its own hash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import natsblock as model
from slipstream.kernels.backup import natsblock as kernel

# Of the library nats-server uses, for keys and data as made below.
VECTORS = {
    0: "790e0c4775d7e257",
    1: "73f119a83a14a594",
    2: "2438af9f060a3683",
    3: "f95331f7bd164d09",
    4: "f5f1210d2529a225",
    5: "50b25528c8dfe108",
    7: "ffd0bb88945d9d2c",
    8: "f8b8e5230b831dea",
    12: "aa4a959d89e75242",
    15: "adcd2a02d5b69b79",
    16: "9b05d5a243d80bbd",
    17: "cab11b3793ea6231",
    18: "7df8d957decc02d5",
    19: "efbe8de171079c93",
    20: "be45a9611685444b",
    21: "2b7a997750dc54cb",
    23: "ee71b3f0dec7e050",
    28: "8edcb584d5a1b011",
    31: "ded3bf916ba99caa",
    32: "229c63d9bb810904",
    33: "1abd1eeecf33820f",
    36: "9750b4ff622514ff",
    40: "2a6520af35f8ca1c",
    49: "06ba54331a1099a6",
    63: "5296b59681a8964d",
    90: "84b3f4ed009ee90f",
    95: "d464065fa01a97d6",
    96: "f34f1aeaff2e80eb",
    97: "b0b15a417170adb7",
}
KEY = bytes(range(32))

keys = st.binary(min_size=32, max_size=32)
messages = st.builds(
    model.record,
    st.just(KEY),
    st.integers(0, 2**64 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(max_size=40),
    st.one_of(st.just(b""), st.binary(min_size=1, max_size=60)),
    st.binary(max_size=120),
)


def test_the_hash_is_theirs() -> None:
    for size, expected in VECTORS.items():
        key = bytes((place * 7 + size) & 255 for place in range(32))
        data = bytes((place * 31 + 5 * size) & 255 for place in range(size))
        assert kernel.hash64(key, data).hex() == expected, size
        assert model.hash64(key, data).hex() == expected, size


@given(keys, st.binary(max_size=300))
def test_hashes(key: bytes, data: bytes) -> None:
    assert kernel.hash64(key, data) == model.hash64(key, data)


@given(st.lists(messages, max_size=6), st.integers(1, 8))
def test_records(parts: list[bytes], count: int) -> None:
    block = b"".join(parts)
    found, at = kernel.records(block, KEY, 0, count)
    assert (found, at) == model.records(block, KEY, 0, count)
    assert len(found) == min(count, len(parts))


@given(st.lists(messages, min_size=1, max_size=4), st.integers(0, 10_000), st.integers(1, 255), st.integers(0, 30))
def test_damage(parts: list[bytes], place: int, change: int, cut: int) -> None:
    block = bytearray(b"".join(parts))
    block[place % len(block)] ^= change
    damaged = bytes(block[: len(block) - cut])
    assert kernel.records(damaged, KEY, 0, 100) == model.records(damaged, KEY, 0, 100)
    for at in (0, 1, len(damaged) // 2, len(damaged), len(damaged) + 5):
        assert kernel.next_record(damaged, KEY, at) == model.next_record(damaged, KEY, at)


@given(st.binary(max_size=200), st.integers(0, 60))
def test_any_bytes(block: bytes, at: int) -> None:
    assert kernel.records(block, KEY, at, 100) == model.records(block, KEY, at, 100)
    assert kernel.next_record(block, KEY, at) == model.next_record(block, KEY, at)


plain = st.tuples(
    st.integers(0, 2**64 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(max_size=40),
    st.one_of(st.just(b""), st.binary(min_size=1, max_size=60)),
    st.binary(max_size=120),
)


@given(st.lists(plain, max_size=20), keys)
def test_records_are_made_as_they_are_read(written: list[tuple[int, int, bytes, bytes, bytes]], key: bytes) -> None:
    block = kernel.encode(written, key)
    assert block == b"".join(model.record(key, *message) for message in written)
    found, end = kernel.records(block, key, 0, len(written) + 1)
    assert found == written and end == len(block)


def test_what_they_would_not_read_is_not_made() -> None:
    for message in ((1, 0, b"s" * 65_536, b"", b""), (1, 0, b"s", b"", bytes(32 * 1024 * 1024))):
        with pytest.raises(ValueError, match="message 1 is too long"):
            kernel.encode([message], KEY)
