"""Inputs that are almost those that are known: changed, cut, repeated and put together, the same for the same seed.

For the form of the fuzzing that runs with every test, where nothing guides it. The campaign is guided by coverage.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from fuzz.target import INPUT_BYTES_MAX

CHANGES_MAX = 4
_NUMBERS = (0, 1, 2, 7, 8, 31, 32, 63, 64, 127, 128, 255, 256, 511, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1, 2**32)
_LARGE = (2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)


def mutated(known: Sequence[bytes], words: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """So many inputs made of those that are known."""
    rng = random.Random(seed)
    for _ in range(count):
        data = bytearray(rng.choice(known))
        for _ in range(rng.randint(1, CHANGES_MAX)):
            _change(rng, data, known, words)
        yield bytes(data[:INPUT_BYTES_MAX])


def _change(rng: random.Random, data: bytearray, known: Sequence[bytes], words: Sequence[bytes]) -> None:
    at = rng.randint(0, len(data))
    match rng.randrange(8):
        case 0 if data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        case 1 if data:
            data[at % len(data)] = rng.randrange(256)
        case 2:
            del data[at : at + rng.randint(1, 16)]
        case 3:
            data[at:at] = rng.randbytes(rng.randint(1, 8))
        case 4:  # a number of some width that is at the edge of something
            width = rng.choice((1, 2, 4, 8))
            number = rng.choice((*_NUMBERS, *_LARGE)) + rng.choice((-1, 0, 0, 1))
            order = rng.choice(("little", "big"))
            data[at : at + width] = (number % 2 ** (8 * width)).to_bytes(width, order)  # type: ignore[arg-type]
        case 5:  # something twice
            data[at:at] = data[at : at + rng.randint(1, 64)]
        case 6 if words:
            data[at : at + rng.choice((0, 0, 4))] = rng.choice(words)
        case _:  # the end of another
            other = rng.choice(known)
            data[at:] = other[rng.randint(0, len(other)) :]
