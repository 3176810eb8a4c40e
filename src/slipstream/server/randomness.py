"""Random numbers of the system, fetched in bulk: an id of 22 letters is no 22 calls to the kernel.

Each such call lets go of the interpreter's lock. With threads at work on files the way back takes half a millisecond,
and an event, a nonce or the jitter of a timer needs many.
"""

from __future__ import annotations

import os
from typing import Any, Final

__all__ = ["PooledRandom"]

_POOL_BYTES: Final = 4096  # some 25 ids of events
_DOUBLE_BYTES: Final = 7  # 56 bits, of which a double between 0 and 1 takes 53
_DOUBLE_BITS: Final = 53


class PooledRandom:
    """As hard to guess as `random.SystemRandom`: every byte is the kernel's, and is used once.

    A `RandomSource`. It does without the module `random`, which takes 1.7 ms of every start.
    """

    def __init__(self) -> None:
        self._pool = b""
        self._used = 0

    def randbytes(self, n: int) -> bytes:
        """So many bytes."""
        begin, end = self._used, self._used + n
        if end > len(self._pool):
            if n > _POOL_BYTES:
                return os.urandom(n)
            self._pool = os.urandom(_POOL_BYTES)
            begin, end = 0, n
        self._used = end
        return self._pool[begin:end]

    def random(self) -> float:
        """From 0 to below 1."""
        bits = int.from_bytes(self.randbytes(_DOUBLE_BYTES)) >> (8 * _DOUBLE_BYTES - _DOUBLE_BITS)
        return bits / (1 << _DOUBLE_BITS)

    def getrandbits(self, k: int, /) -> int:
        """An integer of so many bits."""
        size = (k + 7) // 8
        return int.from_bytes(self.randbytes(size)) >> (8 * size - k)

    def randrange(self, stop: int, /) -> int:
        """An integer from 0 to below this one.

        Raises:
            ValueError: there is none.
        """
        if stop <= 0:
            raise ValueError(f"no integer is below {stop} and not below 0")
        bits = stop.bit_length()
        while (drawn := self.getrandbits(bits)) >= stop:  # cut off it would come more often than others
            pass
        return drawn

    def shuffle(self, x: list[Any]) -> None:
        """Bring a list into any order, each as likely as the others."""
        for place in range(len(x) - 1, 0, -1):
            other = self.randrange(place + 1)
            x[place], x[other] = x[other], x[place]
