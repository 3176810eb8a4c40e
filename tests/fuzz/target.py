"""What is fuzzed, and how it is told to a fuzzer.

A target takes any bytes and raises when a promise is broken: an answer that differs from the plain model's, one that
depends on how the bytes were cut, an exception that was not declared. Where bytes carry checksums, the target makes
them right first, so that what lies behind them is reached; the last bit of the first byte leaves them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from zlib import crc32

ACCOUNT_COST = 100  # of a target that makes an account for each input
INPUT_BYTES_MAX = 4096  # what a format does with more it does with this; longer inputs only make it slower


@dataclass(frozen=True)
class Target:
    """One kind of input."""

    name: str
    run: Callable[[bytes], None]
    """Raises when a promise is broken."""
    seeds: Callable[[], list[bytes]]
    """Inputs that get far, to begin with."""
    words: tuple[bytes, ...] = ()
    """Pieces that mean something in this format."""
    cost: int = 1
    """Of one execution, beside one that only parses: so many times fewer are made."""


def cut(data: bytes) -> list[bytes]:
    """The bytes in up to five pieces; where they are cut depends on nothing but them."""
    mixed = crc32(data)
    places = {mixed >> shift & 0xFFFF for shift in (0, 5, 11, 16)}
    borders = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(borders)]


def option(data: bytes) -> tuple[int, bytes]:
    """The first byte, which says how the others are used, and those."""
    return (data[0], data[1:]) if data else (0, b"")
