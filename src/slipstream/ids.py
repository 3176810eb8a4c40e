"""Identifiers: unique, and not guessable when the random source is the system's."""

from __future__ import annotations

import string
from typing import Any, Final, Protocol

__all__ = ["RandomSource", "new_nuid"]

_LETTERS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_NUID_LENGTH: Final = 22
_NUIDS: Final = len(_LETTERS) ** _NUID_LENGTH  # one number is quicker made than 22


class RandomSource(Protocol):
    """What `random.Random` and `random.SystemRandom` give; the edge chooses which."""

    def random(self) -> float: ...
    def randrange(self, stop: int, /) -> int: ...
    def randbytes(self, n: int) -> bytes: ...
    def getrandbits(self, k: int, /) -> int: ...
    def shuffle(self, x: list[Any]) -> None: ...


def new_nuid(rng: RandomSource) -> str:
    """A 22-character identifier, as NATS servers and clients make them."""
    number = rng.randrange(_NUIDS)
    letters = []
    for _ in range(_NUID_LENGTH):
        number, digit = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[digit])
    return "".join(letters)
