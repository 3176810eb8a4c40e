"""Compressed blocks: what is written is read back by kernel and model; what is damaged is refused alike."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import s2block as model
from slipstream.kernels.backup import s2block as kernel

SIZE_MAX = 1 << 20
contents = st.one_of(
    st.binary(max_size=2000),
    st.lists(st.sampled_from([b"a", b"abc", b"orders.eu", bytes(9), b"\xff" * 70]), max_size=300).map(b"".join),
)


def outcome(decode: object, block: bytes) -> bytes | str:
    try:
        return decode(block, SIZE_MAX)  # type: ignore[operator,no-any-return]
    except ValueError as error:
        return str(error)


@given(contents)
def test_a_round_trip(content: bytes) -> None:
    block = kernel.encode_block(content)
    assert kernel.decode_block(block, SIZE_MAX) == content
    assert model.decode_block(block, SIZE_MAX) == content


@given(st.binary(max_size=200))
def test_any_bytes(block: bytes) -> None:
    assert outcome(kernel.decode_block, block) == outcome(model.decode_block, block)


@given(st.integers(0, 300), st.lists(st.binary(min_size=1, max_size=6), max_size=40))
def test_any_elements(size: int, elements: list[bytes]) -> None:
    head = bytes((size & 127 | 128, size >> 7)) if size > 127 else bytes((size,))
    block = head + b"\x0cabcd" + b"".join(elements)
    assert outcome(kernel.decode_block, block) == outcome(model.decode_block, block)


@given(contents, st.integers(0, 10_000), st.integers(1, 255))
def test_damage(content: bytes, place: int, change: int) -> None:
    block = bytearray(kernel.encode_block(content))
    block[place % len(block)] ^= change
    assert outcome(kernel.decode_block, bytes(block)) == outcome(model.decode_block, bytes(block))


def test_repeats_of_s2() -> None:
    """Elements that nats-server writes and we do not: the last offset again, with lengths of one to three bytes."""
    start = b"\x0cabcd" + b"\x01\x04"  # a literal of four, four bytes from four back
    for element, length in (
        (b"\x01\x00", 4),
        (b"\x11\x00", 8),
        (b"\x15\x00\x07", 15),
        (b"\x19\x00\x01\x00", 261),
        (b"\x1d\x00\x02\x00\x00", 65542),
    ):
        size = 8 + length
        head = bytes((size & 127 | 128, size >> 7 & 127 | 128, size >> 14))
        expected = (b"abcd" * size)[:size]
        assert kernel.decode_block(head + start + element, SIZE_MAX) == expected
        assert model.decode_block(head + start + element, SIZE_MAX) == expected


def test_sizes() -> None:
    rng = random.Random(1)
    for size in (65_536, 65_535, 4096, 60, 61, 256, 257):
        for content in (rng.randbytes(size), bytes(size), (b"0123456789abcdef" * size)[:size]):
            assert kernel.decode_block(kernel.encode_block(content), size) == content
    assert len(kernel.encode_block(bytes(65_536))) < 4000
    with pytest.raises(ValueError, match="more than one block"):
        kernel.encode_block(bytes(65_537))
    with pytest.raises(ValueError, match="too large"):
        kernel.decode_block(kernel.encode_block(b"abc"), 2)
